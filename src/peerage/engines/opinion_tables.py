"""The `opinions`, `items` and `users` tables of a community, checked, on any engine.

People and items are read by a few group-by queries. Opinions are passed on in blocks of whole
items, with codes that are indices into names sorted by Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import lt
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community, Names
from peerage.engines import Add, ArrowTable, Columns, Engine, Frame, Source, codes_in, floats_in
from peerage.engines.review_tables import cast_columns, ends_of, latest_of, require, trimmed_names
from peerage.errors import InputError, few, how_many
from peerage.reviews.cells import Floats
from peerage.reviews.columns import ITEMS, OPINIONS, TRIMMED, USERS, Column
from peerage.reviews.flags import BLANKS, alike_flags, merged_flags

T = TypeVar("T")
Places = NDArray[np.int32]

N_SHOWN = 10
WORDS = {"positive": 1.0, "negative": -1.0}
YES, NO = ("true", "yes", "t", "y", "1", "1.0"), ("false", "no", "f", "n", "0", "0.0")


@dataclass(eq=False)
class Opinions:
    """A checked table of opinions: its people and items, and sums over blocks of whole items."""

    engine: Engine
    frame: Frame
    members: Community  # all people and items, without opinions
    level_by_text: Mapping[str, int] | None  # None if opinions are written as numbers
    latest: float | None  # None if no opinion has a time

    def fold(self, kernel: Callable[[Community], T], add: Add[T]) -> T:
        """Return the sum of a function's values over blocks of whole items."""
        if "rows" in self.__dict__:
            return add([kernel(self.rows)])
        members, latest, levels = self.members, self.latest, self.level_by_text

        def on_block(block: ArrowTable) -> T:
            return kernel(_with_opinions(members, block, levels, latest))

        columns = ["item_id", "reviewer", "opinion", *(["at"] if latest is not None else [])]
        return self.engine.fold(self.frame.select(*columns), "item_id", on_block, add)

    @cached_property
    def rows(self) -> Community:
        """Return all people with all opinions, in this process; later sums use them."""
        return self.fold(lambda block: block, _join_blocks)


def _with_opinions(
    members: Community,
    block: ArrowTable,
    level_by_text: Mapping[str, int] | None,
    latest: float | None,
) -> Community:
    """Return the members with a block's opinions; missing times count as the latest."""
    if level_by_text is None:
        opinion = floats_in(block, "opinion")
        level = np.zeros(len(opinion), dtype=np.int8)
        for place, value in enumerate(members.scale[1:], 1):
            level[opinion == value] = place
    else:
        levels = np.array([*level_by_text.values()], dtype=np.int8)
        level = levels[codes_in(block, "opinion", list(level_by_text))[0]]
    at: Floats | None = None
    if latest is not None:
        at = floats_in(block, "at")
        at = np.where(np.isfinite(at), at, latest)
    item, _ = codes_in(block, "item_id", members.items)
    reviewer, _ = codes_in(block, "reviewer", members.people)
    return replace(members, item=item, reviewer=reviewer, level=level, at=at)


def _join_blocks(parts: Sequence[Community]) -> Community:
    """Return the opinions of several blocks together."""
    if len(parts) == 1:
        return parts[0]
    names = ("item", "reviewer", "level", *(["at"] if parts[0].at is not None else []))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in names
    }
    return replace(parts[0], **columns)


def read_opinions(
    engine: Engine,
    opinions: Source,
    items: Source | None = None,
    users: Source | None = None,
    *,
    scale: Sequence[float] = (-1.0, 1.0),
) -> Opinions:
    """Return three tables as one community, including own and repeated opinions.

    Raise an error for missing columns, empty names, opinions outside the scale, or an item without
    a contributor or with two, with the first ten cases. Items without opinions, and users without
    items or opinions, are included.
    """
    engine.admit(opinions, items, users)
    frame = _open_table(engine, opinions, OPINIONS, "opinions")
    columns = frame.collect_schema()
    contributors, category_by_item = read_items(engine, items)
    affiliated = read_users(engine, users)
    ends = ends_of(columns)
    known = [name for name in ("item_id", "contributor", "category") if name in columns]
    flags: list[str] = []
    voices = _distinct(engine, frame, "reviewer", "opinion", **ends)
    distinct_items = _distinct(engine, frame, *known)
    spelt = {name: distinct_items[name] for name in known} | {"reviewer": voices["reviewer"]}
    if padded := [name for name, values in spelt.items() if _is_padded(values.tolist())]:
        for name in padded:
            flags += merged_flags(one for one in spelt[name].tolist() if one is not None)
        frame = trimmed_names(frame, padded)
        voices = _distinct(engine, frame, "reviewer", "opinion", **ends)
        distinct_items = _distinct(engine, frame, *known)
    for column, values in (
        ("item_id", distinct_items["item_id"]),
        ("reviewer", voices["reviewer"]),
    ):
        if None in values.tolist():
            _refuse_empty(engine.arrays(frame.select(column))[column], column, "opinions")
    levels = _levels(voices["opinion"], scale)
    if -1 in levels.values():
        _refuse_opinions(engine, frame, levels, scale)
    item_names, authors = _authors(distinct_items, contributors)
    reviewers = sorted_names(voices["reviewer"].tolist())
    people = sorted_names(chain(reviewers.tolist(), authors.tolist(), affiliated))
    category, categories = _categories(item_names, distinct_items, category_by_item)
    members = Community(
        people=people,
        items=item_names,
        author=_places(authors, people),
        item=np.zeros(0, dtype=np.int32),
        reviewer=np.zeros(0, dtype=np.int32),
        level=np.zeros(0, dtype=np.int8),
        scale=tuple(map(float, scale)),
        category=category,
        categories=categories,
    )
    if users is not None:
        members = _standing(members, affiliated, reviewers)
    flags += alike_flags(people.tolist())
    members = replace(members, flags=(*members.flags, *flags))
    level_by_text = None if columns["opinion"].is_numeric() else levels
    return Opinions(engine, frame, members, level_by_text, latest_of(voices))


