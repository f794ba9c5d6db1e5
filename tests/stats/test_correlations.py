"""The one Pearson against scipy, with its edges."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from peerage.stats.correlations import (
    correlation,
    correlation_p,
    correlations_from_sums,
    fisher_interval,
)

marks = st.integers(-50, 50).map(float)
pairs = st.lists(st.tuples(marks, marks), min_size=3, max_size=30).filter(
    lambda rows: all(len(set(side)) > 1 for side in zip(*rows, strict=True))
)


def sums(xs: list[float], ys: list[float]) -> tuple[float, ...]:
    return (
        len(xs),
        sum(xs),
        sum(ys),
        sum(x * x for x in xs),
        sum(y * y for y in ys),
        sum(x * y for x, y in zip(xs, ys, strict=True)),
    )


@pytest.mark.parametrize("n", [3, 4, 10, 127, 128, 129, 1000])
def test_correlation_is_scipys_for_lists_and_arrays(n: int) -> None:
    rng = np.random.default_rng(n)
    xs = rng.normal(size=n)
    ys = 0.4 * xs + rng.normal(size=n)
    expected = scipy_stats.pearsonr(xs, ys)
    r = correlation(xs, ys)
    assert r == pytest.approx(expected.statistic, rel=1e-12)
    assert r == correlation(xs.tolist(), ys.tolist())
    assert r is not None
    assert correlation_p(r, n) == pytest.approx(expected.pvalue, rel=1e-9)


@given(pairs)
def test_correlation_does_not_depend_on_the_order_of_pairs(rows: list[tuple[float, float]]) -> None:
    xs, ys = (list(side) for side in zip(*rows, strict=True))
    back = correlation(xs[::-1], ys[::-1])
    assert correlation(xs, ys) == pytest.approx(back, abs=1e-14)
    assert correlation(ys, xs) == pytest.approx(back, abs=1e-14)


@given(pairs, st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_correlation_ignores_shift_and_scale(
    rows: list[tuple[float, float]], shift: float, scale: float
) -> None:
    xs, ys = (list(side) for side in zip(*rows, strict=True))
    r = correlation(xs, ys)
    assert r is not None
    assert correlation([x * scale + shift for x in xs], ys) == pytest.approx(r, abs=1e-6)
    assert correlation([-x for x in xs], ys) == pytest.approx(-r, abs=1e-14)
    assert correlation(xs, xs) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -7.3e10, 1e308, 5e-324])
def test_a_flat_side_has_no_correlation(n: int, constant: float) -> None:
    other = list(np.random.default_rng(1).normal(size=n))
    assert correlation([constant] * n, other) is None
    assert correlation(other, [constant] * n) is None
    assert correlation(np.full(n, constant), np.array(other)) is None


def test_a_side_that_differs_by_rounding_alone_is_flat() -> None:
    assert correlation([0.1 + 0.2, 0.3, 0.3, 0.3], [1.0, 2.0, 3.0, 5.0]) is None
    assert correlation([0.1 + 0.2, 0.3] * 100, [1.0, 2.0] * 100) is None


@pytest.mark.parametrize("n", [20, 2000])
def test_a_huge_offset_costs_few_digits(n: int) -> None:
    rng = np.random.default_rng(5)
    xs, ys = rng.integers(0, 9, n), rng.integers(0, 9, n)
    assert correlation(xs + 1e12, ys - 1e12) == pytest.approx(correlation(xs, ys), abs=1e-12)


@pytest.mark.parametrize("n", [20, 2000])
@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1e-160, 1e160, 1e307])
def test_values_near_the_ends_of_a_floats_range_correlate(n: int, unit: float) -> None:
    rng = np.random.default_rng(6)
    xs, ys = rng.integers(-9, 9, n), rng.integers(-9, 9, n)
    expected = correlation(xs, ys)
    assert correlation(xs * unit, ys * unit) == pytest.approx(expected, abs=1e-3)


def test_fewer_than_three_pairs_have_no_correlation() -> None:
    assert correlation([], []) is None
    assert correlation([1.0, 2.0], [1.0, 2.0]) is None
    assert correlation_p(0.5, 2) is None
    assert fisher_interval(0.5, 3) is None


@pytest.mark.parametrize("n", [5, 500])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_correlation_with_an_infinite_value_is_undefined(n: int, odd: float) -> None:
    xs = [float(i) for i in range(n)]
    assert correlation([*xs[:-1], odd], xs) is None
    assert correlation(xs, [odd, *xs[1:]]) is None
    assert correlation([-odd, *xs[2:], odd], xs) is None


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="two lists of equal length"):
        correlation([1.0, 2.0, 3.0], [1.0, 2.0])


def test_exact_fractions_and_whole_numbers_are_values_too() -> None:
    halves = [Fraction(i, 2) for i in range(5)]
    assert correlation(halves, [1, 2, 3, 4, 5]) == 1.0  # type: ignore[arg-type]


def test_four_answers_at_point_eight_two_are_not_significant() -> None:
    """Student's t, not the normal .04."""
    assert correlation_p(0.82, 4) == pytest.approx(0.18, abs=1e-12)


