"""Health checks, metrics for Prometheus, and the log."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from fastapi import APIRouter, Request
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import JSONResponse, PlainTextResponse, Response

from peerage.bills import CallMade, call_made
from peerage.doors.http.access import READ, Serving, client_of
from peerage.doors.http.problems import problem
from peerage.errors import VENDOR_KEY
from peerage.events import (
    KIND_BY_TYPE,
    Advised,
    Answered,
    AskedAgain,
    Failed,
    Finished,
    Opened,
    Reviewed,
    read_event,
)
from peerage.providers.calling import answers
from peerage.service import Service
from peerage.stores import StoreError
from peerage.tasks import end, together
from peerage.types import Event, Seat

READY_FOR_S = 60.0  # the result of a check is used for this time
STORE_ANSWERS_S = 3.0  # the store must answer within this time

router = APIRouter(tags=["operations"])


@dataclass(slots=True)
class PanelCheck:
    """The seats that answered at the last check.

    It is repeated when it is too old, and when the panel has changed.
    """

    at: float = float("-inf")
    answering: dict[str, bool] = field(default_factory=dict)
    seats: tuple[Seat, ...] = ()  # that were asked
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def problem_of(self, service: Service) -> str:
        """Return why no session can run now, or an empty string."""
        if service.closing:
            return "the server is shutting down."
        async with self.turn:
            settings = service.settings
            is_old = time.monotonic() - self.at > READY_FOR_S
            if is_old or settings.seats != self.seats:
                await self._ask(service)
        answering = [seat for seat in settings.seats_that("answer") if self.answering[seat.name]]
        if len(answering) < settings.quorum:
            return f"{len(answering)} seats answer, but a session needs {settings.quorum}."
        chair = settings.chair
        if chair is not None and not self.answering[chair.name]:
            return "the chair does not answer."
        return ""

    async def _ask(self, service: Service) -> None:
        seats, caller = service.settings.seats, service.council.caller
        replies = await together(answers(caller, seat) for seat in seats)
        self.seats = seats
        self.answering = {seat.name: ok for seat, ok in zip(seats, replies, strict=True)}
        self.at = time.monotonic()


@dataclass(slots=True)
class StoreCheck:
    """Checks the store with one probe at a time and a time limit."""

    limit_s: float = STORE_ANSWERS_S
    probe: asyncio.Task[None] | None = None

    async def problem_of(self, service: Service) -> str:
        """Return why the store cannot be used now, or an empty string."""
        if self.probe is None or self.probe.done():
            self.probe = asyncio.create_task(service.store.probe())
            self.probe.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([self.probe], timeout=self.limit_s)
        if not self.probe.done():
            return f"the store does not answer within {self.limit_s:.3g} s."
        error = self.probe.exception()
        if error is None:
            return ""
        reason = error.message if isinstance(error, StoreError) else type(error).__name__
        return f"the store cannot be used: {reason}"  # not its address: anyone can read this

    async def close(self) -> None:
        """Stop waiting for the probe."""
        await end([self.probe] if self.probe else [])


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Check that the server runs. This is always quick."""
    return {"status": "ok"}


@router.get("/readyz")
async def ready(service: Serving, request: Request) -> Response:
    """Check that the store, the chair and a quorum of seats answer.

    The store is checked each time, the seats at most once a minute. Only clients that may read
    get the names of the seats.
    """
    if wrong := await request.app.state.store_check.problem_of(service):
        return problem(503, wrong, {"Retry-After": str(int(STORE_ANSWERS_S))})
    check: PanelCheck = request.app.state.panel_check
    wrong = await check.problem_of(service)
    client = client_of(request)
    seats = {"seats": check.answering} if client and "read" in client.allowed else {}
    if wrong:
        return problem(503, wrong, {"Retry-After": str(int(READY_FOR_S))}, **seats)
    return JSONResponse({"status": "ready", **seats})


@router.get("/readyz/store")
async def store_ready(service: Serving, request: Request) -> Response:
    """Check within a few seconds that the store answers a read and accepts a write.

    No seat is called, so the health check of a container can use it.
    """
    if wrong := await request.app.state.store_check.problem_of(service):
        return problem(503, wrong, {"Retry-After": str(int(STORE_ANSWERS_S))})
    return JSONResponse({"status": "ready"})


