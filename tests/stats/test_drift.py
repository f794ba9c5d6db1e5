"""A judge's drift on anchors: found at once when it is large, and seldom claimed falsely."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.stats.drift import HORIZON, AnchorBaseline, find_change, take_baseline

Floats = NDArray[np.float64]
N_ANCHORS, N_ANSWERS = 30, 3


def looks(rng: np.random.Generator, quality: Floats, n: int, shift: float = 0.0) -> Floats:
    marks = quality + shift + rng.normal(0, 0.4, (n, N_ANCHORS, 1))
    return np.clip(np.rint(marks + rng.normal(0, 0.7, (n, N_ANCHORS, N_ANSWERS))), 1, 10)


def begin(rng: np.random.Generator) -> tuple[Floats, AnchorBaseline]:
    quality = rng.normal(6, 1.2, (N_ANCHORS, N_ANSWERS))
    baseline = take_baseline(looks(rng, quality, 3))
    assert baseline is not None
    return quality, baseline


def test_a_swapped_judge_is_named_at_the_next_check_with_the_right_start() -> None:
    rng = np.random.default_rng(1)
    n_found = 0
    for _ in range(40):
        quality, baseline = begin(rng)
        checks = np.concatenate([looks(rng, quality, 2), looks(rng, quality, 3, shift=1.5)])
        alarm, _ = find_change(checks, baseline, n_judges=3)
        n_found += alarm is not None and (alarm.check, alarm.since, alarm.kind) == (2, 2, "up")
    assert n_found >= 36


def test_a_year_of_nightly_checks_without_a_change_seldom_alarms() -> None:
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(20):
        quality, baseline = begin(rng)
        alarms += find_change(looks(rng, quality, HORIZON), baseline)[0] is not None
    assert alarms <= 3  # 5% of 20 is 1; more than 3 has a chance below 2%


def test_a_judge_with_other_tastes_at_the_same_level_is_found_too() -> None:
    rng = np.random.default_rng(3)
    quality, baseline = begin(rng)
    other = quality + rng.normal(0, 2.0, quality.shape)
    alarm, _ = find_change(looks(rng, other - other.mean() + quality.mean(), 8), baseline)
    assert alarm is not None


@pytest.mark.parametrize(("n_looks", "n_anchors"), [(2, 40), (3, 19), (1, 100)])
def test_too_few_looks_are_no_baseline(n_looks: int, n_anchors: int) -> None:
    rng = np.random.default_rng(4)
    assert take_baseline(rng.integers(1, 10, (n_looks, n_anchors, 2)).astype(float)) is None


def test_missing_marks_and_a_constant_judge_are_no_alarm() -> None:
    baseline = take_baseline(np.full((3, 30, 2), 7.0))
    assert baseline is not None
    check = np.full((30, 2), 7.0)
    check[:10] = np.nan
    assert find_change([check, np.full((30, 2), np.nan), check], baseline)[0] is None
