"""Storing sessions on PostgreSQL, beside the same sessions on SQLite.

Fourteen events of a session in the waves they come in, each durable before the next wave; both
stores take their turns on the same disk. Wall time, since the server works in other processes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench import Row
from peerage.stores import Log, open_store
from peerage.types import Event
from tests.shared.postgres_server import PostgresServer, binaries

SESSIONS_BY_CONCURRENCY = {1: 40, 32: 500}
N_TURNS = 3
MAX_RATIO = 3.0
WAVES = (4, 1, 4, 2, 1)  # answers, the deal, reviews, scores and audit, the verdict
REPLY = {"seat": "seat-1", "text": "Because of this, and of that. " * 50}
OPENING = {
    "query": {"text": "Why?", "id": "", "category": ""},
    "seed": "7",
    "ordinal": 0,
    "season": "",
    "seats": [],
    "law": {"rubric": None, "order": "balanced"},
}
ENDING = {"status": "done", "cost_usd": None}


async def _session(log: Log, id_: str) -> None:
    await log.append(Event(id_, 0, "opened", 1.0, OPENING))
    n = 1
    for wave in WAVES:
        await asyncio.gather(
            *(log.append(Event(id_, n + i, "noted", 1.0, REPLY)) for i in range(wave))
        )
        n += wave
    await log.append(Event(id_, n, "finished", 2.0, ENDING))


async def store_sessions(url: str, n: int, concurrency: int, prefix: str = "s") -> float:
    """Seconds until so many sessions are stored, each under its lease."""
    store = open_store(url)
    left = iter(range(n))

    async def work() -> None:
        for i in left:
            lease = await store.claim(f"{prefix}{i}", "bench")
            if lease is None:
                raise RuntimeError("a new session is held by somebody")
            await _session(lease, lease.session_id)
            await store.release(lease)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    taken_s = time.perf_counter() - began
    await store.close()
    return taken_s


def run() -> list[Row]:
    """One row for each number of sessions at a time."""
    names = {c: f"storing {n} sessions, {c} at a time" for c, n in SESSIONS_BY_CONCURRENCY.items()}
    if binaries() is None:
        missing = "no PostgreSQL here"
        return [Row(names[c], n, 0.0, missing=missing) for c, n in SESSIONS_BY_CONCURRENCY.items()]
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return [
                _row(names[c], n, c, server.new_database, Path(folder))
                for c, n in SESSIONS_BY_CONCURRENCY.items()
            ]
    finally:
        server.close()


def _row(name: str, n: int, concurrency: int, database: Callable[[], str], folder: Path) -> Row:
    turns = []
    for i in range(N_TURNS + 1):  # the first is not counted
        ours = asyncio.run(store_sessions(database(), n, concurrency))
        beside = asyncio.run(
            store_sessions(f"sqlite:///{folder}/{concurrency}-{i}.db", n, concurrency)
        )
        turns.append((ours, beside))
    ours_s, beside_s = (median(side) for side in zip(*turns[1:], strict=True))
    return Row(name, n, ours_s, beside_s, 1 / MAX_RATIO, "SQLite")
