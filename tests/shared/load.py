"""A server under load: `python -m tests.shared.load [--times 10] [--sessions 300] …`.

Real servers, one on SQLite or several on PostgreSQL, hold sessions whose seats fail now and then,
while viewers follow them, people post opinions and ask for ballots, one client exports everything
again and again, and webhooks wait for receivers that never answer. A request without a byte of an
answer in minutes counts as a hang. The load comes in waves; after each, when all is quiet, memory,
descriptors and tasks of every server are read. Afterwards the store must hold every session and
opinion that was accepted, a seat whose call failed must have neither a score nor a vote in that
session, and the scores of each session must be those of `peerage.score` on its ballots.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import numpy as np

from peerage import score
from peerage.events import Failed, Reviewed, event_document, read_events
from peerage.reports import Reports
from peerage.seating import settings_of
from peerage.stores import Contribution, open_store
from peerage.types import Event, Session
from peerage.view import fold

HANG_S = 300.0  # without a byte from the server, which says "still here" every ten seconds
LONGEST_S = 3_600.0  # for one stream: a session that does not end
SEAT = """
[[seat]]
name = "{name}"
provider = "simulated"
options = {{ latency_ms = {latency_ms}, failure_rate = {rate}, failure_kind = "{kind}" }}
"""
SECRET = "a secret of some length"  # noqa: S105 - of a server that lives for a run
FAULTS = ("server_error", "bad_request")  # one is tried again, the other is final
RUNNING_AT_ONCE = 64
ITEMS = 997
PAGES = ("/", "/sessions", "/api/sessions")
BOARD = "/boards/models?since=all"
EXPORT = "/api/export"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How much of everything there is."""

    n_sessions: int = 300
    n_seats: int = 4
    fault_rate: float = 0.09
    latency_ms: int = 20
    n_viewers: int = 50
    n_people: int = 2  # who post opinions and ask for ballots
    n_exporters: int = 1
    n_opinions: int = 60_000  # in the store before it begins
    n_webhooks: int = 13
    n_waves: int = 1
    n_servers: int = 1  # more than one needs PostgreSQL
    seed: int = 7


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server that has nothing to do holds."""

    memory_mb: float
    n_descriptors: int
    n_tasks: int


@dataclass(slots=True)
class LoadFigures:
    """What was asked for and accepted, and how long it took."""

    session_ids: list[str] = field(default_factory=list)
    opinions: set[str] = field(default_factory=set)  # the items of those that were accepted
    n_ballots: int = 0
    n_streams: int = 0
    n_pages: int = 0
    n_exports: int = 0
    waits_s: list[float] = field(default_factory=list)  # of all requests but streams and exports
    slowest_export_s: float = 0.0
    took_s: float = 0.0
    n_by_status: Counter[str] = field(default_factory=Counter)
    n_scored: int = 0
    n_failed_calls: int = 0
    states: list[list[ServerState]] = field(default_factory=list)  # by wave, of each server

    def __str__(self) -> str:
        statuses = ", ".join(f"{n} {status}" for status, n in sorted(self.n_by_status.items()))
        return (
            f"{len(self.session_ids)} sessions ({statuses}; {self.n_scored} scored alike),"
            f" {self.n_streams} streams, {self.n_pages} pages, {len(self.opinions)} opinions,"
            f" {self.n_ballots} ballots, {self.n_exports} exports in {self.took_s:.0f} s;"
            f" {self.waits}"
        )

    @property
    def waits(self) -> str:
        """How long requests took, in words."""
        half, most = (np.quantile(self.waits_s or [0.0], share) for share in (0.5, 0.99))
        return (
            f"half of the requests within {half:.2f} s, 99% within {most:.1f} s;"
            f" exports of the whole store within {self.slowest_export_s:.0f} s"
        )


class LostError(Exception):
    """The store does not hold what the server accepted."""


@dataclass(frozen=True, slots=True)
class LoadedServer:
    """A server in a process of its own."""

    address: str
    process_id: int


def run_load(folder: Path, plan: LoadPlan, url: str = "") -> LoadFigures:
    """Put new servers under load and check what they kept; an error where something is wrong."""
    config = write_panel(folder, plan)
    url = url or f"sqlite:///{folder / 'load.db'}"
    store = open_store(url)
    store.add_contributions([_opinion(i, plan) for i in range(plan.n_opinions)])
    asyncio.run(store.close())
    figures = LoadFigures()
    with _silent_receiver() as receiver, ExitStack() as stack:
        servers = [
            stack.enter_context(serving_load(folder, url, plan, receiver))
            for _ in range(plan.n_servers)
        ]
        for wave in range(1, plan.n_waves + 1):
            n_sessions = plan.n_sessions * wave // plan.n_waves
            asyncio.run(_Clients(servers, plan, figures, n_sessions).run())
            for server in servers:
                _ask_for_everything(server)
            figures.states.append([_state_at_rest(server) for server in servers])
    _check_store(url, config, figures)
    return figures


def write_panel(folder: Path, plan: LoadPlan) -> Path:
    """Write the settings of the servers; return their file."""
    settings = {"latency_ms": plan.latency_ms, "rate": plan.fault_rate}
    seats = [
        SEAT.format(name=f"seat-{i}", kind=FAULTS[i % len(FAULTS)], **settings)
        for i in range(plan.n_seats)
    ]
    path = folder / "peerage.toml"
    path.write_text("".join(seats), "utf-8")
    return path


def _opinion(i: int, plan: LoadPlan) -> Contribution:
    """One of the opinions that are in the store before the run begins."""
    item = i % ITEMS
    opinion = random.Random(f"{plan.seed} {i}").choice((-1.0, 1.0))
    return Contribution("opinions", f"i{item}", f"c{item % 31}", float(i), f"r{i}", opinion)


@contextmanager
def _silent_receiver() -> Iterator[str]:
    """The address of a machine that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def serving_load(folder: Path, store: str, plan: LoadPlan, receiver: str) -> Iterator[LoadedServer]:
    """Run a server in a process of its own, which must end when it is told to."""
    command = [sys.executable, "-m", "peerage", "serve", "--port", "0", "--store", store]
    command += ["--log", "error", "--grace-s", "60", "--max-running", str(RUNNING_AT_ONCE)]
    command += ["--max-queued", str(plan.n_sessions), "--webhook-private"]
    for i in range(plan.n_webhooks):
        command += ["--webhook", f"{receiver}/{i}"]
    said = folder / f"server-{time.monotonic_ns()}.log"
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=folder, stderr=log, env={**os.environ, "WEBHOOK_SECRET": SECRET}
        )
    try:
        deadline = time.monotonic() + HANG_S
        while "listening on " not in (text := said.read_text("utf-8")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {text}")
            time.sleep(0.1)
        yield LoadedServer(text.partition("listening on ")[2].split(",")[0], process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(HANG_S)
    finally:
        if process.poll() is None:  # it hangs, or the run has failed
            process.kill()
            process.wait()


def _ask_for_everything(server: LoadedServer) -> None:
    """Ask a server for each page once: what it loads when it is first asked is not growth."""
    for path in (*PAGES, BOARD, "/api/export"):
        with urllib.request.urlopen(f"{server.address}{path}") as reply:  # noqa: S310 - loopback
            reply.read()


def _state_at_rest(server: LoadedServer) -> ServerState:
    """Read the figures of a server, once it has run nothing for as long as a request takes."""
    deadline, figures = time.monotonic() + HANG_S, dict[str, float]()
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{server.address}/metrics") as reply:  # noqa: S310 - loopback
            lines = [line.split() for line in reply.read().decode().splitlines()]
        before = figures
        figures = {line[0]: float(line[1]) for line in lines if line[0].isidentifier()}
        is_idle = not figures["peerage_sessions_running"] and not figures["peerage_sessions_queued"]
        if is_idle and before.get("peerage_tasks") == figures["peerage_tasks"]:
            break
        time.sleep(1.0)
    folder = Path(f"/proc/{server.process_id}")
    n_descriptors = len(list((folder / "fd").iterdir()))
    pages = int((folder / "statm").read_text("ascii").split()[1])
    memory_mb = pages * os.sysconf("SC_PAGE_SIZE") / 1024.0**2
    return ServerState(memory_mb, n_descriptors, int(figures["peerage_tasks"]))


class _Clients:
    """Everyone who uses the servers at once, until so many sessions were held in all."""

    def __init__(
        self, servers: Sequence[LoadedServer], plan: LoadPlan, figures: LoadFigures, n: int
    ) -> None:
        self.servers, self.plan, self.figures, self.n = servers, plan, figures, n
        self.wave = len(figures.states)
        self.rng = random.Random(f"{plan.seed} {self.wave}")
        self.is_over = False

    async def run(self) -> None:
        limit = aiohttp.ClientTimeout(total=LONGEST_S, sock_read=HANG_S, sock_connect=HANG_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=limit, connector=connector) as http:
            self.http = http
            began = time.monotonic()
            async with asyncio.TaskGroup() as group:
                others = [
                    *(group.create_task(self._view()) for _ in range(self.plan.n_viewers)),
                    *(group.create_task(self._judge(i)) for i in range(self.plan.n_people)),
                    *(group.create_task(self._export()) for _ in range(self.plan.n_exporters)),
                ]
                starters = [group.create_task(self._start()) for _ in range(RUNNING_AT_ONCE)]
                await asyncio.gather(*starters)
                self.is_over = True
                await asyncio.gather(*others)
            self.figures.took_s += time.monotonic() - began

    @asynccontextmanager
    async def _ask(
        self, method: str, path: str, **more: object
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        began = time.monotonic()
        url = self.rng.choice(self.servers).address + path
        async with self.http.request(method, url, **more) as answer:  # type: ignore[arg-type]
            if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            yield answer
        figures, took_s = self.figures, time.monotonic() - began
        if path == EXPORT:
            figures.slowest_export_s = max(figures.slowest_export_s, took_s)
        elif "/events" not in path:  # which lasts as long as its session
            figures.waits_s.append(took_s)

    async def _start(self) -> None:
        """Start sessions one after another, and follow each to its end."""
        while len(self.figures.session_ids) < self.n:
            number = len(self.figures.session_ids)
            self.figures.session_ids.append("")
            async with self._ask("POST", "/api/sessions", json={"query": f"Why {number}?"}) as said:
                if said.status != HTTPStatus.ACCEPTED:
                    raise RuntimeError(f"a session was refused: {await said.text()}")
                id_ = (await said.json())["id"]
            self.figures.session_ids[number] = id_
            await self._follow(id_)

    async def _follow(self, id_: str) -> None:
        """Read the stream of a session to its end; no stored event may be missing from it."""
        async with self._ask("GET", f"/api/sessions/{id_}/events") as stream:
            text = (await stream.read()).decode()
        places = [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]
        if sorted(set(places)) != list(range(len(set(places)))) or '"finished"' not in text:
            raise LostError(f"the stream of session {id_} has gaps or no end: {places}")
        self.figures.n_streams += 1

    async def _view(self) -> None:
        """Look at pages, and follow sessions that run or are over."""
        while not self.is_over:
            known = [id_ for id_ in self.figures.session_ids if id_]
            if known:
                await self._follow(self.rng.choice(known))
            async with self._ask("GET", self.rng.choice(PAGES)) as page:
                await page.read()
            self.figures.n_pages += 1

    async def _judge(self, person: int) -> None:
        """Post opinions and ask for ballots."""
        n = 0
        while not self.is_over:
            item = f"p{person}-{self.wave}-{n}"
            body = {"item_id": item, "opinion": 1, "contributor": f"author {person}"}
            async with self._ask("POST", "/api/opinions", json=body) as said:
                if said.status == HTTPStatus.CREATED:
                    self.figures.opinions.add(item)
                elif said.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise RuntimeError(f"an opinion was refused: {await said.text()}")
            async with self._ask("GET", "/api/ballots/next") as ballot:
                self.figures.n_ballots += ballot.status == HTTPStatus.OK
            n += 1

    async def _export(self) -> None:
        """Export the store, and look at a board; an archive must be whole."""
        while not self.is_over:
            async with self._ask("GET", EXPORT) as archive:
                data = await archive.read()
            with zipfile.ZipFile(io.BytesIO(data)) as files:
                if files.testzip() is not None:
                    raise LostError("an export is damaged")
            self.figures.n_exports += 1
            async with self._ask("GET", BOARD) as page:
                await page.read()


def _check_store(url: str, config: Path, figures: LoadFigures) -> None:
    """Compare what the store holds with what was accepted, and its scores with the library's."""
    reports = Reports(settings_of(config, {"store": url}))
    given = {one.item_id for _, one in reports.store.contributions("opinions")}
    if lost := figures.opinions - given:
        raise LostError(f"{len(lost)} accepted opinions are not in the store")
    for id_ in figures.session_ids:
        events = reports.store.events(id_)
        places = [event.seq for event in events]
        if places != list(range(len(places))) or not events or events[-1].kind != "finished":
            raise LostError(f"session {id_} is not whole: {places}")
        stored, session = reports.session(id_), fold(events)
        figures.n_by_status[str(event_document(events[-1])["body"]["status"])] += 1
        figures.n_failed_calls += _check_failures(events, session)
        if session.scores:
            if score(session, stored.options).scores != session.scores:
                raise LostError(f"session {id_} was scored otherwise than by peerage.score")
            figures.n_scored += 1
    asyncio.run(reports.store.close())


def _check_failures(events: Sequence[Event], session: Session) -> int:
    """Return how many calls failed; none of their seats may be scored or vote for it."""
    facts = list(read_events(events))
    failed = [fact for fact in facts if isinstance(fact, Failed)]
    votes = {(fact.reviewer, fact.round) for fact in facts if isinstance(fact, Reviewed)}
    silent = {fact.seat for fact in failed if fact.stage == "answer"}
    mute = {(fact.seat, fact.round) for fact in failed if fact.stage == "review"}
    if wronged := silent.intersection(score.model for score in session.scores):
        raise LostError(f"session {session.id} scores seats that gave no answer: {wronged}")
    if invented := mute.intersection(votes):
        raise LostError(f"session {session.id} has votes of calls that failed: {invented}")
    return len(failed)


def main() -> None:
    """Run the load as often as asked, and print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    plan = LoadPlan()
    for name in ("sessions", "viewers", "people", "exporters", "opinions", "webhooks", "waves"):
        default = getattr(plan, f"n_{name}")
        parser.add_argument(f"--{name}", dest=f"n_{name}", type=int, default=default)
    asked = vars(parser.parse_args())
    for i in range(asked.pop("times")):
        with tempfile.TemporaryDirectory() as folder:
            print(f"run {i + 1}: {run_load(Path(folder), LoadPlan(**asked, seed=i))}", flush=True)


if __name__ == "__main__":
    main()
