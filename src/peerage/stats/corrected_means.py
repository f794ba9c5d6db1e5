"""Means of people's labels, made more precise by judges' labels (prediction-powered inference).

People labelled a few observations (y); several judges predicted a label for every observation (f).
If the labelled observations were drawn at random, the mean of y − λ·f over them plus the mean of
λ·f over the others is unbiased for any weights λ, and its interval is narrower than that of mean(y)
if the judges agree with people. One vector of weights is used for all groups (for example models),
fitted on the other folds of the labelled observations. With a vector for each group, 95% intervals
covered the truth only in 92–93% of cases at 10 to 20 labels.

Angelopoulos, Duchi and Zrnic (2023), "PPI++"; cross-fitting as in Zrnic and Candès (2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.stats.clusters import t_halves

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

N_FOLDS = 5
N_SWEEPS = 200
SMALL = 1e-12


@dataclass(frozen=True, slots=True)
class CorrectedMeans:
    """The corrected mean of each group, with its interval and components."""

    value: Floats
    half: Floats  # half the width of the 95% interval
    weights: Floats  # the weight of each judge, averaged over the folds
    influences: Floats  # clusters × groups; a group's sum of squares is the variance of its mean
    n_labelled: Ints  # observations of each group with a label by people
    n_others: Ints  # observations of each group that only judges labelled
    label_variance: Floats  # of the labels y in each group
    correlation: float | None  # between λ·f and the labels y, within groups


def corrected_means(
    cluster: Ints, group: Ints, judges: Floats, people: Floats, folds: Ints, n_groups: int
) -> CorrectedMeans:
    """Return the corrected mean of each group.

    Each row is one observation: its cluster and group, the judges' predictions (NaN if missing) and
    the people's label (NaN if missing). A group occurs at most once in a cluster. `folds` has one
    number per cluster.
    """
    deviations = _fill_missing(judges, group, n_groups)
    labelled = np.isfinite(people)
    judged = np.asarray(np.isfinite(judges).any(axis=1))
    other = ~labelled & judged
    n = np.bincount(group[labelled], minlength=n_groups)
    n_other = np.bincount(group[other], minlength=n_groups)
    fold = even_folds(cluster, labelled, folds)
    weights = np.zeros((N_FOLDS, judges.shape[1]))
    usable = (n > 2) & (n_other > 1)
    if usable.any():
        spread = _covariances(deviations, group, judged, n_groups)
        for k in range(N_FOLDS):
            rest = labelled & (fold != k)
            weights[k] = _weights(deviations, people, group, rest, spread, n, n_other)
    proxy = (deviations * weights[fold]).sum(axis=1)
    share_of_fold = np.bincount(fold[labelled], minlength=N_FOLDS) / max(1, labelled.sum())
    mean_weights = share_of_fold @ weights
    proxy_other = deviations @ mean_weights
    # A group with too few labels or too few other observations gets the plain mean of its labels.
    in_use = usable[group]
    residual = people - np.where(in_use, proxy, 0.0)
    outside = np.where(in_use, proxy_other, 0.0)
    value, _, pull = _means(residual, group, labelled, n_groups)
    added, _, pull_other = _means(outside, group, other & in_use, n_groups)
    value = value + np.where(np.isfinite(added), added, 0.0)
    influences = np.zeros((int(cluster.max(initial=-1)) + 1, n_groups))
    influences[cluster[labelled], group[labelled]] = pull[labelled]
    far = other & in_use
    influences[cluster[far], group[far]] = pull_other[far]
    error = np.sqrt((influences**2).sum(axis=0))
    half = np.where(n > 1, t_halves(error, np.maximum(n - 1.0, 1.0), 0.95), np.nan)
    return CorrectedMeans(
        value,
        half,
        mean_weights,
        influences,
        n,
        n_other,
        _means(people, group, labelled, n_groups)[1],
        _correlation(proxy, people, group, labelled & in_use, n_groups),
    )


def _fill_missing(judges: Floats, group: Ints, n_groups: int) -> Floats:
    """Return deviations from each judge's mean in the group, with missing predictions filled in.

    A missing one gets the mean deviation of the other judges. Labels are not used, so labelled and
    other observations are treated alike and the corrected mean stays unbiased.
    """
    known = np.isfinite(judges)
    means = np.zeros((n_groups, judges.shape[1]))
    for j, there in enumerate(known.T):
        n = np.bincount(group[there], minlength=n_groups)
        means[:, j] = np.bincount(group[there], judges[there, j], n_groups) / np.maximum(n, 1)
    centred = np.where(known, judges - means[group], 0.0)
    of_others = centred.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known, centred, of_others[:, None])


def even_folds(
    cluster: Ints, labelled: NDArray[np.bool_], folds: Ints, n_folds: int = N_FOLDS
) -> Ints:
    """Return the fold of each row; the labelled clusters are divided evenly among the folds.

    `folds` has a fixed pseudo-random number for each cluster.
    """
    there = np.unique(cluster[labelled])
    order = there[np.lexsort((there, folds[there]))]
    fold = np.zeros(int(cluster.max(initial=-1)) + 1, dtype=np.int64)
    fold[order] = np.arange(len(order)) % n_folds
    return fold[cluster]


def _covariances(deviations: Floats, group: Ints, judged: NDArray[np.bool_], n: int) -> Floats:
    """Return the covariance of the judges in each group, over everything they judged."""
    spread = np.zeros((n, deviations.shape[1], deviations.shape[1]))
    for one in range(n):
        some = deviations[judged & (group == one)]
        if len(some) > 1:
            some = some - some.mean(axis=0)
            spread[one] = some.T @ some / (len(some) - 1)
    return spread


def _weights(
    deviations: Floats,
    people: Floats,
    group: Ints,
    rest: NDArray[np.bool_],
    spread: Floats,
    n: Ints,
    n_other: Ints,
) -> Floats:
    """Return the judges' weights (not negative, sum at most 1) that minimise the total variance.

    A ridge, the ratio of judges to labelled observations, shrinks them.
    """
    size = deviations.shape[1]
    left, right = np.zeros((size, size)), np.zeros(size)
    for one in np.flatnonzero((n > 2) & (n_other > 1)).tolist():
        some = rest & (group == one)
        if some.sum() < 2:
            continue
        y, f = people[some], deviations[some]
        right += (y - y.mean()) @ (f - f.mean(axis=0)) / (len(y) - 1) / n[one]
        left += spread[one] * (1.0 / n[one] + 1.0 / n_other[one])
    diagonal = left.diagonal()
    left = left + np.diag(diagonal * size / max(1, int(rest.sum())) + SMALL)
    weights = np.zeros(size)
    for _ in range(N_SWEEPS):
        before = weights.copy()
        for j in range(size):
            gap = right[j] - left[j] @ weights + left[j, j] * weights[j]
            weights[j] = max(0.0, gap / left[j, j]) if diagonal[j] > SMALL else 0.0
        if np.abs(weights - before).max(initial=0.0) < 1e-9:
            break
    return weights / max(1.0, float(weights.sum()))


def _means(
    values: Floats, group: Ints, there: NDArray[np.bool_], n_groups: int
) -> tuple[Floats, Floats, Floats]:
    """Return means and variances by group, and each row's influence on its group's mean."""
    some, of = values[there], group[there]
    n = np.bincount(of, minlength=n_groups)
    mean = np.where(n > 0, np.bincount(of, some, minlength=n_groups) / np.maximum(n, 1), np.nan)
    gap = np.where(there, values - mean[group], 0.0)
    squares = np.bincount(of, gap[there] ** 2, minlength=n_groups)
    variance = np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)
    scale = np.sqrt(1.0 / np.maximum(n * (n - 1.0), 1.0))  # so that squares sum to variance / n
    return mean, variance, np.where(there, gap * scale[group], 0.0)


def _correlation(
    proxy: Floats, people: Floats, group: Ints, there: NDArray[np.bool_], n_groups: int
) -> float | None:
    """Return the correlation of proxy and labels within groups, or None if undefined."""
    _, _, a = _means(proxy, group, there, n_groups)
    _, _, b = _means(people, group, there, n_groups)
    a, b = a[there], b[there]
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / size) if size > SMALL else None


def labels_needed(means: CorrectedMeans, group: int, half: float) -> int | None:
    """Return how many labels a group needs for an interval with half-width `half`.

    None if even labels for all observations would not suffice. With the best weights, n labels and
    N other observations give the variance var(y)·(1 − r²·N/(N + n))/n.
    """
    n, other = int(means.n_labelled[group]), int(means.n_others[group])
    total = n + other
    explained = max(means.correlation or 0.0, 0.0) ** 2

    def suffices(wanted: int) -> bool:
        left = 1.0 - explained * (total - wanted) / total
        error = np.array([(float(means.label_variance[group]) * left / wanted) ** 0.5])
        return bool(t_halves(error, np.array([wanted - 1.0]), 0.95)[0] <= half)

    few, many = max(n, 2), total
    if few > many or not suffices(many):
        return None
    while few < many:  # the half-width shrinks with every label, so bisection finds the fewest
        middle = (few + many) // 2
        few, many = (few, middle) if suffices(middle) else (middle + 1, many)
    return few
