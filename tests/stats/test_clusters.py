"""Cluster intervals against the plain formulas, their edges, and the same draws everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from peerage.stats.clusters import (
    RatioEstimate,
    generator,
    random_bits,
    ratio_influences,
    ratio_interval,
    round_to_grid,
    spread_of,
)

Floats = NDArray[np.float64]


def known(estimate: RatioEstimate | None) -> tuple[float, float, float, float]:
    assert estimate is not None
    assert all(field is not None and math.isfinite(field) for field in estimate)
    return estimate  # type: ignore[return-value]


def test_with_one_value_a_cluster_it_is_the_t_test() -> None:
    values = np.random.default_rng(2).uniform(-0.5, 1, 12)
    value, low, high, se = known(ratio_interval(values, np.ones(12)))
    expected = scipy_stats.ttest_1samp(values, 0.1)
    interval = expected.confidence_interval()
    assert value == pytest.approx(values.mean())
    assert se == pytest.approx(scipy_stats.sem(values))
    assert (low, high) == pytest.approx((interval.low, interval.high))


def test_clusters_without_anything_do_not_count() -> None:
    tops, bottoms = np.array([3.0, 0.0, 5.0, 0.0, 2.0]), np.array([2.0, 0.0, 2.0, 0.0, 2.0])
    full = ratio_interval(tops, bottoms)
    held = ratio_interval(tops[::2], bottoms[::2])
    assert full == held
    assert full is not None


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.7])
def test_a_few_clusters_that_agree_to_the_digit_are_not_certainty(share: float) -> None:
    few = ratio_interval(np.array([2.0, 3.0, 4.0]) * share, [2.0, 3.0, 4.0])
    assert few == (pytest.approx(share), None, None, 0.0)
    many = ratio_interval(np.full(20, 3 * share), np.full(20, 3.0))
    assert many is not None
    assert many.low == many.high == many.value


def test_few_clusters_with_all_the_weight_are_worth_few_degrees() -> None:
    def degrees(left_out: Floats) -> float:
        return float(spread_of(left_out, np.zeros(len(left_out), dtype=np.int64), 1).df[0])

    even = np.tile([1.0, -1.0], 100)
    assert degrees(even) == 199
    lonely = np.concatenate([[5.0, -5.0, 4.0, -4.0], np.zeros(996)])
    assert degrees(lonely) < 8
    assert degrees(np.array([1.0, 2.0])) == 1


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 9)), min_size=2, max_size=30),
    st.floats(0.01, 100),
    st.integers(-20, 20),
)
def test_interval_moves_and_stretches_with_the_data(
    rows: list[tuple[int, int]], scale: float, shift: int
) -> None:
    tops, bottoms = (np.array(side, dtype=float) for side in zip(*rows, strict=True))
    plain = ratio_interval(tops, bottoms)
    moved = ratio_interval(scale * (tops + shift * bottoms), bottoms)
    back = ratio_interval(tops[::-1], bottoms[::-1])
    assert plain is not None
    assert moved is not None
    assert back is not None
    assert moved.value == pytest.approx(scale * (plain.value + shift), abs=1e-9)
    if plain.se and moved.se:
        assert moved.se == pytest.approx(scale * plain.se, rel=1e-5)
        assert back.se == pytest.approx(plain.se, rel=1e-6)


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(0, 3)), max_size=12),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_nothing_but_finite_numbers_come_out(rows: list[tuple[float, int]], level: float) -> None:
    estimate = ratio_interval([row[0] for row in rows], [row[1] for row in rows], level=level)
    if estimate is not None:
        assert all(field is None or math.isfinite(field) for field in estimate)
        assert estimate.low is None or estimate.low <= estimate.value <= estimate.high  # type: ignore[operator]


def test_influences_of_many_ratios_are_those_of_each() -> None:
    rng = np.random.default_rng(7)
    bottoms = rng.integers(0, 3, (30, 4)).astype(float)
    tops = bottoms * rng.normal(size=(30, 4))
    ratios, pulls = ratio_influences(tops, bottoms)
    covariance = pulls.T @ pulls
    for column in range(4):
        value, _, _, se = known(ratio_interval(tops[:, column], bottoms[:, column]))
        assert ratios[column] == pytest.approx(value)
        assert math.sqrt(covariance[column, column]) == pytest.approx(se)
    assert (pulls[bottoms == 0] == 0).all()


def test_covariance_of_two_ratios_is_that_of_their_difference() -> None:
    rng = np.random.default_rng(8)
    tops = rng.normal(size=(25, 2)) + rng.normal(size=(25, 1))
    _, pulls = ratio_influences(tops, np.ones((25, 2)))
    covariance = pulls.T @ pulls
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert math.sqrt(variance) == pytest.approx(scipy_stats.sem(tops[:, 0] - tops[:, 1]))


def test_influences_on_a_ratio_of_one_cluster_are_unknown() -> None:
    ratios, pulls = ratio_influences([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0]], [[2, 1, 0], [0, 1, 0]])
    assert ratios[:2].tolist() == [0.5, 2.5]
    assert np.isnan(ratios[2])
    assert np.isnan(pulls[0, 0])
    assert np.isfinite(pulls[:, 1]).all()


def test_ratio_interval_is_the_jackknife_one_by_one() -> None:
    rng = np.random.default_rng(3)
    bottoms = rng.integers(1, 9, 15).astype(float)
    tops = bottoms * rng.normal(size=15)
    left_out = [np.delete(tops, i).sum() / np.delete(bottoms, i).sum() for i in range(len(tops))]
    expected = math.sqrt(14 / 15 * np.sum((left_out - np.mean(left_out)) ** 2))
    assert known(ratio_interval(tops, bottoms))[3] == pytest.approx(expected)


def test_a_seed_is_its_parts_and_their_borders() -> None:
    def first(*parts: object) -> int:
        return int(generator(*parts).integers(0, 2**62))

    assert first("a", 1) == first("a", "1")
    assert len({first("ab", "c"), first("a", "bc"), first("abc"), first("c", "ab")}) == 4


def test_bits_are_fair() -> None:
    bits = random_bits(generator("bits"), 1001, 999)
    assert set(np.unique(bits)) == {0.0, 1.0}
    assert abs(bits.mean() - 0.5) < 0.002


def test_whole_numbers_are_on_the_grid_already() -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, (500, 3)).astype(float)
    assert (round_to_grid(counts) == counts).all()
    assert (round_to_grid(np.zeros((3, 2))) == 0).all()
