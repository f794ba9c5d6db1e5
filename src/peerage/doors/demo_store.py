"""The demo: simulated reviewers with known faults, a store of its own, and what was found."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from peerage import config
from peerage.boards import Board
from peerage.findings import Finding
from peerage.imports.prompt_files import open_prompts
from peerage.panel import Council
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions
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


class Plant(NamedTuple):
    """A fault of a simulated reviewer: the question, the fault in words, and its metric."""

    question: str
    words: str
    metric: str


PLANTED = {  # by the option of a simulated seat
    "self_bias": Plant(
        "Which judge favours itself?",
        "gives {:g} points too much to its own answers",
        "self_preference",
    ),
    "position_bias": Plant(
        "Which judge favours the answer that it is shown first?",
        "gives {:g} points too much to the answer that it is shown first",
        "position",
    ),
}
ACCUSED = ("evidence", "indicator")
TOPICS = (  # of the demo's questions; each is asked in every one of the `FORMS`
    *("why is the sky blue", "why do leaves turn red in autumn", "why does ice float on water"),
    *("why do we see lightning before we hear thunder", "why does bread rise in the oven"),
    *("why is the sea salty", "why do cats purr", "why does the moon have phases"),
    *("why do onions make us cry", "why are there leap years", "why do stars twinkle"),
    *("why does soap clean", "why do aeroplanes stay in the air", "why do we dream"),
    *("why does iron rust", "why do boats float", "why is blood red", "why do bees dance"),
    *("why does a compass point north", "why do batteries run down"),
    *("how does a refrigerator keep food cold", "how does a vaccine protect us"),
    *("how do birds find their way in winter", "how does a lock on a canal work"),
    *("how does a microwave oven heat food", "how do plants drink", "how do glasses help us see"),
    *("how does yeast make dough rise", "how does a telephone carry a voice"),
    *("how do tides come about", "how does a search engine order its results"),
    *("how does a thermometer measure heat", "how do fireflies glow", "how does glue stick"),
    *("how does a bicycle stay upright", "how is paper made", "how are pearls formed"),
    *("how do noise-cancelling headphones work", "how does a zip fastener hold"),
    "how do rainbows form",
)
FORMS = (
    "{}?",
    "Explain in one sentence: {}?",
    "Explain to a ten-year-old: {}?",
)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A planted fault, and what the audit says about it."""

    question: str
    reviewer: str
    planted: str
    metric: str
    findings: tuple[Finding, ...]

    @property
    def is_found(self) -> bool:
        return any(one.status in ACCUSED for one in self.findings)

    def document(self) -> dict[str, Any]:
        """Return the fault as plain JSON values."""
        return {
            "question": self.question,
            "reviewer": self.reviewer,
            "planted": self.planted,
            "metric": self.metric,
            "is_found": self.is_found,
            "findings": [one._asdict() for one in self.findings],
        }


@dataclass(frozen=True, slots=True)
class DemoResults:
    """The planted facts, and what the board and the audit found."""

    planted_order: tuple[str, ...]  # of the models, the best first
    board_order: tuple[str, ...]
    faults: tuple[PlantedFault, ...]
    fair: tuple[str, ...]  # reviewers without a planted fault
    wrongly_accused: tuple[str, ...]
    findings: tuple[Finding, ...]  # all of the audit
    board: Board

    def document(self) -> dict[str, Any]:
        """Return the results as plain JSON values, without the board and other findings."""
        return {
            "planted_order": list(self.planted_order),
            "board_order": list(self.board_order),
            "faults": [one.document() for one in self.faults],
            "fair": list(self.fair),
            "wrongly_accused": list(self.wrongly_accused),
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

    @property
    def state(self) -> Literal["not_started", "running", "finished"]:
        if self.is_running:
            return "running"
        return "finished" if self.is_done else "not_started"

    def results(self) -> DemoResults | None:
        """Return the results of a finished demo, or None before its end."""
        return demo_results(self.reports) if self.is_done and self.reports else None

    def document(self) -> dict[str, Any]:
        """Return the demo's state, progress and results as plain JSON values."""
        results = self.results()
        return {
            "state": self.state,
            "sessions": N_SESSIONS,
            "done": self.progress.done,
            "results": results.document() if results else None,
        }

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


def demo_questions() -> list[str]:
    """Return the questions of the demo, neighbours on different topics and in different forms."""
    texts = [FORMS[i % len(FORMS)].format(TOPICS[i % len(TOPICS)]) for i in range(N_SESSIONS)]
    return [text[0].upper() + text[1:] for text in texts]


async def run_demo_season(council: Council, progress: Progress | None = None) -> None:
    """Run the demo's season into the council's store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "season.jsonl"
        rows = ({"id": f"q{i}", "query": text} for i, text in enumerate(demo_questions()))
        path.write_text("\n".join(map(json.dumps, rows)))
        prompts, progress = open_prompts(path), progress or Progress(N_SESSIONS)
        season = council.season("demo")
        await council.run_season(season, prompts, concurrency=16, progress=progress)


def demo_results(reports: Reports) -> DemoResults:
    """Return the planted facts, and what the board and the audit of a demo's store found."""
    board = reports.board(ModelBoardOptions(since="all"))
    findings = tuple(reports.audit(AuditOptions(since="all")).findings)
    faults = tuple(
        PlantedFault(
            plant.question,
            name,
            plant.words.format(options[option]),
            plant.metric,
            tuple(_select_findings(findings, name, plant.metric)),
        )
        for option, plant in PLANTED.items()
        for name, options in PLANTS.items()
        if option in options
    )
    fair = tuple(name for name in PLANTS if not set(PLANTED) & set(PLANTS[name]))
    accused = {one.subject for one in findings if one.status == "evidence"}
    return DemoResults(
        planted_order=tuple(sorted(PLANTS, key=lambda name: -PLANTS[name]["quality"])),
        board_order=tuple(row["model"] for row in board.rows),
        faults=faults,
        fair=fair,
        wrongly_accused=tuple(sorted(accused & set(fair))),
        findings=findings,
        board=board,
    )


def _select_findings(findings: Iterable[Finding], subject: str, metric: str) -> Iterator[Finding]:
    for one in findings:
        if (one.subject, one.metric) == (subject, metric) and one.value is not None:
            yield one
