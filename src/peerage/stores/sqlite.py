"""The embedded store: SQLite in WAL mode, written by one thread that commits in groups.

Any number of processes may read while one writes; a second writer waits its turn. An
event is durable when its transaction is on disk (synchronous = FULL), and those that
queue up while the disk works share the next transaction.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerage.council import folding
from peerage.stores import Import, Listing, StoreError, stores
from peerage.stores.schema import APPLICATION_ID, MIGRATIONS, migrate
from peerage.types import Event

BUSY_TIMEOUT_MS = 60_000
QUERY_CHARACTERS_LISTED = 300
PREFIX = "sqlite:///"


@dataclass(frozen=True, slots=True)
class _Append:
    event: Event
    kept: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


@stores.register("sqlite")
def open_sqlite(url: str) -> SqliteStore:
    """The store in a file, made if there is none."""
    if not url.startswith(PREFIX) or url == PREFIX:
        raise StoreError(f"{url!r} names no file.", hint="Write sqlite:///peerage.db.")
    return SqliteStore(Path(url.removeprefix(PREFIX)))


class SqliteStore:
    """A file of events; reads on the caller's thread, writes on the store's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = _connect(path)
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None

    # -- writing -------------------------------------------------------------------------------

    def append(self, event: Event) -> asyncio.Future[None]:
        """Queue an event; the result is done when it is on disk."""
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        self._queue.put(_Append(event, kept, loop))
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="peerage-store", daemon=True)
            self._writer.start()
        return kept

    async def close(self) -> None:
        """Write what is queued, then let go of the file."""
        if self._writer is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._writer.join)
            self._writer = None
        self._db.close()

    def _write(self) -> None:
        db = _connect(self.path)
        open_ = True
        while open_:
            group = [self._queue.get()]
            while not self._queue.empty():
                group.append(self._queue.get())
            open_ = None not in group
            appends = [item for item in group if item is not None]
            if appends:
                _store(db, appends)
        db.close()

    def season_seed(self, season: str, drawn: str) -> str:
        with _reported(self.path), self._transaction():
            self._db.execute("INSERT OR IGNORE INTO seasons VALUES (?, ?)", (season, drawn))
            row = self._db.execute("SELECT seed FROM seasons WHERE id = ?", (season,)).fetchone()
        return str(row[0])

    def add_import(self, entry: Import, parts: Iterable[bytes]) -> None:
        with _reported(self.path), self._transaction():
            row = self._db.execute(
                "INSERT INTO imports (kind, hash, name, n_rows, at) VALUES (?, ?, ?, ?, ?)",
                (entry.kind, entry.hash, entry.name, entry.n_rows, entry.at),
            )
            self._db.executemany(
                "INSERT INTO import_parts VALUES (?, ?, ?)",
                ((row.lastrowid, i, data) for i, data in enumerate(parts)),
            )

    def append_all(self, events: Iterable[Event]) -> None:
        with _reported(self.path), self._transaction():
            _insert(self._db, list(events))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction on the caller's thread: all of it or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # -- reading -------------------------------------------------------------------------------

    def imports(self) -> list[Import]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT kind, hash, name, n_rows, at, id FROM imports ORDER BY id"
            ).fetchall()
        return [Import(*row) for row in rows]

    def import_parts(self, import_id: int) -> Iterator[bytes]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT data FROM import_parts WHERE import_id = ? ORDER BY part", (import_id,)
            )
            yield from (row[0] for row in rows)

    def events(self, session_id: str) -> list[Event]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT session_id, seq, kind, at, body FROM events WHERE session_id = ?"
                " ORDER BY seq",
                (session_id,),
            ).fetchall()
        return [_event(row) for row in rows]

    def sessions(self, season: str | None = None, limit: int | None = None) -> list[Listing]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT id, season, ordinal, query, category, opened_at, finished_at, status"
                " FROM sessions WHERE ?1 IS NULL OR season = ?1"
                " ORDER BY opened_at DESC, ordinal DESC, id DESC LIMIT ?2",
                (season, -1 if limit is None else limit),
            ).fetchall()
        return [Listing(*row) for row in reversed(rows)]

    def finished_after(self, row: int, limit: int) -> list[tuple[int, str]]:
        with _reported(self.path):
            return self._db.execute(
                "SELECT id, session_id FROM events WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
                (folding.FINISHED, row, limit),
            ).fetchall()

    @property
    def mirror_folder(self) -> Path:
        return self.path.with_name(self.path.name + ".mirror")

    def find(self, prefix: str) -> list[str]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT id FROM sessions WHERE substr(id, 1, ?) = ? ORDER BY id",
                (len(prefix), prefix),
            ).fetchall()
        return [str(row[0]) for row in rows]


