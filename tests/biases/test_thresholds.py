"""One place decides a status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerage.biases import thresholds
from peerage.biases.places import contrasts_of
from peerage.stats.tails import f_critical, f_tail, normal_p

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
    one = thresholds.mark_contested(BASE, plain)
    assert (one is BASE) == kept
    assert thresholds.status(one, 0.001) == ("evidence" if kept else "inconclusive")
    assert kept or (one.value == value and "without deviant pairs" in one.note)


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


MEAN = thresholds.Tested("calibration", "a", 0.0, -0.2, 0.2, 0.9, 100, 30, 0.2)


@pytest.mark.parametrize("edge", [0.05, 0.4])
@pytest.mark.parametrize("n_tested", [1, 60])
def test_the_smallest_visible_effect_is_named_four_times_in_five(edge, n_tested) -> None:
    rng, error = np.random.default_rng(1), 0.1
    tested = replace(MEAN, edge=edge, error=thresholds.Error(error))
    mde, _ = thresholds.what_it_takes(tested, n_tested)
    assert mde is not None
    named = []
    for value in mde + error * rng.normal(size=20_000):
        p = normal_p(value / error)
        one = replace(tested, value=value, low=value - 1.96 * error, high=value + 1.96 * error)
        named.append(thresholds.status(one, min(1.0, p * n_tested)) == "evidence")
    assert np.mean(named) == pytest.approx(0.8, abs=0.01)


def test_the_smallest_visible_effect_of_a_curve_is_that_of_its_test_as_a_whole() -> None:
    rng, n_places, df, n_tested = np.random.default_rng(2), 5, 60.0, 30
    error = thresholds.Error(0.1, df, n_places=n_places)
    mde, _ = thresholds.what_it_takes(replace(MEAN, edge=0.01, error=error), n_tested)
    assert mde is not None
    across, within = n_places - 1, df + 2.0 - n_places
    drawn = rng.normal(size=(20_000, across))
    drawn[:, 0] += mde / 0.1
    f = (drawn**2).sum(axis=1) / across / (rng.chisquare(within, 20_000) / within)
    bar = f_critical(0.05 / n_tested, across, within)
    assert f_tail(bar, across, within) == pytest.approx(0.05 / n_tested)
    assert (f > bar).mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("n_places", [2, 3, 6])
def test_at_n_needed_no_effect_is_clear_four_times_in_five(n_places) -> None:
    rng, se = np.random.default_rng(3), 0.1
    error = thresholds.Error(se, n_places=n_places)
    _, needed = thresholds.what_it_takes(replace(MEAN, error=error))
    assert needed is not None
    smaller = se * np.sqrt(MEAN.n / needed)
    contrasts = contrasts_of(list(range(n_places))).weights
    length = np.sqrt((contrasts[0] ** 2).sum())
    drawn = rng.normal(size=(20_000, n_places)) @ contrasts.T * smaller / length
    clear = np.abs(drawn).max(axis=1) + error.reach * smaller <= MEAN.edge
    assert 0.79 <= clear.mean() <= 0.9


def test_no_n_settles_what_lies_within_the_scatter_of_tastes() -> None:
    def needed(lasting: float) -> int | None:
        error = thresholds.Error(0.1, lasting=lasting)
        return thresholds.what_it_takes(replace(MEAN, error=error))[1]

    without, some = needed(0.0), needed(0.05)
    assert without is not None
    assert some is not None
    assert some > without
    assert needed(0.07) is None


def test_what_is_never_named_has_no_smallest_visible_effect() -> None:
    error = thresholds.Error(0.1)
    one_sided = replace(MEAN, side="at_least", n=10, error=error)
    assert thresholds.what_it_takes(one_sided)[0] is None
    assert thresholds.what_it_takes(replace(MEAN, contested=True)) == (None, None)
    few, enough = (thresholds.what_it_takes(replace(MEAN, n=n, error=error))[0] for n in (10, 40))
    at_most = thresholds.what_it_takes(replace(MEAN, at_most_indicator=True, error=error))[0]
    assert few is not None
    assert enough is not None
    assert at_most is not None
    assert few > at_most > enough


def test_n_needed_grows_with_the_square_of_the_error_and_never_below_n() -> None:
    def needed(half: float, **more) -> int | None:
        return thresholds.what_it_takes(replace(MEAN, low=-half, high=half, **more))[1]

    few, many = needed(0.2), needed(0.4)
    assert few is not None
    assert many == pytest.approx(4 * few, rel=0.01)
    assert needed(0.01) == MEAN.n
    assert needed(0.01, n=10) == MEAN.n_min
    assert needed(0.2, not_identifiable=True) is None
