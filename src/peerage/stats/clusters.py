"""Intervals and random draws for clusters: the reviews of one session are not independent.

Ratios are computed from one row of sums per cluster (for example per session).

Measured coverage of 95% intervals of a mean with 8, 20 and 200 sessions: 95, 95 and 95% if sessions
have equal sizes; 92, 95 and 96% if sizes differ tenfold; 92, 93 and 95% if session effects are
skewed. With 8 sessions and normal quantiles, the three cases would have only 90%, 79% and 89%.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.correlations import FLAT
from peerage.stats.tails import t_critical

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

SAME = 1e-12  # relative differences below this are rounding errors
N_DRAWS = 2_000


class RatioEstimate(NamedTuple):
    """A ratio with its interval and standard error; a field is None if it is undefined."""

    value: float
    low: float | None
    high: float | None
    se: float | None


def quotient(top: ArrayLike, bottom: ArrayLike) -> Floats:
    """Return top / bottom, NaN for a division by zero."""
    a, b = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    with np.errstate(over="ignore"):  # a quotient outside a float's range is undefined too
        ratio = a / np.where(b == 0.0, np.nan, b)
    return np.where(np.isfinite(ratio), ratio, np.nan)


class JackknifeSpread(NamedTuple):
    """Standard errors and degrees of freedom of many subjects, from leave-one-out values."""

    se: Floats
    df: Floats
    n_clusters: Ints


def spread_of(
    left_out: Floats, place: Ints, n: int, extra: Floats | float = 0.0
) -> JackknifeSpread:
    """Return the jackknife spread of each subject's leave-one-out values.

    `place` is the subject of each value, from 0 to n − 1. `extra` is a further standard error.
    """
    count = np.bincount(place, minlength=n)
    some = np.maximum(count, 1)
    gap = left_out - (np.bincount(place, left_out, minlength=n) / some)[place]
    squares, fourths = (np.bincount(place, gap**p, minlength=n).astype(float) for p in (2, 4))
    se = np.sqrt((some - 1.0) / some * squares + np.square(extra))
    return JackknifeSpread(se, jackknife_df(count, squares, fourths), count)


def jackknife_df(n: Ints, squares: Floats, fourths: Floats) -> Floats:
    """Return degrees of freedom from the count and the sums of powers of leave-one-out deviations.

    If a few clusters carry most of the spread, the kurtosis is high and the degrees are few. With
    20 sessions whose sizes differ tenfold, 95% intervals cover 94% with these degrees, and 93% with
    n − 1.
    """
    full = np.maximum(n - 1.0, 1.0)
    kurtosis = quotient(np.maximum(n, 1) * fourths, squares**2)
    fewer = np.clip(quotient(2.0 * np.maximum(n, 1), kurtosis - 1.0), 1.0, full)
    return np.where(kurtosis > 1.0, fewer, full)


def ratio_interval(
    tops: ArrayLike, bottoms: ArrayLike, *, level: float = 0.95
) -> RatioEstimate | None:
    """Return the ratio of two sums over clusters with its interval, or None if it is undefined.

    A mean over reviews is also such a ratio: the number of reviews, which it divides by, is as
    random as the sum. The interval is Student's, from leaving out one cluster at a time. If all
    clusters have equal values, there is no spread: the interval has zero width if so many equal
    values would be rare by chance, and there is none if not.
    """
    a, b = np.asarray(tops, dtype=np.float64), np.asarray(bottoms, dtype=np.float64)
    used = (a != 0.0) | (b != 0.0)
    a, b = a[used], b[used]
    top, bottom, n = float(a.sum()), float(b.sum()), len(a)
    if not math.isfinite(top) or not math.isfinite(bottom) or bottom == 0.0:
        return None
    value = top / bottom
    left_out = value - quotient(a - value * b, bottom - b)
    if n < 2 or not np.isfinite(left_out).all():
        return RatioEstimate(value, None, None, None)
    spread = spread_of(left_out, np.zeros(n, dtype=np.int64), 1)
    se = float(spread.se[0])
    size = max(abs(value), float(np.abs(a).sum() / np.abs(b).sum()))
    if se <= FLAT * math.sqrt(n) * size:
        edge = value if math.ldexp(1.0, 1 - n) < 1.0 - level else None
        return RatioEstimate(value, edge, edge, 0.0)
    half = t_critical(level, float(spread.df[0])) * se
    return RatioEstimate(value, value - half, value + half, se)


def ratio_influences(tops: ArrayLike, bottoms: ArrayLike) -> tuple[Floats, Floats]:
    """Return the ratios of many pairs of sums over the same clusters, and the clusters' influences.

    Each column is one ratio (for example a model's points and its appearances), with zeros in the
    clusters in which it does not occur. The influences U are the effects of leaving a cluster out,
    scaled so that UᵀU is the covariance of the ratios. A ratio whose denominator is zero is NaN,
    and so are the influences on a ratio with a single cluster.
    """
    a, b = np.asarray(tops, dtype=np.float64), np.asarray(bottoms, dtype=np.float64)
    bottom = b.sum(axis=0)
    ratios = quotient(a.sum(axis=0), bottom)
    used = (a != 0.0) | (b != 0.0)
    n_used = np.maximum(used.sum(axis=0), 1)
    pull = np.where(used, quotient(a - ratios * b, bottom - b), 0.0)
    pull = np.where(used, pull - pull.sum(axis=0) / n_used, 0.0)
    return ratios, pull * np.sqrt((n_used - 1.0) / n_used)


def t_halves(error: Floats, df: Floats, level: float) -> Floats:
    """Return half the width of each interval from standard errors and degrees of freedom."""
    return error * np.array([t_critical(level, degrees) for degrees in df.tolist()])


def half_widths(influences: Floats, inside: NDArray[np.bool_], level: float) -> Floats:
    """Return half the width of each column's interval, from the influences of its clusters."""
    cluster, column = np.nonzero(inside)
    spread = spread_of(influences[cluster, column], column, influences.shape[1])
    return t_halves(np.sqrt((influences**2).sum(axis=0)), spread.df, level)


class LeftOutPulls(NamedTuple):
    """The influence of each cluster on each value; zero if the value is not in the cluster."""

    influences: Floats
    inside: NDArray[np.bool_]

    def halves(self, level: float) -> Floats:
        """Return the half-width of each interval; NaN with fewer than two clusters or no spread."""
        half = half_widths(self.influences, self.inside, level)
        return np.where((self.inside.sum(axis=0) > 1) & (half > 0.0), half, np.nan)


def left_out_pulls(left_out: Floats) -> LeftOutPulls:
    """Return the influences of clusters, given the values without each cluster.

    `left_out` has clusters × values, with NaN if a value does not occur in the cluster.
    """
    inside = np.isfinite(left_out)
    n = inside.sum(axis=0)
    some = np.maximum(n, 1)
    mean = np.where(inside, left_out, 0.0).sum(axis=0) / some
    pull = np.where(inside, left_out - mean, 0.0)
    return LeftOutPulls(pull * np.sqrt(np.maximum(n - 1.0, 0.0) / some), inside)


# -- random draws, the same on every machine ---------------------------------------------------


def generator(*parts: object) -> np.random.Generator:
    """Return a random generator seeded by the hash of its parts, the same on every machine."""
    texts = [str(part) for part in parts]
    words = "".join(f"{len(text)}:{text}" for text in texts)  # so ("ab", "c") is not ("a", "bc")
    digest = hashlib.sha256(words.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def random_bits(rng: np.random.Generator, n_draws: int, n_clusters: int) -> NDArray[np.uint8]:
    """Return independent bits, 0 or 1 with equal chances (draws × clusters).

    They come from the generator's raw stream, which is the same in all versions of numpy.
    """
    words = rng.bit_generator.random_raw(-(-n_draws * n_clusters // 64))
    bits = np.asarray(words, dtype="<u8").view(np.uint8)
    some = np.unpackbits(bits, count=n_draws * n_clusters)
    return some.reshape(n_draws, n_clusters)


def round_to_grid(rows: Floats) -> Floats:
    """Round each column to multiples of a power of two, so that sums with signs ±1 are exact.

    The grid is finer than the precision of the values. Exact sums are the same in any order.
    """
    _, exponents = np.frexp(np.abs(rows).sum(axis=0))
    steps = np.ldexp(1.0, np.maximum(exponents + 4 - 53, -1022))
    return np.rint(rows / steps) * steps
