"""Traces as a collector receives them, by OTLP over HTTP, and as the OTEL_* variables say."""

import gzip
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from peerage.doors.http import AppSettings
from peerage.doors.http.telemetry import Telemetry, is_telemetry_configured, provider_name
from peerage.errors import UsageError
from peerage.types import Seat
from tests.doors.http.conftest import simulated

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """A receiver of OTLP on loopback: the spans, the attributes of the service, the headers."""

    def __init__(self):
        self.spans, self.resources, self.headers = [], [], []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, dict(self.headers), body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, path, headers, body):
        assert path == "/v1/traces"
        self.headers.append({name.lower(): value for name, value in headers.items()})
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(attributes(resource_spans.resource))
            for scope in resource_spans.scope_spans:
                self.spans += scope.spans

    def named(self, start):
        return [span for span in self.spans if span.name.startswith(start)]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


def attributes(part):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in part.attributes}


@pytest.fixture
def collector(monkeypatch):
    """A collector that the variables name."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    started = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", started.url)
    yield started
    started.close()


TRACED = {"settings": AppSettings(telemetry=True)}


def test_a_trace_has_a_span_for_each_call_by_the_genai_names(serving, collector):
    seats = [Seat(name, provider="simulated", model=f"m-{name}") for name in "abc"]
    with serving(seats, **TRACED) as server:
        id_ = server.hold()
    (session,) = collector.named("invoke_agent")
    calls = collector.named("chat ")
    assert attributes(session)["gen_ai.conversation.id"] == id_
    assert len(calls) == 7
    assert {attributes(span)["gen_ai.request.model"] for span in calls} == {"m-a", "m-b", "m-c"}
    assert {attributes(span)["gen_ai.provider.name"] for span in calls} == {"simulated"}
    assert {span.parent_span_id for span in calls} == {session.span_id}
    assert {span.kind for span in calls} == {Span.SPAN_KIND_CLIENT}
    assert all(attributes(span)["gen_ai.usage.output_tokens"] >= 0 for span in calls)


def test_a_failed_call_is_an_error_and_has_its_duration(serving, collector):
    broken = Seat(
        "zoe",
        provider="simulated",
        options={"failure_rate": 1.0, "failure_kind": "bad_request", "latency_ms": 50},
    )
    with serving([*simulated("ann", "bob", "cyd"), broken], **TRACED) as server:
        server.hold()
    failed = [one for one in collector.named("chat ") if "error.type" in attributes(one)]
    assert {attributes(span)["gen_ai.agent.name"] for span in failed} == {"zoe"}
    for span in failed:
        assert attributes(span)["error.type"] == "bad_request"
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert "configured to fail" in span.status.message
        assert span.end_time_unix_nano - span.start_time_unix_nano >= 40_000_000


def test_a_session_without_a_quorum_is_an_error(serving, collector):
    options = {"failure_rate": 1.0, "failure_kind": "bad_request"}
    with serving(simulated("ann", "bob", "cyd", **options), **TRACED) as server:
        server.hold()
    (session,) = collector.named("invoke_agent")
    assert session.status.code == Status.STATUS_CODE_ERROR
    assert attributes(session)["error.type"] == "no_quorum"


def test_a_session_belongs_to_the_trace_of_its_request(serving, collector):
    with serving(**TRACED) as server:
        body = {"model": "council", "messages": [{"role": "user", "content": "Why?"}]}
        server.client.post("/v1/chat/completions", json=body, headers={"traceparent": PARENT})
        server.hold()
    traced, alone = sorted(collector.named("invoke_agent"), key=lambda s: not s.parent_span_id)
    _, trace_id, span_id, _ = PARENT.split("-")
    assert (traced.trace_id.hex(), traced.parent_span_id.hex()) == (trace_id, span_id)
    assert alone.parent_span_id == b""
    assert alone.trace_id != traced.trace_id


def test_the_variables_name_the_service_its_attributes_and_headers(serving, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-council")
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=x"
    )
    with serving(**TRACED) as server:
        server.hold()
    assert collector.headers[0]["x-key"] == "abc"
    assert collector.resources[0]["service.name"] == "our-council"
    assert collector.resources[0]["deployment.environment.name"] == "test"


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
)
def test_the_variables_switch_it_off(serving, collector, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with serving(**TRACED) as server:
        server.hold()
    assert collector.spans == []


def test_the_service_is_peerage_unless_a_variable_says_otherwise(serving, collector):
    with serving(**TRACED) as server:
        server.hold()
    assert collector.resources[0]["service.name"] == "peerage"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "Known: otlp, console, none."),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
    ],
)
def test_an_exporter_that_is_not_here_is_refused(collector, monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=says):
        Telemetry([])


def test_an_endpoint_in_the_environment_is_enough():
    assert is_telemetry_configured({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert not is_telemetry_configured({"OTEL_EXPORTER_OTLP_ENDPOINT": " "})


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("", "openai"),
        ("https://api.anthropic.com/v1", "anthropic"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://ours.openai.azure.com/openai/v1", "azure.ai.openai"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gcp.gemini"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1"),
    ],
)
def test_the_provider_is_the_vendor_that_is_called(base_url, name):
    assert provider_name(Seat("a", model="m", base_url=base_url)) == name
