"""The audit of many sessions: sums of each block of rows, added up, then findings.

An engine runs `sums_of` on every block of whole sessions, and `add_totals` merges the results. From
these totals reviewers' levels and scales are fitted. `compared_over` reads the blocks again with
these fixed (a few times more if a reviewer is clearly biased, to measure the others without it),
and `measure_audit` measures every metric from all sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add as added
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from peerage.biases import Metric, Panel, Sums, agreement, metrics
from peerage.biases.comparison import Compared, compare
from peerage.biases.position import curve_of
from peerage.biases.preferences import Tastes
from peerage.biases.thresholds import Tested, finding, mark_contested, unknown
from peerage.findings import N_MIN, Audit, AuditLimits, AuditTastes, Departure, Finding
from peerage.registry import PluginError
from peerage.reviews.cells import Cells, Ints, Tables, merge_tables
from peerage.reviews.comparisons import ScoredRows, View, scored_rows
from peerage.reviews.deviations import deviation_sums, totals_by
from peerage.reviews.intervals import LONE_CLUSTER
from peerage.reviews.one_scale import (
    MAX_PATTERN_CELLS,
    PanelSums,
    Scales,
    join_scored,
    panel_sums,
    scales_of_panel,
    scales_of_rows,
)
from peerage.reviews.rows import Rows, chunks
from peerage.stats.tails import benjamini_hochberg

ORDER = tuple(name for name in N_MIN if name != "length_in_session")  # other metrics follow by name
CHUNK_ROWS = 262_144
MAX_SCALES = 100  # reviewers whose scales are listed
PANEL_PART = 0.25  # of the false alarm rate goes to findings on the whole panel
T = TypeVar("T")
DIGITS = 10  # significant digits: the last bits depend on the order in which sums were added


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The plan of an audit: which column is the score, and which metrics the columns allow."""

    value: str = "score"  # "score", "rank" or "mark_…"
    metrics: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()  # marks whose agreement is reported as well
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by metric


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of every metric, and the range of the scores."""

    by_metric: Mapping[str, Sums]
    by_dimension: Mapping[str, Cells]
    low: float
    high: float
    n: int  # scored reviews, own ones included
    n_rows: int
    judges: PanelSums | None  # sums to fit scales from; None if that needs the rows
    failed: Mapping[str, str] = field(default_factory=dict)  # a plug-in's error message, by metric

    def with_metrics(self, by_metric: Mapping[str, Sums], failed: Mapping[str, str]) -> Totals:
        """Return these totals with the sums of more metrics."""
        by_metric, failed = {**self.by_metric, **by_metric}, {**self.failed, **failed}
        return replace(self, by_metric=by_metric, failed=failed)


class Blocks(Protocol):
    """A table that can be read in blocks: applies a function to each block of whole sessions."""

    def __call__(self, kernel: Callable[[Rows], T], /) -> Sequence[T]: ...


def plan(columns: Sequence[str], value: str) -> AuditPlan:
    """Return the metrics that these columns allow, and the columns that other metrics lack."""
    have = set(columns)
    missing = {
        name: lacking
        for name, metric in metrics
        if (lacking := tuple(need for need in metric.needs if need not in have))
    }
    marks = tuple(sorted(name for name in have if name.startswith("mark_")))
    allowed = [name for name in sorted(metrics.names(), key=_place) if name not in missing]
    return AuditPlan(value, tuple(allowed), marks if value == "score" else (), missing)


def split_metrics(plan: AuditPlan) -> tuple[AuditPlan, AuditPlan]:
    """Return two plans: one without the metrics that compare sessions, and one with only those."""
    across = tuple(name for name in plan.metrics if metrics.get(name).across_sessions)
    within = tuple(name for name in plan.metrics if name not in across)
    return replace(plan, metrics=within), replace(plan, metrics=across, dimensions=())


def sums_of(rows: Rows, plan: AuditPlan) -> Totals:
    """Return every metric's sums over one block of whole sessions.

    For metrics that compare sessions, all sessions of one query must be in one block.
    """
    within, across = split_metrics(plan)
    total = add_totals([_sums(part, within) for part in _chunks(rows, plan)])
    if not across.metrics:
        return total
    return total.with_metrics(*_every_sums(View(rows, plan.value), across.metrics))


def _sums(rows: Rows, plan: AuditPlan) -> Totals:
    view = View(rows, plan.value)
    scored = view.every_score
    by_dimension = {
        name.removeprefix("mark_"): agreement.dimension_sums(View(rows, name))
        for name in plan.dimensions
    }
    by_metric, failed = _every_sums(view, plan.metrics)
    return Totals(
        by_metric,
        by_dimension,
        float(scored.min(initial=math.inf)),
        float(scored.max(initial=-math.inf)),
        len(scored),
        rows.n,
        panel_sums(view.scored),
        failed,
    )


def _chunks(rows: Rows, plan: AuditPlan) -> Iterator[Rows]:
    """Yield chunks of whole sessions; smaller ones for ranks, which become many comparisons."""
    return chunks(rows, CHUNK_ROWS // (8 if plan.value == "rank" else 1))


def _every_sums(view: View, names: tuple[str, ...]) -> tuple[dict[str, Sums], dict[str, str]]:
    """Return the sums of each metric, and the error message of each plug-in that failed."""
    by_metric: dict[str, Sums] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            by_metric[name] = metrics.get(name).sums(view)
        except PluginError as error:
            failed[name] = error.message
    return by_metric, failed


def add_totals(parts: Sequence[Totals]) -> Totals:
    """Return the totals of all blocks."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    failed = {name: message for part in parts for name, message in part.failed.items()}
    whole = [name for name in first.by_metric if name not in failed]
    return Totals(
        {name: merge_tables([part.by_metric[name] for part in parts]) for name in whole},
        merge_tables([part.by_dimension for part in parts]),
        min(part.low for part in parts),
        max(part.high for part in parts),
        sum(part.n for part in parts),
        sum(part.n_rows for part in parts),
        _added_judges([part.judges for part in parts]),
        failed,
    )


