"""Pearson's correlation, its p-value and its interval.

An undefined correlation is None, not zero: "no evidence" must not read as "no bias". Most lists
come from one session and are so short that plain Python is faster than arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from peerage.stats.tails import beta_tail, normal_critical

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[Any]
    Floats = NDArray[np.float64]

FLAT = 2.0**-48  # a relative spread of a few rounding errors counts as no spread
FLAT_SUM = 1e-12  # the same for sums of squares, which have lost half of the digits
TINY, HUGE = 1e-290, 1e290  # outside this range a sum or a spread may overflow

RankKind = Literal["pearson", "spearman", "kendall"]


def correlation(xs: Numbers, ys: Numbers) -> float | None:
    """Return Pearson's r; None if n < 3, a list is constant, or a value is not finite.

    Both lists are centred and scaled before values are multiplied, so that a large
    offset or unit does not cost precision.
    """
    n = len(xs)
    if n != len(ys):
        raise ValueError(f"a correlation needs two lists of equal length, got {n} and {len(ys)}")
    if n < 3:
        return None
    dx, dy = _deviations(list(map(float, xs))), _deviations(list(map(float, ys)))
    if dx is None or dy is None:
        return None
    xx = math.fsum([x * x for x in dx])
    yy = math.fsum([y * y for y in dy])
    xy = math.fsum([x * y for x, y in zip(dx, dy, strict=True)])
    return max(-1.0, min(1.0, xy / math.sqrt(xx * yy)))


def _deviations(values: list[float]) -> list[float] | None:
    """Return deviations from the mean in units of the range, or None if the values are constant."""
    low, high = min(values), max(values)
    reach = max(-low, high)
    if not all(map(math.isfinite, values)) or high / 2 - low / 2 <= FLAT * reach / 2:
        return None
    if not TINY < reach < HUGE:
        values = [value / reach for value in values]
        low, high = min(values), max(values)
    steps = [value - low for value in values]  # first, because a large offset would round the mean
    mean = math.fsum(steps) / len(steps)
    return [(step - mean) / (high - low) for step in steps]


def correlations_from_sums(totals: Floats) -> Floats:
    """Return Pearson's r for each row of (n, sx, sy, sxx, syy, sxy), NaN if undefined.

    It is used for resampled sums. Centre x and y first if their means are large.
    """
    import numpy as np

    n, sx, sy, sxx, syy, sxy = np.moveaxis(np.asarray(totals, dtype=np.float64), -1, 0)
    vx, vy = n * sxx - sx * sx, n * syy - sy * sy
    known = (n >= 3) & (vx > FLAT_SUM * n * sxx) & (vy > FLAT_SUM * n * syy)
    spread = np.sqrt(np.where(known, vx, 1.0)) * np.sqrt(np.where(known, vy, 1.0))
    r: Floats = np.where(known, np.clip((n * sxy - sx * sy) / spread, -1.0, 1.0), np.nan)
    return r


def correlation_p(r: float, n: int) -> float | None:
    """Return the two-sided p of Pearson's r, from Student's t with n − 2 degrees of freedom.

    None for n < 3. A perfect correlation has p = 0.0, the limit of the formula; the caller's
    minimum n protects against conclusions from few points.
    """
    if n < 3 or not -1.0 <= r <= 1.0:
        return None
    return beta_tail((1.0 - r) * (1.0 + r), r * r, n - 2.0)


def fisher_interval(
    r: float, n: int, level: float = 0.95, kind: RankKind = "pearson"
) -> tuple[float, float] | None:
    """Return Fisher's interval for a correlation; None for too few points or for |r| = 1.

    A perfect correlation has no spread to build an interval from, and [1, 1] would
    claim certainty. Rank correlations use other variances: Bonett and Wright for
    Spearman's, Fieller and others for Kendall's.
    """
    spare = n - (4 if kind == "kendall" else 3)  # the divisor of the variance
    if spare < 1 or not -1.0 < r < 1.0:
        return None
    numerator = {"pearson": 1.0, "spearman": 1.0 + r * r / 2.0, "kendall": 0.437}[kind]
    half = normal_critical(level) * math.sqrt(numerator / spare)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