# -- opinions --------------------------------------------------------------------------------


def _is_padded(names: Iterable[str | None]) -> bool:
    """Return whether a name has blanks around it."""
    return any(name != name.strip(BLANKS) for name in names if name is not None)


def _open_table(engine: Engine, source: Source, columns: Mapping[str, Column], table: str) -> Frame:
    """Return the known columns of a table, typed; opinions are texts unless all are numbers."""
    opened = engine.open(source)
    schema = dict(opened.collect_schema())
    require(schema, columns, f"a table of {table}")
    kinds = {name: column.kind for name, column in columns.items() if name in schema}
    if "opinion" in kinds and not schema["opinion"].is_numeric():
        kinds["opinion"] = "text"
    return cast_columns(engine, opened, kinds)


def _read(engine: Engine, source: Source, columns: Mapping[str, Column], table: str) -> Columns:
    """Return a small table as arrays, without blanks around its names."""
    frame = _open_table(engine, source, columns, table)
    arrays = engine.arrays(frame)
    padded = [name for name in arrays if name in TRIMMED and _is_padded(arrays[name].tolist())]
    return engine.arrays(trimmed_names(frame, padded)) if padded else arrays


def _distinct(engine: Engine, frame: Frame, *names: str, **more: Any) -> Columns:
    """Return the distinct combinations of some columns, ordered by the first, with aggregates.

    It uses a grouping, because narwhals' `unique` is a window over all rows and three times slower.
    """
    return engine.arrays(frame.group_by(*names).agg(nw.len().alias("n"), **more).sort(names[0]))


def _levels(opinions: NDArray[Any], scale: Sequence[float]) -> dict[Any, int]:
    """Return the index on the scale of each opinion or its text; −1 if it is not on the scale."""
    levels: dict[Any, int] = {}
    for opinion in map(_plain, opinions.tolist()):
        written = str(opinion).strip().lower()
        try:
            value = WORDS[written] if written in WORDS else float(written)
        except ValueError:
            value = np.nan
        levels[opinion] = list(scale).index(value) if value in scale else -1
    return levels


def _plain(opinion: Any) -> Any:
    """Return an opinion as written; None if it is missing."""
    return None if opinion is None or opinion != opinion else opinion


def _refuse_opinions(
    engine: Engine, frame: Frame, levels: Mapping[Any, int], scale: Sequence[float]
) -> None:
    values = list(map(_plain, engine.arrays(frame.select("opinion"))["opinion"].tolist()))
    wrong = [row for row, value in enumerate(values) if levels[value] < 0]
    examples = ", ".join(dict.fromkeys(_shown(values[row]) for row in wrong[:N_SHOWN]))
    are = how_many(len(wrong), "opinion is", "opinions are")
    raise InputError(
        f"{are} outside the scale ({examples}): {_row_numbers(wrong)}.",
        hint=f"Allowed: {', '.join(f'{level:g}' for level in scale)}; "
        "`[community] scale` changes them.",
    )


def _shown(value: float | str | None) -> str:
    if value is None:
        return "empty"
    return repr(value) if isinstance(value, str) else f"{value:g}"


# -- items and people ------------------------------------------------------------------------


def _row_numbers(rows: Sequence[int]) -> str:
    return f"row{'s' if len(rows) > 1 else ''} {few([str(row + 1) for row in rows])}"


def _refuse_empty(values: NDArray[Any], column: str, table: str) -> None:
    empty = [row for row, value in enumerate(values.tolist()) if value is None]
    if empty:
        n = f"{len(empty)} row{'s' if len(empty) > 1 else ''}"
        raise InputError(f"`{column}` is empty in {n} of {table}: {_row_numbers(empty)}.")


