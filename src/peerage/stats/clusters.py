"""Intervals and draws that respect clusters: the reviews of one session are not independent.

Ratios take one row of plain sums per cluster (a session, say), and never a second look at the rows.

Measured coverage of the 95% intervals of a mean at 8, 20 and 200 sessions: of equal size 95, 95
and 95%; of sizes that differ tenfold 92, 95 and 96%; with skewed session effects 92, 93 and 95%.
Normal quantiles would give 90%, 79% and 89% at 8.
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

SAME = 1e-12  # closer than this, relative to the numbers it came from, is a rounding
N_DRAWS = 2_000


class RatioEstimate(NamedTuple):
    """A ratio and what its spread over clusters says of it; None where it can say nothing."""

    value: float
    low: float | None
    high: float | None
    se: float | None


def quotient(top: ArrayLike, bottom: ArrayLike) -> Floats:
    """Top over bottom, NaN where there is nothing to divide by."""
    a, b = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    with np.errstate(over="ignore"):  # a quotient out of a float's range is undefined too
        ratio = a / np.where(b == 0.0, np.nan, b)
    return np.where(np.isfinite(ratio), ratio, np.nan)


class JackknifeSpread(NamedTuple):
    """Standard errors and degrees of freedom of many subjects from their left-out values."""

    se: Floats
    df: Floats
    n_clusters: Ints


def spread_of(
    left_out: Floats, place: Ints, n: int, extra: Floats | float = 0.0
) -> JackknifeSpread:
    """The jackknife's spread of values left out, by place; `extra` is an error beside it."""
    count = np.bincount(place, minlength=n)
    some = np.maximum(count, 1)
    gap = left_out - (np.bincount(place, left_out, minlength=n) / some)[place]
    squares, fourths = (np.bincount(place, gap**p, minlength=n).astype(float) for p in (2, 4))
    se = np.sqrt((some - 1.0) / some * squares + np.square(extra))
    return JackknifeSpread(se, jackknife_df(count, squares, fourths), count)


def jackknife_df(n: Ints, squares: Floats, fourths: Floats) -> Floats:
    """Degrees of freedom of left-out values from their number, summed squares and fourth powers.

    A few clusters that carry most of the spread are worth few degrees, however many others
    there are; the kurtosis says so. With session sizes that differ tenfold, t with n − 1
    degrees covers 93% at 20 sessions, and with these 94%.
    """
    full = np.maximum(n - 1.0, 1.0)
    kurtosis = quotient(np.maximum(n, 1) * fourths, squares**2)
    fewer = np.clip(quotient(2.0 * np.maximum(n, 1), kurtosis - 1.0), 1.0, full)
    return np.where(kurtosis > 1.0, fewer, full)


def ratio_interval(
    tops: ArrayLike, bottoms: ArrayLike, *, level: float = 0.95
) -> RatioEstimate | None:
    """The ratio of two sums over clusters, or None where the lower one is zero.

    A mean over reviews is a ratio of sums too: its lower sum, the number of reviews, is
    as random as the upper one. The interval is Student's, from leaving out a cluster at a time.
    Clusters that agree to the last digit show no spread: they have an interval only where so many
    alike would be rare by chance, because one without width claims certainty.
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
    """Ratios of many pairs of sums over the same clusters, and what each cluster does to each.

    One column a ratio (a model's points and its appearances, say), with zeros in the
    clusters that lack it. The influences U are those of leaving the cluster out, scaled
    so that UᵀU is the covariance of the ratios. A ratio over nothing is NaN, as are the
    influences on a ratio that a single cluster decides.
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
    """Half of each interval with this standard error and these degrees of freedom."""
    return error * np.array([t_critical(level, degrees) for degrees in df.tolist()])


def half_widths(influences: Floats, inside: NDArray[np.bool_], level: float) -> Floats:
    """Half of each column's interval, from the influences of the clusters that it is in."""
    cluster, column = np.nonzero(inside)
    spread = spread_of(influences[cluster, column], column, influences.shape[1])
    return t_halves(np.sqrt((influences**2).sum(axis=0)), spread.df, level)


class LeftOutPulls(NamedTuple):
    """Influences of clusters on some values, zero where a value has nothing in the cluster."""

    influences: Floats
    inside: NDArray[np.bool_]

    def halves(self, level: float) -> Floats:
        """Half of each interval; NaN in fewer than two clusters, and where none moves the value."""
        half = half_widths(self.influences, self.inside, level)
        return np.where((self.inside.sum(axis=0) > 1) & (half > 0.0), half, np.nan)


def left_out_pulls(left_out: Floats) -> LeftOutPulls:
    """Influences from values without each cluster, clusters by values; NaN where not in it."""
    inside = np.isfinite(left_out)
    n = inside.sum(axis=0)
    some = np.maximum(n, 1)
    mean = np.where(inside, left_out, 0.0).sum(axis=0) / some
    pull = np.where(inside, left_out - mean, 0.0)
    return LeftOutPulls(pull * np.sqrt(np.maximum(n - 1.0, 0.0) / some), inside)


# -- draws: the same on every machine ----------------------------------------------------------


def generator(*parts: object) -> np.random.Generator:
    """A random generator seeded by the hash of its parts: same words, same numbers, anywhere."""
    texts = [str(part) for part in parts]
    words = "".join(f"{len(text)}:{text}" for text in texts)  # so ("ab", "c") is not ("a", "bc")
    digest = hashlib.sha256(words.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def random_signs(rng: np.random.Generator, n_draws: int, n_clusters: int) -> Floats:
    """Independent ±1, draws by clusters, one random bit each.

    The bits are of the generator's own stream, which no version of numpy will change.
    """
    words = rng.bit_generator.random_raw(-(-n_draws * n_clusters // 64))
    bits = np.asarray(words, dtype="<u8").view(np.uint8)
    signs = np.unpackbits(bits, count=n_draws * n_clusters).astype(np.float64)
    return (2.0 * signs - 1.0).reshape(n_draws, n_clusters)


def gridded(rows: Floats) -> Floats:
    """The rows rounded to a power of two per column, so that weighted sums of them are exact.

    The grid is so fine that nothing is lost, and adding is exact in any order.
    """
    _, exponents = np.frexp(np.abs(rows).sum(axis=0))
    steps = np.ldexp(1.0, np.maximum(exponents + 4 - 53, -1022))
    return np.rint(rows / steps) * steps
