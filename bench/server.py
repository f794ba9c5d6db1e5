"""The server beside the command line and the library: sessions with watchers, health, boards.

32 clients each start sessions one after another and watch them to their end, while another asks
for the server's health. Times are on the clock, because what counts here is who waits for whom;
on a machine that others use too, read the ratios of several runs.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from bench import Row
from peerage.imports import take
from peerage.reports import Reports
from peerage.reports.options import ModelBoardOptions
from peerage.seating import settings_of
from peerage.stores import open_store
from tests.shared.reviews import write_reviews

N_CLIENTS = 32
N_SESSIONS = 160
LATENCY_MS = 50
N_ROWS = 1_000_000
N_TURNS = 3
N_REQUESTS = 500
N_CHATS = 20
HEALTH_EVERY_S = 0.02
MAX_SEASON_RATIO = 1.3  # of the command line's time
MAX_HEALTH_RATIO = 5.0  # of the idle p99
MAX_UNCHANGED_RATIO = 2.0  # of /healthz
MAX_BOARD_RATIO = 1.5  # of the library call
MAX_FIRST_LINE_S = 0.1
COMMAND = [sys.executable, "-m", "peerage"]
SEAT = '[[seat]]\nname = "{}"\nprovider = "simulated"\noptions = {{ latency_ms = {} }}\n'
SEATS = "".join(SEAT.format(name, LATENCY_MS) for name in ("able", "baker", "charlie"))

Get = Callable[[], Awaitable[None]]


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "peerage.toml").write_text(SEATS, encoding="utf-8")
        return [*_sessions(place), *_first_lines(place), *_boards(place)]


@contextmanager
def serving(folder: Path, store: str) -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [*COMMAND, "serve", "--port", "0", "--store", store, "--log", "error"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stderr.readline() if process.stderr else ""
        yield line.split(",")[0].split()[-1]
    finally:
        process.terminate()
        process.communicate()


# -- sessions ----------------------------------------------------------------------------------


def _sessions(folder: Path) -> list[Row]:
    """Rounds of the same season by the command line and by the server, alternately."""
    seasons, served, idle, busy = (list[float]() for _ in range(4))
    with serving(folder, "sqlite:///served.db") as url:
        for turn in range(N_TURNS):
            few, many = (_season_s(folder, n, turn) for n in (N_CLIENTS, N_CLIENTS + N_SESSIONS))
            seasons.append(many - few)
            served.append(asyncio.run(_watched(url, idle, busy)))
    name = f"{N_SESSIONS} sessions, {N_CLIENTS} watchers"
    ours, theirs = statistics.median(served), statistics.median(seasons)
    return [
        Row(name, N_SESSIONS, ours, theirs, 1 / MAX_SEASON_RATIO, "peerage run"),
        Row(
            "/healthz p99 meanwhile",
            len(busy),
            p99(busy),
            p99(idle),
            1 / MAX_HEALTH_RATIO,
            "idle p99",
        ),
    ]


def p99(taken: list[float]) -> float:
    """The value that one in a hundred exceeds."""
    return statistics.quantiles(taken, n=100)[98]


def _season_s(folder: Path, n: int, turn: int) -> float:
    """Seconds that the command line takes for a season of its own, its start included."""
    prompts = folder / f"{n}-{turn}.jsonl"
    lines = (json.dumps({"id": str(i), "query": f"Question {i}?"}) for i in range(n))
    prompts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    start = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own command
        [
            *(*COMMAND, "run", str(prompts), "--quiet"),
            *("--concurrency", str(N_CLIENTS), "--store", f"sqlite:///{n}-{turn}.db"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start


async def _watched(url: str, idle: list[float], busy: list[float]) -> float:
    """Seconds for all sessions, without those for one of each client, as for the command line.

    What /healthz took before and during them is added.
    """
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as client:
        await wait_until_up(client)
        await _held(client, N_CLIENTS)
        for _ in range(N_REQUESTS):
            await ask_health(client, idle)
        few_s = await _held(client, N_CLIENTS)
        asking = asyncio.create_task(keep_asking(client, busy))
        many_s = await _held(client, N_CLIENTS + N_SESSIONS)
        asking.cancel()
        return many_s - few_s


async def ask_health(client: aiohttp.ClientSession, taken: list[float]) -> None:
    start = time.perf_counter()
    async with client.get("/healthz") as answer:
        await answer.read()
    taken.append(time.perf_counter() - start)
    await asyncio.sleep(HEALTH_EVERY_S)


async def keep_asking(client: aiohttp.ClientSession, taken: list[float]) -> None:
    """Ask for the health of the server until cancelled; the seconds of each answer are added."""
    while True:
        await ask_health(client, taken)


async def wait_until_up(client: aiohttp.ClientSession) -> None:
    """Wait until the server answers."""
    while True:
        try:
            async with client.get("/healthz"):
                return
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)


async def _held(client: aiohttp.ClientSession, n: int) -> float:
    """Hold n sessions, each watched to its end; the seconds that it took."""
    left = iter(range(n))
    start = time.perf_counter()

    async def work() -> None:
        for i in left:
            async with client.post("/api/sessions", json={"query": f"Question {i}?"}) as started:
                place = started.headers["Location"]
            async with client.get(f"{place}/events") as events:
                if "event: finished" not in await events.text():
                    raise RuntimeError("a session did not come to its end")

    await asyncio.gather(*(work() for _ in range(N_CLIENTS)))
    return time.perf_counter() - start


def _first_lines(folder: Path) -> list[Row]:
    """Streamed chats of a server that has just started, each to its end; the slowest counts."""
    with serving(folder, "sqlite:///chats.db") as url:
        taken = asyncio.run(_chats(url))
    name = f"first chat line, slowest of {N_CHATS}"
    return [Row(name, N_CHATS, max(taken), MAX_FIRST_LINE_S, 1.0, "allowed")]


async def _chats(url: str) -> list[float]:
    taken = []
    body = {"model": "council", "stream": True, "messages": [{"role": "user", "content": "Why?"}]}
    async with aiohttp.ClientSession(url) as client:
        await wait_until_up(client)
        for _ in range(N_CHATS):
            start = time.perf_counter()
            async with client.post("/v1/chat/completions", json=body) as answer:
                lines = [(time.perf_counter() - start, line) async for line in answer.content]
            taken.append(next(at_s for at_s, line in lines if b'"reasoning_content"' in line))
    return taken


# -- boards ------------------------------------------------------------------------------------


def _boards(folder: Path) -> list[Row]:
    reviews, url = folder / "reviews.parquet", f"sqlite:///{folder}/boards.db"
    write_reviews(reviews, N_ROWS, days=60)
    settings = settings_of(folder / "peerage.toml", {"store": url})
    store = open_store(url)
    take(store, reviews, "reviews", time.time)
    library = Reports(settings)
    library.board(ModelBoardOptions(since="all"))
    with serving(folder, url) as address:
        health, unchanged, computed, called = asyncio.run(_asked(address, library))
    name = "unchanged board"
    return [
        Row(name, N_ROWS, unchanged, health, 1 / MAX_UNCHANGED_RATIO, "/healthz"),
        Row("recomputed board", N_ROWS, computed, called, 1 / MAX_BOARD_RATIO, "the library"),
    ]


async def _asked(url: str, library: Reports) -> tuple[float, float, float, float]:
    """Median seconds of /healthz, an unchanged board, a board made anew, and the library's."""
    async with aiohttp.ClientSession(url) as client:
        await wait_until_up(client)
        async with client.get("/api/boards/models?since=all") as answer:
            known = {"If-None-Match": answer.headers["ETag"]}

        async def get(place: str, headers: dict[str, str] | None = None) -> float:
            start = time.perf_counter()
            async with client.get(place, headers=headers) as answer:
                await answer.read()
            return time.perf_counter() - start

        health, unchanged, computed, called = [], [], [], []
        for _ in range(N_REQUESTS):
            health.append(await get("/healthz"))
            unchanged.append(await get("/api/boards/models?since=all", known))
        for days in range(40, 47):
            computed.append(await get(f"/api/boards/models?since={days}d"))
            start = time.perf_counter()
            library.board(ModelBoardOptions(since=f"{days}d"))
            called.append(time.perf_counter() - start)
    medians = map(statistics.median, (health, unchanged, computed[1:], called[1:]))
    first, second, third, fourth = medians
    return first, second, third, fourth
