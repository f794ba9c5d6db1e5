"""Intervals hold what they claim: how often they and the rank ranges cover the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerage.boards.models import MIN_CLUSTERS, board_columns
from tests.shared.coverage import MODELS, STRENGTHS, coverage, ranks, totals

N_BOARDS = 1_000
CLAIMED, HELD = 0.95, 0.94


def parted(n_sessions: int, n_reviewers: int, taste_sd: float, two_way: bool = False) -> float:
    """The part of boards that tell any two models apart though none differ."""
    rng = np.random.default_rng(n_sessions * 1_000 + n_reviewers)
    level = np.array(STRENGTHS)  # taken off again: these models are all alike
    wrong = 0
    for _ in range(N_BOARDS):
        tastes = rng.normal(0.0, taste_sd, (n_reviewers, len(MODELS))) - level
        found = totals(ranks(rng, n_sessions, tastes))
        rows = board_columns(found, "borda", two_way=two_way)
        wrong += min(rows["rank_high"]) < len(MODELS)
    return wrong / N_BOARDS


def at_least(claimed: float, n: int) -> float:
    """What a run of n may fall to and still be no evidence against the claim."""
    return claimed - 2.6 * math.sqrt(claimed * (1.0 - claimed) / n)


@pytest.mark.slow
@pytest.mark.parametrize("n_sessions", [10, 30, 200])
def test_intervals_over_sessions_cover(n_sessions: int) -> None:
    """95% claimed, at least 94% held; rank ranges hold for all models at once."""
    held, right = coverage(n_sessions, 5, 0.0, N_BOARDS)
    assert held / (N_BOARDS * len(MODELS)) >= HELD
    assert right / N_BOARDS >= at_least(CLAIMED, N_BOARDS)


@pytest.mark.slow
def test_twenty_queries_asked_ten_times_are_twenty_observations() -> None:
    held, right = coverage(20, 5, 0.0, 300, n_repeats=10)
    assert held / (300 * len(MODELS)) >= 0.93
    assert right / 300 >= at_least(CLAIMED, 300)


@pytest.mark.slow
@pytest.mark.parametrize("n_reviewers", [8, 20])
def test_two_way_intervals_cover_reviewers_to_come(n_reviewers: int) -> None:
    """From 8 reviewers, for claims beyond this panel."""
    held, right = coverage(60, n_reviewers, 0.5, N_BOARDS, two_way=True)
    assert held / (N_BOARDS * len(MODELS)) >= HELD
    assert right / N_BOARDS >= at_least(CLAIMED, N_BOARDS)


@pytest.mark.slow
def test_intervals_over_sessions_say_nothing_of_other_reviewers() -> None:
    """Why two-way exists: with tastes, the narrow interval misses the wider truth."""
    held, _ = coverage(60, 8, 0.5, N_BOARDS)
    assert held / (N_BOARDS * len(MODELS)) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("n_sessions", [10, 200])
def test_models_that_do_not_differ_are_rarely_told_apart(n_sessions: int) -> None:
    """The hardest case for ranges that claim to hold all at once: nobody is better."""
    assert parted(n_sessions, 5, 0.0) <= 1.0 - at_least(CLAIMED, N_BOARDS)


@pytest.mark.slow
def test_a_newcomer_who_does_not_differ_is_rarely_told_apart() -> None:
    """As few sessions as get a rank, among a hundred: its spread is hardly known."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(N_BOARDS):
        rank = ranks(rng, 100, -np.array(STRENGTHS) * np.ones((3, 1)))
        rank[MIN_CLUSTERS:, :, -1] = np.nan  # the last model is not there
        rank = np.where(np.isnan(rank), np.nan, rank.argsort(axis=2).argsort(axis=2) + 1.0)
        rows = board_columns(totals(rank), "borda")
        at = rows["model"].index(MODELS[-1])
        wrong += rows["rank_low"][at] > 1 or rows["rank_high"][at] < len(MODELS)
    assert wrong / N_BOARDS <= 1.0 - at_least(CLAIMED, N_BOARDS)


@pytest.mark.slow
def test_two_way_ranges_rarely_tell_apart_models_that_do_not_differ() -> None:
    assert parted(60, 8, 0.5, two_way=True) <= 1.0 - at_least(CLAIMED, N_BOARDS)
