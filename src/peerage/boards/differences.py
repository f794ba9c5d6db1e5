"""The difference between two models on each query, which a gate decides from.

Each query gives one number in [−1, 1], however many judges, orders and repeats it has: judgements
of one query share its difficulty and its answers, so they are not independent.

Every query counts with as many sessions as the query that has the fewest, the earliest ones. A
query that was asked again because the candidate had lost would favour the candidate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from peerage.boards.common_cells import shares_on_common_rivals
from peerage.reviews.cells import Bools, Floats, Ints, dense, group
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Rows
from peerage.reviews.votes import Votes, votes
from peerage.stats.clusters import quotient
from peerage.types import OwnVotes

# Measures that are not a dimension of a rubric.
SHARE, SCORE, CORRECT = "share", "score", "correct answers"
MEASURES = {"share": (SHARE,), "mark": (SCORE,), "correct": (CORRECT,)}  # by metric


class OutsideScaleError(ValueError):
    """A mark lies outside the scale; its text is the mark."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two models to compare, the measures, and how votes count."""

    base: str
    candidate: str
    measures: tuple[str, ...] = (SHARE,)  # share, score, or dimensions
    scale: tuple[float, float] = (1.0, 10.0)
    own_votes: OwnVotes = "out"


@dataclass(frozen=True, slots=True)
class JudgeView:
    """The votes of judges who compared both answers of a query."""

    n_judges: int
    n_against: int  # judges who put the candidate below the base
    n_for: int = 0  # judges who put it above the base


class RepeatView(NamedTuple):
    """The repeats of a query that may show a regression on it alone: signs of their differences.

    These are its planned repeats, or those after them if a query was asked again.
    """

    n_against: int = 0
    n_for: int = 0
    mean: float = 0.0

    @property
    def n(self) -> int:
        """The number of repeats with a difference."""
        return self.n_against + self.n_for


NO_REPEATS = RepeatView()


@dataclass(frozen=True, slots=True)
class QueryDifferences:
    """Queries that both models were judged on, in a fixed order, and their differences.

    `sides` has the judges of each side, with fingerprints, on queries where the two models were
    never on one ballot. On other queries both sides have the same judges.
    """

    units: tuple[str, ...]
    by_measure: Floats  # measures by queries
    sessions: tuple[tuple[str, ...], ...]  # ids, by query
    views: tuple[JudgeView, ...]
    n_apart: int = 0  # queries on which the two models were never on one ballot
    n_incomplete: int = 0  # queries that lack a value for a measure and are left out
    n_by_side: tuple[int, int] = (0, 0)  # queries with the base, and with the candidate
    sides: tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = (frozenset(),) * 2
    repeats: tuple[RepeatView, ...] = ()  # by query; empty if no query has any
    n_counted: int = 1  # sessions of each query that count
    n_asked_more: int = 0  # queries with more sessions than that
    n_asked_least: int = 0  # queries with no more sessions than that
    categories: tuple[str, ...] = ()  # by query; empty if there are none

    @property
    def n(self) -> int:
        return len(self.units)

    def in_order(self, order: Sequence[int]) -> QueryDifferences:
        """Return some of the queries in another order."""
        return replace(
            self,
            units=tuple(self.units[i] for i in order),
            by_measure=self.by_measure[:, list(order)],
            sessions=tuple(self.sessions[i] for i in order),
            views=tuple(self.views[i] for i in order),
            repeats=tuple(self.repeats[i] for i in order) if self.repeats else (),
            categories=tuple(self.categories[i] for i in order) if self.categories else (),
        )


def order_digest(unit: str, seed: str = "gate") -> bytes:
    """Return what a query is sorted by in an order that is unrelated to its outcome."""
    return hashlib.sha256(f"{seed}|{unit}".encode("utf-8", "surrogatepass")).digest()


