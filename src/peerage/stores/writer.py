"""A thread that writes a store's log. Events that queue up during a commit share the next one.

Appends and claims of leases share a transaction. The thread extends leases before they end, as long
as this process runs and keeps a reference to them.

If an event cannot be stored, its future fails, and so do the futures of later events of its
session: to store them would leave a gap in the log. Other sessions are not affected.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from peerage.stores.schema import (
    NUMBERED,
    EventRow,
    Lease,
    SessionTakenError,
    Sql,
    StoreError,
    is_integer,
    result_rows,
)

T = TypeVar("T")

WRITTEN = "another process has written to this session."
GAP = "an earlier event of this session could not be stored."
TAKEN_HINT = "Wait until that process has ended, then repeat the command: it continues the session."
RENEWALS = 3  # how often a lease is extended within its length

FENCED_INSERT = """
    INSERT INTO events (session_id, seq, kind, at, body, epoch)
    SELECT ?, ?, ?, ?, ?, ?
    WHERE ? = COALESCE(
        (SELECT epoch FROM leases WHERE session_id = ? AND (epoch = ? OR ends_at > now_s())), 0
    )
"""
BILL = (
    "UPDATE sessions SET cost_usd = cost_usd + ?, unpriced_calls = unpriced_calls + ? WHERE id = ?"
)
RESULTS = """
    SELECT id, session_id, seq, kind, at, body FROM events
    WHERE id > ?
        AND kind IN ('answered', 'asked_again', 'reviewed', 'advised', 'failed', 'tallied')
    ORDER BY id LIMIT ?
