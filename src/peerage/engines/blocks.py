"""Rows of DuckDB as blocks of whole groups: texts leave as hashes, and small codes arrive.

Where the rows of each group stand together (as an export, an import and the mirror write
them) no row need be kept, sorted or looked at twice. Whether they do is seen on the way; a
group that comes up again ends the attempt, and the slower way takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines import Add, Block, Reading, added
from peerage.engines.sql import Sql, listed, quoted, sql
from peerage.errors import InputError
from peerage.reviews.rows import Ints, clusters_of

if TYPE_CHECKING:
    import duckdb

    Relation = duckdb.DuckDBPyRelation
    Batch = Mapping[str, NDArray[Any]]

T = TypeVar("T")
Hashes = NDArray[np.uint64]

BATCH_ROWS = 1_000_000
NARROW_BITS = (8, 10, 12, 14, 16)  # of a hash: where so few tell all names apart, few are sent
SPARE_BITS, MAX_BITS = 3, 24  # slots of a table: at least 2^3 for each name, 2^24 at most
SEVERAL = -2  # in place of a code, where two names meet in a slot


class Codes:
    """From hashes of texts to their places in a list: the one table of names that there is.

    The hash is DuckDB's own and never leaves: it only finds equal texts. The table is on its
    first bits, ten times as quick as searching; only where two names meet is one searched for.
    """

    def __init__(self, hashes: Hashes, codes: NDArray[np.int32]) -> None:
        n = len(hashes)
        self.bits = next((bits for bits in NARROW_BITS if _apart(hashes, bits)), None)
        bits = self.bits or min(MAX_BITS, n.bit_length() + SPARE_BITS)
        self.shift = 64 - bits
        slots = (hashes >> np.uint64(self.shift)).astype(np.int64)
        self._table = np.full(1 << bits, -1, dtype=np.int32)
        self._table[slots] = codes
        met = np.zeros(n, dtype=bool)
        if self.bits is None:
            contested = np.bincount(slots, minlength=1 << bits) > 1
            self._table[contested] = SEVERAL
            met = contested[slots]
        order = np.argsort(hashes[met])
        self._hashes, self._codes = hashes[met][order], codes[met][order]
        if (self._hashes[1:] == self._hashes[:-1]).any():
            raise InputError(
                "two names in a table have the same 64-bit hash.",
                hint="That happens once in a billion tables: rename one of your ids.",
            )

    def __call__(self, hashes: NDArray[Any]) -> NDArray[np.int32]:
        """The codes of whole hashes, or of the first bits alone if they were sent alone."""
        if hashes.dtype == np.uint16:
            return self._table.take(hashes)
        found = self._table.take((hashes >> np.uint64(self.shift)).view(np.int64))
        if len(self._hashes):
            rest = np.flatnonzero(found == SEVERAL)
            found[rest] = self._codes[np.searchsorted(self._hashes, hashes[rest])]
        return found


def _apart(hashes: Hashes, bits: int) -> bool:
    """Whether the first bits of the hashes are all different."""
    few = len(hashes) ** 2 < 64 << bits  # else there is no hope, by the birthday rule
    return few and len(np.unique(hashes >> np.uint64(64 - bits))) == len(hashes)


class Encoder:
    """Hashes into codes, as one reading asks for them."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, relation: Relation, reading: Reading
    ) -> None:
        self.reading = reading
        self.n_clusters = 1
        if reading.clusters:
            self._groups, self._cluster, self.n_clusters = _clusters(relation, reading)
        self._null = _hashes(connection, [])[-1]
        made: dict[int, Codes] = {}  # reviewers and candidates share their names
        for names in reading.names.values():
            if id(names) not in made:
                codes = np.append(np.arange(len(names), dtype=np.int32), np.int32(-1))
                made[id(names)] = Codes(_hashes(connection, names), codes)
        self._codes = {column: made[id(names)] for column, names in reading.names.items()}

    def projection(self) -> Sql:
        """Narrow columns: hashes for texts, or a few bits of them, and floats for the rest."""
        group = quoted(self.reading.group)
        parts = [sql("hash({0}) as {0}", group)]
        for column, codes in self._codes.items():
            name = quoted(column)
            if column == self.reading.group:
                continue
            if codes.bits is None:
                parts.append(sql("hash({0}) as {0}", name))
            else:
                bits = sql("hash({}) >> cast({} as ubigint)", name, codes.shift)
                parts.append(sql("cast({} as usmallint) as {}", bits, name))
        parts += [sql("cast({0} as double) as {0}", quoted(name)) for name in self.reading.numbers]
        parts += [sql("hash(query_id) as query_id")] if self.reading.query_id else []
        parts += [sql("text")] if self.reading.text else []
        return listed(parts)

    def block(self, arrays: Batch) -> Block:
        reading, query_id, cluster = self.reading, None, None
        codes: dict[str, Ints] = {name: of(arrays[name]) for name, of in self._codes.items()}
        if reading.group not in codes:
            codes[reading.group], groups = _counted(arrays[reading.group])
            cluster = self._cluster[self._groups(groups)] if reading.clusters else None
        if reading.query_id:
            hashes = np.asarray(arrays["query_id"], dtype=np.uint64)
            query_id = np.where(hashes == self._null, -1, (hashes >> np.uint64(1)).view(np.int64))
        return Block(
            codes,
            {name: floats(arrays[name]) for name in reading.numbers},
            query_id,
            filled(arrays["text"]) if reading.text else None,
            cluster,
            self.n_clusters,
        )


