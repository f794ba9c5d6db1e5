"""pass@k and pass^k: their expectations, their intervals, and what is too early to say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerage.labels.repeats import PromptRepeats, all_pass, any_passes, over_prompts


@pytest.mark.parametrize("chance", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 3), (5, 2), (8, 3)])
def test_both_shares_are_right_on_average_for_any_chance_to_pass(
    chance: float, n: int, k: int
) -> None:
    weights = [math.comb(n, c) * chance**c * (1 - chance) ** (n - c) for c in range(n + 1)]
    every = sum(w * (all_pass(PromptRepeats(c, n), k) or 0.0) for c, w in enumerate(weights))
    some = sum(w * (any_passes(PromptRepeats(c, n), k) or 0.0) for c, w in enumerate(weights))
    assert every == pytest.approx(chance**k)
    assert some == pytest.approx(1 - (1 - chance) ** k)


def test_one_answer_of_k_is_the_pass_rate() -> None:
    assert all_pass(PromptRepeats(2, 5), 1) == any_passes(PromptRepeats(2, 5), 1) == 0.4


def test_fewer_answers_than_k_give_no_value() -> None:
    assert any_passes(PromptRepeats(2, 2), 3) is None
    assert all_pass(PromptRepeats(2, 2), 3) is None


def test_a_prompt_without_a_value_is_left_out_and_no_prompt_gives_nothing() -> None:
    assert over_prompts([None, 1.0, 0.0, 0.5]) == over_prompts([1.0, 0.0, 0.5])
    assert over_prompts([None]) is None


def test_two_prompts_have_a_mean_and_no_interval() -> None:
    share = over_prompts([1.0, 0.0])
    assert share is not None
    assert share == (0.5, None, None)


def test_three_prompts_that_all_passed_leave_room_for_failures() -> None:
    share = over_prompts([1.0, 1.0, 1.0])
    assert share is not None
    assert share.value == share.high == 1.0
    size, t = 3.5 / 4 * 0.5 / 4 * 3 / (0.25 / 3), 4.302653
    assert share.low == pytest.approx(size / (size + t * t), abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(2.0, 1.0), (0.5, 0.5), (8.0, 2.0)])
def test_the_interval_covers_the_truth_over_prompts_of_any_difficulty(a: float, b: float) -> None:
    rng = np.random.default_rng(7)
    n_runs, n_prompts, n, k = 600, 12, 5, 3
    truth = math.prod((a + i) / (a + b + i) for i in range(k))  # the mean of p^k
    n_covered = 0
    for _ in range(n_runs):
        passed = rng.binomial(n, rng.beta(a, b, n_prompts)).tolist()
        share = over_prompts([all_pass(PromptRepeats(c, n), k) for c in passed])
        assert share is not None
        assert share.low is not None
        assert share.high is not None
        n_covered += share.low <= truth <= share.high
    assert n_covered >= 0.93 * n_runs
