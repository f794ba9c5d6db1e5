"""The difference between two models on each query, which a gate decides from.

Each query gives one number in [−1, 1], however many judges, orders and repeats it has: judgements
of one query share its difficulty and its answers, so they are not independent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peerage.boards.common_cells import shares_on_common_rivals
from peerage.reviews.cells import Bools, Floats, Ints, dense, group
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Rows
from peerage.reviews.votes import votes
from peerage.stats.clusters import quotient
from peerage.types import OwnVotes

# Measures that are not a dimension of a rubric.
SHARE, SCORE, CORRECT = "share", "score", "correct answers"
MEASURES = {"share": (SHARE,), "mark": (SCORE,), "correct": (CORRECT,)}  # by metric
MIN_JUDGES = 3  # judges who must have compared both answers before a query is called a regression
CLEAR_DROP = 0.5  # in share: if all judges are against too, the query is a clear regression


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

    @property
    def n(self) -> int:
        return len(self.units)

    def in_order(self, order: Sequence[int]) -> QueryDifferences:
        """Return the same queries in another order."""
        return QueryDifferences(
            tuple(self.units[i] for i in order),
            self.by_measure[:, list(order)],
            tuple(self.sessions[i] for i in order),
            tuple(self.views[i] for i in order),
            self.n_apart,
            self.n_incomplete,
            self.n_by_side,
            self.sides,
        )

    def regressions(self) -> list[int]:
        """Return the indices of queries on which all judges clearly prefer the base."""
        return [
            i
            for i, view in enumerate(self.views)
            if view.n_judges >= MIN_JUDGES
            and view.n_against == view.n_judges
            and self.by_measure[0, i] <= -CLEAR_DROP
        ]


def hashed_order(units: Sequence[str]) -> list[int]:
    """Return an order of the queries that depends only on their names."""
    digests = [hashlib.sha256(f"gate|{u}".encode("utf-8", "surrogatepass")).digest() for u in units]
    return sorted(range(len(units)), key=digests.__getitem__)


def query_differences(
    rows: Rows, comparison: Comparison, baseline: Mapping[str, Sequence[float]] | None = None
) -> QueryDifferences:
    """Return the difference of two models on each query that has both, sorted by query.

    If some sessions of a query have both models, the difference is the mean over these sessions;
    else it is the mean of the candidate's sessions minus the mean of the base's. A `baseline` has
    the base's values by query.
    """
    values = [_session_values(rows, comparison, measure) for measure in comparison.measures]
    base, candidate = (np.array([pair[side] for pair in values]) for side in (0, 1))
    code, units = rows.queries()
    n = len(units)
    if baseline is not None:
        return _against_baseline(rows, comparison, baseline, candidate, units, code)
    both = np.isfinite(base) & np.isfinite(candidate)
    paired = _mean_by(code, candidate - base, both, n)
    apart = _mean_by(code, candidate, np.isfinite(candidate), n)
    apart = apart - _mean_by(code, base, np.isfinite(base), n)
    difference = np.where(np.isfinite(paired), paired, apart)
    complete = np.isfinite(difference).all(axis=0)
    places = np.flatnonzero(complete)
    is_paired: Bools = np.asarray(np.isfinite(paired).all(axis=0))
    sessions_apart = (complete & ~is_paired)[code]
    has_base, has_candidate = (np.isfinite(side).any(axis=0) for side in (base, candidate))
    used = np.where(is_paired[code], both.any(axis=0), has_base | has_candidate)
    n_by_side = len(np.unique(code[has_base])), len(np.unique(code[has_candidate]))
    return QueryDifferences(
        tuple(units[i] for i in places.tolist()),
        difference[:, places],
        _session_ids(rows, code, used, places),
        _judge_views(rows, comparison, code, n, places),
        n_apart=int((complete & ~is_paired).sum()),
        n_incomplete=int((np.isfinite(difference).any(axis=0) & ~complete).sum()),
        n_by_side=n_by_side,
        sides=(
            judges_of(rows, comparison.base, comparison.own_votes, sessions_apart),
            judges_of(rows, comparison.candidate, comparison.own_votes, sessions_apart),
        ),
    )


def _against_baseline(
    rows: Rows,
    comparison: Comparison,
    baseline: Mapping[str, Sequence[float]],
    candidate: Floats,
    units: Sequence[str],
    code: Ints,
) -> QueryDifferences:
    n, n_measures = len(units), len(comparison.measures)
    nothing = [np.nan] * n_measures
    base = np.array([baseline.get(unit, nothing) for unit in units], dtype=np.float64)
    mean = _mean_by(code, candidate, np.isfinite(candidate), n)
    difference = mean - base.reshape(n, n_measures).T
    complete: Bools = np.asarray(np.isfinite(difference).all(axis=0))
    places = np.flatnonzero(complete)
    used: Bools = np.asarray(np.isfinite(candidate).any(axis=0))
    return QueryDifferences(
        tuple(units[i] for i in places.tolist()),
        difference[:, places],
        _session_ids(rows, code, used, places),
        tuple(JudgeView(0, 0) for _ in places),
        n_apart=len(places),
        n_by_side=(len(baseline), int(np.isfinite(mean).any(axis=0).sum())),
        sides=(
            frozenset(),
            judges_of(rows, comparison.candidate, comparison.own_votes, complete[code]),
        ),
    )


def side_values(rows: Rows, comparison: Comparison) -> dict[str, tuple[float, ...]]:
    """Return the base's value of each measure by query, for a baseline file."""
    values = np.array([_session_values(rows, comparison, one)[0] for one in comparison.measures])
    code, units = rows.queries()
    means = _mean_by(code, values, np.isfinite(values), len(units))
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

    Shares are those on the rivals that both met in the session; where one of the two is missing, or
    no rival is common, they are plain ones.

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
        sides = list(np.where(np.isfinite(common).all(axis=0), common, sides))
    return sides[0], sides[1]


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
    rows: Rows, comparison: Comparison, code: Ints, n: int, places: Ints
) -> tuple[JudgeView, ...]:
    """Return, by query, how many judges ranked both on one ballot, and how many prefer the base."""
    cast = votes(rows, comparison.own_votes, np.zeros(rows.n_sessions, dtype=np.int64))
    shares = np.full((2, cast.n_ballots), np.nan)
    for side, name in enumerate((comparison.base, comparison.candidate)):
        at = np.flatnonzero(cast.counts & (rows.candidate == rows.code(name)))
        shares[side, cast.ballot[at]] = cast.share[at]
    gap = shares[1] - shares[0]
    row_of = np.zeros(cast.n_ballots, dtype=np.int64)
    row_of[cast.ballot] = np.arange(rows.n)
    ballots = np.flatnonzero(np.isfinite(gap))
    judge = rows.reviewer[row_of[ballots]].astype(np.int64)
    query = code[rows.session[row_of[ballots]]]
    pair, n_pairs = dense(query * len(rows.names) + judge)
    total = np.bincount(pair, gap[ballots], minlength=n_pairs)
    query_of = np.zeros(n_pairs, dtype=np.int64)
    query_of[pair] = query
    n_judges = np.bincount(query_of, minlength=n)
    n_against = np.bincount(query_of[total < 0.0], minlength=n)
    return tuple(JudgeView(int(n_judges[i]), int(n_against[i])) for i in places.tolist())
