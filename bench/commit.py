"""Planted wrong answers before blind and before committed reviewers: how often they pass.

`./dev bench commit=N` asks simulated judges of a known weakness about 400 sums, and the local model
about N short questions (48 unless told, which take five minutes of one core), and writes the table
of docs/judges.md. Each session has a right answer, a planted wrong one, and one reviewer that wrote
neither. An answer passes with a mark of 7 or more; marks of the local model are probabilities, and
there it passes above the middle, 5.5. Both kinds see the same answers in the same order.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench import Row, write_table
from bench.attack import Directly
from bench.local_judge import PAIRS
from peerage.council.prompts import own_answer_in
from peerage.providers import Call, Reply
from peerage.providers.local import available, local_seats
from peerage.session import run as run_session
from peerage.session_calls import ModelCaller
from peerage.session_config import SessionSpec
from peerage.types import Event, Query, ReviewKind, Seat, Usage
from peerage.view import SessionView
from tests.memory_log import MemoryLog
from tests.shared.rates import wilson_interval
from tests.shared.session_configs import make_config

SEED = "7"
N_SUMS = 400
PASSES = 7.0
PASSES_BY_PROBABILITY = 5.5  # of a mark from 1 to 10: more likely good than not
LOCAL_JUDGES = ("likelihood", "probability")
BYTES_PER_TOKEN = 4
NUMBER = re.compile(r"\d+")
KINDS: tuple[ReviewKind, ...] = ("blind", "committed")


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its answer, and a wrong one."""

    question: str
    right: str
    wrong: str


def sum_case(number: int) -> Case:
    """Return a sum to do, with a wrong answer that is off by a usual slip."""
    rng = random.Random(number)
    a, b = rng.randint(12, 89), rng.randint(12, 89)
    wrong = a + b + rng.choice((-10, -1, 1, 10))
    gives = "Adding the tens and then the ones gives {}."
    return Case(f"What is {a} + {b}?", gives.format(a + b), gives.format(wrong))


def number_in(text: str) -> int:
    """Return the last number of an answer."""
    return int(NUMBER.findall(text)[-1])


# -- judges with a known weakness --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weakness:
    """Chances of a simulated judge.

    It passes a wrong answer because it reads well; its own answer is right so often; and where an
    answer contradicts its own, it notices so often and lets the answer fail.
    """

    name: str
    is_taken_in: float
    knows: float
    notices: float = 0.8
    passes_right: float = 0.95


WEAKNESSES = (
    Weakness("taken in by wording, knows 9 in 10", 0.6, 0.9),
    Weakness("taken in by wording, knows 7 in 10", 0.6, 0.7),
    Weakness("taken in by wording, knows 5 in 10", 0.6, 0.5),
)


