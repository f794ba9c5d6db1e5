"""The bootstrap against drawing clusters one by one, and the same draws everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.stats import (
    Estimate,
    bootstrap_totals,
    bucketed,
    cluster_bootstrap,
    cluster_interval,
    correlations_from_sums,
    draws_estimate,
    generator,
    poisson_bootstrap,
    poisson_weights,
    quotient,
)
from peerage.stats.resampling import gridded, multinomial_weights, random_signs

Floats = NDArray[np.float64]


def ratio(totals: Floats) -> Floats:
    return quotient(totals[:, 0], totals[:, 1])


def rows(n: int, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n).astype(float)
    return np.column_stack([sizes * rng.normal(1, 1, n), sizes])


def test_same_words_same_numbers_on_every_machine() -> None:
    """O2's kind of promise, for draws: these figures may never change."""
    assert generator("board", 7).integers(0, 1000, 5).tolist() == [533, 598, 659, 410, 479]
    assert poisson_weights(generator("board", 7), 1, 12).tolist() == [
        [2, 1, 1, 1, 0, 1, 0, 1, 0, 1, 2, 0]
    ]
    assert random_signs(generator("board", 7), 1, 8).tolist() == [[-1, 1, 1, 1, 1, 1, 1, 1]]


def test_a_seed_is_its_parts_and_their_borders() -> None:
    def first(*parts: object) -> int:
        return int(generator(*parts).integers(0, 2**62))

    assert first("a", 1) == first("a", "1")
    assert len({first("ab", "c"), first("a", "bc"), first("abc"), first("c", "ab")}) == 4


def test_poisson_weights_have_poissons_chances() -> None:
    weights = poisson_weights(generator("weights"), 1000, 1000).ravel()
    shares = np.bincount(weights, minlength=10)[:6] / weights.size
    expected = [math.exp(-1) / math.factorial(k) for k in range(6)]
    assert shares == pytest.approx(expected, abs=0.002)
    assert weights.mean() == pytest.approx(1.0, abs=0.005)
    assert weights.var() == pytest.approx(1.0, abs=0.01)


def test_multinomial_weights_draw_as_many_clusters_as_there_are() -> None:
    weights = multinomial_weights(generator("weights"), 5000, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.06)
    assert weights.var(axis=0) == pytest.approx(np.full(7, 6 / 7), abs=0.1)


def test_signs_are_fair() -> None:
    signs = random_signs(generator("signs"), 1001, 999)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.004


def test_totals_are_those_of_clusters_drawn_one_by_one() -> None:
    sums = rows(9)
    totals = bootstrap_totals(sums, generator("totals"), 50)
    picks = multinomial_weights(generator("totals"), 50, 9)
    for drawn, counts in zip(totals, picks, strict=True):
        by_hand = np.repeat(sums, counts, axis=0).sum(axis=0)
        assert drawn == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("n", [20, 1000])
def test_adding_is_exact_in_any_order(n: int) -> None:
    """Sums on a grid: the library that multiplies matrices cannot change a digit."""
    sums = rows(n) * [1e-7, 1e9]
    grid = gridded(sums)
    weights = poisson_weights(generator("order"), 20, n).astype(float)
    order = np.random.default_rng(9).permutation(n)
    assert (weights @ grid == weights[:, order] @ grid[order]).all()
    by_hand = [[math.fsum(draw * column) for column in grid.T] for draw in weights]
    assert (weights @ grid == np.array(by_hand)).all()
    assert grid == pytest.approx(sums, rel=1e-9)


def test_whole_numbers_are_on_the_grid_already() -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, (500, 3)).astype(float)
    assert (gridded(counts) == counts).all()
    assert (gridded(np.zeros((3, 2))) == 0).all()


