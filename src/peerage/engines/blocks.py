"""From Arrow to arrays: the columns of a table as codes and floats, the same on every engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.engines import Block, Names, Reading

Texts = NDArray[np.object_]


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
