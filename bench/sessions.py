"""Whole sessions against a mock model server in another process, beside bare httpx.

Ours: four seats and a chair, nine calls, rubric and audit on, every reply durable. The
peer: the same nine requests, in the same three waves, by one pooled httpx client that does
nothing with the answers. Start-up and imports are outside the measured turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import Row, peak_mb
from peerage import config
from peerage.imports.prompt_files import Prompts, open_prompts
from peerage.providers.calling import Caller
from peerage.season import Progress, Season, run_season
from peerage.stores import open_store
from peerage.types import Seat
from tests.shared.session_configs import make_config

N_REPEATS = 3  # the peer is slow at 256: its pool looks at every connection for every call
SESSIONS_BY_CONCURRENCY = {1: 60, 32: 160, 256: 256}
SESSIONS_IN_MEMORY = (1_000, 10_000)
LATENCY_MS = 50
MAX_CPU_RATIO = 2.0
MAX_WALL_RATIO = 1.25


@contextlib.contextmanager
def mock_server() -> Iterator[str]:
    """The address of a mock server that ends when this block does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.shared.mock_server", "--port", "0"],
        cwd=Path(__file__).resolve().parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the mock server has no pipes")
    try:
        said = json.loads(process.stdout.readline())
        yield said.get("base_url") or said["url"]
    finally:
        process.stdin.close()
        process.wait(10)


def seats(base_url: str, model: str, concurrency: int) -> tuple[Seat, ...]:
    return tuple(
        Seat(f"seat-{i}", model=f"{model}", base_url=base_url, max_concurrency=4 * concurrency)
        for i in range(4)
    )


def prompts_file(folder: Path, n: int) -> Prompts:
    path = folder / f"prompts-{n}.jsonl"
    rows = (
        json.dumps({"id": str(i), "query": f"What is {i} plus {i}, and why?"}) for i in range(n)
    )
    path.write_text("\n".join(rows) + "\n")
    return open_prompts(path)


class Bench:
    """Both sides in one event loop, so that neither pays for starting it."""

    def __init__(self, base_url: str, folder: Path, concurrency: int, model: str = "mock") -> None:
        self.base_url = base_url
        self.folder = Path(tempfile.mkdtemp(dir=folder))  # no store of another bench is reused
        self.concurrency = concurrency
        self.seats = seats(base_url, model, concurrency)
        self.config = make_config(self.seats, config.rubric("general"))
        self.turn = 0

    async def ours(self, caller: Caller, prompts: Prompts) -> None:
        self.turn += 1
        store = open_store(f"sqlite:///{self.folder / f'{self.concurrency}-{self.turn}.db'}")
        season = Season(f"s{self.turn}", "7", lambda _: self.config)
        progress = Progress(prompts.n)
        await run_season(
            season,
            prompts,
            caller,
            store,
            concurrency=self.concurrency,
            clock=time.time,
            progress=progress,
        )
        if progress.done != prompts.n or progress.reused or progress.failures:
            raise RuntimeError(f"the bench failed: {progress}")
        await store.close()

    async def recorded(self, caller: Caller) -> list[list[dict[str, Any]]]:
        """The nine requests of one real session, in their three waves."""
        waves: dict[str, list[dict[str, Any]]] = {"answer": [], "review": [], "conclude": []}

        class Recording:
            def can_constrain(self, seat: Seat) -> bool:
                return caller.can_constrain(seat)

            def wants_brief(self, seat: Seat) -> bool:
                return caller.wants_brief(seat)

            async def call(self, call: Any, on_text: Any = None, *_: Any) -> Any:
                body: dict[str, Any] = {
                    "model": call.seat.model,
                    "messages": [{"role": "user", "content": call.prompt}],
                    "temperature": call.seat.temperature,
                    "max_tokens": call.max_tokens,
                }
                if call.schema is not None:
                    schema = {"name": "reply", "strict": True, "schema": call.schema}
                    body["response_format"] = {"type": "json_schema", "json_schema": schema}
                waves[call.stage].append(body)
                return await caller.call(call, on_text)

        store = open_store(f"sqlite:///{self.folder / f'recorded-{time.time_ns()}.db'}")
        season = Season("r", "7", lambda _: self.config)
        one = prompts_file(self.folder, 1)
        recording: Any = Recording()
        await run_season(
            season, one, recording, store, concurrency=1, clock=time.time, progress=Progress(1)
        )
        await store.close()
        return list(waves.values())

    async def peer(self, client: Any, waves: Sequence[Sequence[dict[str, Any]]], n: int) -> None:
        left = iter(range(n))

        async def post(body: dict[str, Any]) -> None:
            reply = await client.post(f"{self.base_url}/chat/completions", json=body)
            reply.raise_for_status()
            reply.json()

        async def worker() -> None:
            for _ in left:
                for wave in waves:
                    await asyncio.gather(*(post(body) for body in wave))

        await asyncio.gather(*(worker() for _ in range(self.concurrency)))

    async def turns(self, n: int, n_repeats: int) -> list[tuple[float, float, float, float]]:
        """CPU and wall seconds of ours and of the peer's, alternating."""
        import httpx

        prompts = prompts_file(self.folder, n)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            Caller(self.seats) as caller,
            httpx.AsyncClient(limits=limits, timeout=120) as client,
        ):
            waves = await self.recorded(caller)
            warm = min(n, max(2, self.concurrency))
            await self.ours(caller, prompts_file(self.folder, warm))
            await self.peer(client, waves, warm)
            taken = []
            for _ in range(n_repeats):
                mine = await timed(self.ours(caller, prompts))
                theirs = await timed(self.peer(client, waves, n))
                taken.append((*mine, *theirs))
        return taken