def test_a_perfect_correlation_has_a_p_of_zero_and_no_interval() -> None:
    for r in (1.0, -1.0):
        assert correlation_p(r, 10) == 0.0
        assert fisher_interval(r, 10) is None


def test_an_invalid_correlation_has_no_p() -> None:
    for wrong in (1.1, -2.0, math.nan):
        assert correlation_p(wrong, 10) is None
        assert fisher_interval(wrong, 10) is None


@given(pairs.filter(lambda rows: len(rows) > 3), st.floats(0.5, 0.99))
def test_fisher_interval_is_scipys(rows: list[tuple[float, float]], level: float) -> None:
    xs, ys = zip(*rows, strict=True)
    r = correlation(xs, ys)
    assume(r is not None and abs(r) < 0.9999)
    expected = scipy_stats.pearsonr(xs, ys).confidence_interval(level)
    interval = fisher_interval(r, len(xs), level)  # type: ignore[arg-type]
    assert interval == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("kind", "least"), [("spearman", 4), ("kendall", 5)])
def test_rank_intervals_know_the_spread_of_their_kind(kind: str, least: int) -> None:
    assert fisher_interval(0.3, least - 1, kind=kind) is None  # type: ignore[arg-type]
    interval = fisher_interval(0.3, 50, kind=kind)  # type: ignore[arg-type]
    plain = fisher_interval(0.3, 50)
    assert interval is not None
    assert plain is not None
    wider = interval[1] - interval[0] > plain[1] - plain[0]
    assert wider == (kind == "spearman")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_fisher_intervals_cover(kind: str, rho: float) -> None:
    from peerage.stats.ranking import kendall_tau, spearman

    rng = np.random.default_rng(11)
    measure = {"pearson": correlation, "spearman": spearman, "kendall": kendall_tau}[kind]
    truth = {
        "pearson": rho,
        "spearman": 6 / math.pi * math.asin(rho / 2),
        "kendall": 2 / math.pi * math.asin(rho),
    }[kind]
    hits = []
    for _ in range(2000):
        xs = rng.normal(size=30)
        ys = rho * xs + math.sqrt(1 - rho**2) * rng.normal(size=30)
        low, high = fisher_interval(measure(xs, ys), 30, kind=kind)  # type: ignore[arg-type, misc]
        hits.append(low <= truth <= high)
    assert 0.93 <= np.mean(hits) <= 0.975


@given(pairs)
def test_plain_sums_give_the_same_correlation(rows: list[tuple[float, float]]) -> None:
    xs, ys = (list(side) for side in zip(*rows, strict=True))
    expected = correlation(xs, ys)
    whole = sums([int(x) for x in xs], [int(y) for y in ys])
    assert correlations_from_sums(np.array([whole]))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e9 + 0.1])
def test_rounded_sums_of_a_flat_side_are_flat(constant: float) -> None:
    row = sums([constant] * 10, [float(i) for i in range(10)])
    assert np.isnan(correlations_from_sums(np.array([row]))).all()


def test_sums_of_nothing_or_of_too_little_have_no_correlation() -> None:
    table = [(0, 0, 0, 0, 0, 0), (2, 3, 3, 5, 5, 5), (5, math.nan, 3, 5, 5, 5)]
    assert np.isnan(correlations_from_sums(np.array(table, dtype=float))).all()


@given(pairs)
def test_row_by_row_correlations_stay_within_one(rows: list[tuple[float, float]]) -> None:
    xs, ys = (list(side) for side in zip(*rows, strict=True))
    assume(len(xs) > 3)
    table = np.array([sums(xs, ys), sums(xs, xs), (0, 0, 0, 0, 0, 0)])
    values = correlations_from_sums(table)
    assert np.abs(values[:2]).max() <= 1.0
    assert np.isnan(values[2])


def test_a_single_sessions_statistics_load_nothing_heavy() -> None:
    code = (
        "import sys, peerage.stats.correlations as c, peerage.stats.tails as t;"
        "c.correlation_p(c.correlation([1,2,4],[1,3,2]), 3); t.t_critical(.95, 7);"
        "print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
