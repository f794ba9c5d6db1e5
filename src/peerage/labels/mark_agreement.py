"""A judge's marks against people's marks, or against people's pass and fail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from peerage.findings import Bounded, CutOff
from peerage.labels.beyond_chance import count_table, quadratic_kappa
from peerage.labels.rates import rate
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.stats.clusters import ratio_interval
from peerage.stats.corrected_means import even_folds
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import t_critical

MOST_PAIRED = 4_000  # answers of which all pairs are compared; of more, this many
MOST_CLASSES = 21  # whole marks that κ with weights takes as classes
N_FOLDS = 10
SCALES = (1.0, 5.0, 7.0, 10.0, 100.0)


def jackknife(
    value: float, without: Floats, there: Callable[[Floats], Floats], back: Callable[[float], float]
) -> Bounded | None:
    """Return a figure with its jackknife interval on a scale that `there` leads to, `back` from.

    `without` are the values without each query.
    """
    if not math.isfinite(value):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = there(without)
        centre = float(there(np.array([value]))[0])
    moved = moved[np.isfinite(moved)]
    n = len(moved)
    if n < 3 or not math.isfinite(centre):
        return Bounded(value)
    se = math.sqrt((n - 1.0) / n * float(((moved - moved.mean()) ** 2).sum()))
    half = t_critical(0.95, n - 1.0) * se
    return Bounded(value, back(centre - half), back(centre + half))


def _moments(x: Floats, y: Floats, group: Ints) -> tuple[Floats, Floats]:
    """Return the sums (n, x, y, xx, yy, xy) of all answers, and those without each query."""
    x, y = x - x.mean(), y - y.mean()
    _, code = np.unique(group, return_inverse=True)
    sums = np.stack(
        [np.bincount(code, weights) for weights in (np.ones(len(x)), x, y, x * x, y * y, x * y)],
        axis=1,
    )
    total = sums.sum(axis=0)
    return total, total - sums


def correlation_with(judge: Floats, people: Floats, group: Ints) -> Bounded | None:
    """Return Pearson's r of a judge's marks and people's."""
    total, without = _moments(judge, people, group)
    r = float(correlations_from_sums(total[None])[0])
    return jackknife(r, correlations_from_sums(without), np.arctanh, math.tanh)


def rank_correlation_with(judge: Floats, people: Floats, group: Ints) -> Bounded | None:
    """Return Spearman's ρ of a judge's marks and people's."""
    return correlation_with(_ranks(judge), _ranks(people), group)


def _ranks(values: Floats) -> Floats:
    _, code, n = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(n)
    ranks: Floats = (last - (n - 1) / 2.0)[code]
    return ranks


def spread_ratio(judge: Floats, people: Floats, group: Ints) -> Bounded | None:
    """Return the ratio of the judge's standard deviation to people's."""
    total, without = _moments(judge, people, group)
    value = float(_spread(total[None])[0])
    return jackknife(value, _spread(without), np.log, math.exp) if value > 0.0 else None


def _spread(sums: Floats) -> Floats:
    n, x, y, xx, yy, _ = np.moveaxis(sums, -1, 0)
    some = np.maximum(n, 1.0)
    ratio: Floats = np.sqrt(np.maximum(_quotient(xx - x * x / some, yy - y * y / some), 0.0))
    return ratio


