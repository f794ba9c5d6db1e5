"""The embedded store: SQLite in WAL mode, written by one thread that commits in groups.

Any number of processes may read while one writes; a second writer waits its turn. An
event is durable when its transaction is on disk (synchronous = FULL), and those that
queue up while the disk works share the next transaction. Where the file system takes no
writes, the store is opened for reading alone.

An event that cannot be kept fails whoever waits for it, and so do the later ones of its
session, whose log would have a gap; it costs no other session anything.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerage.errors import UnreadableError
from peerage.events import KIND_BY_TYPE, Finished, Opened, read_event
from peerage.stores import Import, Listing, SessionTakenError, StoreError, stores
from peerage.stores.schema import APPLICATION_ID, MIGRATIONS, migrate
from peerage.text import valid_text, valid_values
from peerage.types import Event

BUSY_TIMEOUT_MS = 60_000
QUERY_CHARACTERS_LISTED = 300
MAX_BODY_CHARACTERS = 100_000_000
MAX_DEPTH = 40  # of lists and objects in a body
MAX_INTEGER = 2**63 - 1
EARLIEST_S, LATEST_S = -62_135_596_800.0, 253_402_300_799.0  # the years 1 to 9999
GAP = "an earlier event of this session could not be kept."
UNREADABLE = "unreadable"  # the status of a listed session whose row nobody can read
PREFIX = "sqlite:///"
LISTED = frozenset({KIND_BY_TYPE[Opened], KIND_BY_TYPE[Finished]})  # kinds with a list's columns

Columns = tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """An event as the tables hold it, checked before it is queued."""

    event: Columns
    opened: Columns = ()  # its line in the list of sessions
    finished: Columns = ()  # when and how


@dataclass(frozen=True, slots=True)
class _Append:
    session_id: str
    seq: int
    row: _Row | StoreError  # why there is none: told in its turn, since what follows hangs on it
    kept: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


@stores.register("sqlite")
def open_sqlite(url: str) -> SqliteStore:
    """The store in a file, made if there is none."""
    if not url.startswith(PREFIX) or url == PREFIX:
        raise StoreError(f"{url!r} names no file.", hint="Write sqlite:///peerage.db.")
    if "\0" in url:
        raise StoreError("a file's name holds no zero character.", hint="Name another file.")
    return SqliteStore(Path(url.removeprefix(PREFIX)))


class SqliteStore:
    """A file of events; reads on the caller's thread, writes on the store's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = _connect(path)
        self._let_go = weakref.finalize(self, self._db.close)
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # held while the writer starts, ends, or is given work
        self._writer: threading.Thread | None = None
        self._closed = False
        self._gap_at: dict[str, int] = {}  # by session, the first event that could not be kept

    # -- writing -------------------------------------------------------------------------------

    def append(self, event: Event) -> asyncio.Future[None]:
        """Queue an event; the result is done when it is on disk."""
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        row: _Row | StoreError
        try:
            row = _row(event)
        except StoreError as error:
            row = error
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed.", place=str(self.path))
            self._queue.put(_Append(str(event.session_id), event.seq, row, kept, loop))
            if self._writer is None:
                self._writer = threading.Thread(
                    target=self._write, name="peerage-store", daemon=True
                )
                self._writer.start()
        return kept

    async def close(self) -> None:
        """Write what is queued, then let go of the file."""
        with self._lock:
            self._closed = True
            writer = self._writer
            self._queue.put(None)
        if writer is not None:
            await asyncio.to_thread(writer.join)
        self._let_go()

    def _write(self) -> None:
        """Keep what is queued until the store is closed; however it ends, nobody waits on."""
        taken: list[_Append] = []
        failure = StoreError("the store's writer ended before its time.", place=str(self.path))
        try:
            with closing(_connect(self.path)) as db:
                while self._take(taken):
                    self._keep(db, taken)
                    taken.clear()
        except StoreError as error:
            failure = error
        finally:
            with self._lock:
                self._writer = None
                while not self._queue.empty():
                    if (item := self._queue.get()) is not None:
                        taken.append(item)
            self._refuse(taken, failure)

    def _take(self, taken: list[_Append]) -> bool:
        """Wait for work and take all there is; False when the store is closed and all is done."""
        item = self._queue.get()
        while item is not None:
            taken.append(item)
            if self._queue.empty():
                return True
            item = self._queue.get()
        self._queue.put(None)  # found again when what was taken before it is kept
        return bool(taken)

    def _keep(self, db: sqlite3.Connection, appends: Sequence[_Append]) -> None:
        """All in one transaction; if one cannot be, each in its own, so that it fails alone."""
        whole: list[_Append] = []
        rows: list[_Row] = []
        for item in appends:
            if isinstance(item.row, StoreError):
                self._refuse([item], item.row)
            elif self._follows(item):
                whole.append(item)
                rows.append(item.row)
            else:
                self._refuse([item], StoreError(GAP, place=str(self.path)))
        error = _commit(db, rows) if rows else None
        if error is None:
            _settle(whole, None)
        elif len(whole) > 1 and isinstance(error, sqlite3.IntegrityError):
            for item in whole:
                self._keep(db, [item])
        else:
            self._refuse(whole, _store_error(error, self.path))

    def _follows(self, item: _Append) -> bool:
        """Whether nothing before this event is missing; one that goes back mends the gap."""
        gap = self._gap_at.get(item.session_id)
        if gap is not None and item.seq <= gap:
            del self._gap_at[item.session_id]
        return item.session_id not in self._gap_at

    def _refuse(self, appends: Sequence[_Append], error: StoreError) -> None:
        for item in appends:
            if _is_integer(item.seq):
                self._gap_at.setdefault(item.session_id, item.seq)
        _settle(appends, error)

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
            _insert(self._db, [_checked_row(event) for event in events])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction on the caller's thread: all of it or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            _roll_back(self._db)
            raise

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
                (valid_text(session_id),),
            ).fetchall()
        return [_event(row) for row in rows]

    def sessions(
        self, season: str | None = None, limit: int | None = None, before: str | None = None
    ) -> list[Listing]:
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT id, season, ordinal, query, category, opened_at, finished_at, status"
                " FROM sessions WHERE (?1 IS NULL OR season = ?1)"
                " AND (?2 IS NULL OR (opened_at, ordinal, id)"
                " < (SELECT opened_at, ordinal, id FROM sessions WHERE id = ?2))"
                " ORDER BY opened_at DESC, ordinal DESC, id DESC LIMIT ?3",
                (season, before, -1 if limit is None else min(limit, MAX_INTEGER)),
            ).fetchall()
        return [_listing(row) for row in reversed(rows)]

    def finished_after(self, row: int, limit: int) -> list[tuple[int, str]]:
        with _reported(self.path):
            return self._db.execute(
                "SELECT id, session_id FROM events WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
                (KIND_BY_TYPE[Finished], row, limit),
            ).fetchall()

    @property
    def mirror_folder(self) -> Path:
        return self.path.with_name(self.path.name + ".mirror")

    def find(self, prefix: str) -> list[str]:
        prefix = valid_text(prefix)
        with _reported(self.path):
            rows = self._db.execute(
                "SELECT id FROM sessions WHERE substr(id, 1, ?) = ? ORDER BY id",
                (len(prefix), prefix),
            ).fetchall()
        return [str(row[0]) for row in rows]


