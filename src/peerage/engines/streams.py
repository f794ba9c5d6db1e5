"""Rows as they lie in a file, a stream of whole sessions: the quick way through a large table.

Where the rows of each session stand together (as an export and the mirror write them) no row
need be kept, sorted or looked at twice. Whether they do is seen on the way; a session that
comes up again ends the attempt, and the slower way takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.audit.rows import Rows
from peerage.engines import Reading

if TYPE_CHECKING:
    import duckdb

    Relation = duckdb.DuckDBPyRelation
    Batch = Mapping[str, NDArray[Any]]

T = TypeVar("T")

BATCH_ROWS = 1_000_000
CHUNK_ROWS = 131_072  # handed to the kernel at a time: what a processor's cache holds
MODULI = (251, 1_021, 4_093, 16_381, 65_521)  # remainders that fit in two bytes


class ScatteredError(Exception):
    """A session's rows do not all stand together."""


def streamed(
    connection: duckdb.DuckDBPyConnection,
    relation: Relation,
    reading: Reading,
    kernel: Callable[[Rows], T],
) -> list[T] | None:
    """A fold without clusters over rows in runs; None where it cannot be done this way."""
    coding = _coding(connection, reading.names)
    if coding is None or reading.keys or reading.text:
        return None
    modulus, codes = coding
    projected = relation.project(_projection(reading, modulus))
    parts: list[T] = []
    runs: list[NDArray[np.uint64]] = []
    try:
        for batch, starts in _whole_sessions(_batches(connection, projected)):
            hashes = batch["session_id"][starts]
            if _repeats(hashes):
                return None
            runs.append(hashes)
            parts += [kernel(rows) for rows in _chunks(batch, starts, reading, codes)]
    except ScatteredError:
        return None
    seen = np.concatenate(runs) if runs else np.zeros(0, dtype=np.uint64)
    return None if _repeats(seen) or not parts else parts


def _repeats(hashes: NDArray[np.uint64]) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def _coding(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str]
) -> tuple[int, NDArray[np.int64]] | None:
    """A modulus that tells the names' hashes apart, and the code of each remainder."""
    found = connection.execute(
        "select hash(text) as hash from (select unnest(cast(? as varchar[])) as text)",
        [list(names)],
    ).fetchnumpy()
    hashes = np.asarray(found["hash"], dtype=np.uint64)
    for modulus in MODULI:
        places = (hashes % np.uint64(modulus)).astype(np.int64)
        if len(np.unique(places)) == len(names):
            codes = np.zeros(modulus, dtype=np.int64)
            codes[places] = np.arange(len(names))
            return modulus, codes
    return None


def _projection(reading: Reading, modulus: int) -> str:
    return ", ".join(
        [
            "hash(session_id) as session_id",
            f"cast(hash(reviewer) % {modulus} as usmallint) as reviewer",
            f"cast(hash(candidate) % {modulus} as usmallint) as candidate",
            *(f'cast("{name}" as double) as "{name}"' for name in reading.numbers),
        ]
    )


def _batches(connection: duckdb.DuckDBPyConnection, projected: Relation) -> Iterator[Batch]:
    """The rows in the order of the file, a million at a time."""
    if find_spec("pyarrow") is not None:
        for batch in projected.to_arrow_reader(BATCH_ROWS):
            names = batch.schema.names
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield dict(zip(names, columns, strict=True))
        return
    n_rows = int(projected.aggregate("count(*)").fetchall()[0][0])
    connection.execute("create or replace temp table peerage_stream as from projected")
    try:
        kept = connection.table("peerage_stream")
        for start in range(0, n_rows, BATCH_ROWS):
            part = kept.filter(f"rowid >= {start} and rowid < {start + BATCH_ROWS}").fetchnumpy()
            yield {name: _plain(values) for name, values in part.items()}
    finally:
        connection.execute("drop table if exists peerage_stream")


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


def _chunks(
    batch: Batch, starts: NDArray[np.intp], reading: Reading, codes: NDArray[np.int64]
) -> Iterator[Rows]:
    """A batch a few sessions at a time, with codes for names."""
    n_rows = len(batch["session_id"])
    edges = np.append(starts, n_rows)
    at = 0
    while at < len(starts):
        end = int(np.searchsorted(edges, edges[at] + CHUNK_ROWS, side="right")) - 1
        end = min(max(end, at + 1), len(starts))
        part = slice(int(edges[at]), int(edges[end]))
        n_sessions = end - at
        yield Rows(
            names=reading.names,
            n_clusters=1,
            cluster=np.zeros(n_sessions, dtype=np.int64),
            session=np.repeat(np.arange(n_sessions), np.diff(edges[at : end + 1])),
            reviewer=codes[batch["reviewer"][part]],
            candidate=codes[batch["candidate"][part]],
            numbers={name: batch[name][part] for name in reading.numbers},
        )
        at = end