def sorted_names(names: Iterable[str]) -> Names:
    return np.array(sorted(set(names)), dtype=object)


def _places(texts: NDArray[np.object_], names: Names) -> Places:
    """Return the index of each text among the sorted names."""
    place = {name: code for code, name in enumerate(names.tolist())}
    return np.array([place[text] for text in texts.tolist()], dtype=np.int32)


def read_items(engine: Engine, source: Source | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the contributor and the category of each item in a table of items."""
    if source is None:
        return {}, {}
    table = _read(engine, source, ITEMS, "items")
    for name in ("item_id", "contributor"):
        _refuse_empty(table[name], name, "items")
    authors = _pairs(table, "contributor")
    _refuse_two_contributors(authors)
    return dict(authors), dict(_pairs(table, "category"))


def _pairs(table: Columns, name: str) -> list[tuple[str, str]]:
    """Return pairs of item and value of a column; an empty list without the column."""
    if name not in table:
        return []
    rows = zip(table["item_id"].tolist(), table[name].tolist(), strict=True)
    return [(item, value) for item, value in rows if value is not None]


def _refuse_two_contributors(pairs: Iterable[tuple[str, str]]) -> None:
    authors: dict[str, set[str]] = {}
    for item, name in pairs:
        authors.setdefault(item, set()).add(name)
    twice = [
        f"{item!r}: {' and '.join(repr(name) for name in sorted(names))}"
        for item, names in sorted(authors.items())
        if len(names) > 1
    ]
    if twice:
        have = how_many(len(twice), "item has", "items have")
        raise InputError(
            f"{have} two contributors: {few(twice, between='; ')}.",
            hint="An item has one contributor.",
        )


def _authors(table: Columns, contributors: Mapping[str, str]) -> tuple[Names, Names]:
    """Return every item, in order, and its contributor, from opinions and items.

    Raise an error if they contradict each other.
    """
    items = table["item_id"].tolist()
    named = table["contributor"].tolist() if "contributor" in table else [None]
    if not contributors and None not in named and all(map(lt, items, items[1:])):
        return table["item_id"], table["contributor"]  # usually, nothing has to be reconciled
    pairs = _pairs(table, "contributor")
    _refuse_two_contributors([*contributors.items(), *pairs])
    author = {**dict(pairs), **contributors}
    orphans = sorted({item for item in items if item not in author})
    if orphans:
        have = how_many(len(orphans), "item has", "items have")
        raise InputError(
            f"{have} no contributor: {few(orphans)}.",
            hint="Give opinions a `contributor` column, or import the items.",
        )
    ordered = sorted_names(author)
    return ordered, np.array([author[item] for item in ordered], dtype=object)


def _categories(
    items: Names, opinions: Columns, category_by_item: Mapping[str, str]
) -> tuple[Places | None, Names | None]:
    """Return each item's category: from the table of items, else the first by name in opinions."""
    by_opinions = dict(sorted(_pairs(opinions, "category"), reverse=True))
    category_by_item = {**by_opinions, **category_by_item}
    if not category_by_item:
        return None, None
    names = sorted_names(category_by_item.values())
    place: dict[str | None, int] = {name: code for code, name in enumerate(names)}
    codes = [place.get(category_by_item.get(item), -1) for item in items]
    return np.array(codes, dtype=np.int32), names


def read_users(engine: Engine, source: Source | None) -> dict[str, bool]:
    """Return whether each user in a table is affiliated."""
    if source is None:
        return {}
    table = _read(engine, source, USERS, "users")
    _refuse_empty(table["user_id"], "user_id", "users")
    affiliated: dict[str, bool] = {}
    rows = zip(table["user_id"].tolist(), table["affiliated"].tolist(), strict=True)
    for row, (user, text) in enumerate(rows, 1):
        answer = str(text).strip().lower()
        if answer not in YES + NO:
            raise InputError(
                f"`affiliated` is {text!r} in row {row} of users.", hint="Write true or false."
            )
        if affiliated.setdefault(user, answer in YES) != (answer in YES):
            raise InputError(f"user {user!r} is listed twice, once affiliated and once not.")
    return affiliated


def _standing(members: Community, affiliated: Mapping[str, bool], reviewers: Names) -> Community:
    """Return the members, users and affiliated ones marked, with a flag for unknown reviewers."""
    strangers = [name for name in reviewers.tolist() if name not in affiliated]
    are = how_many(len(strangers), "reviewer is", "reviewers are")
    flag = f"{are} not in the table of users: {few(strangers)}"
    return replace(
        members,
        affiliated=np.array([affiliated.get(name, False) for name in members.people], dtype=bool),
        registered=np.array([name in affiliated for name in members.people], dtype=bool),
        flags=(flag,) if strangers else (),
    )
