"""The embedded store: SQLite in WAL mode, written by one thread that commits in groups.

Any number of processes may read while one writes; a second writer waits its turn. An
event is durable when its transaction is on disk (synchronous = FULL), and those that
queue up while the disk works share the next transaction. Where the file system takes no
writes, the store is opened for reading alone.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from peerage.stores import SessionTakenError, Store, StoreError, stores
from peerage.stores.schema import MIGRATIONS, WITH_RESULTS, Sql, migrating
from peerage.stores.sql_store import ReadRows, known_version
from peerage.stores.writer import TAKEN_HINT, WRITTEN, Db, fill_results

T = TypeVar("T")

APPLICATION_ID = 0x50454552  # "PEER": a file without it is somebody else's
BUSY_TIMEOUT_MS = 60_000
PREFIX = "sqlite:///"
MAX_IDLE = 16  # connections that are kept open for the next read
# Functions of the shared statements, and what SQLite has for them. No Python function is
# registered: a query that waits for the interpreter can stop every other thread for good.
WORDS = (
    ("now_s()", "((julianday('now') - 2440587.5) * 86400.0)"),  # seconds since 1970
    ("in_turn()", "NULL"),  # SQLite has one writer at a time
)


@stores.register("sqlite")
def open_sqlite(url: str) -> SqliteStore:
    """The store in a file, made if there is none."""
    if not url.startswith(PREFIX) or url == PREFIX:
        raise StoreError(f"{url!r} names no file.", hint="Write sqlite:///peerage.db.")
    if "\0" in url:
        raise StoreError("a file's name holds no zero character.", hint="Name another file.")
    return SqliteStore(Path(url.removeprefix(PREFIX)))


class SqliteStore(Store):
    """A file of events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _StoreFile(path)
        self._let_go = weakref.finalize(self, self._file.close)
        self.mirror_folder = path.with_name(path.name + ".mirror")
        super().__init__(str(path))

    def _writing(self) -> _FileWriter:
        return _FileWriter(self._file)

    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _reported(self.path), self._file.lend() as db:
            rows: list[tuple[Any, ...]] = _FileStatements(db).execute(text, values).fetchall()
        return rows

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        with _reported(self.path), self._file.lend() as db, self._file.write(db):
            yield _FileStatements(db)

    @contextmanager
    def snapshot(self) -> Iterator[ReadRows]:
        with _reported(self.path), closing(self._file.connect()) as db:
            db.execute("BEGIN")
            yield _FileStatements(db).execute

    @contextmanager
    def filling(self) -> Iterator[tuple[Db, ReadRows]]:
        with self.transaction() as db:
            yield db, db.execute

    async def close(self) -> None:
        """Write what is queued, then close the connections."""
        await super().close()
        self._let_go()


class _FileWriter:
    """The writer thread's own connection."""

    def __init__(self, file: _StoreFile) -> None:
        self._file = file
        self._db = file.connect()

    def run(self, work: Callable[[Db, bool], T]) -> T:
        with _reported(self._file.path), self._file.write(self._db):
            return work(_FileStatements(self._db), False)

    def hint(self, session_ids: set[str]) -> None:
        """Do nothing: other processes look at the sessions that they follow now and then."""

    def close(self) -> None:
        self._db.close()


