"""Lists of a store's sessions and imported tables, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from peerage.doors.render.layout import Screen, TableColumn, TextTable
from peerage.doors.render.phrases import minute, money, one_line

if TYPE_CHECKING:
    from peerage.reports.sessions import ImportList, SessionList
    from peerage.stores import Import, SessionEntry

MAX_IN_LIST = 80  # characters of a question


def show_sessions(console: Screen, listed: SessionList, _: bool = False) -> None:
    """Print the latest sessions of a store, or a sentence if there are none."""
    if listed.sessions:
        console.show_table(sessions_table(listed.sessions))
    elif listed.filtered:
        console.print("No session matches.")
    else:
        console.print('No sessions yet. To start one: peerage ask "…"')


def show_imports(console: Screen, listed: ImportList, _: bool = False) -> None:
    """Print the imported tables of a store."""
    if not listed.imports:
        console.print("No imported tables. To import one: peerage import FILE --as reviews")
        return
    console.show_table(imports_table(listed.imports))


def imports_table(imports: Sequence[Import]) -> TextTable:
    """Return the imported tables, with the numbers by which `peerage delete` finds them."""
    table = TextTable(
        TableColumn("import"),
        TableColumn("kind", "word"),
        TableColumn("rows", use=1),
        TableColumn("imported", "word", use=2),
        TableColumn("deleted", "word", use=3),
        TableColumn("file", "name"),
    )
    for one in imports:
        deleted = "" if one.deleted_at is None else minute(one.deleted_at)
        row = (str(one.id), one.kind, f"{one.n_rows:,}", minute(one.at), deleted, one.name)
        table.add(*row)
    return table


def sessions_table(listed: Sequence[SessionEntry]) -> TextTable:
    """Return the sessions of a store, in the order they were opened."""
    has_tags, has_seasons = (any(map(attrgetter(n), listed)) for n in ("tags", "season"))
    table = TextTable(
        TableColumn("session", "word"),
        TableColumn("opened", "word", use=3),
        TableColumn("status", "word", use=1),
        TableColumn("winner", "name", use=2),
        TableColumn("cost", use=4),
        TableColumn("category", "name", use=5),
        *([TableColumn("tags", "name", use=6)] if has_tags else []),
        *([TableColumn("season", "word", use=7)] if has_seasons else []),
        TableColumn("question", "text"),
    )
    for entry in listed:
        table.add(
            entry.id,
            minute(entry.opened_at),
            entry.status,
            entry.winner,
            f"{'≥ ' if entry.unpriced_calls else ''}{money(entry.cost_usd)}",
            entry.category,
            *([", ".join(entry.tags)] if has_tags else []),
            *([entry.season] if has_seasons else []),
            one_line(entry.query, MAX_IN_LIST),
        )
    return table
