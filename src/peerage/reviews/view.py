"""Reviews as the metrics see them: what reviewers are compared on, and what metrics share.

Reviewers are compared on scores, or on pairs of answers where there are only ranks.
Shares of rivals beaten are over different rivals for every reviewer, because nobody ranks its
own answer: honest and identical rankings then look like preferences. A comparison of the same two
answers by reviewers who wrote neither does not depend on who else was on the ballot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peerage.reviews.cells import CellCodes, Cells, cell_codes
from peerage.reviews.rows import (
    Bools,
    Floats,
    Groups,
    Ints,
    Rows,
    ballot_codes,
    dense,
    group,
    has_rounds,
    places,
    select,
    spans,
)
from peerage.reviews.votes import shares

WEEK_S = 7 * 86_400.0
MID_WEEK = 2_800.0  # weeks since 1970: keeps the squares of recent weeks small
MAX_AFTER = 40  # of a ballot's candidates, by code, that each one is compared with


class View:
    """Reviews with their derived columns; own votes stand apart, because they are a subject.

    `value` is the column that stands for the score: "score", marks, or "rank", where the share
    of rivals beaten does. Everything is computed once, when first asked for, and kept for the
    metrics that follow.
    """

    def __init__(self, rows: Rows, value: str = "score") -> None:
        self.value = value
        self.given = shares(rows) if value == "rank" else rows.numbers[value]
        known = np.isfinite(self.given)
        self.all = rows
        self.rows = rows if known.all() else select(rows, np.flatnonzero(known))
        self.every_score = self.given[places(known)]
        self.names = rows.names

    @cached_property
    def scored(self) -> ScoredRows:
        """What reviewers are compared on: the scores, or the comparisons that ranks make."""
        return scored_rows(self.all, self.value)

    @cached_property
    def is_own(self) -> Bools:
        return self.rows.reviewer == self.rows.candidate

    @cached_property
    def judged(self) -> Rows:
        """The rows that are about somebody else's answer."""
        return select(self.rows, np.flatnonzero(~self.is_own)) if self.is_own.any() else self.rows

    @cached_property
    def score(self) -> Floats:
        """The scores of `judged`."""
        return self.every_score[places(~self.is_own)]

    @cached_property
    def cluster(self) -> Ints:
        return self.judged.cluster[self.judged.session]

    # -- the panel's word on an answer ---------------------------------------------------------

    @cached_property
    def answer(self) -> Groups:
        """Judged rows by session and candidate."""
        rows = self.judged
        return group((rows.session, rows.n_sessions), (rows.candidate, len(self.names)))

    @cached_property
    def n_by_answer(self) -> Floats:
        return self.answer.count()

    @cached_property
    def sum_by_answer(self) -> Floats:
        return self.answer.sum(self.score)

    @cached_property
    def _by_others(self) -> tuple[Floats, Floats]:
        """For each judged row, how many scores the others gave this answer, and their sum."""
        n, total = self.n_by_answer[self.answer.code], self.sum_by_answer[self.answer.code]
        if not has_rounds(self.rows):
            return n - 1.0, total - self.score
        mine = group((self.answer.code, self.answer.n), (self.judged.reviewer, len(self.names)))
        return n - mine.each(mine.count()), total - mine.each(mine.sum(self.score))

    @cached_property
    def has_others(self) -> Bools:
        return self._by_others[0] > 0

    @cached_property
    def others(self) -> Floats:
        """The others' mean score of the same answer; zero where there are none."""
        n, total = self._by_others
        return total / np.maximum(n, 1.0)

    @cached_property
    def centred(self) -> Floats:
        """Scores less the mean of their answer, everyone's."""
        return self.score - (self.sum_by_answer / self.n_by_answer)[self.answer.code]

    # -- ballots -------------------------------------------------------------------------------

    @cached_property
    def ballot(self) -> Groups:
        """Judged rows by session, reviewer and round."""
        return group(*ballot_codes(self.judged))

    @cached_property
    def n_by_ballot(self) -> Floats:
        return self.ballot.count()

    @cached_property
    def ballot_reviewer(self) -> Ints:
        return self.ballot.first(self.judged.reviewer)

    @cached_property
    def _cells(self) -> CellCodes:
        return cell_codes(self.ballot_reviewer, self.ballot.first(self.cluster))

    def by_ballot(self, *columns: Floats | Bools) -> Cells:
        """Columns of ballots added up by reviewer and cluster."""
        return self._cells.cells(self._cells.sums(*columns))


