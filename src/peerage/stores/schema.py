"""The tables of the store: one migration script per version.

The scripts are written for SQLite; `stores/postgres.py` translates some types for PostgreSQL. Add a
new table to `TABLES` too, so that `peerage move` copies it.
"""

from __future__ import annotations

from typing import TypeAlias

Sql: TypeAlias = str  # a literal in the source code: a test checks every statement

MIGRATIONS = (
    # The log, and two tables derived from it for quick lists of sessions and seasons.
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
    # Imported tables, stored as checked Parquet. A part has some hundred thousand rows in a few
    # megabytes; a file is stored as a whole or not at all.
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
    # Leases: the last process that took a session, with the epoch it got.
    # A released lease ends at 0, and the lease of a finished session has no owner; the epoch
    # is never reset.
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
    # Tokens of a server, actions of their owners, and an index of people's reviews in the log.
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
    # An index to read questions and seats without reading the answers.
    """
    CREATE INDEX events_that_open ON events (id) WHERE kind IN ('opened', 'extended')
    """,
    # Opinions and items that people post one at a time, and webhook messages that are not sent yet.
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
    # Deleted sessions and imports, and tags. Nothing is erased: the log has an event for each
    # deletion and restoration of a session, and import_marks has a row for each of an import.
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
    # The winner and the cost of a session so far, so that lists do not read logs.
    """
    ALTER TABLE sessions ADD COLUMN winner TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN cost_usd REAL NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN unpriced_calls INTEGER NOT NULL DEFAULT 0
    """,
    # What people set up in a browser: named documents (panels, plans of seasons), secret links
    # (invitations, published pages), and names of sessions. A person may take a review back.
    """
    CREATE TABLE documents (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
    CREATE TABLE links (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        hash TEXT NOT NULL,
        body TEXT NOT NULL,
        who TEXT NOT NULL,
        created_at REAL NOT NULL,
        expires_at REAL,
        uses_left INTEGER,
        revoked_at REAL
    ) WITHOUT ROWID;
    ALTER TABLE sessions ADD COLUMN name TEXT NOT NULL DEFAULT '';
    CREATE INDEX events_with_votes ON events (id)
        WHERE kind IN ('finished', 'person_reviewed', 'withdrawn', 'adjudicated', 'deleted',
            'restored');
    CREATE INDEX events_of_people ON events (id)
        WHERE kind IN ('person_reviewed', 'withdrawn', 'rejudged');
    DROP INDEX events_that_change_boards
    """,
)
WITH_RESULTS = 8  # from this version on the list has results; they are filled in for earlier ones
TABLES = (
    "events", "sessions", "seasons", "imports", "import_parts", "leases", "tokens", "actions",
    "contributions", "webhooks", "import_marks", "documents", "links",
)  # fmt: skip


def migration_statements(version: int) -> list[Sql]:
    """Return the statements that upgrade a store from a version; 0 is an empty store."""
    return [statement for script in MIGRATIONS[version:] for statement in script.split(";")]
