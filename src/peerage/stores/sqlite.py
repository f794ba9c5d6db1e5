"""The embedded store: SQLite in WAL mode, written by one thread that commits in groups.

Any number of processes may read while one writes; a second writer waits. An event is durable
when its transaction is on disk (synchronous = FULL). Events that queue up during a commit share
the next transaction. If the file system is read-only, the store is opened for reading.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from peerage.stores import SessionTakenError, Store, StoreError, stores
from peerage.stores.schema import MIGRATIONS, WITH_RESULTS, Sql, migration_statements
from peerage.stores.sql_store import ReadRows, check_version
from peerage.stores.writer import TAKEN_HINT, WRITTEN, Db, fill_results

T = TypeVar("T")

APPLICATION_ID = 0x50454552  # "PEER": a file without it belongs to another program
BUSY_TIMEOUT_MS = 60_000
RETRY_S = 0.01
ABOUT = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
"""  # in one statement, because another process may be creating the tables
PREFIX = "sqlite:///"
IN_MEMORY = ":memory:"
MAX_IDLE = 16  # connections kept open for the next read
# Functions of the shared statements with their SQLite expressions. No Python function is
# registered with SQLite: a query that waits for the interpreter can block all other threads.
WORDS = (
    ("now_s()", "((julianday('now') - 2440587.5) * 86400.0)"),  # seconds since 1970
    ("in_turn()", "NULL"),  # SQLite has one writer at a time
)


@stores.register("sqlite")
def open_sqlite(url: str) -> SqliteStore:
    """Open the store in a file, and create it if it does not exist."""
    if not url.startswith(PREFIX) or url == PREFIX:
        raise StoreError(f"{url!r} does not name a file.", hint="Write sqlite:///peerage.db.")
    if "\0" in url:
        raise StoreError(
            "a file name cannot contain a NUL character (\\0).", hint="Choose another file name."
        )
    return SqliteStore(Path(url.removeprefix(PREFIX)))


