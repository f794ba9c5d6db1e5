"""Values with intervals for many subjects at once, from sums by cluster.

The closed form of the cluster bootstrap: leave out one session (or bucket of sessions) at a
time, and take the spread. Tails are Student's, with fewer degrees of freedom where a few
clusters carry most of the spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Cells
from peerage.reviews.rows import Floats, Ints
from peerage.stats.clusters import quotient
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import student_t_p, t_critical

Statistic = Callable[[Floats], Floats]
Interval = tuple[float | None, float | None, float | None]  # low, high and p

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
    sums: Floats  # the subject's totals, of which the first is n

    @property
    def n(self) -> int:
        return int(self.sums[0])


def estimates(
    cells: Cells, statistic: Statistic, *, null: float = 0.0, fisher: bool = False
) -> Iterator[Estimate]:
    """Each subject's estimate, in the order of subjects; a statistic marks undefined with NaN.

    `fisher` makes the interval of a correlation on the scale where it is symmetric.
    """
    if cells.n == 0:
        return
    held = (cells.sums != 0.0).any(axis=1)
    new = np.r_[True, np.diff(cells.subject) != 0]
    starts, place = np.flatnonzero(new), np.cumsum(new) - 1
    totals = np.add.reduceat(cells.sums, starts, axis=0)
    values = statistic(totals)
    left_out = statistic(totals[place] - cells.sums)[held]
    if fisher:
        bounded = np.abs(left_out) < 1.0
        left_out = np.where(bounded, np.arctanh(np.where(bounded, left_out, 0.0)), np.nan)
    spread = spread_of(left_out, place[held], len(starts))
    for i, start in enumerate(starts.tolist()):
        value, n = float(values[i]), int(spread.n_clusters[i])
        interval = interval_of(value, n, float(spread.se[i]), float(spread.df[i]), null, fisher)
        known = value if math.isfinite(value) else None
        yield Estimate(int(cells.subject[start]), known, *interval, n, totals[i])


class JackknifeSpread(NamedTuple):
    """Standard errors and degrees of freedom of many subjects from their left-out values."""

    se: Floats
    df: Floats
    n_clusters: Ints


def spread_of(
    left_out: Floats, place: Ints, n: int, extra: Floats | float = 0.0
) -> JackknifeSpread:
    """The jackknife's spread; fewer degrees of freedom where few clusters carry most of it."""
    count = np.bincount(place, minlength=n)
    gap = left_out - (np.bincount(place, left_out, minlength=n) / np.maximum(count, 1))[place]
    squares, fourths = (np.bincount(place, gap**p, minlength=n).astype(float) for p in (2, 4))
    some = np.maximum(count, 1)
    variance = (some - 1.0) / some * squares
    return JackknifeSpread(
        np.sqrt(variance + np.square(extra)), jackknife_df(count, squares, fourths), count
    )


def jackknife_df(n: Ints, squares: Floats, fourths: Floats) -> Floats:
    """Degrees of freedom of left-out values from their number, summed squares and fourth powers."""
    full = np.maximum(n - 1.0, 1.0)
    kurtosis = quotient(np.maximum(n, 1) * fourths, squares**2)
    fewer = np.clip(quotient(2.0 * np.maximum(n, 1), kurtosis - 1.0), 1.0, full)
    return np.where(kurtosis > 1.0, fewer, full)


def interval_of(
    value: float, n: int, se: float, df: float, null: float = 0.0, fisher: bool = False
) -> Interval:
    """The interval and p of a value with this spread over n clusters; None where there is none."""
    if not math.isfinite(value) or n < 2 or not math.isfinite(se):
        return None, None, None
    if fisher and not abs(value) < 1.0:
        return None, None, None
    centre, zero = (math.atanh(value), math.atanh(null)) if fisher else (value, null)
    if se <= FLAT * max(abs(centre), abs(zero)):
        return _steady(value, n, null)
    half = t_critical(LEVEL, round(df, 3)) * se
    p = student_t_p((centre - zero) / se, df)
    low, high = centre - half, centre + half
    return (math.tanh(low), math.tanh(high), p) if fisher else (low, high, p)


def _steady(value: float, n: int, null: float) -> Interval:
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


def centred_correlation(totals: Floats) -> Floats:
    """The correlation of columns already centred, from (n, xx, yy, xy)."""
    n, xx, yy, xy = totals.T
    zeros = np.zeros_like(n)
    return correlations_from_sums(np.column_stack([n, zeros, zeros, xx, yy, xy]))
