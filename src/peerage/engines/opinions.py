"""The `opinions`, `items` and `users` tables as one encoded community, on any engine.

An engine hashes names, groups small things and hands the opinions over as numbers, some
twenty bytes a row, of which nine are kept; the arithmetic is numpy's, once for all engines.
The hash is the engine's own and never leaves this file: it only finds equal names. Codes are
places in names sorted by Python, so no engine's collation decides a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community
from peerage.engines import Engine, Source
from peerage.engines.members import (
    N_SHOWN,
    Codes,
    authors_of,
    categories_of,
    read_items,
    read_users,
    require,
    row_numbers,
    sorted_names,
    standing_of,
)
from peerage.errors import InputError

if TYPE_CHECKING:
    from peerage.engines import Columns, Frame

Hashes = NDArray[np.uint64]
Levels = NDArray[np.int8]
Encoding = Callable[[NDArray[Any]], NDArray[Any]]  # of a column's values, some at a time

BATCH_ROWS = 1 << 18  # encoded at a time: in the cache, and in no new memory
SPARE_BITS = 4  # slots of the lookup table: at least 2^4 for each name
MAX_BITS = 24
WORDS = {"positive": 1.0, "negative": -1.0}


def read_community(
    engine: Engine,
    opinions: Source,
    items: Source | None = None,
    users: Source | None = None,
    *,
    scale: Sequence[float] = (-1.0, 1.0),
    categories: bool = False,
) -> Community:
    """Three tables as one community, own and repeated opinions still in it.

    Refused whole are missing columns, empty names, opinions off the scale, an item without
    a contributor or with two: with the first ten offenders. Items without opinions and users
    without either are there too. `categories` are read only where asked for.
    """
    frame, columns = _opened(engine, opinions)
    table = read_items(engine, items)
    affiliated = read_users(engine, users)
    voices = _texts(engine, frame, "reviewer")
    known, authors = _seen_items(engine, frame, "contributor" in columns)
    _refuse_empty_names(engine, frame, {"item_id": known, "reviewer": voices})
    author_by_item = authors_of(known["text"].tolist(), authors, table)
    named = categories and "category" in columns
    category_by_item = _categories_said(engine, frame) if named else {}
    category_by_item |= table.category
    item_names = sorted_names(author_by_item)
    people = sorted_names([*voices["text"], *author_by_item.values(), *affiliated])
    place = {name: code for code, name in enumerate(people)}
    category, category_names = categories_of(item_names, category_by_item, categories)
    item_place = {name: code for code, name in enumerate(item_names)}
    encode: dict[str, Encoding] = {
        "item_id": _Lookup(known, item_place),
        "reviewer": _Lookup(voices, place),
        "opinion": _leveller(engine, frame, columns["opinion"].is_numeric(), scale),
    }
    if "at" in columns:
        encode["at"] = _seconds
    rows = _encoded(engine, frame, encode)
    _refuse_opinions(engine, frame, rows["opinion"], scale)
    return Community(
        people=people,
        items=item_names,
        author=np.array([place[author_by_item[name]] for name in item_names], dtype=np.int32),
        item=rows["item_id"],
        reviewer=rows["reviewer"],
        level=rows["opinion"].astype(np.int8, copy=False),
        scale=tuple(float(one) for one in scale),
        at=_times(rows.get("at")),
        category=category,
        categories=category_names,
        **standing_of(people, affiliated, users is not None, voices["text"].tolist()),
    )


# -- names ----------------------------------------------------------------------------------


def _opened(engine: Engine, source: Source) -> tuple[Frame, dict[str, Any]]:
    """The opinions with names as texts and times as seconds, and the types of the columns.

    An opinion is a float, or a text where it is anything but a number.
    """
    import narwhals.stable.v2 as nw

    opened = engine.open(source)
    schema = dict(opened.collect_schema())
    require(schema, ("item_id", "reviewer", "opinion"), "opinions")
    names = [name for name in ("item_id", "reviewer", "contributor", "category") if name in schema]
    kept = [nw.col(name).cast(nw.String) for name in names]
    numeric = schema["opinion"].is_numeric()
    kept.append(nw.col("opinion").cast(nw.Float64 if numeric else nw.String))
    if "at" in schema:
        kept.append(nw.col("at"))
    frame: Frame = opened.select(*kept)
    return (engine.epoch(frame, "at") if "at" in schema else frame), schema


def _distinct(engine: Engine, frame: Frame, *names: str) -> Columns:
    """The distinct combinations of some columns, with the hash of the first.

    By a grouping: narwhals spells `unique` as a window over all rows, three times as slow.
    """
    import narwhals.stable.v2 as nw

    grouped = frame.group_by(*names).agg(nw.len().alias("n"))
    return engine.arrays(_with_hashes(grouped, names[:1]).drop("n"))


def _with_hashes(frame: Frame, names: Sequence[str]) -> Frame:
    """The frame with a 64-bit hash beside each name; narwhals has no word for it."""
    import narwhals.stable.v2 as nw

    native = frame.to_native()
    if _is_spark(native):
        wider = native.selectExpr("*", *(f"xxhash64({name}) as {name}_hash" for name in names))
    else:
        wider = native.project(", ".join(["*", *(f"hash({n}) as {n}_hash" for n in names)]))
    return nw.from_native(wider)  # type: ignore[no-any-return]  # of a native of either kind


def _is_spark(native: Any) -> bool:
    return type(native).__module__.split(".")[0] == "pyspark"


def _texts(engine: Engine, frame: Frame, name: str) -> Columns:
    """The distinct texts of a column with their hashes."""
    found = _distinct(engine, frame, name)
    return {"text": found[name], "hash": found[f"{name}_hash"]}


def _seen_items(engine: Engine, frame: Frame, named: bool) -> tuple[Columns, list[tuple[str, str]]]:
    """The items that have opinions with their hashes, and each with each of its contributors."""
    if not named:
        return _texts(engine, frame, "item_id"), []
    found = _distinct(engine, frame, "item_id", "contributor")
    items, hashes, authors = found["item_id"], found["item_id_hash"], found["contributor"]
    pairs = list(zip(items.tolist(), authors.tolist(), strict=True))
    row_by_item = {pair[0]: row for row, pair in enumerate(pairs)}
    if len(row_by_item) < len(pairs):  # an item with two contributors, or with none too
        rows = list(row_by_item.values())
        items, hashes = items[rows], hashes[rows]
    return {"text": items, "hash": hashes}, [pair for pair in pairs if pair[1] is not None]


def _categories_said(engine: Engine, frame: Frame) -> dict[str, str]:
    """What opinions say of their items' categories; of two, the first by name."""
    found = _distinct(engine, frame, "item_id", "category")
    pairs = zip(found["item_id"].tolist(), found["category"].tolist(), strict=True)
    return dict(sorted((pair for pair in pairs if pair[1] is not None), reverse=True))