# -- connections --------------------------------------------------------------------------------


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a store of ours at this version; anything else is refused, untouched."""
    if not path.parent.is_dir():
        raise StoreError("its folder does not exist.", place=str(path), hint="Make it first.")
    with _reported(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables and application != APPLICATION_ID:
            db.close()
            raise StoreError(
                "this is a database of another program.",
                place=str(path),
                hint="Choose another file with --store.",
            )
        if version > len(MIGRATIONS):
            db.close()
            raise StoreError(
                f"this store has version {version}, and this peerage knows only up to"
                f" {len(MIGRATIONS)}.",
                place=str(path),
                hint="Update peerage, or choose another file with --store.",
            )
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if version < len(MIGRATIONS):
            _migrate(db)
    return db


def _migrate(db: sqlite3.Connection) -> None:
    """Migrate from whatever version is there once it is our turn."""
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    db.execute("COMMIT")
    if version < len(MIGRATIONS):
        migrate(db, version)


class _reported:  # noqa: N801 - reads as a sentence: with _reported(path)
    """Turns SQLite's errors into ours, with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _store_error(error, self.path) from None


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    text = str(error)
    if "not a database" in text:
        hint = "Choose another file with --store."
        return StoreError("this file is not a store.", place=str(path), hint=hint)
    if isinstance(error, sqlite3.IntegrityError):
        return StoreError("another process is writing this very session.", place=str(path))
    return StoreError(f"SQLite says: {text}.", place=str(path))


# -- rows ---------------------------------------------------------------------------------------


def _store(db: sqlite3.Connection, appends: Sequence[_Append]) -> None:
    """All in one transaction; if one of them cannot be, each in its own, so that it fails alone."""
    error = _commit(db, [item.event for item in appends])
    if isinstance(error, sqlite3.IntegrityError) and len(appends) > 1:
        for item in appends:
            _settle([item], _commit(db, [item.event]))
    else:
        _settle(appends, error)


def _commit(db: sqlite3.Connection, events: Sequence[Event]) -> sqlite3.Error | None:
    """One transaction for all of them; the error, if it could not be."""
    try:
        db.execute("BEGIN IMMEDIATE")
        _insert(db, events)
        db.execute("COMMIT")
    except sqlite3.Error as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        return error
    return None


def _insert(db: sqlite3.Connection, events: Sequence[Event]) -> None:
    db.executemany(
        "INSERT INTO events (session_id, seq, kind, at, body) VALUES (?, ?, ?, ?, ?)",
        [(e.session_id, e.seq, e.kind, e.at, json.dumps(e.body)) for e in events],
    )
    for event in events:
        if event.kind == folding.OPENED:
            _list_session(db, event)
        elif event.kind == folding.FINISHED:
            db.execute(
                "UPDATE sessions SET finished_at = ?, status = ? WHERE id = ?",
                (event.at, event.body["status"], event.session_id),
            )


def _list_session(db: sqlite3.Connection, event: Event) -> None:
    body = event.body
    db.execute(
        "INSERT INTO sessions (id, season, ordinal, query, category, opened_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            event.session_id,
            body["season"],
            body["ordinal"],
            body["query"]["text"][:QUERY_CHARACTERS_LISTED].encode("utf-8", "replace").decode(),
            body["query"]["category"],
            event.at,
        ),
    )


def _settle(appends: Sequence[_Append], error: sqlite3.Error | None) -> None:
    """Tell each waiting loop, once for all its events."""
    for loop in {item.loop for item in appends}:
        mine = [item.kept for item in appends if item.loop is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine, error)


def _resolve(kept: Sequence[asyncio.Future[None]], error: sqlite3.Error | None) -> None:
    for future in kept:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(StoreError(f"an event could not be stored: {error}."))


def _event(row: tuple[Any, ...]) -> Event:
    session_id, seq, kind, at, body = row
    return Event(session_id, seq, kind, at, json.loads(body))
