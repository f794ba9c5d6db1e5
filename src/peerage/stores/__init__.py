"""Stores of events: an append-only log on SQLite or PostgreSQL, one store per file or database.

A store keeps events in the order they are appended. An event is durable when it would survive a
power failure. Readers see complete events only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from peerage.errors import InputError, NotFoundError, UsageError
from peerage.hosts import without_password
from peerage.registry import Registry
from peerage.stores.schema import (
    TABLES,
    AccessToken,
    Action,
    Contribution,
    Import,
    Lease,
    Log,
    SessionEntry,
    SessionTakenError,
    Sql,
    StoreError,
    stored_text,
)
from peerage.stores.sql_store import ReadRows, Store
from peerage.stores.team_tables import Link, StoredDocument

__all__ = [
    "NO_STORE",
    "AccessToken",
    "Action",
    "Contribution",
    "Import",
    "Lease",
    "Link",
    "Log",
    "SessionEntry",
    "SessionTakenError",
    "Store",
    "StoreError",
    "StoredDocument",
    "full_id",
    "full_season",
    "kept_season",
    "missing_file",
    "move",
    "open_store",
    "stores",
    "without_password",
]

ROWS_COPIED_AT_ONCE = 500
NO_STORE = "sqlite:///:memory:"  # an empty store, for commands that only read


def full_id(store: Store, prefix: str) -> str:
    """Return the id of the one session whose id begins with the prefix."""
    ids = store.find(prefix) if prefix else []
    if not ids:
        raise NotFoundError(
            f"there is no session {prefix!r}.", hint="`peerage sessions` lists all sessions."
        )
    if len(ids) > 1 and prefix not in ids:
        raise InputError(
            f"{len(ids)} sessions begin with {prefix!r}: {', '.join(ids[:5])}.",
            hint="Give more of the id.",
        )
    return prefix if prefix in ids else ids[0]


def full_season(store: Store, prefix: str) -> str:
    """Return the id of the one season whose id begins with the prefix."""
    seasons = store.seasons()
    matches = [season for season in seasons if prefix and season.startswith(prefix)]
    if prefix in seasons:
        return prefix
    if len(matches) > 1:
        raise InputError(
            f"{len(matches)} seasons begin with {prefix!r}: {', '.join(matches[:5])}.",
            hint="Give more of the id.",
        )
    if not matches:
        latest = f"The latest are: {', '.join(seasons[-5:])}." if seasons else "No seasons yet."
        raise NotFoundError(f"there is no season {prefix!r}.", hint=latest)
    return matches[0]


def kept_season(store: Store, prefix: str) -> str:
    """Return what `full_season` does; refuse a season that was deleted."""
    season = full_season(store, prefix)
    if store.is_deleted(season):
        raise NotFoundError(
            f"season {season} was deleted.",
            hint=f"`peerage delete --season {season} --undo` brings it back.",
        )
    return season


Opener = Callable[[str], Store]
stores: Registry[Opener] = Registry("store", "peerage.stores")


def open_store(url: str, data: str | Path = "", *, must_exist: bool = False) -> Store:
    """Open the store at a URL such as sqlite:///peerage.db, and create it if it does not exist.

    With a data folder, the store's mirror and other local files go there.
    """
    if must_exist and (file := missing_file(url)) is not None:
        raise StoreError(
            "there is no store at this path.",
            place=str(file),
            hint="Check --store; `peerage ask`, `run` and `import` create a new store.",
        )
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(
            f"{without_password(url)!r} is not the URL of a store.",
            hint="Write sqlite:///FILE or postgresql://HOST/DATABASE.",
        )
    store = stores.get(scheme)(url)
    if data:
        store.mirror_folder = Path(data) / store.mirror_folder.name
    return store


def missing_file(url: str) -> Path | None:
    """Return the file of an SQLite store that does not exist yet, or None."""
    scheme, _, name = url.partition(":///")
    file = Path(name)
    return file if scheme == "sqlite" and name and not file.exists() else None


# -- a copy of a whole store ---------------------------------------------------------------------


def move(
    source: Store, target: Store, step: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Copy a store into an empty one, in one transaction that commits only if both are equal.

    Return the numbers of sessions, events, seasons and imports. An interrupted copy changes
    nothing; the source is only read.
    """
    if not (isinstance(source, Store) and isinstance(target, Store)):
        raise UsageError(
            "only a store on SQLite or PostgreSQL can be moved.", hint="Try `peerage export`."
        )
    _refuse_held(source)
    with source.snapshot() as original, target.fill_tables() as (db, copied):
        if any(db.execute(_first_of(table)).fetchone() for table in TABLES):
            hint = "Move to a new store."
            raise StoreError("this store is not empty.", place=target.place, hint=hint)
        for table in TABLES:
            step(f"copying {table}")
            rows = map(_storable_row, original(_select_all(table)))
            while batch := list(islice(rows, ROWS_COPIED_AT_ONCE)):
                db.executemany(_insert_into(table, len(batch[0])), batch)
        step("comparing")
        counts = {table: _compare_table(table, original, copied, target.place) for table in TABLES}
        _refuse_held(source)
        ((n_events,),) = source.execute("SELECT count(*) FROM events")
        if n_events != counts["events"]:
            raise StoreError(
                f"the store changed during the copy: {n_events} events now,"
                f" {counts['events']} before.",
                place=source.place,
                hint="Nothing was moved. Stop the programs that write to it, and try again.",
            )
    return {name: counts[name] for name in ("sessions", "events", "seasons", "imports")}


def _refuse_held(store: Store) -> None:
    """Raise StoreError if a session of the store is running."""
    ((n_held,),) = store.execute(
        "SELECT count(*) FROM leases WHERE owner <> '' AND ends_at > now_s()"
    )
    if n_held:
        raise StoreError(
            f"sessions of this store are still running: {n_held}.",
            place=store.place,
            hint="Wait until they have ended, or stop the processes that run them.",
        )


def _first_of(table: str) -> Sql:
    return f"SELECT 1 FROM {table} LIMIT 1"  # noqa: S608 - our names


def _select_all(table: str) -> Sql:
    return f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608 - our names


def _insert_into(table: str, n_columns: int) -> Sql:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * n_columns)})"  # noqa: S608 - our names


def _storable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its texts changed so that every store can hold them."""
    return tuple(stored_text(value) if isinstance(value, str) else value for value in row)


def _compare_table(table: str, old: ReadRows, new: ReadRows, place: str) -> int:
    """Return the number of rows in a table; raise StoreError if it differs in the two stores."""
    n_rows = 0
    statement = _select_all(table)
    pairs = zip_longest(map(_storable_row, old(statement)), new(statement))
    for n_rows, (row, copy) in enumerate(pairs, 1):
        if row != copy:
            raise StoreError(
                f"row {n_rows} of {table} changed during the copy; nothing was moved.",
                place=place,
                hint="Try again; if it happens again, please report it.",
            )
    return n_rows
