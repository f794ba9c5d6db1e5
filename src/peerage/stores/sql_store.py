"""A store of events in SQL tables: the statements that SQLite and PostgreSQL share.

A subclass supplies the connections: one for each reading thread and one for the writer.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from peerage.errors import InputError, UnreadableError, shown
from peerage.stores.schema import (
    MAX_INTEGER,
    MIGRATIONS,
    Contribution,
    EventRow,
    Import,
    Lease,
    SessionEntry,
    Sql,
    StoreError,
    checked_row,
    event_row,
    read_event_row,
    read_listing,
    stored_text,
)
from peerage.stores.team_tables import TeamTables
from peerage.stores.webhook_tables import WebhookTables
from peerage.stores.writer import Append, Connection, Db, GroupWriter, insert
from peerage.types import LEASE_S, Event

T = TypeVar("T")
ReadRows: TypeAlias = Callable[[Sql], Iterable[tuple[Any, ...]]]  # one row at a time

CLAIM = """
    INSERT INTO leases (session_id, owner, epoch, length_s, ends_at)
    VALUES (?, ?, 1, ?, now_s() + ?)
    ON CONFLICT (session_id) DO UPDATE
    SET owner = excluded.owner, epoch = leases.epoch + 1,
        length_s = excluded.length_s, ends_at = excluded.ends_at
    WHERE leases.ends_at <= now_s() OR leases.owner = excluded.owner
    RETURNING epoch
"""
RELEASE = """
    UPDATE leases SET epoch = epoch + 1, ends_at = 0 WHERE session_id = ? AND epoch = ?
    RETURNING epoch
"""
WITHDRAW = """
    UPDATE leases SET epoch = epoch + 1, ends_at = 0 WHERE session_id = ? AND owner = ?
    RETURNING epoch
"""
UNFINISHED = """
    SELECT leases.session_id FROM leases JOIN sessions ON sessions.id = leases.session_id
    WHERE leases.owner <> '' AND leases.ends_at <= now_s() AND sessions.status = ''
        AND sessions.deleted_at IS NULL
        AND substr(leases.owner, 1, ?) = ?
    ORDER BY leases.ends_at, leases.session_id
"""
LATEST = """
    SELECT id, season, ordinal, query, category, opened_at, finished_at, status, deleted_at, tags,
        winner, cost_usd, unpriced_calls, name
    FROM sessions WHERE (CAST(? AS TEXT) IS NULL OR season = ?)
        AND (CAST(? AS TEXT) IS NULL OR category = ?)
        AND (CAST(? AS TEXT) IS NULL OR status = ?)
        AND (CAST(? AS TEXT) IS NULL OR tags LIKE ? ESCAPE '!')
        AND (CAST(? AS INTEGER) IS NULL OR (deleted_at IS NOT NULL) = (? = 1))
        AND (CAST(? AS TEXT) IS NULL OR (opened_at, ordinal, id)
            < (SELECT opened_at, ordinal, id FROM sessions WHERE id = ?))
    ORDER BY opened_at DESC, ordinal DESC, id DESC LIMIT ?
"""
LATEST_LOGS = """
    SELECT latest.id, (SELECT max(seq) FROM events WHERE session_id = latest.id)
    FROM (
        SELECT id FROM sessions WHERE status <> '' AND deleted_at IS NULL
        ORDER BY opened_at DESC, ordinal DESC, id DESC LIMIT ?
    ) AS latest
"""
BEGINNING_WITH = """
    SELECT id FROM sessions WHERE id = ?
    UNION ALL SELECT id FROM sessions WHERE substr(id, 1, ?) = ?
        AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?) ORDER BY id
"""
OPENING_EVENTS = """
    SELECT session_id, seq, kind, at, body FROM events
    WHERE session_id = ? AND kind IN ('opened', 'extended') ORDER BY seq
"""
OPENINGS = """
    SELECT events.id, events.session_id, seq, kind, at, body
    FROM events JOIN sessions ON sessions.id = events.session_id
    WHERE kind IN ('opened', 'extended') AND events.id > ?
        AND (CAST(? AS TEXT) IS NULL OR season = ?)
    ORDER BY events.id LIMIT ?
"""
DECISION_OPENINGS = """
    SELECT session_id, seq, kind, at, body FROM (
        SELECT events.id, events.session_id, seq, kind, at, body
        FROM events JOIN sessions ON sessions.id = events.session_id
        WHERE kind IN ('opened', 'extended') AND body LIKE ? AND deleted_at IS NULL
        ORDER BY events.id DESC LIMIT ?
    ) AS latest
    WHERE ? = 0 OR EXISTS (
        SELECT 1 FROM events AS later
        WHERE later.session_id = latest.session_id AND later.kind = 'adjudicated'
    )
    ORDER BY latest.id
