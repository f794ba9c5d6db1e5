"""How far orders and marks agree: rank correlations, concordance, and chance-corrected agreement.

Each is None where it is undefined (too few items, or nothing varies): a panel that says
one thing about everything has not agreed, it has not been asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import Floats
from peerage.stats.correlations import FLAT, correlation

Scale = Literal["nominal", "ordinal", "interval"]
Weighting = Literal["linear", "quadratic"]
Ratings = Sequence[Sequence[float | None]] | NDArray[np.float64]


def midranks(values: ArrayLike) -> Floats:
    """Ranks from 1 up, ties sharing the mean of their places."""
    array = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2.0)[place]
    return ranks


def spearman(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Spearman's rank correlation, ties at the mean of their places; None where undefined."""
    x, y = _pair(xs, ys)
    return correlation(midranks(x), midranks(y)) if _finite(x, y) else None


def kendall_tau(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Kendall's τ-b, or None for fewer than two items or a side that is all ties."""
    x, y = _pair(xs, ys)
    n = len(x)
    if n < 2 or not _finite(x, y):
        return None
    a, b = _codes(x), _codes(y)
    width = int(b.max()) + 1
    order = np.argsort(a * width + b, kind="stable")
    n_pairs = n * (n - 1) // 2
    tied_x, tied_y, tied_both = (_tied_pairs(codes) for codes in (a, b, a * width + b))
    if tied_x == n_pairs or tied_y == n_pairs:
        return None
    n_discordant = _inversions(b[order])
    balance = n_pairs - tied_x - tied_y + tied_both - 2 * n_discordant
    return _within_one(balance / math.sqrt((n_pairs - tied_x) * (n_pairs - tied_y)))


def _codes(values: Floats) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _tied_pairs(codes: NDArray[np.int64]) -> int:
    counts = np.unique(codes, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(codes: NDArray[np.int64]) -> int:
    """Pairs in the wrong order, strictly: codes are sorted bit by bit, the highest first.

    Within a group that shares its upper bits, each 0 moves past every 1 before it.
    """
    n_inversions = 0
    for bit in reversed(range(int(codes.max(initial=0)).bit_length())):
        ones = (codes >> bit) & 1
        starts = np.flatnonzero(np.diff(codes >> (bit + 1), prepend=-1))
        n_ones = np.cumsum(ones) - ones
        passed = n_ones - np.repeat(n_ones[starts], np.diff(np.append(starts, len(codes))))
        n_inversions += int(passed[ones == 0].sum())
        codes = codes[np.argsort(codes >> bit, kind="stable")]
    return n_inversions


def kendall_w(ratings: ArrayLike) -> float | None:
    """Kendall's W of raters (rows) over items, corrected for ties; None where undefined.

    Undefined are fewer than two raters or items, raters who tie everything, and any
    missing rating: `krippendorff_alpha` is for those.
    """
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"ratings are raters by items, not an array of shape {table.shape}")
    n_raters, n_items = table.shape
    if n_raters < 2 or n_items < 2 or not np.isfinite(table).all():
        return None
    totals = np.zeros(n_items)
    ties = 0
    for row in table:
        totals += midranks(row)
        counts = np.unique(row, return_counts=True)[1]
        ties += int((counts**3 - counts).sum())
    most: int = n_raters**2 * (n_items**3 - n_items) - n_raters * ties
    if most == 0:
        return None
    spread = totals - n_raters * (n_items + 1) / 2.0
    return min(1.0, 12.0 * float((spread * spread).sum()) / most)


def krippendorff_alpha(ratings: Ratings, scale: Scale = "interval") -> float | None:
    """Krippendorff's α of raters (rows) over items; None or NaN is a missing rating."""
    table = np.array(ratings, dtype=np.float64)  # None becomes NaN
    if table.ndim != 2:
        raise ValueError(f"ratings are raters by items, not an array of shape {table.shape}")
    present = ~np.isnan(table)
    return alpha_of_marks(np.nonzero(present)[1], table[present], scale)


def alpha_of_marks(items: ArrayLike, marks: ArrayLike, scale: Scale = "interval") -> float | None:
    """Krippendorff's α of marks in long form: which item, which mark. None where undefined.

    Undefined are fewer than two items with two marks each, and marks that are all alike.
    The ordinal distance between two marks is that of their mean places among all marks,
    so both ordinal and interval come down to sums of squares.
    """
    unit, count = np.unique(np.asarray(items), return_inverse=True, return_counts=True)[1:]
    values = np.asarray(marks, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("marks must be finite: leave missing ones out")
    pairable = count[unit] > 1
    values = values[pairable]
    unit = np.unique(unit[pairable], return_inverse=True)[1]
    n, n_units = len(values), int(unit.max(initial=-1)) + 1
    if n_units < 2 or _flat(values):
        return None
    size = np.bincount(unit).astype(np.float64)
    if scale == "nominal":
        within, between = _unlike_pairs(unit, values, size)
    else:
        points = midranks(values) if scale == "ordinal" else values
        points = points - points.mean()
        mean = np.bincount(unit, weights=points) / size
        apart = np.bincount(unit, weights=(points - mean[unit]) ** 2)
        within = float((apart * size / (size - 1.0)).sum())
        between = float((points * points).sum()) * n
    return 1.0 - (n - 1) * within / between


def _unlike_pairs(unit: NDArray[np.intp], values: Floats, size: Floats) -> tuple[float, float]:
    """Unlike pairs within units (each unit's over its size less one) and in all."""
    n = len(values)
    codes = _codes(values)
    width = int(codes.max()) + 1
    cells, alike = np.unique(unit * width + codes, return_counts=True)
    same = np.bincount(cells // width, weights=alike.astype(np.float64) ** 2)
    within = float(((size * size - same) / (size - 1.0)).sum())
    totals = np.bincount(codes)
    return within, float(n * n - int((totals * totals).sum()))


def weighted_kappa(
    xs: ArrayLike, ys: ArrayLike, weighting: Weighting = "quadratic"
) -> float | None:
    """Cohen's weighted κ of two raters of the same items; None where chance alone agrees too.

    Disagreement is the distance of the marks themselves, or its square, so that an
    unused mark does not bring its neighbours together; give labels as their places.
    """
    x, y = _pair(xs, ys)
    if len(x) < 2 or not _finite(x, y) or _flat(np.concatenate((x, y))):
        return None
    if weighting == "quadratic":
        centre = (x.mean() + y.mean()) / 2.0
        a, b = x - centre, y - centre
        seen = float(((a - b) ** 2).mean())
        expected = float((a * a).mean() + (b * b).mean() - 2.0 * a.mean() * b.mean())
    else:
        seen = float(np.abs(x - y).mean())
        expected = _mean_distance(x, y)
    return 1.0 - seen / expected


def _mean_distance(x: Floats, y: Floats) -> float:
    """The mean of |x − y| over all pairs of an x and a y, by one sort."""
    n = len(x)
    both = np.concatenate((x, y))
    order = np.argsort(both, kind="stable")
    below_x = np.cumsum(order < n)[:-1]
    below_y = np.cumsum(order >= n)[:-1]
    gaps = np.diff(both[order])  # a gap lies between x and y for these many pairs
    return float((gaps * (below_x * (n - below_y) + below_y * (n - below_x))).sum()) / n**2


def _pair(xs: ArrayLike, ys: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"two lists of one length, not arrays of shape {x.shape} and {y.shape}")
    return x, y


def _finite(x: Floats, y: Floats) -> bool:
    return bool(np.isfinite(x).all() and np.isfinite(y).all())


def _flat(values: Floats) -> bool:
    return float(np.ptp(values)) <= FLAT * float(np.abs(values).max())


def _within_one(value: float) -> float:
    return max(-1.0, min(1.0, value))
