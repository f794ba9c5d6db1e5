"""Resampling of whole clusters by their sums: never a second look at the rows.

The draws are the same on every machine: the seed is a hash of words, and sums are put on
a grid so fine that nothing is lost and so coarse that adding them is exact, in any order.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import (
    SAME,
    Estimate,
    Floats,
    Statistic,
    effective_df,
    held_rows,
    leave_one_out,
    statistic_of_totals,
    steady_estimate,
)
from peerage.stats.tails import normal_p, student_t_p, t_critical

Resampling = Literal["auto", "multinomial", "poisson"]

EXACT_BELOW = 400  # clusters; more are resampled by independent Poisson weights
N_DRAWS = 2_000
N_BUCKETS = 4_096
CHUNK_WEIGHTS = 2**21
CHUNK_PRODUCTS = 2**18  # below this BLAS wakes no threads, which cost more than they save here
FEW_COLUMNS = 16
MIN_DEFINED = 0.95  # of the draws; an interval over fewer would describe the lucky ones


def generator(*parts: object) -> np.random.Generator:
    """A random generator seeded by the hash of its parts: same words, same numbers, anywhere."""
    texts = [str(part) for part in parts]
    words = "".join(f"{len(text)}:{text}" for text in texts)  # so ("ab", "c") is not ("a", "bc")
    digest = hashlib.sha256(words.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


@lru_cache(maxsize=1)
def _poisson_table() -> NDArray[np.uint8]:
    """The Poisson(1) weight of each 16-bit number, to within 1/65536 of its probability."""
    chances = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(12)])
    edges = np.rint(chances * 65_536)
    return np.searchsorted(edges, np.arange(65_536), side="right").astype(np.uint8)


def _raw(rng: np.random.Generator, n_bytes: int) -> NDArray[np.uint8]:
    """Bytes of the generator's own stream, which no version of numpy will change."""
    words = rng.bit_generator.random_raw(-(-n_bytes // 8))
    return np.asarray(words, dtype="<u8").view(np.uint8)[:n_bytes]


def poisson_weights(rng: np.random.Generator, n_draws: int, n_clusters: int) -> NDArray[np.uint8]:
    """Independent Poisson(1) weights, draws by clusters, at a few nanoseconds each."""
    bits = _raw(rng, 2 * n_draws * n_clusters).view("<u2")
    weights: NDArray[np.uint8] = _poisson_table()[bits].reshape(n_draws, n_clusters)
    return weights


def multinomial_weights(
    rng: np.random.Generator, n_draws: int, n_clusters: int
) -> NDArray[np.intp]:
    """How often each cluster comes up in n_clusters draws with replacement, draws by clusters."""
    picks = rng.integers(0, n_clusters, size=(n_draws, n_clusters))
    picks += np.arange(n_draws)[:, None] * n_clusters
    counts = np.bincount(picks.ravel(), minlength=n_draws * n_clusters)
    return counts.reshape(n_draws, n_clusters)


def random_signs(rng: np.random.Generator, n_draws: int, n_clusters: int) -> Floats:
    """Independent ±1, draws by clusters, one random bit each."""
    bits = _raw(rng, -(-n_draws * n_clusters // 8))
    signs = np.unpackbits(bits, count=n_draws * n_clusters).astype(np.float64)
    return (2.0 * signs - 1.0).reshape(n_draws, n_clusters)


def bootstrap_totals(
    sums: ArrayLike,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
    resampling: Resampling = "auto",
) -> Floats:
    """The totals of resampled clusters, draws by columns; memory does not grow with clusters.

    Poisson weights do not keep the number of clusters fixed: use them for statistics
    that only know proportions (ratios, correlations). Clusters are drawn by their place:
    sort them by id for the same draws from the same data.
    """
    rows = gridded(np.asarray(sums, dtype=np.float64))
    n_clusters = len(rows)
    poisson = n_clusters >= EXACT_BELOW if resampling == "auto" else resampling == "poisson"
    totals = np.zeros((n_draws, rows.shape[1]))
    if n_clusters == 0:
        return totals
    if poisson:
        width = max(1, chunk_weights(rows) // n_draws)
        for start in range(0, n_clusters, width):
            part = rows[start : start + width]
            totals += poisson_weights(rng, n_draws, len(part)).astype(np.float64) @ part
        return totals
    height = max(1, chunk_weights(rows) // n_clusters)
    for start in range(0, n_draws, height):
        part = totals[start : start + height]
        part[:] = multinomial_weights(rng, len(part), n_clusters).astype(np.float64) @ rows
    return totals


def chunk_weights(rows: Floats) -> int:
    """How many weights to hold at a time when multiplying them into these rows."""
    n_columns = max(1, rows.shape[1])
    return CHUNK_PRODUCTS // n_columns if n_columns <= FEW_COLUMNS else CHUNK_WEIGHTS


def gridded(rows: Floats) -> Floats:
    """The rows rounded to a power of two per column, so that weighted sums of them are exact."""
    if rows.ndim != 2:
        raise ValueError(f"sums are clusters by columns, not an array of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("sums must be finite: leave undefined rows out before adding")
    _, exponents = np.frexp(np.abs(rows).sum(axis=0))
    steps = np.ldexp(1.0, np.maximum(exponents + 4 - 53, -1022))
    gridded: Floats = np.rint(rows / steps) * steps
    return gridded


def bucketed(sums: ArrayLike, keys: ArrayLike, n_buckets: int = N_BUCKETS) -> Floats:
    """The sums of clusters that share a bucket: hashed integer keys, taken modulo n_buckets.

    A bucket is a cluster as good as its members: the spread over thousands of buckets
    estimates the spread over millions of sessions, at the cost of the buckets.
    """
    rows = np.asarray(sums, dtype=np.float64)
    places = np.asarray(keys).astype(np.uint64) % np.uint64(n_buckets)
    columns = [
        np.bincount(places.astype(np.intp), weights=column, minlength=n_buckets)
        for column in rows.T
    ]
    return np.column_stack(columns)


def cluster_bootstrap(
    sums: ArrayLike,
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    n_draws: int = N_DRAWS,
    null: float = 0.0,
    level: float = 0.95,
    resampling: Resampling = "auto",
) -> Estimate | None:
    """A statistic of summed rows with a bootstrap interval over whole clusters.

    None where the statistic is undefined. Exact resampling below a few hundred clusters,
    Poisson weights above.
    """
    rows = held_rows(sums)
    value = statistic_of_totals(rows, statistic)
    if value is None:
        return None
    left_out = leave_one_out(rows, statistic)
    df = effective_df(left_out) if np.isfinite(left_out).all() else None
    draws = statistic(bootstrap_totals(rows, rng, n_draws, resampling))
    return draws_estimate(value, draws, len(rows), df=df, null=null, level=level)


def poisson_bootstrap(
    sums: ArrayLike,
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    n_draws: int = N_DRAWS,
    null: float = 0.0,
    level: float = 0.95,
) -> Estimate | None:
    """`cluster_bootstrap` by Poisson weights, however few the clusters."""
    return cluster_bootstrap(
        sums, statistic, rng, n_draws=n_draws, null=null, level=level, resampling="poisson"
    )


def draws_estimate(
    value: float,
    draws: ArrayLike,
    n_clusters: int,
    *,
    df: float | None = None,
    null: float = 0.0,
    level: float = 0.95,
) -> Estimate:
    """An estimate from bootstrap draws: percentiles, moved out to the tails of Student's t.

    Plain percentiles cover 88% where 8 clusters claim 95%, and bias correction (BCa) makes
    ratios worse. p comes from the draws' standard error and t, because counting draws
    beyond the null cannot tell .001 from .00001.
    """
    n = n_clusters
    asked = np.asarray(draws, dtype=np.float64)
    known = asked[np.isfinite(asked)]
    if n < 2 or len(known) < max(2.0, MIN_DEFINED * len(asked)):
        return Estimate(value, None, None, None, None, n)
    se = float(known.std(ddof=1)) * math.sqrt(n / (n - 1))
    if se <= SAME * abs(value):
        return steady_estimate(value, n, null=null, level=level)
    degrees = n - 1.0 if df is None else df
    tail = normal_p(math.sqrt(n / (n - 1)) * t_critical(level, degrees)) / 2.0
    low, high = np.quantile(known, (tail, 1.0 - tail), method="weibull").tolist()
    return Estimate(value, low, high, se, student_t_p((value - null) / se, degrees), n)