class _StoreFile:
    """One store's file and its connections, each used by one thread at a time.

    A read never shares a connection with a transaction, so it sees only what is committed. Two
    threads never share one either: SQLite's lock of a connection and the interpreter's lock can
    then not be waited for in opposite orders.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle = [_connect(path)]
        self._identity = _identity(path)
        self._is_closed = False
        self._lock = threading.Lock()  # held while the list of idle connections changes
        self._turn = threading.Lock()  # held by the thread that writes

    def connect(self) -> sqlite3.Connection:
        """Open another connection to the same file."""
        self.check()
        db = _connect(self.path)
        try:
            self.check()
        except StoreError:
            db.close()
            raise
        return db

    def check(self) -> None:
        """Refuse to go on with a file that is no longer at its place.

        SQLite would go on writing to a deleted file, and all of that would be lost.
        """
        if _identity(self.path) != self._identity:
            raise StoreError(
                "the file of this store was deleted or replaced while it was open.",
                place=str(self.path),
                hint="Nothing is read or stored until the file is back; to use another file that"
                " is there now, start again.",
            )

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Give out a connection that no other thread uses meanwhile."""
        self.check()
        with self._lock:
            if self._is_closed:
                raise StoreError("the store is closed.", place=str(self.path))
            db = self._idle.pop() if self._idle else None
        if db is None:
            db = self.connect()
        try:
            yield db
        finally:
            with self._lock:
                is_kept = not self._is_closed and len(self._idle) < MAX_IDLE
                if is_kept:
                    self._idle.append(db)
            if not is_kept:
                db.close()

    @contextmanager
    def write(self, db: sqlite3.Connection) -> Iterator[None]:
        """Hold a transaction on a connection: all of it is stored or nothing."""
        with self._turn:
            self.check()
            with _transaction(db):
                yield
            self.check()

    def close(self) -> None:
        """Close the connections; one that is in use is closed when it comes back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None where there is no file (in memory)."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class _FileStatements:
    """The shared statements, in SQLite's words."""

    connection: sqlite3.Connection

    def execute(self, text: Sql, values: Sequence[Any] = ()) -> Any:
        return self.connection.execute(_in_sqlite_words(text), values)

    def executemany(self, text: Sql, rows: Iterable[Sequence[Any]]) -> Any:
        return self.connection.executemany(_in_sqlite_words(text), rows)


@lru_cache(maxsize=512)
def _in_sqlite_words(text: str) -> Sql:
    for shared, ours in WORDS:
        text = text.replace(shared, ours)
    return text


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all of it or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite may have undone it; the first error is what counts
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


# -- connections --------------------------------------------------------------------------------


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a store of ours at this version; anything else is refused, untouched.

    Where the file system takes no writes it is a connection for reading.
    """
    if not path.parent.is_dir():
        raise StoreError("its folder does not exist.", place=str(path), hint="Make it first.")
    with _reported(path):
        try:
            return _opened(path, str(path))
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in NO_WRITES or not path.is_file():
                raise
        log = path.with_name(path.name + "-wal")  # what a crash left there is not passed over
        whole = not log.exists() or log.stat().st_size == 0
        address = path.absolute().as_uri() + "?mode=ro" + ("&immutable=1" if whole else "")
        return _opened(path, address, for_reading=True)


def _opened(path: Path, address: str, *, for_reading: bool = False) -> sqlite3.Connection:
    """A connection to a store that is checked and up to date; closed where that fails."""
    db = sqlite3.connect(address, uri=for_reading, isolation_level=None, check_same_thread=False)
    try:
        is_old = _version(db, path) < len(MIGRATIONS)
        if is_old and for_reading:
            raise StoreError(
                "this store is of an earlier version, and cannot be brought up to date here.",
                place=str(path),
                hint="Copy it to a folder that can be written to, and open it there.",
            )
        if not for_reading:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        if is_old:  # from whatever version is there once it is our turn
            with _transaction(db):
                (version,) = db.execute("PRAGMA user_version").fetchone()
                for statement in migrating(version):
                    db.execute(statement)
                if 0 < version < WITH_RESULTS:
                    fill_results(db)
                if version < len(MIGRATIONS):
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
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
    return known_version(version, str(path), "choose another file with --store")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours, with the file's name."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise SessionTakenError(WRITTEN, place=str(path), hint=TAKEN_HINT) from None
    except sqlite3.Error as error:
        problem, hint = PROBLEMS.get(_primary_code(error), (f"SQLite says: {error}.", ""))
        raise StoreError(problem, place=str(path), hint=hint) from None


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
