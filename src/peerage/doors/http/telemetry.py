"""Sessions as OpenTelemetry traces: a span for each, and one in it for every call of a model.

The names are those of the GenAI conventions, here and nowhere else. Where the spans go is said
by the usual OTEL_* variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerage.errors import MissingExtraError
from peerage.events import Fact, Failed, Finished, Opened, call_made, read_event
from peerage.types import Event

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

NS = 1_000_000_000


class Telemetry:
    """Makes spans of a service's events; an observer of them."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            if exporter is None:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

                exporter = OTLPSpanExporter()
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"telemetry needs {error.name}.", hint="pip install 'peerage[telemetry]'"
            ) from None
        resource = Resource.create({"service.name": "peerage"})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("peerage")
        # The span of each session that runs, and the models of its seats.
        self._running: dict[str, tuple[Span, dict[str, str]]] = {}

    def see(self, event: Event) -> None:
        """Begin, extend or end the trace of a session."""
        fact, id_ = read_event(event), event.session_id
        if isinstance(fact, Opened):
            span = self._tracer.start_span("session", start_time=int(event.at * NS))
            span.set_attributes(
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": id_}
            )
            self._running[id_] = span, {seat.name: seat.model for seat in fact.seats}
        elif isinstance(fact, Finished) and id_ in self._running:
            span, _ = self._running.pop(id_)
            span.set_attribute("peerage.status", fact.status)
            if fact.cost_usd is not None:
                span.set_attribute("peerage.cost_usd", fact.cost_usd)
            span.end(int(event.at * NS))
        elif fact is not None and id_ in self._running:
            self._add_call(event, fact)

    def _add_call(self, event: Event, fact: Fact) -> None:
        """A span for the call whose outcome an event is, if it is one."""
        from opentelemetry.trace import set_span_in_context

        call = call_made(fact)
        if call is None:
            return
        latency_ms = getattr(fact, "latency_ms", None) or 0.0
        session, models = self._running[event.session_id]
        model = models.get(call.seat, "")
        span = self._tracer.start_span(
            f"chat {model or call.seat}",
            set_span_in_context(session),
            start_time=int((event.at - latency_ms / 1000) * NS),
        )
        usage = call.usage
        known: dict[str, str | int | float | None] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "peerage",
            "gen_ai.agent.name": call.seat,
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": event.session_id,
            "peerage.stage": call.stage,
            "peerage.round": call.round,
            "gen_ai.usage.input_tokens": usage.tokens_in if usage else None,
            "gen_ai.usage.output_tokens": usage.tokens_out if usage else None,
            "peerage.cost_usd": call.cost_usd,
            "error.type": fact.kind if isinstance(fact, Failed) else None,
        }
        span.set_attributes({name: value for name, value in known.items() if value is not None})
        span.end(int(event.at * NS))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
