"""Two servers on one PostgreSQL: what happens to one of them costs no session anything."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import httpx
import psycopg
import pytest

from peerage.stores import open_store
from peerage.view import fold
from tests.shared.postgres_server import PostgresServer
from tests.shared.waiting import wait_until

LEASE_S = 1.5
N_SESSIONS = 40
PANEL = """
[council]
seed = 7
[[seat]]
name = "a"
provider = "simulated"
options = {latency_ms = 600}
[[seat]]
name = "b"
provider = "simulated"
options = {latency_ms = 700}
[[seat]]
name = "c"
provider = "simulated"
options = {latency_ms = 800}
"""


class Serving:
    """A `peerage serve` in a process of its own."""

    def __init__(self, folder, url):
        (folder / "peerage.toml").write_text(PANEL)
        self.log = folder / f"{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "peerage", "serve", "--port", "0", "--max-running", "6"],
                cwd=folder,
                env={**os.environ, "PEERAGE_STORE": url, "PEERAGE_LEASE_S": str(LEASE_S)},
                stderr=log,
            )

    def listening(self):
        found = wait_until(lambda: re.search(r"http://[\d.:]+\b", self.said), self.process)
        self.address = found[0]
        return self

    @property
    def said(self):
        return self.log.read_text()

    def start(self, n):
        with httpx.Client(base_url=self.address, timeout=60) as client:
            return [self._started(client, i) for i in range(n)]

    def _started(self, client, i):
        reply = client.post("/api/sessions", json={"query": f"Question {i}?"})
        reply.raise_for_status()
        return reply.json()["id"]

    def events(self, id_):
        """The places of the events that a watcher of this server is sent, to the end."""
        with httpx.stream("GET", f"{self.address}/api/sessions/{id_}/events", timeout=60) as reply:
            return [int(line[4:]) for line in reply.iter_lines() if line.startswith("id: ")]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)


@pytest.mark.slow
@pytest.mark.needs("postgres")
def test_sessions_survive_what_happens_to_their_servers(tmp_path):
    database = PostgresServer("fsync = off")
    servers = []
    try:
        url = database.new_database()
        servers += [Serving(tmp_path, url) for _ in range(2)]
        one, two = (server.listening() for server in servers)
        assert "sesame" not in one.said
        ids = two.start(N_SESSIONS - 6)
        stop_until_taken_over(two, url)
        database.control("restart", "--mode", "immediate")
        ids += one.start(6)
        n_before = n_takeovers(url)
        one.stop(signal.SIGKILL)
        until_finished(url)
        assert n_takeovers(url) > n_before
        check_log(url, ids)
        for id_ in (ids[0], ids[-1]):
            places = two.events(id_)
            assert places == list(range(len(places)))
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.stop()
        database.close()


def stop_until_taken_over(server, url):
    """Stop a server for two leases at least, and wake it when the other writes its sessions."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(2 * LEASE_S)
    wait_until(lambda: n_takeovers(url))
    server.process.send_signal(signal.SIGCONT)
    time.sleep(1)


def n_unfinished(url):
    return sum(not row.status for row in open_store(url).sessions())


def until_finished(url):
    wait_until(lambda: not n_unfinished(url))


def epochs_by_session(url):
    """The epochs under which the events of each session were written, in their order."""
    epochs = {}
    with psycopg.connect(url, options="-c search_path=peerage") as db:
        for id_, epoch in db.execute("SELECT session_id, epoch FROM events ORDER BY 1, seq"):
            epochs.setdefault(id_, []).append(epoch)
    return epochs


def n_takeovers(url):
    return sum(len(set(epochs)) - 1 for epochs in epochs_by_session(url).values())


def check_log(url, ids):
    """Every event once, in order, under an epoch that never goes back; every seat heard once."""
    store = open_store(url)
    assert {row.id for row in store.sessions()} == set(ids)
    for epochs in epochs_by_session(url).values():
        assert epochs == sorted(epochs)
        assert epochs[0] > 0
    for id_ in ids:
        events = store.events(id_)
        assert [event.seq for event in events] == list(range(len(events)))
        heard = Counter((e.kind, e.body.get("seat"), e.body.get("reviewer")) for e in events)
        assert set(heard.values()) == {1}
        session = fold(events)
        assert (session.status, len(session.responses), len(session.reviews)) == ("done", 3, 3)