"""
FILLED_AT_ONCE = 1_000
EXTEND = "UPDATE leases SET ends_at = now_s() + length_s WHERE session_id = ? AND epoch = ?"


class Db(Protocol):
    """A connection in a transaction; `?` marks each value in the SQL."""

    def execute(self, text: Sql, values: Sequence[Any] = (), /) -> Any: ...

    def executemany(self, text: Sql, rows: Iterable[Sequence[Any]], /) -> Any: ...


class Connection(Protocol):
    """The writer's connection to the database."""

    def run(self, work: Callable[[Db, bool], T]) -> T:
        """Run `work` in one transaction, and return its result when it is durable.

        The second argument of `work` says whether an earlier transaction, whose outcome is unknown,
        may have done it already. Failures are StoreErrors; a conflict is a SessionTakenError.
        """
        ...

    def hint(self, session_ids: set[str]) -> float | None:
        """Notify other processes that these sessions have new events, now or soon.

        Return the seconds after which to call again, or None if all notices were sent.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Append:
    """An event that waits to be written."""

    session_id: str
    seq: int
    epoch: int
    row: EventRow | StoreError  # an invalid event keeps its place, because later ones depend on it
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Job:
    """A change other than an event, for the next transaction; its work may run twice."""

    work: Callable[[Db], Any]
    done: asyncio.Future[Any]


Item = Append | Job


class GroupWriter:
    """Takes events and jobs from any event loop, and commits them in groups on its own thread."""

    def __init__(self, connect: Callable[[], Connection], place: str) -> None:
        self._connect = connect
        self._place = place
        self._queue: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # held while the thread starts, ends, or gets work
        self._thread: threading.Thread | None = None
        self._closed = False
        # By session and epoch: the first event that was not stored, and the error for later ones.
        self._gaps: dict[tuple[str, int], tuple[int, StoreError]] = {}
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()  # a dropped lease ends
        self._renew_at = 0.0

    def put(self, item: Item) -> None:
        """Queue an item; the first item starts the thread."""
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed.", place=self._place)
            self._queue.put(item)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="peerage-store", daemon=True
                )
                self._thread.start()

    def do(self, work: Callable[[Db], Any]) -> asyncio.Future[Any]:
        """Queue a change; the future has its result once it is durable."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.put(Job(work, done))
        return done

    def hold(self, lease: Lease) -> None:
        """Extend this lease before it ends, until it is released."""
        with self._lock:
            soon = time.monotonic() + lease.length_s / RENEWALS
            self._renew_at = min(self._renew_at, soon) if self._leases else soon
            self._leases.add(lease)

    def let_go(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)

    async def close(self) -> None:
        """Write the queued items, then end the thread."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._queue.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join)

    # -- on the thread -------------------------------------------------------------------------

    def _work(self) -> None:
        """Write queued items until the store is closed; at the end every future is settled."""
        batch: list[Item] = []
        failure = StoreError("the store's writer ended unexpectedly.", place=self._place)
        try:
            with closing(self._connect()) as db:
                while self._take(batch, self._pause_s(db)):
                    self._write(db, batch)
                    batch.clear()
                    self._renew(db)
        except StoreError as error:
            failure = error
        finally:
            with self._lock:
                self._thread = None
                while not self._queue.empty():
                    if (item := self._queue.get()) is not None:
                        batch.append(item)
            self._refuse(batch, failure)

    def _take(self, batch: list[Item], pause_s: float | None) -> bool:
        """Wait for items and move all of them to the batch.

        Return False when the store is closed and nothing is left to write.
        """
        try:
            item = self._queue.get(timeout=pause_s)
        except queue.Empty:
            return True
        while item is not None:
            batch.append(item)
            if self._queue.empty():
                return True
            item = self._queue.get()
        self._queue.put(None)  # taken again after the items before it are written
        return bool(batch)

    def _pause_s(self, db: Connection) -> float | None:
        """Return how long the thread may wait for items: until a lease or a notification is due."""
        hint_s = db.hint(set())
        with self._lock:
            renewal_s = max(0.0, self._renew_at - time.monotonic()) if self._leases else None
        return min((s for s in (hint_s, renewal_s) if s is not None), default=None)

    def _renew(self, db: Connection) -> None:
        """Extend every held lease if it is time; a lost lease stays lost."""
        with self._lock:
            leases, now = list(self._leases), time.monotonic()
            if not leases or now < self._renew_at:
                return
            self._renew_at = now + min(lease.length_s for lease in leases) / RENEWALS
        rows = sorted((lease.session_id, lease.epoch) for lease in leases)
        with suppress(StoreError):  # the next append reports the problem
            db.run(lambda at, _: at.executemany(EXTEND, rows))

    def _write(self, db: Connection, items: Sequence[Item]) -> None:
        """Write all items in one transaction; on a conflict, each in its own transaction."""
        writable: list[Item] = []
        for item in items:
            if (error := self._fault(item)) is not None:
                self._refuse([item], error)
            else:
                writable.append(item)
        if not writable:
            return
        try:
            values = db.run(partial(_write_items, writable))
        except StoreError as error:
            if isinstance(error, SessionTakenError) and len(writable) > 1:
                for item in writable:
                    self._write(db, [item])
            else:
                self._refuse(writable, error)
        else:
            _settle(writable, values)
            db.hint({item.session_id for item in writable if isinstance(item, Append)})

    def _fault(self, item: Item) -> StoreError | None:
        """Return the error if an event is invalid or would leave a gap before it, or else None.

        An event at the place of the gap, or before it, closes the gap.
        """
        if isinstance(item, Job):
            return None
        if isinstance(item.row, StoreError):
            return item.row
        key = item.session_id, item.epoch
        seq, error = self._gaps.get(key, (item.seq, None))
        if error is not None and item.seq <= seq:
            del self._gaps[key]
            return None
        return error

    def _refuse(self, items: Sequence[Item], error: StoreError) -> None:
        is_taken = isinstance(error, SessionTakenError)
        for item in items:
            if isinstance(item, Append) and is_integer(item.seq):
                later = error if is_taken else StoreError(GAP, place=self._place)
                self._gaps.setdefault((item.session_id, item.epoch), (item.seq, later))
        _settle(items, [error] * len(items))


def _write_items(items: Sequence[Item], db: Db, again: bool) -> list[Any]:
    """Write items and return the value of each; skip those that an earlier attempt has stored.

    Leases are extended first: the update waits until no other process is writing these sessions.
    """
    rows = [
        (item.row, item.epoch)
        for item in items
        if isinstance(item, Append) and isinstance(item.row, EventRow)
    ]
    if leases := sorted({(row.event[0], epoch) for row, epoch in rows if epoch}):
        db.executemany(EXTEND, leases)
    if again:
        rows = [(row, epoch) for row, epoch in rows if not _is_stored(db, row, epoch)]
    insert(db, rows)
    return [item.work(db) if isinstance(item, Job) else None for item in items]


def _is_stored(db: Db, row: EventRow, epoch: int) -> bool:
    stored = db.execute(
        "SELECT kind, at, body, epoch FROM events WHERE session_id = ? AND seq = ?", row.event[:2]
    ).fetchone()
    return bool(stored == (*row.event[2:], epoch))


def insert(db: Db, rows: Sequence[tuple[EventRow, int]]) -> None:
    """Insert events, each under the epoch of its writer's lease, or 0 without a lease."""
    if not rows:
        return
    if any(row.event[2] in NUMBERED for row, _ in rows):
        db.execute("SELECT in_turn()")  # so that readers by row number do not miss a row
    written = db.executemany(
        FENCED_INSERT,
        [(*row.event, epoch, epoch, row.event[0], epoch) for row, epoch in rows],
    )
    if written.rowcount != len(rows):
        raise SessionTakenError("another process has taken over this session.", hint=TAKEN_HINT)
    if opened := [row.opened for row, _ in rows if row.opened]:
        db.executemany(
            "INSERT INTO sessions (id, season, ordinal, query, category, opened_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            opened,
        )
    if ended := [row.ended for row, _ in rows if row.ended]:
        db.executemany("UPDATE sessions SET finished_at = ?, status = ? WHERE id = ?", ended)
    if deleted := [row.deleted for row, _ in rows if row.deleted]:
        db.executemany("UPDATE sessions SET deleted_at = ? WHERE id = ?", deleted)
    if tagged := [row.tagged for row, _ in rows if row.tagged]:
        db.executemany("UPDATE sessions SET tags = ? WHERE id = ?", tagged)
    if renamed := [row.renamed for row, _ in rows if row.renamed]:
        db.executemany("UPDATE sessions SET name = ? WHERE id = ?", renamed)
    add_results(db, [row for row, _ in rows])
    if finished := [(id_,) for _, status, id_ in ended if status]:
        db.executemany("UPDATE leases SET owner = '' WHERE session_id = ?", finished)


