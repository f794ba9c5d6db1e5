"""A judge's drift on anchors: found at once when it is large, and seldom claimed falsely."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.stats.drift import SPANS, _turns, count_baseline, find_change, log_evidence
from tests.shared.anchor_looks import Judge, checks_to_alarm, draw_quality, false_alarms

TEXTBOOK = Judge()


@pytest.mark.parametrize(
    "other",
    [Judge(shift=1.2), Judge(shift=-1.2), Judge(tastes=2.0, noise=1.0)],
    ids=["higher", "lower", "other tastes at the same level"],
)
def test_a_swapped_judge_is_named_at_the_next_check(other: Judge) -> None:
    checks = list(checks_to_alarm(TEXTBOOK, other, 20))
    assert checks.count(1) >= 18
    assert 0 not in checks


def test_an_alarm_says_since_when_and_by_how_much() -> None:
    rng = np.random.default_rng(1)
    quality, other = draw_quality(rng, TEXTBOOK), Judge(shift=1.5)
    looks = [TEXTBOOK.look(rng, quality, k) for k in range(6)]
    looks += [other.look(rng, quality, k) for k in range(6, 9)]
    alarm, evidence = find_change(looks, 3)
    assert alarm is not None
    assert (alarm.check, alarm.since, alarm.kind) == (6, 6, "up")
    assert alarm.shift == pytest.approx(1.5, abs=0.3)
    assert len(evidence) == 4
    assert max(evidence[:3]) < 1.0 <= evidence[3]


def test_a_small_shift_adds_up_over_checks() -> None:
    rng = np.random.default_rng(2)
    quality = draw_quality(rng, TEXTBOOK)
    looks = [TEXTBOOK.look(rng, quality, k) for k in range(6)]
    looks += [Judge(shift=0.6).look(rng, quality, k) for k in range(6, 16)]
    alarm, _ = find_change(looks, 3)
    assert alarm is not None
    assert alarm.check > 6
    assert alarm.since >= 6


@pytest.mark.slow
def test_years_of_nightly_checks_without_a_change_seldom_alarm() -> None:
    assert false_alarms(Judge(first_shown=1.0), 4) == 0  # two have a chance of 1.5%


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("n_earlier", [1, 3, 12])
def test_turns_of_the_circle_are_a_group_that_begins_with_the_looks_as_they_are(
    n_earlier: int, span: int
) -> None:
    n = n_earlier + span
    turns = _turns(n, span)
    chosen = turns > 0
    assert chosen[0].tolist() == [False] * n_earlier + [True] * span
    assert (chosen.sum(axis=1) == span).all()
    assert (chosen.sum(axis=0) == span).all()  # every look stands for a last one equally often
    assert np.allclose(turns.sum(axis=1), 0.0)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[st.integers(1, 10)] * 2), min_size=4, max_size=4), st.integers(1, 2))
def test_the_evidence_is_at_most_1_on_average_over_all_orders_of_the_looks(
    marks: list[tuple[int, int]], span: int
) -> None:
    looks = np.array(marks, dtype=float)[:, None, :, None]
    values = [
        np.exp(log_evidence(looks[list(p)], np.array([3]), span)) for p in permutations(range(4))
    ]
    assert (np.mean(values, axis=0) <= 1.0 + 1e-9).all()


@pytest.mark.parametrize(("n_looks", "n_anchors"), [(2, 40), (3, 19), (1, 100)])
def test_too_few_looks_are_no_baseline(n_looks: int, n_anchors: int) -> None:
    rng = np.random.default_rng(4)
    looks = rng.integers(1, 10, (n_looks, n_anchors, 2, 1)).astype(float)
    assert count_baseline(looks) is None
    assert count_baseline(np.concatenate([looks] * 3, axis=0)) is not None


def test_missing_marks_and_a_constant_judge_are_no_alarm() -> None:
    looks = np.full((8, 30, 2, 3), 7.0)
    looks[3, :10] = np.nan
    looks[4] = np.nan
    looks[6, :, 1] = np.nan
    looks[:, :, :, 2] = np.nan
    assert count_baseline(looks[:3]) == 90
    alarm, evidence = find_change(looks, 3)
    assert alarm is None
    assert max(evidence) < 1.0
