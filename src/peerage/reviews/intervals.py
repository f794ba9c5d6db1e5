"""Values with intervals for many subjects at once, from sums by cluster.

The closed form of the cluster bootstrap: leave out one session (or bucket of sessions) at a
time, and take the spread. Tails are Student's, with fewer degrees of freedom where a few
clusters carry most of the spread. The same arithmetic as `stats.cluster_interval`, done
for all subjects in one pass over the cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from peerage.reviews.cells import Cells
from peerage.reviews.rows import Floats
from peerage.stats.clusters import quotient
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import student_t_p, t_critical

Statistic = Callable[[Floats], Floats]

FLAT = 1e-12  # a spread this small beside the value is rounding
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A subject's value and what the spread over sessions says of it; None for nothing."""

    subject: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n_clusters: int
    sums: Floats  # the subject's totals


def estimates(
    cells: Cells, statistic: Statistic, *, null: float = 0.0, fisher: bool = False
) -> Iterator[Estimate]:
    """Each subject's estimate, in the order of subjects; a statistic marks undefined with NaN.

    `fisher` makes the interval of a correlation on the scale where it is symmetric.
    """
    if cells.n == 0:
        return
    held = (cells.sums != 0.0).any(axis=1)
    starts = np.flatnonzero(np.r_[True, np.diff(cells.subject) != 0])
    place = np.cumsum(np.r_[False, np.diff(cells.subject) != 0])
    totals = np.add.reduceat(cells.sums, starts, axis=0)
    values = statistic(totals)
    left_out = statistic(totals[place] - cells.sums)
    left_out, at = left_out[held], place[held]
    if fisher:
        bounded = np.abs(left_out) < 1.0
        left_out = np.where(bounded, np.arctanh(np.where(bounded, left_out, 0.0)), np.nan)
    n = np.bincount(at, minlength=len(starts)).astype(np.float64)
    mean = quotient(np.bincount(at, weights=left_out, minlength=len(starts)), n)
    spread = left_out - mean[at]
    squares = np.bincount(at, weights=spread**2, minlength=len(starts))
    fourths = np.bincount(at, weights=spread**4, minlength=len(starts))
    for i, start in enumerate(starts.tolist()):
        value = float(values[i])
        known = Spread(int(n[i]), float(squares[i]), float(fourths[i]))
        low, high, p = interval_of(value, known, null, fisher) or (None, None, None)
        yield Estimate(
            int(cells.subject[start]),
            value if math.isfinite(value) else None,
            low,
            high,
            p,
            known.n,
            totals[i],
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Of the leave-one-out values: how many, and their summed squares and fourth powers."""

    n: int
    squares: float
    fourths: float

    @property
    def df(self) -> float:
        kurtosis = self.n * self.fourths / self.squares**2
        if kurtosis <= 1.0:
            return self.n - 1.0
        return max(1.0, min(self.n - 1.0, 2.0 * self.n / (kurtosis - 1.0)))


def interval_of(
    value: float, spread: Spread, null: float, fisher: bool
) -> tuple[float | None, float | None, float | None] | None:
    """Low, high and p of a value with this spread; None where there can be none."""
    if not math.isfinite(value) or spread.n < 2 or not math.isfinite(spread.squares):
        return None
    if fisher and not abs(value) < 1.0:
        return None
    centre, zero = (math.atanh(value), math.atanh(null)) if fisher else (value, null)
    se = math.sqrt((spread.n - 1) / spread.n * spread.squares)
    if se <= FLAT * max(abs(centre), abs(zero)) or spread.squares**2 == 0.0:
        return _steady(value, spread.n, null)
    half = t_critical(LEVEL, round(spread.df, 3)) * se
    p = student_t_p((centre - zero) / se, spread.df)
    low, high = centre - half, centre + half
    return (math.tanh(low), math.tanh(high), p) if fisher else (low, high, p)


def _steady(value: float, n: int, null: float) -> tuple[float | None, float | None, float]:
    """What n clusters say that agree to the last digit: no spread, only a sign test."""
    if abs(value - null) <= FLAT * max(abs(value), abs(null), 1.0):
        return value, value, 1.0
    p = math.ldexp(1.0, 1 - n)
    edge = value if p < 1.0 - LEVEL else None
    return edge, edge, p


# -- statistics of totals; columns are named in each ------------------------------------------


def mean_of(totals: Floats) -> Floats:
    """Mean from (n, sum)."""
    return quotient(totals[:, 1], totals[:, 0])


def contrast(totals: Floats) -> Floats:
    """The difference of two means, from (n, sum, n, sum)."""
    return quotient(totals[:, 1], totals[:, 0]) - quotient(totals[:, 3], totals[:, 2])


def slope_of(totals: Floats) -> Floats:
    """The slope of y on x with an intercept, from (n, x, y, xx, xy)."""
    n, x, y, xx, xy = totals.T
    spread = n * xx - x * x
    return quotient(n * xy - x * y, np.where(spread > FLAT * n * xx, spread, 0.0))


def centred_correlation(totals: Floats) -> Floats:
    """The correlation of columns already centred, from (n, xx, yy, xy)."""
    n, xx, yy, xy = totals.T
    zeros = np.zeros_like(n)
    return correlations_from_sums(np.column_stack([n, zeros, zeros, xx, yy, xy]))
