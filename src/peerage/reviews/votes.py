"""The votes of ballots: which answer beat how many rivals, with own answers left out or counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.reviews.cells import (
    ALWAYS_ROOM,
    ROOMY,
    Bools,
    Floats,
    Groups,
    Ints,
    group,
    places,
)
from peerage.reviews.rows import Rows, ballot_codes
from peerage.types import OwnVotes


@dataclass(frozen=True, slots=True)
class Votes:
    """The vote of each row, and the ballot of each row.

    `share` is the share of rivals that the candidate beat (for a soft vote, the probability that it
    beats one). `doubled` is twice its place (0 is first). Both are valid only if the row `counts`.
    `judged` marks the rows whose scores count: a reviewer's own answer only if own votes are in.
    """

    ballot: Ints
    n_ballots: int
    counts: Bools
    share: Floats
    doubled: Ints
    judged: Bools
    shown: Floats  # candidates counted as shown, by ballot
    there: Bools  # rows that their ballot showed: all but abstentions on a ballot of scores only

    @property
    def wins(self) -> Bools:
        """Rows with a sole first place: a tie for first is not a win."""
        return self.counts & (self.doubled == 0)


def votes(rows: Rows, own_votes: OwnVotes, n_by_session: Ints) -> Votes:
    """Return the votes of some whole sessions; `n_by_session` counts the candidates of each.

    `out` removes the reviewer's own answer from its ballot before places are counted, `in` counts
    it like any other, and `place_kept` keeps its place but not its vote.
    """
    ballots = group(*ballot_codes(rows))
    ballot, n_ballots = ballots.code, ballots.n
    others: Bools = rows.reviewer != rows.candidate
    worth = placing_values(rows, ballots)
    ranked = np.isfinite(worth)
    there = _rows_shown(rows, ballot, n_ballots, ranked)
    if own_votes == "place_kept":
        n_shown = ballots.first(n_by_session[rows.session]).astype(np.float64)
    else:
        n_shown = np.bincount(ballot[places(there)], minlength=n_ballots).astype(np.float64)
    if own_votes == "out":
        ranked &= others
        n_shown -= np.bincount(ballot[np.flatnonzero(there & ~others)], minlength=n_ballots)
    doubled = _doubled_places(ballot, worth, ranked, n_ballots)
    top = (2.0 * (n_shown - 1.0))[ballot]
    can_vote = top > 0.0
    counts = ranked & can_vote
    if own_votes == "place_kept":
        counts &= others
    share = np.where(counts, (top - doubled) / np.where(can_vote, top, 1.0), 0.0)
    if "probability" in rows.numbers:
        share = _soft_share(rows, ballot, n_ballots, share, counts, own_votes)
    judged = can_vote if own_votes == "in" else can_vote & others
    return Votes(ballot, n_ballots, counts, share, doubled, judged, n_shown, there)


def _rows_shown(rows: Rows, ballot: Ints, n_ballots: int, ranked: Bools) -> Bools:
    """Return the rows that count as shown: on a ballot of scores, an empty score is an abstention.

    On a ballot with ranks, an answer without a rank was shown and lies below the ranked ones.
    """
    if ranked.all():
        return ranked.copy()
    rank = rows.numbers.get("rank")
    if rank is None:
        return ranked.copy()
    has_ranks = np.bincount(ballot, np.isfinite(rank), n_ballots) > 0.0
    shown: Bools = ranked | has_ranks[ballot]
    return shown


def _soft_share(
    rows: Rows, ballot: Ints, n_ballots: int, share: Floats, counts: Bools, own_votes: OwnVotes
) -> Floats:
    """Return shares; rows with a probability count by that probability.

    Probabilities compare an answer with other models' answers only. So if own answers count as
    rivals, a ballot with the reviewer's own answer counts by its ranks.
    """
    probability = rows.numbers["probability"]
    soft = counts & np.isfinite(probability)
    if own_votes != "out":
        own = rows.reviewer == rows.candidate
        soft &= np.bincount(ballot, weights=own, minlength=n_ballots)[ballot] == 0.0
    return np.where(soft, probability, share)


def shares(rows: Rows) -> Floats:
    """Return the share of rivals that each answer beat on its ballot; NaN if it has no rank.

    The reviewer's own answer is not a rival on its ballot, so its place does not change the others'
    shares. Its own share counts the others as rivals.
    """
    nobody = np.zeros(rows.n_sessions, dtype=np.int64)
    others = votes(rows, "out", nobody)
    share: Floats = np.where(others.counts, others.share, np.nan)
    own: Bools = rows.reviewer == rows.candidate
    if own.any():
        everyone = votes(rows, "in", nobody)
        share[own] = np.where(everyone.counts, everyone.share, np.nan)[own]
    return share


def placing_values(rows: Rows, ballots: Groups | None = None) -> Floats:
    """Return the values that places are computed from, lower is better; NaN for no place.

    These are ranks; on a ballot without ranks, scores. Ranks are used even if scores differ more
    finely. `ballots` are the rows by ballot, if they are already computed.
    """
    rank, score = rows.numbers.get("rank"), rows.numbers.get("score")
    if rank is None:
        return -score if score is not None else np.full(len(rows.session), np.nan)
    has_rank = np.isfinite(rank)
    if score is None or has_rank.all():
        return rank
    ballots = ballots or group(*ballot_codes(rows))
    n_ranks = np.bincount(ballots.code, weights=has_rank, minlength=ballots.n)
    return np.where(n_ranks[ballots.code] > 0.0, rank, -score)


def _doubled_places(ballot: Ints, worth: Floats, ranked: Bools, n_ballots: int) -> Ints:
    """Return twice each ranked row's place on its ballot; ties share the mean place."""
    if not ranked.any():
        return np.zeros(len(ballot), dtype=np.int64)
    values = worth if ranked.all() else worth[ranked]
    low = float(values.min())
    width = float(values.max()) - low + 1.0
    whole = bool((values == np.rint(values)).all())
    if whole and n_ballots * width <= ROOMY * len(ballot) + ALWAYS_ROOM:
        return _counted_places(ballot, worth - low, ranked, n_ballots, int(width))
    return _sorted_places(ballot, worth, ranked)


def _counted_places(ballot: Ints, worth: Floats, ranked: Bools, n_ballots: int, width: int) -> Ints:
    """Return places by counting the rows on each of a few levels: one pass, without sorting.

    Candidates without a rank are on a level below all others.
    """
    cell = np.where(ranked, worth, float(width)).astype(np.int64)
    cell += ballot * (width + 1)
    n = np.bincount(cell, minlength=n_ballots * (width + 1)).reshape(-1, width + 1)
    doubled = np.cumsum(n, axis=1)
    doubled *= 2
    doubled -= n
    doubled -= 1
    return doubled.ravel()[cell]


def _sorted_places(ballot: Ints, worth: Floats, ranked: Bools) -> Ints:
    known = np.flatnonzero(ranked)
    order = known[np.lexsort((worth[known], ballot[known]))]
    by_ballot, by_worth = ballot[order], worth[order]
    new_ballot = np.append(True, np.diff(by_ballot) != 0)
    new_tier = new_ballot | np.append(True, np.diff(by_worth) != 0)
    at = np.arange(len(order))
    start = np.maximum.accumulate(np.where(new_ballot, at, 0))
    tier_start = np.maximum.accumulate(np.where(new_tier, at, 0))
    tier = np.cumsum(new_tier) - 1
    size = np.bincount(tier)[tier]
    doubled = np.zeros(len(ballot), dtype=np.int64)
    doubled[order] = 2 * (tier_start - start) + size - 1
    return doubled
