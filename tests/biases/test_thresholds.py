"""One place decides a status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerage.biases import thresholds

BASE = thresholds.Tested("length", "all", 0.5, 0.4, 0.6, 0.001, 100, 30, 0.2, correlation=True)


@pytest.mark.parametrize(
    ("changes", "q", "expected"),
    [
        ({}, 0.01, "evidence"),
        ({}, 0.2, "inconclusive"),
        ({}, None, "inconclusive"),
        ({"value": 0.1, "low": 0.05, "high": 0.15}, 0.001, "clear"),
        ({"value": 0.19, "low": 0.1, "high": 0.28}, 0.001, "inconclusive"),
        ({"n": 12}, None, "too_few"),
        ({"n": 12, "value": 0.95}, None, "indicator"),
        ({"n": 2, "value": 0.95}, None, "too_few"),
        ({"value": None, "low": None, "high": None, "p": None}, None, "inconclusive"),
        ({"not_identifiable": True}, 0.001, "not_identifiable"),
        ({"side": "at_least", "edge": 0.7}, 0.001, "evidence"),
        ({"side": "at_least", "edge": 0.3}, 0.001, "clear"),
        ({"side": "at_most", "edge": 0.3}, 0.001, "evidence"),
        ({"side": "at_most", "edge": 0.7}, 0.001, "clear"),
        ({"value": 6.0, "tested": (0.1, 0.05, 0.15)}, 0.001, "clear"),
        ({"value": 6.0, "tested": (-0.9, -1.0, -0.8)}, 0.001, "evidence"),
    ],
)
def test_a_status_follows_from_n_q_and_the_healthy_range(changes, q, expected) -> None:
    assert thresholds.status(replace(BASE, **changes), q) == expected


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ((0.1, 0.0, 0.2), False),  # far from what it became
        ((-0.1, -0.2, 0.0), False),
        ((0.45, 0.35, 0.55), True),  # the intervals overlap
        ((0.9, 0.8, 1.0), True),  # setting aside took some of it away
        ((None, None, None), True),
    ],
)
def test_an_effect_that_only_setting_aside_makes_is_inconclusive(before, kept) -> None:
    value, low, high = before
    plain = replace(BASE, value=value, low=low, high=high)
    one = thresholds.contested(BASE, plain)
    assert (one is BASE) == kept
    assert thresholds.status(one, 0.001) == ("evidence" if kept else "inconclusive")
    assert kept or (one.value == value and "set aside" in one.note)


def test_only_what_was_tested_on_enough_counts_for_the_family() -> None:
    assert BASE.counts
    assert not replace(BASE, n=10).counts
    assert not replace(BASE, p=None).counts
    assert not replace(BASE, not_identifiable=True).counts


@pytest.mark.parametrize(
    ("changes", "q", "expected"),
    [
        ({"n": 12, "value": 0.95, "low": 0.1, "high": 0.99}, None, "too_few"),
        ({"n": 12, "value": 0.95, "low": None, "high": None}, None, "too_few"),
        ({"at_most_indicator": True}, 0.01, "indicator"),
        ({"at_most_indicator": True, "low": 0.1}, 0.01, "inconclusive"),
    ],
)
def test_an_indicator_excludes_the_healthy_range(changes, q, expected) -> None:
    assert thresholds.status(replace(BASE, **changes), q) == expected


def test_the_smallest_visible_effect_is_named_four_times_in_five() -> None:
    rng = np.random.default_rng(1)
    for edge, error in ((0.05, 0.1), (0.4, 0.1)):
        half = 1.96 * error
        mde, _ = thresholds.what_it_takes(replace(BASE, low=-half, high=half, edge=edge))
        assert mde is not None
        drawn = np.abs(mde + error * rng.normal(size=20_000))
        assert (drawn > max(edge, half)).mean() == pytest.approx(0.8, abs=0.01)


def test_n_needed_grows_with_the_square_of_the_error_and_never_below_n() -> None:
    def needed(half: float, **more) -> int | None:
        return thresholds.what_it_takes(replace(BASE, low=-half, high=half, edge=0.2, **more))[1]

    few, many = needed(0.2), needed(0.4)
    assert few is not None
    assert many == pytest.approx(4 * few, rel=0.01)
    assert needed(0.01) == BASE.n
    assert needed(0.01, n=10) == BASE.n_min
    assert needed(0.2, not_identifiable=True) is None
