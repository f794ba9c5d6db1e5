"""The season of the demo: simulated reviewers with known faults, and a store of its own."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peerage import config
from peerage.imports.prompt_files import open_prompts
from peerage.panel import Council
from peerage.reports import Reports
from peerage.season import Progress
from peerage.tasks import end

SEED = 7
N_SESSIONS = 120
PLANTS = {  # the simulated models: the quality of their answers, and their bias as reviewers
    "able": {"quality": 7.4},
    "baker": {"quality": 6.8, "position_bias": 1.5},
    "charlie": {"quality": 6.2, "self_bias": 2.0},
    "delta": {"quality": 5.6},
    "echo": {"quality": 5.0},
}


@dataclass(slots=True)
class Demo:
    """The demo's store, created when the demo starts and deleted with the server."""

    progress: Progress = field(default_factory=lambda: Progress(N_SESSIONS))
    reports: Reports | None = None
    _folder: Path | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_done(self) -> bool:
        return self.reports is not None and self.progress.complete and not self.is_running

    async def start(self) -> None:
        """Run the demo's season, unless it is running or finished."""
        if self.is_running or self.is_done:
            return
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="peerage-demo-"))
        flags = {"store": f"sqlite:///{self._folder / 'demo.db'}", "seat": demo_seats()}
        settings = config.load(flags={**flags, "council.seed": SEED}, environ={})
        self.progress = Progress(N_SESSIONS)
        council = Council(settings)
        reports = Reports(settings, keeps_reviews=True)
        vars(reports)["store"] = council.store
        self.reports = reports
        self._task = asyncio.create_task(self._run(council))

    async def _run(self, council: Council) -> None:
        try:
            await run_demo_season(council, self.progress)
        finally:
            await council.caller.close()

    async def close(self) -> None:
        """Stop the demo and delete its store."""
        await end([self._task] if self._task else [])
        if self.reports is not None:
            await self.reports.store.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self.reports = self._folder = self._task = None
        self.progress = Progress(N_SESSIONS)


def demo_seats() -> list[dict[str, Any]]:
    """Return the simulated seats of the demo, as configuration tables."""
    return [
        {"name": name, "provider": "simulated", "options": options}
        for name, options in PLANTS.items()
    ]


async def run_demo_season(council: Council, progress: Progress | None = None) -> None:
    """Run the demo's season into the council's store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "season.jsonl"
        lines = (f'{{"id": "q{i}", "query": "question {i}"}}' for i in range(N_SESSIONS))
        path.write_text("\n".join(lines))
        prompts, progress = open_prompts(path), progress or Progress(N_SESSIONS)
        season = council.season("demo")
        await council.run_season(season, prompts, concurrency=16, progress=progress)
