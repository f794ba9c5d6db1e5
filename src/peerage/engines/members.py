"""The `items` and `users` tables, and what they and opinions say of items and people together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import lt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Names, listed_names
from peerage.engines import Engine, Source
from peerage.errors import InputError

Codes = NDArray[np.int32]

N_SHOWN = 10
YES, NO = ("true", "yes", "t", "y", "1", "1.0"), ("false", "no", "f", "n", "0", "0.0")


@dataclass(frozen=True, slots=True)
class ItemTable:
    """What is known of items besides opinions: contributor and category by item."""

    contributor: dict[str, str] = field(default_factory=dict)
    category: dict[str, str] = field(default_factory=dict)


def require(schema: Mapping[str, Any], names: Iterable[str], table: str) -> None:
    missing = [name for name in names if name not in schema]
    if missing:
        raise InputError(
            f"a table of {table} needs the column {', '.join(missing)}.",
            hint=f"It has: {', '.join(list(schema)[:20]) or 'none'}.",
        )


def row_numbers(rows: NDArray[np.intp]) -> str:
    shown = ", ".join(str(row + 1) for row in rows[:N_SHOWN].tolist())
    return f"row{'s' if len(rows) > 1 else ''} {shown}{', …' if len(rows) > N_SHOWN else ''}"


def sorted_names(names: Iterable[str]) -> Names:
    ordered = sorted(dict.fromkeys(names))
    array = np.empty(len(ordered), dtype=object)
    array[:] = ordered
    return array


def places_of(texts: NDArray[np.object_], names: Names) -> Codes:
    """The place of each text among the names, which are sorted."""
    if len(texts) == len(names) and (texts == names).all():
        return np.arange(len(names), dtype=np.int32)
    place = {name: code for code, name in enumerate(names.tolist())}
    return np.array([place[text] for text in texts.tolist()], dtype=np.int32)


def read_items(engine: Engine, source: Source | None) -> ItemTable:
    import narwhals.stable.v2 as nw

    if source is None:
        return ItemTable()
    opened = engine.open(source)
    schema = dict(opened.collect_schema())
    require(schema, ("item_id", "contributor"), "items")
    names = [name for name in ("item_id", "contributor", "category") if name in schema]
    found = engine.arrays(opened.select(*(nw.col(name).cast(nw.String) for name in names)))
    for name in ("item_id", "contributor"):
        _refuse_empty(found[name], name, "items")
    author: dict[str, str] = {}
    twice = []
    for item, person in zip(found["item_id"].tolist(), found["contributor"].tolist(), strict=True):
        if author.setdefault(item, person) != person:
            twice.append(f"{item!r}: {author[item]!r} and {person!r}")
    _refuse_two_contributors(twice)
    category = found.get("category")
    pairs = (
        [] if category is None else zip(found["item_id"].tolist(), category.tolist(), strict=True)
    )
    return ItemTable(author, {item: name for item, name in pairs if name is not None})


def _refuse_empty(values: NDArray[Any], column: str, table: str) -> None:
    empty = np.array([i for i, value in enumerate(values.tolist()) if value is None], dtype=np.intp)
    if len(empty):
        raise InputError(f"`{column}` is empty in a table of {table}: {row_numbers(empty)}.")


def _refuse_two_contributors(twice: list[str]) -> None:
    if twice:
        more = ", …" if len(twice) > N_SHOWN else ""
        raise InputError(
            f"{len(twice)} items have two contributors: {'; '.join(twice[:N_SHOWN])}{more}.",
            hint="An item is one person's.",
        )


def authors_of(items: Names, said: Names, table: ItemTable) -> tuple[Names, Names]:
    """Every item, in order, and its contributor, from opinions and from items.

    `said` is who contributed each item according to opinions, or None; they may not differ,
    neither among themselves nor from the table of items.
    """
    listed, named = items.tolist(), said.tolist()
    if not table.contributor and None not in named and all(map(lt, listed, listed[1:])):
        return items, said  # as they mostly are: there is nothing to reconcile
    pairs = [(item, name) for item, name in zip(listed, named, strict=True) if name is not None]
    author = dict(pairs)
    if len(author) != len(pairs) or any(
        author.get(item, name) != name for item, name in table.contributor.items()
    ):
        _refuse_two_contributors(_torn([*table.contributor.items(), *pairs]))
    author |= table.contributor
    orphans = sorted({item for item in listed if item not in author})
    if orphans:
        names = np.array(orphans, dtype=object)
        raise InputError(
            f"{len(orphans)} items have no contributor: "
            f"{listed_names(names, np.arange(len(names)), N_SHOWN)}.",
            hint="Give opinions a `contributor` column, or import the items.",
        )
    ordered = sorted_names(author)
    return ordered, np.array([author[item] for item in ordered], dtype=object)


def _torn(said: Iterable[tuple[str, str]]) -> list[str]:
    """The items of which two contributors are named, with both."""
    authors: dict[str, set[str]] = {}
    for item, name in said:
        authors.setdefault(item, set()).add(name)
    return [
        f"{item!r}: {' and '.join(repr(name) for name in sorted(names))}"
        for item, names in sorted(authors.items())
        if len(names) > 1
    ]


def categories_of(
    items: Names, category_by_item: Mapping[str, str], wanted: bool
) -> tuple[Codes | None, Names | None]:
    if not wanted or not category_by_item:
        return None, None
    names = sorted_names(category_by_item.values())
    place = {name: code for code, name in enumerate(names)}
    codes = [place[category_by_item[item]] if item in category_by_item else -1 for item in items]
    return np.array(codes, dtype=np.int32), names


def read_users(engine: Engine, source: Source | None) -> dict[str, bool]:
    import narwhals.stable.v2 as nw

    if source is None:
        return {}
    opened = engine.open(source)
    schema = dict(opened.collect_schema())
    require(schema, ("user_id", "affiliated"), "users")
    found = engine.arrays(
        opened.select(*(nw.col(n).cast(nw.String) for n in ("user_id", "affiliated")))
    )
    _refuse_empty(found["user_id"], "user_id", "users")
    affiliated: dict[str, bool] = {}
    for row, (user, text) in enumerate(
        zip(found["user_id"].tolist(), found["affiliated"].tolist(), strict=True), 1
    ):
        said = str(text).strip().lower()
        if said not in YES + NO:
            raise InputError(
                f"`affiliated` is {text!r} in row {row} of users.", hint="Write true or false."
            )
        if affiliated.setdefault(user, said in YES) != (said in YES):
            raise InputError(f"user {user!r} is listed twice, once affiliated and once not.")
    return affiliated


def standing_of(
    people: Names, affiliated: Mapping[str, bool], given: bool, voices: Iterable[str]
) -> dict[str, Any]:
    """What the list of users says of everyone, and a flag for reviewers it does not know."""
    if not given:
        return {}
    registered = np.array([name in affiliated for name in people], dtype=bool)
    spoke = set(voices)
    heard = np.array([name in spoke for name in people], dtype=bool)
    strangers = np.flatnonzero(heard & ~registered)
    flags = []
    if len(strangers):
        flags.append(
            f"{len(strangers)} reviewers are not among the users: {listed_names(people, strangers)}"
        )
    return {
        "affiliated": np.array([affiliated.get(name, False) for name in people], dtype=bool),
        "registered": registered,
        "flags": tuple(flags),
    }
