"""Boards of models that did not all meet the same rivals: plain shares, and those in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import BASE, ModelSums, sum_votes
from peerage.boards.models import board_columns
from peerage.reviews.rows import Rows
from tests.shared.rates import wilson_interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUALITY_SD = 1.0  # of an answer around its model
NOISE_SD = 0.7  # of a review around the answer


@dataclass(frozen=True, slots=True)
class Field:
    """Models with known strengths, and who is in which session."""

    strengths: tuple[float, ...]
    n_sessions: int
    present: Callable[
        [float, np.random.Generator], Bools
    ]  # from the part of the season that passed
    peers: bool = True  # models review each other, or five outsiders do


def newcomers(n_veterans: int, n_new: int, after: float) -> Callable[..., Bools]:
    """Veterans in every session, and newcomers after this part of the season."""

    def present(passed: float, _: np.random.Generator) -> Bools:
        return np.array([True] * n_veterans + [passed >= after] * n_new)

    return present


def replaced(n: int, at: float) -> Callable[..., Bools]:
    """The last but one of n models leaves, and the last one comes in its place."""

    def present(passed: float, _: np.random.Generator) -> Bools:
        return np.array([True] * (n - 2) + [passed < at, passed >= at])

    return present


def neighbours(n: int, k: int) -> Callable[..., Bools]:
    """k models in a row of n, by chance: the weak meet the weak."""

    def present(_: float, rng: np.random.Generator) -> Bools:
        first = rng.integers(0, n - k + 1)
        return (np.arange(n) >= first) & (np.arange(n) < first + k)

    return present


FIELDS = {
    "two better newcomers after 70%, 200 sessions": Field(
        (-1.5, -1.25, -1.0, 1.0, 1.4, 1.9), 200, newcomers(4, 2, 0.7)
    ),
    "the same, 400 sessions": Field((-1.5, -1.25, -1.0, 1.0, 1.4, 1.9), 400, newcomers(4, 2, 0.7)),
    "the same, judged by outsiders": Field(
        (-1.5, -1.25, -1.0, 1.0, 1.4, 1.9), 200, newcomers(4, 2, 0.7), peers=False
    ),
    "one newcomer after 80%, 400 sessions": Field(
        (0.0, 0.3, 0.6, 0.9, 1.3), 400, newcomers(4, 1, 0.8)
    ),
    "two newcomers of ten after 90%, 400 sessions": Field(
        (-1.0, -0.5, 0.0, 0.1, 0.2, 0.3, 0.6, 1.0, 1.4, 2.0), 400, newcomers(8, 2, 0.9)
    ),
    "one seat replaced half-way, 300 sessions": Field(
        (0.0, 0.2, 0.4, 0.6, 1.0, 1.4), 300, replaced(6, 0.5)
    ),
    "four of eight, neighbours meet, 400 sessions": Field(
        (-1.0, -0.7, -0.4, -0.1, 0.2, 0.5, 0.8, 1.2), 400, neighbours(8, 4)
    ),
    "six equal models, two after 70%, 100 sessions": Field((0.0,) * 6, 100, newcomers(4, 2, 0.7)),
}


LATE = {  # equal models, some of which come late
    "5 models, one in the last 5 of 50": Field((0.0,) * 5, 50, newcomers(4, 1, 0.9)),
    "5 models, one in the last 4 of 100": Field((0.0,) * 5, 100, newcomers(4, 1, 0.96)),
    "5 models, one in the last 8 of 100": Field((0.0,) * 5, 100, newcomers(4, 1, 0.92)),
    "6 models, one in the last 6 of 100": Field((0.0,) * 6, 100, newcomers(5, 1, 0.94)),
    "10 models, one in the last 10 of 200": Field((0.0,) * 10, 200, newcomers(9, 1, 0.95)),
    "6 models, two after 70% of 100": Field((0.0,) * 6, 100, newcomers(4, 2, 0.7)),
}


def count_separating(field: Field, n_boards: int, seed: int = 0) -> int:
    """How many boards of equal models separate any two, by their shares on common rivals."""
    rng, n_separating = np.random.default_rng(seed), 0
    for _ in range(n_boards):
        sums = made(field, rng)
        columns = board_columns(sums, "borda", meetings=sums)
        n = sum(rank is not None for rank in columns["rank"])
        ends = zip(columns["rank_low"], columns["rank_high"], strict=True)
        n_separating += any((low, high) != (1, n) for low, high in ends if low is not None)
    return n_separating


@dataclass(frozen=True, slots=True)
class Rates:
    """Of some boards: right models first, all rank ranges right, intervals that hold the truth."""

    n_first: int
    n_ranges: int
    n_intervals: int


def truth(strengths: tuple[float, ...]) -> Floats:
    """The share of each model against all others alike."""
    sd = np.sqrt(2.0 * (QUALITY_SD**2 + NOISE_SD**2))
    gaps = np.subtract.outer(strengths, strengths) / sd
    above = np.vectorize(NormalDist().cdf)(gaps)
    shares: Floats = (above.sum(axis=1) - 0.5) / (len(strengths) - 1)
    return shares


def made(field: Field, rng: np.random.Generator) -> ModelSums:
    """The sums of one season of the field, with who met whom."""
    strengths = np.array(field.strengths)
    n, blocks = len(strengths), []
    for session in range(field.n_sessions):
        there = np.flatnonzero(field.present(session / field.n_sessions, rng))
        judges = there if field.peers else n + np.arange(5)
        quality = strengths[there] + rng.normal(0.0, QUALITY_SD, len(there))
        seen = quality + rng.normal(0.0, NOISE_SD, (len(judges), len(there)))
        rank = (-seen).argsort(axis=1).argsort(axis=1) + 1.0
        judge, candidate = (grid.ravel() for grid in np.meshgrid(judges, there, indexing="ij"))
        blocks.append((np.full(len(judge), session), judge, candidate, rank.ravel()))
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    names = tuple(f"m{i:02d}" for i in range(n + 5))
    clusters = np.arange(field.n_sessions)
    sessions, judges, candidates, ranks = columns
    numbers = {"rank": ranks.astype(np.float64)}
    units = tuple(f"session {i:05d}" for i in clusters)
    rows = Rows(
        names, len(clusters), clusters, sessions, judges, candidates, numbers=numbers, units=units
    )
    return sum_votes(rows, (*BASE, "rivals", "meetings"))


def rates(field: Field, n_boards: int, seed: int = 0) -> dict[str, Rates]:
    """How often boards of plain shares, and of shares on common rivals, are right."""
    rng = np.random.default_rng(seed)
    right = truth(field.strengths)
    counts = {"share": np.zeros(3, dtype=int), "share_common": np.zeros(3, dtype=int)}
    for _ in range(n_boards):
        sums = made(field, rng)
        for name in counts:
            meetings = sums if name == "share_common" else None
            columns = board_columns(sums, "borda", meetings=meetings)
            counts[name] += _right(columns, name, field.strengths, right)
    return {name: Rates(*(int(n) for n in some)) for name, some in counts.items()}


def _right(
    columns: dict[str, list[Any]], name: str, strengths: tuple[float, ...], right: Floats
) -> tuple[int, int, int]:
    codes = [int(model[1:]) for model in columns["model"]]
    n_ranges = all(
        low <= 1 + sum(s > strengths[i] for s in strengths)
        and high >= sum(s >= strengths[i] for s in strengths)
        for i, low, high in zip(codes, columns["rank_low"], columns["rank_high"], strict=True)
    )
    n_intervals = sum(
        low <= right[i] <= high
        for i, low, high in zip(codes, columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
    )
    return int(strengths[codes[0]] == max(strengths)), int(n_ranges), n_intervals


def common_rivals_lines(n_boards: int) -> Iterator[str]:
    """A table of how often both kinds of boards are right."""
    heads = "plain share: first, ranges, intervals | common rivals: first, ranges, intervals"
    yield f"| who met whom ({n_boards} boards each) | {heads} |"
    yield "|---|---|---|"
    for name, field in FIELDS.items():
        found = rates(field, n_boards)
        cells = [
            f"{_percent(r.n_first, n_boards)}, {_percent(r.n_ranges, n_boards)}, "
            f"{_percent(r.n_intervals, n_boards * len(field.strengths))}"
            for r in found.values()
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def _percent(k: int, n: int) -> str:
    low, high = wilson_interval(k, n) or (0.0, 1.0)
    return f"{k / n:.1%} [{low:.0%}–{high:.0%}]"
