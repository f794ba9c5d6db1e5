"""Plain sums by subject and cluster: all that leaves an engine, and all that is added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerage.reviews.rows import ROOMY, Bools, Floats, Groups, Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """One row of sums for each subject and cluster that have any; subjects in order."""

    subject: Ints
    cluster: Ints
    sums: Floats  # cells by columns

    @property
    def n(self) -> int:
        return len(self.subject)

    def columns(self, *which: int) -> Cells:
        return Cells(self.subject, self.cluster, self.sums[:, which])


def tabulate(
    groups: Groups, subject: Ints, cluster: Ints, columns: Sequence[Floats | Bools | None]
) -> Cells:
    """Columns of rows added up by group; None counts rows. Empty groups are left out.

    `subject` and `cluster` are those of the rows; each group lies within one of either.
    """
    n = groups.count()
    sums = np.column_stack([n if column is None else groups.sum(column) for column in columns])
    held = np.flatnonzero(n)
    if groups.width is not None:  # a code is a subject and a cluster
        return Cells(held // groups.width, held % groups.width, sums[held])
    return ordered(groups.first(subject)[held], groups.first(cluster)[held], sums[held])


def ordered(subject: Ints, cluster: Ints, sums: Floats) -> Cells:
    """Cells sorted by subject, then cluster; equal ones are added up."""
    if len(subject) == 0:
        return Cells(subject, cluster, sums)
    key = subject.astype(np.int64) * (int(cluster.max()) + 1) + cluster
    if (np.diff(key) > 0).all():
        return Cells(subject, cluster, sums)
    return table_of(subject, cluster, list(sums.T))


def table_of(subject: Ints, cluster: Ints, columns: Sequence[Floats | Bools]) -> Cells:
    """Columns of rows added up by subject and cluster."""
    width = int(cluster.max(initial=0)) + 1
    key = subject.astype(np.int64) * width + cluster
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else key
    if 2 * len(starts) < len(key):  # rows of one ballot stand together: add those first
        key = key[starts]
        columns = [np.add.reduceat(column, starts, dtype=np.float64) for column in columns]
    size = int(key.max(initial=-1)) + 1
    if size <= ROOMY * len(key) + 65_536:
        kept, code = np.flatnonzero(np.bincount(key, minlength=size)), key
    else:
        kept, code = np.unique(key, return_inverse=True)
        size = len(kept)
    sums = np.empty((len(kept), len(columns)))
    for i, column in enumerate(columns):
        added = np.bincount(code, column, minlength=size)
        sums[:, i] = added[kept] if code is key else added
    return Cells(kept // width, kept % width, sums)


def merge(parts: Sequence[Cells]) -> Cells:
    """The sums of several blocks of sessions together."""
    if len(parts) == 1:
        return parts[0]
    return ordered(
        np.concatenate([part.subject for part in parts]),
        np.concatenate([part.cluster for part in parts]),
        np.concatenate([part.sums for part in parts]),
    )


def pooled(cells: Cells) -> Cells:
    """The same sums for everyone together, as subject 0."""
    return ordered(np.zeros_like(cells.subject), cells.cluster, cells.sums)


def beside(left: Cells, right: Cells) -> Cells:
    """Two tables of the same subjects and clusters as one; what either lacks is zero there."""
    n_left, n_right = left.sums.shape[1], right.sums.shape[1]
    return ordered(
        np.concatenate([left.subject, right.subject]),
        np.concatenate([left.cluster, right.cluster]),
        np.concatenate(
            [
                np.pad(left.sums, ((0, 0), (0, n_right))),
                np.pad(right.sums, ((0, 0), (n_left, 0))),
            ]
        ),
    )


def count_of(n: float) -> Cells:
    """A number that belongs to nobody in particular, as a table of one cell."""
    zero = np.zeros(1, dtype=np.int64)
    return Cells(zero, zero, np.array([[float(n)]]))
