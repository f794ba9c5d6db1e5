"""The tables of a store, one migration script per version, and dataclasses for its rows.

The scripts are written for SQLite; `stores/postgres.py` translates some types for PostgreSQL. Add a
new table to `TABLES` too, so that `peerage move` copies it. Events are checked before they are
written; invalid text of earlier versions is replaced when it is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from peerage.bills import billed_calls, total_cost
from peerage.errors import PeerageError, UnreadableError
from peerage.events import (
    KIND_BY_TYPE,
    Adjudicated,
    Advised,
    Answered,
    AskedAgain,
    Deleted,
    Extended,
    Failed,
    Finished,
    Opened,
    PersonReviewed,
    Renamed,
    Restored,
    Reviewed,
    Tagged,
    Tallied,
    Withdrawn,
    read_event,
)
from peerage.text import valid_text, valid_values
from peerage.types import EARLIEST_S, LATEST_S, Event

if TYPE_CHECKING:
    from peerage.stores.sql_store import Store


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
    # Leases: the last process that took a session, and the number of its lease (the epoch).
    # A released lease has ends_at = 0, and the lease of a finished session has no owner. The
    # epoch is never reset.
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
    # The winner and the cost of a session so far, so that a list of sessions need not read logs.
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
WITH_RESULTS = 8  # the version that added winners and costs; an upgrade to it fills them in
TABLES = (
    "events", "sessions", "seasons", "imports", "import_parts", "leases", "tokens", "actions",
    "contributions", "webhooks", "import_marks", "documents", "links",
)  # fmt: skip


def migration_statements(version: int) -> list[Sql]:
    """Return the statements that upgrade a store from a version; 0 is an empty store."""
    return [statement for script in MIGRATIONS[version:] for statement in script.split(";")]


QUERY_CHARACTERS_LISTED = 300
MAX_BODY_CHARACTERS = 100_000_000
MAX_DEPTH = 40  # levels of lists and objects in the body of an event
MAX_INTEGER = 2**63 - 1
UNREADABLE = "unreadable"  # the status of a listed session whose row cannot be read
LISTED = frozenset(  # kinds of events that change the list of sessions
    KIND_BY_TYPE[kind] for kind in (Opened, Extended, Finished, Deleted, Restored, Tagged, Renamed)
)
RESULTS = frozenset(  # kinds of events with a winner or costs, which the list of sessions shows
    KIND_BY_TYPE[kind] for kind in (Answered, AskedAgain, Reviewed, Advised, Failed, Tallied)
)
NUMBERED = frozenset(  # kinds of events that are read by row number, because they change boards
    KIND_BY_TYPE[kind]
    for kind in (Finished, PersonReviewed, Withdrawn, Adjudicated, Deleted, Restored)
)

Columns = tuple[str | int | float, ...]


class StoreError(PeerageError):
    """The store cannot be opened, read or written."""


class SessionTakenError(StoreError):
    """Another process has written to this session since its history was read."""


class Log(Protocol):
    """The log that a running session appends its events to."""

    def append(self, event: Event, /) -> asyncio.Future[None]:
        """Queue an event; the future completes when the event is durable."""
        ...


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session in a list of sessions."""

    id: str
    season: str
    ordinal: int
    query: str
    category: str
    opened_at: float
    finished_at: float | None
    status: str  # "" while it is not finished
    deleted_at: float | None = None  # from then on it is left out of boards, audits and lists
    tags: tuple[str, ...] = ()
    winner: str = ""  # several names for a tie; empty if no vote counts
    cost_usd: float = 0.0  # known costs so far
    unpriced_calls: int = 0
    name: str = ""  # given by people; a session without one is shown by its question


@dataclass(frozen=True, slots=True)
class Import:
    """An imported table; the same file can be imported only once per kind of table."""

    kind: str
    hash: str
    name: str
    n_rows: int
    at: float
    id: int = 0
    deleted_at: float | None = None  # from then on boards and audits leave it out


