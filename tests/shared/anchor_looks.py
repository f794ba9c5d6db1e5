"""Simulated judges of anchors: one that stays, and one that is swapped for another model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peerage.stats.drift import HORIZON, MIN_REPEATS, find_change

Floats = NDArray[np.float64]
N_ANCHORS = 30
N_JUDGES = 3  # that share the chance of a false alarm
N_HEALTHY = 2  # weekly checks between the baseline and the swap: week 5 of 10
N_AFTER = 5


@dataclass(frozen=True)
class Judge:
    """Marks of a judge: their noise in points, by answer, by ballot and by check."""

    noise: float = 0.7
    ballot_noise: float = 0.4
    check_noise: float = 0.0
    first_shown: float = 0.0  # points more for the answer that is shown first
    n_answers: int = 3
    n_dimensions: int = 0
    shift: float = 0.0  # against the judge that it takes the place of
    tastes: float = 0.0  # by answer and dimension, likewise

    @property
    def n_parts(self) -> int:
        return max(1, self.n_dimensions)

    def look(self, rng: np.random.Generator, quality: Floats, number: int) -> Floats:
        """Return one check: anchors × answers × parts, in whole points from 1 to 10."""
        n, k, d = quality.shape
        marks = quality + self.shift + rng.normal(0, self.check_noise)
        marks = marks + rng.normal(0, self.ballot_noise, (n, 1, 1))
        marks = marks + rng.normal(0, self.noise, (n, k, d))
        marks[:, number % k] += self.first_shown  # orders rotate from check to check
        marks = np.clip(np.rint(marks), 1, 10)
        overall = marks.mean(axis=2, keepdims=True)
        return np.concatenate([overall, marks], axis=2) if self.n_dimensions else marks


def draw_quality(rng: np.random.Generator, judge: Judge) -> Floats:
    """Return how good a judge finds each answer, in each part."""
    quality = rng.normal(6, 1.2, (N_ANCHORS, judge.n_answers, 1))
    return quality + rng.normal(0, 0.5, (N_ANCHORS, judge.n_answers, judge.n_parts))


def false_alarms(judge: Judge, n_years: int, seed: int = 1) -> int:
    """Return how many years of nightly checks of one unchanged judge have an alarm."""
    rng = np.random.default_rng(seed)
    n = 0
    for _ in range(n_years):
        quality = draw_quality(rng, judge)
        looks = [judge.look(rng, quality, k) for k in range(MIN_REPEATS + HORIZON)]
        n += find_change(looks, MIN_REPEATS)[0] is not None
    return n


def checks_to_alarm(judge: Judge, other: Judge, n_runs: int, seed: int = 1) -> Iterator[int | None]:
    """Yield at which check after a swap it is named; 0 for an alarm before it, None for none."""
    rng = np.random.default_rng(seed)
    other = replace(other, n_answers=judge.n_answers, n_dimensions=judge.n_dimensions)
    before = MIN_REPEATS + N_HEALTHY
    for _ in range(n_runs):
        quality = draw_quality(rng, judge)
        swapped = quality + rng.normal(0, other.tastes, quality.shape)
        looks = [judge.look(rng, quality, k) for k in range(before)]
        looks += [other.look(rng, swapped, before + k) for k in range(N_AFTER)]
        alarm, _ = find_change(looks, MIN_REPEATS, N_JUDGES)
        yield None if alarm is None else max(0, alarm.check - before + 1)
