"""Permutation tests of an order: no alarm in a random order, and one in a sorted order."""

from __future__ import annotations

import numpy as np
import pytest

from peerage.stats.orders import groups_p, values_p


def test_sorted_groups_and_sorted_values_are_found() -> None:
    assert groups_p(np.repeat([0, 1, 2], 20)) == 1 / 200
    assert values_p(np.repeat([[-1.0, 1.0]], 30, axis=1)) == 1 / 200


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_observations_go_with_nothing(n: int) -> None:
    assert groups_p(np.zeros(n, dtype=np.int64)) == 1.0
    assert values_p(np.zeros((1, n))) == 1.0


def test_one_group_and_equal_values_go_with_nothing() -> None:
    assert groups_p(np.full(50, 3)) == 1.0
    assert values_p(np.full((2, 50), 0.25)) == 1.0


def test_random_orders_are_seldom_refused() -> None:
    rng = np.random.default_rng(0)
    ps = [groups_p(rng.integers(0, 4, 60)) for _ in range(300)]
    assert np.mean(np.array(ps) <= 0.05) < 0.08
    ps = [values_p(rng.normal(size=(2, 60))) for _ in range(300)]
    assert np.mean(np.array(ps) <= 0.05) < 0.08


def test_the_same_data_give_the_same_p() -> None:
    values = np.random.default_rng(2).normal(size=(1, 40))
    assert values_p(values) == values_p(values.copy())
