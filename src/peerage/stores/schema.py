"""The tables of the store: a script for each version, which leads there from the one before.

They are written for SQLite and hold for PostgreSQL too, which has other words for some types
(`stores/postgres.py`). A new table goes into `TABLES`, so that `peerage move` takes it along.
"""

from __future__ import annotations

from typing import TypeAlias

Sql: TypeAlias = str  # a literal of the source: a test looks at whatever is executed

MIGRATIONS = (
    # The log, and two tables of what it says of sessions and seasons, for quick lists.
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session_id, seq)
    );
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        season TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        query TEXT NOT NULL,
        category TEXT NOT NULL,
        opened_at REAL NOT NULL,
        finished_at REAL,
        status TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_season ON sessions (season, ordinal);
    CREATE INDEX events_that_finish ON events (id) WHERE kind = 'finished';
    CREATE TABLE seasons (id TEXT PRIMARY KEY, seed TEXT NOT NULL) WITHOUT ROWID
    """,
    # Tables made elsewhere, kept as the Parquet they were checked into.
    # A part is some hundred thousand rows in a few megabytes; a file is there whole or not at all.
    """
    CREATE TABLE imports (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        hash TEXT NOT NULL,
        name TEXT NOT NULL,
        n_rows INTEGER NOT NULL,
        at REAL NOT NULL,
        UNIQUE (kind, hash)
    );
    CREATE TABLE import_parts (
        import_id INTEGER NOT NULL REFERENCES imports (id),
        part INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (import_id, part)
    ) WITHOUT ROWID
    """,
    # Who may write to a session: the last process that took it, by the epoch it got then.
    # A lease that was let go ended at 0, and that of a finished session has no owner; its epoch
    # goes on counting.
    """
    CREATE TABLE leases (
        session_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        length_s REAL NOT NULL,
        ends_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX leases_by_end ON leases (ends_at) WHERE owner <> '';
    ALTER TABLE events ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0
    """,
    # Who may use a server, what they did there, and the reviews of people in the log.
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
    ) WITHOUT ROWID;
    CREATE TABLE actions (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        what TEXT NOT NULL,
        about TEXT NOT NULL
    );
    CREATE INDEX events_with_reviews ON events (id) WHERE kind IN ('finished', 'person_reviewed');
    DROP INDEX events_that_finish
    """,
    # What sessions ask and who sits in them, found without reading what was answered.
    """
    CREATE INDEX events_that_open ON events (id) WHERE kind IN ('opened', 'extended')
    """,
    # What people gave one at a time, and messages that somebody is still to be sent.
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
    );
    CREATE INDEX contributions_by_item ON contributions (item_id);
    CREATE TABLE webhooks (
        session_id TEXT NOT NULL,
        target TEXT NOT NULL,
        n_tries INTEGER NOT NULL,
        due_at REAL NOT NULL,
        PRIMARY KEY (session_id, target)
    ) WITHOUT ROWID
    """,
    # Sessions and tables that are left out, and tags. Nothing is erased: the log says who was
    # deleted and restored, and a table has a row for each time.
    """
    ALTER TABLE sessions ADD COLUMN deleted_at REAL;
    ALTER TABLE sessions ADD COLUMN tags TEXT NOT NULL DEFAULT '';
    CREATE TABLE import_marks (
        id INTEGER PRIMARY KEY,
        import_id INTEGER NOT NULL REFERENCES imports (id),
        at REAL NOT NULL,
        deleted INTEGER NOT NULL,
        who TEXT NOT NULL
    );
    CREATE INDEX import_marks_by_import ON import_marks (import_id, id);
    CREATE INDEX events_that_change_boards ON events (id)
        WHERE kind IN ('finished', 'person_reviewed', 'deleted', 'restored');
    DROP INDEX events_with_reviews
    """,
    # What came of a session and what it has cost so far, so that no list reads a log.
    """
    ALTER TABLE sessions ADD COLUMN winner TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN cost_usd REAL NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN unpriced_calls INTEGER NOT NULL DEFAULT 0
    """,
)
WITH_RESULTS = 8  # the version since which results are in the list; those before are filled in
TABLES = (
    "events", "sessions", "seasons", "imports", "import_parts", "leases", "tokens", "actions",
    "contributions", "webhooks", "import_marks",
)  # fmt: skip


def migrating(version: int) -> list[Sql]:
    """The statements that bring a store of some version, 0 for none, up to date."""
    return [statement for script in MIGRATIONS[version:] for statement in script.split(";")]