def _refuse_empty_names(engine: Engine, frame: Frame, texts_by_column: dict[str, Columns]) -> None:
    import narwhals.stable.v2 as nw

    for column, texts in texts_by_column.items():
        if None in texts["text"].tolist():
            found = engine.arrays(frame.select(nw.col(column).is_null().alias("empty")))
            at = np.flatnonzero(found["empty"])
            raise InputError(
                f"`{column}` is empty in {len(at)} rows of opinions: {row_numbers(at)}."
            )


# -- opinions, encoded ------------------------------------------------------------------------


def _encoded(engine: Engine, frame: Frame, encode: Mapping[str, Encoding]) -> Columns:
    """Every column that there is an encoding of, row by row, encoded."""
    hashed = [name for name, code in encode.items() if isinstance(code, _Lookup)]
    wanted = {name: f"{name}_hash" if name in hashed else name for name in encode}
    parts = {name: [code(np.zeros(0))] for name, code in encode.items()}  # a table may be empty
    for batch in _batches(engine, _with_hashes(frame, hashed).select(*wanted.values())):
        for name, code in encode.items():
            parts[name].append(code(batch[wanted[name]]))
    return {name: np.concatenate(parts.pop(name)) for name in encode}


def _batches(engine: Engine, frame: Frame) -> Iterator[Columns]:
    """The rows in their order, some at a time where the engine can."""
    native = frame.to_native()
    if _is_spark(native) or find_spec("pyarrow") is None:
        yield engine.arrays(frame)
        return
    for batch in native.to_arrow_reader(BATCH_ROWS):
        columns = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        yield dict(zip(batch.schema.names, columns, strict=True))


