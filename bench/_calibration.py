"""The audit audited: how often it cries wolf over fair judges, and how often it sees a wolf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from bench._encoded import rows_of
from bench._rates import wilson_interval
from bench._simulated_reviews import Planted, SimulatedSeason, simulated_reviews
from peerage.biases.many_sessions import conclude, measured, panel_of, plan, sums_of
from peerage.biases.thresholds import EVIDENCE_Q, Tested, status
from peerage.council.blinding import deal_order
from peerage.types import AuditLimits, Finding

NAMES = tuple("abcdefgh")
FAMILIES = {"a": "one", "b": "one"}
T = TypeVar("T")


@dataclass(frozen=True)
class Panel:
    """A council size, a number of sessions and the way that answers were ordered."""

    n_seats: int = 5
    n_sessions: int = 200
    order: str = "balanced"

    def season(self, text: bool) -> SimulatedSeason:
        return SimulatedSeason(
            seats=NAMES[: self.n_seats],
            n_sessions=self.n_sessions,
            order=self.order,
            repeats=0.1,
            reasoning=True,
            families=FAMILIES,
            text=text,
        )

    def __str__(self) -> str:
        return f"{self.n_seats} × {self.n_sessions}"


USUAL = Panel()
FAIR_GRID = (
    USUAL,
    Panel(order="shuffle"),
    Panel(3, order="shuffle"),
    Panel(8),
    Panel(n_sessions=50),
    Panel(n_sessions=1000, order="shuffle"),
)
POWER_GRID = (USUAL, Panel(n_sessions=50), Panel(n_sessions=100), Panel(3), Panel(8))


@dataclass(frozen=True)
class Plant:
    """A planted bias, the finding that must name it, and the metrics it moves by construction."""

    name: str
    planted: Planted
    metric: str
    subject: str
    moves: dict[str, str] = field(default_factory=dict)  # metric -> why


HARSHER = "a favour is a part of the reviewer's mean"
PLANTS = (
    Plant("position +0.5, everyone", Planted(position=0.5), "position", "all"),
    Plant("position +0.8, one", Planted(position_by={"b": 0.8}), "position", "b"),
    Plant("length r = .3, everyone", Planted(length=0.46), "length", "all"),
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
            "sycophancy": "of the pairs in the family",
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
        Planted(sycophancy={("a", "c"): 1.2}),
        "sycophancy",
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
            "calibration": "whoever drifts upwards is generous by half of it on average",
            "consistency": "a query asked again weeks later is scored higher",
            "anchoring": "the drift is in the first score and in the later ones",
        },
    ),
    Plant(
        "unsteady, noise 1.5",
        Planted(unsteady={"c": 1.5}),
        "consistency",
        "c",
        {"agreement": "noise agrees with nobody"},
    ),
    Plant("reasoning +0.5 a sd", Planted(reasoning=0.5), "reasoning_length", "all"),
    Plant("style +1.5", Planted(style={"b": 1.5}), "style", "b"),
)


Trial = list[tuple[Tested, Finding]]


def one_trial(season: SimulatedSeason, planted: Planted, seed: int) -> Trial:
    """The audit of one simulated season, dealt by the real dealer where it is balanced."""
    square = None
    if season.order == "balanced":
        names = sorted(season.seats)
        square = np.array(
            [
                [names.index(name) for name in deal_order(names, place, f"trial {seed}")]
                for place in range(len(names))
            ]
        )
    columns = simulated_reviews(season, planted, seed, square)
    rows = rows_of(columns)
    agreed = plan(tuple(columns), "score")
    totals = sums_of(rows, agreed)
    panel = panel_of(totals, rows.names, AuditLimits())
    found = conclude(totals, rows.names, agreed, AuditLimits())
    return list(zip(measured(totals, panel, agreed), found.findings, strict=True))


# -- false alarms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fair:
    """Audits of fair judges: by metric, findings tested, p below .05, evidence uncorrected."""

    n_audits: int = 0
    n_with_evidence: int = 0
    n_tested: Counter[str] = field(default_factory=Counter)
    n_small_p: Counter[str] = field(default_factory=Counter)
    n_uncorrected: Counter[str] = field(default_factory=Counter)  # and beyond the healthy range

    def __add__(self, other: Fair) -> Fair:
        return Fair(
            self.n_audits + other.n_audits,
            self.n_with_evidence + other.n_with_evidence,
            self.n_tested + other.n_tested,
            self.n_small_p + other.n_small_p,
            self.n_uncorrected + other.n_uncorrected,
        )


def fair_trial(panel: Panel, text: bool, seed: int) -> Fair:
    trial = one_trial(panel.season(text), Planted(), seed)
    tested = [(measure, one.metric) for measure, one in trial if one.q is not None]
    return Fair(
        1,
        any(one.status == "evidence" for _, one in trial),
        Counter(metric for _, metric in tested),
        Counter(name for one, name in tested if one.p is not None and one.p < EVIDENCE_Q),
        Counter(name for one, name in tested if status(one, one.p) == "evidence"),
    )


def fair_trials(panel: Panel, seeds: Iterable[int], text: bool = False) -> Fair:
    return sum(_each(partial(fair_trial, panel, text), seeds), start=Fair())


# -- power -------------------------------------------------------------------------------------


def named_by(plant: Plant, panel: Panel, seed: int) -> tuple[bool, bool]:
    """Whether an audit names the plant, and whether it names anything the plant does not move."""
    trial = one_trial(panel.season(bool(plant.planted.style)), plant.planted, seed)
    evidence = {(one.metric, one.subject) for _, one in trial if one.status == "evidence"}
    moved = {plant.metric, *plant.moves}
    return (plant.metric, plant.subject) in evidence, any(m not in moved for m, _ in evidence)


def power(plant: Plant, panel: Panel, seeds: Sequence[int]) -> tuple[int, int]:
    """How many audits name the plant, and how many name anything it does not move."""
    found = _each(partial(named_by, plant, panel), seeds)
    return sum(named for named, _ in found), sum(others for _, others in found)


def _each(one: Callable[[int], T], seeds: Iterable[int]) -> list[T]:
    """What each seed gives, on every core; a seed's result does not depend on the others'."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(one, seeds, chunksize=5))