"""
QUESTIONS_KEY = '%"questions":%'  # in the JSON of an opening that has typed questions
LIKE_WORD = re.compile("[!%_]")  # characters with a special meaning in LIKE
OPENINGS_AT_ONCE = 1_000
ORIGINS = {
    "reviews": "SELECT session_id, at FROM events ORDER BY id LIMIT 1",
    "opinions": "SELECT item_id, at FROM contributions ORDER BY id LIMIT 1",
    "items": "SELECT item_id, at FROM contributions ORDER BY id LIMIT 1",
}
NUMBERED_ROWS = {  # by table, the rows that its mirror identifies by number
    "reviews": "SELECT id, session_id, seq, kind, at FROM events",
    "opinions": "SELECT id, kind, item_id, reviewer, at, opinion FROM contributions",
    "items": "SELECT id, kind, item_id, contributor, at FROM contributions",
}
VERSION = """
    SELECT (
            SELECT max(id) FROM events
            WHERE kind IN ('finished', 'person_reviewed', 'withdrawn', 'adjudicated', 'deleted',
            'restored')
        ),
        (SELECT max(id) FROM imports), (SELECT count(*) FROM imports),
        (SELECT max(id) FROM contributions), (SELECT max(id) FROM import_marks)
"""
PEOPLE_EVENTS = """
    SELECT session_id, seq, kind, at, body FROM events
    WHERE kind IN ('person_reviewed', 'withdrawn', 'rejudged') ORDER BY id
"""
ADD_SEED = "INSERT INTO seasons (id, seed) VALUES (?, ?) ON CONFLICT DO NOTHING"
CHANGES = """
    SELECT id, session_id, kind FROM events
    WHERE kind IN ('finished', 'person_reviewed', 'withdrawn', 'adjudicated', 'deleted',
            'restored') AND id > ?
    ORDER BY id LIMIT ?
"""
IMPORTS = """
    SELECT kind, hash, name, n_rows, imports.at, imports.id,
        CASE WHEN last.deleted = 1 THEN last.at END
    FROM imports LEFT JOIN import_marks AS last ON last.id = (
        SELECT max(id) FROM import_marks WHERE import_id = imports.id
    )
    ORDER BY imports.id
"""
MARK_IMPORT = "INSERT INTO import_marks (import_id, at, deleted, who) VALUES (?, ?, ?, ?)"
SEASONS = """
    SELECT season FROM sessions WHERE season <> '' GROUP BY season ORDER BY min(opened_at), season
