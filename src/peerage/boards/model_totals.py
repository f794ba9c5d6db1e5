"""One slice of a table's sums, by model: what the columns of its board are taken from."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from peerage.boards.model_sums import ModelSums
from peerage.reviews.rows import Floats, Ints
from peerage.stats import clusters as by_cluster


class ModelTotals:
    """One slice of the sums, by model: what every column of the board is taken from."""

    def __init__(self, sums: ModelSums) -> None:
        self.sums = sums
        every = sums.totals("models")
        self.code = np.flatnonzero(every["appeared"] > 0.0)  # of each model among the names
        self.by_model = {name: column[self.code] for name, column in every.items()}
        self.models = tuple(sums.names[i] for i in self.code.tolist())
        self._place = np.full(len(sums.names), -1)
        self._place[self.code] = np.arange(len(self.code))

    def __len__(self) -> int:
        return len(self.models)

    def place_of(self, code: Ints) -> Ints:
        """The places of models on this board by their codes among the names."""
        return self._place[code]

    def column(self, name: str) -> Floats:
        return self.by_model[name]

    def count(self, name: str) -> int:
        return int(self.sums.totals("counts")[name][0])

    @property
    def has_scores(self) -> bool:
        return "scores" in self.sums.tables and self.sums.tables["scores"].n > 0

    def mean(self, top: str, bottom: str) -> Floats:
        """A mean over sessions, NaN where a model is in none."""
        return by_cluster.quotient(self.column(top), self.column(bottom))

    def by_cluster(self, name: str) -> Floats:
        """A column of the sums, clusters by models; clusters that hold nothing are left out."""
        cells, columns = self.sums.tables["models"], self.sums.columns("models")
        table = np.zeros((self.sums.n_clusters, len(self)))
        table[cells.cluster, self._place[cells.subject]] = columns[name]
        return table[self._clusters]

    @property
    def _clusters(self) -> Ints:
        """The clusters that hold a vote."""
        cells, columns = self.sums.tables["models"], self.sums.columns("models")
        return np.unique(cells.cluster[columns["voted"] > 0.0])

    @cached_property
    def met(self) -> Floats | None:
        """By model and rival: the rival's part in the model's shares; None where not added up."""
        if "rivals" not in self.sums.tables:
            return None
        met = self.sums.totals("rivals")["met"].reshape((len(self.sums.names),) * 2)
        return met[np.ix_(self.code, self.code)]

    def expected(self, meetings: ModelSums, shares: Floats) -> Floats:
        """Clusters by models: the sums of shares to be expected, given those against each rival."""
        cells = meetings.tables["meetings"]
        one, other = np.divmod(cells.subject, len(meetings.names))
        one, other = self._place[one], self._place[other]
        points = meetings.columns("meetings")["met"] * shares[one, other]
        shape = (self.sums.n_clusters, len(self))
        cell = cells.cluster.astype(np.int64) * len(self) + one
        by_cell: Floats = np.bincount(cell, points, minlength=math.prod(shape)).astype(np.float64)
        return by_cell.reshape(shape)[self._clusters]

    def matches(self) -> tuple[Ints, Ints, dict[str, Floats]]:
        """The upper model, the lower one, and the sums of each cell of the pairs."""
        above, below = np.divmod(self.sums.tables["pairs"].subject, len(self.sums.names))
        return self._place[above], self._place[below], self.sums.columns("pairs")

    def points(self) -> Floats:
        """How often each model stood above each other on a ballot; a tie is half."""
        points = np.zeros((len(self), len(self)))
        above, below, sums = self.matches()
        np.add.at(points, (above, below), sums["won"] + sums["tied"] / 2.0)
        np.add.at(points, (below, above), sums["tied"] / 2.0)
        return points

    def by_reviewer(self, table: str) -> tuple[Ints, Ints, dict[str, Floats]]:
        """Reviewer, model and sums of each pair that has any, of a table by reviewers."""
        cells = self.sums.tables[table]
        starts = np.flatnonzero(np.append(True, np.diff(cells.subject) != 0)[: cells.n])
        reviewer, candidate = np.divmod(cells.subject[starts], len(self.sums.names))
        model = self._place[candidate]
        on_board = model >= 0
        columns = {
            name: np.add.reduceat(column, starts)[on_board] if cells.n else column
            for name, column in self.sums.columns(table).items()
        }
        return reviewer[on_board], model[on_board], columns
