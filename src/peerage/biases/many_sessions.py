"""The audit of many sessions: sums of each block of rows, added up, then findings.

`sums_of` is what an engine runs on every block of whole sessions, and `add` joins blocks. From
these totals reviewers' levels and scales are fitted; `compared_over` passes over the blocks again
with those fixed (and a few times more where somebody is evidently biased, to measure the others
without); and `conclude` turns it all into findings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from peerage.biases import Metric, Panel, Sums, agreement, metrics
from peerage.biases.position import curve_of
from peerage.biases.thresholds import Tested, finding
from peerage.biases.wording import unknown
from peerage.plugins import PluginError
from peerage.reviews.cells import Cells, merge
from peerage.reviews.comparisons import scored_rows
from peerage.reviews.departures import Compared, TwoPasses, compare
from peerage.reviews.deviations import DeviationSums, add_deviations, deviation_sums
from peerage.reviews.one_scale import (
    MAX_PATTERN_CELLS,
    Ints,
    PanelSums,
    Scales,
    ScoredRows,
    joined,
    panel_sums,
    scales_of_panel,
    scales_of_rows,
)
from peerage.reviews.rows import Floats, Rows, chunks
from peerage.reviews.view import View
from peerage.reviews.votes import shares
from peerage.stats.tails import benjamini_hochberg
from peerage.types import Audit, AuditLimits, Finding

ORDER = (  # of the findings: as the documents list the metrics; others follow by name
    "length",
    "length_relative",
    "position",
    "calibration",
    "self_preference",
    "family_preference",
    "anchoring",
    "consistency",
    "style",
    "sycophancy",
    "reasoning_length",
    "agreement",
    "effective_votes",
    "drift",
)
CHUNK_ROWS = 262_144
MAX_SCALES = 100  # reviewers whose scales are listed
T = TypeVar("T")
DIGITS = 10  # significant ones: the last bits depend on the order in which sums were added


@dataclass(frozen=True, slots=True)
class Plan:
    """What is audited: which column is the score, which metrics the columns allow."""

    value: str = "score"  # "score", "rank" or "mark_…"
    metrics: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()  # marks that agreement is reported for beside the score
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns by metric


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of every metric, and the range of the scores."""

    by_metric: Mapping[str, Sums]
    by_dimension: Mapping[str, Cells]
    low: float
    high: float
    n: int  # scored reviews, own ones included
    n_rows: int
    judges: PanelSums | None  # what scales are fitted from; None where that takes the rows
    failed: Mapping[str, str] = field(default_factory=dict)  # what a plug-in raised, by metric


class Blocks(Protocol):
    """A table that can be passed over: a function's value on each block of whole sessions."""

    def __call__(self, kernel: Callable[[Rows], T], /) -> Sequence[T]: ...


def plan(columns: Sequence[str], value: str) -> Plan:
    """The metrics that these columns allow, and what the others lack."""
    have = set(columns)
    every = dict(metrics)
    missing = {
        name: lacking
        for name, metric in every.items()
        if (lacking := tuple(need for need in metric.needs if need not in have))
    }
    known = [name for name in ORDER if name in every]
    known += [name for name in every if name not in ORDER]
    marks = tuple(sorted(name for name in have if name.startswith("mark_")))
    dimensions = marks if value == "score" else ()
    return Plan(value, tuple(n for n in known if n not in missing), dimensions, missing)


def split(plan: Plan) -> tuple[Plan, Plan]:
    """The plan without the metrics that compare sessions, and a plan of those alone."""
    across = tuple(name for name in plan.metrics if metrics.get(name).across_sessions)
    within = tuple(name for name in plan.metrics if name not in across)
    return replace(plan, metrics=within), replace(plan, metrics=across, dimensions=())


def sums_of(rows: Rows, plan: Plan) -> Totals:
    """Every metric's sums over one block of whole sessions.

    Where metrics compare sessions, those that ask one query must be in one block.
    """
    across = tuple(name for name in plan.metrics if metrics.get(name).across_sessions)
    within = tuple(name for name in plan.metrics if name not in across)
    parts = [_sums(part, plan, within) for part in _chunks(rows, plan)]
    total = add(parts)
    if not across:
        return total
    view = View(rows, _scores(rows, plan))
    compared, failed = _every_sums(view, across)
    return replace(
        total,
        by_metric={**total.by_metric, **compared},
        failed={**total.failed, **failed},
    )


def _sums(rows: Rows, plan: Plan, names: tuple[str, ...]) -> Totals:
    view = View(rows, _scores(rows, plan))
    scored = view.every_score
    by_dimension = {
        name.removeprefix("mark_"): agreement.dimension_sums(View(rows, rows.numbers[name]))
        for name in plan.dimensions
    }
    by_metric, failed = _every_sums(view, names)
    return Totals(
        by_metric,
        by_dimension,
        float(scored.min(initial=math.inf)),
        float(scored.max(initial=-math.inf)),
        len(scored),
        rows.n,
        panel_sums(scored_rows(rows, plan.value)),
        failed,
    )


