"""Batches: calls of many sessions that are sent together and answered within a day.

Calls to one model at one stage are collected until no more come or a batch is full. A batch is
written to the log before it is sent, and its id is added as soon as the endpoint returns it. So a
run that was killed finds its batches again and pays for no call twice. The id of a call is derived
from its session, stage, seat and prompt: the same call in a later run gets the earlier result.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from peerage.errors import how_many
from peerage.providers import UNSENT, Call, CallError, Reply
from peerage.providers.batch_endpoints import BatchEndpoint, BatchRequest, BatchResult, BatchState
from peerage.providers.openai_compatible import json_bytes
from peerage.tasks import end

MAX_TRIES = 5  # tries to send a batch, and batches in which a call without a result is tried
LONGEST_WAIT_S = 600.0  # between requests to an endpoint that fails
# After these errors the endpoint has not taken the batch, so it can be sent again at no risk.
NOT_TAKEN = frozenset({"unauthorized", "bad_request", "rate_limited"})
GONE = (401, 403, 404)  # statuses of a batch whose results cannot be read
# An endpoint that cannot be reached may be up again later; other errors are tried MAX_TRIES times.
PASSING = frozenset({"connection", "timeout", "rate_limited", "server_error", "truncated"})
LONGEST_S = 3 * 86_400.0  # of waiting for one batch; vendors end a batch after a day


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch in the log; `batch` is empty until the endpoint has assigned an id."""

    name: str
    place: str  # the host of the endpoint
    model: str
    stage: str
    ids: tuple[str, ...]  # of its calls
    at: float
    batch: str = ""


class BatchLog(Protocol):
    """Stores the batches of a season."""

    async def records(self) -> list[BatchRecord]:
        """Return all batches."""

    async def keep(self, record: BatchRecord) -> None:
        """Store a batch durably, replacing the one with the same name."""

    async def drop(self, record: BatchRecord) -> None:
        """Delete a batch that was never created."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How calls are collected, and how often batches are polled."""

    size: int = 1_000  # the most calls in a batch
    is_patient: bool = False  # a call without a result goes into a later batch; else it is made
    gather_s: float = 3.0
    poll_s: float = 30.0


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """An unfinished batch: its endpoint, its calls, and its progress."""

    place: str
    model: str
    stage: str
    n: int  # calls
    status: str
    batch: str = ""  # the endpoint's id
    n_done: int = 0

    def __str__(self) -> str:
        name = f"batch {self.batch}" if self.batch else "a batch"
        calls = f"{self.n} {self.stage} call{'' if self.n == 1 else 's'} to {self.model}"
        done = f", {self.n_done} done" if self.n_done else ""
        return f"{name} at {self.place}: {calls}, {self.status}{done}"


class NeverMadeError(Exception):
    """A batch in the log was never created, so its calls are sent again."""


@dataclass(slots=True)
class Gathering:
    """Calls that wait to be sent in one batch."""

    endpoint: BatchEndpoint
    model: str
    stage: str
    requests: dict[str, BatchRequest] = field(default_factory=dict)
    n_bytes: int = 0
    timer: asyncio.TimerHandle | None = None