# -- metrics --------------------------------------------------------------------------------------


OUTCOMES = (Opened, Answered, AskedAgain, Reviewed, Advised, Failed, Finished)
COUNTED = {KIND_BY_TYPE[one] for one in OUTCOMES}
BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counts of a service's sessions and calls; an observer of its events."""

    def __init__(self, service: Service) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # no chart needs these times
        self.service = service
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=BUCKETS_S)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)  # memory, descriptors and CPU time, on Linux
        self.sessions = counter(
            "peerage_sessions_total", "Sessions that ended, by status.", ["status"]
        )
        self.calls = counter(
            "peerage_calls_total", "Calls to models, by seat and stage.", ["seat", "stage"]
        )
        self.failures = counter(
            "peerage_failures_total", "Calls that failed, by kind.", ["kind", "seat", "stage"]
        )
        self.tokens = counter(
            "peerage_tokens_total", "Tokens, by seat and direction.", ["direction", "seat"]
        )
        self.cost = counter("peerage_cost_usd_total", "Cost of calls with a known price.", ["seat"])
        self.latency = histogram("peerage_call_seconds", "How long calls took.", ["seat", "stage"])
        self.duration = histogram("peerage_session_seconds", "How long sessions took.")
        self._opened_at: dict[str, float] = {}
        service.observers.append(self.see)
        service.call_observers.append(self.count_call)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are read from the service when Prometheus asks for them."""
        running, queued = self.service.n_running, self.service.n_queued
        yield GaugeMetricFamily("peerage_sessions_running", "Sessions that run now.", running)
        yield GaugeMetricFamily("peerage_sessions_queued", "Sessions that wait to run.", queued)
        yield CounterMetricFamily(
            "peerage_lease_takeovers_total",
            "Sessions that were taken over from another server.",
            self.service.n_takeovers,
        )
        tasks = len(asyncio.all_tasks())
        yield GaugeMetricFamily("peerage_tasks", "Tasks of the event loop.", tasks)

    def see(self, event: Event) -> None:
        """Count an event."""
        fact = read_event(event) if event.kind in COUNTED else None
        if isinstance(fact, Opened):
            self._opened_at[event.session_id] = event.at
        elif isinstance(fact, Finished):
            self.sessions.labels(status=fact.status).inc()
            opened_at = self._opened_at.pop(event.session_id, None)
            if opened_at is not None:
                self.duration.observe(max(0.0, event.at - opened_at))
        elif isinstance(fact, Failed):
            self.failures.labels(seat=fact.seat, stage=fact.stage, kind=fact.kind).inc()
        call = None if fact is None else call_made(fact)
        if call is None or call.usage is None:
            return
        self.count_call(call)
        latency_ms = getattr(fact, "latency_ms", None)
        if latency_ms is not None:
            self.latency.labels(seat=call.seat, stage=call.stage).observe(latency_ms / 1000)

    def count_call(self, call: CallMade) -> None:
        """Count a call, its tokens and its cost; also called for calls outside sessions."""
        if call.usage is None:
            return
        self.calls.labels(seat=call.seat, stage=call.stage).inc()
        self.tokens.labels(seat=call.seat, direction="in").inc(call.usage.tokens_in or 0)
        self.tokens.labels(seat=call.seat, direction="out").inc(call.usage.tokens_out or 0)
        self.cost.labels(seat=call.seat).inc(call.cost_usd or 0.0)


@router.get("/metrics", dependencies=[READ], response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Return metrics for Prometheus: sessions, calls, failures, tokens, cost, queue, takeovers."""
    text = generate_latest(request.app.state.metrics.registry)
    return PlainTextResponse(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


# -- the log --------------------------------------------------------------------------------------

MARK = "[key]"


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON and removes texts that look like keys or tokens."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if session := getattr(record, "session", ""):
            line["session"] = session
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return VENDOR_KEY.sub(MARK, json.dumps(line, default=str))


def log_to_stderr(level: str) -> None:
    """Write log records of a level and above to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
