"""Turn rankings into comparisons of two answers on common rivals.

Shares of rivals beaten are over different rivals for every reviewer, because nobody ranks its
own answer: honest and identical rankings then look like preferences. A comparison of the same two
answers by reviewers who wrote neither does not depend on who else was on the ballot.
"""

from __future__ import annotations

import numpy as np

from peerage.reviews.one_scale import Floats, Ints, Reviews


def comparisons(
    session: Ints,
    reviews: Reviews,
    rank: Floats,
) -> Reviews:
    """Every two answers of a ballot as one row: ±.5 for the better placed one, 0 for a tie.

    `reviews.ballot` says which rows were ranked together; a lower rank is better. The row stands
    under the pair of candidates, the smaller code first, and carries their differences in
    position and length. Where the reviewer wrote one of the two it is marked as its own.
    """
    if reviews.ballot is None:
        raise ValueError("comparisons are made within ballots: reviews.ballot is missing")
    left, right = _pairs_within(reviews.ballot)
    swap = reviews.candidate[left] > reviews.candidate[right]
    left, right = np.where(swap, right, left), np.where(swap, left, right)
    candidate, rival = reviews.candidate[left], reviews.candidate[right]
    k = reviews.n_names
    item = (session[left].astype(np.int64) * k + candidate) * k + rival
    _, answer = np.unique(item, return_inverse=True)
    own = reviews.own[left] | reviews.own[right]
    judged = np.bincount(reviews.ballot, ~reviews.own)
    rivals = judged[reviews.ballot[left]] - np.where(own, 0.0, 1.0)

    def difference(values: Floats | None) -> Floats | None:
        return None if values is None else values[left] - values[right]

    return Reviews(
        n_names=k,
        n_clusters=reviews.n_clusters,
        answer=answer,
        reviewer=reviews.reviewer[left],
        candidate=candidate,
        cluster=reviews.cluster[left],
        score=0.5 * np.sign(rank[right] - rank[left]),
        own=own,
        ballot=reviews.ballot[left],
        first=difference(reviews.first),
        length=difference(reviews.length),
        rival=rival,
        rivals=np.maximum(rivals, 1.0),
        family=reviews.family,
    )


def _pairs_within(ballot: Ints) -> tuple[Ints, Ints]:
    """All pairs of rows of the same ballot, each once."""
    order = np.argsort(ballot, kind="stable")
    sorted_ballot = ballot[order]
    starts = np.flatnonzero(np.r_[True, np.diff(sorted_ballot) != 0]) if len(ballot) else order
    sizes = np.diff(np.append(starts, len(ballot)))
    after = np.repeat(starts + sizes, sizes) - np.arange(len(ballot)) - 1  # rows that follow
    left = np.repeat(np.arange(len(ballot)), after)
    step = np.arange(len(left)) - np.repeat(np.cumsum(after) - after, after)
    return order[left], order[left + step + 1]
