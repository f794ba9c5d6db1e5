"""The `opinions`, `items` and `users` tables as one encoded community, on any engine.

An engine hashes names, groups small things and hands the opinions over as numbers, some
twenty bytes a row; the arithmetic is numpy's, once for all engines. The hash is the engine's
own and never leaves this file: it only finds equal names. Codes are places in names sorted
by Python, so no engine's collation decides a tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    hashed = _with_hashes(frame)
    rows = engine.arrays(hashed.select(*_row_columns(columns)))
    voices = _texts(engine, hashed, "reviewer")
    known, authors = _seen_items(engine, hashed, "contributor" in columns)
    _refuse_nulls(rows, voices, known)
    author_by_item = authors_of(known["text"].tolist(), authors, table)
    named = categories and "category" in columns
    category_by_item = dict(_said_of_items(engine, hashed, "category")) if named else {}
    category_by_item |= table.category
    level = _levels(engine, hashed, rows, scale)
    item_names = sorted_names(author_by_item)
    people = sorted_names([*voices["text"], *author_by_item.values(), *affiliated])
    place = {name: code for code, name in enumerate(people)}
    reviewer = _codes(rows.pop("reviewer_hash"), voices, place)
    item_place = {name: code for code, name in enumerate(item_names)}
    item = _codes(rows.pop("item_id_hash"), known, item_place)
    category, category_names = categories_of(item_names, category_by_item, categories)
    return Community(
        people=people,
        items=item_names,
        author=np.array([place[author_by_item[name]] for name in item_names], dtype=np.int32),
        item=item,
        reviewer=reviewer,
        level=level,
        scale=tuple(float(one) for one in scale),
        at=_times(rows),
        category=category,
        categories=category_names,
        **standing_of(people, affiliated, users is not None, reviewer),
    )


# -- opinions -------------------------------------------------------------------------------


def _opened(engine: Engine, source: Source) -> tuple[Frame, dict[str, Any]]:
    """The opinions with names as texts and times as seconds, and the types of the columns."""
    import narwhals.stable.v2 as nw

    opened = engine.open(source)
    schema = dict(opened.collect_schema())
    require(schema, ("item_id", "reviewer", "opinion"), "opinions")
    names = [name for name in ("item_id", "reviewer", "contributor", "category") if name in schema]
    kept = [nw.col(name).cast(nw.String) for name in names]
    kept.append(nw.col("opinion"))
    if "at" in schema:
        kept.append(nw.col("at"))
    frame: Frame = opened.select(*kept)
    return (engine.epoch(frame, "at") if "at" in schema else frame), schema


def _with_hashes(frame: Frame) -> Frame:
    """The frame with a 64-bit hash beside each name; narwhals has no word for it."""
    import narwhals.stable.v2 as nw

    native = frame.to_native()
    hashed = ("item_id", "reviewer", "opinion")
    if type(native).__module__.split(".")[0] == "pyspark":
        more = [f"xxhash64(cast({name} as string)) as {name}_hash" for name in hashed]
        wider = native.selectExpr("*", *more)
    else:
        more = [f"hash(cast({name} as varchar)) as {name}_hash" for name in hashed]
        wider = native.project(", ".join(["*", *more]))
    return nw.from_native(wider)  # type: ignore[no-any-return]  # of a native of either kind


def _row_columns(columns: Mapping[str, Any]) -> list[str]:
    import narwhals.stable.v2 as nw

    textual = not columns["opinion"].is_numeric() or columns["opinion"] == nw.Boolean
    said = "opinion_hash" if textual else "opinion"
    return ["item_id_hash", "reviewer_hash", said, *(["at"] if "at" in columns else [])]


def _texts(engine: Engine, frame: Frame, name: str) -> Columns:
    """The distinct texts of a column with their hashes."""
    found = engine.arrays(_distinct(frame, name, name))
    return {"text": found[name], "hash": found["hash"]}


def _distinct(frame: Frame, hashed: str, *names: str) -> Frame:
    """The distinct combinations of some columns, with the hash of one of them.

    By a grouping: narwhals spells `unique` as a window over all rows, three times as slow.
    """
    import narwhals.stable.v2 as nw

    return frame.group_by(*names).agg(nw.col(f"{hashed}_hash").min().alias("hash"))


def _said_of_items(engine: Engine, frame: Frame, name: str) -> list[tuple[str, str]]:
    """What opinions say of their items in a column: each item with each of its values."""
    found = engine.arrays(_distinct(frame, "item_id", "item_id", name))
    items, values = found["item_id"].tolist(), found[name].tolist()
    return [(i, value) for i, value in zip(items, values, strict=True) if value is not None]


def _seen_items(engine: Engine, frame: Frame, named: bool) -> tuple[Columns, list[tuple[str, str]]]:
    """The items that have opinions with their hashes, and each with each of its contributors."""
    if not named:
        return _texts(engine, frame, "item_id"), []
    found = engine.arrays(_distinct(frame, "item_id", "item_id", "contributor"))
    items, hashes, authors = found["item_id"], found["hash"], found["contributor"]
    pairs = list(zip(items.tolist(), authors.tolist(), strict=True))
    if len(np.unique(hashes)) != len(hashes):  # an item with two contributors, or with none too
        rows = list({text: row for row, text in enumerate(items.tolist())}.values())
        items, hashes = items[rows], hashes[rows]
    return {"text": items, "hash": hashes}, [pair for pair in pairs if pair[1] is not None]


def _refuse_nulls(rows: Columns, voices: Columns, known: Columns) -> None:
    for column, texts, where in (
        ("item_id", known, "item_id_hash"),
        ("reviewer", voices, "reviewer_hash"),
    ):
        empty = [i for i, text in enumerate(texts["text"]) if text is None]
        if empty:
            at = np.flatnonzero(_as_hashes(rows[where]) == _as_hashes(texts["hash"])[empty[0]])
            raise InputError(
                f"`{column}` is empty in {len(at)} rows of opinions: {row_numbers(at)}."
            )
        if len(np.unique(texts["hash"])) != len(texts["hash"]):
            raise InputError(
                f"two names in `{column}` have the same 64-bit hash.",
                hint="That happens once in a billion tables: rename one of your ids.",
            )


def _levels(
    engine: Engine, frame: Frame, rows: Columns, scale: Sequence[float]
) -> NDArray[np.int8]:
    """Each opinion's place on the scale; one that has none is refused with its row."""
    if "opinion" in rows:
        values = rows.pop("opinion")
        levels = np.full(len(values), -1, dtype=np.int8)
        for place, level in enumerate(scale):
            levels[values == level] = place
        if (levels < 0).any():
            wrong = np.flatnonzero(levels < 0)
            _refuse_opinions(wrong, [values[row] for row in wrong[:N_SHOWN].tolist()], scale)
        return levels
    said = _texts(engine, frame, "opinion")
    level_by_text = {text: _level(text, scale) for text in said["text"].tolist()}
    levels = _codes(rows.pop("opinion_hash"), said, level_by_text).astype(np.int8)
    if (levels < 0).any():
        wrong = np.flatnonzero(levels < 0)
        off = [text for text, at in level_by_text.items() if at < 0]
        _refuse_opinions(wrong, off[:N_SHOWN], scale)
    return levels