def _added_judges(parts: Sequence[PanelSums | None]) -> PanelSums | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    total = reduce(added, known)
    return None if total.yy.size > MAX_PATTERN_CELLS else total


# -- reviewers on one scale ------------------------------------------------------------------------


def compared_over(blocks: Blocks, totals: Totals, plan: AuditPlan, limits: AuditLimits) -> Compared:
    """Return reviewers on one scale; a clearly biased reviewer takes more than one pass."""
    rows: list[ScoredRows] = []  # filled only if scales cannot be fitted from sums

    def over(make: Callable[[ScoredRows], T], add: Callable[[Sequence[T]], T]) -> T:
        return add(blocks(partial(_sum_scored, plan=plan, make=make, add=add)))

    def fit(aside: Ints) -> Scales:
        judges = totals.judges
        if judges is not None and len(aside):
            judges = over(partial(panel_sums, aside=aside), _added_judges)
        if judges is not None:
            return scales_of_panel(judges, aside)
        if not rows:
            rows.append(over(lambda part: part, join_scored))
        return scales_of_rows(rows[0], aside)

    def sums(scales: Scales) -> Tables:
        return over(partial(deviation_sums, scales=scales), merge_tables)

    return compare(fit, sums, limits.healthy, limits.n_min)


def _sum_scored(
    rows: Rows, plan: AuditPlan, make: Callable[[ScoredRows], T], add: Callable[[Sequence[T]], T]
) -> T:
    """Return the sum of a function over the scored rows of a block, a chunk at a time."""
    return add([make(scored_rows(part, plan.value)) for part in _chunks(rows, plan)])


