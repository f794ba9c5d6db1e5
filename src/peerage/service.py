"""`Service`: a council that runs many sessions at once, and lets any number of watchers follow.

The doors for programs and people (HTTP, OpenAI, MCP, the web pages) all stand on it. A session is
in the log before its id is given out; what a crash or a shutdown cuts off goes on at the next
start. A watcher reads a list that all watchers share, so one that reads slowly costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
import unicodedata
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from peerage.config.settings import MAX_NAME
from peerage.errors import BudgetError, NotFoundError, PeerageError, shown
from peerage.events import (
    KIND_BY_TYPE,
    NOT_STORED,
    Finished,
    Opened,
    billed_calls,
    opening_of,
    read_events,
    stored_event,
    total_cost,
)
from peerage.panel import BegunSession, Council
from peerage.reports import Reports
from peerage.reports.options import CouncilOptions
from peerage.stores import AccessToken, Lease, SessionTakenError, StoreError, full_id
from peerage.stores.prompt_files import MAX_QUERY_CHARACTERS
from peerage.structured import check_schema
from peerage.tasks import Signal, end, finish
from peerage.tokens import allowed_actions
from peerage.types import Event, OutputFormat, Turn
from peerage.view import SessionView

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.stores import Store

T = TypeVar("T")
log = logging.getLogger(__name__)

OPENED, FINISHED = KIND_BY_TYPE[Opened], KIND_BY_TYPE[Finished]
MAX_RUNNING = 64  # sessions at a time
MAX_QUEUED = 256  # that wait for their turn
GRACE_S = 30.0  # in which running sessions may end when the service does
SERVER = "serve"  # what the sessions of a server are held for
LOOK_EVERY_LEASES = 0.5  # between looks for sessions to take over
POLL_S = 0.5  # between looks at a session that another process runs
READ_THREADS = 16
MAX_ANSWERS_GIVEN = 200  # on one ballot; nobody ranks more in one reading
N_DURATIONS = 50  # of past sessions, from which the wait of the next is estimated
MAX_RETRY_S = 300.0
USUAL_S = 10.0  # a session, before any has ended here
CLOSING_RETRY_S = 5.0
# Watchers are told together what has happened: of one session at most ten times a second, of all
# that run about a hundred times.
WAKE_EVERY_S = 0.1
WAKE_ALL_S = 0.01


# The token of the request that is being answered; whatever door starts a session, it pays.
asking_token: ContextVar[AccessToken | None] = ContextVar("asking_token", default=None)


class BusyError(PeerageError):
    """There is no room for another session now; there may be some after so many seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, hint=f"Try again in {retry_after_s:.0f} s.")
        self.retry_after_s = retry_after_s


class NotAllowedError(PeerageError):
    """The token of this request may not do this."""


class NoVerdictError(PeerageError):
    """A session ended without anything to answer with."""


class EarlierTurn(BaseModel):
    """One message of a conversation before the question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    content: str = Field(max_length=MAX_QUERY_CHARACTERS)


class SessionRequest(CouncilOptions):
    """A question to the council, and how the session is to be held."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        description="The question.",
        examples=["Is a tomato a fruit or a vegetable?"],
    )
    category: str = Field(default="", max_length=MAX_NAME, description="May choose the rubric.")
    seats: tuple[str, ...] = Field(default=(), description="Only these seats of the panel.")
    answers: dict[str, str] | None = Field(
        default=None,
        max_length=MAX_ANSWERS_GIVEN,
        description="Answers to judge, by name, instead of asking for them.",
    )
    system: str = Field(
        default="", max_length=MAX_QUERY_CHARACTERS, description="What the seats are told first."
    )
    earlier: tuple[EarlierTurn, ...] = Field(
        default=(), description="The conversation before the question."
    )
    after: str = Field(
        default="", description="The id of a session whose question and verdict come before."
    )
    output_schema: dict[str, Any] | None = Field(
        default=None, description="A JSON schema: the verdict is JSON that follows it."
    )
    output_strict: bool = Field(
        default=False, description="Whether providers have to keep to the schema exactly."
    )
    output_function: str = Field(
        default="", max_length=MAX_NAME, description="The JSON is arguments of this function."
    )

    @property
    def output(self) -> OutputFormat | None:
        """The JSON that the verdict has to be; a schema that cannot be used is refused."""
        if self.output_schema is None:
            return None
        text = check_schema(self.output_schema)
        return OutputFormat(text, self.output_function, self.output_strict)


