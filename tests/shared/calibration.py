"""The audit audited: how often it cries wolf over fair judges, and how often it sees a wolf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from peerage.biases.many_sessions import plan
from peerage.council.blinding import deal_order
from peerage.findings import Audit, AuditLimits, Finding
from peerage.reports.from_tables import audit
from tests.shared.encoded import audit_rows, rows_of
from tests.shared.fair_judges import (
    KINDS,
    OWN_ODD_TASTES,
    OWN_STRENGTHS,
    TASTES,
    VOCABULARIES,
    with_tastes,
)
from tests.shared.one_scale import PANEL, Trial, value_of
from tests.shared.rates import wilson_interval
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

T = TypeVar("T")
ACCUSING = (  # metrics that name a reviewer as unfair: of fair judges, none should
    "self_preference",
    "family_preference",
    "pair_departure",
    "length_relative",
    "anchoring",
    "position",
    "drift",
    "style",
)
SIX = replace(PANEL, seats=tuple("abcdef"))  # with fewer a preference cannot be told from a taste
USUAL = replace(SIX, order="balanced", repeats=0.1, reasoning=True)
SIZES = (100, 200)


@dataclass(frozen=True)
class Plant:
    """A planted bias, the finding that must name it, and the metrics it moves by construction.

    Where `told` is given, the finding's note must begin with one of these.
    """

    name: str
    planted: Planted
    metric: str
    subject: str
    moves: dict[str, str] = field(default_factory=dict)  # metric -> why
    season: SimulatedSeason = USUAL
    told: tuple[str, ...] = ()


FIVE = replace(PANEL, order="balanced", tastes=0.1)
TASTY = replace(
    USUAL, seats=tuple("abcdefgh"), spread={}, skill={}, families={}, repeats=0.0, tastes=0.2
)
PLACES = {0: "first place", 1: "second place", 2: "third place", -1: "last place"}
SQUARE = "in a square of orders the first answer tells which stand where after it"
ELSEWHERE = "an answer that is judged again stands elsewhere"
HARSHER = "a favour is a part of the reviewer's mean"
PLANTS = (
    Plant(
        "position +0.5, everyone",
        Planted(position=0.5),
        "position",
        "all",
        {"consistency": ELSEWHERE},
    ),
    Plant(
        "position +0.8, one",
        Planted(position_by={"b": 0.8}),
        "position",
        "b",
        {"consistency": ELSEWHERE},
    ),
    Plant(
        "length r = .3, everyone",
        Planted(length=0.46),
        "length",
        "all",
        {"length_relative": "a wide reviewer gives more points for everything"},
    ),
    Plant(
        "length +0.4 a sd, one",
        Planted(length_by={"c": 0.4}),
        "length_relative",
        "c",
        {"length": "of the same reviewer"},
    ),
    Plant("self-preference +1", Planted(self_preference={"a": 1.0}), "self_preference", "a"),
    Plant("harshness −1", Planted(harshness={"c": -1.0}), "calibration", "c"),
    Plant(
        "family +0.8",
        Planted(family={"a": 0.8}),
        "family_preference",
        "a",
        {
            "pair_departure": "of the pairs in the family",
            "self_preference": "own answers are compared with the family's too",
            "calibration": HARSHER,
        },
    ),
    Plant(
        "anchoring −0.3",
        Planted(anchoring=-0.3),
        "anchoring",
        "all",
        {"position": "a low first answer raises all that follow, a high one lowers them"},
    ),
    Plant(
        "favour +1.2 to one",
        Planted(favours={("a", "c"): 1.2}),
        "pair_departure",
        "a>c",
        {
            "self_preference": "own answers are compared with the favoured one too",
            "family_preference": "so are the family's",
            "calibration": HARSHER,
        },
    ),
    Plant(
        "drift +0.25 a week",
        Planted(drift={"b": 0.25}),
        "drift",
        "b",
        {
            "calibration": "a reviewer that drifts upwards is generous by half of it on average",
            "consistency": "a query asked again weeks later is scored higher",
            "anchoring": "the drift is in the first score and in the later ones",
        },
    ),
    Plant(
        "unsteady, noise 1.5",
        Planted(unsteady={"c": 1.5}),
        "consistency",
        "c",
        {"agreement": "noise agrees with no one"},
    ),
    Plant(
        "reasoning +0.5 a sd",
        Planted(reasoning=0.5),
        "reasoning_length",
        "all",
        {"consistency": "an answer that is judged again has other reasoning"},
    ),
    Plant("style +1.5", Planted(style={"b": 1.5}), "style", "b"),
)
AMONG_TASTES = (  # what they move is told above, or nothing
    Plant(
        "self-preference +0.5, all of 8, tastes .2",
        Planted(self_preference=dict.fromkeys("abcdefgh", 0.5)),
        "self_preference",
        "all",
        {"pair_departure": "others are held against the same answers"},
        TASTY,
    ),
    *(
        Plant(
            f"{word} +1, {who}, 5 seats, tastes .1",
            replace(planted, place=place),
            "position",
            subject,
            {"consistency": ELSEWHERE, "anchoring": SQUARE},
            FIVE,
            (word, "middle places") if place == 2 else (word,),
        )
        for who, subject, planted in (
            ("everyone", "all", Planted(position=1.0)),
            ("one", "b", Planted(position_by={"b": 1.0})),
        )
        for place, word in PLACES.items()
    ),
)


CLAIMED = ("self-preference +1", "harshness −1", "length +0.4", "family +0.8")
CLAIMED_PLANTS = tuple(one for one in PLANTS if one.name.startswith(CLAIMED))
SMALL_KINDS = {  # of fair judges; the largest panels take long
    one.name: one for one in KINDS if one.season.n_sessions * len(one.season.seats) ** 2 <= 16_000
}


def audit_of(trial: Trial, seed: int) -> Audit:
    """The audit of one simulated season, dealt by the real dealer where it is balanced."""
    square, season = None, trial.season
    if season.order == "balanced":
        names = sorted(season.seats)
        orders = [deal_order(names, place, f"trial {seed}") for place in range(len(names))]
        square = np.array([[names.index(name) for name in order] for order in orders])
    columns = trial.shape(simulated_reviews(season, trial.planted, seed, square))
    if {"rank", "score"} <= columns.keys():
        return audit(columns)
    return audit_rows(rows_of(columns), plan(tuple(columns), value_of(columns)), AuditLimits())


def evidence(trial: Trial, seed: int) -> list[Finding]:
    """All that an audit calls evidence."""
    return [one for one in audit_of(trial, seed).findings if one.status == "evidence"]


# -- false alarms ------------------------------------------------------------------------------


def accusations(trial: Trial, seed: int) -> set[str]:
    """The metrics by which an audit accuses fair judges; what is found of all accuses nobody
    beside one who is biased."""
    metrics = {*ACCUSING, *trial.also}
    just = {trial.biased, "all"} if trial.biased else set()
    return {
        one.metric
        for one in evidence(trial, seed)
        if one.metric in metrics and one.subject.partition(">")[0] not in just
    }


def false_alarms(trial: Trial, seeds: Iterable[int]) -> tuple[int, Counter[str]]:
    """How many audits accuse anybody, and by which metrics."""
    found = each(partial(accusations, trial), seeds)
    return sum(map(bool, found)), Counter(metric for one in found for metric in one)


# -- power -------------------------------------------------------------------------------------


def planted_trial(plant: Plant, n_sessions: int) -> Trial:
    season = replace(plant.season, n_sessions=n_sessions, text=bool(plant.planted.style))
    return Trial(plant.name, season, plant.planted)


def named_by(plant: Plant, n_sessions: int, seed: int) -> tuple[bool, bool]:
    """Whether an audit names the plant, and whether it accuses by what the plant does not move."""
    found = evidence(planted_trial(plant, n_sessions), seed)
    unmoved = {*ACCUSING} - {plant.metric, *plant.moves}
    named = any(
        (one.metric, one.subject) == (plant.metric, plant.subject)
        and one.note.startswith(plant.told or "")
        for one in found
    )
    return named, any(one.metric in unmoved for one in found)


def power(plant: Plant, n_sessions: int, seeds: Iterable[int]) -> tuple[int, int]:
    """How many audits name the plant, and how many name anything it does not move."""
    found = each(partial(named_by, plant, n_sessions), seeds)
    return sum(named for named, _ in found), sum(others for _, others in found)


def each(one: Callable[[int], T], seeds: Iterable[int]) -> list[T]:
    """What each seed gives, on every core; a seed's result does not depend on the others'."""
    return list(processes().map(one, seeds, chunksize=5))


@cache
def processes() -> ProcessPoolExecutor:
    """A process for each core; none is a fork of this one, whose threads a fork would lack."""
    return ProcessPoolExecutor(mp_context=get_context("forkserver"))


# -- the tables, in Markdown -------------------------------------------------------------------


def rate(k: int, n: int) -> str:
    """A rate with its Wilson interval, in per cent."""
    interval = wilson_interval(k, n)
    if interval is None:
        return "–"
    return f"{100 * k / n:.0f}% [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"


def moved_lines() -> Iterator[str]:
    yield "| planted | named by | also moves, by construction |"
    yield "|---|---|---|"
    for plant in PLANTS:
        moves = "; ".join(f"`{metric}`: {why}" for metric, why in plant.moves.items()) or "–"
        yield f"| {plant.name} | `{plant.metric}` of {plant.subject} | {moves} |"


Counts = dict[str, list[tuple[int, Counter[str]]]]  # by kind, one a spread of tastes


def fair_counts(n_audits: int) -> Counts:
    """How many audits accuse anybody, and by which metrics, for each kind of fair judges."""
    return {
        kind.name: [false_alarms(with_tastes(kind, tastes), range(n_audits)) for tastes in TASTES]
        for kind in KINDS
    }


def strength_counts(n_audits: int) -> dict[str, tuple[int, Counter[str]]]:
    """The same of judges with tastes of different strengths or odd shapes, and kindred texts."""
    kinds = (*OWN_STRENGTHS, *VOCABULARIES, *OWN_ODD_TASTES)
    return {kind.name: false_alarms(kind, range(n_audits)) for kind in kinds}


def strength_lines(counts: dict[str, tuple[int, Counter[str]]], n_audits: int) -> Iterator[str]:
    yield f"| fair judges ({n_audits} audits each) | accuse | by |"
    yield "|---|---|---|"
    for kind, (accused, by) in counts.items():
        metrics = ", ".join(f"`{metric}` {n}" for metric, n in sorted(by.items())) or "–"
        yield f"| {kind} | {rate(accused, n_audits)} | {metrics} |"


def fair_lines(counts: Counts, n_audits: int) -> Iterator[str]:
    heads = " | ".join("no tastes" if not one else f"tastes of {one:.1f} sd" for one in TASTES)
    yield f"| fair judges ({n_audits} audits a cell) | {heads} | by |"
    yield "|---" * (len(TASTES) + 2) + "|"
    for kind, found in counts.items():
        rates = " | ".join(rate(accused, n_audits) for accused, _ in found)
        metrics = sum((by for _, by in found), Counter[str]())
        by = ", ".join(f"`{metric}` {n}" for metric, n in sorted(metrics.items())) or "–"
        yield f"| {kind} | {rates} | {by} |"


def power_lines(n_audits: int) -> Iterator[str]:
    """Power by plant at two sizes, and what else the audits named at the larger."""
    heads = " | ".join(f"{n} sessions" for n in SIZES)
    yield f"| planted ({n_audits} audits each) | {heads} | false findings |"
    yield "|---" * (len(SIZES) + 2) + "|"
    for plant in (*PLANTS, *AMONG_TASTES):
        found = [power(plant, n_sessions, range(n_audits)) for n_sessions in SIZES]
        cells = [rate(named, n_audits) for named, _ in found] + [rate(found[-1][1], n_audits)]
        yield f"| {plant.name} | {' | '.join(cells)} |"
