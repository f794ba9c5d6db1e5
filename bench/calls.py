"""One call with everything around it, beside the same request by a bare pooled httpx client.

All sides share one event loop and take turns; the mock server is another process, so only
our own CPU counts. Each row says where the time goes: all of it, the connections alone, and
what the `openai` client would have taken.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from bench import Row
from bench.sessions import mock_server
from peerage.providers import Call, Reply
from peerage.providers.calling import Caller
from peerage.types import Query, Seat

N_REPEATS = 5
CALLS_BY_CONCURRENCY = {1: 60, 32: 128, 256: 512}
LEAST_RATIO = 1.25  # the peer's CPU over ours
KEY = "sk-bench-0123456789abcdef0123456789abcdef0123456789abcdef"
PROMPT = "Why does the tide come in twice a day, and why not in the Mediterranean? " * 40

One = Callable[[], Awaitable[object]]


def run() -> list[Row]:
    """CPU per call at three concurrencies, and its parts."""
    with mock_server() as url:
        return [
            row
            for concurrency, n in CALLS_BY_CONCURRENCY.items()
            for row in asyncio.run(_rows(url, concurrency, n))
        ]


async def _rows(url: str, concurrency: int, n: int) -> list[Row]:
    import aiohttp
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
    pool = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    async with Caller([seat]) as caller, httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def ours() -> None:
            reply = await caller.call(call)
            if not isinstance(reply, Reply):
                raise RuntimeError(f"the bench failed: {reply}")

        async def bare() -> None:
            reply = await client.post(f"{url}/chat/completions", json=body)
            reply.json()

        async def connections() -> None:
            async with pool.post(f"{url}/chat/completions", data=json.dumps(body)) as response:
                json.loads(await response.read())

        async def typed() -> None:
            await client_of_openai.chat.completions.create(**body)

        sides = {"a call": ours, "bare aiohttp": connections, "the openai client": typed}
        cpu_by_side = await _alternating({**sides, "httpx": bare}, concurrency, n)
    await pool.close()
    await client_of_openai.close()
    peer = cpu_by_side["httpx"]
    return [
        Row(
            f"{name}, {concurrency} at a time",
            n,
            cpu_by_side[name],
            peer,
            LEAST_RATIO if name == "a call" else None,
            "bare httpx",
            f"{1e6 * cpu_by_side[name] / n:.0f} µs, {cpu_by_side[name] / peer:.2f}× the peer's",
        )
        for name in sides
    ]


async def _alternating(sides: dict[str, One], concurrency: int, n: int) -> dict[str, float]:
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
