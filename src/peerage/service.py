"""`Service`: runs many sessions of a council at once; any number of watchers can follow them.

HTTP, OpenAI, MCP and the web pages use it. A session is in the log before its id is returned. A
session that a crash or a shutdown interrupts continues at the next start. All watchers of a session
share one list of events, so a slow watcher costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from peerage.bills import CallMade, billed_calls, total_cost
from peerage.dry_runs import SessionEstimate
from peerage.errors import (
    BudgetError,
    ConfigError,
    NotAllowedError,
    NotFoundError,
    PeerageError,
    shown,
)
from peerage.event_facts import opening_of
from peerage.events import (
    KIND_BY_TYPE,
    NOT_STORED,
    Asked,
    Finished,
    Opened,
    read_events,
    stored_event,
)
from peerage.members import seat_names
from peerage.names import look_alike
from peerage.panel import BegunSession, Council
from peerage.panels import IN_USE, SETTING, find_panel, list_panels, panel_in_use, panel_settings
from peerage.providers.calling import Caller
from peerage.reports import Reports
from peerage.session_requests import SessionRequest
from peerage.stores import (
    AccessToken,
    Lease,
    SessionTakenError,
    StoredDocument,
    StoreError,
    full_id,
)
from peerage.tasks import Signal, end, finish
from peerage.tokens import allowed_actions
from peerage.types import Event
from peerage.view import SessionView

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.stores import Store

T = TypeVar("T")
log = logging.getLogger(__name__)

OPENED, ASKED, FINISHED = (KIND_BY_TYPE[one] for one in (Opened, Asked, Finished))
MAX_RUNNING = 64  # sessions at a time
MAX_QUEUED = 256  # sessions that wait
GRACE_S = 30.0  # time for running sessions to end when the service closes
SEASON_PLAN = "season"  # the kind of documents with the plans of seasons
SERVER = "serve"  # owner in the leases of servers
LOOK_EVERY_LEASES = 0.5  # lease lengths between two searches for abandoned sessions
POLL_S = 0.5  # between two reads of a session that another process runs
READ_THREADS = 16
N_DURATIONS = 50  # past sessions that are used to estimate the wait for the next
MAX_RETRY_S = 300.0
USUAL_S = 10.0  # assumed duration before any session has ended
CLOSING_RETRY_S = 5.0
# Watchers get events in groups: of one session at most ten times a second, of all running
# sessions together about a hundred times a second.
WAKE_EVERY_S = 0.1
WAKE_ALL_S = 0.01


# The token of the current request; it pays for the sessions that the request starts.
asking_token: ContextVar[AccessToken | None] = ContextVar("asking_token", default=None)


class BusyError(PeerageError):
    """The server has no capacity now; the client should try again after some seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, hint=f"Try again in {retry_after_s:.0f} s.")
        self.retry_after_s = retry_after_s


class NoVerdictError(PeerageError):
    """A session ended without an answer."""


@dataclass(slots=True, eq=False)
class HostedSession:
    """A session that runs or waits on this server, with its events for watchers."""

    id: str
    begun: BegunSession | None = None  # None while an abandoned session waits for its turn
    since: float = 0.0  # another process reported the events before this time
    events: list[Event] = field(default_factory=list)  # stored and live events, in order
    task: asyncio.Task[None] | None = None
    ended: bool = False
    failure: BaseException | None = None
    cancelled: bool = False
    signal: Signal = field(default_factory=Signal)
    wakes_at: float = 0.0  # time of the loop's clock at which the watchers are or were woken

    @property
    def lease(self) -> Lease | None:
        return self.begun.lease if self.begun else None

    def add(self, event: Event, every_s: float) -> None:
        """Add an event and wake the watchers: at once after a pause, else after a short delay."""
        self.events.append(event)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self.wakes_at <= now:
            self.wakes_at = max(now, self.wakes_at + every_s)
            loop.call_at(self.wakes_at, self.signal.wake)


