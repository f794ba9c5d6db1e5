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

from peerage.council.fold import fold
from peerage.stores import open_store
from tests.postgres_server import PostgresServer

LEASE_S = 1.5
N_SESSIONS = 40
PANEL = """
[council]
seed = 7
[[seat]]
name = "a"
provider = "simulated"
options = {latency_ms = 300}
[[seat]]
name = "b"
provider = "simulated"
options = {latency_ms = 400}
[[seat]]
name = "c"
provider = "simulated"
options = {latency_ms = 500}
"""


class Serving:
    """A `peerage serve` in a process of its own."""

    def __init__(self, folder, url):
        (folder / "peerage.toml").write_text(PANEL)
        self.log = folder / f"{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "peerage", "serve", "--port", "0", "--max-running", "5"],
                cwd=folder,
                env={**os.environ, "PEERAGE_STORE": url, "PEERAGE_LEASE_S": str(LEASE_S)},
                stderr=log,
            )
        while not (found := re.search(r"http://[\d.:]+\b", self.said)):
            assert self.process.poll() is None, self.said
            time.sleep(0.05)
        self.address = found[0]

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
    serving = []
    try:
        url = database.new_database()
        one, two = serving[:] = [Serving(tmp_path, url) for _ in range(2)]
        assert "sesame" not in one.said
        ids = one.start(N_SESSIONS // 2) + two.start(N_SESSIONS // 2)
        time.sleep(1)
        one.stop(signal.SIGKILL)
        serving[0] = three = Serving(tmp_path, url)
        two.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * LEASE_S)
        two.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        database.control("restart", "--mode", "immediate")
        until_finished(url, ids)
        check_log(url, ids)
        for id_ in ids[:3]:
            assert two.events(id_) == three.events(id_) == list(range(len(two.events(id_))))
    finally:
        for server in serving:
            if server.process.poll() is None:
                server.stop()
        database.close()


def until_finished(url, ids):
    deadline = time.monotonic() + 90
    store = open_store(url)
    while left := [row.id for row in store.sessions() if not row.status]:
        assert time.monotonic() < deadline, f"{len(left)} of {len(ids)} are not finished"
        time.sleep(0.2)


def check_log(url, ids):
    """Every event once, in order, under an epoch that never goes back; every seat heard once."""
    store = open_store(url)
    assert {row.id for row in store.sessions()} == set(ids)
    with psycopg.connect(url, options="-c search_path=peerage") as db:
        rows = db.execute("SELECT session_id, seq, epoch FROM events ORDER BY 1, 2").fetchall()
    n_takeovers = 0
    for id_ in ids:
        mine = [(seq, epoch) for session_id, seq, epoch in rows if session_id == id_]
        assert [seq for seq, _ in mine] == list(range(len(mine)))
        epochs = [epoch for _, epoch in mine]
        assert epochs == sorted(epochs)
        assert epochs[0] > 0
        n_takeovers += len(set(epochs)) - 1
        events = store.events(id_)
        heard = Counter((e.kind, e.body.get("seat"), e.body.get("reviewer")) for e in events)
        assert set(heard.values()) == {1}
        session = fold(events)
        assert (session.status, len(session.responses), len(session.reviews)) == ("done", 3, 3)
    assert n_takeovers > 0
