"""One call with everything around it, beside a bare pooled httpx client and the `openai` client.

All sides share one event loop and take turns; the mock server is another process, so only
our own CPU counts. Then how long a dead seat is waited for, by the clock.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from statistics import median
from typing import Any

from bench import Row, _dead_seats
from bench.sessions import mock_server
from peerage.providers import Call, Reply
from peerage.providers.calling import Caller
from peerage.types import Query, Seat

N_REPEATS = 5
CALLS_BY_CONCURRENCY = {1: 60, 32: 128, 256: 512}
LEAST_RATIOS = {"httpx": 1.25, "openai": 2.0}  # the peer's CPU over ours
KEY = "sk-bench-0123456789abcdef0123456789abcdef0123456789abcdef"
PROMPT = "Why does the tide come in twice a day, and why not in the Mediterranean? " * 40

One = Callable[[], Awaitable[object]]


def run() -> list[Row]:
    """CPU per call at three concurrencies, beside both clients; and the waits for a dead seat."""
    with mock_server() as url:
        alive = [
            row
            for concurrency, n in CALLS_BY_CONCURRENCY.items()
            for row in asyncio.run(rows_at(url, concurrency, n))
        ]
    return [*alive, *_dead_seats.rows()]


async def rows_at(url: str, concurrency: int, n: int) -> list[Row]:
    import httpx
    import openai

    os.environ["PEERAGE_BENCH_KEY"] = KEY  # so that what redaction costs is measured too
    seat = Seat(
        "seat",
        model="mock",
        base_url=url,
        api_key_env="PEERAGE_BENCH_KEY",
        max_concurrency=concurrency,
    )
    call = Call(seat, "answer", PROMPT, "key", Query(PROMPT))
    body: dict[str, Any] = {
        "model": "mock",
        "messages": [{"role": "user", "content": PROMPT}],
        "temperature": seat.temperature,
        "max_tokens": call.max_tokens,
    }
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    client_of_openai = openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
    async with Caller([seat]) as caller, httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def ours() -> None:
            reply = await caller.call(call)
            if not isinstance(reply, Reply):
                raise RuntimeError(f"the bench failed: {reply}")

        async def bare() -> None:
            reply = await client.post(f"{url}/chat/completions", json=body)
            reply.json()

        async def typed() -> None:
            await client_of_openai.chat.completions.create(**body)

        sides = {"ours": ours, "httpx": bare, "openai": typed}
        cpu_by_side = await _alternating(sides, concurrency, n)
    await client_of_openai.close()
    return [
        Row(
            f"{n} calls, {concurrency} at a time",
            n,
            cpu_by_side["ours"],
            cpu_by_side[peer],
            least,
            peer,
        )
        for peer, least in LEAST_RATIOS.items()
    ]


async def _alternating(sides: Mapping[str, One], concurrency: int, n: int) -> dict[str, float]:
    """The median CPU seconds of n calls by each side, after one unmeasured turn each."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(N_REPEATS + 1):
        for name, one in sides.items():
            start = time.process_time()
            await _many(one, concurrency, n)
            if turn:
                taken[name].append(time.process_time() - start)
    return {name: median(times) for name, times in taken.items()}


async def _many(one: One, concurrency: int, n: int) -> None:
    left = iter(range(n))

    async def worker() -> None:
        for _ in left:
            await one()

    await asyncio.gather(*(worker() for _ in range(concurrency)))