class Service:
    """Runs a council's sessions as tasks of the event loop; close it to end them."""

    def __init__(
        self,
        council: Council,
        *,
        max_running: int = MAX_RUNNING,
        max_queued: int = MAX_QUEUED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.council = council
        self.configured = council.settings  # without panels that people set up in a browser
        self.max_running = max_running
        self.max_queued = max_queued
        self.clock = clock
        self.closing = False
        council.role = SERVER
        council.is_held = True
        self.n_running = 0
        self.n_takeovers = 0
        self.observers: list[Callable[[Event], None]] = []  # called with stored events and `Asked`
        self.call_observers: list[Callable[[CallMade], None]] = []  # of calls outside of sessions
        self._former: list[Caller] = []  # callers of panels that were in use before
        self._n_opening = 0
        self._heir: asyncio.Task[None] | None = None  # looks for abandoned sessions
        self._refused: set[str] = set()  # sessions that failed here; other servers may try
        self._hosted: dict[str, HostedSession] = {}
        self._turn = asyncio.Semaphore(max_running)
        self._durations_s: deque[float] = deque(maxlen=N_DURATIONS)
        self._threads = ThreadPoolExecutor(READ_THREADS, "peerage-read")

    # -- reading -------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.council.settings

    @property
    def store(self) -> Store:
        return self.council.store

    @cached_property
    def reports(self) -> Reports:
        """Return the reports of the council's store; its methods block, so call them by `read`."""
        reports = Reports(self.configured, keeps_looks=False, keeps_reviews=True)
        vars(reports)["store"] = self.store  # the store that is already open
        return reports

    async def panels(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by name, the panels whose seats all belong to the current panel."""
        tables = {table.name: table for table in self.settings.seat}
        panels = {name: panel.seats for name, panel in self.configured.panel.items()}
        for panel in await self.read(list_panels, self.store, self.configured):
            if not panel.is_read_only and all(tables.get(t.name) == t for t in panel.seats):
                panels[panel.name] = tuple(table.name for table in panel.seats)
        return {name: seats for name, seats in panels.items() if seats and {*seats} <= {*tables}}

    @property
    def n_queued(self) -> int:
        return len(self._hosted) - self.n_running

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function in a thread and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args))

    # -- sessions ------------------------------------------------------------------------------

    async def start(self, request: SessionRequest) -> str:
        """Start or queue a session; return its id when it is in the log.

        The budget is taken from the request's token beforehand, and the rest is returned at the
        end of the session.
        """
        self.check_room()
        by = asking_token.get()
        await self.check_answer_names(request.answers or {})
        opening = asyncio.ensure_future(self._open(request, by))
        try:
            return await finish(opening)
        except asyncio.CancelledError:  # the caller will not learn the id
            if not opening.cancelled() and opening.exception() is None:
                await finish(self._end(opening.result()))
            raise

    async def estimate(self, request: SessionRequest) -> SessionEstimate:
        """Return the estimated calls and cost of a session; nothing is stored or called."""
        options = {**request.keywords(), "category": request.category}
        return SessionEstimate(await self.council.estimate(request.query, **options))

    async def _open(self, request: SessionRequest, by: AccessToken | None) -> str:
        """Reserve the money of a session, log it and start it; return its id."""
        keywords, payer = request.keywords(), by.id if by else ""
        self._n_opening += 1
        try:
            if by is not None:
                await self._reserve(by, request, keywords)
            begun = await self.council.open(
                request.query, request.category, live=True, by=payer, **keywords
            )
        except BaseException:
            await finish(self.give_back(payer, keywords.get("budget_usd", 0.0)))
            raise
        finally:
            self._n_opening -= 1
        hosted = HostedSession(begun.lease.session_id)
        self._begin(hosted, begun)
        self._host(hosted)
        return hosted.id

    async def check_answer_names(self, names: Iterable[str]) -> None:
        """Raise an error for given answers named like a seat: they would count as the seat's."""
        token = asking_token.get()
        names = list(names)
        if not names or token is None or "admin" in allowed_actions(token):
            return
        seats = {seat.name for seat in self.settings.seats}
        seats |= await self.read(seat_names, self.store, self.configured)
        for name in names:
            if seat := look_alike(name, seats):
                raise NotAllowedError(
                    f"{shown(seat)} is a seat of this panel, so an answer that you"
                    " supply cannot have its name.",
                    hint="Give the answer another name, or use a token of scope 'admin'.",
                )

    async def _reserve(
        self, token: AccessToken, request: SessionRequest, keywords: dict[str, Any]
    ) -> None:
        """Take the session's budget from its token's budget.

        Without `budget_usd` this is the most that the session can cost, or all that is left
        if that is less or a price is unknown. If the session is refused, its budget is removed,
        because there is nothing to return.
        """
        if token.budget_usd is None and "budget_usd" not in keywords:
            return
        left_usd = (token.budget_usd or 0.0) - token.spent_usd
        if "budget_usd" in keywords:
            reserve_usd = keywords.pop("budget_usd")
        else:
            most = await self.council.cost_bound_usd(request.query, request.category, **keywords)
            reserve_usd = left_usd if most is None else min(most, left_usd)
        await self.charge(token, reserve_usd)
        keywords["budget_usd"] = reserve_usd

    async def charge(self, token: AccessToken, reserve_usd: float) -> None:
        """Take money from a token's budget; raise BudgetError if it has too little."""
        may_spend = token.budget_usd is None or reserve_usd > 0
        if not may_spend or not await self.read(self.store.spend, token.id, reserve_usd):
            left_usd = max((token.budget_usd or 0.0) - token.spent_usd, 0.0)
            raise BudgetError(
                f"this request may cost ${reserve_usd:.4f}, and the token has "
                f"${left_usd:.4f} of its budget left.",
                hint="Running sessions reserve their budgets until they end: ask with a smaller"
                " budget_usd, or wait.",
            )

    async def give_back(self, token_id: str, usd: float) -> None:
        """Return money to a token's budget."""
        if token_id and usd:
            await self.read(self.store.spend, token_id, -usd)

    async def _settle(self, hosted: HostedSession) -> None:
        """Return the unspent money of a finished session to its token.

        A call that was in flight when the session ended counts as its full reserved amount. If the
        cost of calls by another process is unknown, nothing is returned.
        """
        ends = [event for event in hosted.events if event.kind in (OPENED, FINISHED)]
        facts = list(read_events(ends))
        if hosted.begun is None or not facts or not isinstance(facts[-1], Finished):
            return
        earlier = total_cost(billed_calls(read_events(hosted.begun.history)))
        opened, (_, n_unknown) = facts[0], earlier
        if isinstance(opened, Opened) and opened.budget_usd and not n_unknown:
            left_usd = opened.budget_usd - hosted.begun.budget.spent_usd
            await self.give_back(opened.by, max(left_usd, 0.0))

    async def prepare(self) -> None:
        """Load the data that the first session would wait for."""
        await self.council.prepare()

    async def seat_panel(self, name: str | None = None) -> None:
        """Use the seats of a named panel from now on; without a name, use the stored choice.

        Running sessions end with the seats they have.
        """
        is_stored = name is None
        if name is None:
            name = await self.read(panel_in_use, self.store, self.configured)
        try:
            settings = await self.read(panel_settings, self.store, self.configured, name)
        except ConfigError as error:
            if not is_stored:
                raise
            log.error("panel %s is not used: %s", name, error)
            settings = self.configured
        if settings.seat == self.settings.seat:
            return
        council = Council(settings, store=self.store, needs_seats=False)
        council.role, council.is_held = SERVER, True
        self._former.append(self.council.caller)
        self.council = council

    async def use_panel(self, name: str, by: str) -> None:
        """Use the seats of a named panel from now on, also after a restart."""
        await self.read(find_panel, self.store, self.configured, name)
        choice = StoredDocument(SETTING, IN_USE, self.clock(), by, {"name": name})
        await self.read(self.store.put_document, choice)
        await self.seat_panel(name)

    async def resume(self) -> None:
        """Continue abandoned sessions of other servers, now and whenever there are some."""
        await self.seat_panel()
        await self._take_over()
        self._heir = self._heir or asyncio.create_task(self._keep_taking_over())

    async def _keep_taking_over(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lease_s * LOOK_EVERY_LEASES)
            try:
                await self._take_over()
            except StoreError as error:
                log.warning("cannot look for unfinished sessions: %s", error)

    async def _take_over(self) -> None:
        """Host every session that another server released or abandoned."""
        for id_ in await self.read(self.store.abandoned_sessions, SERVER):
            if not (self.closing or id_ in self._hosted or id_ in self._refused):
                self._host(HostedSession(id_, since=self.clock()))

    def _begin(self, hosted: HostedSession, begun: BegunSession) -> None:
        """Report the logged events of a session, so that its first watchers see them at once."""
        hosted.begun = begun
        for event in begun.history:
            self._tell(hosted, event)

    async def _take_up(self, hosted: HostedSession) -> BegunSession:
        """Continue a session of another server."""
        begun = await self.council.resume(live=True, resume=hosted.id)
        self.n_takeovers += 1
        self._begin(hosted, begun)
        return begun

    def _host(self, hosted: HostedSession) -> None:
        self._hosted[hosted.id] = hosted
        hosted.task = asyncio.create_task(self._hold(hosted))
        hosted.task.add_done_callback(partial(self._remove, hosted))

    def hosts(self, id: str) -> bool:
        """Return whether a session runs or waits on this server."""
        return id in self._hosted

    def view_of(self, id: str) -> SessionView | None:
        """Return the current view of a session that runs on this server, or None."""
        hosted = self._hosted.get(id)
        return hosted.begun.view if hosted and hosted.begun else None

    async def is_interrupted(self, id: str) -> bool:
        """Return whether a session is unfinished and no process runs it."""
        return id not in self._hosted and id in await self.read(self.store.abandoned_sessions)

    async def full_id(self, prefix: str) -> str:
        """Return the id of the one session whose id begins with the prefix."""
        return prefix if prefix in self._hosted else await self.read(full_id, self.store, prefix)

    async def watch(
        self, id: str, after: int = NOT_STORED, every_s: float | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """Yield the events of a session after a sequence number, and new ones until its end.

        A watcher from the beginning also gets events that are not stored (calls, pieces of text).
        A watcher that reconnects gets only new events, so that it sees nothing twice. Events that
        happen together come together; an empty list means that none happened for `every_s` seconds.
        """
        hosted = self._hosted.get(id)
        if hosted is not None:
            async for events in _follow(hosted, after, every_s):
                after = max([after, *(event.seq for event in events)])
                yield events
            if not isinstance(hosted.failure, SessionTakenError):
                return
        async for events in self._poll(id, after, every_s):
            yield events

    async def cancel(self, id: str) -> bool:
        """Cancel a session and record it in its log; return False if it does not run here."""
        if id in self._hosted:
            await self.check_own_session(id)
        return await self._end(id)

    async def check_own_session(self, prefix: str) -> None:
        """Refuse a token to change a session that its owner did not start, unless it is an admin's.

        A person's later tokens own what the earlier ones started.
        """
        token = asking_token.get()
        if token is None or "admin" in allowed_actions(token):
            return
        id_ = await self.full_id(prefix)
        opened = opening_of(await self.read(self.store.events, id_))
        if not await self.read(_is_own, self.store, opened, token.name):
            raise _not_own(f"session {id_}")

    async def _end(self, id: str) -> bool:
        hosted = self._hosted.get(id)
        if hosted is None or hosted.task is None:
            return False
        hosted.cancelled = True
        hosted.task.cancel()
        await asyncio.wait([hosted.task])
        return True

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Accept no more sessions, let running ones end, and leave the others resumable."""
        self.closing = True
        await end([self._heir] if self._heir else [])
        tasks = [hosted.task for hosted in self._hosted.values() if hosted.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
            await end(tasks)

    async def close(self, grace_s: float = GRACE_S) -> None:
        """End the sessions as `drain` does, then close the store and the models."""
        await self.drain(grace_s)
        self._threads.shutdown(wait=False)
        for caller in self._former:
            await caller.close()
        await self.council.close()

    def check_room(self) -> None:
        """Raise BusyError if no further session can be taken on."""
        if self.closing:
            raise BusyError("the server is shutting down.", CLOSING_RETRY_S)
        if len(self._hosted) + self._n_opening >= self.max_running + self.max_queued:
            raise BusyError("the queue is full.", self._retry_s())

    def _retry_s(self) -> float:
        """Estimate the time until a place in the queue is free."""
        known = self._durations_s
        mean_s = sum(known) / len(known) if known else USUAL_S
        return min(MAX_RETRY_S, max(1.0, mean_s / self.max_running))

    async def _hold(self, hosted: HostedSession) -> None:
        """Run one session when its turn comes, and notify its watchers in any case."""
        try:
            async with self._turn:
                begun = hosted.begun or await self._take_up(hosted)
                self.n_running += 1
                started = self.clock()
                try:
                    async with aclosing(begun.events) as events:
                        async for event in events:
                            self._tell(hosted, event)
                finally:
                    self.n_running -= 1
                self._durations_s.append(self.clock() - started)
        except BudgetError:
            await finish(self._finish(hosted, "out_of_budget"))
        except asyncio.CancelledError:
            if hosted.cancelled:
                await finish(self._finish(hosted, "cancelled"))
        finally:
            if hosted.lease is not None:
                with suppress(StoreError):  # the lease then expires
                    await finish(self.store.release(hosted.lease))
                    await finish(self._settle(hosted))

    def _tell(self, hosted: HostedSession, event: Event) -> None:
        hosted.add(event, max(WAKE_EVERY_S, WAKE_ALL_S * self.n_running))
        is_new = event.seq != NOT_STORED and event.at >= hosted.since
        if is_new or event.kind == ASKED:
            for observer in self.observers:
                observer(event)

    def _remove(self, hosted: HostedSession, task: asyncio.Task[None]) -> None:
        """Remove a session whose task has ended, and tell its watchers the reason."""
        hosted.failure = None if task.cancelled() else task.exception()
        if isinstance(hosted.failure, SessionTakenError):
            log.info("session is run by another process", extra={"session": hosted.id})
        elif hosted.failure is not None:
            log.error("session stopped: %s", hosted.failure, extra={"session": hosted.id})
            if not isinstance(hosted.failure, StoreError):
                self._refused.add(hosted.id)
        del self._hosted[hosted.id]
        hosted.ended = True
        hosted.signal.wake()

    async def _finish(self, hosted: HostedSession, status: str) -> None:
        """Write the end of a session that did not finish by itself."""
        events = await self.read(self.store.events, hosted.id)
        if hosted.lease is None or not events or is_finished(events[-1]):
            return
        cost = total_cost(billed_calls(read_events(events)))
        fact = Finished(status, *cost)
        event = stored_event(hosted.id, events[-1].seq + 1, self.clock(), fact)
        await hosted.lease.append(event)
        known = {told.seq for told in hosted.events}
        for stored in (*events, event):
            if stored.seq not in known:
                self._tell(hosted, stored)

    async def _poll(self, id: str, after: int, every_s: float | None) -> AsyncIterator[list[Event]]:
        """Yield the events of a session that runs elsewhere, as its log grows, until its end."""
        events = await self.read(self.store.events, id)
        if not events:
            raise NotFoundError(f"there is no session {shown(id)}.")
        told_at = time.monotonic()
        while True:
            new = [event for event in events if event.seq > after]
            if new or (every_s is not None and time.monotonic() - told_at >= every_s):
                yield new
                told_at = time.monotonic()
            if any(map(is_finished, events)):
                return
            after = max([after, *(event.seq for event in events)])
            await self.store.wait_for_change(id, POLL_S)
            events = await self.read(self.store.events, id, after)


async def _follow(
    hosted: HostedSession, after: int, every_s: float | None
) -> AsyncIterator[list[Event]]:
    """Yield the past and future events of a hosted session, without those the watcher has seen."""
    events = hosted.events
    new = [event for event in events if event.seq > after or after == NOT_STORED]
    place = len(events)
    while new or not hosted.ended:
        if new or not await hosted.signal.wait(every_s):
            yield new
        new = [event for event in events[place:] if event.seq > after or event.seq == NOT_STORED]
        place = len(events)
    if hosted.failure is not None and not isinstance(hosted.failure, SessionTakenError):
        raise hosted.failure.with_traceback(None)  # a separate traceback for each watcher


def _is_own(store: Store, opened: Opened, name: str) -> bool:
    """Return whether a person started a session, or the season that it belongs to."""
    if opened.by in {one.id for one in store.tokens() if one.name == name}:
        return True
    plans = store.documents(SEASON_PLAN) if opened.season else []
    return any(one.who == name and one.body["season"] == opened.season for one in plans)


def check_own_name(what: str, name: str) -> None:
    """Refuse the current token to change what a person of this name made, unless it may."""
    token = asking_token.get()
    if token is not None and token.name != name and "admin" not in allowed_actions(token):
        raise _not_own(what)


def _not_own(what: str) -> NotAllowedError:
    return NotAllowedError(
        f"{what} was not started with this token.",
        hint="Only the person who started it, or a token of scope 'admin', can change it.",
    )


def is_finished(event: Event) -> bool:
    """Return whether this event ends its session."""
    return event.kind == FINISHED
