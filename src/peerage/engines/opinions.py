"""The `opinions`, `items` and `users` tables as one encoded community, on any engine.

An engine hashes names, groups small things and hands the opinions over as numbers, some
twenty bytes a row, of which nine are kept; the arithmetic is numpy's, once for all engines.
The hash is the engine's own and never leaves this file: it only finds equal names. Codes are
places in names sorted by Python, so no engine's collation decides a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
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
    places_of,
    read_items,
    read_users,
    require,
    row_numbers,
    sorted_names,
    standing_of,
)
from peerage.engines.sql import NAME, SPARK_NAME, listed, quoted, sql
from peerage.errors import InputError

if TYPE_CHECKING:
    from peerage.engines import Columns, Frame

Hashes = NDArray[np.uint64]
Levels = NDArray[np.int8]
Encoding = Callable[[NDArray[Any]], NDArray[Any]]  # of a column's values, some at a time

BATCH_ROWS = 1 << 18  # encoded at a time: in the cache, and in no new memory
SPARE_BITS = 2  # slots of a lookup table: at least 2^2 for each name
MAX_BITS = 24
MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd: different hashes stay different
NONE, SEVERAL = -1, -2  # in place of a code
WORDS = {"positive": 1.0, "negative": -1.0}


@dataclass(frozen=True, slots=True)
class Roll:
    """Everyone and everything that opinions are of and by, before any of them is read.

    The hashes are those of the items and the reviewers that opinions name, beside their places.
    """

    frame: Frame
    n_rows: int
    members: Community  # without opinions
    item_hash: Hashes
    item_place: Codes
    voice_hash: Hashes
    voice_place: Codes
    encode: Mapping[str, Encoding]


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
    roll = read_roll(engine, opinions, items, users, scale=scale, categories=categories)
    return with_opinions(engine, roll)


def with_opinions(engine: Engine, roll: Roll) -> Community:
    """The members of a roll with all that they said, row by row."""
    rows = _encoded(engine, roll)
    _refuse_opinions(engine, roll, rows["opinion"])
    return replace(
        roll.members,
        item=rows["item_id"],
        reviewer=rows["reviewer"],
        level=rows["opinion"],
        at=_times(rows.get("at")),
    )


def read_roll(
    engine: Engine,
    opinions: Source,
    items: Source | None = None,
    users: Source | None = None,
    *,
    scale: Sequence[float] = (-1.0, 1.0),
    categories: bool = False,
) -> Roll:
    """What groupings of the tables tell: names, contributors, categories, who is registered."""
    engine.admit(opinions, items, users)
    frame, columns = _opened(engine, opinions)
    table = read_items(engine, items)
    affiliated = read_users(engine, users)
    voices = _texts(engine, frame, "reviewer")
    known = _seen_items(engine, frame, "contributor" in columns)
    _refuse_empty_names(engine, frame, {"item_id": known, "reviewer": voices})
    item_names, authors = authors_of(known["text"], known["by"], table)
    named = categories and "category" in columns
    category_by_item = _categories_said(engine, frame) if named else {}
    category_by_item |= table.category
    people = sorted_names(chain(voices["text"].tolist(), authors.tolist(), affiliated))
    category, category_names = categories_of(item_names, category_by_item, categories)
    members = Community(
        people=people,
        items=item_names,
        author=places_of(authors, people),
        item=np.zeros(0, dtype=np.int32),
        reviewer=np.zeros(0, dtype=np.int32),
        level=np.zeros(0, dtype=np.int8),
        scale=tuple(float(one) for one in scale),
        category=category,
        categories=category_names,
        **standing_of(people, affiliated, users is not None, voices["text"].tolist()),
    )
    once = np.append(True, known["text"][1:] != known["text"][:-1])[: len(known["text"])]
    item_hash = _as_hashes(known["hash"][once])
    item_place = places_of(known["text"][once], item_names)
    voice_hash, voice_place = _as_hashes(voices["hash"]), places_of(voices["text"], people)
    encode: dict[str, Encoding] = {
        "item_id": Lookup(item_hash, item_place),
        "reviewer": Lookup(voice_hash, voice_place),
        "opinion": _leveller(engine, frame, columns["opinion"].is_numeric(), members.scale),
    }
    if "at" in columns:
        encode["at"] = _seconds
    n_rows = int(voices["n"].sum())
    return Roll(frame, n_rows, members, item_hash, item_place, voice_hash, voice_place, encode)


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
    """The distinct combinations of some columns, in order: how often, and the first one's hash.

    By a grouping: narwhals spells `unique` as a window over all rows, three times as slow.
    Whoever sorts them again, as Python does, then has little to do.
    """
    import narwhals.stable.v2 as nw

    grouped = frame.group_by(*names).agg(nw.len().alias("n")).sort(*names)
    return engine.arrays(_with_hashes(grouped, names[:1]))


def with_hashes(frame: Frame, encode: Mapping[str, Encoding]) -> Frame:
    """The columns that are to be encoded, and instead of a name its 64-bit hash."""
    import narwhals.stable.v2 as nw

    hashed = [name for name, code in encode.items() if isinstance(code, Lookup)]
    more = _with_hashes(frame, hashed)
    return more.select(
        *(nw.col(f"{name}_hash" if name in hashed else name).alias(name) for name in encode)
    )


def _with_hashes(frame: Frame, names: Sequence[str]) -> Frame:
    """The frame with a 64-bit hash beside each name; narwhals has no word for it."""
    import narwhals.stable.v2 as nw

    native = frame.to_native()
    mark = SPARK_NAME if _is_spark(native) else NAME
    pairs = [(quoted(name, mark), quoted(f"{name}_hash", mark)) for name in names]
    if _is_spark(native):
        hashes = [sql("xxhash64({}) as {}", name, hash_) for name, hash_ in pairs]
        wider = native.selectExpr("*", *hashes)
    else:
        hashes = [sql("hash({}) as {}", name, hash_) for name, hash_ in pairs]
        wider = native.project(listed([sql("*"), *hashes]))
    return nw.from_native(wider)  # type: ignore[no-any-return]  # of a native of either kind


def _is_spark(native: Any) -> bool:
    return type(native).__module__.split(".")[0] == "pyspark"


def _texts(engine: Engine, frame: Frame, name: str) -> Columns:
    """The distinct texts of a column with their hashes, and how often each is there."""
    found = _distinct(engine, frame, name)
    return {"text": found[name], "hash": found[f"{name}_hash"], "n": found["n"]}


def _seen_items(engine: Engine, frame: Frame, named: bool) -> Columns:
    """The items that have opinions, with hashes, each with each of its contributors."""
    if named:
        found = _distinct(engine, frame, "item_id", "contributor")
        return {"text": found["item_id"], "hash": found["item_id_hash"], "by": found["contributor"]}
    found = _texts(engine, frame, "item_id")
    return {**found, "by": np.full(len(found["text"]), None, dtype=object)}


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


def _encoded(engine: Engine, roll: Roll) -> Columns:
    """Every column that there is an encoding of, row by row, encoded."""
    kinds = {name: code(np.zeros(0)).dtype for name, code in roll.encode.items()}
    encoded = {name: np.empty(roll.n_rows, dtype=kind) for name, kind in kinds.items()}
    n = 0
    for batch in _batches(engine, with_hashes(roll.frame, roll.encode)):
        rows = slice(n, n + len(batch["opinion"]))
        for name, code in roll.encode.items():
            encoded[name][rows] = code(batch[name])
        n = rows.stop
    return {name: values[:n] for name, values in encoded.items()}


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
        places = [_level(text, scale) for text in said["text"].tolist()]
        return Lookup(said["hash"], np.array(places, dtype=np.int8))

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


def _refuse_opinions(engine: Engine, roll: Roll, levels: Levels) -> None:
    if not len(levels) or levels.min() >= 0:
        return
    wrong = np.flatnonzero(levels < 0)
    values = engine.arrays(roll.frame.select("opinion"))["opinion"][wrong[:N_SHOWN]]
    shown = ", ".join(dict.fromkeys(_shown(value) for value in values.tolist()))
    raise InputError(
        f"{len(wrong)} opinions are not on the scale ({shown}): {row_numbers(wrong)}.",
        hint=f"Known: {', '.join(f'{level:g}' for level in roll.members.scale)}; "
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


class Lookup:
    """From hashes to codes: by a table on the first bits, and by another where two names meet.

    That is some ten times as quick as sorting or searching the hashes, and the tables are
    small, so that they stay in the cache.
    """

    def __init__(self, hashes: NDArray[Any], codes: NDArray[np.signedinteger[Any]]) -> None:
        keys = _as_hashes(hashes)
        bits = min(MAX_BITS, len(keys).bit_length() + SPARE_BITS)
        self._shift = np.uint64(64 - bits)
        slots = (keys >> self._shift).view(np.int64)
        self._table = np.full(1 << bits, NONE, dtype=codes.dtype)
        self._table[slots] = codes
        contested = np.bincount(slots, minlength=1 << bits) > 1
        self._table[contested] = SEVERAL
        met = contested[slots]
        if len(np.unique(keys[met])) < np.count_nonzero(met):
            raise InputError(
                "two names in a table of opinions have the same 64-bit hash.",
                hint="That happens once in a billion tables: rename one of your ids.",
            )
        self._others = Lookup(keys[met] * MIXER, codes[met]) if met.any() else None

    def __call__(self, hashes: NDArray[Any]) -> NDArray[np.signedinteger[Any]]:
        wanted = _as_hashes(hashes)
        found = self._table[(wanted >> self._shift).view(np.int64)]
        if self._others is not None:
            rest = np.flatnonzero(found == SEVERAL)
            found[rest] = self._others(wanted[rest] * MIXER)
        return found


def _as_hashes(values: NDArray[Any]) -> Hashes:
    kind = np.int64 if values.dtype.kind in "if" else np.uint64
    return values.astype(kind, copy=False).view(np.uint64)
