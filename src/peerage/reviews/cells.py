"""Plain sums by subject and cluster: all that leaves an engine, and all that is added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peerage.reviews.rows import ALWAYS_ROOM, ROOMY, Bools, Floats, Groups, Ints, runs


@dataclass(frozen=True, slots=True)
class Cells:
    """One row of sums for each subject and cluster that have any; subjects in order."""

    subject: Ints
    cluster: Ints
    sums: Floats  # cells by columns

    @property
    def n(self) -> int:
        return len(self.subject)

    def only(self, chosen: Bools) -> Cells:
        """Some of the cells."""
        return Cells(self.subject[chosen], self.cluster[chosen], self.sums[chosen])


Tables = Mapping[str, Cells]  # by name


def ordered(subject: Ints, cluster: Ints, sums: Floats) -> Cells:
    """Cells sorted by subject, then cluster; equal ones are added up."""
    if len(subject) == 0:
        return Cells(subject, cluster, sums)
    key = subject.astype(np.int64) * (int(cluster.max()) + 1) + cluster
    if (np.diff(key) > 0).all():
        return Cells(subject, cluster, sums)
    return table_of(subject, cluster, list(sums.T))


@dataclass(frozen=True, slots=True)
class CellCodes:
    """The cell of each row, worked out once for all columns that are added up by it."""

    subject: Ints  # of the cells
    cluster: Ints
    ballots: Groups | None  # rows of one cell that stand together and are added up first
    code: Ints  # of each row, or ballot
    shape: tuple[int, int]  # clusters by subjects; all cells in a row where few are used
    used: Ints | slice  # of all subjects by clusters

    def sums(self, *columns: Floats | Bools | None) -> Floats:
        """Columns of rows added up by cell, cells by columns; None counts rows."""
        sums = np.empty((len(self.subject), len(columns)))
        size = self.shape[0] * self.shape[1]
        for i, column in enumerate(columns):
            if self.ballots is not None:
                column = self.ballots.count() if column is None else self.ballots.sum(column)
            added = np.bincount(self.code, column, minlength=size)
            sums[:, i] = added.reshape(self.shape).T.ravel()[self.used]
        return sums

    def cells(self, *sums: Floats) -> Cells:
        """Sums of these cells, side by side, as one table."""
        return Cells(self.subject, self.cluster, np.hstack(sums))


def cell_codes(subject: Ints, cluster: Ints) -> CellCodes:
    """The cells of rows by subject and cluster, in this order.

    Codes count subjects within a cluster: rows of one session are then added up close together
    in memory, which is several times as quick.
    """
    width, n = int(cluster.max(initial=0)) + 1, int(subject.max(initial=0)) + 1
    code = cluster.astype(np.int64) * n + subject
    ballots = None
    if 2 * np.count_nonzero(code[1:] != code[:-1]) < len(code) - 2:
        ballots = runs(code, whole=False)
        code = ballots.first(code)
    if width * n <= ROOMY * len(code) + ALWAYS_ROOM:
        n_rows = np.bincount(code, minlength=width * n).reshape(width, n)
        used = np.flatnonzero(n_rows.T.ravel())
        return CellCodes(used // width, used % width, ballots, code, (width, n), used)
    cell, code = np.unique(code % n * width + code // n, return_inverse=True)
    return CellCodes(cell // width, cell % width, ballots, code, (1, len(cell)), slice(None))


def table_of(subject: Ints, cluster: Ints, columns: Sequence[Floats | Bools | None]) -> Cells:
    """Columns of rows added up by subject and cluster; None counts rows."""
    codes = cell_codes(subject, cluster)
    return codes.cells(codes.sums(*columns))


def merge(parts: Sequence[Cells]) -> Cells:
    """The sums of several blocks of sessions together."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*((part.subject, part.cluster, part.sums) for part in parts), strict=True)
    return ordered(*map(np.concatenate, columns))


def merge_tables(parts: Sequence[Tables]) -> dict[str, Cells]:
    """The tables of several blocks by name; a block that lacks one adds nothing to it."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: merge([part[name] for part in parts if name in part]) for name in names}


def pooled(cells: Cells) -> Cells:
    """The same sums for everyone together, as subject 0."""
    return ordered(np.zeros_like(cells.subject), cells.cluster, cells.sums)


def beside(left: Cells, right: Cells) -> Cells:
    """Two tables of the same subjects and clusters as one; what either lacks is zero there."""
    after, before = (0, right.sums.shape[1]), (left.sums.shape[1], 0)
    wider = Cells(left.subject, left.cluster, np.pad(left.sums, ((0, 0), after)))
    return merge([wider, Cells(right.subject, right.cluster, np.pad(right.sums, ((0, 0), before)))])


def single_cell(*numbers: float) -> Cells:
    """Numbers that belong to nobody in particular, as a table of one cell."""
    zero = np.zeros(1, dtype=np.int64)
    return Cells(zero, zero, np.array([numbers], dtype=np.float64))
