"""From rows of a reviews table to what reviewers are compared on: scores, or pairs of answers.

Shares of rivals beaten are over different rivals for every reviewer, because nobody ranks its
own answer: honest and identical rankings then look like preferences. A comparison of the same two
answers by reviewers who wrote neither does not depend on who else was on the ballot.
"""

from __future__ import annotations

import numpy as np

from peerage.reviews.one_scale import Floats, Ints, ScoredRows
from peerage.reviews.rows import Groups, Rows, group, places

WEEK_S = 7 * 86_400.0
MID_WEEK = 2_800.0  # weeks since 1970: keeps the squares of recent weeks small
MAX_AFTER = 40  # of a ballot's candidates, by code, that each one is compared with


def scored_rows(rows: Rows, value: str) -> ScoredRows:
    """The rows that carry a value: scores as they are, and ranks as comparisons of two answers."""
    given = rows.numbers[value]
    at = places(np.isfinite(given))
    n_names = len(rows.names)
    sitting, n_sittings = _sittings(rows)
    has_rounds = sitting is not rows.session
    sitting, reviewer, candidate = sitting[at], rows.reviewer[at], rows.candidate[at]

    def number(name: str) -> Floats | None:
        return rows.numbers[name][at] if name in rows.numbers else None

    position, words, time = number("position"), number("words"), number("at")
    scored = ScoredRows(
        n_names=n_names,
        n_clusters=rows.n_clusters,
        answer=_counted(group((sitting, n_sittings), (candidate, n_names))),
        reviewer=reviewer,
        candidate=candidate,
        cluster=rows.cluster[rows.session[at]],
        score=given[at],
        own=reviewer == candidate,
        ballot=_counted(group((sitting, n_sittings), (reviewer, n_names))),
        first=None if position is None else (position == 0.0).astype(np.float64),
        length=None if words is None else np.log(1.0 + words),
        likeness=number("likeness"),
        session=rows.session[at] if has_rounds else None,
        week=None if time is None else np.floor(time / WEEK_S) - MID_WEEK,
        family=rows.family,
    )
    return comparisons(sitting, scored, given[at]) if value == "rank" else scored


def _sittings(rows: Rows) -> tuple[Ints, int]:
    """The session and round of each row, as one code, and how many codes there may be."""
    rounds = rows.numbers.get("round")
    if rounds is None or len(rounds) == 0 or (rounds == rounds[0]).all():
        return rows.session, rows.n_sessions
    kept, code = np.unique(rounds, return_inverse=True)
    return rows.session.astype(np.int64) * len(kept) + code, rows.n_sessions * len(kept)


def _counted(groups: Groups) -> Ints:
    """The same groups with codes from zero and none empty."""
    held = groups.count() > 0
    return groups.code if held.all() else (np.cumsum(held) - 1)[groups.code]


def comparisons(
    session: Ints,
    reviews: ScoredRows,
    rank: Floats,
) -> ScoredRows:
    """Every two answers of a ballot as one row: ±.5 for the better placed one, 0 for a tie.

    `reviews.ballot` says which rows were ranked together; a lower rank is better. The row stands
    under the pair of candidates, the smaller code first, and carries their differences in
    position and length. Where the reviewer wrote one of the two it is marked as its own.
    """
    if reviews.ballot is None:
        raise ValueError("comparisons are made within ballots: reviews.ballot is missing")
    left, right = _pairs_within(reviews.ballot, reviews.candidate)
    candidate, rival = reviews.candidate[left], reviews.candidate[right]
    k = reviews.n_names
    item = (session[left].astype(np.int64) * k + candidate) * k + rival
    _, answer = np.unique(item, return_inverse=True)
    own = reviews.own[left] | reviews.own[right]
    judged = np.bincount(reviews.ballot, ~reviews.own)
    rivals = np.minimum(judged[reviews.ballot[left]] - np.where(own, 0.0, 1.0), 2.0 * MAX_AFTER)

    def difference(values: Floats | None) -> Floats | None:
        return None if values is None else values[left] - values[right]

    return ScoredRows(
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
        likeness=difference(reviews.likeness),
        session=None if reviews.session is None else reviews.session[left],
        rival=rival,
        rivals=np.maximum(rivals, 1.0),
        family=reviews.family,
    )


def _pairs_within(ballot: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """Pairs of rows of the same ballot, each once, the smaller candidate first.

    On a very long ballot each candidate meets only the next ones: those are the same for all
    reviewers, and pairs would grow with the square.
    """
    order = np.lexsort((candidate, ballot))
    sorted_ballot = ballot[order]
    starts = np.flatnonzero(np.r_[True, np.diff(sorted_ballot) != 0]) if len(ballot) else order
    sizes = np.diff(np.append(starts, len(ballot)))
    after = np.repeat(starts + sizes, sizes) - np.arange(len(ballot)) - 1  # rows that follow
    after = np.minimum(after, MAX_AFTER)
    left = np.repeat(np.arange(len(ballot)), after)
    step = np.arange(len(left)) - np.repeat(np.cumsum(after) - after, after)
    return order[left], order[left + step + 1]
