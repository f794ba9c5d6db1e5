"""Rows as they lie in a file, a stream of whole sessions: the quick way through a large table.

Where the rows of each session stand together (as an export and the mirror write them) no row
need be kept, sorted or looked at twice. Whether they do is seen on the way; a session that
comes up again ends the attempt, and the slower way takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines.sql import sql

if TYPE_CHECKING:
    import duckdb

    Relation = duckdb.DuckDBPyRelation
    Batch = Mapping[str, NDArray[Any]]
    Keep = Callable[[Relation], AbstractContextManager[Relation]]

T = TypeVar("T")

BATCH_ROWS = 1_000_000


class ScatteredError(Exception):
    """A session's rows do not all stand together."""


def streamed(projected: Relation, keep: Keep, each: Callable[[Batch], T]) -> list[T] | None:
    """A function's value on batches of whole sessions; None where rows are not in runs.

    `session_id` is a hash here. `keep` lends the rows as a table, where they have to be one.
    """
    parts: list[T] = []
    runs: list[NDArray[np.uint64]] = []
    try:
        for batch, starts in _whole_sessions(_batches(projected, keep)):
            hashes = batch["session_id"][starts]
            if _repeats(hashes):
                return None
            runs.append(hashes)
            parts.append(each(batch))
    except ScatteredError:
        return None
    seen = np.concatenate(runs) if runs else np.zeros(0, dtype=np.uint64)
    return None if _repeats(seen) or not parts else parts


def _repeats(hashes: NDArray[np.uint64]) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def _batches(projected: Relation, keep: Keep) -> Iterator[Batch]:
    """The rows in the order of the file, a million at a time."""
    if find_spec("pyarrow") is not None:
        for batch in projected.to_arrow_reader(BATCH_ROWS):
            names = batch.schema.names
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield dict(zip(names, columns, strict=True))
        return
    with keep(projected) as rows:
        n_rows = int(rows.aggregate("count(*)").fetchall()[0][0])
        for start in range(0, n_rows, BATCH_ROWS):
            some = sql("rowid >= {} and rowid < {}", start, start + BATCH_ROWS)
            part = rows.filter(some).fetchnumpy()
            yield {name: _plain(values) for name, values in part.items()}


def _plain(values: Any) -> NDArray[Any]:
    """Masked numbers as NaN."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    return np.where(np.ma.getmaskarray(values), np.nan, values.data.astype(np.float64))


def _whole_sessions(batches: Iterator[Batch]) -> Iterator[tuple[Batch, NDArray[np.intp]]]:
    """Batches that end where a session ends, and the rows at which their sessions start."""
    rest: Batch | None = None
    for batch in batches:
        joined = batch if rest is None else _joined(rest, batch)
        starts = _starts(joined["session_id"])
        if len(starts) == 0:
            continue
        last = int(starts[-1])
        if last > 8 * BATCH_ROWS:
            raise ScatteredError
        rest = {name: values[last:] for name, values in joined.items()}
        if last:
            yield {name: values[:last] for name, values in joined.items()}, starts[:-1]
    if rest is not None:
        yield rest, np.zeros(1, dtype=np.intp)


def _joined(first: Batch, second: Batch) -> Batch:
    return {name: np.concatenate([first[name], second[name]]) for name in second}


def _starts(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    if len(hashes) == 0:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
