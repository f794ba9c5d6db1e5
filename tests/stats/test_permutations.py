"""Permutation tests against all permutations, one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.stats import block_permutation_test, generator, permutation_test, within_blocks


def test_p_counts_the_observed_design_among_the_draws() -> None:
    assert permutation_test(3.0, [0.0, 1.0, -2.0]) == 1 / 4
    assert permutation_test(2.0, [0.0, 1.0, -2.0]) == 2 / 4
    assert permutation_test(2.0, [0.0, 1.0, -2.0], tail="greater") == 1 / 4
    assert permutation_test(-2.0, [0.0, 1.0, -2.0], tail="less") == 2 / 4
    assert permutation_test(7.0, [4.0, 5.0, 6.0], centre=5.0) == 1 / 4


def test_a_draw_within_rounding_of_the_observed_value_equals_it() -> None:
    assert permutation_test(0.1 + 0.2, [0.3, 0.0, 0.0]) == 2 / 4


def test_without_a_value_or_draws_there_is_no_p() -> None:
    assert permutation_test(None, [1.0]) is None
    assert permutation_test(math.nan, [1.0]) is None
    assert permutation_test(1.0, []) is None
    assert permutation_test(1.0, [math.nan, math.inf]) is None
    assert permutation_test(1.0, [math.nan, 0.0]) == 1 / 2


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=50), st.floats(-10, 10))
def test_p_is_a_probability_that_the_sign_does_not_change(
    draws: list[float], observed: float
) -> None:
    p = permutation_test(observed, draws)
    assert p is not None
    assert 1 / (len(draws) + 1) <= p <= 1
    assert permutation_test(-observed, [-draw for draw in draws]) == p


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=60))
def test_permutations_stay_within_their_block(keys: list[tuple[int, int]]) -> None:
    sessions, reviewers = [key[0] for key in keys], [f"r{key[1]}" for key in keys]
    places = within_blocks(sessions, reviewers)(generator("stay"))
    assert sorted(places.tolist()) == list(range(len(keys)))
    assert [keys[place] for place in places] == keys


def test_every_order_of_a_block_is_equally_likely() -> None:
    deal, rng = within_blocks([7, 8, 7, 7, 8]), generator("likely")
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        order = tuple(deal(rng).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 12
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 31.3  # χ² of 11 at .001


def test_closed_form_moments_are_those_of_all_permutations() -> None:
    rng = np.random.default_rng(4)
    blocks = [0, 0, 0, 1, 1, 1, 1, 2]
    xs, ys = rng.normal(size=8) + 5, rng.normal(size=8) - 3
    sums = [
        xs[[*first, *second, 7]] @ ys
        for first in itertools.permutations((0, 1, 2))
        for second in itertools.permutations((3, 4, 5, 6))
    ]
    test = block_permutation_test(xs, ys, blocks)
    assert test is not None
    assert test.excess == pytest.approx(xs @ ys - np.mean(sums))
    assert test.sd == pytest.approx(np.std(sums))
    assert test.n_blocks == 2


def test_closed_form_p_is_that_of_drawn_permutations() -> None:
    rng = np.random.default_rng(8)
    n = 400
    sessions, reviewers = np.repeat(np.arange(n // 4), 4), np.tile([0, 0, 1, 1], n // 4)
    xs = rng.integers(0, 2, n).astype(float)
    ys = rng.normal(size=n) + 0.4 * xs
    test = block_permutation_test(xs, ys, sessions, reviewers)
    assert test is not None
    deal = within_blocks(sessions, reviewers)
    expected = xs @ ys - test.excess
    draws = [float(xs[deal(rng)] @ ys) - expected for _ in range(4000)]
    assert 0.001 < test.p < 0.5
    assert test.p == pytest.approx(permutation_test(test.excess, draws), abs=0.03)


def test_slope_is_the_regression_within_blocks() -> None:
    xs, blocks = np.array([0.0, 1.0, 2.0, 0.0, 3.0]), [0, 0, 0, 1, 1]
    ys = 2.0 * xs + np.array([5.0, 5.0, 5.0, -9.0, -9.0])
    test = block_permutation_test(xs, ys, blocks)
    assert test is not None
    assert test.slope == pytest.approx(2.0)


def test_a_design_that_no_permutation_changes_has_no_test() -> None:
    """A3: one order for all is not identifiable, whatever the scores."""
    assert block_permutation_test([1.0, 2.0], [3.0, 4.0], [0, 1]) is None
    assert block_permutation_test([0.1] * 6, [1, 2, 3, 4, 5, 6], [0] * 6) is None
    assert block_permutation_test([1, 2, 3, 4, 5, 6], [0.1] * 6, [0] * 6) is None
    assert block_permutation_test([], [], []) is None
