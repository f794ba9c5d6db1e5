"""Many sessions of one shape at once, as arrays, with bit-identical results.

The arithmetic is the scalar path's: sums of integers over one common denominator, and
one division at the end, which IEEE rounds as `float(Fraction)` does. Two shares whose
denominators are this small are equal as floats exactly when they are equal as fractions,
so ranks agree too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.errors import InputError
from peerage.types import OwnVotes, Rubric

Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

CHUNK_CELLS = 1 << 19  # reviewer × candidate cells worked on at a time: what a cache holds
MAX_DENOMINATOR = 1 << 24  # shares with larger denominators might be equal only as floats


@dataclass(frozen=True, slots=True)
class Batch:
    """Ballots of S sessions, R reviewers and N candidates.

    `rank[s, r, c]` is 1 for the best, equal for ties, 0 where the candidate is not ranked;
    `own[s, r]` is the reviewer's own candidate or -1; `gated[s, c]` marks those that failed
    the gate; `marks[s, r, c, d]` holds the marks in the order of the rubric's weights, 0 for
    none. Everybody is shown to everybody.
    """

    rank: Ints
    own: Ints
    gated: Bools | None = None
    marks: NDArray[np.generic] | None = None
    cap: float = 0.0  # the overall score a gated answer cannot exceed


@dataclass(frozen=True, slots=True)
class BatchScores:
    """Per session and candidate: exact shares as floats, votes, wins, final rank, confidence."""

    share: Floats
    borda: Floats
    votes: Ints
    wins: Ints
    rank: Ints
    confidence: NDArray[np.str_]


def score_batch(
    batch: Batch, own_votes: OwnVotes = "out", rubric: Rubric | None = None
) -> BatchScores:
    """The Borda result of every session, chunk by chunk."""
    n_sessions, n_reviewers, n = batch.rank.shape
    if batch.own.shape != (n_sessions, n_reviewers):
        raise InputError(f"own is {batch.own.shape}, not {(n_sessions, n_reviewers)}.")
    step = max(1, CHUNK_CELLS // max(1, n_reviewers * n))
    parts = [
        _score_chunk(_part(batch, slice(at, at + step)), own_votes, rubric)
        for at in range(0, n_sessions, step)
    ] or [_score_chunk(batch, own_votes, rubric)]
    fields = ("share", "borda", "votes", "wins", "rank", "confidence")
    return BatchScores(*(np.concatenate([getattr(part, f) for part in parts]) for f in fields))


def _part(batch: Batch, rows: slice) -> Batch:
    return Batch(
        batch.rank[rows],
        batch.own[rows],
        None if batch.gated is None else batch.gated[rows],
        None if batch.marks is None else batch.marks[rows],
        batch.cap,
    )


def _score_chunk(batch: Batch, own_votes: OwnVotes, rubric: Rubric | None) -> BatchScores:
    n_sessions, n_reviewers, n = batch.rank.shape
    gated = np.zeros((n_sessions, n), bool) if batch.gated is None else batch.gated
    rank = batch.rank
    if rubric is not None and batch.marks is not None:
        rank = _ranks_from_marks(batch, batch.marks, gated, rubric)
    is_own = batch.own[:, :, None] == np.arange(n)
    counted = np.where(is_own, 0, rank) if own_votes == "out" else rank
    doubled = _doubled_places(counted, gated, is_own if own_votes == "out" else None)
    voting = counted > 0
    if own_votes == "seed":
        voting &= ~is_own
    shown = np.full((n_sessions, n_reviewers), n)
    if own_votes == "out":
        shown -= is_own.any(axis=2)
    voting &= (shown >= 2)[:, :, None]
    return _tally(doubled, voting, shown, gated, _possible(is_own, shown, own_votes))


def _doubled_places(rank: Ints, gated: Bools, dropped: Bools | None) -> NDArray[np.int64]:
    """Twice each candidate's place, ties sharing the mean; the gated stand behind the passed.

    Counting how many candidates hold each rank costs one pass and no sort.
    """
    n_sessions, n_reviewers, n = rank.shape
    width = int(rank.max(initial=0)) + 1
    n_rows = n_sessions * n_reviewers
    fails = gated.any()
    bins = rank.astype(np.int64)
    if fails:
        bins += np.where(gated[:, None, :] & (rank > 0), width, 0)
    span = 2 * width if fails else width
    flat = bins.reshape(n_rows, n) + np.arange(n_rows)[:, None] * span
    held = np.bincount(flat.ravel(), minlength=n_rows * span).reshape(n_rows, span)
    held[:, 0] = 0
    before = np.cumsum(held, axis=1) - held
    if fails:
        passed = np.broadcast_to(~gated[:, None, :], rank.shape)
        if dropped is not None:
            passed = passed & ~dropped
        n_passed = passed.sum(axis=2).reshape(n_rows)
        ranked_passed = held[:, :width].sum(axis=1)
        before[:, width:] += (n_passed - ranked_passed)[:, None]
    doubled = 2 * before + held - 1
    placed: NDArray[np.int64] = doubled.ravel()[flat].reshape(rank.shape)
    return placed


def _possible(is_own: Bools, shown: Ints, own_votes: OwnVotes) -> Ints:
    """How many reviewers could vote for each candidate."""
    able = np.broadcast_to((shown >= 2)[:, :, None], is_own.shape)
    if own_votes != "in":
        able = ~is_own if own_votes == "seed" else able & ~is_own
    n_able: Ints = able.sum(axis=1)
    return n_able


def _tally(
    doubled: NDArray[np.int64], voting: Bools, shown: Ints, gated: Bools, possible: Ints
) -> BatchScores:
    n = doubled.shape[2]
    tops = 2 * (shown.astype(np.int64) - 1)
    common = math.lcm(*(int(top) for top in np.unique(tops) if top > 0), 1)
    if common * max(1, doubled.shape[1]) > MAX_DENOMINATOR:
        raise InputError(f"{doubled.shape[1]} reviewers of {n} candidates are too many to batch.")
    scale = np.where(tops > 0, common // np.maximum(tops, 1), 0)
    points = np.where(voting, (tops[:, :, None] - doubled) * scale[:, :, None], 0).sum(axis=1)
    votes = voting.sum(axis=1)
    wins = (voting & (doubled == 0)).sum(axis=1)
    bottom = np.maximum(votes, 1) * common
    share = points / bottom
    return BatchScores(
        share=share,
        borda=points * (n - 1) / bottom,
        votes=votes,
        wins=wins,
        rank=_final_ranks(gated, votes == 0, share, wins),
        confidence=_confidence(votes, possible, voting.any(axis=2).sum(axis=1)),
    )


def _final_ranks(gated: Bools, unvoted: Bools, share: Floats, wins: Ints) -> Ints:
    """Competition ranks by gate, votes, share and wins; equals share the better rank."""
    order, new = _sorted((-wins, -share, unvoted, gated))
    places = np.where(new, np.arange(share.shape[1]), 0)
    ranks = np.empty(share.shape, np.int64)
    np.put_along_axis(ranks, order, np.maximum.accumulate(places, axis=1) + 1, axis=1)
    return ranks


def _confidence(votes: Ints, possible: Ints, n_ballots: Ints) -> NDArray[np.str_]:
    known = (possible > 0) & (n_ballots > 1)[:, None]
    return np.select(
        [known & (5 * votes >= 4 * possible), known & (2 * votes >= possible)],
        ["high", "medium"],
        "low",
    )


def _ranks_from_marks(
    batch: Batch, marks: NDArray[np.generic], gated: Bools, rubric: Rubric
) -> NDArray[np.int64]:
    """Ranks by overall score after ceiling and gate, the explicit ranking parting equals.

    A ballot without accuracy marks keeps its ranking; a candidate without one, on a ballot
    that has some, is not ranked.
    """
    overall, marked = _overall(marks, rubric)
    rank = batch.rank
    last = int(rank.max(initial=0)) + 1
    explicit = np.where(rank > 0, rank, last)
    fails = np.broadcast_to(gated[:, None, :], rank.shape)
    overall = np.where(fails, np.minimum(overall, batch.cap), overall)
    order, new = _sorted((explicit, -overall, fails, ~marked))
    derived = np.empty(rank.shape, np.int64)
    np.put_along_axis(derived, order, np.cumsum(new, axis=2) + 1, axis=2)
    derived[~marked] = 0
    by_marks = (marked.sum(axis=2) > 0)[:, :, None]
    return np.where(by_marks, derived, rank)


def _sorted(keys: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.intp], Bools]:
    """The order along the last axis, the last key weighing most, and where a new tier begins."""
    order = np.lexsort(keys, axis=-1)
    new = np.zeros(order.shape, bool)
    for key in keys:
        ordered = np.take_along_axis(key, order, axis=-1)
        new[..., 1:] |= ordered[..., 1:] != ordered[..., :-1]
    return order, new


def _overall(marks: NDArray[np.generic], rubric: Rubric) -> tuple[Floats, Bools]:
    """Overall scores as correctly rounded floats, and which candidates have one."""
    thousandths = np.rint(marks.astype(float) * 1000)
    if not np.allclose(thousandths, marks.astype(float) * 1000, rtol=0, atol=1e-6):
        raise InputError("marks in a batch have at most three decimals.")
    given = thousandths.astype(np.int64)
    names = list(rubric.weights)
    bottom = math.lcm(*(weight.denominator for weight in rubric.weights.values()))
    weights = np.array([int(rubric.weights[name] * bottom) for name in names], np.int64)
    total = given @ weights
    weight = (given > 0) @ weights
    overall = total / (1000 * np.maximum(weight, 1))
    accuracy = given[..., names.index("accuracy")]
    for below, cap in rubric.ceilings:
        capped = np.minimum(overall, float(cap))
        overall = np.where(accuracy < float(below) * 1000, capped, overall)
    marked: Bools = np.greater(accuracy, 0)
    return overall, marked