# -- findings --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of every metric, before corrections, and the data of charts."""

    tested: Sequence[Tested]
    views: Mapping[str, Any]
    tastes: AuditTastes

    def with_ranked(self, ranks: Measured, names: Collection[str], n: int) -> Measured:
        """Return these results on scores, and those on ranks about reviewers who give no scores.

        `n` is the number of their reviews.
        """
        views = {**self.views, "ranked": sorted(names)}
        views["reviewers"] += len(names)
        views["reviews"] += n
        tested = [one for one in ranks.tested if one.subject.partition(">")[0] in names]
        departures = [one for one in ranks.tastes.departures if one.reviewer in names]
        tastes = replace(self.tastes, departures=(*self.tastes.departures, *departures))
        return Measured([*self.tested, *tested], views, tastes)

    def audit(self) -> Audit:
        """Return the findings, with q-values over all of them together."""
        return Audit(as_findings(self.tested), {}, self.views, self.tastes)


def measure_audit(
    totals: Totals, compared: Compared, names: tuple[str, ...], plan: AuditPlan, limits: AuditLimits
) -> Measured:
    """Return the results of every metric, and the data of charts."""
    panel = panel_of(totals, compared, names, limits)
    tested = measure_all(totals, panel, plan)
    return Measured(tested, _views(totals, plan, panel), _tastes(compared.tastes, names))


def as_findings(tested: Sequence[Tested]) -> tuple[Finding, ...]:
    """Return measured values as findings, with q-values over all of them together."""
    n_tested = Counter(one.subject == "all" for one in tested if one.counts)
    part = _parts_of_chance(tested)
    findings = [
        finding(one, q, n_tested[one.subject == "all"] / part.get(one.subject == "all", 1.0))
        for one, q in zip(tested, q_values(tested), strict=True)
    ]
    return tuple(map(_round_finding, findings))


def q_values(tested: Sequence[Tested]) -> list[float | None]:
    """Return Benjamini–Hochberg q-values over all findings; no metric lowers another one's q.

    One harsh reviewer makes every reviewer's level significant. If these counted as discoveries for
    other metrics, fair judges would be accused of another bias in 7% of audits. So each metric is
    corrected as if the others had found nothing, which never gives a smaller q than a correction
    over all discoveries. Findings on the whole panel are few, one per metric however many reviewers
    there are: they are corrected among themselves, and get a quarter of the audit's false alarm
    rate.
    """
    families = [(one.metric, one.subject == "all") for one in tested]
    part = _parts_of_chance(tested)
    qs: list[float | None] = [None] * len(tested)
    for metric, of_all in set(families):
        ps = [
            None if not one.counts or whole != of_all else one.p if name == metric else 1.0
            for one, (name, whole) in zip(tested, families, strict=True)
        ]
        for i, q in enumerate(benjamini_hochberg(ps)):
            if families[i] == (metric, of_all):
                qs[i] = None if q is None else min(1.0, q / part[of_all])
    return qs


def _parts_of_chance(tested: Sequence[Tested]) -> dict[bool, float]:
    """Return the share of the false alarm rate for whole-panel findings, and for the others."""
    groups = {one.subject == "all" for one in tested if one.counts}
    if len(groups) < 2:
        return dict.fromkeys(groups, 1.0)
    return {True: PANEL_PART, False: 1.0 - PANEL_PART}


