"""Copy a whole store into an empty one of another kind, and compare the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

from peerage.errors import UsageError
from peerage.stores import Store, StoreError
from peerage.stores.records import stored_text
from peerage.stores.schema import TABLES, Sql
from peerage.stores.sql_store import Snapshot

ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Moved:
    """How many of each were copied, and found the same on both sides."""

    sessions: int
    events: int
    seasons: int
    imports: int


def move(source: Store, target: Store, step: Callable[[str], None] = lambda _: None) -> Moved:
    """Copy everything into an empty store, in one transaction that ends when both are the same.

    What is cut off before has changed nothing; the source is only read.
    """
    if not (isinstance(source, Store) and isinstance(target, Store)):
        raise UsageError(
            "only a store on SQLite or PostgreSQL can be moved.", hint="Try `peerage export`."
        )
    _refuse_held(source)
    with source.snapshot() as rows, target.filling() as (db, copied):
        if any(db.execute(_first_of(table)).fetchone() for table in TABLES):
            hint = "Move to a new one."
            raise StoreError("this store is not empty.", place=target.place, hint=hint)
        for table in TABLES:
            step(f"copying {table}")
            mended = map(_mended, rows.execute(_selecting(table)))
            while batch := list(islice(mended, ROWS_AT_ONCE)):
                db.executemany(_inserting(table, len(batch[0])), batch)
        step("comparing")
        counts = {table: _compared(table, rows, copied, target.place) for table in TABLES}
        _refuse_held(source)
        ((n_events,),) = source.execute("SELECT count(*) FROM events")
        if n_events != counts["events"]:
            raise StoreError(
                f"it was written to meanwhile: {n_events} events now, {counts['events']} before.",
                place=source.place,
                hint="Nothing was moved. Stop whoever writes to it, and try again.",
            )
    return Moved(*(counts[name] for name in ("sessions", "events", "seasons", "imports")))


def _refuse_held(store: Store) -> None:
    """Refuse a store in which a session is being run."""
    ((n_held,),) = store.execute(
        "SELECT count(*) FROM leases WHERE owner <> '' AND ends_at > now_s()"
    )
    if n_held:
        raise StoreError(
            f"{n_held} of its sessions are being run.",
            place=store.place,
            hint="Let them end, or stop the processes that run them.",
        )


def _first_of(table: str) -> Sql:
    return f"SELECT 1 FROM {table} LIMIT 1"  # noqa: S608 - our names


def _selecting(table: str) -> Sql:
    return f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608 - our names


def _inserting(table: str, n_columns: int) -> Sql:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * n_columns)})"  # noqa: S608 - our names


def _mended(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as every store can hold it."""
    return tuple(stored_text(value) if isinstance(value, str) else value for value in row)


def _compared(table: str, old: Snapshot, new: Snapshot, place: str) -> int:
    """How many rows a table has, if those of both stores are the same."""
    n_rows = 0
    statement = _selecting(table)
    pairs = zip_longest(map(_mended, old.execute(statement)), new.execute(statement))
    for n_rows, (row, copy) in enumerate(pairs, 1):
        if row != copy:
            raise StoreError(
                f"row {n_rows} of {table} is not what it was after copying; nothing was moved.",
                place=place,
                hint="Try again; if it happens again, please report it.",
            )
    return n_rows
