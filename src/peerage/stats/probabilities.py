"""Probabilities of a panel: pool correlated votes, and correct the result by labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PRIOR_VOTES = 1.0  # votes for equal probabilities that are added to every panel's
N_FOLDS = 5
CURVE_WORTH = 50.0  # the weight of the logistic curve in a correction, as a number of labels
MIN_BOTH = 10  # questions that both of two seats must have voted on for a correlation


def effective_votes(n: int, correlation: float) -> float:
    """Return how many independent votes (from 1 to n) are worth as much as n correlated ones."""
    return n / (1.0 + (n - 1) * min(1.0, max(0.0, correlation)))


def pool(votes: Sequence[Sequence[float]], effective: float) -> tuple[float, ...]:
    """Return the mean vote, pulled towards equal probabilities; fewer effective votes, more so."""
    mean = np.mean(np.asarray(votes, dtype=np.float64), axis=0)
    shrunk = (effective * mean + PRIOR_VOTES / len(mean)) / (effective + PRIOR_VOTES)
    return tuple(float(one) for one in shrunk)


def error_correlation(errors: Floats, assumed: float, worth: float) -> float:
    """Return the mean correlation between the errors of seats (columns) over questions (rows).

    NaN stands for a missing vote. The assumed correlation counts as much as `worth` questions.
    """
    n_rows, n_seats = errors.shape
    correlations = []
    for i in range(n_seats):
        for j in range(i):
            both = np.isfinite(errors[:, i]) & np.isfinite(errors[:, j])
            a, b = errors[both, i], errors[both, j]
            if both.sum() >= MIN_BOTH and a.std() > 0 and b.std() > 0:
                correlations.append(float(np.corrcoef(a, b)[0, 1]))
    if not correlations:
        return assumed
    return (n_rows * float(np.mean(correlations)) + worth * assumed) / (n_rows + worth)


def isotonic(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Return the non-decreasing function that fits y best, interpolated linearly between its steps.

    With n observations its values stay at least 0.5 / (n + 1) away from 0 and from 1.
    """
    order = np.argsort(x, kind="stable")
    blocks: list[
        list[float]
    ] = []  # of each block: the sum of x, the sum of y, the number of points
    for at in order:
        blocks.append([float(x[at]), float(y[at]), 1.0])
        while len(blocks) > 1 and (
            blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]
            or blocks[-2][0] / blocks[-2][2] == blocks[-1][0] / blocks[-1][2]
        ):
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    table = np.array(blocks)
    least = 0.5 / (len(x) + 1.0)
    xs, ys = table[:, 0] / table[:, 2], np.clip(table[:, 1] / table[:, 2], least, 1.0 - least)
    return lambda values: np.interp(values, xs, ys)


def logistic(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Return the logistic curve in the log-odds of x that fits y best (Platt scaling).

    It never decreases. A weak prior pulls it towards the identity, so that it exists for any
    labels.
    """
    n, n_true = len(y), float(y.sum())
    target = np.where(y > 0.5, (n_true + 1.0) / (n_true + 2.0), 1.0 / (n - n_true + 2.0))
    design = np.column_stack([np.ones(n), _log_odds(x)])
    weights, ridge = np.array([0.0, 1.0]), 1e-3
    for _ in range(50):
        p = _sigmoid(design @ weights)
        slope = design.T @ (target - p) - ridge * (weights - [0.0, 1.0])
        curvature = (design * (p * (1.0 - p))[:, None]).T @ design + ridge * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        step *= min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    shift, steepness = float(weights[0]), max(0.0, float(weights[1]))
    return lambda values: _sigmoid(shift + steepness * _log_odds(values))


def _log_odds(x: Floats) -> Floats:
    inside = np.clip(x, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -60.0, 60.0))))


def smoothed_isotonic(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Return an isotonic fit of labels that were first pulled towards their logistic curve.

    The fewer the labels, the stronger the pull: isotonic regression alone overfits a hundred labels
    with steps.
    """
    weight = CURVE_WORTH / len(x)
    return isotonic(x, (y + weight * logistic(x, y)(x)) / (1.0 + weight))


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Corrections of probabilities, each fitted on the labels outside one fold."""

    fits: tuple[Callable[[Floats], Floats], ...]

    @classmethod
    def of(cls, x: Floats, y: Floats, fold: NDArray[np.int64]) -> CrossFit:
        return cls(tuple(smoothed_isotonic(x[fold != i], y[fold != i]) for i in range(N_FOLDS)))

    def correct(self, x: Floats) -> Floats:
        """Return corrected probabilities: the mean of all fits."""
        return np.mean([fit(x) for fit in self.fits], axis=0)
