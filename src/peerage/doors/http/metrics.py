"""Counts of what a server does, in the text format of Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

from peerage.doors.http.access import READ
from peerage.events import KIND_BY_TYPE, Advised, Answered, Failed, Opened, Reviewed
from peerage.service import Service, is_finished
from peerage.types import Event

router = APIRouter(tags=["operations"])

OPENED, FAILED = KIND_BY_TYPE[Opened], KIND_BY_TYPE[Failed]
STAGE_BY_KIND = {
    KIND_BY_TYPE[Answered]: "answer",
    KIND_BY_TYPE[Reviewed]: "review",
    KIND_BY_TYPE[Advised]: "conclude",
}
BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Counter:
    """Sums by labels."""

    name: str
    about: str
    values: dict[Labels, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, amount: float = 1.0, **labels: str) -> None:
        self.values[tuple(sorted(labels.items()))] += amount

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.about, "counter")
        for labels, value in self.values.items():
            yield f"{self.name}{_spelt(labels)} {value:g}"


@dataclass(slots=True)
class Histogram:
    """How many took how long, by labels."""

    name: str
    about: str
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, seconds: float, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        counts = self.counts.setdefault(key, [0] * (len(BUCKETS_S) + 1))
        for i, limit in enumerate((*BUCKETS_S, float("inf"))):
            counts[i] += seconds <= limit
        self.sums[key] += seconds

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.about, "histogram")
        for labels, counts in self.counts.items():
            for limit, n in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
                yield f"{self.name}_bucket{_spelt((*labels, ('le', limit)))} {n}"
            yield f"{self.name}_sum{_spelt(labels)} {self.sums[labels]:g}"
            yield f"{self.name}_count{_spelt(labels)} {counts[-1]}"


class Metrics:
    """What the sessions of a service come to; an observer of its events."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.sessions = Counter("peerage_sessions_total", "Sessions that ended, by how.")
        self.calls = Counter("peerage_calls_total", "Calls of models, by seat and stage.")
        self.failures = Counter("peerage_failures_total", "Calls that failed, by kind.")
        self.tokens = Counter("peerage_tokens_total", "Tokens, by seat and direction.")
        self.cost = Counter("peerage_cost_usd_total", "What calls cost, where it is known.")
        self.latency = Histogram("peerage_call_seconds", "How long calls took.")
        self.duration = Histogram("peerage_session_seconds", "How long sessions took.")
        self._opened_at: dict[str, float] = {}
        service.observers.append(self.see)

    def see(self, event: Event) -> None:
        """Count an event, from its JSON: most of it is text, which need not be read for that."""
        body, kind = event.body, event.kind
        if kind == OPENED:
            self._opened_at[event.session_id] = event.at
        elif is_finished(event):
            self.sessions.add(status=body["status"])
            opened_at = self._opened_at.pop(event.session_id, None)
            if opened_at is not None:
                self.duration.add(max(0.0, event.at - opened_at))
        elif kind == FAILED:
            self.failures.add(seat=body["seat"], stage=body["stage"], kind=body["kind"])
            self._count_call(body, body["seat"], body["stage"])
        elif kind in STAGE_BY_KIND:
            self._count_call(body, body.get("seat") or body["reviewer"], STAGE_BY_KIND[kind])

    def _count_call(self, body: Mapping[str, Any], seat: str, stage: str) -> None:
        usage = body.get("usage")
        if usage is None:  # it was not sent
            return
        self.calls.add(seat=seat, stage=stage)
        self.tokens.add(usage.get("tokens_in") or 0, seat=seat, direction="in")
        self.tokens.add(usage.get("tokens_out") or 0, seat=seat, direction="out")
        self.cost.add(usage.get("cost_usd") or 0.0, seat=seat)
        latency_ms = body.get("latency_ms")
        if latency_ms is not None:
            self.latency.add(latency_ms / 1000, seat=seat, stage=stage)

    def text(self) -> str:
        """All of it as Prometheus reads it."""
        service = self.service
        gauges = (
            ("peerage_sessions_running", "Sessions that run now.", service.n_running),
            ("peerage_sessions_queued", "Sessions that wait for their turn.", service.n_queued),
        )
        lines: list[str] = []
        for name, about, value in gauges:
            lines += [*_head(name, about, "gauge"), f"{name} {value}"]
        name = "peerage_lease_takeovers_total"
        about = "Sessions that were taken over from another server."
        lines += [*_head(name, about, "counter"), f"{name} {service.n_takeovers}"]
        kinds = (self.sessions, self.calls, self.failures, self.tokens, self.cost)
        for one in (*kinds, self.latency, self.duration):
            lines += one.lines()
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> Iterable[str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _spelt(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in labels) + "}"


@router.get("/metrics", dependencies=[READ], response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Sessions, calls, failures, tokens, cost, queue and takeovers, for Prometheus."""
    counted: Metrics = request.app.state.metrics
    return PlainTextResponse(counted.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