def _leveller(engine: Engine, frame: Frame, numeric: bool, scale: Sequence[float]) -> Encoding:
    """From opinions, or from hashes of written ones, to places on the scale; −1 for none."""
    if not numeric:
        said = _texts(engine, frame, "opinion")
        return _Lookup(said, {text: _level(text, scale) for text in said["text"].tolist()})

    def levels_of(values: NDArray[Any]) -> Levels:
        levels = np.full(len(values), -1, dtype=np.int8)
        for place, level in enumerate(scale):
            np.putmask(levels, values == level, place)
        return levels

    return levels_of


def _level(text: object, scale: Sequence[float]) -> int:
    """The place of a written opinion on the scale, −1 for none."""
    written = str(text).strip().lower()
    try:
        value = WORDS[written] if written in WORDS else float(written)
    except ValueError:
        return -1
    return list(scale).index(value) if value in scale else -1


def _refuse_opinions(engine: Engine, frame: Frame, levels: Levels, scale: Sequence[float]) -> None:
    if not len(levels) or levels.min() >= 0:
        return
    wrong = np.flatnonzero(levels < 0)
    values = engine.arrays(frame.select("opinion"))["opinion"][wrong[:N_SHOWN]]
    shown = ", ".join(dict.fromkeys(_shown(value) for value in values.tolist()))
    raise InputError(
        f"{len(wrong)} opinions are not on the scale ({shown}): {row_numbers(wrong)}.",
        hint=f"Known: {', '.join(f'{level:g}' for level in scale)}; "
        "`[community] scale` sets others.",
    )


def _shown(value: float | str | None) -> str:
    if value is None or value != value:
        return "empty"
    return repr(value) if isinstance(value, str) else f"{value:g}"


def _seconds(at: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(at, dtype=np.float64)


def _times(at: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Times in seconds; an opinion without one counts as of now, which is the latest there is."""
    if at is None:
        return None
    known = np.isfinite(at)
    if not known.any():
        return None
    return at if known.all() else np.where(known, at, at[known].max())


class _Lookup:
    """From hashes to codes: by a table on the low bits, and by search where two names meet.

    A table is some ten times as quick as sorting or searching all of the hashes.
    """

    def __init__(self, texts: Columns, place: Mapping[Any, int]) -> None:
        keys = _as_hashes(texts["hash"])
        codes = np.array([place[text] for text in texts["text"].tolist()], dtype=np.int32)
        bits = min(MAX_BITS, max(1, len(keys)).bit_length() + SPARE_BITS)
        self._mask = np.uint64((1 << bits) - 1)
        slots = (keys & self._mask).astype(np.intp)
        self._table = np.full(1 << bits, -1, dtype=np.int32)
        self._table[slots] = codes
        self._table[np.bincount(slots, minlength=1 << bits) > 1] = -2
        order = np.argsort(keys)
        self._keys, self._codes = keys[order], codes[order]
        if (self._keys[1:] == self._keys[:-1]).any():
            raise InputError(
                "two names in a table of opinions have the same 64-bit hash.",
                hint="That happens once in a billion tables: rename one of your ids.",
            )

    def __call__(self, hashes: NDArray[Any]) -> Codes:
        wanted = _as_hashes(hashes)
        found: Codes = self._table[(wanted & self._mask).astype(np.intp)]
        rest = np.flatnonzero(found == -2)
        if len(rest):
            found[rest] = self._codes[np.searchsorted(self._keys, wanted[rest])]
        return found


def _as_hashes(values: NDArray[Any]) -> Hashes:
    kind = np.int64 if values.dtype.kind in "if" else np.uint64
    return values.astype(kind, copy=False).view(np.uint64)