class SqliteStore(Store):
    """A store in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _StoreFile(path)
        self._let_go = weakref.finalize(self, self._file.close)
        self.mirror_folder = path.with_name(path.name + ".mirror").absolute()
        super().__init__(str(path))

    def _connect_writer(self) -> _FileWriter:
        return _FileWriter(self._file)

    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _translate_errors(self.path), self._file.lend() as db:
            rows: list[tuple[Any, ...]] = _FileStatements(db).execute(text, values).fetchall()
        return rows

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        with _translate_errors(self.path), self._file.lend() as db, self._file.write(db):
            yield _FileStatements(db)

    @contextmanager
    def snapshot(self) -> Iterator[ReadRows]:
        with _translate_errors(self.path), closing(self._file.connect()) as db:
            db.execute("BEGIN")
            yield _FileStatements(db).execute

    @contextmanager
    def fill_tables(self) -> Iterator[tuple[Db, ReadRows]]:
        with self.transaction() as db:
            yield db, db.execute

    async def close(self) -> None:
        """Write the queued events, then close the connections."""
        await super().close()
        self._let_go()


class _FileWriter:
    """The connection of the writer thread."""

    def __init__(self, file: _StoreFile) -> None:
        self._file = file
        self._db = file.connect()

    def run(self, work: Callable[[Db, bool], T]) -> T:
        with _translate_errors(self._file.path), self._file.write(self._db):
            return work(_FileStatements(self._db), False)

    def hint(self, session_ids: set[str]) -> None:
        """Do nothing: other processes poll the sessions that they follow."""

    def close(self) -> None:
        self._db.close()


class _StoreFile:
    """The file of a store and its connections, each used by one thread at a time.

    A read never shares a connection with a transaction, so it sees only committed rows. Two
    threads never share a connection, so they cannot wait for SQLite's lock and for the
    interpreter's lock in opposite orders.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # A program may change its folder later.
        self._at = path if str(path) == IN_MEMORY else path.absolute()
        self._idle = [_connect(path)]
        self._identity = _identity(self._at)
        self._is_closed = False
        self._lock = threading.Lock()  # protects the list of idle connections
        self._turn = threading.Lock()  # held by the writing thread

    def connect(self) -> sqlite3.Connection:
        """Open another connection to the same file."""
        self.check()
        db = _connect(self._at)
        try:
            self.check()
        except StoreError:
            db.close()
            raise
        return db

    def check(self) -> None:
        """Raise StoreError if the file is no longer at its path.

        SQLite would continue to write to a deleted file, and those events would be lost.
        """
        if _identity(self._at) != self._identity:
            raise StoreError(
                "the file of this store was deleted or replaced while it was open.",
                place=str(self.path),
                hint="Nothing is read or stored until the file is back. To use the file that is"
                " there now, restart the program.",
            )

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that no other thread uses at the same time."""
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
        """Run a transaction on a connection; it is stored as a whole or not at all."""
        with self._turn:
            self.check()
            with _transaction(db):
                yield
            self.check()

    def close(self) -> None:
        """Close the connections; a lent connection is closed when it is returned."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if there is no file (in memory)."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class _FileStatements:
    """Runs the shared statements, translated for SQLite."""

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
    """Run one transaction; roll back if it fails."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite may have rolled back already; keep the first error
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


# -- connections --------------------------------------------------------------------------------


def _connect(path: Path) -> sqlite3.Connection:
    """Connect to a store; upgrade an older one, and refuse any other file without changing it.

    On a read-only file system the connection can only read.
    """
    if not path.parent.is_dir():
        raise StoreError(
            "the folder of this file does not exist.", place=str(path), hint="Create it first."
        )
    with _translate_errors(path):
        try:
            return _open_database(path, str(path))
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in NO_WRITES or not path.is_file():
                raise
        log = path.with_name(path.name + "-wal")  # may contain rows, if a program crashed
        whole = not log.exists() or log.stat().st_size == 0
        address = path.absolute().as_uri() + "?mode=ro" + ("&immutable=1" if whole else "")
        return _open_database(path, address, for_reading=True)


def _open_database(path: Path, address: str, *, for_reading: bool = False) -> sqlite3.Connection:
    """Connect to a store, check and upgrade it; close the connection if that fails."""
    db = sqlite3.connect(address, uri=for_reading, isolation_level=None, check_same_thread=False)
    try:
        is_old = _version(db, path) < len(MIGRATIONS)
        if is_old and for_reading:
            raise StoreError(
                "an earlier version of peerage wrote this store, and it cannot be upgraded here.",
                place=str(path),
                hint="Copy it to a folder with write permission, and open it there.",
            )
        if not for_reading:
            _use_write_ahead_log(db)
            db.execute("PRAGMA synchronous = FULL")
        if is_old:  # read the version again: another process may have upgraded the store
            with _transaction(db):
                (version,) = db.execute("PRAGMA user_version").fetchone()
                for statement in migration_statements(version):
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


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Change the journal of a new file; SQLite itself does not wait for others who do the same."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(RETRY_S)
        else:
            return


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a store; refuse a file of another program."""
    db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    application, version, tables = db.execute(ABOUT).fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(
            "this file is a database of another program.",
            place=str(path),
            hint="Choose another file with --store.",
        )
    return check_version(version, str(path), "choose another file with --store")


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreErrors that name the file."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise SessionTakenError(WRITTEN, place=str(path), hint=TAKEN_HINT) from None
    except sqlite3.Error as error:
        problem, hint = PROBLEMS.get(_primary_code(error), (f"SQLite error: {error}.", ""))
        raise StoreError(problem, place=str(path), hint=hint) from None


OTHER_FILE = "Choose another file with --store."
# The problem and the hint to show for each primary error code of SQLite.
PROBLEMS = {
    sqlite3.SQLITE_NOTADB: ("this file is not a store.", OTHER_FILE),
    sqlite3.SQLITE_BUSY: (
        f"another process has kept the file locked for {BUSY_TIMEOUT_MS // 1000} s.",
        "Try again when it is done.",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full.", "Free some space; stored events are safe."),
    sqlite3.SQLITE_READONLY: ("the file cannot be written.", OTHER_FILE),
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened.",
        "Check the permissions of the file and its folder, or " + OTHER_FILE.lower(),
    ),
    sqlite3.SQLITE_PERM: ("you do not have permission to open the file.", OTHER_FILE),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged.", "Restore it from a backup."),
    sqlite3.SQLITE_TOOBIG: ("an event is larger than the store can hold.", ""),
}
NO_WRITES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code, or 0 if Python raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
