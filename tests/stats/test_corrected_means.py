"""Means of few labels, sharpened by judges that labelled everything."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.stats.corrected_means import CorrectedMeans, corrected_means, labels_needed

Floats = NDArray[np.float64]
TRUTH = np.array([0.65, 0.5, 0.35])


def draw(
    rng: np.random.Generator, n: int, labelled: int, bias: float = 0.1, missing: float = 0.0
) -> CorrectedMeans:
    """Three models on n queries; two judges who follow people and favour the last model."""
    people = np.clip(TRUTH + rng.normal(0, 0.3, (n, 3)), 0, 1)
    favoured = np.array([0.0, 0.0, bias])
    judges = np.stack(
        [np.clip(people + favoured + rng.normal(0, s, (n, 3)), 0, 1) for s in (0.2, 0.3)], axis=2
    )
    judges[rng.random(judges.shape) < missing] = np.nan
    known = np.zeros(n, dtype=bool)
    known[rng.permutation(n)[:labelled]] = True
    labels = np.where(known[:, None], people, np.nan)
    cluster, group = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
    folds = rng.integers(0, 1000, n)
    return corrected_means(cluster, group, judges.reshape(-1, 2), labels.ravel(), folds, 3)


def true_means(rng: np.random.Generator) -> Floats:
    means: Floats = np.clip(TRUTH + rng.normal(0, 0.3, (400_000, 3)), 0, 1).mean(axis=0)
    return means


def test_without_judges_it_is_the_mean_of_the_labels() -> None:
    rng = np.random.default_rng(1)
    labels = rng.random(60)
    cluster, group = np.arange(60), np.zeros(60, dtype=np.int64)
    means = corrected_means(cluster, group, np.zeros((60, 0)), labels, cluster, 1)
    assert means.value[0] == pytest.approx(labels.mean())
    assert (means.influences**2).sum() == pytest.approx(labels.var(ddof=1) / 60)


def test_with_every_label_judges_change_nothing() -> None:
    means = draw(np.random.default_rng(2), 80, 80)
    assert (means.weights == 0).all()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_biased_judges_do_not_bias_it_and_make_it_narrower(missing: float) -> None:
    rng = np.random.default_rng(3)
    truth = true_means(rng)
    runs = [draw(rng, 300, 60, missing=missing) for _ in range(150)]
    covered = [np.abs(one.value - truth) <= one.half for one in runs]
    alone = 1.96 * np.sqrt(np.mean([one.label_variance for one in runs]) / 60)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.abs(np.mean([one.value for one in runs], axis=0) - truth).max() < 0.02
    assert np.mean([one.half for one in runs]) < 0.9 * alone


def test_judges_without_a_relation_to_people_cost_next_to_nothing() -> None:
    rng = np.random.default_rng(4)
    n = 300
    people = rng.random((n, 1))
    labels = np.where(rng.permutation(n)[:, None] < 40, people, np.nan).ravel()
    cluster, group = np.arange(n), np.zeros(n, dtype=np.int64)
    noise = corrected_means(cluster, group, rng.random((n, 3)), labels, cluster, 1)
    alone = corrected_means(cluster, group, np.zeros((n, 0)), labels, cluster, 1)
    assert noise.half[0] < 1.1 * alone.half[0]


def test_more_labels_are_needed_for_half_the_width_and_not_more_than_there_are() -> None:
    means = draw(np.random.default_rng(5), 1_000, 50)
    needed = labels_needed(means, 0, float(means.half[0]) / 2)
    assert needed is not None
    assert 100 < needed < 400
    assert labels_needed(means, 0, 1e-4) is None