def _counted(hashes: Hashes) -> tuple[Ints, Hashes]:
    """Groups numbered in the order in which they appear, and their hashes; cheap for runs."""
    starts = _starts(hashes)
    runs = hashes[starts]
    kept, first, code = np.unique(runs, return_index=True, return_inverse=True)
    place = np.empty(len(kept), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(kept))
    rows = np.repeat(place[code], np.diff(np.append(starts, len(hashes))))
    return rows, runs[np.sort(first)]


def _clusters(relation: Relation, reading: Reading) -> tuple[Codes, Ints, int]:
    """A table of the groups, the cluster that each is in, and how many there are."""
    unit = reading.unit(query_id=sql("min(query_id)"))
    columns = sql("hash({}) as hash, {} as unit", quoted(reading.group), unit)
    found = relation.aggregate(columns, quoted(reading.group)).fetchnumpy()
    cluster, n_clusters = clusters_of(found["unit"].tolist())
    hashes = np.asarray(found["hash"], dtype=np.uint64)
    return Codes(hashes, np.arange(len(hashes), dtype=np.int32)), cluster, n_clusters


def _hashes(connection: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> Hashes:
    """DuckDB's hash of each text, and last that of null."""
    column = np.empty(len(texts) + 1, dtype=object)
    column[:-1] = texts
    connection.register("peerage_texts", {"text": column})
    try:
        hashed = "select hash(cast(text as varchar)) as hash from peerage_texts"
        return np.asarray(connection.execute(hashed).fetchnumpy()["hash"], dtype=np.uint64)
    finally:
        connection.unregister("peerage_texts")


# -- one batch after the other -----------------------------------------------------------------


class ScatteredError(Exception):
    """A group's rows do not all stand together."""


def streamed(projected: Relation, group: str, each: Callable[[Batch], T], add: Add[T]) -> T | None:
    """The sum of a function's values on batches of whole groups; None if rows are not in runs."""
    runs: list[Hashes] = []

    def parts() -> Iterator[T]:
        for batch in _whole_groups(_batches(projected), group):
            runs.append(batch[group][_starts(batch[group])])
            if _repeats(runs[-1]):
                raise ScatteredError
            yield each(batch)

    try:
        total = added(parts(), add)
    except ScatteredError:
        return None
    return None if _repeats(np.concatenate(runs)) else total


def _repeats(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def _batches(projected: Relation) -> Iterator[Batch]:
    """The rows in the order of the file, a million at a time."""
    for batch in projected.to_arrow_reader(BATCH_ROWS):
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        yield dict(zip(batch.schema.names, columns, strict=True))


def _whole_groups(batches: Iterator[Batch], group: str) -> Iterator[Batch]:
    """Batches that end where a group ends."""
    rest: Batch | None = None
    for batch in batches:
        if rest is not None:
            batch = {name: np.concatenate([rest[name], batch[name]]) for name in batch}
        starts = _starts(batch[group])
        if len(starts) == 0:
            continue
        last = int(starts[-1])
        if last > 8 * BATCH_ROWS:
            raise ScatteredError
        rest = {name: values[last:] for name, values in batch.items()}
        if last:
            yield {name: values[:last] for name, values in batch.items()}
    if rest is not None:
        yield rest


def _starts(hashes: Hashes) -> NDArray[np.intp]:
    """Where runs of equal hashes begin."""
    return np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])


# -- values --------------------------------------------------------------------------------------


def filled(values: Any) -> NDArray[Any]:
    """Masked values as NaN, or as None among objects."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind == "O":
        out: NDArray[Any] = np.array(values.data, dtype=object)
        out[np.ma.getmaskarray(values)] = None  # filled(None) would fill in a question mark
        return out
    return floats(values)


def floats(values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ma.MaskedArray):
        filled: NDArray[np.float64] = np.ma.filled(values.astype(np.float64), np.nan)
        return filled
    return np.asarray(values, dtype=np.float64)
