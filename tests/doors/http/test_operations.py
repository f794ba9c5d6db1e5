"""What an operator sees: health, metrics, webhooks, traces; and clients that leave or lag."""

import asyncio
import hashlib
import hmac
import json
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from peerage.doors.http import AppSettings
from peerage.doors.http.webhooks import Webhooks, WebhookSettings, is_public
from peerage.errors import UsageError
from peerage.events import Finished, Opened, ScoringRecord, stored_event
from peerage.panel import Council
from peerage.service import Service
from peerage.types import Query, Seat
from tests.shared.store_trouble import check_replaced
from tests.shared.waiting import wait_until

SECRET = "a secret of some length"  # noqa: S105 - and of nobody
ENDED = (
    stored_event(
        "s1",
        0,
        0.5,
        Opened(Query("Why?"), "1", 0, "", (), law=ScoringRecord(rubric=None, order="balanced")),
    ),
    stored_event("s1", 1, 1.0, Finished("done", 0.25)),
)


@pytest.fixture
def receiver():
    """A server on loopback that keeps what it is sent, and fails as often as it is told."""
    kept, failures = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.append((dict(self.headers), body))
            self.send_response(failures.pop() if failures else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.kept, server.failures = kept, failures
    server.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def send(store_url):
    """Has a server's webhooks told of a session that ended, or was over before they started."""

    def tell(settings, waits_s=(0.0, 0.0), sees=True):
        async def run():
            seats = [Seat(name, provider="simulated") for name in "abc"]
            service = Service(Council(store=store_url, seats=seats))
            webhooks = Webhooks(settings, service, waits_s)
            if sees:
                for event in ENDED:
                    await service.store.append(event)
                    webhooks.see(event)
            webhooks.start()
            await webhooks.close(60.0)
            await service.close()

        asyncio.run(run())

    return tell


def test_metrics_count_sessions_calls_failures_and_money(serving):
    seats = [
        Seat("ann", provider="simulated", price_in=1.0, price_out=1.0),
        Seat("bob", provider="simulated"),
        Seat("cyd", provider="simulated", options={"failure_rate": 1.0, "failure_kind": "refused"}),
    ]
    with serving(seats) as server:
        server.hold()
        text = server.client.get("/metrics").text
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    values = {name: float(value) for name, value in pairs}
    assert values['peerage_sessions_total{status="done"}'] == 1
    assert values['peerage_failures_total{kind="refused",seat="cyd",stage="answer"}'] == 1
    assert values['peerage_calls_total{seat="ann",stage="answer"}'] == 1
    assert values['peerage_cost_usd_total{seat="ann"}'] > 0
    assert values['peerage_tokens_total{direction="out",seat="bob"}'] > 0
    assert values["peerage_sessions_running"] == values["peerage_sessions_queued"] == 0
    assert values["peerage_session_seconds_count"] == 1
    assert values['peerage_call_seconds_bucket{le="+Inf",seat="ann",stage="answer"}'] == 1
    assert values["peerage_lease_takeovers_total"] == 0
    assert not [name for name in values if "_created" in name]


def test_ready_means_that_a_quorum_answers(serving):
    broken = {"failure_rate": 1.0, "failure_kind": "unauthorized"}
    seats = [Seat(name, provider="simulated", options=broken) for name in "ab"]
    with serving([*seats, Seat("c", provider="simulated")]) as server:
        answer = server.client.get("/readyz")
        assert answer.status_code == 503
        assert server.client.get("/healthz").json() == {"status": "ok"}
    with serving() as server:
        assert server.client.get("/readyz").status_code == 200


def test_a_server_whose_store_does_not_answer_is_alive_and_not_ready(serving, tmp_path):
    with serving() as server, closing(sqlite3.connect(tmp_path / "s.db")) as other:
        server.app.state.store_check.limit_s = 0.2
        assert server.client.get("/readyz/store").json() == {"status": "ready"}
        other.execute("BEGIN IMMEDIATE")
        for path in ("/readyz", "/readyz/store"):
            answer = server.client.get(path)
            assert answer.status_code == 503
            assert "the store does not answer" in answer.json()["detail"]
        assert server.client.get("/healthz").json() == {"status": "ok"}
        other.rollback()
        server.app.state.store_check.limit_s = 60.0
        assert server.client.get("/readyz").status_code == 200


def test_a_server_whose_store_is_gone_is_not_ready_and_accepts_nothing(serving, tmp_path):
    with serving() as server:
        check_replaced(server.client, tmp_path / "s.db")


def test_a_webhook_is_signed_and_sent_again_until_it_is_taken(receiver, send):
    receiver.failures += [500, 302]
    send(WebhookSettings((receiver.url,), SECRET, allow_private=True))
    assert len(receiver.kept) == 3
    assert len({headers["Peerage-Delivery"] for headers, _ in receiver.kept}) == 1
    headers, body = receiver.kept[-1]
    at, digest = (part.split("=")[1] for part in headers["Peerage-Signature"].split(","))
    signed = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert digest == signed
    assert json.loads(body)["session"] == "s1"


def test_a_webhook_has_the_verdict_the_winner_and_a_link(receiver, serving):
    told = WebhookSettings((receiver.url,), SECRET, allow_private=True)
    settings = AppSettings(webhooks=told, public_url="https://council.example/")
    with serving(settings=settings) as server:
        id_ = server.hold("Why is it so?")
        session = server.client.get(f"/api/sessions/{id_}").json()
    message = json.loads(receiver.kept[-1][1])
    assert message["url"] == f"https://council.example/sessions/{id_}"
    assert message["verdict"]["text"] == session["verdict"]["text"]
    assert message["query"] == "Why is it so?"
    best = [one["model"] for one in session["scores"] if one["final_rank"] == 1]
    assert message["winner"] == ", ".join(best)


def test_a_webhook_in_a_private_network_is_not_reached_unless_allowed(receiver, send):
    port = receiver.server_address[1]
    hosts = ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]")
    send(WebhookSettings(tuple(f"http://{host}:{port}/" for host in hosts), SECRET))
    assert receiver.kept == []
    private = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1")
    assert not any(map(is_public, private))
    assert is_public("93.184.216.34")


