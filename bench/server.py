"""The server beside the command line and the library: sessions with watchers, health, boards.

32 clients each start sessions one after another and watch them to their end, while another asks
for the server's health. Times are on the clock, because what counts here is who waits for whom.
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
from bench._reviews import write_reviews
from peerage.imports import take
from peerage.panel import settings_of
from peerage.reports import Reports
from peerage.reports.options import ModelBoardOptions
from peerage.stores import open_store

N_CLIENTS = 32
N_SESSIONS = 160
LATENCY_MS = 50
N_ROWS = 1_000_000
N_REQUESTS = 200
MAX_SEASON_RATIO = 1.3  # of the command line's time
MAX_HEALTH_RATIO = 5.0  # of the idle p99
MAX_UNCHANGED_RATIO = 2.0  # of /healthz
MAX_BOARD_RATIO = 1.5  # of the library call
COMMAND = [sys.executable, "-m", "peerage"]
SEAT = '[[seat]]\nname = "{}"\nprovider = "simulated"\noptions = {{ latency_ms = {} }}\n'
SEATS = "".join(SEAT.format(name, LATENCY_MS) for name in ("able", "baker", "charlie"))

Get = Callable[[], Awaitable[None]]


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "peerage.toml").write_text(SEATS, encoding="utf-8")
        return [*_sessions(place), *_boards(place)]


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
    few, many = (_season_s(folder, n) for n in (N_CLIENTS, N_CLIENTS + N_SESSIONS))
    with serving(folder, "sqlite:///served.db") as url:
        ours, idle, busy = asyncio.run(_watched(url))
    name = f"{N_SESSIONS} sessions, {N_CLIENTS} watchers"
    return [
        Row(name, N_SESSIONS, ours, many - few, 1 / MAX_SEASON_RATIO, "peerage run"),
        Row("/healthz p99 meanwhile", N_REQUESTS, busy, idle, 1 / MAX_HEALTH_RATIO, "idle p99"),
    ]


def _season_s(folder: Path, n: int) -> float:
    """Seconds that the command line takes for a season, its start included."""
    prompts = folder / f"{n}.jsonl"
    lines = (json.dumps({"id": str(i), "query": f"Question {i}?"}) for i in range(n))
    prompts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    start = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own command
        [
            *(*COMMAND, "run", str(prompts), "--quiet"),
            *("--concurrency", str(N_CLIENTS), "--store", f"sqlite:///{n}.db"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start


async def _watched(url: str) -> tuple[float, float, float]:
    """Seconds for all sessions, and the p99 of /healthz before and during them."""
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as client:
        await _up(client)
        await _held(client, N_CLIENTS)
        idle = await _p99(client)
        start = time.perf_counter()
        sessions = asyncio.create_task(_held(client, N_SESSIONS))
        busy = await _p99(client)
        await sessions
        return time.perf_counter() - start, idle, busy


async def _up(client: aiohttp.ClientSession) -> None:
    while True:
        try:
            async with client.get("/healthz"):
                return
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)


async def _held(client: aiohttp.ClientSession, n: int) -> None:
    """Hold n sessions, each watched to its end."""
    left = iter(range(n))

    async def work() -> None:
        for i in left:
            async with client.post("/api/sessions", json={"query": f"Question {i}?"}) as started:
                place = started.headers["Location"]
            async with client.get(f"{place}/events") as events:
                if "event: finished" not in await events.text():
                    raise RuntimeError("a session did not come to its end")

    await asyncio.gather(*(work() for _ in range(N_CLIENTS)))


async def _p99(client: aiohttp.ClientSession) -> float:
    taken = []
    for _ in range(N_REQUESTS):
        start = time.perf_counter()
        async with client.get("/healthz") as answer:
            await answer.read()
        taken.append(time.perf_counter() - start)
        await asyncio.sleep(0.002)
    return statistics.quantiles(taken, n=100)[98]


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
        await _up(client)
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
