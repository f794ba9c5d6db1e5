"""What the intervals promise, measured. Minutes: the figures are those the docstrings quote."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.stats import (
    Estimate,
    cluster_bootstrap,
    cluster_interval,
    correlations_from_sums,
    delta_interval,
    quotient,
    ratio_influences,
    ratio_interval,
    sign_flip_ranks,
    wilson_interval,
)

Floats = NDArray[np.float64]
Rng = np.random.Generator

pytestmark = pytest.mark.slow


def ratio(totals: Floats) -> Floats:
    return quotient(totals[:, 0], totals[:, 1])


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


def correlation_sums(n: int, slope: float, rng: Rng) -> tuple[Floats, float]:
    """Sessions whose slopes differ, and the correlation of all of them together."""
    xs = rng.normal(size=(n, 5))
    ys = (slope + 0.5 * rng.normal(size=(n, 1))) * xs + rng.normal(size=(n, 5))
    parts = (xs, ys, xs * xs, ys * ys, xs * ys)
    sums = np.column_stack([np.full(n, 5.0), *(part.sum(axis=1) for part in parts)])
    return sums, slope / math.sqrt(slope**2 + 0.25 + 1.0)


def covers(estimate: Estimate | None, truth: float) -> bool:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def report(name: str, hits: list[bool]) -> float:
    low, high = wilson_interval(sum(hits), len(hits)) or (0.0, 1.0)
    print(f"{name}: {np.mean(hits):.3f} ({low:.3f}-{high:.3f})")
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


@pytest.mark.parametrize("kind", ["even", "skewed", "uneven"])
@pytest.mark.parametrize(("n", "place"), [(8, 0), (20, 1), (200, 2)])
def test_bootstrap_intervals_of_means_cover(kind: str, n: int, place: int) -> None:
    rng = np.random.default_rng(200 + n)
    hits = [
        covers(cluster_bootstrap(session_sums(kind, n, rng), ratio, rng, n_draws=1000), 0.0)
        for _ in range(1000)
    ]
    assert LEAST[kind][place] - 0.025 <= report(f"bootstrap, {kind}, {n} sessions", hits) <= 0.985


def by_leaving_out(sums: Floats) -> Estimate | None:
    return cluster_interval(sums, correlations_from_sums)


def by_fisher(sums: Floats) -> Estimate | None:
    return cluster_interval(sums, correlations_from_sums, link="fisher")


def by_delta(sums: Floats) -> Estimate | None:
    return delta_interval(len(sums), sums.sum(axis=0), sums.T @ sums, correlations_from_sums)


@pytest.mark.parametrize(
    ("way", "least"), [(by_leaving_out, 0.90), (by_fisher, 0.93), (by_delta, 0.86)]
)
@pytest.mark.parametrize("n", [8, 20, 200])
@pytest.mark.parametrize("slope", [0.0, 0.8])
def test_intervals_of_correlations_cover(
    way: Callable[[Floats], Estimate | None], least: float, n: int, slope: float
) -> None:
    rng = np.random.default_rng(300 + n)
    hits = []
    for _ in range(2000):
        sums, truth = correlation_sums(n, slope, rng)
        hits.append(covers(way(sums), truth))
    goal = least if n < 20 else 0.925
    assert goal - 0.015 <= report(f"correlation {way.__name__}, {slope}, {n}", hits) <= 0.98


@pytest.mark.parametrize(("n", "k"), [(6, 10), (8, 3), (8, 30), (20, 10), (50, 30), (200, 3)])
def test_boards_without_differences_part_no_one(n: int, k: int) -> None:
    """S11: at most one board in twenty, within Monte-Carlo error and the figures quoted."""
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


@pytest.mark.parametrize(("n_own", "least"), [(4, 0.93), (6, 0.94), (20, 0.94)])
def test_a_mean_that_few_of_many_sessions_hold_covers(n_own: int, least: float) -> None:
    """A reviewer's own answers are in a few sessions, its harshness in a thousand."""
    rng = np.random.default_rng(500 + n_own)
    hits = []
    for _ in range(1500):
        sums = np.zeros((1000, 4))
        sums[:n_own, 0], sums[:n_own, 1] = rng.normal(size=n_own), 1.0
        sums[:, 2], sums[:, 3] = 2.5 * rng.normal(size=1000), 5.0
        hits.append(covers(cluster_interval(sums, lambda t: ratio(t) - ratio(t[:, 2:])), 0.0))
    assert least - 0.012 <= report(f"own answers in {n_own} of 1000 sessions", hits) <= 0.985
