"""Ranks with the certainty they have: ranges that hold for all places at once, and tiers.

At the end, how far two orders agree: Spearman's ρ and Kendall's τ.

Two estimates are told apart where their studentised difference exceeds the `level`
quantile of the largest such difference over all pairs (max-T). A difference with zero
variance is a tie: nothing is known of how it would vary. A NaN ties with everyone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import N_DRAWS, SAME, Floats, gridded, random_signs
from peerage.stats.correlations import correlation
from peerage.stats.tails import normal_p, t_critical

Ints = NDArray[np.int64]

MOSTLY = 0.5  # of the clusters of either: a pair that shares more is compared cluster by cluster
CHUNK_WEIGHTS = 2**21
CHUNK_PRODUCTS = 2**18  # below this BLAS wakes no threads, which cost more than they save here
FEW_COLUMNS = 16
MANY_DF = 1_000.0  # beyond it t is the normal, but for a thousandth


def sign_flip_ranks(
    estimates: ArrayLike,
    influences: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_draws: int = N_DRAWS,
    above: NDArray[np.bool_] | None = None,
    groups: Ints | None = None,
) -> tuple[Ints, Ints]:
    """The best and the worst rank of each estimate (1 is the largest), all true at once.

    `above` are pairs that were told apart otherwise: whether the first stands above the second.
    Estimates of different `groups` cannot be compared.

    The null keeps the size of each cluster's influences (see `ratio_influences`) and gives
    them a random sign, so it knows few clusters for what they are. Measured on models
    that do not differ, at 5% claimed: 4-6% of boards part any two, from 8 sessions of 30
    models to 200 of 3 (9% at 6 sessions of 10), where normal draws part some on 5% to 95%.
    A newcomer with few clusters among many of the others' has Welch's degrees of freedom.
    """
    values, pulls = _checked(estimates, influences)
    n = len(values)
    defined = np.isfinite(values) & np.isfinite(pulls).all(axis=0)
    pulls = np.where(defined, pulls, 0.0)
    present = pulls != 0.0
    flipped = _flipped(pulls, rng, n_draws)
    errors = np.full((n, n), np.inf)  # infinite: this pair cannot be told apart
    largest = np.zeros(n_draws)
    df = welch_df((pulls * pulls).sum(axis=0), present.sum(axis=0))
    for i in range(n - 1):  # one row of pairs at a time keeps the memory small
        squares = ((pulls[:, i : i + 1] - pulls[:, i + 1 :]) ** 2).sum(axis=0)
        width = _errors(values, squares, i, groups)
        rivals = np.flatnonzero(np.isfinite(width)) + i + 1  # those it can be told apart from
        if len(rivals) == 0:
            continue
        width = width[rivals - i - 1]
        n_used = (present[:, i : i + 1] | present[:, rivals]).sum(axis=0)
        n_shared = (present[:, i : i + 1] & present[:, rivals]).sum(axis=0)
        alike = rivals[n_shared > MOSTLY * n_used]
        df[i, alike] = df[alike, i] = math.inf  # the signs have allowed for it
        size = ((flipped[:, i : i + 1] - flipped[:, rivals]) / width) ** 2
        # What t becomes when the spread is measured anew, around the flipped mean.
        size *= (n_used - 1.0) / np.maximum(n_used - size, SAME)
        largest = np.maximum(largest, size.max(axis=1))
        # Residuals of few clusters are too small by as much: the mean they lie around is theirs.
        width = width * np.sqrt(n_used / np.maximum(n_used - 1.0, 1.0))
        errors[i, rivals] = errors[rivals, i] = width
    return _ranges(values, errors, np.sqrt(largest), level, df, above)


def welch_df(variances: ArrayLike, n_clusters: ArrayLike) -> Floats:
    """Welch's degrees of freedom of the difference of any two estimates, each with its own."""
    v = np.asarray(variances, dtype=np.float64)
    n = np.maximum(np.asarray(n_clusters, dtype=np.float64) - 1.0, 1.0)
    total = v[:, None] + v[None, :]
    own = v * v / n
    both = own[:, None] + own[None, :]
    return np.where(both > 0.0, total * total / np.where(both > 0.0, both, 1.0), math.inf)


