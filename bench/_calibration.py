"""The audit audited: how often it cries wolf over fair judges, and how often it sees a wolf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from peerage.audit.across import conclude, measured, panel_of, plan, sums_of
from peerage.audit.encoded import rows_of
from peerage.audit.limits import EVIDENCE_Q, Limits, Tested, status
from peerage.council.blinding import deal_order
from peerage.simulate.reviews import Planted, Season, simulated_reviews
from peerage.stats.tails import wilson_interval
from peerage.types import Finding

NAMES = tuple("abcdefgh")
FAMILIES = {"a": "one", "b": "one"}


@dataclass(frozen=True)
class Plant:
    """A planted bias, and the finding that must name it."""

    name: str
    planted: Planted
    metric: str
    subject: str


PLANTS = (
    Plant("position +0.5, everyone", Planted(position=0.5), "position", "all"),
    Plant("position +0.8, one", Planted(position_by={"b": 0.8}), "position", "b"),
    Plant("length r = .3, everyone", Planted(length=0.46), "length", "all"),
    Plant("length +0.4 a sd, one", Planted(length_by={"c": 0.4}), "length_relative", "c"),
    Plant("self-preference +1", Planted(self_preference={"a": 1.0}), "self_preference", "a"),
    Plant("harshness −1", Planted(harshness={"d": -1.0}), "calibration", "d"),
    Plant("family +0.8", Planted(family={"a": 0.8}), "family_preference", "a"),
    Plant("anchoring −0.3", Planted(anchoring=-0.3), "anchoring", "all"),
    Plant("favour +1.2 to one", Planted(sycophancy={("a", "c"): 1.2}), "sycophancy", "a>c"),
    Plant("drift +0.25 a week", Planted(drift={"e": 0.25}), "drift", "e"),
    Plant("unsteady, noise 1.5", Planted(unsteady={"e": 1.5}), "consistency", "e"),
    Plant("reasoning +0.5 a sd", Planted(reasoning=0.5), "reasoning_length", "all"),
)


def one_trial(season: Season, planted: Planted, seed: int) -> list[tuple[Tested, Finding]]:
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
    panel = panel_of(totals, rows.names, Limits())
    found = conclude(totals, rows.names, agreed, Limits())
    return list(zip(measured(totals, panel, agreed), found.findings, strict=True))


def season_of(n_seats: int, n_sessions: int, order: str) -> Season:
    return Season(
        seats=NAMES[:n_seats],
        n_sessions=n_sessions,
        order=order,
        repeats=0.1,
        reasoning=True,
        families=FAMILIES,
    )


@dataclass(frozen=True)
class FairTrial:
    """Many audits of fair judges: p below .05, evidence before and after correction, alarms."""

    n_audits: int
    n_tested: dict[str, int]
    n_small_p: dict[str, int]
    n_uncorrected: dict[str, int]  # p < .05 and beyond the healthy range
    n_with_evidence: int


def fair_trial(season: Season, seeds: range) -> FairTrial:
    tested: dict[str, int] = {}
    small: dict[str, int] = {}
    uncorrected: dict[str, int] = {}
    alarms = 0
    for seed in seeds:
        trial = one_trial(season, Planted(), seed)
        alarms += any(one.status == "evidence" for _, one in trial)
        for measured_one, one in trial:
            if one.q is None:
                continue
            name, p = one.metric, measured_one.p
            tested[name] = tested.get(name, 0) + 1
            small[name] = small.get(name, 0) + (p is not None and p < EVIDENCE_Q)
            alone = status(measured_one, p) == "evidence"
            uncorrected[name] = uncorrected.get(name, 0) + alone
    return FairTrial(len(seeds), tested, small, uncorrected, alarms)


def power(plant: Plant, season: Season, seeds: range) -> tuple[int, int, int]:
    """How many audits name the plant, of how many, and how many name anything it does not move."""
    named = others = 0
    for seed in seeds:
        trial = one_trial(season, plant.planted, seed)
        evidence = {(one.metric, one.subject) for _, one in trial if one.status == "evidence"}
        named += (plant.metric, plant.subject) in evidence
        others += any(metric not in MOVES[plant.metric] for metric, _ in evidence)
    return named, len(seeds), others


# What a plant moves by construction: a reviewer's harshness is part of most of its figures, an
# answer's standing with the others is part of all of theirs.
MOVES = {
    "position": {"position", "anchoring"},
    "length": {"length"},
    "length_relative": {"length", "length_relative"},
    "self_preference": {"self_preference"},
    "calibration": {"calibration"},
    "family_preference": {"family_preference", "sycophancy", "self_preference"},
    "anchoring": {"anchoring", "position"},
    "sycophancy": {"sycophancy", "self_preference", "family_preference", "calibration"},
    "drift": {"drift", "calibration", "consistency"},
    "consistency": {"consistency", "agreement"},
    "reasoning_length": {"reasoning_length"},
}


def rate(k: int, n: int) -> str:
    """A rate with its Wilson interval, in per cent."""
    interval = wilson_interval(k, n)
    if interval is None:
        return "–"
    return f"{100 * k / n:.1f}% [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def fair_lines(n_audits: int) -> Iterator[str]:
    """The table of false alarms, in Markdown."""
    yield "| seats | sessions | orders | p < .05 | before correction | audits with any evidence |"
    yield "|---|---|---|---|---|---|"
    grid = [(5, 200, "balanced"), (5, 200, "shuffle"), (3, 200, "shuffle"), (8, 200, "balanced")]
    grid += [(5, 50, "balanced"), (5, 1000, "shuffle")]
    for n_seats, n_sessions, order in grid:
        trial = fair_trial(season_of(n_seats, n_sessions, order), range(n_audits))
        n = sum(trial.n_tested.values())
        cells = (
            rate(sum(trial.n_small_p.values()), n),
            rate(sum(trial.n_uncorrected.values()), n),
            rate(trial.n_with_evidence, n_audits),
        )
        yield f"| {n_seats} | {n_sessions} | {order} | {' | '.join(cells)} |"


def metric_lines(n_audits: int) -> Iterator[str]:
    """False alarms by metric, at five seats and 200 sessions."""
    yield "| metric | findings | p < .05 | before correction |"
    yield "|---|---|---|---|"
    trial = fair_trial(season_of(5, 200, "balanced"), range(n_audits))
    for metric, n in trial.n_tested.items():
        small, raw = trial.n_small_p[metric], trial.n_uncorrected[metric]
        yield f"| `{metric}` | {n} | {rate(small, n)} | {rate(raw, n)} |"


def power_lines(n_audits: int) -> Iterator[str]:
    yield "| planted (5 seats, 200 sessions) | named by | power | audits naming the unmoved |"
    yield "|---|---|---|---|"
    for plant in PLANTS:
        named, n, others = power(plant, season_of(5, 200, "balanced"), range(n_audits))
        where = f"`{plant.metric}` of {plant.subject}"
        yield f"| {plant.name} | {where} | {rate(named, n)} | {rate(others, n)} |"
