"""A board beside an outside ranking, and coefficients tuned to it."""

from __future__ import annotations

import pytest
from scipy import stats as scipy_stats

from peerage.reports.outside_rankings import Trial, compare_scores, tune


def test_rank_correlations_are_over_the_names_in_common() -> None:
    here = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0, "x": 9.0}
    there = {"a": 50.0, "b": 10.0, "c": 30.0, "d": 20.0, "e": 5.0, "y": 1.0, "z": 2.0}
    found = compare_scores(here, there)
    assert (found["n"], found["only_here"], found["only_there"]) == (5, 1, 2)
    ours, theirs = [5, 4, 3, 2, 1], [50, 10, 30, 20, 5]
    assert found["kendall_tau"] == pytest.approx(scipy_stats.kendalltau(ours, theirs).statistic)
    assert found["spearman"] == pytest.approx(scipy_stats.spearmanr(ours, theirs).statistic)
    assert found["kendall_low"] < found["kendall_tau"] < found["kendall_high"]
    assert (found["movers"][0]["name"], found["movers"][0]["moved"]) == ("b", 2.0)
    assert [one["name"] for one in found["movers"]] == ["b", "c", "d"]


def test_too_little_in_common_is_undefined_not_zero() -> None:
    found = compare_scores({"a": 1.0}, {"a": 2.0, "b": 3.0})
    assert (found["kendall_tau"], found["spearman"], found["kendall_low"]) == (None, None, None)


def test_tuning_finds_the_setting_that_agrees_and_cross_validates_it() -> None:
    names = [f"n{i:02d}" for i in range(30)]
    truth = {name: float(i) for i, name in enumerate(names)}
    noise = {name: float((i * 7) % 30) for i, name in enumerate(names)}
    found = tune([Trial({"k": 1}, noise), Trial({"k": 2}, truth)], truth)
    assert found["settings"] == {"k": 2}
    assert (found["kendall_tau"], found["cross_validated"]) == (1.0, 1.0)
    assert found["before"] == pytest.approx(
        scipy_stats.kendalltau(list(noise.values()), list(truth.values())).statistic
    )


def test_tuning_on_chance_does_not_cross_validate() -> None:
    """The best of many random settings agrees with what it was chosen by, and no more."""
    import random

    rng = random.Random(1)
    names = [f"n{i:02d}" for i in range(40)]
    truth = {name: rng.random() for name in names}
    trials = [Trial({"k": k}, {name: rng.random() for name in names}) for k in range(200)]
    found = tune(trials, truth)
    assert found["kendall_tau"] is not None
    assert found["cross_validated"] is not None
    assert found["kendall_tau"] > 0.2 > found["cross_validated"]


def test_what_is_in_force_wins_ties_and_few_names_are_not_cross_validated() -> None:
    scores = {"a": 1.0, "b": 2.0, "c": 3.0}
    found = tune([Trial({"k": 1}, scores), Trial({"k": 2}, scores)], scores)
    assert found["settings"] == {"k": 1}
    assert found["cross_validated"] is None