def measure_all(totals: Totals, panel: Panel, plan: AuditPlan) -> list[Tested]:
    """Return the results of every metric, before corrections and statuses."""
    tested: list[Tested] = []
    compared = panel.compared.plain
    plain = None if compared is None else replace(panel, compared=compared)
    for name in sorted({*plan.metrics, *plan.missing}, key=_place):
        metric = metrics.get(name)
        why = _lacking(metric, plan) or _nothing(totals, panel) or totals.failed.get(name)
        if not why:
            try:
                findings = metric.findings(totals.by_metric[name], panel)
                if plain is not None:
                    before = metric.findings(totals.by_metric[name], plain)
                    by_subject = {one.subject: one for one in before}
                    findings = [
                        mark_contested(one, by_subject.get(one.subject)) for one in findings
                    ]
                tested += findings
                why = "" if findings else metric.nothing
            except PluginError as error:
                why = error.message
        if why and not metric.is_rare:
            tested.append(unknown(name, panel, why))
    if len(np.unique(totals.by_metric["calibration"]["reviews"].cluster)) != 1:
        return tested
    return [
        one
        if one.value is None or one.p is not None
        else replace(one, note=f"{one.note}; {LONE_CLUSTER}")
        for one in tested
    ]


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def panel_of(
    totals: Totals, compared: Compared, names: tuple[str, ...], limits: AuditLimits
) -> Panel:
    """Return the panel: its reviewers, and the units of healthy ranges."""
    cells = totals.by_metric["calibration"]["reviews"]
    reviewers, place = np.unique(cells.subject, return_inverse=True)
    n, y, yy = totals_by(place, cells.sums, len(reviewers)).T
    squares = float(np.maximum(0.0, yy - y * y / np.maximum(n, 1.0)).sum())
    spare = float(n.sum()) - len(reviewers)
    sd = math.sqrt(squares / spare) if spare > 0 else 0.0
    scale = totals.high - totals.low if totals.n else 0.0
    sd = 0.0 if sd <= 1e-9 * max(abs(totals.high), abs(totals.low), scale) else sd
    return Panel(names, limits, sd, scale, len(reviewers), compared, totals.by_dimension)


def _nothing(totals: Totals, panel: Panel) -> str:
    """Return the reason why nothing can be measured at all; empty if something can."""
    if totals.n_rows == 0:
        return "there are no reviews"
    if totals.n == 0:
        return "no review has a score or a rank: all reviewers abstained"
    if panel.sd == 0.0:
        return "each reviewer gives equal scores to all answers, so nothing can be compared"
    return ""


def _lacking(metric: Metric, plan: AuditPlan) -> str:
    """Return a note about missing columns; empty if none are missing."""
    listed = " and ".join(f"`{name}`" for name in plan.missing.get(metric.name, ()))
    reason = f" ({metric.why})" if metric.why else ""
    return f"needs the column {listed}{reason}" if listed else ""


def _round_finding(one: Finding) -> Finding:
    numbers = ("value", "low", "high", "p", "q", "mde", "edge")
    rounded: dict[str, Any] = {name: _significant(getattr(one, name)) for name in numbers}
    return one._replace(**rounded)


def _significant(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}") + 0.0  # no −0.0


def _views(totals: Totals, plan: AuditPlan, panel: Panel) -> dict[str, Any]:
    """Return the data that charts draw in addition to the findings."""
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


def _tastes(tastes: Tastes, names: tuple[str, ...]) -> AuditTastes:
    """Return each reviewer's departures by candidate, own answers included, in its own sd."""
    departures = []
    measured = (*tastes.departures, *tastes.own_departures)
    for one in sorted(measured, key=lambda one: one.subject):
        reviewer, candidate = divmod(one.subject, len(names))
        if one.n > 0:
            value, low, high = (
                None if points is None or one.unit <= 0.0 else _significant(points / one.unit)
                for points in (one.value, one.low, one.high)
            )
            whose = (names[reviewer], names[candidate], reviewer == candidate)
            departures.append(Departure(*whose, value, low, high, one.n, one.note))
    status: Literal["estimated", "assumed"] = "estimated" if tastes.known else "assumed"
    return AuditTastes(_significant(tastes.spread) or 0.0, status, tuple(departures))


def _scales(panel: Panel) -> list[dict[str, Any]]:
    """Return the level and scale of the first reviewers, with their precision."""
    scales = panel.compared.scales
    judged = np.flatnonzero((scales.sd > 0.0) | (np.array(scales.status) == "constant"))
    listed = []
    for who in judged[:MAX_SCALES].tolist():
        columns = (scales.level, scales.scale, scales.scale_se)
        level, scale, error = (_significant(float(column[who])) for column in columns)
        if scales.status[who] not in ("estimated", "contrarian"):
            scale = error = None  # they were not estimated
        listed.append(
            {
                "reviewer": panel.names[who],
                "level": level,
                "scale": scale,
                "scale_se": error,
                "answers_shared": int(scales.n_shared[who]),
                "status": scales.status[who],
            }
        )
    return listed