def log_order(rows: Rows, place_by_session: Mapping[str, float] | None = None) -> Floats:
    """Return a number for each session that grows in the order of the log.

    A season's sessions have places; other sessions are sorted by time, and those without a time
    come last, in the order of the table.
    """
    at = np.full(rows.n_sessions, np.inf)
    if "at" in rows.numbers:
        known = np.isfinite(rows.numbers["at"])
        np.minimum.at(at, rows.session[known], rows.numbers["at"][known])
    ids = rows.session_ids.tolist()
    known_places = place_by_session or {}
    places = np.array([known_places.get(one, -1.0) for one in ids], dtype=np.float64)
    order = np.empty(rows.n_sessions)
    order[np.lexsort((np.arange(rows.n_sessions), at, places))] = np.arange(rows.n_sessions)
    return order


def query_differences(
    rows: Rows,
    comparison: Comparison,
    baseline: Mapping[str, Sequence[float]] | None = None,
    *,
    order: Floats | None = None,
    n_repeats: int | None = None,
) -> QueryDifferences:
    """Return the difference of two models on each query that has both, sorted by query.

    If some sessions of a query have both models, the difference is the mean over these sessions;
    else it is the mean of the candidate's sessions minus the mean of the base's. A `baseline` has
    the base's values by query. `order` is the place of each session in the log. `n_repeats` is the
    planned number of sessions of each query: a query with fewer is left out. Without it, the query
    with the fewest sessions decides how many of each query count.
    """
    values = [_session_values(rows, comparison, measure) for measure in comparison.measures]
    base, candidate = (np.array([pair[side] for pair in values]) for side in (0, 1))
    order = log_order(rows) if order is None else order
    code, units = rows.queries()
    n = len(units)
    if baseline is not None:
        return _against_baseline(
            rows, comparison, baseline, candidate, units, code, order, n_repeats
        )
    there = [np.isfinite(side).any(axis=0) for side in (base, candidate)]
    by_session = candidate[0] - base[0]  # NaN unless the session has both
    both = np.isfinite(base) & np.isfinite(candidate)
    is_paired = _count(code, both.any(axis=0), n) > 0
    used = [np.where(is_paired[code], both.any(axis=0), side) for side in there]
    ranks = [_ranks_within(code, order, side, n) for side in used]
    n_sessions = np.minimum(*(_count(code, side, n) for side in used))
    judged = np.isfinite(_difference(base, candidate, code, n)).all(axis=0)
    n_counted = _n_counted(n_sessions[judged], n_repeats)
    counted = [rank < n_counted for rank in ranks]
    base, candidate = np.where(counted[0], base, np.nan), np.where(counted[1], candidate, np.nan)
    difference = _difference(base, candidate, code, n)
    complete = np.isfinite(difference).all(axis=0) & (n_sessions >= n_counted)
    places = np.flatnonzero(complete)
    sessions_apart = (complete & ~is_paired)[code]
    n_by_side = len(np.unique(code[there[0]])), len(np.unique(code[there[1]]))
    return QueryDifferences(
        tuple(units[i] for i in places.tolist()),
        difference[:, places],
        _session_ids(rows, code, counted[0] | counted[1], places),
        _judge_views(rows, comparison, code, n, places, counted[0] & counted[1]),
        n_apart=int((complete & ~is_paired).sum()),
        n_incomplete=int((np.isfinite(difference).any(axis=0) & ~complete).sum()),
        n_by_side=n_by_side,
        sides=(
            judges_of(rows, comparison.base, comparison.own_votes, sessions_apart & counted[0]),
            judges_of(
                rows, comparison.candidate, comparison.own_votes, sessions_apart & counted[1]
            ),
        ),
        repeats=_repeat_views(by_session, code, ranks[0], n_counted, places),
        n_counted=n_counted,
        n_asked_more=int((n_sessions[places] > n_counted).sum()),
        n_asked_least=int((n_sessions[places] <= n_counted).sum()),
        categories=_categories(rows, code, places),
    )


def _difference(base: Floats, candidate: Floats, code: Ints, n: int) -> Floats:
    """Return the difference of each query by measure; NaN where a side has no value."""
    both = np.isfinite(base) & np.isfinite(candidate)
    paired = _mean_by(code, candidate - base, both, n)
    apart = _mean_by(code, candidate, np.isfinite(candidate), n)
    apart = apart - _mean_by(code, base, np.isfinite(base), n)
    return np.where(np.isfinite(paired), paired, apart)


