"""The tables of the store: numbered migrations, each applied once, in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x50454552  # "PEER": a file without it is somebody else's

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: list[Migration] = []


def migration(step: Migration) -> Migration:
    """Add a step; its place in the list is the schema version it leads to."""
    MIGRATIONS.append(step)
    return step


@migration
def events_and_sessions(db: sqlite3.Connection) -> None:
    """The log, and two tables of what it says of sessions and seasons, for quick lists."""
    db.execute(
        """
        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            body TEXT NOT NULL,
            UNIQUE (session_id, seq)
        )
        """
    )
    db.execute(
        """
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            season TEXT NOT NULL,
            ordinal INTEGER NOT NULL,
            query TEXT NOT NULL,
            category TEXT NOT NULL,
            opened_at REAL NOT NULL,
            finished_at REAL,
            status TEXT NOT NULL DEFAULT ''
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX sessions_by_season ON sessions (season, ordinal)")
    db.execute("CREATE INDEX events_that_finish ON events (id) WHERE kind = 'finished'")
    db.execute("CREATE TABLE seasons (id TEXT PRIMARY KEY, seed TEXT NOT NULL) WITHOUT ROWID")


@migration
def imports(db: sqlite3.Connection) -> None:
    """Tables made elsewhere, kept as the Parquet they were checked into.

    A part is some hundred thousand rows in a few megabytes; a file is there whole or not at all.
    """
    db.execute(
        """
        CREATE TABLE imports (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            hash TEXT NOT NULL,
            name TEXT NOT NULL,
            n_rows INTEGER NOT NULL,
            at REAL NOT NULL,
            UNIQUE (kind, hash)
        )
        """
    )
    db.execute(
        """
        CREATE TABLE import_parts (
            import_id INTEGER NOT NULL REFERENCES imports (id),
            part INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (import_id, part)
        ) WITHOUT ROWID
        """
    )


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a store from a version up to this one, in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[version:]:
            step(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
