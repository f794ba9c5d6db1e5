"""From Arrow to arrays: a table as codes and floats, and reviews in one block or in many.

DuckDB's tables are all in this process. On Spark the same functions go to the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines import Block, Engine, Frame, Names, Reading
from peerage.reviews.cells import Ints, Texts
from peerage.reviews.columns import REVIEWS, required
from peerage.reviews.rows import Rows, add_census, in_runs, settled, take_census, unit_of

T = TypeVar("T")
REQUIRED = required(REVIEWS)


def block_of(batches: Iterable[Any], reading: Reading) -> Block:
    """Return record batches of Arrow as one block, in the order of their rows.

    A column's codes count its texts in the order in which they appear; texts are dropped batch by
    batch, so that no more than a batch of them is in memory.
    """
    texts = tuple(dict.fromkeys((reading.group, *reading.names, *reading.texts)))
    parts: dict[str, list[Any]] = {name: [] for name in (*texts, *reading.numbers)}
    answers: list[Texts] = []
    for batch in batches:
        for name in texts:
            parts[name].append(batch.column(name).dictionary_encode())
        for name in reading.numbers:
            parts[name].append(_floats(batch.column(name)))
        if reading.text:
            answers.append(batch.column("text").to_numpy(zero_copy_only=False))
    codes, labels = {}, {}
    for name in texts:
        codes[name], labels[name] = _coded(parts.pop(name), reading.names.get(name))
    numbers = {name: _joined(parts.pop(name), np.float64) for name in reading.numbers}
    return Block(codes, labels, numbers, _joined(answers, np.object_) if reading.text else None)


def _floats(column: Any) -> NDArray[np.float64]:
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)  # NaN for null
    return values.astype(np.float64, copy=False)


def _joined(parts: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _coded(parts: list[Any], names: Names | None) -> tuple[NDArray[np.int32], Texts]:
    """Return the code of each row, −1 for null, and the texts that the codes stand for."""
    if not parts:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=object)
    import pyarrow as pa  # type: ignore[import-untyped]

    chunks = pa.chunked_array(parts).unify_dictionaries().chunks
    # Every chunk has the texts of those before it, so that the last one has all of them.
    known = max((chunk.dictionary for chunk in chunks), key=len)
    codes = np.concatenate([_indices(chunk.indices) for chunk in chunks])
    if names is None:
        return codes, known.to_numpy(zero_copy_only=False)
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    places = pc.index_in(known, value_set=pa.array(list(names), known.type))
    place = np.append(_indices(places), np.int32(-1))
    return place[codes], np.asarray(names, dtype=object)


def _indices(values: Any) -> NDArray[np.int32]:
    array: NDArray[np.int32] = values.fill_null(-1).to_numpy(zero_copy_only=False)
    return array.astype(np.int32, copy=False)


# -- rows as arrays ------------------------------------------------------------------------------

Change = Callable[[Rows], Rows]


@dataclass(frozen=True, slots=True)
class InMemory:
    """All rows in this process: one block."""

    rows: Rows
    is_settled: bool = False  # whether codes and clusters are those of just these rows

    def __call__(self, kernel: Callable[[Rows], T]) -> list[T]:
        """Return a pure function's value on each block of whole sessions."""
        return [kernel(self.rows)]

    def changed(self, change: Change) -> InMemory:
        """Return what a pure function makes of each block."""
        rows = change(self.rows)
        return self if rows is self.rows else InMemory(rows)

    def settled(self) -> InMemory:
        """Return the rows with codes and clusters that all blocks share."""
        if self.is_settled:
            return self
        return InMemory(settled(self.rows, take_census(self.rows)), is_settled=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The reviewers and candidates of settled rows."""
        return self.rows.names


@dataclass(frozen=True, slots=True)
class OnWorkers:
    """Rows on a cluster: the same functions are applied there, block by block."""

    engine: Engine
    frame: Frame
    reading: Reading
    changes: tuple[Change, ...] = ()
    names: tuple[str, ...] = ()

    def __call__(self, kernel: Callable[[Rows], T]) -> list[T]:
        """Return a pure function's value on each block of whole sessions."""
        changes = self.changes  # the engine itself does not go to the workers

        def on_block(block: Block) -> list[T]:
            rows = rows_of(block)
            for change in changes:
                rows = change(rows)
            return [kernel(rows)]

        def joined(parts: Sequence[list[T]]) -> list[T]:
            return [one for part in parts for one in part]

        return self.engine.fold(self.frame, self.reading, on_block, joined)

    def changed(self, change: Change) -> OnWorkers:
        """Return what a pure function makes of each block."""
        return replace(self, changes=(*self.changes, change))

    def settled(self) -> OnWorkers:
        """Return the rows with codes and clusters that all blocks share."""
        census = add_census(self(take_census))
        return replace(self.changed(partial(settled, census=census)), names=census.names)


Blocks: TypeAlias = InMemory | OnWorkers


def rows_of(block: Block) -> Rows:
    """Return a block of whole sessions as rows, those of each session together."""
    sides = [block.labels[side].tolist() for side in ("reviewer", "candidate")]
    names = sorted({*sides[0], *sides[1]})
    place = {name: code for code, name in enumerate(names)}
    reviewer, candidate = (
        np.array([place[name] for name in known], dtype=np.int64)[block.codes[side]]
        for side, known in zip(("reviewer", "candidate"), sides, strict=True)
    )
    keys, labels = {}, {}
    for name in block.codes:
        if name not in REQUIRED:
            keys[name], labels[name] = _sorted_codes(block.codes[name], block.labels[name])
    session, ids = block.codes["session_id"].astype(np.int64), block.labels["session_id"]
    rows = Rows(
        names=tuple(names),
        n_clusters=1,
        cluster=np.zeros(len(ids), dtype=np.int64),
        session=session,
        reviewer=reviewer,
        candidate=candidate,
        numbers=block.numbers,
        keys=keys,
        text=block.text,
        labels=labels,
        session_ids=ids,
        unit=np.zeros(len(ids), dtype=object),
    )
    return in_runs(replace(rows, unit=_units(rows)))


def _sorted_codes(codes: Ints, labels: Texts) -> tuple[Ints, Texts]:
    """Return codes into texts that are sorted."""
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.full(len(labels) + 1, -1, dtype=np.int64)  # the last is that of null
    place[order] = np.arange(len(order))
    return place[codes], labels[order]


def _units(rows: Rows) -> Texts:
    """Return what each session is one observation of; its first query by name where it has two."""
    units = [unit_of(session, None) for session in rows.session_ids.tolist()]
    if "query_id" in rows.keys:
        labels, codes = rows.labels["query_id"], rows.keys["query_id"]
        query = np.full(rows.n_sessions, len(labels))
        np.minimum.at(query, rows.session, np.where(codes < 0, len(labels), codes))
        for at in np.flatnonzero(query < len(labels)).tolist():
            units[at] = unit_of("", labels[query[at]])
    texts = np.empty(len(units), dtype=object)
    texts[:] = units
    return texts
