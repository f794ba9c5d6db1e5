"""Reviews as votes: what each row's place on its ballot is worth.

A ballot is what one reviewer said of one session in one round. These are the same numbers
that a session's own count gives, for many sessions at once and in arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.reviews.rows import ALWAYS_ROOM, ROOMY, Bools, Floats, Ints, Rows, ballot_codes, group
from peerage.types import OwnVotes


@dataclass(frozen=True, slots=True)
class Votes:
    """What each row is worth; arrays over rows, and the ballot that each row is on.

    `share` is the part of its rivals that the candidate beat and `doubled` twice its place
    (0 is first), both only where the row `counts`. `judged` are the rows whose scores
    count: own ones are not among them unless own votes are in.
    """

    ballot: Ints
    n_ballots: int
    counts: Bools
    share: Floats
    doubled: Ints
    judged: Bools
    shown: Floats  # candidates counted as shown, by ballot

    @property
    def wins(self) -> Bools:
        """Sole first places: a tie for first is no one's win."""
        return self.counts & (self.doubled == 0)


def votes(rows: Rows, own_votes: OwnVotes, n_by_session: Ints) -> Votes:
    """The votes of some whole sessions; `n_by_session` counts the candidates of each.

    `out` takes the reviewer's own answer off its ballot before places are counted, `in`
    counts it like any other, and `place_kept` keeps its place but not the vote for it.
    """
    ballots = group(*ballot_codes(rows))
    ballot, n_ballots = ballots.code, ballots.n
    others: Bools = rows.reviewer != rows.candidate
    worth = _worth(rows, ballot, n_ballots)
    ranked = np.isfinite(worth)
    if own_votes == "place_kept":
        n_shown = ballots.first(n_by_session[rows.session]).astype(np.float64)
    else:
        n_shown = np.bincount(ballot, minlength=n_ballots).astype(np.float64)
    if own_votes == "out":
        ranked &= others
        n_shown -= np.bincount(ballot[np.flatnonzero(~others)], minlength=n_ballots)
    doubled = _doubled_places(ballot, worth, ranked, n_ballots)
    top = (2.0 * (n_shown - 1.0))[ballot]
    can_vote = top > 0.0
    counts = ranked & can_vote
    if own_votes == "place_kept":
        counts &= others
    share = np.where(counts, (top - doubled) / np.where(can_vote, top, 1.0), 0.0)
    judged = can_vote if own_votes == "in" else can_vote & others
    return Votes(ballot, n_ballots, counts, share, doubled, judged, n_shown)


def shares(rows: Rows) -> Floats:
    """The share of its rivals that each ranked answer beat on its ballot; NaN where it has none.

    The reviewer's own answer is no rival on its ballot: the others' shares do not depend
    on where it put itself. Its own share counts the others as rivals.
    """
    nobody = np.zeros(rows.n_sessions, dtype=np.int64)
    others = votes(rows, "out", nobody)
    share: Floats = np.where(others.counts, others.share, np.nan)
    own: Bools = rows.reviewer == rows.candidate
    if own.any():
        everyone = votes(rows, "in", nobody)
        share[own] = np.where(everyone.counts, everyone.share, np.nan)[own]
    return share


def _worth(rows: Rows, ballot: Ints, n_ballots: int) -> Floats:
    """What places follow from, the lower the better; NaN where a row has no place.

    Ranks; on a ballot without any rank, scores. A ranking stands even where scores say more.
    """
    rank, score = rows.numbers.get("rank"), rows.numbers.get("score")
    if rank is None:
        return -score if score is not None else np.full(len(ballot), np.nan)
    if score is None:
        return rank
    has_rank = np.isfinite(rank)
    if has_rank.all():
        return rank
    ranked = np.bincount(ballot, weights=has_rank, minlength=n_ballots)[ballot] > 0.0
    return np.where(ranked, rank, -score)


def _doubled_places(ballot: Ints, worth: Floats, ranked: Bools, n_ballots: int) -> Ints:
    """Twice each ranked row's place on its ballot, ties sharing the mean; others have none."""
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
    """Places by counting how many hold each of a few levels: one pass and no sort.

    Who is not ranked stands on a level below all others, where it is in nobody's way.
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