def _quotient(top: Floats, bottom: Floats) -> Floats:
    """Return top / bottom, NaN where the bottom is no more than a rounding error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bottom > 1e-12, top / bottom, np.nan)


def level_gap(judge: Floats, people: Floats, group: Ints) -> Bounded | None:
    """Return the mean of judge − people, if both use one scale; None if not."""
    if scale_of(judge) != scale_of(people):
        return None
    _, code = np.unique(group, return_inverse=True)
    gap = ratio_interval(np.bincount(code, judge - people), np.bincount(code).astype(np.float64))
    return None if gap is None else Bounded(gap.value, gap.low, gap.high)


def scale_of(values: Floats) -> float | None:
    """Return the upper end of the usual scale that marks lie on; None if they lie on none."""
    if values.min() < 0.0:
        return None
    return next((end for end in SCALES if values.max() <= end), None)


def weighted_kappa(judge: Floats, people: Floats, group: Ints) -> Bounded | None:
    """Return κ with quadratic weights of whole marks on one scale; None for other marks."""
    both = np.concatenate([judge, people])
    low, high = both.min(), both.max()
    whole = bool((both == np.rint(both)).all()) and high - low < MOST_CLASSES
    if not whole or scale_of(judge) != scale_of(people) or low == high:
        return None
    k = int(high - low) + 1
    first, second = ((values - low).astype(np.int64) for values in (judge, people))
    table = count_table(first, second, k)
    _, code = np.unique(group, return_inverse=True)
    cells = code * k * k + first * k + second
    if (code.max() + 1) * k * k > 20_000_000:
        return Bounded(float(quadratic_kappa(table)))
    parts = np.bincount(cells, minlength=(int(code.max()) + 1) * k * k).reshape(-1, k, k)
    without = quadratic_kappa(table[None] - parts)
    return jackknife(float(quadratic_kappa(table)), without, np.arctanh, math.tanh)


def concordance(judge: Floats, people: Floats, group: Ints, fold: Ints) -> Bounded | None:
    """Return how often the judge orders two answers of different queries as people do.

    Only pairs that people order count; a tie of the judge counts half.
    """
    if len(judge) > MOST_PAIRED:
        chosen = np.lexsort((np.arange(len(judge)), fold))[:MOST_PAIRED]
        judge, people, group = judge[chosen], people[chosen], group[chosen]
    _, code = np.unique(group, return_inverse=True)
    n_groups = int(code.max()) + 1
    alike, ordered = np.zeros(len(judge)), np.zeros(len(judge))
    for i in range(len(judge)):
        gap = np.sign(people - people[i])
        counts = (gap != 0.0) & (code != code[i])
        ordered[i] = counts.sum()
        alike[i] = (0.5 + 0.5 * gap * np.sign(judge - judge[i]))[counts].sum()
    if not ordered.any():
        return None
    a, b = float(alike.sum()) / 2.0, float(ordered.sum()) / 2.0
    by_group = np.bincount(code, alike, n_groups), np.bincount(code, ordered, n_groups)
    without = (a - by_group[0] + 0.5) / (b - by_group[1] + 1.0)
    smooth = (a + 0.5) / (b + 1.0)
    ends = jackknife(smooth, without, _logit, lambda z: 1.0 / (1.0 + math.exp(-z)))
    return None if ends is None else Bounded(a / b, ends.low, ends.high)


def _logit(share: Floats) -> Floats:
    odds: Floats = np.log(share / (1.0 - share))
    return odds


def best_cutoff(judge: Floats, people: Floats) -> float | None:
    """Return the mark from which pass agrees best with people: the largest TPR + TNR.

    Of several that are equally good it is the middle one. None if people gave one class only.
    """
    passed = people == 1.0
    if passed.all() or not passed.any():
        return None
    marks, code = np.unique(judge, return_inverse=True)
    if len(marks) < 2:
        return None
    good = np.bincount(code[passed], minlength=len(marks)) / passed.sum()
    bad = np.bincount(code[~passed], minlength=len(marks)) / (~passed).sum()
    gain = (good[::-1].cumsum()[::-1] + bad.cumsum() - bad)[1:]  # of a pass from each mark on
    best = np.flatnonzero(gain >= gain.max() - 1e-12)
    return float(marks[1:][best[(len(best) - 1) // 2]])


def cutoff_of(judge: Floats, people: Floats, group: Ints, fold: Ints) -> CutOff | None:
    """Return the best cut-off, with rates on answers that were not used to find it."""
    value = best_cutoff(judge, people)
    if value is None:
        return None
    passed, known = held_out_verdicts(judge, people, group, fold)
    y, v, g = people[known], passed[known], group[known]
    return CutOff(
        value, rate(v[y == 1.0] == 1.0, g[y == 1.0]), rate(v[y == 0.0] == 0.0, g[y == 0.0])
    )


def held_out_verdicts(
    judge: Floats, people: Floats, group: Ints, fold: Ints
) -> tuple[Floats, Bools]:
    """Return pass and fail by cut-offs from the other folds of queries, and where there is one."""
    groups, code = np.unique(group, return_inverse=True)
    key = np.zeros(len(groups), dtype=np.int64)
    key[code] = fold
    part = even_folds(code, np.ones(len(code), dtype=bool), key, N_FOLDS)
    passed, known = np.full(len(judge), np.nan), np.zeros(len(judge), dtype=bool)
    for k in range(N_FOLDS):
        here = part == k
        if (at := best_cutoff(judge[~here], people[~here])) is not None and here.any():
            passed[here] = judge[here] >= at
            known |= here
    return passed, known