def _count(code: Ints, use: Bools, n: int) -> Ints:
    """Return how many of the used sessions each query has."""
    return np.bincount(code[use], minlength=n)


def _ranks_within(code: Ints, order: Floats, use: Bools, n: int) -> Ints:
    """Return the rank of each used session among those of its query; a large number for others."""
    places = np.flatnonzero(use)
    places = places[np.lexsort((order[places], code[places]))]
    first = np.concatenate([[0], np.cumsum(_count(code, use, n))])[code[places]]
    ranks = np.full(len(code), np.iinfo(np.int64).max)
    ranks[places] = np.arange(len(places)) - first
    return ranks


def _n_counted(n_sessions: Ints, n_repeats: int | None) -> int:
    """Return how many sessions of each query count, given how many the judged queries have."""
    return n_repeats or int(n_sessions.min(initial=np.iinfo(np.int64).max))


def _repeat_views(
    difference: Floats, code: Ints, rank: Ints, n_counted: int, places: Ints
) -> tuple[RepeatView, ...]:
    """Return the repeats by query that may show a regression on it; empty if no query has any.

    Asking a query again after a loss begins with a selected loss, so only the sessions after those
    that were planned count, or the planned ones if they are more.
    """
    use = np.isfinite(difference)
    n = int(code.max(initial=-1)) + 1
    n_planned = n_counted if n_counted > 1 else 0
    is_later = (_count(code, use, n) - n_counted > n_planned)[code]
    use &= np.where(is_later, rank >= n_counted, rank < n_planned)
    if not use.any():
        return ()
    n_used = _count(code, use, n)
    n_against, n_for = (_count(code, use & (sign * difference > 0.0), n) for sign in (-1.0, 1.0))
    mean = quotient(np.bincount(code[use], difference[use], minlength=n), n_used)
    return tuple(
        RepeatView(int(n_against[i]), int(n_for[i]), float(mean[i])) if n_used[i] else NO_REPEATS
        for i in places.tolist()
    )


def _categories(rows: Rows, code: Ints, places: Ints) -> tuple[str, ...]:
    """Return the category of each of these queries; empty if no query has one."""
    if "category" not in rows.keys:
        return ()
    category = np.full(int(code.max(initial=-1)) + 1, -1)
    np.maximum.at(category, code[rows.session], rows.keys["category"])
    labels = [*rows.labels["category"].tolist(), ""]
    return tuple(labels[category[i]] for i in places.tolist()) if (category >= 0).any() else ()


def _against_baseline(
    rows: Rows,
    comparison: Comparison,
    baseline: Mapping[str, Sequence[float]],
    candidate: Floats,
    units: Sequence[str],
    code: Ints,
    order: Floats,
    n_repeats: int | None,
) -> QueryDifferences:
    n, n_measures = len(units), len(comparison.measures)
    nothing = [np.nan] * n_measures
    base = np.array([baseline.get(unit, nothing) for unit in units], dtype=np.float64)
    base = base.reshape(n, n_measures).T
    used: Bools = np.asarray(np.isfinite(candidate).any(axis=0))
    n_sessions = np.where(np.isfinite(base).any(axis=0), _count(code, used, n), 0)
    n_counted = _n_counted(n_sessions[n_sessions > 0], n_repeats)
    counted = _ranks_within(code, order, used, n) < n_counted
    mean = _mean_by(code, np.where(counted, candidate, np.nan), np.isfinite(candidate) & counted, n)
    difference = mean - base
    complete: Bools = np.asarray(np.isfinite(difference).all(axis=0)) & (n_sessions >= n_counted)
    places = np.flatnonzero(complete)
    return QueryDifferences(
        tuple(units[i] for i in places.tolist()),
        difference[:, places],
        _session_ids(rows, code, counted, places),
        tuple(JudgeView(0, 0) for _ in places),
        n_apart=len(places),
        n_by_side=(len(baseline), int(np.isfinite(mean).any(axis=0).sum())),
        sides=(
            frozenset(),
            judges_of(rows, comparison.candidate, comparison.own_votes, complete[code] & counted),
        ),
        n_counted=n_counted,
        n_asked_more=int((n_sessions[places] > n_counted).sum()),
        n_asked_least=int((n_sessions[places] <= n_counted).sum()),
        categories=_categories(rows, code, places),
    )


