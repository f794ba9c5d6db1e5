"""Cluster intervals against the plain formulas, and their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from peerage.stats import (
    Estimate,
    cluster_interval,
    correlations_from_sums,
    delta_interval,
    quotient,
    ratio_influences,
    ratio_interval,
)
from peerage.stats.clusters import effective_df, gradient

Floats = NDArray[np.float64]


def ratio(totals: Floats) -> Floats:
    return quotient(totals[:, 0], totals[:, 1])


def pair_sums(xs: Floats, ys: Floats) -> Floats:
    """The six sums of a correlation for each row of pairs."""
    n = np.full(len(xs), xs.shape[1])
    parts = (xs, ys, xs * xs, ys * ys, xs * ys)
    return np.column_stack([n, *(part.sum(axis=1) for part in parts)])


def known(estimate: Estimate | None) -> tuple[float, float, float, float, float]:
    assert estimate is not None
    fields = (estimate.value, estimate.low, estimate.high, estimate.se, estimate.p)
    assert all(field is not None and math.isfinite(field) for field in fields)
    return fields  # type: ignore[return-value]


def test_with_one_value_a_cluster_it_is_the_t_test() -> None:
    values = np.random.default_rng(2).uniform(-0.5, 1, 12)
    value, low, high, se, p = known(ratio_interval(values, np.ones(12), null=0.1))
    expected = scipy_stats.ttest_1samp(values, 0.1)
    interval = expected.confidence_interval()
    assert value == pytest.approx(values.mean())
    assert se == pytest.approx(scipy_stats.sem(values))
    assert p == pytest.approx(expected.pvalue)
    assert (low, high) == pytest.approx((interval.low, interval.high))


def test_ratio_interval_is_the_jackknife_one_by_one() -> None:
    rng = np.random.default_rng(3)
    bottoms = rng.integers(1, 9, 15).astype(float)
    tops = bottoms * rng.normal(size=15)
    left_out = [np.delete(tops, i).sum() / np.delete(bottoms, i).sum() for i in range(len(tops))]
    expected = math.sqrt(14 / 15 * np.sum((left_out - np.mean(left_out)) ** 2))
    assert known(ratio_interval(tops, bottoms))[3] == pytest.approx(expected)
    general = cluster_interval(np.column_stack([tops, bottoms]), ratio)
    assert known(general) == pytest.approx(known(ratio_interval(tops, bottoms)))


def test_all_three_ways_agree_when_clusters_are_many() -> None:
    rng = np.random.default_rng(4)
    xs = rng.normal(size=(3000, 5))
    ys = (0.3 + 0.3 * rng.normal(size=(3000, 1))) * xs + rng.normal(size=(3000, 5))
    sums = pair_sums(xs, ys)
    by_leaving_out = known(cluster_interval(sums, correlations_from_sums))
    bent = known(cluster_interval(sums, correlations_from_sums, link="fisher"))
    smooth = known(delta_interval(3000, sums.sum(axis=0), sums.T @ sums, correlations_from_sums))
    assert smooth == pytest.approx(by_leaving_out, rel=0.01, abs=1e-12)
    assert bent[:4] == pytest.approx(by_leaving_out[:4], rel=0.01)


def test_linearised_error_is_the_sandwich() -> None:
    rng = np.random.default_rng(5)
    bottoms = rng.integers(1, 9, 40).astype(float)
    tops = bottoms * rng.normal(2, 1, 40)
    rows = np.column_stack([tops, bottoms])
    value, _, _, se, p = known(delta_interval(40, rows.sum(axis=0), rows.T @ rows, ratio, null=2))
    residuals = tops - tops.sum() / bottoms.sum() * bottoms
    expected = math.sqrt(40 / 39 * np.sum(residuals**2)) / bottoms.sum()
    assert se == pytest.approx(expected, rel=1e-8)
    assert p == pytest.approx(2 * scipy_stats.t.sf(abs(value - 2) / expected, 39), rel=1e-6)


def test_gradient_has_ten_digits() -> None:
    at = np.array([30.0, 12.0, 7.0])

    def statistic(totals: Floats) -> Floats:
        return totals[:, 0] / totals[:, 1] + np.sqrt(totals[:, 0])

    slope = gradient(statistic, at, np.array([5.0, 3.0, 0.0]))
    expected = [1 / 12 + 0.5 / math.sqrt(30), -30 / 144, 0.0]
    assert slope == pytest.approx(expected, rel=1e-10)


def test_clusters_without_anything_do_not_count() -> None:
    tops, bottoms = np.array([3.0, 0.0, 5.0, 0.0, 2.0]), np.array([2.0, 0.0, 2.0, 0.0, 2.0])
    full = ratio_interval(tops, bottoms)
    held = ratio_interval(tops[::2], bottoms[::2])
    assert full == held
    assert full is not None
    assert full.n_clusters == 3


def test_a_value_that_hangs_on_one_cluster_has_no_interval() -> None:
    """Without that cluster it is undefined: its spread cannot be known."""
    estimate = ratio_interval([3.0, 1.0, 2.0], [4.0, 0.0, 0.0])
    assert estimate == Estimate(1.5, None, None, None, None, 3)
    general = cluster_interval([[3.0, 4.0, 1.0], [0.0, 0.0, 1.0]], ratio)
    assert general == Estimate(0.75, None, None, None, None, 2)


def test_nothing_to_divide_by_is_no_value() -> None:
    assert ratio_interval([1.0, 2.0], [0.0, 0.0]) is None
    assert ratio_interval([], []) is None
    assert ratio_interval([math.nan, 1.0], [1.0, 1.0]) is None
    assert cluster_interval(np.zeros((4, 2)), ratio) is None
    assert cluster_interval(np.zeros((0, 2)), ratio) is None
    assert delta_interval(0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]], ratio) is None
    assert np.isnan(quotient([1.0, 0.0, 1e300], [0.0, 0.0, 1e-300])).all()


def test_one_cluster_has_a_value_and_no_interval() -> None:
    assert ratio_interval([3.0], [2.0]) == Estimate(1.5, None, None, None, None, 1)
    lone = delta_interval(1, [3.0, 2.0], [[9.0, 6.0], [6.0, 4.0]], ratio)
    assert lone == Estimate(1.5, None, None, None, None, 1)


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.7])
def test_a_few_clusters_that_agree_to_the_digit_are_not_certainty(share: float) -> None:
    few = ratio_interval(np.array([2.0, 3.0, 4.0]) * share, [2.0, 3.0, 4.0])
    assert few == Estimate(pytest.approx(share), None, None, 0.0, 0.25, 3)  # type: ignore[arg-type]
    many = ratio_interval(np.full(20, 3 * share), np.full(20, 3.0))
    assert many is not None
    assert many.low == many.high == many.value
    assert many.p == 2.0**-19


def test_clusters_that_all_say_the_null_have_a_p_of_one() -> None:
    same = ratio_interval(np.full(20, 0.3), np.full(20, 3.0), null=0.1)
    assert same is not None
    assert (same.se, same.p) == (0.0, 1.0)
    zero = ratio_interval(np.zeros(20), np.ones(20))
    assert zero is not None
    assert (zero.value, zero.se, zero.p) == (0.0, 0.0, 1.0)


def test_rounding_around_zero_is_not_evidence() -> None:
    tops = np.array([0.1 + 0.2 - 0.3] * 10)  # 5.6e-17 each; the numbers were of size one
    general = cluster_interval(np.column_stack([tops, np.ones(10)]), ratio)
    assert general is not None
    assert general.p == 1.0


def test_a_correlation_keeps_its_interval_within_one() -> None:
    rng = np.random.default_rng(6)
    xs = rng.normal(size=(8, 4))
    sums = pair_sums(xs, xs + 0.05 * rng.normal(size=(8, 4)))
    value, low, high, _, _ = known(cluster_interval(sums, correlations_from_sums, link="fisher"))
    assert -1 < low < value < high < 1
    perfect = cluster_interval(pair_sums(xs, xs), correlations_from_sums, link="fisher")
    assert perfect is not None
    assert perfect.value == pytest.approx(1.0)
    assert perfect.low is None or perfect.low == perfect.high


def test_few_clusters_with_all_the_weight_are_worth_few_degrees() -> None:
    even = np.tile([1.0, -1.0], 100)
    assert effective_df(even) == 199
    lonely = np.concatenate([[5.0, -5.0, 4.0, -4.0], np.zeros(996)])
    assert effective_df(lonely) < 8
    assert effective_df(np.array([1.0, 2.0])) == 1


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
    moved = ratio_interval(scale * (tops + shift * bottoms), bottoms, null=scale * shift)
    back = ratio_interval(tops[::-1], bottoms[::-1])
    assert plain is not None
    assert moved is not None
    assert back is not None
    assert moved.value == pytest.approx(scale * (plain.value + shift), abs=1e-9)
    if plain.se and moved.se:
        assert moved.se == pytest.approx(scale * plain.se, rel=1e-5)
        assert moved.p == pytest.approx(plain.p, abs=1e-5)
        assert back.se == pytest.approx(plain.se, rel=1e-6)


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(0, 3)), max_size=12),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_nothing_but_finite_numbers_come_out(rows: list[tuple[float, int]], level: float) -> None:
    estimate = ratio_interval([row[0] for row in rows], [row[1] for row in rows], level=level)
    if estimate is not None:
        fields = (estimate.value, estimate.low, estimate.high, estimate.se, estimate.p)
        assert all(field is None or math.isfinite(field) for field in fields)
        assert estimate.low is None or estimate.low <= estimate.value <= estimate.high  # type: ignore[operator]
        assert estimate.p is None or 0 <= estimate.p <= 1


def test_influences_of_many_ratios_are_those_of_each() -> None:
    rng = np.random.default_rng(7)
    bottoms = rng.integers(0, 3, (30, 4)).astype(float)
    tops = bottoms * rng.normal(size=(30, 4))
    ratios, pulls = ratio_influences(tops, bottoms)
    covariance = pulls.T @ pulls
    for column in range(4):
        value, _, _, se, _ = known(ratio_interval(tops[:, column], bottoms[:, column]))
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


def test_influences_on_what_one_cluster_decides_are_unknown() -> None:
    ratios, pulls = ratio_influences([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0]], [[2, 1, 0], [0, 1, 0]])
    assert ratios[:2].tolist() == [0.5, 2.5]
    assert np.isnan(ratios[2])
    assert np.isnan(pulls[0, 0])
    assert np.isfinite(pulls[:, 1]).all()


def test_sums_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="both sums"):
        ratio_interval([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="one sum per cluster"):
        ratio_interval([[1.0]], [[1.0]])
    with pytest.raises(ValueError, match="clusters by columns"):
        cluster_interval([1.0, 2.0], ratio)
    with pytest.raises(ValueError, match="clusters by ratios"):
        ratio_influences([1.0], [1.0])