@dataclass(slots=True, eq=False)
class HostedSession:
    """A session that runs or waits here, and what its watchers are to see of it."""

    id: str
    begun: BegunSession | None = None  # None until it is its turn, where another left it
    since: float = 0.0  # what happened earlier was another process's, and told there
    events: list[Event] = field(default_factory=list)  # stored ones and live ones, as they came
    task: asyncio.Task[None] | None = None
    ended: bool = False
    failure: BaseException | None = None
    cancelled: bool = False
    signal: Signal = field(default_factory=Signal)
    wakes_at: float = 0.0  # by the loop's clock: when its watchers are told, or were last

    @property
    def lease(self) -> Lease | None:
        return self.begun.lease if self.begun else None

    def add(self, event: Event, every_s: float) -> None:
        """Tell an event to the watchers: at once after a silence, else with what follows soon."""
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
        self.max_running = max_running
        self.max_queued = max_queued
        self.clock = clock
        self.closing = False
        council.role = SERVER
        council.is_held = True
        self.n_running = 0
        self.n_takeovers = 0
        self.observers: list[Callable[[Event], None]] = []  # told what is stored
        self._n_opening = 0
        self._heir: asyncio.Task[None] | None = None  # looks for sessions to take over
        self._refused: set[str] = set()  # that stopped with an error here; others may try
        self._hosted: dict[str, HostedSession] = {}
        self._turn = asyncio.Semaphore(max_running)
        self._durations_s: deque[float] = deque(maxlen=N_DURATIONS)
        self._threads = ThreadPoolExecutor(READ_THREADS, "peerage-read")

    # -- what doors read -----------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.council.settings

    @property
    def store(self) -> Store:
        return self.council.store

    @cached_property
    def reports(self) -> Reports:
        """The read side over the council's own store; its methods block, so `read` them."""
        reports = Reports(self.settings, keeps_reviews=True)
        vars(reports)["store"] = self.store  # the one that is open already
        return reports

    @property
    def n_queued(self) -> int:
        return len(self._hosted) - self.n_running

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a blocking read of store or engines, made in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args))

    # -- sessions ------------------------------------------------------------------------------

    async def start(self, request: SessionRequest) -> str:
        """Begin a session, or put it in the queue; its id, when it is in the log.

        The budget of the token that it is asked with is spent beforehand; what the session
        leaves of it is given back.
        """
        self._check_room()
        by = asking_token.get()
        self._check_names(request, by)
        opening = asyncio.ensure_future(self._open(request, by))
        try:
            return await finish(opening)
        except asyncio.CancelledError:  # nobody will ever know its id
            if not opening.cancelled() and opening.exception() is None:
                await finish(self._end(opening.result()))
            raise

    async def _open(self, request: SessionRequest, by: AccessToken | None) -> str:
        """Reserve the money of a session, put it in the log and begin it; its id."""
        keywords, payer = _keywords(request), by.id if by else ""
        self._n_opening += 1
        try:
            if by is not None:
                await self._reserve(by, request, keywords)
            begun = await self.council.open(
                request.query, request.category, live=True, by=payer, **keywords
            )
        except BaseException:
            await finish(self._give_back(payer, keywords.get("budget_usd", 0.0)))
            raise
        finally:
            self._n_opening -= 1
        hosted = HostedSession(begun.lease.session_id)
        self._begin(hosted, begun)
        self._host(hosted)
        return hosted.id

    def _check_names(self, request: SessionRequest, token: AccessToken | None) -> None:
        """Refuse answers under the name of a seat, which boards would count as that seat's own."""
        if token is None or "admin" in allowed_actions(token):
            return
        seats = {_alike(seat.name): seat.name for seat in self.settings.seats}
        for name in request.answers or {}:
            if _alike(name) in seats:
                raise NotAllowedError(
                    f"{shown(seats[_alike(name)])} is a seat of this panel, and an answer that is"
                    " given cannot stand under its name.",
                    hint="Give the answer another name, or use a token of scope 'admin'.",
                )

    async def _reserve(
        self, token: AccessToken, request: SessionRequest, keywords: dict[str, Any]
    ) -> None:
        """Take what a session may spend from its token's budget.

        Without a budget of its own that is the most the session can cost, or all that is left
        where that is less or a price is unknown. A session that is refused has nothing to give
        back, so it has no budget then.
        """
        if token.budget_usd is None and "budget_usd" not in keywords:
            return
        left_usd = (token.budget_usd or 0.0) - token.spent_usd
        if "budget_usd" in keywords:
            reserve_usd = keywords.pop("budget_usd")
        else:
            most = await self.council.cost_bound_usd(request.query, request.category, **keywords)
            reserve_usd = left_usd if most is None else min(most, left_usd)
        may_spend = token.budget_usd is None or reserve_usd > 0
        if not may_spend or not await self.read(self.store.spend, token.id, reserve_usd):
            raise BudgetError(
                f"this request may cost ${reserve_usd:.4f}, and the token has "
                f"${max(left_usd, 0.0):.4f} of its budget left.",
                hint="Sessions that run hold theirs until they end: ask with a smaller budget_usd,"
                " or wait for them.",
            )
        keywords["budget_usd"] = reserve_usd

    async def _give_back(self, token_id: str, usd: float) -> None:
        if token_id and usd:
            await self.read(self.store.spend, token_id, -usd)

    async def _settle(self, hosted: HostedSession) -> None:
        """Give back what a session that is over has left of its token's money.

        A call that was out when the session ended may have cost all that was set aside for it.
        What is unknown about calls of another process stays spent.
        """
        ends = [event for event in hosted.events if event.kind in (OPENED, FINISHED)]
        facts = list(read_events(ends))
        if hosted.begun is None or not facts or not isinstance(facts[-1], Finished):
            return
        earlier = total_cost(billed_calls(read_events(hosted.begun.history)))
        opened, (_, n_unknown) = facts[0], earlier
        if isinstance(opened, Opened) and opened.budget_usd and not n_unknown:
            left_usd = opened.budget_usd - hosted.begun.budget.spent_usd
            await self._give_back(opened.by, max(left_usd, 0.0))

    async def prepare(self) -> None:
        """Load what the first session would wait for."""
        await self.council.prepare()

    async def resume(self) -> None:
        """Go on with what a server that is gone has left; now, and whenever that happens."""
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
        """Host every session that a server let go of, or was silent for too long to keep."""
        for id_ in await self.read(self.store.unfinished, SERVER):
            if not (self.closing or id_ in self._hosted or id_ in self._refused):
                self._host(HostedSession(id_, since=self.clock()))

    def _begin(self, hosted: HostedSession, begun: BegunSession) -> None:
        """Tell what is in the log of a session already; its first watchers wait for nothing."""
        hosted.begun = begun
        for event in begun.history:
            self._tell(hosted, event)

    async def _take_up(self, hosted: HostedSession) -> BegunSession:
        """Begin a session where another server has left it."""
        begun = await self.council.resume(live=True, resume=hosted.id)
        self.n_takeovers += 1
        self._begin(hosted, begun)
        return begun

    def _host(self, hosted: HostedSession) -> None:
        self._hosted[hosted.id] = hosted
        hosted.task = asyncio.create_task(self._hold(hosted))
        hosted.task.add_done_callback(partial(self._ended, hosted))

    def hosts(self, id: str) -> bool:
        """Whether a session runs or waits here."""
        return id in self._hosted

    def view_of(self, id: str) -> SessionView | None:
        """The session as it is now, where it has begun here."""
        hosted = self._hosted.get(id)
        return hosted.begun.view if hosted and hosted.begun else None

    async def full_id(self, prefix: str) -> str:
        """The id of the one session whose id begins so."""
        return prefix if prefix in self._hosted else await self.read(full_id, self.store, prefix)

    async def watch(
        self, id: str, after: int = NOT_STORED, every_s: float | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """The stored events of a session beyond a place in its log, then what happens, to its end.

        A watcher from the beginning also sees what was only said (calls that went out, pieces of
        text); one that comes back sees of these what is new, so nothing is told twice. What
        happened together comes together, and nothing whenever nothing has happened for `every_s`.
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
        """End a session now and say so in its log; False where it does not run here.

        A token ends its own sessions; those of others take one of scope admin.
        """
        token = asking_token.get()
        if id in self._hosted and token is not None and "admin" not in allowed_actions(token):
            opened = opening_of(await self.read(self.store.events, id))
            if opened.by != token.id:
                raise NotAllowedError(
                    f"session {id} was not started with this token.",
                    hint="The token that started it can end it, and any of scope 'admin'.",
                )
        return await self._end(id)

    async def _end(self, id: str) -> bool:
        hosted = self._hosted.get(id)
        if hosted is None or hosted.task is None:
            return False
        hosted.cancelled = True
        hosted.task.cancel()
        await asyncio.wait([hosted.task])
        return True

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Take no more sessions, let those that run end, and leave the others resumable."""
        self.closing = True
        await end([self._heir] if self._heir else [])
        tasks = [hosted.task for hosted in self._hosted.values() if hosted.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
            await end(tasks)

    async def close(self, grace_s: float = GRACE_S) -> None:
        """End the sessions as `drain` does, then let go of the store and the models."""
        await self.drain(grace_s)
        self._threads.shutdown(wait=False)
        await self.council.close()

    def _check_room(self) -> None:
        if self.closing:
            raise BusyError("the server is shutting down.", CLOSING_RETRY_S)
        if len(self._hosted) + self._n_opening >= self.max_running + self.max_queued:
            raise BusyError("the queue is full.", self._retry_s())

    def _retry_s(self) -> float:
        """About how long until a place in the queue is free."""
        known = self._durations_s
        mean_s = sum(known) / len(known) if known else USUAL_S
        return min(MAX_RETRY_S, max(1.0, mean_s / self.max_running))

    async def _hold(self, hosted: HostedSession) -> None:
        """Run one session when it is its turn; however it ends, its watchers are told."""
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
                with suppress(StoreError):  # then it runs out
                    await finish(self.store.release(hosted.lease))
                    await finish(self._settle(hosted))

    def _tell(self, hosted: HostedSession, event: Event) -> None:
        hosted.add(event, max(WAKE_EVERY_S, WAKE_ALL_S * self.n_running))
        if event.seq != NOT_STORED and event.at >= hosted.since:
            for observer in self.observers:
                observer(event)

    def _ended(self, hosted: HostedSession, task: asyncio.Task[None]) -> None:
        """Let go of a session whose task has ended, and tell its watchers why."""
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
        """Write the end of a session that did not reach its own."""
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
        """The events of a session that does not run here, as its log grows, to its end."""
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
            await self.store.changed(id, POLL_S)
            events = await self.read(self.store.events, id, after)


def _keywords(request: SessionRequest) -> dict[str, Any]:
    """What a request asks a council with."""
    keywords: dict[str, Any] = {
        name.removeprefix("council."): value for name, value in request.flags().items()
    }
    keywords |= request.model_dump(include={"seats", "answers", "system", "after"})
    keywords["earlier"] = tuple(Turn(turn.role, turn.content) for turn in request.earlier)
    keywords["output"] = request.output
    return {name: value for name, value in keywords.items() if value not in (None, ())}


async def _follow(
    hosted: HostedSession, after: int, every_s: float | None
) -> AsyncIterator[list[Event]]:
    """What a session here has told and will tell, less what a watcher has seen already."""
    events = hosted.events
    new = [event for event in events if event.seq > after or after == NOT_STORED]
    place = len(events)
    while new or not hosted.ended:
        if new or not await hosted.signal.changed(every_s):
            yield new
        new = [event for event in events[place:] if event.seq > after or event.seq == NOT_STORED]
        place = len(events)
    if hosted.failure is not None and not isinstance(hosted.failure, SessionTakenError):
        raise hosted.failure.with_traceback(None)  # once for each watcher


def _alike(name: str) -> str:
    """A name such that those which look the same are equal."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def is_finished(event: Event) -> bool:
    """Whether this event ends its session."""
    return event.kind == FINISHED