"""
HELD = "SELECT session_id FROM leases WHERE owner <> '' AND ends_at > now_s()"
CONTRIBUTE = """
    INSERT INTO contributions (kind, item_id, contributor, at, reviewer, opinion, category, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
CONTRIBUTIONS = """
    SELECT id, kind, item_id, contributor, at, reviewer, opinion, category, text
    FROM contributions WHERE kind = ? AND id > ? ORDER BY id LIMIT ?
"""
CONTRIBUTOR = "SELECT contributor FROM contributions WHERE item_id = ? LIMIT 1"
PROBE = "SELECT id FROM events ORDER BY id DESC LIMIT 1"


def _escape_like(text: str) -> str:
    """Escape a text so that LIKE matches it literally."""
    return LIKE_WORD.sub(r"!\g<0>", stored_text(text))


def check_version(version: int, place: str, alternative: str) -> int:
    """Return the version of a store's tables; raise StoreError if a newer peerage made them."""
    if version > len(MIGRATIONS):
        raise StoreError(
            f"this store has version {version}, and this peerage reads versions up to"
            f" {len(MIGRATIONS)}.",
            place=place,
            hint=f"Update peerage, or {alternative}.",
        )
    return int(version)


class Store(TeamTables, WebhookTables, ABC):
    """A log of events. Reads run on the caller's thread, appends on the writer's thread."""

    mirror_folder: Path  # the folder with this store's reviews as Parquet files

    def __init__(self, place: str) -> None:
        self.place = place
        self._writer = GroupWriter(self._connect_writer, place)

    @abstractmethod
    def _connect_writer(self) -> Connection:
        """Open a connection for the writer's thread."""

    @abstractmethod
    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that only reads, and return its rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Db]:
        """Run one transaction on the caller's thread; it is stored as a whole or not at all."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[ReadRows]:
        """Return a context in which reads see the tables as they are now, without later writes."""

    @abstractmethod
    def fill_tables(self) -> AbstractContextManager[tuple[Db, ReadRows]]:
        """Run a transaction that inserts rows with given ids into empty tables."""

    async def close(self) -> None:
        """Write the queued events."""
        await self._writer.close()

    async def probe(self) -> None:
        """Read a row and commit an empty transaction; raise StoreError if either fails.

        The read has its own thread, because all threads of the pool may be waiting for the store.
        """
        loop = asyncio.get_running_loop()
        has_read: asyncio.Future[StoreError | None] = loop.create_future()

        def read() -> None:
            error = None
            try:
                self.execute(PROBE)
            except StoreError as refusal:
                error = refusal
            with suppress(RuntimeError):  # the loop was closed before the store answered
                loop.call_soon_threadsafe(_settle, has_read, error)

        threading.Thread(target=read, name="peerage-probe", daemon=True).start()
        await self._writer.do(lambda _: None)
        if (error := await has_read) is not None:
            raise error

    # -- the log -------------------------------------------------------------------------------

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:
        """Queue an event under the epoch of a lease, or under 0 if the session has no lease.

        The future completes when the event is durable.
        """
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        row: EventRow | StoreError
        try:
            row = event_row(event)
        except StoreError as error:
            row = error
        self._writer.put(Append(str(event.session_id), event.seq, epoch, row, durable))
        return durable

    def append_all(self, events: Iterable[Event]) -> None:
        """Store events that happened elsewhere: all of them or none."""
        self.add_all(events=events)

    def add_all(
        self,
        *,
        events: Iterable[Event] = (),
        seeds: Mapping[str, str] = MappingProxyType({}),
        imports: Iterable[tuple[Import, Iterable[bytes]]] = (),
        contributions: Sequence[Contribution] = (),
    ) -> None:
        """Store imported data in one transaction: all of it or nothing.

        Each import comes with the parts of its table. `seeds` has a seed for each season; a season
        that already has one keeps it.
        """
        with self.transaction() as db:
            insert(db, [(checked_row(event), 0) for event in events])
            for season, seed in seeds.items():
                db.execute(ADD_SEED, (season, seed))
            for entry, parts in imports:
                _insert_import(db, entry, parts)
            _insert_contributions(db, contributions)

    def events(self, session_id: str, after: int = -1) -> list[Event]:
        """Return the events of a session, or those after a sequence number."""
        rows = self.execute(
            "SELECT session_id, seq, kind, at, body FROM events"
            " WHERE session_id = ? AND seq > ? ORDER BY seq",
            (stored_text(session_id), after),
        )
        return [read_event_row(row) for row in rows]

    def last_place(self, session_id: str) -> int:
        """Return the sequence number of the last event of a session, or −1 if it has none."""
        text = "SELECT max(seq) FROM events WHERE session_id = ?"
        ((last,),) = self.execute(text, (stored_text(session_id),))
        return -1 if last is None else int(last)

    def opening_events(self, session_id: str) -> list[Event]:
        """Return the events of a session that contain its question and seats."""
        rows = self.execute(OPENING_EVENTS, (stored_text(session_id),))
        return [read_event_row(row) for row in rows]

    async def wait_for_change(self, session_id: str, timeout_s: float) -> None:  # noqa: ARG002
        """Wait until another process may have appended to a session, or until the timeout."""
        await asyncio.sleep(timeout_s)  # there is no notification: the caller looks again

    def openings(self, season: str | None = None) -> Iterator[Event]:
        """Yield the events that contain the questions and seats of sessions, in log order.

        The sessions are those of one season, or all. Unreadable events are left out.
        """
        last = 0
        while rows := self.execute(OPENINGS, (last, season, season, OPENINGS_AT_ONCE)):
            for row in rows:
                with suppress(UnreadableError):
                    yield read_event_row(row[1:])
            last = rows[-1][0]

    def decision_openings(self, limit: int, *, only_labelled: bool = False) -> Iterator[Event]:
        """Yield the opening events of the latest decisions on typed questions, in log order.

        Deleted sessions are left out, and with `only_labelled` also sessions without a label.
        """
        for row in self.execute(DECISION_OPENINGS, (QUESTIONS_KEY, limit, int(only_labelled))):
            with suppress(UnreadableError):
                yield read_event_row(row)

    def reviewed_after(self, row: int, limit: int) -> list[tuple[int, str, str]]:
        """Return the events after a row of the log that change reviews: row, session and kind.

        These are the ends of sessions, people's reviews and their withdrawals, adjudications,
        deletions and restorations.
        """
        rows = self.execute(CHANGES, (row, limit))
        return [(int(id_), str(session_id), str(kind)) for id_, session_id, kind in rows]

    def people_events(self) -> list[Event]:
        """Return reviews by people, withdrawals and second reviews, in log order."""
        return [read_event_row(row) for row in self.execute(PEOPLE_EVENTS)]

    def version(self) -> str:
        """Return a text that changes with every change of reviews or imported tables."""
        (rows,) = self.execute(VERSION)
        return ".".join(str(row or 0) for row in rows)

    def last_event(self) -> int:
        """Return the number of the last event of any session; 0 if there is none."""
        ((last,),) = self.execute("SELECT max(id) FROM events")
        return int(last or 0)

    def origin(self, table: str) -> str:
        """Return eight hex digits that distinguish this log from a later one at the same place."""
        first = self.execute(ORIGINS[table])
        return hashlib.sha256(repr(first).encode()).hexdigest()[:8]

    def marks(self, table: str, rows: Sequence[int]) -> dict[int, str]:
        """Return a digest of each of these rows of a table's log, by number.

        After a store was restored from a backup, a number may belong to another row than before;
        the digests show it. A missing row has no digest.
        """
        numbered = self.execute(_selecting_rows(table, len(rows)), rows)
        return {
            int(row[0]): hashlib.sha256(repr(row).encode()).hexdigest()[:16] for row in numbered
        }

    # -- leases --------------------------------------------------------------------------------

    async def claim(self, session_id: str, owner: str, length_s: float = LEASE_S) -> Lease | None:
        """Take the lease of a session, or return None if another process holds it."""
        id_ = stored_text(session_id)
        name = f"{stored_text(owner)} {secrets.token_hex(8)}"  # unique for each claim
        values = (id_, name, length_s, length_s)
        try:
            row = await self._writer.do(lambda db: db.execute(CLAIM, values).fetchone())
        except asyncio.CancelledError:  # the queued claim still runs, so undo it
            with suppress(StoreError):  # the lease then ends by itself
                undone = self._writer.do(lambda db: db.execute(WITHDRAW, (id_, name)).fetchone())
                undone.add_done_callback(lambda done: done.exception())
            raise
        if row is None:
            return None
        lease = Lease(self, id_, name, int(row[0]), length_s)
        self._writer.hold(lease)
        return lease

    def release(self, lease: Lease) -> asyncio.Future[None]:
        """Queue the end of a lease, after the events that were appended under it."""
        self._writer.let_go(lease)
        values = (lease.session_id, lease.epoch)
        return self._writer.do(lambda db: db.execute(RELEASE, values).fetchone())

    def abandoned_sessions(self, owner: str = "") -> list[str]:
        """Return open sessions whose lease has ended; the last owner's name begins with `owner`."""
        owner = stored_text(owner)
        return [row[0] for row in self.execute(UNFINISHED, (len(owner), owner))]

    # -- sessions and seasons ------------------------------------------------------------------

    def sessions(
        self,
        season: str | None = None,
        limit: int | None = None,
        before: str | None = None,
        *,
        category: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        deleted: bool | None = False,
    ) -> list[SessionEntry]:
        """Return the matching sessions in the order they were opened; None matches any value.

        With a limit, only the latest are returned; with `before`, only those opened before that
        session. `deleted` is False for sessions that are not deleted, True for deleted ones, None
        for both. The status of an unfinished session is "".
        """
        n = MAX_INTEGER if limit is None else max(0, min(limit, MAX_INTEGER))
        tags = None if tag is None else f"% {_escape_like(tag)} %"
        chosen = (season, category, status, tags, None if deleted is None else int(deleted), before)
        rows = self.execute(LATEST, (*(value for one in chosen for value in (one, one)), n))
        return [read_listing(row) for row in reversed(rows)]

    def count_sessions(self) -> int:
        """Return the number of stored sessions, finished or not."""
        ((n,),) = self.execute("SELECT count(*) FROM sessions")
        return int(n)

    def seasons(self) -> list[str]:
        """Return the ids of the seasons that have sessions, in the order they began."""
        return [str(row[0]) for row in self.execute(SEASONS)]

    def is_deleted(self, season: str) -> bool:
        """Return whether a season has sessions and all of them are deleted."""
        return not self.sessions(season, 1) and bool(self.sessions(season, 1, deleted=True))

    def running_sessions(self) -> set[str]:
        """Return the sessions that a process is running."""
        return {str(row[0]) for row in self.execute(HELD)}

    def finished_logs(self, limit: int) -> dict[str, int]:
        """Return the latest finished sessions: the last sequence number of each log, by id.

        A log only grows, so an id and its last sequence number identify its content.
        """
        return {str(id_): int(seq) for id_, seq in self.execute(LATEST_LOGS, (limit,))}

    def find(self, prefix: str) -> list[str]:
        """Return the session ids that begin with a prefix; if one equals it, only that one."""
        prefix = stored_text(prefix)
        rows = self.execute(BEGINNING_WITH, (prefix, len(prefix), prefix, prefix))
        return [str(row[0]) for row in rows]

    def season_seed(self, season: str, drawn: str) -> str:
        """Return the season's seed; store the drawn one if the season has none."""
        with self.transaction() as db:
            db.execute(ADD_SEED, (season, drawn))
            row = db.execute("SELECT seed FROM seasons WHERE id = ?", (season,)).fetchone()
        return str(row[0])

    # -- imported tables -----------------------------------------------------------------------

    def imports(self) -> list[Import]:
        """Return all imports in the order they were stored, including deleted ones."""
        return [Import(*row) for row in self.execute(IMPORTS)]

    def import_parts(self, import_id: int) -> Iterator[bytes]:
        part = 0
        while rows := self.execute(
            "SELECT data FROM import_parts WHERE import_id = ? AND part = ?", (import_id, part)
        ):
            yield rows[0][0]
            part += 1

    def add_import(self, entry: Import, parts: Iterable[bytes]) -> None:
        """Store a checked table as a whole or not at all."""
        self.add_all(imports=[(entry, parts)])

    def mark_imports(self, ids: Iterable[int], deleted: bool, at: float, by: str) -> None:
        """Record that imports were deleted, or restored."""
        rows = [(id_, at, int(deleted), stored_text(by)) for id_ in ids]
        with self.transaction() as db:
            db.executemany(MARK_IMPORT, rows)

    # -- opinions and items that people post ---------------------------------------------------

    def add_contributions(self, rows: Sequence[Contribution]) -> None:
        """Store opinions and items, all of them or none; existing ones stay unchanged.

        Raise InputError if an item would have two contributors.
        """
        self.add_all(contributions=rows)

    def contributions(
        self, kind: str, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Contribution]]:
        """Return opinions or items after a row number, in order, each with its row number."""
        n = MAX_INTEGER if limit is None else limit
        rows = self.execute(CONTRIBUTIONS, (kind, after, n))
        return [(int(row[0]), Contribution(*row[1:])) for row in rows]

    def contributor_of(self, item_id: str) -> str | None:
        """Return the contributor of a posted item, or None."""
        rows = self.execute(CONTRIBUTOR, (stored_text(item_id),))
        return str(rows[0][0]) if rows else None


