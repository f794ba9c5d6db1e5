"""The gate: decides from reviews whether a candidate is worse than its base.

The statistics are in `stats.bets`, the differences by query in `boards.differences`. This module
adds a fixed order of queries, the check that both sides had the same judges, a baseline in a file,
and the bar (the evidence that a verdict requires) that a season was started with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerage.boards.differences import (
    MEASURES,
    MIN_JUDGES,
    SHARE,
    Comparison,
    OutsideScaleError,
    QueryDifferences,
    hashed_order,
    judges_of,
    query_differences,
    side_values,
)
from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError, UsageError, few, how_many, meant, shown
from peerage.reports.gate_files import DECIMALS, Baseline, bar_document, hash_of
from peerage.reports.judge_versions import add_versions, changed_judges, find_versions
from peerage.reports.options import GateOptions, parse_scale
from peerage.reports.recounts import select_reviews
from peerage.reviews.columns import MARK, span_s
from peerage.reviews.gold import spread_correctness
from peerage.reviews.rows import Rows, has_duplicates, join_rows
from peerage.stats.bets import (
    NEVER,
    EvidenceBar,
    GateVerdict,
    Look,
    decide,
    decide_all,
    first_looks,
    interval,
    log_evidence,
    looks,
    queries_needed,
    total_evidence,
)
from peerage.types import Rubric

N_LOOKS = 40  # points on a chart
N_TELLING = 5  # sessions shown for each side
EXIT_CODES = {"worse": 1, "undecided": 3}  # every other verdict exits with 0
UNDECIDED_CODES = {None: 3, "pass": 0, "fail": 1}


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """The result on one measure: the verdict, the difference and the evidence."""

    measure: str
    decision: GateVerdict
    difference: float
    low: float
    high: float
    log10_evidence: Mapping[str, float | None]  # None: infinite, as the suite is known
    looks: tuple[Look, ...]

    def document(self) -> dict[str, Any]:
        """Return the JSON of the measure."""
        return {
            "measure": self.measure,
            "verdict": self.decision.verdict,
            "decided_after": self.decision.after,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "log10_evidence": dict(self.log10_evidence),
            "looks": [look._asdict() for look in self.looks],
        }


@dataclass(frozen=True, slots=True)
class TellingQuery:
    """A query with a strong preference for one side, or a clear regression, with its sessions."""

    query: str
    difference: float
    sessions: tuple[str, ...]
    n_judges: int
    n_against: int

    def document(self) -> dict[str, Any]:
        """Return the JSON of the query."""
        return {
            "query": self.query,
            "difference": self.difference,
            "sessions": list(self.sessions),
            "judges": self.n_judges,
            "against": self.n_against,
        }


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict on a candidate, with the evidence."""

    base: str
    candidate: str
    decision: GateVerdict
    measures: tuple[MeasureResult, ...]
    n_queries: int
    n_sessions: int
    needed: int | None  # queries still needed, if undecided
    bar: Mapping[str, Any]
    order: str  # how the order of queries was fixed
    for_candidate: tuple[TellingQuery, ...] = ()
    for_base: tuple[TellingQuery, ...] = ()
    guarded: bool = False
    n_guarded: int = 0  # queries that enough judges compared
    regressions: tuple[TellingQuery, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    registered: str = ""  # the hash of the bar that the season was started with
    flags: tuple[str, ...] = ()

    @property
    def bar_hash(self) -> str:
        """The hash that identifies the bar."""
        return hash_of(self.bar)

    @property
    def fails(self) -> bool:
        """Whether the candidate is worse, or the guard found a regression."""
        return self.decision.verdict == "worse" or bool(self.regressions)

    def exit_code(self, undecided: str | None = None) -> int:
        """Return 0 for not worse, 1 for worse, and for undecided 3 or the given code."""
        if self.fails:
            return EXIT_CODES["worse"]
        is_undecided = self.decision.verdict == "undecided"
        return UNDECIDED_CODES[undecided] if is_undecided else 0

    def document(self) -> dict[str, Any]:
        """Return the JSON of the gate."""
        first = self.measures[0].document()
        return {
            "gate": f"{self.candidate} against {self.base}",
            "base": self.base,
            "candidate": self.candidate,
            "verdict": self.decision.verdict,
            "decided_after": self.decision.after,
            **{name: first[name] for name in ("difference", "low", "high")},
            "queries": self.n_queries,
            "sessions": self.n_sessions,
            "queries_needed": self.needed,
            "measures": [one.document() for one in self.measures],
            "bar": dict(self.bar),
            "bar_hash": self.bar_hash,
            "registered": self.registered or None,
            "order": self.order,
            "for_candidate": [one.document() for one in self.for_candidate],
            "for_base": [one.document() for one in self.for_base],
            "guard": {
                "queries_checked": self.n_guarded,
                "regressions": [one.document() for one in self.regressions],
            }
            if self.guarded
            else None,
            "parameters": dict(self.parameters),
            "flags": list(self.flags),
        }


# -- a baseline in a file ------------------------------------------------------------------------


def make_baseline(table: ReviewTable, options: GateOptions, rubric: Rubric | None) -> Baseline:
    """Return the base's value on each query on which it was judged."""
    rows = gate_rows(table, options, rubric)
    base = _known_model(rows, options.base, "base")
    comparison = _comparison(rows, options, base, base)
    values = _on_scale(lambda: side_values(rows, comparison), options)
    if not values:
        hint = ""
        if options.metric == "share":
            hint = "A share needs rivals: let two seats or more answer, or use --metric mark."
        raise InputError(
            f"no review of {shown(base)} has a value for the metric {options.metric}.", hint=hint
        )
    judges = judges_of(rows, base, options.own_votes)
    return Baseline(base, comparison.measures, comparison.scale, values, judges)


# -- the decision --------------------------------------------------------------------------------


def decide_gate(
    table: ReviewTable,
    options: GateOptions,
    rubric: Rubric | None = None,
    *,
    baseline: Baseline | None = None,
    place_by_session: Mapping[str, int] | None = None,
) -> GateResult:
    """Return the verdict on a candidate from a table of reviews.

    `place_by_session` has the positions of a season's sessions in its file of prompts; they give
    the order of its queries.
    """
    rows = gate_rows(table, options, rubric)
    comparison = _sides(rows, options, baseline)
    options = options.model_copy(
        update={"base": comparison.base, "candidate": comparison.candidate}
    )
    values = None if baseline is None else baseline.values
    differences = _on_scale(lambda: query_differences(rows, comparison, values), options)
    if not differences.n:
        raise _never_together(comparison, differences)
    flags = [*_check_judges(differences, options, baseline), *_flag_versions(rows)]
    order, places = _order(rows, differences, options, place_by_session)
    return judge_differences(
        differences.in_order(places), options, comparison.measures, order, tuple(flags)
    )


def judge_differences(
    differences: QueryDifferences,
    options: GateOptions,
    measures: Sequence[str],
    order: str,
    flags: tuple[str, ...] = (),
) -> GateResult:
    """Return the verdict from the ordered differences of queries."""
    n, suite = differences.n, options.suite
    if suite is not None and suite < n:
        raise UsageError(
            f"the suite has {how_many(suite, 'query', 'queries')}, but {n:,} were judged.",
            hint=f"Pass --suite {n}, or select queries with --season or --on.",
        )
    bar = EvidenceBar(options.margin, options.alpha, suite)
    evidence = [log_evidence(path, bar) for path in differences.by_measure]
    first = first_looks(evidence, bar)
    decisions = [decide(one) for one in first]
    results = tuple(
        _measure_result(measure, path, bar, stood)
        for measure, path, stood in zip(measures, differences.by_measure, first, strict=True)
    )
    decision = decide_all(decisions)
    needed = None
    if decision.verdict == "undecided":
        needed = max(queries_needed(path, bar) for path in differences.by_measure)
    left_out = how_many(differences.n_incomplete, "query", "queries")
    more = [f"{left_out} left out, for lack of a value on some measure"]
    return GateResult(
        options.base,
        options.candidate,
        decision,
        results,
        n,
        len({one for some in differences.sessions for one in some}),
        needed,
        bar_document(options, options.own_votes, suite),
        order,
        *_most_telling(differences),
        guarded=options.guard,
        n_guarded=sum(view.n_judges >= MIN_JUDGES for view in differences.views),
        regressions=tuple(
            _telling(differences, i) for i in (differences.regressions() if options.guard else ())
        ),
        parameters={"since": options.since, **options.chosen, "allow": options.allow},
        flags=(*flags, *(more if differences.n_incomplete else [])),
    )


def _measure_result(
    measure: str, path: Any, bar: EvidenceBar, first: dict[str, int]
) -> MeasureResult:
    decision = decide(first)
    stood = [n for n in first.values() if n != NEVER]
    low, high = interval(path, bar)
    totals = total_evidence(path, bar)
    mean = math.fsum(path.tolist()) / len(path)
    return MeasureResult(
        measure,
        decision,
        round(mean, DECIMALS) + 0.0,
        round(min(low, mean), DECIMALS) + 0.0,
        round(max(high, mean), DECIMALS) + 0.0,
        {
            name: round(total / math.log(10.0), 6) + 0.0 if math.isfinite(total) else None
            for name, total in totals.items()
        },
        tuple(_round_look(look) for look in looks(path, bar, _chart_points(len(path), stood))),
    )


def _round_look(look: Look) -> Look:
    return Look(look.n, *(round(value, 6) + 0.0 for value in look[1:]))


def _chart_points(n: int, stood: Sequence[int]) -> list[int]:
    """Return the looks that a chart shows: evenly spaced, and the first proof of each claim."""
    even = np.linspace(1, n, min(n, N_LOOKS)).astype(int).tolist()
    return sorted({*even, *stood})


def _telling(differences: QueryDifferences, i: int) -> TellingQuery:
    view = differences.views[i]
    return TellingQuery(
        differences.units[i].partition(" ")[2],  # without "query" or "session"
        round(float(differences.by_measure[0, i]), DECIMALS) + 0.0,
        differences.sessions[i],
        view.n_judges,
        view.n_against,
    )


def _most_telling(
    differences: QueryDifferences,
) -> tuple[tuple[TellingQuery, ...], tuple[TellingQuery, ...]]:
    """Return the queries with the strongest preference for the candidate, and for the base."""
    first = differences.by_measure[0].tolist()
    order = sorted(range(differences.n), key=lambda i: (-abs(first[i]), differences.units[i]))
    better = [i for i in order if first[i] > 0.0][:N_TELLING]
    worse = [i for i in order if first[i] < 0.0][:N_TELLING]
    return (
        tuple(_telling(differences, i) for i in better),
        tuple(_telling(differences, i) for i in worse),
    )


# -- which reviews -------------------------------------------------------------------------------


def gate_rows(table: ReviewTable, options: GateOptions, rubric: Rubric | None) -> Rows:
    """Return the reviews that a gate's options select."""
    needs = {"rank", "score", "round", "at", "query_id", "fingerprint", "season", "category"}
    needs |= {"correct"}
    marks = {name for name in table.columns if name.startswith(MARK)}
    chosen = select_reviews(table.load(needs | marks), options, rubric)
    rows = spread_correctness(join_rows(chosen.map(lambda rows: rows)))
    if has_duplicates(rows):
        table.refuse_duplicates()
    if options.on is not None:
        known = rows.labels_there("category")
        if options.on not in known:
            raise UsageError(
                f"no query has the category {shown(options.on)}.", hint=meant(options.on, known)
            )
        rows = rows.only(rows.has_label("category", options.on))
    span = span_s(options.since)
    if span is not None and table.latest is not None and "at" in rows.numbers:
        last = np.full(rows.n_sessions, -np.inf)
        np.fmax.at(last, rows.session, rows.numbers["at"])
        rows = rows.only((last >= table.latest - span)[rows.session])
    return rows


def _sides(rows: Rows, options: GateOptions, baseline: Baseline | None) -> Comparison:
    """Return the comparison that the options describe; raise an error for unknown names."""
    if baseline is not None:
        if options.base and options.base != baseline.base:
            raise UsageError(
                f"the baseline was saved for {shown(baseline.base)}, but --base is "
                f"{shown(options.base)}.",
                hint="Omit --base.",
            )
        candidate = _known_model(rows, options.candidate, "candidate")
        comparison = _comparison(rows, options, baseline.base, candidate)
        if (comparison.measures, comparison.scale) != (baseline.measures, baseline.scale):
            raise UsageError(
                f"the baseline was measured by {', '.join(baseline.measures)} on the scale "
                f"{baseline.scale[0]:g} to {baseline.scale[1]:g}.",
                hint="Pass the same --metric, --dimensions and --scale.",
            )
        return comparison
    base = _known_model(rows, options.base, "base")
    candidate = _known_model(rows, options.candidate, "candidate")
    if base == candidate:
        raise UsageError(f"the base and the candidate are the same model, {shown(base)}.")
    return _comparison(rows, options, base, candidate)


def _known_model(rows: Rows, name: str, side: str) -> str:
    if not name.strip():
        or_file = ", or --against FILE for a saved baseline" if side == "base" else ""
        raise UsageError(f"the {side} is missing.", hint=f"As in --{side} NAME{or_file}.")
    there = {rows.names[code] for code in np.unique(rows.candidate).tolist()}
    if not there:
        raise InputError("no reviews match these options.")
    if name not in there:
        hint = meant(name, there)
        raise UsageError(f"there is no model {shown(name)} in these reviews.", hint=hint)
    return name


def _comparison(rows: Rows, options: GateOptions, base: str, candidate: str) -> Comparison:
    measures: tuple[str, ...] = MEASURES.get(options.metric, ())
    if options.metric == "dimension":
        known = sorted(name.removeprefix(MARK) for name in rows.numbers if name.startswith(MARK))
        if not known:
            raise InputError(
                "no review has marks for dimensions of a rubric, which --metric dimension compares."
            )
        for name in options.dimensions:
            if name not in known:
                raise UsageError(
                    f"no review has a mark for {shown(name)}.", hint=meant(name, known)
                )
        measures = tuple(sorted(set(options.dimensions))) or tuple(known)
    elif options.metric == "mark" and "score" not in rows.numbers:
        raise InputError("the reviews have no scores.", hint="Use --metric share.")
    elif options.metric == "correct" and not np.isfinite(rows.number("correct")).any():
        raise InputError(
            "no answer is marked as correct or incorrect.",
            hint="Give prompts an `expected` answer or tables a `correct` column, or decide "
            "at /adjudicate.",
        )
    return Comparison(base, candidate, measures, parse_scale(options.scale), options.own_votes)


def _on_scale(compute: Any, options: GateOptions) -> Any:
    """Return the result of a function; turn a mark outside the scale into an InputError."""
    try:
        return compute()
    except OutsideScaleError as error:
        low, high = parse_scale(options.scale)
        raise InputError(
            f"a mark of {error} lies outside the scale {low:g} to {high:g}.",
            hint="Pass the scale that the judges used, as in --scale 0,100.",
        ) from None


def _never_together(comparison: Comparison, differences: QueryDifferences) -> InputError:
    n_base, n_candidate = differences.n_by_side
    of = "" if comparison.measures == (SHARE,) else f" by {', '.join(comparison.measures)}"
    return InputError(
        f"{comparison.base} and {comparison.candidate} were never judged on the same query{of}: "
        f"{comparison.base} on {how_many(n_base, 'query', 'queries')}, "
        f"{comparison.candidate} on {n_candidate:,}.",
        hint="Run both on the same prompts; repeats are matched by query_id.",
    )


JUDGES_HINT = (
    "A change of judge can look like a change of model. Judge both with the same panel, or pass "
    "--allow."
)
PEERS_HINT = (
    "No seat judges its own answers, so their judges are not the same. Give both seats "
    'roles = ["answer"] in peerage.toml, compare them in one set of reviews (--base in place of '
    "--against), or pass --allow."
)


def _check_judges(
    differences: QueryDifferences, options: GateOptions, baseline: Baseline | None
) -> list[str]:
    """Return flags on the judges of both sides; raise an error if they differ, unless allowed."""
    if not differences.n_apart or options.metric == "correct":  # no judge decides what is correct
        return []
    of_base = differences.sides[0] if baseline is None else baseline.judges
    of_candidate = differences.sides[1]
    flags = [
        f"{differences.n_apart} of {how_many(differences.n, 'query', 'queries')}: the two models "
        "were not judged on one ballot, so their rivals may differ"
    ]
    if of_base != of_candidate:
        differing = f"the judges of the two sides differ: {few(_differing(of_base, of_candidate))}"
        if not options.allow:
            names = {name for name, _ in of_base ^ of_candidate}
            are_peers = names <= {options.base, options.candidate}
            raise UsageError(f"{differing}.", hint=PEERS_HINT if are_peers else JUDGES_HINT)
        flags.append(differing)
    if any(not fingerprint for _, fingerprint in of_base | of_candidate):
        flags.append("some judges have no fingerprint, so it is unknown whether they changed")
    return flags


def _differing(
    of_base: frozenset[tuple[str, str]], of_candidate: frozenset[tuple[str, str]]
) -> list[str]:
    """Return the judges that differ between the two sides, and how."""
    on_both = {name for name, _ in of_base} & {name for name, _ in of_candidate}
    names = sorted({name for name, _ in of_base ^ of_candidate})
    return [f"{name} (different fingerprints)" if name in on_both else name for name in names]


def _flag_versions(rows: Rows) -> list[str]:
    """Return a flag on judges whose fingerprint changed within the reviews, if any did."""
    changed = sorted(changed_judges(add_versions([find_versions(rows)])))
    words = "the fingerprints of these judges changed within the reviews"
    return [f"{words}: {few(changed)}"] if changed else []


def _order(
    rows: Rows,
    differences: QueryDifferences,
    options: GateOptions,
    place_by_session: Mapping[str, int] | None,
) -> tuple[str, list[int]]:
    """Return how the order of the queries was chosen, and the order; it ignores outcomes.

    A query is placed by the last of its sessions.
    """
    units = differences.units
    shuffled = hashed_order(units)
    if options.suite is not None:
        return "by a hash of each query's name", shuffled
    rank = {place: i for i, place in enumerate(shuffled)}
    if place_by_session is not None:
        last: list[float] = [
            max(place_by_session.get(one, 0) for one in some) for some in differences.sessions
        ]
        order = sorted(range(len(units)), key=lambda i: (last[i], rank[i]))
        return "as in the season's prompts", order
    at = np.full(rows.n_sessions, -np.inf)
    if "at" in rows.numbers:
        np.fmax.at(at, rows.session, rows.numbers["at"])
    time_by_session = dict(zip(rows.session_ids.tolist(), at.tolist(), strict=True))
    last = [max(time_by_session[one] for one in some) for some in differences.sessions]
    if not all(map(math.isfinite, last)):
        return "by a hash of each query's name", shuffled
    return "by time of review", sorted(range(len(units)), key=lambda i: (last[i], rank[i]))
