"""Rank ranges against all pairs one by one, tiers, and rank correlations against scipy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from peerage.stats.clusters import generator, ratio_influences
from peerage.stats.ranking import (
    kendall_tau,
    midranks,
    normal_draws,
    sign_flip_ranks,
    simultaneous_ranks,
    spearman,
    tiers,
)

Floats = NDArray[np.float64]


def scores(n: int, gaps: list[float], seed: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, len(gaps))) + rng.normal(size=(n, 1)) + gaps
    return ratio_influences(table, np.ones_like(table))


def ranges_by_pairs(values: Floats, draws: Floats, level: float) -> tuple[list[int], list[int]]:
    """Every pair, one by one."""
    n = len(values)
    spread = draws - draws.mean(axis=0)
    errors = {(i, j): (draws[:, i] - draws[:, j]).std(ddof=1) for i in range(n) for j in range(n)}
    largest = [
        max(abs(draw[i] - draw[j]) / errors[i, j] for i in range(n) for j in range(i))
        for draw in spread
    ]
    reach = sorted(largest)[math.ceil(level * (len(draws) - 1))]
    beats = [[values[i] - values[j] > reach * errors[i, j] for j in range(n)] for i in range(n)]
    low = [1 + sum(beats[i][j] for i in range(n)) for j in range(n)]
    return low, [n - sum(beats[i]) for i in range(n)]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_ranges_are_those_of_all_pairs_one_by_one(level: float) -> None:
    values, pulls = scores(60, [0.0, 0.3, 0.5, 1.5, 1.6])
    draws = normal_draws(values, pulls.T @ pulls, generator("pairs"), 400)
    low, high = simultaneous_ranks(values, draws, level=level)
    assert (low.tolist(), high.tolist()) == ranges_by_pairs(values, draws, level)


def test_both_ways_agree_when_clusters_are_many() -> None:
    values, pulls = scores(800, [0.0, 0.05, 1.0, 2.0, 2.01])
    draws = normal_draws(values, pulls.T @ pulls, generator("agree"))
    drawn = simultaneous_ranks(values, draws)
    flipped = sign_flip_ranks(values, pulls, generator("agree"))
    for low, high in (drawn, flipped):
        assert low.tolist() == [4, 4, 3, 1, 1]
        assert high.tolist() == [5, 5, 3, 2, 2]
        assert tiers(low, high).tolist() == [3, 3, 2, 1, 1]


def test_few_clusters_need_wider_ranges() -> None:
    values, pulls = scores(6, [0.0, 2.0, 4.0], seed=3)
    draws = normal_draws(values, pulls.T @ pulls, generator("few"))
    careless = simultaneous_ranks(values, draws)
    careful = simultaneous_ranks(values, draws, df=2)
    assert (careful[0] <= careless[0]).all()
    assert (careful[1] >= careless[1]).all()
    assert (careful[1] - careful[0]).sum() > (careless[1] - careless[0]).sum()


@pytest.mark.parametrize("share", [0.7, 1 / 3])
def test_a_difference_with_zero_variance_is_a_tie(share: float) -> None:
    """Equal or not, nothing is known of how it would vary."""
    tops = np.column_stack([np.full(9, share), np.full(9, share / 2), np.full(9, share)])
    values, pulls = ratio_influences(tops, np.ones((9, 3)))
    for low, high in (
        sign_flip_ranks(values, pulls, generator("tie")),
        simultaneous_ranks(values, np.tile(values, (100, 1))),
    ):
        assert low.tolist() == [1, 1, 1]
        assert high.tolist() == [3, 3, 3]


def test_twins_tie_and_the_rest_are_told_apart() -> None:
    values, pulls = scores(100, [3.0, 0.0])
    twins, twin_pulls = values[[0, 0, 1]], pulls[:, [0, 0, 1]]
    draws = normal_draws(twins, twin_pulls.T @ twin_pulls, generator("twins"))
    for low, high in (
        sign_flip_ranks(twins, twin_pulls, generator("twins")),
        simultaneous_ranks(twins, draws),
    ):
        assert low.tolist() == [1, 1, 3]
        assert high.tolist() == [2, 2, 3]


def test_an_estimate_that_is_unknown_ties_with_everyone() -> None:
    values, pulls = scores(100, [3.0, 0.0, 1.0])
    gap = np.array([1.0, math.nan, 1.0])
    low, high = sign_flip_ranks(values * gap, pulls * gap, generator("gap"))
    assert low.tolist() == [1, 1, 2]
    assert high.tolist() == [2, 3, 3]
    draws = normal_draws(values, pulls.T @ pulls, generator("gap")) * gap
    assert [side.tolist() for side in simultaneous_ranks(values * gap, draws)] == [
        low.tolist(),
        high.tolist(),
    ]


def test_nothing_to_rank_is_ranked_without_complaint() -> None:
    for low, high in (
        sign_flip_ranks([], np.zeros((5, 0)), generator("none")),
        simultaneous_ranks([], np.zeros((5, 0))),
    ):
        assert low.tolist() == high.tolist() == tiers(low, high).tolist() == []
    assert [side.tolist() for side in simultaneous_ranks([0.4], [[0.3], [0.5]])] == [[1], [1]]
    assert [side.tolist() for side in simultaneous_ranks([1, 2], np.zeros((0, 2)))] == [
        [1, 1],
        [2, 2],
    ]
    assert [
        side.tolist() for side in sign_flip_ranks([1, 2], np.zeros((0, 2)), generator("none"))
    ] == [[1, 1], [2, 2]]


def test_draws_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="2 estimates"):
        simultaneous_ranks([1.0, 2.0], np.zeros((5, 3)))
    with pytest.raises(ValueError, match="2 estimates"):
        sign_flip_ranks([1.0, 2.0], np.zeros(5), generator("shape"))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))
def test_normal_draws_have_the_covariance_even_a_singular_one(n: int, rank: int, seed: int) -> None:
    root = np.random.default_rng(seed).normal(size=(n, rank))
    covariance = root @ root.T
    draws = normal_draws(np.arange(n), covariance, generator(seed), 4000)
    assert np.isfinite(draws).all()
    scale = covariance.diagonal().max()
    assert np.atleast_2d(np.cov(draws.T)) / scale == pytest.approx(covariance / scale, abs=0.15)
    assert (draws - np.arange(n)).mean(axis=0) / math.sqrt(scale) == pytest.approx(
        np.zeros(n), abs=0.1
    )


def test_a_covariance_of_zero_draws_the_estimates_themselves() -> None:
    assert (normal_draws([1.0, 2.0], np.zeros((2, 2)), generator("zero"), 3) == [1.0, 2.0]).all()


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.integers(0, 100))
def test_a_range_holds_the_estimates_own_rank(gaps: list[float], seed: int) -> None:
    values, pulls = scores(12, gaps, seed)
    low, high = sign_flip_ranks(values, pulls, generator(seed), n_draws=200)
    own = 1 + (values[None, :] > values[:, None]).sum(axis=1)
    assert (low <= own).all()
    assert (own <= high).all()
    numbers = tiers(low, high)
    order = np.argsort(-values)
    assert (np.diff(numbers[order]) >= 0).all()
    assert sorted(set(numbers.tolist())) == list(range(1, int(numbers.max()) + 1))


def test_a_chain_of_overlaps_is_one_tier() -> None:
    assert tiers([1, 1, 2], [2, 3, 3]).tolist() == [1, 1, 1]
    assert tiers([1, 2, 2], [1, 3, 3]).tolist() == [1, 2, 2]
    assert tiers([3, 2, 1], [3, 2, 1]).tolist() == [3, 2, 1]


# -- two orders ------------------------------------------------------------------------------

few_marks = st.integers(1, 5).map(float)
pairs = st.lists(st.tuples(few_marks, few_marks), min_size=3, max_size=25)


def varies(values: Sequence[float]) -> bool:
    return len(set(values)) > 1


@given(st.lists(few_marks, min_size=1, max_size=40))
def test_midranks_are_scipys(values: list[float]) -> None:
    assert midranks(values).tolist() == scipy_stats.rankdata(values).tolist()


@given(pairs)
def test_rank_correlations_are_scipys(rows: list[tuple[float, float]]) -> None:
    xs, ys = zip(*rows, strict=True)
    if varies(xs) and varies(ys):
        tau, rho = scipy_stats.kendalltau(xs, ys).statistic, scipy_stats.spearmanr(xs, ys).statistic
        assert kendall_tau(xs, ys) == pytest.approx(tau, abs=1e-12)
        assert spearman(xs, ys) == pytest.approx(rho, abs=1e-12)
    else:
        assert kendall_tau(xs, ys) is None
        assert spearman(xs, ys) is None


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_kendalls_tau_is_scipys_on_many_items(digits: int) -> None:
    rng = np.random.default_rng(digits)
    xs = rng.normal(size=5000).round(digits)
    ys = (xs + rng.normal(size=5000)).round(digits)
    assert kendall_tau(xs, ys) == pytest.approx(scipy_stats.kendalltau(xs, ys).statistic, abs=1e-12)


def test_two_items_have_a_tau_but_no_rho() -> None:
    assert kendall_tau([1.0, 2.0], [5.0, 3.0]) == -1.0
    assert spearman([1.0, 2.0], [5.0, 3.0]) is None
    assert kendall_tau([1.0], [1.0]) is None
    assert kendall_tau([], []) is None


@given(pairs, st.randoms(use_true_random=False))
def test_rank_correlations_only_see_the_order(
    rows: list[tuple[float, float]], random: object
) -> None:
    random.shuffle(rows)  # type: ignore[attr-defined]
    xs, ys = zip(*rows, strict=True)
    bent = [math.exp(x) for x in xs]
    for measure in (kendall_tau, spearman):
        r = measure(xs, ys)
        assert measure(bent, ys) == pytest.approx(r, abs=1e-12)
        flipped = measure(xs, [-y for y in ys])
        assert flipped == (None if r is None else pytest.approx(-r, abs=1e-12))
