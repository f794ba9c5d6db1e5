"""Groups of rows, and sums by subject and cluster; sums of several blocks can be added.

Grouping is fast if the rows of each group are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.errors import InputError

Ints = NDArray[np.integer]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]
Kind = TypeVar("Kind", bound=np.generic)
Named = TypeVar("Named")
MAX_PAIRS = 2**31  # that are listed at a time: an array of them has 16 GB
MAX_COLUMNS = 16  # groups of one size with at most this many rows are summed as a table
ROOMY, ALWAYS_ROOM = 4, 65_536  # a table is cheaper than sorting up to 4 · rows + 65,536 cells


# -- groups of rows -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups: a code for each row, and the number of possible codes.

    `starts` is set if the rows of each group are adjacent and no group is empty; sums are then
    several times faster.
    """

    code: Ints
    n: int
    starts: Ints | None = None
    size: int | None = None  # of every group, if `starts` is set and all have the same size

    def count(self) -> Floats:
        if self.size is not None:
            return np.full(self.n, float(self.size))
        return np.bincount(self.code, minlength=self.n).astype(np.float64)

    def sum(self, values: Floats | Bools) -> Floats:
        if self.size is not None:
            table: Floats = values.reshape(self.n, self.size).astype(np.float64, copy=False)
            return table @ np.ones(self.size)  # ten times faster than a sum along rows
        if self.starts is not None and len(self.starts):
            return np.add.reduceat(values, self.starts, dtype=np.float64)
        return np.bincount(self.code, weights=values, minlength=self.n).astype(np.float64)

    def first_rows(self) -> Ints:
        """Return the index of the first row of each group; no group may be empty."""
        if self.starts is not None:
            return self.starts
        at = np.zeros(self.n, dtype=np.int64)
        at[self.code[::-1]] = np.arange(len(self.code) - 1, -1, -1)  # the last assignment stays
        return at

    def first(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return one value per group, of a column that is constant in groups; zero if empty."""
        if self.starts is not None:
            return values[self.starts]
        by_group = np.zeros(self.n, dtype=values.dtype)
        by_group[self.code] = values
        return by_group

    def each(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return, for each row, the value of its group."""
        return values[self.code] if self.size is None else np.repeat(values, self.size)

    def centre(self, values: Floats) -> Floats:
        """Return values minus the mean of their group; no group may be empty."""
        return values - self.each(self.sum(values) / self.count())


def places(chosen: Bools) -> Ints | slice:
    """Return an index of the chosen rows; if all are chosen, a slice, so that nothing is copied."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def group(*codes_and_sizes: tuple[Ints, int]) -> Groups:
    """Return groups of rows with equal codes; no group is empty.

    It is fast if the rows of each group are adjacent.
    """
    first, size = codes_and_sizes[0]
    code: Ints = first.astype(np.int64)
    for codes, n in codes_and_sizes[1:]:
        if size * max(n, 1) > 2**62:
            code, size = dense(code)
        code = code * max(n, 1)
        code += codes
        size *= max(n, 1)
    return runs(code) if (code[1:] >= code[:-1]).all() else Groups(*dense(code))


def dense(key: Ints) -> tuple[Ints, int]:
    """Return codes from zero without gaps for keys, in the order of the keys, and their number."""
    if len(key) == 0:
        return key, 0
    low = int(key.min())
    width = int(key.max()) - low + 1
    if width > ROOMY * len(key) + ALWAYS_ROOM:
        keys, code = np.unique(key, return_inverse=True)
        return code.astype(np.int64), len(keys)
    code_by_key = np.cumsum(np.bincount(key - low, minlength=width) > 0) - 1
    return code_by_key[key - low], int(code_by_key[-1]) + 1


def runs(code: Ints, *, whole: bool = True) -> Groups:
    """Return runs of adjacent rows with the same code, as groups in their order.

    Unless `whole` is set, runs may be cut into groups of one size, which divides all lengths.
    """
    starts = np.flatnonzero(np.append(True, code[1:] != code[:-1])[: len(code)])
    lengths = np.diff(np.append(starts, len(code)))
    size = int(np.gcd.reduce(lengths)) if len(lengths) else 0
    if not 1 < size <= MAX_COLUMNS or (whole and (lengths != size).any()):
        return Groups(np.repeat(np.arange(len(starts)), lengths), len(starts), starts)
    n = len(code) // size
    return Groups(np.repeat(np.arange(n), size), n, np.arange(0, len(code), size), size=size)


def spans(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return, for each index in several consecutive spans, its span and the index itself."""
    if (n := int(sizes.sum(dtype=np.float64))) > MAX_PAIRS:
        raise InputError(
            f"some ballots have so many answers that there are {n:,} pairs of them to compare.",
            hint="Check whether rows of the table are repeated, or session ids are missing.",
        )
    span = np.repeat(np.arange(len(sizes)), sizes)
    return span, np.arange(len(span)) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)


