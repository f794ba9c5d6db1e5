"""The gate: decides from reviews whether a candidate is worse than its base.

The statistics are in `stats.bets`, the differences by query in `boards.differences`, the guard in
`boards.regressions`, the order of queries in `query_orders`. This module adds the check that both
sides had the same judges, a baseline in a file, and the correction for several candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.boards.differences import (
    MEASURES,
    SHARE,
    Comparison,
    OutsideScaleError,
    QueryDifferences,
    judges_of,
    log_order,
    query_differences,
    side_values,
)
from peerage.boards.regressions import find_regressions
from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError, UsageError, few, how_many, meant, shown
from peerage.reports.gate_files import DECIMALS, Baseline, bar_document
from peerage.reports.gate_results import (
    GateResult,
    GateResults,
    GuardResult,
    MeasureResult,
    TellingQuery,
)
from peerage.reports.judge_versions import add_versions, changed_judges, find_versions
from peerage.reports.options import GateOptions, parse_scale
from peerage.reports.query_orders import QueryLooks, QueryOrder, SeasonOrder, order_queries
from peerage.reports.recounts import select_reviews
from peerage.reviews.columns import MARK, span_s
from peerage.reviews.gold import spread_correctness
from peerage.reviews.rows import Rows, has_duplicates, join_rows
from peerage.stats.bets import (
    NEVER,
    EvidenceBar,
    Floats,
    Ints,
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


@dataclass(frozen=True, slots=True)
class CandidateSide:
    """A candidate's differences from the base by query, and what to know about them."""

    comparison: Comparison
    differences: QueryDifferences
    flags: tuple[str, ...]


def decide_gate(
    table: ReviewTable,
    options: GateOptions,
    rubric: Rubric | None = None,
    *,
    baseline: Baseline | None = None,
    season: SeasonOrder | None = None,
    looks_kept: QueryLooks | None = None,
) -> tuple[GateResult, ...]:
    """Return the verdict on each candidate from a table of reviews.

    `season` has the order of a stored season, `looks_kept` the queries that earlier gates looked
    at. Several candidates share the probability of a false verdict.
    """
    rows = gate_rows(table, options, rubric)
    places = None if season is None else season.place_by_session
    order = log_order(rows, places)
    n_repeats = season.n_repeats if season is not None and season.is_drawn else None
    versions = _flag_versions(rows)
    values = None if baseline is None else baseline.values
    sides = []
    for comparison in _sides(rows, options, baseline):
        differences = _on_scale(
            lambda sides=comparison: query_differences(
                rows, sides, values, order=order, n_repeats=n_repeats
            ),
            options,
        )
        if not differences.n:
            raise _never_together(comparison, differences)
        flags = (*_check_judges(differences, comparison, options, baseline), *versions)
        sides.append(CandidateSide(comparison, differences, flags))
    options = options.model_copy(update={"base": sides[0].comparison.base})
    bar = bar_document(options, options.own_votes, options.suite)
    looks_at = order_queries(
        [side.differences for side in sides],
        season,
        earlier=() if looks_kept is None else looks_kept.earlier(bar),
        on=options.on,
        is_suite=options.suite is not None,
    )
    if not looks_at.units:
        raise InputError(
            f"{few(looks_at.flags)}.",
            hint="Continue the season with the same `peerage run` command, and ask again.",
        )
    is_drawn = season is not None and season.is_drawn  # the log keeps this order
    keeps = is_drawn or (looks_kept is not None and looks_kept.keep(bar, looks_at.units))
    return judge_candidates(sides, options, looks_at, bar, keeps_looks=keeps)


def one_or_several(results: Sequence[GateResult]) -> GateResult | GateResults:
    """Return the result on one candidate, or the results on several."""
    return results[0] if len(results) == 1 else GateResults(results[0].base, tuple(results))


def judge_candidates(
    sides: Sequence[CandidateSide],
    options: GateOptions,
    order: QueryOrder,
    bar: Mapping[str, Any],
    *,
    keeps_looks: bool = True,
) -> tuple[GateResult, ...]:
    """Return the verdicts from differences of queries, looked at in an order.

    A look is after each query of the order, for all candidates. Their claims are corrected
    together, by Holm's method over candidates and measures.
    """
    place = {unit: i for i, unit in enumerate(order.units)}
    evidence_bar = EvidenceBar(options.margin, options.alpha, options.suite)
    ordered, evidence, seen = [], [], []
    for side in sides:
        units = side.differences.units
        shown_places = sorted((place[u], i) for i, u in enumerate(units) if u in place)
        if not shown_places:
            raise _never_together(side.comparison, side.differences)
        differences = side.differences.in_order([i for _, i in shown_places])
        _check_suite(differences.n, options)
        ordered.append(differences)
        seen.append(
            np.searchsorted([at for at, _ in shown_places], np.arange(len(place)), side="right")
        )
        evidence += [
            {
                claim: _at_looks(path, seen[-1])
                for claim, path in log_evidence(one, evidence_bar).items()
            }
            for one in differences.by_measure
        ]
    first = iter(first_looks(evidence, evidence_bar))
    return tuple(
        _judge(
            side,
            differences,
            options,
            order,
            bar,
            [_own_looks(next(first), n_seen) for _ in differences.by_measure],
            len(sides),
            keeps_looks,
        )
        for side, differences, n_seen in zip(sides, ordered, seen, strict=True)
    )