# -- what reviewers are compared on --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Scored reviews of whole sessions, one element a row in every array.

    An `answer` is what one session's candidate wrote, judged once by each reviewer (an
    answer judged in several rounds has a code for each). Codes of answers and ballots count from
    zero within these rows; reviewers and candidates share one list of names. Optional columns
    are NaN where a row has no value. With `rival` the rows are comparisons: `score` is how
    far `candidate` was placed above `rival`, levels are zero by construction, and the other
    columns are differences too.
    """

    n_names: int
    n_clusters: int
    answer: Ints
    reviewer: Ints
    candidate: Ints
    cluster: Ints
    score: Floats
    own: Bools  # the reviewer wrote it, or one of the two
    ballot: Ints | None = None
    first: Floats | None = None  # 1 for the answer shown first, else 0
    length: Floats | None = None  # log words
    correct: Floats | None = None
    week: Floats | None = None
    likeness: Floats | None = None  # of the answer to the reviewer's own
    rival: Ints | None = None
    session: Ints | None = None  # where answers were judged in several rounds, each with a code
    rivals: Floats | None = None  # of comparisons: how many rivals the ballot gives the candidate
    family: Ints | None = None  # by name; negative where none is known

    @property
    def n(self) -> int:
        return len(self.answer)

    @property
    def n_answers(self) -> int:
        return int(self.answer.max(initial=-1)) + 1

    @property
    def compares(self) -> bool:
        return self.rival is not None


def scored_rows(rows: Rows, value: str) -> ScoredRows:
    """The rows that carry a value: scores as they are, and ranks as comparisons of two answers."""
    given = rows.numbers[value]
    at = places(np.isfinite(given))
    n_names = len(rows.names)
    session, n_sittings = rows.session[at], rows.n_sessions
    sitting = session
    if has_rounds(rows):
        rounds, code = np.unique(rows.numbers["round"], return_inverse=True)
        sitting = session.astype(np.int64) * len(rounds) + code[at]
        n_sittings *= len(rounds)
    reviewer, candidate = rows.reviewer[at], rows.candidate[at]

    def number(name: str) -> Floats | None:
        return rows.numbers[name][at] if name in rows.numbers else None

    position, words, time = number("position"), number("words"), number("at")
    scored = ScoredRows(
        n_names=n_names,
        n_clusters=rows.n_clusters,
        answer=group((sitting, n_sittings), (candidate, n_names)).code,
        reviewer=reviewer,
        candidate=candidate,
        cluster=rows.cluster[session],
        score=given[at],
        own=reviewer == candidate,
        ballot=group((sitting, n_sittings), (reviewer, n_names)).code,
        first=None if position is None else (position == 0.0).astype(np.float64),
        length=None if words is None else np.log(1.0 + words),
        correct=number("correct"),
        likeness=number("likeness"),
        session=None if sitting is session else session,
        week=None if time is None else np.floor(time / WEEK_S) - MID_WEEK,
        family=rows.family,
    )
    return comparisons(sitting, scored, given[at]) if value == "rank" else scored


def comparisons(session: Ints, reviews: ScoredRows, rank: Floats) -> ScoredRows:
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
    own = reviews.own[left] | reviews.own[right]
    judged = np.bincount(reviews.ballot, ~reviews.own)
    rivals = np.minimum(judged[reviews.ballot[left]] - np.where(own, 0.0, 1.0), 2.0 * MAX_AFTER)

    def difference(values: Floats | None) -> Floats | None:
        return None if values is None else values[left] - values[right]

    return ScoredRows(
        n_names=k,
        n_clusters=reviews.n_clusters,
        answer=dense((session[left].astype(np.int64) * k + candidate) * k + rival)[0],
        reviewer=reviews.reviewer[left],
        candidate=candidate,
        cluster=reviews.cluster[left],
        score=0.5 * np.sign(rank[right] - rank[left]),
        own=own,
        ballot=reviews.ballot[left],
        first=difference(reviews.first),
        length=difference(reviews.length),
        correct=difference(reviews.correct),
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
    left, right = spans(np.arange(len(ballot)) + 1, after)
    return order[left], order[right]