@dataclass(slots=True)
class WeakJudge:
    """A simulated judge that reads its page: what it knows of its own answer is there or not."""

    weakness: Weakness
    case: Case

    def can_constrain(self, _: Seat) -> bool:
        return False

    def wants_brief(self, _: Seat) -> bool:
        return False

    async def call(self, call: Call, *_: object) -> Reply:
        rng = random.Random(int.from_bytes(call.digest, "big"))
        text = self._answer(rng) if call.stage == "commit" else self._review(call, rng)
        usage = Usage(call.n_bytes // BYTES_PER_TOKEN, len(text) // BYTES_PER_TOKEN, 0.0)
        return Reply(text, usage, finish_reason="stop")

    def _answer(self, rng: random.Random) -> str:
        knows = rng.random() < self.weakness.knows
        return f"It is {number_in(self.case.right if knows else self.case.wrong)}."

    def _review(self, call: Call, rng: random.Random) -> str:
        own = own_answer_in(call.prompt)
        scores, agrees = {}, {}
        for slot in call.ballot.slots if call.ballot else ():
            number = number_in(slot.text or "")
            is_right = number == number_in(self.case.right)
            chance = self.weakness.passes_right if is_right else self.weakness.is_taken_in
            passes = rng.random() < chance
            if own is not None:
                same = number_in(own) == number
                agrees[f"Response {slot.label}"] = same
                passes = passes and (same or rng.random() >= self.weakness.notices)
            scores[f"Response {slot.label}"] = 8 if passes else 3
        ranking = sorted(scores, key=lambda name: -scores[name])
        own_part = {"agrees": agrees} if agrees else {}
        return json.dumps({"ballot": call.code, **own_part, "scores": scores, "ranking": ranking})


# -- sessions ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """Answers that passed, of those that were judged, and what the sessions took."""

    passes: float = PASSES
    wrong: list[bool] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    in_order: list[bool] = field(default_factory=list)  # the right answer has the higher mark
    sessions: int = 0
    calls: int = 0
    tokens: int = 0

    def add(self, events: list[Event]) -> None:
        """Count one session; a review that cannot be counted passes nothing and is left out."""
        view = SessionView.of(events)
        self.sessions += 1
        self.calls += view.bill.n_calls
        self.tokens += (view.bill.tokens_in or 0) + (view.bill.tokens_out or 0)
        for review in view.reviews:
            marks = {one.candidate: one.score for one in review.remarks if one.score is not None}
            if len(marks) == len(review.remarks):
                self.wrong.append(marks["planted"] >= self.passes)
                self.right.append(marks["sound"] >= self.passes)
                self.in_order.append(marks["sound"] > marks["planted"])


async def hold(
    caller: ModelCaller, seat: Seat, kind: ReviewKind, case: Case, n: int
) -> list[Event]:
    """Return the events of one session about a question and its two answers."""
    settings = make_config((seat,), audit=False, verdict="none", review=kind, second_chance=False)
    texts = {"sound": case.right, "planted": case.wrong}
    spec = SessionSpec(f"case {n}", Query(case.question), SEED, n, answers=texts)
    ticks = iter(range(10**9))
    session = run_session(spec, settings, caller, MemoryLog(), clock=lambda: float(next(ticks)))
    return [event async for event in session]


async def compare(
    caller_of: Callable[[Case], ModelCaller], seat: Seat, cases: Sequence[Case], passes: float
) -> dict[ReviewKind, Tally]:
    """Return the tallies of both kinds over the same questions."""
    tallies = {kind: Tally(passes) for kind in KINDS}
    for number, case in enumerate(cases):
        for kind in KINDS:
            tallies[kind].add(await hold(caller_of(case), seat, kind, case, number))
    return tallies


async def measure(n_local: int) -> dict[str, dict[ReviewKind, Tally]]:
    """Return the tallies of every judge, and write the table anew after each."""
    simulated = Seat("judge", provider="simulated", roles=("review",))
    sums = [sum_case(number) for number in range(N_SUMS)]
    results: dict[str, dict[ReviewKind, Tally]] = {}
    for weakness in WEAKNESSES:
        name = f"simulated: {weakness.name}"
        results[name] = await compare(partial(WeakJudge, weakness), simulated, sums, PASSES)
    write_table("judges.md", "commit", lines(results))
    if available() is not None:
        return results
    cases, model = [Case(*one) for one in PAIRS[:n_local]], Directly()
    for judge in LOCAL_JUDGES:
        seat = local_seats()[0]
        seat = replace(seat, roles=("review",), options={**seat.options, "judge": judge})
        results[f"local model: `{judge}`"] = await compare(
            lambda _: model, seat, cases, PASSES_BY_PROBABILITY
        )
        write_table("judges.md", "commit", lines(results))
    await model.model.aclose()
    return results


def run(n_local: int = len(PAIRS)) -> list[Row]:
    results = asyncio.run(measure(n_local))
    return [
        Row(f"wrong answers that pass: {name}", len(tallies["blind"].wrong),
            float(sum(tallies["committed"].wrong)), float(sum(tallies["blind"].wrong)), 0.0,
            "blind", "answers")
        for name, tallies in results.items()
    ]  # fmt: skip


def lines(results: dict[str, dict[ReviewKind, Tally]]) -> Iterator[str]:
    """Yield the table of docs/judges.md."""
    yield (
        "| judge | review | wrong answers that pass | right answers that pass "
        "| right one marked higher | calls | tokens |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|"
    for name, tallies in results.items():
        for kind, one in tallies.items():
            n = max(1, one.sessions)
            yield (
                f"| {name} | {kind} | {rate(one.wrong)} | {rate(one.right)} | "
                f"{rate(one.in_order)} | {one.calls / n:.1f} | {one.tokens / n:.0f} |"
            )


def rate(passed: list[bool]) -> str:
    """Return a share with its interval and n."""
    interval = wilson_interval(sum(passed), len(passed))
    if interval is None:
        return "none judged"
    low, high = (100 * end for end in interval)
    share = 100 * sum(passed) / len(passed)
    return f"{share:.0f}% ({low:.0f} to {high:.0f}, n = {len(passed)})"