# -- connections --------------------------------------------------------------------------------


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a store of ours at this version; anything else is refused, untouched.

    Where the file system takes no writes it is a connection for reading.
    """
    if not path.parent.is_dir():
        raise StoreError("its folder does not exist.", place=str(path), hint="Make it first.")
    with _reported(path):
        try:
            return _opened(path)
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in NO_WRITES or not path.is_file():
                raise
        return _opened_for_reading(path)


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        version = _version(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if version < len(MIGRATIONS):
            _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _opened_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing; what a crash left beside the file is not passed over."""
    log = path.with_name(path.name + "-wal")
    whole = not log.exists() or log.stat().st_size == 0
    place = path.absolute().as_uri() + "?mode=ro" + ("&immutable=1" if whole else "")
    db = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
    try:
        if _version(db, path) < len(MIGRATIONS):
            raise StoreError(
                "this store is of an earlier version, and cannot be brought up to date here.",
                place=str(path),
                hint="Copy it to a folder that can be written to, and open it there.",
            )
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of a store of ours; the file of anybody else is refused."""
    db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(
            "this is a database of another program.",
            place=str(path),
            hint="Choose another file with --store.",
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"this store has version {version}, and this peerage knows only up to"
            f" {len(MIGRATIONS)}.",
            place=str(path),
            hint="Update peerage, or choose another file with --store.",
        )
    return int(version)


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


OTHER_FILE = "Choose another file with --store."
# By SQLite's primary code: what is wrong, and what to do about it.
PROBLEMS = {
    sqlite3.SQLITE_NOTADB: ("this file is not a store.", OTHER_FILE),
    sqlite3.SQLITE_BUSY: (
        f"another process has kept it locked for {BUSY_TIMEOUT_MS // 1000} s.",
        "Try again when it is done.",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full.", "Make room; what was stored is safe."),
    sqlite3.SQLITE_READONLY: ("it cannot be written to.", OTHER_FILE),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened.",
        "Look at the permissions of the file and its folder, or " + OTHER_FILE.lower(),
    ),
    sqlite3.SQLITE_PERM: ("you are not allowed to open it.", OTHER_FILE),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged.", "Restore it from a copy."),
    sqlite3.SQLITE_TOOBIG: ("an event is larger than the store can hold.", ""),
}
NO_WRITES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's code without its details; 0 where Python itself raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    if isinstance(error, sqlite3.IntegrityError):
        return SessionTakenError(
            "another process has written this session.",
            place=str(path),
            hint="Let it end, then give the same command again: it goes on from there.",
        )
    problem, hint = PROBLEMS.get(_primary_code(error), (f"SQLite says: {error}.", ""))
    return StoreError(problem, place=str(path), hint=hint)


# -- rows ---------------------------------------------------------------------------------------


def _row(event: Event) -> _Row:
    """An event as the tables will hold it, or a refusal of what they could not."""
    fits = (
        isinstance(event.session_id, str)
        and isinstance(event.kind, str)
        and _is_integer(event.seq)
        and _is_time(event.at)
    )
    if not fits:
        raise StoreError("an event needs a session, a place in it, a kind and a time.")
    try:
        body = json.dumps(event.body)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a {event.kind} event holds what is not JSON: {error}.") from None
    if len(body) > MAX_BODY_CHARACTERS:
        raise StoreError(f"a {event.kind} event is over {MAX_BODY_CHARACTERS:,} characters long.")
    id_ = valid_text(event.session_id)
    columns = (id_, event.seq, valid_text(event.kind), event.at, body)
    try:
        fact = read_event(event) if event.kind in LISTED else None
    except UnreadableError as error:
        raise StoreError(error.message) from None
    if isinstance(fact, Opened):
        season, text, category = map(
            valid_text, (fact.season, fact.query.text, fact.query.category)
        )
        listed = (id_, season, fact.ordinal, text[:QUERY_CHARACTERS_LISTED], category, event.at)
        return _Row(columns, opened=listed)
    if isinstance(fact, Finished):
        return _Row(columns, finished=(event.at, valid_text(fact.status), id_))
    return _Row(columns)


def _checked_row(event: Event) -> _Row:
    """The row of an event from elsewhere, whose body may be nested without end."""
    if _is_deeper(event.body, MAX_DEPTH):
        raise StoreError(
            f"a {event.kind!s:.40} event of session {event.session_id!s:.40} is nested deeper"
            f" than {MAX_DEPTH} levels."
        )
    return _row(event)


def _is_deeper(value: Any, levels: int) -> bool:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or not members:
        return False
    return levels == 0 or any(_is_deeper(member, levels - 1) for member in members)


def _is_integer(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and EARLIEST_S <= value <= LATEST_S  # type: ignore[operator]


def _commit(db: sqlite3.Connection, rows: Sequence[_Row]) -> sqlite3.Error | None:
    """One transaction for all of them; the error, if it could not be."""
    try:
        db.execute("BEGIN IMMEDIATE")
        _insert(db, rows)
        db.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(db)
        return error
    return None


def _roll_back(db: sqlite3.Connection) -> None:
    """Undo a transaction, if SQLite has not done so itself; the first error is what counts."""
    if db.in_transaction:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def _insert(db: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    db.executemany(
        "INSERT INTO events (session_id, seq, kind, at, body) VALUES (?, ?, ?, ?, ?)",
        [row.event for row in rows],
    )
    for row in rows:
        if row.opened:
            db.execute(
                "INSERT INTO sessions (id, season, ordinal, query, category, opened_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row.opened,
            )
        elif row.finished:
            db.execute("UPDATE sessions SET finished_at = ?, status = ? WHERE id = ?", row.finished)


def _settle(appends: Sequence[_Append], error: StoreError | None) -> None:
    """Tell each waiting loop, once for all its events."""
    for loop in {item.loop for item in appends}:
        mine = [item.kept for item in appends if item.loop is loop]
        with suppress(RuntimeError):  # a loop that is closed has nobody waiting in it
            loop.call_soon_threadsafe(_resolve, mine, error)


def _resolve(kept: Sequence[asyncio.Future[None]], error: StoreError | None) -> None:
    for future in kept:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(type(error)(error.message, place=error.place, hint=error.hint))


def _event(row: tuple[Any, ...]) -> Event:
    """An event of the log; halves of surrogate pairs, which earlier versions let in, are mended."""
    session_id, seq, kind, at, text = row
    try:
        body = json.loads(text)
        if "\\ud" in text:
            body = valid_values(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnreadableError(
            f"event {seq} is not JSON: {error!r:.200}.", place=f"session {session_id}"
        ) from None
    if not isinstance(body, dict) or type(at) not in (int, float):
        raise UnreadableError(f"event {seq} is no event.", place=f"session {session_id}")
    return Event(session_id, seq, kind, at, body)


def _listing(row: tuple[Any, ...]) -> Listing:
    """A line of the list; of one that earlier versions let in malformed, only the id."""
    id_, _, ordinal, _, _, opened_at, finished_at, _ = row
    fits = _is_integer(ordinal) and _is_time(opened_at)
    fits = fits and (finished_at is None or _is_time(finished_at))
    return Listing(*row) if fits else Listing(id_, "", 0, "", "", 0.0, None, UNREADABLE)
