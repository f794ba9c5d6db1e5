"""What the intervals promise, measured. Minutes: the figures are those the docstrings quote."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.stats.clusters import (
    RatioEstimate,
    ratio_influences,
    ratio_interval,
)
from peerage.stats.ranking import sign_flip_ranks

Floats = NDArray[np.float64]
Rng = np.random.Generator

pytestmark = pytest.mark.slow


def sizes(kind: str, n: int, rng: Rng) -> Floats:
    """Reviews a session: five, or lognormal and so often ten times each other."""
    if kind == "uneven":
        return np.ceil(np.exp(rng.normal(1.0, 1.2, n)))
    return np.full(n, 5.0)


def session_sums(kind: str, n: int, rng: Rng) -> Floats:
    """Points and reviews of sessions with an effect of their own, of mean zero."""
    counts = sizes(kind, n, rng)
    effect = rng.exponential(size=n) - 1.0 if kind == "skewed" else rng.normal(size=n)
    return np.column_stack([counts * effect + np.sqrt(counts) * rng.normal(size=n), counts])


def covers(estimate: RatioEstimate | None, truth: float) -> bool:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def report(name: str, hits: list[bool]) -> float:
    print(f"{name}: {np.mean(hits):.3f}")
    return float(np.mean(hits))


LEAST = {  # coverage of a mean over reviews that must be met at 8, 20 and 200 sessions
    "even": (0.94, 0.94, 0.94),
    "skewed": (0.91, 0.92, 0.94),
    "uneven": (0.90, 0.93, 0.94),
}


@pytest.mark.parametrize("kind", ["even", "skewed", "uneven"])
@pytest.mark.parametrize(("n", "place"), [(8, 0), (20, 1), (200, 2)])
def test_intervals_of_means_cover(kind: str, n: int, place: int) -> None:
    rng = np.random.default_rng(100 + n)
    hits = [
        covers(ratio_interval(sums[:, 0], sums[:, 1]), 0.0)
        for sums in (session_sums(kind, n, rng) for _ in range(4000))
    ]
    assert LEAST[kind][place] - 0.01 <= report(f"mean, {kind}, {n} sessions", hits) <= 0.98


@pytest.mark.parametrize(("n", "k"), [(6, 10), (8, 3), (8, 30), (20, 10), (50, 30), (200, 3)])
def test_boards_without_differences_part_no_one(n: int, k: int) -> None:
    """At most one board in twenty, within Monte-Carlo error and the figures quoted."""
    rng = np.random.default_rng(400 + n)
    alarms = []
    for _ in range(400):
        table = rng.normal(size=(n, k)) * np.exp(rng.normal(0, 0.3, k))
        shown = (rng.random((n, k)) < 0.8).astype(float)
        shown[:2] = 1.0
        values, pulls = ratio_influences(table * shown, shown)
        low, high = sign_flip_ranks(values, pulls, rng, n_draws=1000)
        alarms.append(bool((low > 1).any() or (high < k).any()))
    assert report(f"boards, {n} sessions, {k} models", alarms) <= (0.12 if n < 8 else 0.085)
