"""The tables of the store: numbered migrations, each applied once, in order.

They are written for SQLite and hold for PostgreSQL too, which has other words for some types
(`stores/postgres.py`). A new table goes into `TABLES`, so that `peerage move` takes it along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Tables(Protocol):
    """A connection that makes tables."""

    def execute(self, text: str, /) -> Any: ...


Migration = Callable[[Tables], None]
MIGRATIONS: list[Migration] = []


def migration(step: Migration) -> Migration:
    """Add a step; its place in the list is the schema version it leads to."""
    MIGRATIONS.append(step)
    return step


@migration
def events_and_sessions(db: Tables) -> None:
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
def imports(db: Tables) -> None:
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


@migration
def leases(db: Tables) -> None:
    """Who may write to a session: the last process that took it, by the epoch it got then.

    A lease that was let go ended at 0, and that of a finished session has no owner; its epoch
    goes on counting.
    """
    db.execute(
        """
        CREATE TABLE leases (
            session_id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            length_s REAL NOT NULL,
            ends_at REAL NOT NULL
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX leases_by_end ON leases (ends_at) WHERE owner <> ''")
    db.execute("ALTER TABLE events ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0")


@migration
def tokens_and_people(db: Tables) -> None:
    """Who may use a server, what they did there, and the reviews of people in the log."""
    db.execute(
        """
        CREATE TABLE tokens (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            scopes TEXT NOT NULL,
            hash TEXT NOT NULL,
            budget_usd REAL,
            rate REAL,
            created_at REAL NOT NULL,
            revoked_at REAL,
            spent_usd REAL NOT NULL DEFAULT 0
        ) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE actions (
            id INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            who TEXT NOT NULL,
            what TEXT NOT NULL,
            about TEXT NOT NULL
        )
        """
    )
    db.execute(
        "CREATE INDEX events_with_reviews ON events (id)"
        " WHERE kind IN ('finished', 'person_reviewed')"
    )
    db.execute("DROP INDEX events_that_finish")


@migration
def openings(db: Tables) -> None:
    """What sessions ask and who sits in them, found without reading what was answered."""
    db.execute("CREATE INDEX events_that_open ON events (id) WHERE kind IN ('opened', 'extended')")


@migration
def contributions_and_webhooks(db: Tables) -> None:
    """What people gave one at a time, and messages that somebody is still to be sent."""
    db.execute(
        """
        CREATE TABLE contributions (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            item_id TEXT NOT NULL,
            contributor TEXT NOT NULL,
            at REAL NOT NULL,
            reviewer TEXT NOT NULL,
            opinion REAL,
            category TEXT,
            text TEXT,
            UNIQUE (kind, item_id, reviewer, at)
        )
        """
    )
    db.execute("CREATE INDEX contributions_by_item ON contributions (item_id)")
    db.execute(
        """
        CREATE TABLE webhooks (
            session_id TEXT NOT NULL,
            target TEXT NOT NULL,
            n_tries INTEGER NOT NULL,
            due_at REAL NOT NULL,
            PRIMARY KEY (session_id, target)
        ) WITHOUT ROWID
        """
    )


# Every table with its columns, those first that put its rows in order.
TABLES = {
    "events": ("id", "session_id", "seq", "kind", "at", "body", "epoch"),
    "sessions": (
        "id", "season", "ordinal", "query", "category", "opened_at", "finished_at", "status"
    ),
    "seasons": ("id", "seed"),
    "imports": ("id", "kind", "hash", "name", "n_rows", "at"),
    "import_parts": ("import_id", "part", "data"),
    "leases": ("session_id", "owner", "epoch", "length_s", "ends_at"),
    "tokens": (
        "id", "name", "scopes", "hash", "budget_usd", "rate", "created_at", "revoked_at",
        "spent_usd",
    ),
    "actions": ("id", "at", "who", "what", "about"),
    "contributions": (
        "id", "kind", "item_id", "contributor", "at", "reviewer", "opinion", "category", "text",
    ),
    "webhooks": ("session_id", "target", "n_tries", "due_at"),
}  # fmt: skip
