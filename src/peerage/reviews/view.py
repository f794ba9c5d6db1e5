"""What the metrics share: scores, the panel's word on each answer, and ballots.

Everything is computed once, when first asked for, and kept for the metrics that follow.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from peerage.reviews.cells import CellCodes, Cells, cell_codes
from peerage.reviews.comparisons import ScoredRows, scored_rows
from peerage.reviews.rows import (
    Bools,
    Floats,
    Groups,
    Ints,
    Rows,
    ballot_codes,
    group,
    has_rounds,
    places,
    select,
)
from peerage.reviews.votes import shares


class View:
    """Reviews with their derived columns; own votes stand apart, because they are a subject.

    `value` is the column that stands for the score: "score", marks, or "rank", where the share
    of rivals beaten does.
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

    def within_ballot(self, values: Floats) -> Floats:
        """Values less their mean on the ballot."""
        return self.ballot.centred(values)
