"""What the metrics share: scores, the panel's word on each answer, and ballots.

Everything is computed once, when first asked for, and kept for the metrics that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.reviews.cells import Cells, tabulate
from peerage.reviews.rows import Bools, Floats, Groups, Ints, Rows, group, held_group


class View:
    """Reviews with their derived columns; own votes stand apart, because they are a subject."""

    def __init__(self, rows: Rows, score: Floats) -> None:
        known = np.isfinite(score)
        self.given = score  # as it came, NaN where there is none
        self.all = rows
        self.rows = rows if known.all() else select(rows, known)
        self.every_score = score if known.all() else score[known]
        self.names = rows.names

    @cached_property
    def is_own(self) -> Bools:
        own: Bools = self.rows.reviewer == self.rows.candidate
        return own

    @cached_property
    def judged(self) -> Rows:
        """The rows that are about somebody else's answer."""
        return select(self.rows, ~self.is_own) if self.is_own.any() else self.rows

    @cached_property
    def score(self) -> Floats:
        """The scores of `judged`."""
        score = self.every_score
        return score[~self.is_own] if self.is_own.any() else score

    # -- the panel's word on an answer ---------------------------------------------------------

    @cached_property
    def answer(self) -> Groups:
        """Judged rows by session and candidate."""
        return self._answers(self.judged)

    def _answers(self, rows: Rows) -> Groups:
        return group((rows.session, rows.n_sessions), (rows.candidate, len(self.names)))

    @cached_property
    def n_by_answer(self) -> Floats:
        return self.answer.count()

    @cached_property
    def sum_by_answer(self) -> Floats:
        return self.answer.sum(self.score)

    @cached_property
    def repeated(self) -> bool:
        """Whether a reviewer judged one answer more than once, in rounds."""
        rounds = self.rows.numbers.get("round")
        return rounds is not None and len(rounds) > 0 and bool((rounds != rounds[0]).any())

    @cached_property
    def _by_others(self) -> tuple[Floats, Floats]:
        """For each judged row, how many scores the others gave this answer, and their sum."""
        n, total = self.n_by_answer[self.answer.code], self.sum_by_answer[self.answer.code]
        if not self.repeated:
            return n - 1.0, total - self.score
        rows = self.judged
        mine = group((self.answer.code, self.answer.n), (rows.reviewer, len(self.names)))
        return n - mine.count()[mine.code], total - mine.sum(self.score)[mine.code]

    @cached_property
    def has_others(self) -> Bools:
        found: Bools = self._by_others[0] > 0
        return found

    @cached_property
    def others(self) -> Floats:
        """The others' mean score of the same answer; zero where there are none."""
        n, total = self._by_others
        mean: Floats = total / np.maximum(n, 1.0)
        return mean

    @cached_property
    def centred(self) -> Floats:
        """Scores less the mean of their answer, everyone's."""
        mean = self.sum_by_answer / np.maximum(self.n_by_answer, 1.0)
        gap: Floats = self.score - mean[self.answer.code]
        return gap

    # -- ballots -------------------------------------------------------------------------------

    @cached_property
    def ballot(self) -> Groups:
        """Judged rows by session, reviewer and round; no ballot is empty."""
        rows = self.judged
        codes: list[tuple[Ints, int]] = [
            (rows.session, rows.n_sessions),
            (rows.reviewer, len(self.names)),
        ]
        if self.repeated:
            values, code = np.unique(rows.numbers["round"], return_inverse=True)
            codes.append((code, len(values)))
        return held_group(*codes)

    @cached_property
    def n_by_ballot(self) -> Floats:
        return self.ballot.count()

    @cached_property
    def ballot_reviewer(self) -> Ints:
        return self.ballot.first(self.judged.reviewer)

    @cached_property
    def ballot_cluster(self) -> Ints:
        return self.ballot.first(self.cluster)

    @cached_property
    def score_by_ballot(self) -> Floats:
        return self.ballot.sum(self.score)

    @cached_property
    def squares_by_ballot(self) -> Floats:
        return self.ballot.sum(self.score * self.score)

    def within_ballot(self, values: Floats) -> Floats:
        """Values less their mean on the ballot."""
        return self.ballot.centred(values)

    # -- units of the intervals ----------------------------------------------------------------

    @cached_property
    def cluster(self) -> Ints:
        return self.judged.cluster[self.judged.session]

    @cached_property
    def _cell(self) -> Groups:
        """Ballots by reviewer and cluster: the cells of most metrics."""
        return group(
            (self.ballot_reviewer, len(self.names)), (self.ballot_cluster, self.all.n_clusters)
        )

    def by_ballot(self, *columns: Floats | Bools) -> Cells:
        """Columns of ballots added up by reviewer and cluster."""
        return tabulate(self._cell, self.ballot_reviewer, self.ballot_cluster, columns)


class Chosen(Mapping[str, NDArray[Any]]):
    """Some rows of several columns; a column is copied when it is asked for, and once."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], places: Ints) -> None:
        self._columns, self._places = columns, places
        self._taken: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._taken:
            self._taken[name] = self._columns[name][self._places]
        return self._taken[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def select(rows: Rows, kept: Bools) -> Rows:
    """Some of the rows; sessions keep their codes."""
    places = np.flatnonzero(kept)
    return replace(
        rows,
        session=rows.session[places],
        reviewer=rows.reviewer[places],
        candidate=rows.candidate[places],
        numbers=Chosen(rows.numbers, places),
        keys=Chosen(rows.keys, places),
        text=None if rows.text is None else rows.text[places],
    )