async def timed(work: Any) -> tuple[float, float]:
    """CPU and wall seconds of some work."""
    cpu, wall = time.process_time(), time.perf_counter()
    await work
    return time.process_time() - cpu, time.perf_counter() - wall


def run() -> list[Row]:
    """CPU per session at three concurrencies, wall time at a model's pace, memory over a season."""
    rows = []
    with mock_server() as url, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for concurrency, n in SESSIONS_BY_CONCURRENCY.items():
            taken = asyncio.run(Bench(url, folder, concurrency).turns(n, N_REPEATS))
            ours, peer = median(t[0] for t in taken), median(t[2] for t in taken)
            rows.append(
                Row(
                    f"{n} sessions, {concurrency} at a time",
                    n,
                    ours,
                    peer,
                    1 / MAX_CPU_RATIO,
                    "httpx",
                )
            )
        slow = Bench(url, folder, 1, f"mock?latency_ms={LATENCY_MS}")
        taken = asyncio.run(slow.turns(10, 3))
        wall, peer = median(t[1] for t in taken), median(t[3] for t in taken)
        rows.append(
            Row(
                f"wall of 10 sessions at {LATENCY_MS} ms",
                10,
                wall,
                peer,
                1 / MAX_WALL_RATIO,
                "httpx",
            )
        )
        rows.append(_memory(url, folder))
    return rows


def _memory(url: str, folder: Path) -> Row:
    """Peak memory of a process that held many sessions, beside one that held a tenth of them."""
    peaks = {}
    for n in SESSIONS_IN_MEMORY:
        code = (
            "import asyncio, sys; from pathlib import Path; from bench.sessions import season_of;"
            "print(asyncio.run(season_of(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))"
        )
        done = subprocess.run(  # noqa: S603 - our own code in another process
            [sys.executable, "-c", code, url, str(folder), str(n)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[1],
        )
        peaks[n] = float(done.stdout)
    few, many = SESSIONS_IN_MEMORY
    return Row(
        f"peak after {many:,} sessions", many, peaks[many], peaks[few], 0.8, f"{few:,}", "MB"
    )


async def season_of(url: str, folder: Path, n: int) -> float:
    """Peak megabytes of a process that holds a season of n sessions, 32 at a time."""
    bench = Bench(url, folder, 32)
    async with Caller(bench.seats) as caller:
        await bench.ours(caller, prompts_file(folder, n))
    return peak_mb()
