"""Reviewers weighed by what the panel thinks of their own answers."""

from __future__ import annotations

import numpy as np
import pytest

from peerage.boards.reputation import peer_weights

# Mean shares that three models give each other (rows judge), and a fourth that is only judged.
GIVEN = np.array([[0.9, 0.6, 0.4, 0.1], [0.8, 0.7, 0.2, 0.3], [0.5, 0.6, 0.6, 0.3]])


def by_hand(n_rounds: int) -> tuple[list[float], list[float]]:
    """The published iteration in plain loops: scores, then weights scaled from 0 to 1."""
    weights = [1 / 3] * 3
    scores: list[float] = []
    for _ in range(n_rounds):
        scores = [sum(w * row[c] for w, row in zip(weights, GIVEN, strict=True)) for c in range(4)]
        low, high = min(scores), max(scores)
        scaled = [(scores[r] - low) / (high - low) for r in range(3)]
        weights = [one / sum(scaled) for one in scaled]
    return scores, weights


@pytest.mark.parametrize("n_rounds", [1, 2, 5])
def test_weights_follow_the_published_iteration(n_rounds: int) -> None:
    """A model's weight as a reviewer is its own score, min-max scaled, iterated."""
    found = peer_weights(10 * GIVEN, np.full((3, 4), 10.0), [0, 1, 2], n_rounds)
    assert found is not None
    scores, weights = by_hand(n_rounds)
    assert found.score == pytest.approx(scores, abs=1e-14)
    assert found.weight == pytest.approx(weights, abs=1e-14)


def test_an_outsider_weighs_the_mean_of_the_panel() -> None:
    shares = np.vstack([GIVEN, [0.1, 0.2, 0.8, 0.9]])
    found = peer_weights(shares, np.ones((4, 4)), [0, 1, 2, -1])
    assert found is not None
    assert found.outsiders == (3,)
    assert found.weight[3] == pytest.approx(found.weight[:3].mean())


def test_without_a_model_among_the_reviewers_there_is_nothing_to_weigh_by() -> None:
    assert peer_weights(GIVEN, np.ones((3, 4)), [-1, -1, -1]) is None


def test_equal_scores_leave_equal_weights() -> None:
    found = peer_weights(np.full((3, 3), 0.5), np.ones((3, 3)), [0, 1, 2])
    assert found is not None
    assert found.weight == pytest.approx([1 / 3] * 3)


def test_a_model_that_nobody_judged_has_no_score_but_a_weight() -> None:
    votes = np.ones((3, 4))
    votes[:, 0] = 0.0
    found = peer_weights(GIVEN * votes, votes, [0, 1, 2])
    assert found is not None
    assert np.isnan(found.score[0])
    assert found.weight.sum() == pytest.approx(1.0)
    assert np.isfinite(found.weight).all()
