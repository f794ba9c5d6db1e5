"""A mock model server in another process, and seasons whose calls are sent to it together."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerage import config
from peerage.imports.prompt_files import open_prompts
from peerage.panel import Council
from peerage.season import Progress

ROOT = Path(__file__).parents[2]
SEATS = ("a", "b", "c")


@dataclass(frozen=True)
class Mock:
    """Where the server is, and what it has been asked."""

    base_url: str
    root: str

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.root}/stats", timeout=60) as reply:  # noqa: S310
            said: dict[str, Any] = json.load(reply)
        return said

    def n_calls(self, model: str) -> int:
        n: int = self.stats()["n_by_model"].get(model, 0)
        return n


@contextmanager
def serving(*options: str) -> Iterator[Mock]:
    """A server that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.shared.mock_server", *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    try:
        yield Mock(**json.loads(process.stdout.readline()))
    finally:
        process.communicate()


class BatchMock:
    """The mock server, and how its batches are told to behave."""

    def __init__(self, mock: Mock) -> None:
        self.mock = mock

    def reset(self) -> None:
        """Forget every call and batch."""
        for path in ("reset", "batch-reset"):
            urllib.request.urlopen(f"{self.mock.root}/{path}", b"").close()  # noqa: S310 - loopback

    def control(self, **how: Any) -> None:
        data = json.dumps(how).encode()
        urllib.request.urlopen(f"{self.mock.root}/batch-control", data).close()  # noqa: S310

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.mock.root}/batch-stats", timeout=60) as reply:  # noqa: S310
            stats: dict[str, Any] = json.load(reply)
        return stats


def batch_seats(mock: BatchMock, shape: str) -> list[dict[str, Any]]:
    prices = {"price_in": 1.0, "price_out": 2.0, "batch": shape, "batch_price": 0.5}
    about = {"base_url": mock.mock.base_url, **prices}
    return [{"name": name, "model": f"model-{name}", **about} for name in SEATS]


def batch_settings(mock: BatchMock, shape: str, store: str, **flags: Any) -> config.Settings:
    quick = {"batch.gather_s": 0.2, "batch.poll_s": 0.02, "council.verdict": "none"}
    store_and_seed = {"store": store, "council.seed": 7}
    every = {**store_and_seed, **quick, "seat": batch_seats(mock, shape), **flags}
    return config.load(flags=every, environ={})


def hold_batch_season(settings: config.Settings, prompts: Path, batch: bool) -> Progress:
    """Run the season, and return how it went."""

    async def scene() -> Progress:
        async with Council(settings) as council:
            rows = open_prompts(prompts)
            season = council.season("s")
            progress = Progress(rows.n)
            await council.run_season(season, rows, concurrency=4, progress=progress, batch=batch)
            return progress

    return asyncio.run(scene())
