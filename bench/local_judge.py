"""The local model as a judge: by its probabilities, and by filling in a ranking.

`./dev bench local_judge=N` has it review each example N times in other orders (2 unless told) and
writes the table of docs/local-model.md. A pair is a right answer and a wrong one of one question.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files

from bench import Row, write_table
from bench.attack import CASES, Directly
from peerage.providers.local import JUDGES, local_seats
from peerage.session import SessionConfig, SessionSpec
from peerage.session import run as run_session
from peerage.types import Query, ScoringOptions
from peerage.view import SessionView
from tests.memory_log import MemoryLog
from tests.shared.rates import wilson_interval

WRONG_IN_CASES = 1  # the place of the wrong answer; what is right follows from the questions
WRONG = {"Why is the sky blue?": (1, 2)}  # two are wrong here
BUNDLED_WRONG = ("magpie",)


@dataclass(frozen=True, slots=True)
class Example:
    """A question, its answers by name, and the names of the wrong ones."""

    question: str
    answers: dict[str, str]
    wrong: tuple[str, ...]


@dataclass(slots=True)
class Figures:
    """Pairs in the right order, reviews that put the answer shown first on top, and seconds."""

    pairs: list[bool] = field(default_factory=list)
    first_on_top: list[bool] = field(default_factory=list)
    seconds: float = 0.0
    failed: int = 0


def examples() -> Iterator[Example]:
    """Yield the bundled ballots file and the questions of the attack bench."""
    bundled = json.loads((files("peerage") / "examples" / "ballots.json").read_text("utf-8"))
    texts = {one["model"]: one["response"] for one in bundled["responses"]}
    yield Example(bundled["query"], texts, BUNDLED_WRONG)
    for question, texts_in_order in CASES:
        answers = dict(zip("abc", texts_in_order, strict=True))
        wrong = ["abc"[i] for i in WRONG.get(question, (WRONG_IN_CASES,))]
        yield Example(question, answers, tuple(wrong))


async def measure(n_orders: int) -> dict[str, Figures]:
    """Return the figures of both ways, over the same ballots."""
    caller = Directly(is_held=True)
    figures = {judge: Figures() for judge in JUDGES}
    for judge, one in figures.items():
        seat = replace(local_seats()[0], roles=("review",), options={"judge": judge})
        settings = SessionConfig((seat,), ScoringOptions(audit=False), verdict="none")
        for number, example in enumerate(examples()):
            for ordinal in range(n_orders):
                spec = SessionSpec(
                    f"local {number}-{ordinal}", Query(example.question), "7", ordinal,
                    answers=example.answers,
                )  # fmt: skip
                began = time.monotonic()
                session = run_session(spec, settings, caller, MemoryLog(), clock=lambda: 0.0)
                view = SessionView.of([event async for event in session])
                one.seconds += time.monotonic() - began
                add(one, view, example)
        write_table("local-model.md", "local judge", lines(figures))
    await caller.model.aclose()
    return figures


def add(figures: Figures, view: SessionView, example: Example) -> None:
    """Count the pairs of one review; a tie is a pair in the wrong order."""
    places = {remark.candidate: remark.place for one in view.reviews for remark in one.remarks}
    if not places or None in places.values():
        figures.failed += 1
        return
    for right in example.answers.keys() - set(example.wrong):
        for wrong in example.wrong:
            figures.pairs.append((places[right] or 0) < (places[wrong] or 0))
    shown_first = view.session.ballots[0].authors[0]
    figures.first_on_top.append(places[shown_first] == 1)


def run(n_orders: int = 2) -> list[Row]:
    figures = asyncio.run(measure(n_orders))
    ours, former = figures["probability"], figures["ranking"]
    good = float(sum(ours.pairs)), float(sum(former.pairs))
    return [Row("pairs in the right order", len(ours.pairs), *good, 0.0, "ranking", "pairs")]


def lines(figures: dict[str, Figures]) -> Iterator[str]:
    """Yield the table of docs/local-model.md."""
    yield "| `judge` | pairs in the right order | first shown is put first | seconds a review |"
    yield "|---|---:|---:|---:|"
    for judge, one in figures.items():
        n = len(one.first_on_top)
        if n:
            yield (
                f"| `{judge}` | {share(one.pairs)} | {share(one.first_on_top)} | "
                f"{one.seconds / n:.1f} |"
            )


def share(values: list[bool]) -> str:
    """Return a share with its interval and n."""
    low, high = wilson_interval(sum(values), len(values)) or (0.0, 1.0)
    rate = 100 * sum(values) / len(values)
    return f"{rate:.0f}% ({100 * low:.0f} to {100 * high:.0f}, n = {len(values)})"