def _insert_import(db: Db, entry: Import, parts: Iterable[bytes]) -> None:
    row = db.execute(
        "INSERT INTO imports (kind, hash, name, n_rows, at) VALUES (?, ?, ?, ?, ?) RETURNING id",
        (entry.kind, entry.hash, stored_text(entry.name), entry.n_rows, entry.at),
    ).fetchone()
    for i, data in enumerate(parts):
        db.execute("INSERT INTO import_parts VALUES (?, ?, ?)", (row[0], i, data))
    if entry.deleted_at is not None:
        db.execute(MARK_IMPORT, (row[0], entry.deleted_at, 1, ""))


def _insert_contributions(db: Db, rows: Sequence[Contribution]) -> None:
    if rows:
        db.execute("SELECT in_turn()")  # so that readers by row number do not miss a row
    for row in rows:
        item, contributor = stored_text(row.item_id), stored_text(row.contributor)
        known = db.execute(CONTRIBUTOR, (item,)).fetchone()
        if known is not None and known[0] != contributor:
            raise InputError(
                f"the item {shown(item)} belongs to {known[0]}, not to {contributor}.",
                hint="An item has one contributor. Nothing was stored.",
            )
        texts = [text and stored_text(text) for text in (row.category, row.text)]
        reviewer = stored_text(row.reviewer)
        values = (row.kind, item, contributor, row.at, reviewer, row.opinion, *texts)
        db.execute(CONTRIBUTE, values)


def _selecting_rows(table: str, n_rows: int) -> Sql:
    return f"{NUMBERED_ROWS[table]} WHERE id IN ({', '.join('?' * n_rows)})"


def _settle(future: asyncio.Future[T], value: T) -> None:
    """Set a result, unless the caller has cancelled the future."""
    if not future.done():
        future.set_result(value)