def side_values(rows: Rows, comparison: Comparison) -> dict[str, tuple[float, ...]]:
    """Return the base's value of each measure by query, for a baseline file."""
    values = np.array([_session_values(rows, comparison, one)[0] for one in comparison.measures])
    code, units = rows.queries()
    used: Bools = np.asarray(np.isfinite(values).any(axis=0))
    n_sessions = _count(code, used, len(units))
    n_counted = _n_counted(n_sessions[n_sessions > 0], None)
    counted = _ranks_within(code, log_order(rows), used, len(units)) < n_counted
    means = _mean_by(code, values, np.isfinite(values) & counted, len(units))
    return {
        unit: tuple(mean.tolist())
        for unit, mean in zip(units, means.T, strict=True)
        if np.isfinite(mean).all()
    }


def candidate_shares(rows: Rows, own_votes: OwnVotes) -> dict[str, float]:
    """Return the mean share of rivals that each candidate beat over some sessions."""
    shares = {}
    for code in np.unique(rows.candidate).tolist():
        name = rows.names[code]
        sessions, _ = _session_values(rows, Comparison(name, name, own_votes=own_votes), SHARE)
        if np.isfinite(sessions).any():
            shares[name] = float(np.nanmean(sessions))
    return shares


def judges_of(
    rows: Rows, model: str, own_votes: OwnVotes, sessions: Bools | None = None
) -> frozenset[tuple[str, str]]:
    """Return the judges of a model in some sessions, each with its fingerprint ("" if unknown)."""
    others = rows.reviewer != rows.candidate if own_votes != "in" else np.ones(rows.n, dtype=bool)
    mine = (rows.candidate == rows.code(model)) & others
    if sessions is not None:
        mine &= sessions[rows.session]
    prints = rows.keys.get("fingerprint", np.full(rows.n, -1))[mine]
    labels = [*rows.labels.get("fingerprint", ()), ""]
    pairs = set(zip(rows.reviewer[mine].tolist(), prints.tolist(), strict=True))
    return frozenset((rows.names[reviewer], str(labels[code])) for reviewer, code in pairs)


def _mean_by(code: Ints, values: Floats, known: Bools, n: int) -> Floats:
    """Return the means of values by code, one row per measure; NaN if there is none."""
    means = np.full((len(values), n), np.nan)
    for place, (row, use) in enumerate(zip(values, known, strict=True)):
        count = np.bincount(code[use], minlength=n)
        total = np.bincount(code[use], row[use], minlength=n)
        means[place, count > 0] = total[count > 0] / count[count > 0]
    return means


def _session_values(rows: Rows, comparison: Comparison, measure: str) -> tuple[Floats, Floats]:
    """Return the values of base and candidate in each session, NaN without a vote or mark.

    Shares are those that the board counts. In a session in which a judge did not rank all answers
    of others, they are those on the rivals that both met there, if there are any.

    Marks are divided by the scale's range, so that their differences lie in [−1, 1].
    """
    candidates, n_candidates = dense(rows.candidate)
    answers = group((rows.session, rows.n_sessions), (candidates, n_candidates))
    n_by_session = np.bincount(answers.first(rows.session), minlength=rows.n_sessions)
    cast = votes(rows, comparison.own_votes, n_by_session)
    if measure == SHARE:
        value, counts = cast.share, cast.counts
    elif measure == CORRECT:
        value = rows.number("correct")
        counts = np.isfinite(value)
    else:
        value = rows.number(SCORE if measure == SCORE else f"{MARK}{measure}")
        counts = cast.judged & np.isfinite(value)
    sides = []
    for name in (comparison.base, comparison.candidate):
        at = np.flatnonzero(counts & (rows.candidate == rows.code(name)))
        is_part = measure in (SHARE, CORRECT)
        marks = value[at] if is_part else _in_parts(value[at], comparison.scale)
        n = np.bincount(rows.session[at], minlength=rows.n_sessions)
        total = np.bincount(rows.session[at], marks, minlength=rows.n_sessions)
        sides.append(quotient(total, n))
    if measure == SHARE and comparison.base != comparison.candidate:
        codes = rows.code(comparison.base), rows.code(comparison.candidate)
        common = shares_on_common_rivals(rows, comparison.own_votes, codes)
        uses_common = np.isfinite(common).all(axis=0) & ~_are_complete(rows, cast, n_by_session)
        sides = list(np.where(uses_common, common, sides))
    return sides[0], sides[1]


