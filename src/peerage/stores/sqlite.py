"""The embedded store: SQLite in WAL mode, written by one thread that commits in groups.

Any number of processes may read while one writes; a second writer waits its turn. An
event is durable when its transaction is on disk (synchronous = FULL), and those that
queue up while the disk works share the next transaction. Where the file system takes no
writes, the store is opened for reading alone.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from peerage.stores import SessionTakenError, Store, StoreError, stores
from peerage.stores.schema import MIGRATIONS, Sql, migrating
from peerage.stores.sql_store import ReadRows, known_version
from peerage.stores.writer import TAKEN_HINT, WRITTEN, Db

T = TypeVar("T")

APPLICATION_ID = 0x50454552  # "PEER": a file without it is somebody else's
BUSY_TIMEOUT_MS = 60_000
PREFIX = "sqlite:///"


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
        self._db = _connect(path)
        self._lock = threading.Lock()  # held during a transaction on the shared connection
        self._let_go = weakref.finalize(self, self._db.close)
        self.mirror_folder = path.with_name(path.name + ".mirror")
        super().__init__(str(path))

    def _writing(self) -> _FileWriter:
        return _FileWriter(self.path)

    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _reported(self.path):
            return self._db.execute(text, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        with self._lock, _reported(self.path), _transaction(self._db):
            yield self._db

    @contextmanager
    def snapshot(self) -> Iterator[ReadRows]:
        with _reported(self.path), closing(_connect(self.path)) as db:
            db.execute("BEGIN")
            yield db.execute

    @contextmanager
    def filling(self) -> Iterator[tuple[Db, ReadRows]]:
        with self.transaction() as db:
            yield db, db.execute

    async def close(self) -> None:
        """Write what is queued, then let go of the file."""
        await super().close()
        self._let_go()


class _FileWriter:
    """The writer thread's own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = _connect(path)

    def run(self, work: Callable[[Db, bool], T]) -> T:
        with _reported(self.path), _transaction(self.db):
            return work(self.db, False)

    def hint(self, session_ids: set[str]) -> None:
        """Nobody listens: who follows a session of another process looks now and then."""

    def close(self) -> None:
        self.db.close()


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
                if version < len(MIGRATIONS):
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of a store of ours; the file of anybody else is refused."""
    db.create_function("now_s", 0, time.time)
    db.create_function("in_turn", 0, lambda: None)  # whoever writes is alone
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