@dataclass(frozen=True, slots=True)
class Contribution:
    """An opinion that a person gave, or an item that a person contributed."""

    kind: str  # "opinions" or "items"
    item_id: str
    contributor: str  # the owner of the item
    at: float
    reviewer: str = ""  # of an opinion
    opinion: float | None = None
    category: str | None = None
    text: str | None = None  # of an item


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The right to use a server: a name, scopes, a budget and a rate. Only the hash is stored."""

    id: str
    name: str  # a person's reviews carry this name
    scopes: tuple[str, ...]
    hash: str
    budget_usd: float | None
    rate: float | None  # requests a minute
    created_at: float
    revoked_at: float | None = None
    spent_usd: float = 0.0  # includes the amounts reserved by running sessions


@dataclass(frozen=True, slots=True)
class Action:
    """An action through a server, with the name of the caller."""

    at: float
    who: str
    what: str
    about: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Lease:
    """The right to write to a session. Another process may take it over once the lease has ended.

    A lease is a `Log`: the process that runs the session appends to it. The store extends the lease
    while a reference to it exists, and each append extends it too.
    """

    store: Store
    session_id: str
    owner: str
    epoch: int  # counts the holders; the log accepts events of the latest holder only
    length_s: float

    def append(self, event: Event) -> asyncio.Future[None]:
        """Append an event; fail with SessionTakenError if another process has the session."""
        return self.store.append(event, self.epoch)


# -- events as rows ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventRow:
    """The changes that an event makes to the tables, checked before the event is queued."""

    event: Columns
    opened: Columns = ()  # the session's row in the list of sessions
    ended: tuple[float | None, str, str] | None = None  # time (None: extended), status, session id
    deleted: tuple[float | None, str] | None = None  # deletion time, or None; session id
    tagged: tuple[str, str] | None = None  # all tags; session id
    renamed: tuple[str, str] | None = None  # name; session id
    won: tuple[str, str] | None = None  # winner; session id
    billed: tuple[float, int, str] | None = None  # USD; calls without a price; session id


def event_row(event: Event) -> EventRow:
    """Return an event as table rows; raise StoreError if the tables cannot hold it."""
    names = isinstance(event.session_id, str) and isinstance(event.kind, str)
    if not (names and is_integer(event.seq) and _is_time(event.at)):
        raise StoreError("an event needs a session, a sequence number, a kind and a time.")
    try:
        body = json.dumps(event.body)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a {event.kind} event cannot be written as JSON: {error}.") from None
    if len(body) > MAX_BODY_CHARACTERS:
        raise StoreError(f"a {event.kind} event is longer than {MAX_BODY_CHARACTERS:,} characters.")
    id_ = stored_text(event.session_id)
    columns = (id_, event.seq, stored_text(event.kind), float(event.at), body)
    try:
        fact = read_event(event) if event.kind in LISTED else None
    except UnreadableError as error:
        raise StoreError(error.message) from None
    if isinstance(fact, Opened):
        text = stored_text(fact.query.text)[:QUERY_CHARACTERS_LISTED]
        season, category = stored_text(fact.season), stored_text(fact.query.category)
        return EventRow(columns, opened=(id_, season, fact.ordinal, text, category, event.at))
    if isinstance(fact, Finished):
        return EventRow(columns, ended=(event.at, stored_text(fact.status), id_))
    if isinstance(fact, Extended):
        return EventRow(columns, ended=(None, "", id_))
    if isinstance(fact, Deleted | Restored):
        return EventRow(columns, deleted=(event.at if isinstance(fact, Deleted) else None, id_))
    if isinstance(fact, Tagged):
        return EventRow(columns, tagged=(listed_tags(fact.tags), id_))
    if isinstance(fact, Renamed):
        return EventRow(columns, renamed=(stored_text(fact.name), id_))
    return _with_result(EventRow(columns), event) if event.kind in RESULTS else EventRow(columns)


def _with_result(row: EventRow, event: Event) -> EventRow:
    """Add the winner or the cost that an event contains to its row.

    An unreadable event and a cost of zero add nothing.
    """
    id_ = stored_text(event.session_id)
    try:
        fact = read_event(event)
    except UnreadableError:
        return row
    if isinstance(fact, Tallied):
        best = (score.model for score in fact.scores if score.rank == 1 and score.votes)
        return replace(row, won=(stored_text(", ".join(best)), id_))
    usd, n_unpriced = total_cost(billed_calls([fact] if fact else []))
    return replace(row, billed=(usd, n_unpriced, id_)) if usd or n_unpriced else row


def result_rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[EventRow]:
    """Yield rows with the winners and costs of stored events; skip unreadable events."""
    for row in rows:
        with suppress(UnreadableError):
            yield _with_result(EventRow(()), read_event_row(row))


def listed_tags(tags: Iterable[str]) -> str:
    """Return tags as the list of sessions stores them: with spaces around each, for LIKE."""
    words = [word for tag in tags for word in stored_text(tag).split()]
    return f" {' '.join(words)} " if words else ""


def checked_row(event: Event) -> EventRow:
    """Return the rows of an imported event; raise StoreError if its body is nested too deeply."""
    if _is_deeper(event.body, MAX_DEPTH):
        raise StoreError(
            f"a {event.kind!s:.40} event of session {event.session_id!s:.40} is nested deeper"
            f" than {MAX_DEPTH} levels."
        )
    return event_row(event)


def stored_text(text: str) -> str:
    """Return a text that every store can hold: valid Unicode without NUL characters."""
    return valid_text(text).replace("\0", "\ufffd")


def _is_deeper(value: Any, levels: int) -> bool:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or not members:
        return False
    return levels == 0 or any(_is_deeper(member, levels - 1) for member in members)


def is_integer(value: object) -> bool:
    """Return whether a value is a non-negative integer that a column can hold."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and EARLIEST_S <= value <= LATEST_S  # type: ignore[operator]


def read_event_row(row: tuple[Any, ...]) -> Event:
    """Read an event from a row; replace unpaired surrogates that earlier versions stored."""
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
        raise UnreadableError(f"event {seq} is not valid.", place=f"session {session_id}")
    return Event(session_id, seq, kind, at, body)


def read_listing(row: tuple[Any, ...]) -> SessionEntry:
    """Return a row of the list of sessions as an entry.

    A malformed row, which an earlier version could write, gives an entry with little but its id.
    """
    *first, deleted_at, tags, winner, cost_usd, unpriced_calls, name = row
    id_, _, ordinal, _, _, opened_at, finished_at, _ = first
    fits = is_integer(ordinal) and _is_time(opened_at)
    fits = fits and (finished_at is None or _is_time(finished_at))
    if not fits:
        return SessionEntry(id_, "", 0, "", "", 0.0, None, UNREADABLE, deleted_at)
    listed = SessionEntry(*first)
    result = {"winner": winner, "cost_usd": cost_usd, "unpriced_calls": unpriced_calls}
    return replace(listed, deleted_at=deleted_at, tags=tuple(tags.split()), name=name, **result)
