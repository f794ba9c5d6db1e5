"""Copy a whole store into an empty one of another kind, and compare the two."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from typing import Any

from peerage.errors import UsageError
from peerage.stores import Store, StoreError
from peerage.stores.event_rows import stored_text
from peerage.stores.schema import TABLES
from peerage.stores.sql_store import Snapshot, SqlStore
from peerage.stores.writer import Sql

ROWS_AT_ONCE = 500
BY_SESSION = "SELECT session_id, seq, kind, at, body, epoch FROM events ORDER BY session_id, seq"


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
    old, new = _movable(source), _movable(target)
    _refuse_held(old)
    with old.snapshot() as rows, new.filling() as (db, copied):
        if any(db.execute(_first_of(table)).fetchone() for table in TABLES):
            raise StoreError("this store is not empty.", place=new.place, hint="Move to a new one.")
        for table in TABLES:
            step(f"copying {table}")
            for batch in _batches(rows.execute(_selecting(table))):
                db.executemany(_inserting(table), batch)
        step("comparing")
        counts = _compared(rows, copied, new.place)
        _refuse_held(old)
        if (n := _count(old)) != counts["events"]:
            raise StoreError(
                f"it was written to meanwhile: {n} events now, {counts['events']} before.",
                place=old.place,
                hint="Nothing was moved. Stop whoever writes to it, and try again.",
            )
    return Moved(*(counts[name] for name in ("sessions", "events", "seasons", "imports")))


def _movable(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise UsageError(
            "only a store on SQLite or PostgreSQL can be moved.", hint="Try `peerage export`."
        )
    return store


def _refuse_held(store: SqlStore) -> None:
    """Refuse a store in which a session is being run."""
    held = store.reader.execute(
        "SELECT count(*) FROM leases WHERE owner <> '' AND ends_at > now_s()"
    )
    if n := held[0][0]:
        raise StoreError(
            f"{n} of its sessions are being run.",
            place=store.place,
            hint="Let them end, or stop the processes that run them.",
        )


def _count(store: SqlStore) -> int:
    return int(store.reader.execute("SELECT count(*) FROM events")[0][0])


def _first_of(table: str) -> Sql:
    return f"SELECT 1 FROM {table} LIMIT 1"  # noqa: S608 - our names


def _selecting(table: str) -> Sql:
    return f"SELECT {', '.join(TABLES[table])} FROM {table} ORDER BY 1, 2"  # noqa: S608 - our names


def _inserting(table: str) -> Sql:
    columns = TABLES[table]
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our names


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    mended = map(_mended, rows)
    while batch := list(islice(mended, ROWS_AT_ONCE)):
        yield batch


def _mended(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as every store can hold it."""
    return tuple(stored_text(value) if isinstance(value, str) else value for value in row)


def _compared(old: Snapshot, new: Snapshot, place: str) -> dict[str, int]:
    """How many rows each table has, if those of both stores are the same."""
    sessions = zip_longest(_digests(old.execute(BY_SESSION)), _digests(new.execute(BY_SESSION)))
    for one, other in sessions:
        if one != other:
            raise _differs(f"session {(one or other or ' ')[0]}", place)
    counts = {}
    for table in TABLES:
        counts[table] = 0
        statement = _selecting(table)
        pairs = zip_longest(map(_mended, old.execute(statement)), new.execute(statement))
        for row, copy in pairs:
            counts[table] += 1
            if row != copy:
                raise _differs(f"row {counts[table]} of {table}", place)
    return counts


def _digests(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, str]]:
    """Each session with a hash of all its events."""
    for session_id, events in groupby(map(_mended, rows), key=itemgetter(0)):
        digest = hashlib.sha256()
        for event in events:
            digest.update(repr(event).encode())
        yield session_id, digest.hexdigest()


def _differs(what: str, place: str) -> StoreError:
    return StoreError(
        f"{what} is not what it was after copying; nothing was moved.",
        place=place,
        hint="Try again; if it happens again, please report it.",
    )
