"""Seasons of simulated sessions in a store of the test's own."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peerage import Council
from peerage.imports.prompt_files import open_prompts
from peerage.season import Progress
from peerage.types import Seat


def simulated_seats(names: Sequence[str], **options: Any) -> list[Seat]:
    return [Seat(name, provider="simulated", model=f"{name}-1", options=options) for name in names]


def hold_season(
    store: str, names: Sequence[str], season: str = "z", n: int = 3, **options: Any
) -> None:
    """Hold a season of these seats, or go on with it; questions are `question 0 of z` and so on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prompts.jsonl"
        rows = [{"id": f"{season}{i}", "query": f"question {i} of {season}"} for i in range(n)]
        path.write_text("\n".join(map(json.dumps, rows)))

        async def scene() -> None:
            async with Council(
                store=store, seats=simulated_seats(names, **options), seed=7
            ) as council:
                prompts = open_prompts(path)
                held = council.season(season)
                await council.run_season(held, prompts, concurrency=2, progress=Progress(n))

        asyncio.run(scene())
