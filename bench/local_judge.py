"""The local model as a judge: by likelihood, by yes or no, and by filling in a ranking.

`./dev bench local_judge=N` has it review the examples and N short questions (48 unless told), each
once, and writes the table of docs/local-model.md. A pair is a right answer and a wrong one of one
question. What is shown first changes from example to example.
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
from peerage.providers.local import local_seats
from peerage.providers.local_judging import JUDGES
from peerage.session import run as run_session
from peerage.session_config import SessionSpec
from peerage.types import Query
from peerage.view import SessionView
from tests.memory_log import MemoryLog
from tests.shared.rates import wilson_interval
from tests.shared.session_configs import make_config

WRONG_IN_CASES = 1  # the place of the wrong answer; what is right follows from the questions
WRONG = {"Why is the sky blue?": (1, 2)}  # two are wrong here
BUNDLED_WRONG = ("magpie",)
PAIRS = (  # a question, a right answer and a wrong one; the first 27 chose the way to judge
    ("What is the capital of Italy?", "Rome.", "Milan."),
    ("Which planet is nearest to the sun?", "Mercury.", "Venus."),
    ("How many legs does a spider have?", "A spider has eight legs.", "A spider has six legs."),
    ("What do bees make?", "Bees make honey.", "Bees make silk."),
    ("In which year did the Second World War end?", "1945.", "1955."),
    (
        "What is the boiling point of water at sea level?",
        "100 degrees Celsius.",
        "150 degrees Celsius.",
    ),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci.", "Vincent van Gogh."),
    ("What is the largest ocean?", "The Pacific Ocean.", "The Arctic Ocean."),
    ("What is 7 times 8?", "56.", "63."),
    ("Which gas do plants take in?", "Carbon dioxide.", "Helium."),
    ("What is the opposite of hot?", "Cold.", "Tall."),
    ("How many days has a leap year?", "366 days.", "364 days."),
    ("Which animal says moo?", "The cow.", "The cat."),
    ("What is frozen water called?", "Ice.", "Steam."),
    ("What language is spoken in Brazil?", "Portuguese.", "Russian."),
    ("Who discovered penicillin?", "Alexander Fleming.", "Albert Einstein."),
    ("What is the chemical symbol for gold?", "Au.", "Fe."),
    ("How many continents are there?", "There are seven continents.", "There are four continents."),
    ("What colour do you get from blue and yellow paint?", "Green.", "Purple."),
    ("What does a thermometer measure?", "It measures temperature.", "It measures distance."),
    ("Which is heavier, a kilogram of iron or a gram of iron?", "The kilogram.", "The gram."),
    (
        "Where do penguins live in the wild?",
        "In the southern hemisphere, many in Antarctica.",
        "In the Sahara, where it is warm.",
    ),
    ("What is the square root of 81?", "9.", "7."),
    ("Which organ pumps blood?", "The heart.", "The liver."),
    ("What is the currency of Japan?", "The yen.", "The peso."),
    (
        "Why do leaves look green?",
        "Their chlorophyll reflects green light.",
        "They are full of copper, which is green.",
    ),
    (
        "Why does ice float on water?",
        "Ice is less dense than liquid water.",
        "Ice is heavier than water, so it rises.",
    ),
    ("What causes the tides?", "Mostly the pull of the moon.", "Mostly fish that swim together."),
    ("Who was the first person on the moon?", "Neil Armstrong.", "Christopher Columbus."),
    ("What is the fastest land animal?", "The cheetah.", "The tortoise."),
    ("How many minutes are in two hours?", "120 minutes.", "90 minutes."),
    ("What is the main ingredient of bread?", "Flour.", "Sand."),
    ("Which metal is liquid at room temperature?", "Mercury.", "Iron."),
    ("What do you use to cut paper?", "Scissors.", "A spoon."),
    ("Which country has the Eiffel Tower?", "France.", "Canada."),
    ("What is half of 50?", "25.", "20."),
    ("Which season comes after spring?", "Summer.", "Winter."),
    ("What do caterpillars turn into?", "Butterflies or moths.", "Frogs."),
    ("Who wrote Romeo and Juliet?", "William Shakespeare.", "Charles Darwin."),
    ("What is the tallest mountain on Earth?", "Mount Everest.", "Mount Etna."),
    ("How do you say thank you in Spanish?", "Gracias.", "Bonjour."),
    ("Which vitamin does sunlight help us make?", "Vitamin D.", "Vitamin C."),
    ("What is a baby dog called?", "A puppy.", "A kitten."),
    ("Does the sun rise in the east?", "Yes, it rises in the east.", "No, it rises in the west."),
    ("Is glass made from sand?", "Yes, mostly from melted sand.", "No, it is made from milk."),
    (
        "Can fish breathe under water?",
        "Yes, with their gills.",
        "No, they come up for air every minute.",
    ),
    ("Are bats birds?", "No, they are mammals.", "Yes, they lay eggs and have feathers."),
    ("Is the Earth flat?", "No, it is nearly a sphere.", "Yes, with an edge of ice."),
)


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


def examples(n_pairs: int) -> Iterator[Example]:
    """Yield the bundled ballots file, the questions of the attack bench, and short ones."""
    bundled = json.loads((files("peerage") / "examples" / "ballots.json").read_text("utf-8"))
    texts = {one["model"]: one["response"] for one in bundled["responses"]}
    yield Example(bundled["query"], texts, BUNDLED_WRONG)
    for question, texts_in_order in CASES:
        answers = dict(zip("abc", texts_in_order, strict=True))
        wrong = ["abc"[i] for i in WRONG.get(question, (WRONG_IN_CASES,))]
        yield Example(question, answers, tuple(wrong))
    for question, right, wrong_one in PAIRS[:n_pairs]:
        yield Example(question, {"right": right, "wrong": wrong_one}, ("wrong",))


async def measure(n_pairs: int) -> dict[str, Figures]:
    """Return the figures of each way, over the same ballots."""
    caller = Directly(is_held=True)
    figures = {judge: Figures() for judge in JUDGES}
    for judge, one in figures.items():
        seat = replace(local_seats()[0], roles=("review",), options={"judge": judge})
        settings = make_config((seat,), audit=False, verdict="none")
        for number, example in enumerate(examples(n_pairs)):
            spec = SessionSpec(
                f"local {number}", Query(example.question), "7", number, answers=example.answers
            )
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


def run(n_pairs: int = len(PAIRS)) -> list[Row]:
    figures = asyncio.run(measure(n_pairs))
    ours, former = figures["likelihood"], figures["ranking"]
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