def _level(text: object, scale: Sequence[float]) -> int:
    """The place of a written opinion on the scale, −1 for none."""
    written = str(text).strip().lower()
    try:
        value = WORDS[written] if written in WORDS else float(written)
    except ValueError:
        return -1
    return list(scale).index(value) if value in scale else -1


def _refuse_opinions(wrong: NDArray[np.intp], values: list[Any], scale: Sequence[float]) -> None:
    shown = ", ".join(dict.fromkeys(_shown(value) for value in values))
    raise InputError(
        f"{len(wrong)} opinions are not on the scale ({shown}): {row_numbers(wrong)}.",
        hint=f"Known: {', '.join(f'{level:g}' for level in scale)}; "
        "`[community] scale` sets others.",
    )


def _shown(value: Any) -> str:
    if value is None or value != value:
        return "empty"
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else repr(value)


def _times(rows: Columns) -> NDArray[np.float64] | None:
    """Times in seconds; an opinion without one counts as of now, which is the latest there is."""
    if "at" not in rows:
        return None
    at = np.asarray(rows["at"], dtype=np.float64)
    known = np.isfinite(at)
    if not known.any():
        return None
    return at if known.all() else np.where(known, at, at[known].max())


# -- names ----------------------------------------------------------------------------------


def _as_hashes(values: NDArray[Any]) -> Hashes:
    kind = np.int64 if values.dtype.kind in "if" else np.uint64
    return values.astype(kind, copy=False).view(np.uint64)


def _codes(hashes: NDArray[Any], texts: Columns, place: Mapping[Any, int]) -> Codes:
    """The code of each hash: by a table on its low bits, and by search where two names meet.

    A table is some ten times as quick as sorting or searching all of the hashes.
    """
    keys = _as_hashes(texts["hash"])
    codes = np.array([place[text] for text in texts["text"].tolist()], dtype=np.int32)
    bits = min(MAX_BITS, max(1, len(keys)).bit_length() + SPARE_BITS)
    mask = np.uint64((1 << bits) - 1)
    slots = (keys & mask).astype(np.intp)
    table = np.full(1 << bits, -1, dtype=np.int32)
    table[slots] = codes
    contested = np.bincount(slots, minlength=1 << bits) > 1
    table[contested] = -2
    wanted = _as_hashes(hashes)
    found: Codes = table[(wanted & mask).astype(np.intp)]
    rest = np.flatnonzero(found == -2)
    if len(rest):
        order = np.argsort(keys)
        found[rest] = codes[order][np.searchsorted(keys[order], wanted[rest])]
    return found