# -- sums ---------------------------------------------------------------------------------------


def name_columns(kind: Callable[..., Named], sums: Floats) -> Named:
    """Return the columns of a table of sums as a named tuple."""
    return kind(*np.moveaxis(sums, -1, 0))


@dataclass(frozen=True, slots=True)
class Cells:
    """One row of sums for each subject and cluster that occur together; sorted by subject."""

    subject: Ints
    cluster: Ints
    sums: Floats  # cells by columns

    @property
    def n(self) -> int:
        return len(self.subject)

    def only(self, chosen: Bools) -> Cells:
        """Return some of the cells."""
        return Cells(self.subject[chosen], self.cluster[chosen], self.sums[chosen])


Tables = Mapping[str, Cells]  # by name


def sort_cells(subject: Ints, cluster: Ints, sums: Floats) -> Cells:
    """Return cells sorted by subject, then cluster; equal ones are added up."""
    if len(subject) == 0:
        return Cells(subject, cluster, sums)
    key = subject.astype(np.int64) * (int(cluster.max()) + 1) + cluster
    if (np.diff(key) > 0).all():
        return Cells(subject, cluster, sums)
    return table_of(subject, cluster, list(sums.T))


@dataclass(frozen=True, slots=True)
class CellCodes:
    """The cell of each row, computed once for all columns that are summed by cell."""

    subject: Ints  # of the cells
    cluster: Ints
    ballots: Groups | None  # adjacent rows of one cell, which are added up first
    code: Ints  # of each row, or of each ballot if these are set
    shape: tuple[int, int]  # clusters by subjects; or 1 by used cells, if few are used
    used: Ints | slice  # the cells with rows, among all subjects by clusters

    def sums(self, *columns: Floats | Bools | None) -> Floats:
        """Return columns summed by cell (cells × columns); None counts rows."""
        sums = np.empty((len(self.subject), len(columns)))
        size = self.shape[0] * self.shape[1]
        for i, column in enumerate(columns):
            if self.ballots is not None:
                column = self.ballots.count() if column is None else self.ballots.sum(column)
            added = np.bincount(self.code, column, minlength=size)
            sums[:, i] = added.reshape(self.shape).T.ravel()[self.used]
        return sums

    def cells(self, *sums: Floats) -> Cells:
        """Return the sums of these cells as one table."""
        return Cells(self.subject, self.cluster, np.hstack(sums))


def cell_codes(subject: Ints, cluster: Ints) -> CellCodes:
    """Return the cells of rows by subject and cluster, in this order.

    Codes count subjects within a cluster: sums of one session are then close together in memory,
    which is several times faster.
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
    """Return columns summed by subject and cluster; None counts rows."""
    codes = cell_codes(subject, cluster)
    return codes.cells(codes.sums(*columns))


def merge(parts: Sequence[Cells]) -> Cells:
    """Return the sums of several blocks of sessions added up."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*((part.subject, part.cluster, part.sums) for part in parts), strict=True)
    return sort_cells(*map(np.concatenate, columns))


def merge_tables(parts: Sequence[Tables]) -> dict[str, Cells]:
    """Return the tables of several blocks added up by name; a block may lack some tables."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: merge([part[name] for part in parts if name in part]) for name in names}


def pool_cells(cells: Cells) -> Cells:
    """Return the sums over all subjects, as subject 0."""
    return sort_cells(np.zeros_like(cells.subject), cells.cluster, cells.sums)


def join_columns(left: Cells, right: Cells) -> Cells:
    """Return two tables of the same subjects and clusters as one; missing values are zero."""
    after, before = (0, right.sums.shape[1]), (left.sums.shape[1], 0)
    wider = Cells(left.subject, left.cluster, np.pad(left.sums, ((0, 0), after)))
    return merge([wider, Cells(right.subject, right.cluster, np.pad(right.sums, ((0, 0), before)))])


def single_cell(*numbers: float) -> Cells:
    """Return numbers without a subject as a table with one cell."""
    zero = np.zeros(1, dtype=np.int64)
    return Cells(zero, zero, np.array([numbers], dtype=np.float64))