def add_results(db: Db, rows: Iterable[EventRow]) -> None:
    """Set the winners and add the costs of calls in the list of sessions."""
    rows = list(rows)
    if won := [row.won for row in rows if row.won]:
        db.executemany("UPDATE sessions SET winner = ? WHERE id = ?", won)
    if billed := [row.billed for row in rows if row.billed]:
        db.executemany(BILL, billed)


def fill_results(db: Db) -> None:
    """Fill in winners and costs from the log, in one pass, when an older store is upgraded."""
    last = 0
    while rows := db.execute(RESULTS, (last, FILLED_AT_ONCE)).fetchall():
        add_results(db, result_rows(row[1:] for row in rows))
        last = rows[-1][0]


# Futures whose commit has ended, with their values; each event loop has one queue.
Settled: TypeAlias = tuple[asyncio.Future[Any], Any]
_lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, deque[Settled]] = (
    weakref.WeakKeyDictionary()
)


def _settle(items: Sequence[Item], values: Sequence[Any]) -> None:
    """Notify each event loop once about all its items."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for item, value in zip(items, values, strict=True):
        by_loop.setdefault(item.done.get_loop(), []).append((item.done, value))
    for loop, settled in by_loop.items():
        with suppress(RuntimeError):  # the event loop is closed, so no task waits in it
            loop.call_soon_threadsafe(_wait_in_line, loop, settled)


def _wait_in_line(loop: asyncio.AbstractEventLoop, settled: Iterable[Settled]) -> None:
    """Settle futures in the order of their commits, one in each iteration of the event loop.

    Otherwise all sessions of one commit would continue in the same iteration, and block the loop
    for everything else.
    """
    line = _lines.setdefault(loop, deque())
    is_moving = bool(line)
    line.extend(settled)
    if not is_moving:
        _tell_next(loop, line)


def _tell_next(loop: asyncio.AbstractEventLoop, line: deque[Settled]) -> None:
    future, value = line.popleft()
    if future.done():
        pass
    elif isinstance(value, StoreError):  # a copy for each: a raised error gets a traceback
        future.set_exception(type(value)(value.message, place=value.place, hint=value.hint))
    else:
        future.set_result(value)
    if line:
        loop.call_soon(_tell_next, loop, line)