def make_due(store_url, told):
    """End the pause before the next try to send the message of the session that ended."""

    async def run():
        seats = [Seat(name, provider="simulated") for name in "abc"]
        service = Service(Council(store=store_url, seats=seats))
        for target in Webhooks(told, service).url_by_target:
            service.store.settle_webhook("s1", target, 0.0)
        await service.close()

    asyncio.run(run())


def test_a_webhook_that_was_not_taken_before_a_stop_is_sent_after_the_next_start(
    receiver, send, store_url
):
    told = WebhookSettings((receiver.url,), SECRET, allow_private=True)
    receiver.failures += [503]
    send(told, waits_s=(600.0,))
    send(told, sees=False)
    assert len(receiver.kept) == 1  # it is not due yet
    make_due(store_url, told)
    send(told, sees=False)
    first, second = receiver.kept
    assert first[0]["Peerage-Delivery"] == second[0]["Peerage-Delivery"]
    assert first[1] == second[1]
    send(told, sees=False)
    assert len(receiver.kept) == 2


KILLED = """
import asyncio, os, sys
from peerage.doors.http.webhooks import Webhooks, WebhookSettings
from peerage.panel import Council
from peerage.service import Service, SessionRequest
from peerage.types import Seat

async def main(url, place):
    seats = [Seat(name, provider="simulated") for name in "abc"]
    service = Service(Council(store=url, seats=seats))
    webhooks = Webhooks(WebhookSettings((place,), "a secret of some length", True), service)
    service.observers.append(webhooks.see)
    id_ = await service.start(SessionRequest(query="Why?"))
    async for _ in service.watch(id_):
        pass
    print(id_, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_webhook_of_a_server_that_was_killed_is_sent_by_the_next(receiver, send, store_url):
    script = [sys.executable, "-c", KILLED, store_url, receiver.url]
    killed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert receiver.kept == []
    send(WebhookSettings((receiver.url,), SECRET, allow_private=True), sees=False)
    assert [json.loads(body)["session"] for _, body in receiver.kept] == [killed.stdout.strip()]


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("ftp://host/x", SECRET),
        ("nothing", SECRET),
        ("http://u:p@host/", SECRET),
        ("http://h/", ""),
    ],
)
def test_a_webhook_that_cannot_be_is_refused(url, secret):
    with pytest.raises(UsageError):
        WebhookSettings((url,), secret)


def test_a_server_tells_its_webhook_of_every_session_that_ends(serving, receiver):
    told = WebhookSettings((receiver.url,), SECRET, allow_private=True)
    with serving(settings=AppSettings(webhooks=told)) as server:
        id_ = server.hold()
    assert [json.loads(body)["session"] for _, body in receiver.kept] == [id_]


def test_a_client_that_leaves_or_lags_costs_no_session_and_leaves_no_task(serving):
    slow = [Seat(name, provider="simulated", options={"latency_ms": 200}) for name in "abc"]
    with serving(slow) as server:
        started = server.client.post("/api/sessions", json={"query": "Why?"})
        place = f"{started.headers['location']}/events"
        address = (server.client.base_url.host, server.client.base_url.port)
        request = f"GET {place} HTTP/1.1\r\nHost: {address[0]}\r\n\r\n".encode()
        leaving, lagging = socket.create_connection(address), socket.create_connection(address)
        leaving.sendall(request)
        lagging.sendall(request)  # and never reads
        leaving.recv(100)
        leaving.close()
        assert server.client.get(place).text.count("event: finished") == 1
        lagging.close()
        wait_until(lambda: not watchers(server))


def watchers(server):
    """The tasks of the server's loop that wait for events of a session."""

    async def running():
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        return [
            name for name in names if "Service.watch" in name or "asend" in name or "_hold" in name
        ]

    return asyncio.run_coroutine_threadsafe(running(), server.loop).result(10)
