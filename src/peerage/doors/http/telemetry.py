"""OpenTelemetry traces: a span for each session, and within it a span for every call to a model.

The standard `OTEL_*` variables configure the exporter with its endpoint and headers, the name of
the service and other attributes, sampling and batches. Names follow the GenAI conventions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from peerage.bills import CallMade, call_made
from peerage.config import OPENAI_URL
from peerage.errors import MissingExtraError, UsageError, install_command, shown
from peerage.events import Asked, Fact, Failed, Finished, Opened, read_event
from peerage.hosts import is_host_of
from peerage.types import Event, Seat

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

NS = 1_000_000_000
NAME = "peerage"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OTLP_HTTP = "http/protobuf"
BROKEN = ("no_quorum", "out_of_budget")  # sessions that ended without a verdict

# gen_ai.provider.name by the host of the vendor; for any other host, the name is the host.
PROVIDER_BY_HOST: Mapping[str, str] = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "openrouter.ai": "openrouter",
    "api.together.xyz": "together_ai",
    "api.together.ai": "together_ai",
    "api.fireworks.ai": "fireworks_ai",
    "api.cerebras.ai": "cerebras",
    "api.deepinfra.com": "deepinfra",
    "api.moonshot.ai": "moonshot_ai",
    "integrate.api.nvidia.com": "nvidia",
}
Attributes = dict[str, str | int | float]


def is_telemetry_configured(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a variable sets an endpoint for traces and OpenTelemetry is installed."""
    is_installed = find_spec("opentelemetry") and find_spec("opentelemetry.sdk")
    return bool(is_installed) and any(environ.get(name, "").strip() for name in ENDPOINTS)


def provider_name(seat: Seat) -> str:
    """Return the vendor that a seat's calls go to, by its name in the GenAI conventions."""
    if seat.provider != "openai":
        return seat.provider
    host = urlsplit(seat.base_url or OPENAI_URL).hostname or ""
    for vendor, name in PROVIDER_BY_HOST.items():
        if is_host_of(host, vendor):
            return name
    return host


def _exporter(environ: Mapping[str, str] = os.environ) -> SpanExporter | None:
    """Return the exporter that OTEL_TRACES_EXPORTER names, or None if exporting is turned off."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    name = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if name == "none" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if name == "console":
        return ConsoleSpanExporter()
    if name != "otlp":
        raise UsageError(
            f"OTEL_TRACES_EXPORTER: there is no exporter {shown(name)}.",
            hint="Known: otlp, console, none.",
        )
    protocols = [environ[name].strip() for name in PROTOCOLS if environ.get(name, "").strip()]
    if protocols and protocols[0] != OTLP_HTTP:
        raise UsageError(
            f"traces cannot be sent with the protocol {shown(protocols[0])}.",
            hint=f"Set OTEL_EXPORTER_OTLP_PROTOCOL to {OTLP_HTTP}; its usual port is 4318.",
        )
    return OTLPSpanExporter()


class Telemetry:
    """Turns the events of sessions into spans; an observer of a service."""

    def __init__(self, seats: Iterable[Seat], exporter: SpanExporter | None = None) -> None:
        try:
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            exporter = exporter or _exporter()
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"telemetry needs {error.name}.", hint=install_command("telemetry")
            ) from None
        ours = {"service.name": NAME, "service.version": version(NAME)}
        # The variables come last, because attributes passed to `create` override them.
        resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(resource=resource)
        if exporter is not None:
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(NAME, version(NAME))
        self._seats = {seat.name: seat for seat in seats}
        # By session: the span of a running session, and the model of each seat.
        self._running: dict[str, tuple[Span, dict[str, str]]] = {}
        # By session: when the last call to a seat in a stage and round was made.
        self._asked_at: dict[str, dict[tuple[str, str, int], float]] = {}

    def see(self, event: Event) -> None:
        """Update the trace of a session: begin it, note or add a call, or end it."""
        fact, id_ = read_event(event), event.session_id
        if isinstance(fact, Opened):
            self._begin(event, fact)
        elif id_ not in self._running:
            return
        elif isinstance(fact, Asked):
            self._asked_at[id_][fact.seat, fact.stage, fact.round] = event.at
        elif isinstance(fact, Finished):
            self._end(event, fact)
        elif fact is not None and (call := call_made(fact)) is not None:
            self._add_call(event, fact, call)

    def _begin(self, event: Event, opened: Opened) -> None:
        """Begin the span of a session; its parent is the caller's span, if the caller sent one."""
        id_ = event.session_id
        span = self._tracer.start_span(f"invoke_agent {NAME}", start_time=int(event.at * NS))
        span.set_attributes(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": NAME,
                "gen_ai.agent.name": NAME,
                "gen_ai.conversation.id": id_,
            }
        )
        self._running[id_] = span, {seat.name: seat.model for seat in opened.seats}
        self._asked_at[id_] = {}

    def _end(self, event: Event, finished: Finished) -> None:
        from opentelemetry.trace import StatusCode

        span, _ = self._running.pop(event.session_id)
        del self._asked_at[event.session_id]
        span.set_attribute("peerage.status", finished.status)
        if finished.cost_usd is not None:
            span.set_attribute("peerage.cost_usd", finished.cost_usd)
        if finished.status in BROKEN:
            span.set_attribute("error.type", finished.status)
            span.set_status(StatusCode.ERROR, finished.status)
        span.end(int(event.at * NS))

    def _add_call(self, event: Event, fact: Fact, call: CallMade) -> None:
        """Add the span of a call, given the event with its outcome."""
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        session, models = self._running[event.session_id]
        model = models.get(call.seat, "")
        span = self._tracer.start_span(
            f"chat {model or call.seat}",
            set_span_in_context(session),
            kind=SpanKind.CLIENT,
            start_time=int(self._started_at(event, fact, call) * NS),
        )
        span.set_attributes(self._attributes(event, call, model))
        if isinstance(fact, Failed):
            span.set_attribute("error.type", fact.kind)
            span.set_status(StatusCode.ERROR, fact.message)
        span.end(int(event.at * NS))

    def _started_at(self, event: Event, fact: Fact, call: CallMade) -> float:
        """Return when a call began: from its measured duration, or else when it was made."""
        latency_ms: float | None = getattr(fact, "latency_ms", None)
        if latency_ms is not None:
            return event.at - latency_ms / 1000
        asked_at = self._asked_at[event.session_id].get((call.seat, call.stage, call.round))
        return event.at if asked_at is None else min(event.at, asked_at)

    def _attributes(self, event: Event, call: CallMade, model: str) -> Attributes:
        seat, usage = self._seats.get(call.seat), call.usage
        known: dict[str, str | int | float | None] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(seat) if seat else NAME,
            "server.address": urlsplit(seat.base_url).hostname if seat and seat.base_url else None,
            "gen_ai.agent.name": call.seat,
            "gen_ai.request.model": model or None,
            "gen_ai.conversation.id": event.session_id,
            "gen_ai.usage.input_tokens": usage.tokens_in if usage else None,
            "gen_ai.usage.output_tokens": usage.tokens_out if usage else None,
            "peerage.stage": call.stage,
            "peerage.round": call.round,
            "peerage.cost_usd": call.cost_usd,
        }
        return {name: value for name, value in known.items() if value is not None}

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


class TraceParents:
    """ASGI middleware that makes a session part of the trace of the request that starts it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from opentelemetry import context
        from opentelemetry.propagate import extract

        token = context.attach(extract(Headers(scope=scope)))
        try:
            await self.app(scope, receive, send)
        finally:
            context.detach(token)