def _chunks(rows: Rows, plan: Plan) -> Iterator[Rows]:
    """Whole sessions, a few at a time; ranks become many comparisons."""
    return chunks(rows, CHUNK_ROWS // (8 if plan.value == "rank" else 1))


def _every_sums(view: View, names: tuple[str, ...]) -> tuple[dict[str, Sums], dict[str, str]]:
    """The sums of each metric, and what a plug-in says that has none."""
    found: dict[str, Sums] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found[name] = metrics.get(name).sums(view)
        except PluginError as error:
            failed[name] = error.message
    return found, failed


def _scores(rows: Rows, plan: Plan) -> Floats:
    return shares(rows) if plan.value == "rank" else rows.numbers[plan.value]


def add(parts: Sequence[Totals]) -> Totals:
    """The totals of all blocks."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    failed = {name: said for part in parts for name, said in part.failed.items()}
    whole = [name for name in first.by_metric if name not in failed]
    return Totals(
        {name: _added([part.by_metric[name] for part in parts]) for name in whole},
        {name: merge([part.by_dimension[name] for part in parts]) for name in first.by_dimension},
        min(part.low for part in parts),
        max(part.high for part in parts),
        sum(part.n for part in parts),
        sum(part.n_rows for part in parts),
        _added_judges([part.judges for part in parts]),
        failed,
    )


def _added_judges(parts: Sequence[PanelSums | None]) -> PanelSums | None:
    total: PanelSums | None = None
    for part in parts:
        if part is None:
            return None
        total = part if total is None else total + part
        if total.yy.size > MAX_PATTERN_CELLS:
            return None
    return total


def _added(parts: Sequence[Sums]) -> Sums:
    """Each table of a metric; a block without it (no dealt orders, say) adds nothing to it."""
    tables = dict.fromkeys(table for part in parts for table in part)
    return {table: merge([part[table] for part in parts if table in part]) for table in tables}


# -- reviewers on one scale ------------------------------------------------------------------------


def compared_over(blocks: Blocks, totals: Totals, plan: Plan, limits: AuditLimits) -> Compared:
    """Reviewers on one scale, in one more pass over the blocks where nobody is evidently biased."""
    rows: list[ScoredRows] = []  # only where scales cannot be fitted from sums

    def fit(aside: Ints) -> Scales:
        judges = totals.judges
        if judges is not None and len(aside):
            judges = _added_judges(blocks(partial(_judges, plan=plan, aside=aside)))
        if judges is not None:
            return scales_of_panel(judges, aside)
        if not rows:
            rows.append(joined(blocks(partial(_scored, plan=plan))))
        return scales_of_rows(rows[0], aside)

    def sums(scales: Scales) -> DeviationSums:
        return add_deviations(blocks(partial(_deviations, plan=plan, scales=scales)))

    return compare(TwoPasses(fit, sums), limits.healthy, limits.n_min)


def _judges(rows: Rows, plan: Plan, aside: Ints) -> PanelSums | None:
    parts = [panel_sums(scored_rows(part, plan.value), aside) for part in _chunks(rows, plan)]
    return _added_judges(parts)


def _scored(rows: Rows, plan: Plan) -> ScoredRows:
    return joined([scored_rows(part, plan.value) for part in _chunks(rows, plan)])


def _deviations(rows: Rows, plan: Plan, scales: Scales) -> DeviationSums:
    parts = _chunks(rows, plan)
    return add_deviations([deviation_sums(scored_rows(part, plan.value), scales) for part in parts])


# -- findings --------------------------------------------------------------------------------------


def conclude(
    totals: Totals, compared: Compared, names: tuple[str, ...], plan: Plan, limits: AuditLimits
) -> Audit:
    """Every metric's findings, with q-values over all of them together."""
    panel = panel_of(totals, compared, names, limits)
    tested = measured(totals, panel, plan)
    findings = [finding(one, q) for one, q in zip(tested, q_values(tested), strict=True)]
    return Audit(tuple(map(_rounded, findings)), {}, _views(totals, plan, panel))


def q_values(tested: Sequence[Tested]) -> list[float | None]:
    """Benjamini–Hochberg's q of each, over all of them; but no metric lowers another's bar.

    One harsh reviewer makes every level evident, and with those among the discoveries fair judges
    would be accused of something else in 7% of audits. So a metric is corrected as if the others
    had found nothing, which makes no q smaller than it is over all discoveries.
    """
    ps = [one.p if one.counts else None for one in tested]
    n = sum(p is not None for p in ps)
    qs: dict[int, float | None] = {}
    for metric in dict.fromkeys(one.metric for one in tested):
        own = [i for i, one in enumerate(tested) if one.metric == metric]
        n_others = n - sum(ps[i] is not None for i in own)
        found = benjamini_hochberg([*(ps[i] for i in own), *[1.0] * n_others])
        qs.update(zip(own, found, strict=False))
    return [qs[i] for i in range(len(tested))]


def measured(totals: Totals, panel: Panel, plan: Plan) -> list[Tested]:
    """What every metric measured, before anything is corrected or called by a name."""
    reason = _nothing(totals, panel)
    tested: list[Tested] = []
    for name in sorted({*plan.metrics, *plan.missing}, key=_place):
        metric = metrics.get(name)
        if name in plan.missing:
            tested.append(_lacking(metric, plan.missing[name], panel))
        elif reason:
            tested.append(unknown(name, panel.n_min(name), reason))
        elif name in totals.failed:
            tested.append(unknown(name, panel.n_min(name), totals.failed[name]))
        else:
            try:
                tested += metric.findings(totals.by_metric[name], panel)
            except PluginError as error:
                tested.append(unknown(name, panel.n_min(name), error.message))
    if not _is_lone(totals):
        return tested
    return [
        replace(one, note=f"{one.note}; {LONE}") if one.value is not None and one.p is None else one
        for one in tested
    ]


LONE = "one session, or one query asked again and again: no telling how it would vary"


def _is_lone(totals: Totals) -> bool:
    return len(np.unique(totals.by_metric["calibration"]["reviews"].cluster)) == 1


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def panel_of(
    totals: Totals, compared: Compared, names: tuple[str, ...], limits: AuditLimits
) -> Panel:
    """Who judged, and the units that healthy ranges are in."""
    cells = totals.by_metric["calibration"]["reviews"]
    reviewers, place = np.unique(cells.subject, return_inverse=True)
    n, y, yy = (np.bincount(place, cells.sums[:, i], minlength=len(reviewers)) for i in range(3))
    squares = float(np.maximum(0.0, yy - y * y / np.maximum(n, 1.0)).sum())
    spare = float(n.sum()) - len(reviewers)
    sd = math.sqrt(squares / spare) if spare > 0 else 0.0
    scale = totals.high - totals.low if totals.n else 0.0
    sd = 0.0 if sd <= 1e-9 * max(abs(totals.high), abs(totals.low), scale) else sd
    return Panel(names, limits, sd, scale, len(reviewers), compared, totals.by_dimension)


def _nothing(totals: Totals, panel: Panel) -> str:
    """Why nothing at all can be said, where that is so."""
    if totals.n_rows == 0:
        return "there are no reviews"
    if totals.n == 0:
        return "no review carries a score or a rank: all abstained"
    if panel.sd == 0.0:
        return "a reviewer's scores are all alike, so nothing can be compared"
    return ""


def _lacking(metric: Metric, columns: tuple[str, ...], panel: Panel) -> Tested:
    listed = " and ".join(f"`{name}`" for name in columns)
    why = f" ({metric.why})" if metric.why else ""
    return unknown(metric.name, panel.n_min(metric.name), f"needs the column {listed}{why}")


def _rounded(one: Finding) -> Finding:
    return one._replace(
        value=_significant(one.value),
        low=_significant(one.low),
        high=_significant(one.high),
        p=_significant(one.p),
        q=_significant(one.q),
        mde=_significant(one.mde),
        edge=_significant(one.edge),
    )


def _significant(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}") + 0.0  # no −0.0


def _views(totals: Totals, plan: Plan, panel: Panel) -> dict[str, Any]:
    """What charts draw beside the findings."""
    views: dict[str, Any] = {
        "score": "share" if plan.value == "rank" else plan.value,
        "sd": _significant(panel.sd),
        "scale": _significant(panel.scale),
        "reviews": totals.n,
        "rows": totals.n_rows,
        "reviewers": panel.n_reviewers,
        "scales": _scales(panel),
    }
    if "position" in totals.by_metric and totals.n:
        views["position_curve"] = [
            {"position": at, "mean": _significant(mean), "n": n}
            for at, mean, n in curve_of(totals.by_metric["position"]["curve"])
        ]
    return views


def _scales(panel: Panel) -> list[dict[str, Any]]:
    """Every reviewer's level and scale, with how far to trust them; of many, the first few."""
    scales = panel.compared.scales
    judged = np.flatnonzero((scales.sd > 0.0) | (np.array(scales.status) == "constant"))
    listed = []
    for who in judged[:MAX_SCALES].tolist():
        told = scales.status[who] in ("estimated", "contrarian")  # else it is no estimate at all
        listed.append(
            {
                "reviewer": panel.names[who],
                "level": _significant(float(scales.level[who])),
                "scale": _significant(float(scales.scale[who])) if told else None,
                "scale_se": _significant(float(scales.scale_se[who])) if told else None,
                "answers_shared": int(scales.n_shared[who]),
                "status": scales.status[who],
            }
        )
    return listed