def _are_complete(rows: Rows, cast: Votes, n_by_session: Ints) -> Bools:
    """Return the sessions in which every ballot ranks all answers of others."""
    n_names = len(rows.names)
    answers = np.unique(rows.session.astype(np.int64) * n_names + rows.candidate)
    is_of_other = rows.reviewer != rows.candidate
    n_ranked = np.bincount(cast.ballot[cast.counts & is_of_other], minlength=cast.n_ballots)
    has_own = np.isin(rows.session.astype(np.int64) * n_names + rows.reviewer, answers)
    ranked = n_ranked[cast.ballot]
    lacks = (ranked > 0) & (ranked < n_by_session[rows.session] - has_own)
    complete: Bools = np.bincount(rows.session, lacks, minlength=rows.n_sessions) == 0.0
    return complete


def _in_parts(marks: Floats, scale: tuple[float, float]) -> Floats:
    low, high = scale
    outside = marks[(marks < low) | (marks > high)]
    if len(outside):
        raise OutsideScaleError(f"{outside[0]:g}")
    return (marks - low) / (high - low)


def _session_ids(rows: Rows, code: Ints, used: Bools, places: Ints) -> tuple[tuple[str, ...], ...]:
    """Return the ids of the sessions of each of these queries."""
    ids: dict[int, list[str]] = {place: [] for place in places.tolist()}
    session_ids = rows.session_ids
    for session in np.flatnonzero(used).tolist():
        if (place := int(code[session])) in ids:
            ids[place].append(str(session_ids[session]))
    return tuple(tuple(sorted(ids[place])) for place in places.tolist())


def _judge_views(
    rows: Rows, comparison: Comparison, code: Ints, n: int, places: Ints, counted: Bools
) -> tuple[JudgeView, ...]:
    """Return, by query, how many judges ranked both on one ballot, and how many prefer which.

    `counted` says which sessions count.
    """
    cast = votes(rows, comparison.own_votes, np.zeros(rows.n_sessions, dtype=np.int64))
    shares = np.full((2, cast.n_ballots), np.nan)
    for side, name in enumerate((comparison.base, comparison.candidate)):
        at = np.flatnonzero(cast.counts & (rows.candidate == rows.code(name)))
        shares[side, cast.ballot[at]] = cast.share[at]
    gap = shares[1] - shares[0]
    row_of = np.zeros(cast.n_ballots, dtype=np.int64)
    row_of[cast.ballot] = np.arange(rows.n)
    ballots = np.flatnonzero(np.isfinite(gap) & counted[rows.session[row_of]])
    judge = rows.reviewer[row_of[ballots]].astype(np.int64)
    query = code[rows.session[row_of[ballots]]]
    pair, n_pairs = dense(query * len(rows.names) + judge)
    total = np.bincount(pair, gap[ballots], minlength=n_pairs)
    query_of = np.zeros(n_pairs, dtype=np.int64)
    query_of[pair] = query
    n_judges = np.bincount(query_of, minlength=n)
    n_against = np.bincount(query_of[total < 0.0], minlength=n)
    n_for = np.bincount(query_of[total > 0.0], minlength=n)
    return tuple(
        JudgeView(int(n_judges[i]), int(n_against[i]), int(n_for[i])) for i in places.tolist()
    )
