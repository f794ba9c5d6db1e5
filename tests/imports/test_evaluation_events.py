"""Evaluation events as an OTLP receiver gets them: every mark of imported reviews, and no text."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from peerage.errors import PeerageError
from peerage.imports.evaluation_events import (
    collector_headers,
    collector_url,
    review_events,
    send_evaluations,
)

REVIEW = {"session_id": "s1", "reviewer": "r", "candidate": "x", "at": 1.5, "text": "secret"}


class Receiver:
    """A receiver of OTLP logs on loopback that keeps their bodies and answers as told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status, self.reply = 200, b"{}"
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                self.send_response(receiver.status)
                self.send_header("content-length", str(len(receiver.reply)))
                self.end_headers()
                self.wfile.write(receiver.reply)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def records(self):
        """Return the log records, read by the protocol's own types."""
        from google.protobuf.json_format import Parse
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        requests = [Parse(body, ExportLogsServiceRequest()) for _, _, body in self.requests]
        return [
            record
            for request in requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


@pytest.fixture
def receiver():
    started = Receiver()
    yield started
    started.close()


def attributes(record):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes}


def test_imported_reviews_arrive_as_evaluation_events(receiver, tmp_path, forks):
    rows = [
        {**REVIEW, "score": 8.0, "rank": 1, "mark_clarity": 7.0, "position": 0},
        {**REVIEW, "candidate": "y", "score": 5.0, "rank": 2, "mark_clarity": None, "position": 1},
    ]
    (tmp_path / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environ = {
        "PATH": "/usr/bin:/bin",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
    }
    forks.run(("import", "reviews.jsonl"), cwd=tmp_path, env=environ, text=None)
    sent = forks.run(("export", "--as", "otlp"), cwd=tmp_path, env=environ, text=None)
    assert "3 entries sent" in sent.stdout, sent.stderr
    ((path, headers, body),) = receiver.requests
    assert (path, headers["authorization"]) == ("/v1/logs", "Bearer x")
    assert b"secret" not in body
    records = receiver.records()
    assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
    assert {record.time_unix_nano for record in records} == {1_500_000_000}
    events = [attributes(record) for record in records]
    marks = [
        (one["gen_ai.response.model"], one["gen_ai.evaluation.name"],
         one["gen_ai.evaluation.score.value"])
        for one in events
    ]  # fmt: skip
    assert marks == [("x", "score", 8.0), ("x", "clarity", 7.0), ("y", "score", 5.0)]
    assert events[0]["gen_ai.conversation.id"] == "s1"
    assert (events[0]["peerage.reviewer"], events[0]["peerage.position"]) == ("r", 0)


def test_a_review_that_only_ranks_is_one_event_and_an_abstention_says_so():
    names = [
        {one["key"]: one["value"] for one in event["attributes"]}
        for row in ({**REVIEW, "rank": 2.0}, REVIEW)
        for event in review_events(row)
    ]
    assert names[0]["gen_ai.evaluation.name"] == {"stringValue": "rank"}
    assert names[0]["gen_ai.evaluation.score.value"] == {"doubleValue": 2.0}
    assert names[1]["error.type"] == {"stringValue": "abstained"}


def test_many_reviews_go_in_several_requests(receiver):
    rows = ({**REVIEW, "session_id": f"s{i}", "score": 1.0} for i in range(2_500))
    variables = {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{receiver.url}/logs"}
    assert send_evaluations(rows, "1", variables) == 2_500
    assert [path for path, _, _ in receiver.requests] == ["/logs"] * 3
    assert len(receiver.records()) == 2_500


@pytest.mark.parametrize(
    ("status", "reply", "words"),
    [
        (503, b"", "answered 503"),
        (307, b"", "answered 307"),
        (200, b'{"partialSuccess": {"rejectedLogRecords": "1"}}', "rejected 1 events"),
    ],
)
def test_a_collector_that_does_not_take_events_is_an_error(receiver, status, reply, words):
    receiver.status, receiver.reply = status, reply
    with pytest.raises(PeerageError, match=words):
        send_evaluations(
            [{**REVIEW, "score": 1.0}], "1", {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        )


def test_a_collector_that_is_not_there_is_named(receiver):
    receiver.close()
    with pytest.raises(PeerageError, match="cannot be reached"):
        send_evaluations([REVIEW], "1", {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})


def test_addresses_and_headers_follow_the_standard_variables():
    assert (
        collector_url({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318/"}) == "http://h:4318/v1/logs"
    )
    with pytest.raises(PeerageError, match="is not the address of a collector"):
        collector_url({"OTEL_EXPORTER_OTLP_ENDPOINT": "h:4317"})
    with pytest.raises(PeerageError, match="no file and no collector was given"):
        collector_url({})
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "a=1, b=x%2Cy"}
    assert collector_headers(headers) == {"a": "1", "b": "x,y"}