# -- the tables, in Markdown -------------------------------------------------------------------


def rate(k: int, n: int) -> str:
    """A rate with its Wilson interval, in per cent."""
    interval = wilson_interval(k, n)
    if interval is None:
        return "–"
    return f"{100 * k / n:.1f}% [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def moved_lines() -> Iterator[str]:
    yield "| planted | named by | also moves, by construction |"
    yield "|---|---|---|"
    for plant in PLANTS:
        moves = "; ".join(f"`{metric}`: {why}" for metric, why in plant.moves.items()) or "–"
        yield f"| {plant.name} | `{plant.metric}` of {plant.subject} | {moves} |"


def fair_lines(n_audits: int) -> Iterator[str]:
    yield "| seats | sessions | orders | p < .05 | before correction | audits with any evidence |"
    yield "|---|---|---|---|---|---|"
    for panel in FAIR_GRID:
        fair = fair_trials(panel, range(n_audits))
        n = fair.n_tested.total()
        cells = (
            rate(fair.n_small_p.total(), n),
            rate(fair.n_uncorrected.total(), n),
            rate(fair.n_with_evidence, n_audits),
        )
        yield f"| {panel.n_seats} | {panel.n_sessions} | {panel.order} | {' | '.join(cells)} |"


def metric_lines(n_audits: int) -> Iterator[str]:
    yield "| metric | findings | p < .05 | before correction |"
    yield "|---|---|---|---|"
    fair = fair_trials(USUAL, range(n_audits), text=True)
    for metric, n in fair.n_tested.items():
        cells = rate(fair.n_small_p[metric], n), rate(fair.n_uncorrected[metric], n)
        yield f"| `{metric}` | {n} | {' | '.join(cells)} |"


def power_lines(n_audits: int) -> Iterator[str]:
    """Power by plant over the grid, and what else the audits named at its first panel."""
    heads = " | ".join(map(str, POWER_GRID))
    yield f"| planted (seats × sessions) | {heads} | names the unmoved, {POWER_GRID[0]} |"
    yield "|---" * (len(POWER_GRID) + 2) + "|"
    for plant in PLANTS:
        found = [power(plant, panel, range(n_audits)) for panel in POWER_GRID]
        cells = [rate(named, n_audits) for named, _ in found] + [rate(found[0][1], n_audits)]
        yield f"| {plant.name} | {' | '.join(cells)} |"