class Batches:
    """The batches of one run: collects calls, sends them, and returns the results."""

    def __init__(
        self,
        log: BatchLog,
        plan: BatchPlan | None = None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.plan = plan or BatchPlan()
        self.states: dict[str, WaitingBatch] = {}  # by the name of the batch
        self.notes: list[str] = []  # what went wrong
        self._log, self._clock, self._sleep, self._on_change = log, clock, sleep, on_change
        self._gatherings: dict[tuple[str, str, str], Gathering] = {}
        self._waiting: dict[str, asyncio.Future[Reply]] = {}
        self._results: dict[str, BatchResult] = {}  # results that no call has asked for yet
        self._record_by_id: dict[str, BatchRecord] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the name of the batch
        self._loading = asyncio.Lock()
        self._is_loaded = False

    @property
    def is_patient(self) -> bool:
        """Return whether calls without a result go into a later batch."""
        return self.plan.is_patient

    async def close(self) -> None:
        """Stop waiting; sent batches continue at the endpoints, and a later run finds them."""
        for gathering in self._gatherings.values():
            if gathering.timer is not None:
                gathering.timer.cancel()
        await end(self._tasks.values())

    async def reply(self, endpoint: BatchEndpoint, call: Call) -> Reply:
        """Return the reply to a call from a batch of this or an earlier run, or raise CallError."""
        id_ = call_id(call)
        await self._load()
        if id_ in self._results:
            return _unpack(self._results.pop(id_))
        while True:
            waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            self._waiting[id_] = waiting
            record = self._record_by_id.get(id_)
            if record is None:
                self._gather(endpoint, call, id_)
            else:
                self._follow(endpoint, record)
            try:
                return await waiting
            except NeverMadeError:
                continue
            finally:
                self._waiting.pop(id_, None)
                for gathering in self._gatherings.values():
                    gathering.requests.pop(id_, None)

    async def _load(self, *, again: bool = False) -> None:
        """Read the batches of this season from the log, if not yet done or if `again` is set."""
        async with self._loading:
            if self._is_loaded and not again:
                return
            for record in await self._log.records():
                self._record_by_id.update(dict.fromkeys(record.ids, record))
            self._is_loaded = True

    # -- gathering -----------------------------------------------------------------------------

    def _gather(self, endpoint: BatchEndpoint, call: Call, id_: str) -> None:
        """Add a call to the next batch; send the batch when it is full or no more calls come."""
        key = (endpoint.provider.base_url, call.seat.model, call.stage)
        gathering = self._gatherings.get(key)
        if gathering is None:
            gathering = Gathering(endpoint, call.seat.model, call.stage)
            self._gatherings[key] = gathering
        request = BatchRequest(id_, endpoint.request_body(call))
        n_bytes = len(json_bytes(request.body))
        if gathering.requests and gathering.n_bytes + n_bytes > endpoint.max_bytes:
            self._send(key)
            return self._gather(endpoint, call, id_)
        gathering.requests[id_] = request
        gathering.n_bytes += n_bytes
        if gathering.timer is not None:
            gathering.timer.cancel()
        if len(gathering.requests) >= self.plan.size:
            return self._send(key)
        loop = asyncio.get_running_loop()
        gathering.timer = loop.call_later(self.plan.gather_s, self._send, key)
        n = len(gathering.requests)
        waiting = WaitingBatch(endpoint.place, key[1], call.stage, n, "being gathered")
        self.states[" ".join(key)] = waiting
        self._on_change()
        return None

    def _send(self, key: tuple[str, str, str]) -> None:
        """Start to send the collected calls."""
        gathering = self._gatherings.pop(key)
        if gathering.timer is not None:
            gathering.timer.cancel()
        self.states.pop(" ".join(key), None)
        if gathering.requests:
            name = secrets.token_hex(12)
            self._start(name, tuple(gathering.requests), self._submit(name, gathering))

    def _start(self, name: str, ids: tuple[str, ...], work: Coroutine[Any, Any, None]) -> None:
        """Start the task of a batch; if it fails, its waiting calls fail too."""
        task = self._tasks[name] = asyncio.create_task(work)

        def fail(done: asyncio.Task[None]) -> None:
            error = None if done.cancelled() else done.exception()
            for waiting in filter(None, map(self._waiting.get, ids)):
                if error is not None and not waiting.done():
                    waiting.set_exception(error)

        task.add_done_callback(fail)

    async def _submit(self, name: str, gathering: Gathering) -> None:
        """Record a batch, send it, record its id, and wait for it."""
        endpoint = gathering.endpoint
        await self._load(again=True)  # a process that was killed may have sent some of the calls
        for id_ in gathering.requests.keys() & self._record_by_id.keys():
            del gathering.requests[id_]
            self._follow(endpoint, self._record_by_id[id_])
        if not gathering.requests:
            return
        ids, place, at = tuple(gathering.requests), endpoint.place, self._clock()
        record = BatchRecord(name, place, gathering.model, gathering.stage, ids, at)
        await self._log.keep(record)
        self._say(record, "being sent")
        for n_tries in range(1, MAX_TRIES + 1):
            try:
                batch = await endpoint.submit(name, list(gathering.requests.values()))
                break
            except CallError as error:
                wait_s = error.retry_after_s or self._wait_s(n_tries)
                if error.kind != "rate_limited" or n_tries == MAX_TRIES or wait_s > LONGEST_WAIT_S:
                    await self._after_refusal(endpoint, record, error)
                    return
                self._say(record, f"not accepted yet: {error.message}")
                await self._sleep(wait_s)
        record = replace(record, batch=batch)
        await self._log.keep(record)
        self._record_by_id.update(dict.fromkeys(ids, record))
        await self._wait_for(endpoint, record)

    async def _after_refusal(
        self, endpoint: BatchEndpoint, record: BatchRecord, error: CallError
    ) -> None:
        """Fail the calls of a refused batch, or look for a batch that may have been accepted."""
        if error.kind not in NOT_TAKEN and error.usage != UNSENT:
            await self._sleep(self._wait_s(1))
            if await self._recover(endpoint, record):
                return
        await self._log.drop(record)
        self._forget(record)
        self.notes.append(f"{record.place} did not accept a batch: {error.message}")
        self._deliver(record, {}, error)

    def _wait_s(self, n_failed: int) -> float:
        return min(LONGEST_WAIT_S, self.plan.poll_s * 2.0 ** (n_failed - 1))

    # -- waiting -------------------------------------------------------------------------------

    def _follow(self, endpoint: BatchEndpoint, record: BatchRecord) -> None:
        """Wait for a batch of an earlier run, unless it is already being waited for."""
        task = self._tasks.get(record.name)
        if task is None or task.done():
            self._start(record.name, record.ids, self._resume(endpoint, record))

    async def _resume(self, endpoint: BatchEndpoint, record: BatchRecord) -> None:
        """Wait for a batch of an earlier run; drop it if it was never created."""
        if record.batch:
            await self._wait_for(endpoint, record)
        elif not await self._recover(endpoint, record):
            await self._log.drop(record)
            self._forget(record)
            self.states.pop(record.name, None)
            for waiting in filter(None, map(self._waiting.get, record.ids)):
                if not waiting.done():
                    waiting.set_exception(NeverMadeError())

    async def _recover(self, endpoint: BatchEndpoint, record: BatchRecord) -> bool:
        """Look for a batch whose id was lost; return whether its results were found."""
        self._say(record, "being searched for")
        listed: list[str] | None = None
        began = self._clock()
        for n_failed in itertools.count(1):
            try:
                listed = await endpoint.find(record.name, len(record.ids), record.at)
                break
            except CallError as error:
                if error.kind in ("unauthorized", "bad_request"):
                    return False
                if self._is_hopeless(error, n_failed, began):
                    raise
                # The endpoint may have the batch: sending it again now could cost twice.
                self._say(record, f"searching: {error.message}")
                await self._sleep(self._wait_s(n_failed))
        known = {one.batch for one in self._record_by_id.values()}
        is_sure = endpoint.names_batches
        for candidate in (replace(record, batch=id_) for id_ in listed or () if id_ not in known):
            if is_sure:
                await self._log.keep(candidate)
            if await self._wait_for(endpoint, candidate, is_sure=is_sure):
                return True
        return False

    async def _wait_for(
        self, endpoint: BatchEndpoint, record: BatchRecord, *, is_sure: bool = True
    ) -> bool:
        """Wait for a batch and deliver its results; return whether it was the right batch.

        If the id of the batch is a guess (`is_sure` is False), the batch is the right one if it has
        results for our calls.
        """
        n_failed, began = 0, self._clock()
        while True:
            try:
                state = await endpoint.state(record.batch)
                self._say(record, state.status.replace("_", " "), state.n_done)
                if state.is_over:
                    results = await self._read(endpoint, record, state)
                    break
                n_failed = 0
                if self._clock() - began > LONGEST_S:
                    days = f"{LONGEST_S / 86_400:.0f} days"
                    raise CallError("timeout", f"still {state.status!r} after {days} of waiting")
            except CallError as error:
                is_hopeless = self._is_hopeless(error, n_failed + 1, began)
                if is_hopeless and not is_sure:
                    return False
                if is_hopeless:
                    self.notes.append(f"batch {record.batch}: {error.message}")
                    self._deliver(record, {}, error)
                    return True
                n_failed += 1
                self._say(record, f"cannot be reached: {error.message}")
            await self._sleep(self._wait_s(max(1, n_failed)))
        if not is_sure and not results:
            return False
        if not is_sure:
            await self._log.keep(record)
        self._record_by_id.update(dict.fromkeys(record.ids, record))
        words = f": {state.message}" if state.message else ""
        missing = CallError("truncated", f"the batch ({state.status}) has no result{words}")
        self._deliver(record, results, missing)
        return True

    async def _read(
        self, endpoint: BatchEndpoint, record: BatchRecord, state: BatchState
    ) -> dict[str, BatchResult]:
        """Return the results of a batch by call; of several for a call, the first counts."""
        results: dict[str, BatchResult] = {}
        n_twice = n_foreign = 0
        ids = set(record.ids)
        async for id_, result in endpoint.results(state):
            if id_ not in ids:
                n_foreign += 1
            elif id_ in results:
                n_twice += 1
            else:
                results[id_] = result
        for n, words in (
            (n_twice, "for a call that already has one"),
            (n_foreign, "for unknown calls"),
        ):
            if n and results:
                counted = f"{how_many(n, 'result')} {words} {'was' if n == 1 else 'were'}"
                self.notes.append(f"batch {record.batch}: {counted} left out")
        return results

    def _deliver(
        self, record: BatchRecord, results: Mapping[str, BatchResult], otherwise: CallError
    ) -> None:
        """Pass the results of a batch to the calls that wait, and keep those of later calls."""
        self.states.pop(record.name, None)
        for id_ in record.ids:
            result = results.get(id_, otherwise)
            waiting = self._waiting.get(id_)
            if waiting is None or waiting.done():
                self._results[id_] = result
            elif isinstance(result, CallError):
                waiting.set_exception(result)
            else:
                waiting.set_result(result)
        self._on_change()

    def _is_hopeless(self, error: CallError, n_failed: int, began: float) -> bool:
        """Return whether asking again is useless after so many errors in a row."""
        if error.status in GONE or self._clock() - began > LONGEST_S:
            return True
        return error.kind not in PASSING and n_failed >= MAX_TRIES

    def _forget(self, record: BatchRecord) -> None:
        for id_ in record.ids:
            self._record_by_id.pop(id_, None)

    def _say(self, record: BatchRecord, status: str, n_done: int = 0) -> None:
        """Report the progress of a batch."""
        place, model, stage, n = record.place, record.model, record.stage, len(record.ids)
        waiting = WaitingBatch(place, model, stage, n, status, record.batch, n_done)
        self.states[record.name] = waiting
        self._on_change()


def call_id(call: Call) -> str:
    """Return the id of a call, the same in every run; another prompt gives another id."""
    parts = [call.key, call.attempt, call.seat.model]
    messages = call.messages
    parts += [[message.role, message.content] for message in messages]
    parts += [image.url for message in messages for image in message.images]
    return f"{call.stage}-{hashlib.sha256(json_bytes(parts)).hexdigest()[:40]}"


def _unpack(result: BatchResult) -> Reply:
    if isinstance(result, CallError):
        raise result
    return result