def _flipped(pulls: Floats, rng: np.random.Generator, n_draws: int) -> Floats:
    """Sums of the influences with random signs, draws by estimates."""
    rows, n = gridded(pulls), max(1, pulls.shape[1])
    totals = np.zeros((n_draws, pulls.shape[1]))
    width = max(1, (CHUNK_PRODUCTS // n if n <= FEW_COLUMNS else CHUNK_WEIGHTS) // n_draws)
    for start in range(0, len(rows), width):
        part = rows[start : start + width]
        totals += random_signs(rng, n_draws, len(part)) @ part
    return totals


def simultaneous_ranks(
    estimates: ArrayLike,
    draws: ArrayLike,
    *,
    level: float = 0.95,
    df: ArrayLike = math.inf,
    groups: Ints | None = None,
) -> tuple[Ints, Ints]:
    """The best and the worst rank of each estimate from draws of all of them together.

    For what has a covariance and no influences (see `normal_draws`). Draws by estimates, NaN for
    an estimate that is none. With few clusters give their degrees of freedom (of all, or of each
    pair); even so it needs more clusters than estimates: at 40 models and 50 sessions, 8% of
    boards without differences part some.
    """
    values, drawn = _checked(estimates, draws)
    n = len(values)
    errors = np.full((n, n), np.inf)
    largest = np.zeros(len(drawn))
    for i in range(n - 1):
        spread = drawn[:, i : i + 1] - drawn[:, i + 1 :]
        spread = spread - spread.sum(axis=0) / max(len(drawn), 1)
        variance = (spread * spread).sum(axis=0) / max(len(drawn) - 1, 1)
        width = _errors(values, variance, i, groups)
        errors[i, i + 1 :] = errors[i + 1 :, i] = width
        size = np.where(np.isfinite(width), np.abs(spread / width), 0.0)
        largest = np.maximum(largest, size.max(axis=1, initial=0.0))
    return _ranges(values, errors, largest, level, df)


def _checked(estimates: ArrayLike, table: ArrayLike) -> tuple[Floats, Floats]:
    values, rows = np.asarray(estimates, dtype=np.float64), np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(values):
        raise ValueError(f"rows by {len(values)} estimates, not an array of shape {rows.shape}")
    return np.where(np.isfinite(values), values, np.nan), rows


def _errors(values: Floats, variances: Floats, i: int, groups: Ints | None = None) -> Floats:
    """Standard errors of estimate i minus each later one, infinite for zero but for rounding.

    Infinite as well for those of another group.
    """
    sizes = np.maximum(np.abs(values[i]), np.abs(values[i + 1 :]))
    varies = variances > (SAME * np.where(np.isfinite(sizes), sizes, np.inf)) ** 2
    if groups is not None:
        varies &= groups[i] == groups[i + 1 :]
    return np.where(varies, np.sqrt(np.where(varies, variances, 1.0)), np.inf)


def _ranges(
    values: Floats,
    errors: Floats,
    largest: Floats,
    level: float,
    df: ArrayLike,
    above: NDArray[np.bool_] | None = None,
) -> tuple[Ints, Ints]:
    n = len(values)
    beats = np.zeros((n, n), dtype=bool) if above is None else above
    if len(largest) and np.isfinite(errors).any():
        reach = _reaches(float(np.quantile(largest, level, method="higher")), np.asarray(df))
        known = np.isfinite(errors)
        gap = values[:, None] - values[None, :]
        beats = beats | (known & (gap > reach * np.where(known, errors, 1.0)))
    return 1 + beats.sum(axis=0, dtype=np.int64), n - beats.sum(axis=1, dtype=np.int64)


def _reaches(reach: float, df: Floats) -> Floats:
    """A normal quantile as those of t with these degrees of freedom."""
    chance = 1.0 - normal_p(reach)
    if chance >= 1.0:
        return np.where(np.isfinite(df), math.inf, reach)
    dfs, place = np.unique(np.where(df > MANY_DF, math.inf, np.round(df, 1)), return_inverse=True)
    reaches = [t_critical(chance, one) if math.isfinite(one) else reach for one in dfs.tolist()]
    return np.array(reaches)[place].reshape(df.shape)


def normal_draws(
    estimates: ArrayLike, covariance: ArrayLike, rng: np.random.Generator, n_draws: int = N_DRAWS
) -> Floats:
    """Normal draws around the estimates, draws by estimates; the covariance may be singular."""
    centre = np.asarray(estimates, dtype=np.float64)
    root = _root(np.asarray(covariance, dtype=np.float64))
    return centre + rng.standard_normal((n_draws, root.shape[1])) @ root.T


def _root(covariance: Floats) -> Floats:
    """A matrix whose square is the covariance, by Cholesky with pivots.

    Its own few lines, because an eigenvector's sign is up to the machine's library and
    the draws would be too. It stops where what is left is rounding.
    """
    rest = (covariance + covariance.T) / 2.0
    enough = SAME * float(rest.diagonal().max(initial=0.0))
    columns = []
    for _ in range(len(rest)):
        pivot = int(rest.diagonal().argmax())
        size = float(rest[pivot, pivot])
        if size <= enough:
            break
        column = rest[:, pivot] / math.sqrt(size)
        columns.append(column)
        rest = rest - np.outer(column, column)
        rest[pivot, :] = rest[:, pivot] = 0.0
    return np.column_stack(columns) if columns else np.zeros((len(rest), 0))


def tiers(low: ArrayLike, high: ArrayLike) -> Ints:
    """The tier of each estimate, 1 the best, from simultaneous rank ranges.

    A tier ends where every range so far lies above every range still to come. So each
    member of a tier is told apart from each member of the next, and two whose ranges
    overlap are never parted.
    """
    best, worst = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    numbers = np.ones(len(best), dtype=np.int64)
    reach, tier = 0, 1
    for place in np.lexsort((worst, best)):
        if reach and best[place] > reach:
            tier += 1
        reach = max(reach, int(worst[place]))
        numbers[place] = tier
    return numbers


# -- two orders ------------------------------------------------------------------------------------


def midranks(values: ArrayLike) -> Floats:
    """Ranks from 1 up, ties sharing the mean of their places."""
    array = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[place]


def spearman(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Spearman's rank correlation, ties at the mean of their places; None where undefined."""
    x, y = _pair(xs, ys)
    return correlation(midranks(x), midranks(y)) if np.isfinite([x, y]).all() else None


def kendall_tau(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Kendall's τ-b, or None for fewer than two items or a side that is all ties."""
    x, y = _pair(xs, ys)
    n = len(x)
    if n < 2 or not np.isfinite([x, y]).all():
        return None
    a, b = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (x, y))
    width = int(b.max()) + 1
    order = np.argsort(a * width + b, kind="stable")
    n_pairs = n * (n - 1) // 2
    tied_x, tied_y, tied_both = (_tied_pairs(codes) for codes in (a, b, a * width + b))
    if tied_x == n_pairs or tied_y == n_pairs:
        return None
    n_discordant = _inversions(b[order])
    balance = n_pairs - tied_x - tied_y + tied_both - 2 * n_discordant
    tau = balance / math.sqrt((n_pairs - tied_x) * (n_pairs - tied_y))
    return max(-1.0, min(1.0, tau))


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


def _pair(xs: ArrayLike, ys: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"two lists of one length, not arrays of shape {x.shape} and {y.shape}")
    return x, y