@pytest.mark.parametrize("n", [60, 900])
def test_bootstrap_error_is_that_of_leaving_clusters_out(n: int) -> None:
    sums = rows(n)
    drawn = cluster_bootstrap(sums, ratio, generator("error"), n_draws=4000, null=1.0)
    plain = cluster_interval(sums, ratio, null=1.0)
    poisson = poisson_bootstrap(sums, ratio, generator("other"), n_draws=4000, null=1.0)
    assert plain is not None
    for estimate in (drawn, poisson):
        assert estimate is not None
        assert estimate.value == plain.value
        assert estimate.n_clusters == n
        assert estimate.se == pytest.approx(plain.se, rel=0.08)
        assert estimate.low == pytest.approx(plain.low, abs=0.3 * plain.se)  # type: ignore[operator]
        assert estimate.high == pytest.approx(plain.high, abs=0.3 * plain.se)  # type: ignore[operator]
        assert estimate.p == pytest.approx(plain.p, abs=0.1)


def test_bootstrap_works_on_correlations_and_ignores_empty_clusters() -> None:
    rng = np.random.default_rng(3)
    xs, ys = rng.normal(size=(30, 6)), rng.normal(size=(30, 6))
    parts = (xs, ys, xs * xs, ys * ys, xs * ys)
    sums = np.column_stack([np.full(30, 6.0), *(part.sum(axis=1) for part in parts)])
    padded = np.vstack([sums, np.zeros((5, 6))])
    one = cluster_bootstrap(sums, correlations_from_sums, generator(1))
    two = cluster_bootstrap(padded, correlations_from_sums, generator(1))
    assert one == two
    assert one is not None
    assert -1 < one.low < one.value < one.high < 1  # type: ignore[operator]


def test_buckets_give_nearly_the_same_error() -> None:
    sums = rows(20_000)
    keys = np.random.default_rng(5).integers(0, 2**63, 20_000)
    folded = bucketed(sums, keys)
    assert folded.shape == (4096, 2)
    assert folded.sum(axis=0) == pytest.approx(sums.sum(axis=0))
    whole, folded_estimate = cluster_interval(sums, ratio), cluster_interval(folded, ratio)
    assert whole is not None
    assert folded_estimate is not None
    assert folded_estimate.value == pytest.approx(whole.value)
    assert folded_estimate.se == pytest.approx(whole.se, rel=0.05)


def test_a_value_that_hangs_on_one_cluster_has_no_interval() -> None:
    sums = np.array([[3.0, 4.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    lone = cluster_bootstrap(sums, ratio, generator("lone"))
    assert lone == Estimate(0.75, None, None, None, None, 3)
    assert cluster_bootstrap([[3.0, 4.0]], ratio, generator("one")) == Estimate(
        0.75, None, None, None, None, 1
    )
    assert cluster_bootstrap(np.zeros((3, 2)), ratio, generator("none")) is None


def test_draws_without_spread_are_an_agreement_of_clusters() -> None:
    assert draws_estimate(0.5, [0.5] * 100, 3) == Estimate(0.5, None, None, 0.0, 0.25, 3)
    assert draws_estimate(0.5, [0.5] * 100, 10) == Estimate(0.5, 0.5, 0.5, 0.0, 2.0**-9, 10)
    assert draws_estimate(0.5, [], 10) == Estimate(0.5, None, None, None, None, 10)
    half_known = [0.5, math.nan] * 50
    assert draws_estimate(0.5, half_known, 10) == Estimate(0.5, None, None, None, None, 10)


def test_memory_does_not_grow_with_the_clusters() -> None:
    import tracemalloc

    sums = np.ones((100_000, 2))
    tracemalloc.start()
    bootstrap_totals(sums, generator("memory"), 300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # 30 million weights were drawn


def test_draws_of_nothing_are_nothing() -> None:
    assert bootstrap_totals(np.zeros((0, 3)), generator("none"), 4).tolist() == [[0.0] * 3] * 4
    with pytest.raises(ValueError, match="finite"):
        bootstrap_totals([[math.nan]], generator("none"))
    with pytest.raises(ValueError, match="clusters by columns"):
        bootstrap_totals([1.0], generator("none"))