def _check_suite(n: int, options: GateOptions) -> None:
    if options.suite is not None and options.suite < n:
        raise UsageError(
            f"the suite has {how_many(options.suite, 'query', 'queries')}, but {n:,} were judged.",
            hint=f"Pass --suite {n}, or select queries with --season or --on.",
        )


def _at_looks(path: Floats, n_seen: Ints) -> Floats:
    """Return the highest evidence so far at each look, given how many queries had been seen."""
    highest = np.concatenate([[-np.inf], np.maximum.accumulate(path)])
    return highest[n_seen]


def _own_looks(first: dict[str, int], n_seen: Ints) -> dict[str, int]:
    """Return after how many of its own queries each claim on a candidate was proven."""
    return {c: look if look == NEVER else int(n_seen[look - 1]) for c, look in first.items()}


def _judge(
    side: CandidateSide,
    differences: QueryDifferences,
    options: GateOptions,
    order: QueryOrder,
    bar: Mapping[str, Any],
    first: Sequence[dict[str, int]],
    n_candidates: int,
    keeps_looks: bool,
) -> GateResult:
    # The intervals of several candidates hold together.
    shared = EvidenceBar(options.margin, options.alpha / n_candidates, options.suite)
    results = tuple(
        _measure_result(measure, path, shared, stood)
        for measure, path, stood in zip(
            side.comparison.measures, differences.by_measure, first, strict=True
        )
    )
    decision = decide_all([one.decision for one in results])
    needed = None
    if decision.verdict == "undecided":
        needed = max(queries_needed(path, shared) for path in differences.by_measure)
    return GateResult(
        side.comparison.base,
        side.comparison.candidate,
        decision,
        results,
        differences.n,
        len({one for some in differences.sessions for one in some}),
        needed,
        bar,
        order.words,
        *_most_telling(differences),
        guard=_guard(differences, n_candidates, is_on=options.guard),
        n_candidates=n_candidates,
        keeps_looks=keeps_looks,
        parameters={"since": options.since, **options.chosen, "allow": options.allow},
        flags=(*side.flags, *order.flags, *_flag_left_out(differences)),
    )


def _guard(differences: QueryDifferences, n_candidates: int, *, is_on: bool) -> GuardResult:
    """Return what the guard found, whether or not it is on."""
    findings = find_regressions(differences, n_candidates)
    worse, better, repeated = (
        tuple(_telling(differences, i) for i in places)
        for places in (findings.regressions, findings.improvements, findings.repeated_regressions)
    )
    return GuardResult(
        is_on,
        findings.n_checked,
        worse,
        better,
        findings.p,
        findings.blocks,
        findings.n_repeated,
        findings.most_repeats,
        findings.repeats_needed,
        repeated,
    )


def _flag_left_out(differences: QueryDifferences) -> list[str]:
    """Return flags on queries without a value, and on sessions that do not count."""
    flags = []
    if differences.n_incomplete:
        left_out = how_many(differences.n_incomplete, "query", "queries")
        lack = "a value on some measure" if differences.n_counted == 1 else "a value or a repeat"
        flags.append(f"{left_out} left out, for lack of {lack}")
    if differences.n_asked_more:
        n, least = differences.n_counted, differences.n_asked_least
        more = how_many(differences.n_asked_more, "query was", "queries were")
        first = "session" if n == 1 else f"{n} sessions"
        flags.append(
            f"{more} asked more often than the others; of each query the first {first} count, "
            f"because {how_many(least, 'query has', 'queries have')} no more (asking a lost query "
            "again would favour the candidate)"
        )
    return flags


def _measure_result(
    measure: str, path: Floats, bar: EvidenceBar, first: dict[str, int]
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


def _sides(rows: Rows, options: GateOptions, baseline: Baseline | None) -> list[Comparison]:
    """Return the comparisons that the options describe; raise an error for unknown names."""
    if baseline is not None and options.base and options.base != baseline.base:
        raise UsageError(
            f"the baseline was saved for {shown(baseline.base)}, but --base is "
            f"{shown(options.base)}.",
            hint="Omit --base.",
        )
    base = _known_model(rows, options.base, "base") if baseline is None else baseline.base
    candidates = [_known_model(rows, one, "candidate") for one in options.candidate or ("",)]
    if base in candidates and baseline is None:
        raise UsageError(f"the base and the candidate are the same model, {shown(base)}.")
    comparisons = [_comparison(rows, options, base, candidate) for candidate in candidates]
    first = comparisons[0]
    if baseline is not None and (first.measures, first.scale) != (
        baseline.measures,
        baseline.scale,
    ):
        raise UsageError(
            f"the baseline was measured by {', '.join(baseline.measures)} on the scale "
            f"{baseline.scale[0]:g} to {baseline.scale[1]:g}.",
            hint="Pass the same --metric, --dimensions and --scale.",
        )
    return comparisons


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
    differences: QueryDifferences,
    comparison: Comparison,
    options: GateOptions,
    baseline: Baseline | None,
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
            are_peers = names <= {comparison.base, comparison.candidate}
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
