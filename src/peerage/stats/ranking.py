"""Simultaneous rank ranges, tiers, and the agreement of two orders.

Two estimates are separated if their difference, divided by its standard error, exceeds the `level`
quantile of the largest such value over all pairs (max-T). A difference with zero variance is a tie,
because its true variance is unknown. A NaN ties with every estimate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import N_DRAWS, SAME, Floats, random_bits, round_to_grid
from peerage.stats.correlations import correlation
from peerage.stats.tails import normal_p, t_critical

Ints = NDArray[np.int64]

MOSTLY = 0.5  # pairs that share more than this fraction of clusters are compared within clusters
MOST = 0.8  # if fewer clusters than this fraction carry a difference, only these are counted
CHUNK_WEIGHTS = 2**21
CHUNK_PRODUCTS = 2**18  # below this size BLAS uses one thread, which is faster here
FEW_COLUMNS = 16
FEWEST_DRAWS = 8  # with fewer at a time, products of one thread are slower
MANY_DF = 1_000.0  # with more degrees of freedom, t differs from the normal by under 0.1%


def sign_flip_ranks(
    estimates: ArrayLike,
    influences: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_draws: int = N_DRAWS,
    above: NDArray[np.bool_] | None = None,
    groups: Ints | None = None,
    fitted: bool = False,
) -> tuple[Ints, Ints]:
    """Return the best and the worst rank of each estimate (1 is the largest), valid together.

    `above[i, j]` is true if another test has already placed i above j. Estimates of different
    `groups` are never separated. `fitted` says that the estimates were fitted on clusters that do
    not all have both of a pair: then few clusters may carry a difference (see
    `effective_clusters`).

    Under the null hypothesis each cluster's influences (see `ratio_influences`) keep their size and
    get a random sign, which is valid with few clusters too. Measured on equally good models with a
    target of 5%: 4-6% of boards wrongly separate two models, from 8 sessions of 30 models to 200
    sessions of 3 models (9% with 6 sessions of 10 models). With draws from a normal distribution
    instead, 5% to 95% of boards do. A new model with few clusters, compared with models that have
    many, gets Welch's degrees of freedom.
    """
    values, pulls = _check_shapes(estimates, influences)
    n = len(values)
    defined = np.isfinite(values) & np.isfinite(pulls).all(axis=0)
    pulls = np.where(defined, pulls, 0.0)
    present = pulls != 0.0
    flipped = _flip_signs(pulls, rng, n_draws)
    errors = np.full((n, n), np.inf)  # infinite: this pair cannot be separated
    largest = np.zeros(n_draws)
    df = welch_df((pulls * pulls).sum(axis=0), present.sum(axis=0))
    for i in range(n - 1):  # one row of pairs at a time keeps the memory small
        powers = (pulls[:, i : i + 1] - pulls[:, i + 1 :]) ** 2
        squares = powers.sum(axis=0)
        width = _errors(values, squares, i, groups)
        rivals = np.flatnonzero(np.isfinite(width)) + i + 1  # those it can be separated from
        if len(rivals) == 0:
            continue
        width = width[rivals - i - 1]
        n_used = (present[:, i : i + 1] | present[:, rivals]).sum(axis=0)
        n_used = n_used.astype(np.float64)
        n_shared = (present[:, i : i + 1] & present[:, rivals]).sum(axis=0)
        alike = rivals[n_shared > MOSTLY * n_used]
        df[i, alike] = df[alike, i] = math.inf  # random signs account for few clusters
        if fitted:
            n_carry = effective_clusters(powers[:, rivals - i - 1], n_used)
            few = n_carry < MOST * n_used
            n_used = np.where(few, np.maximum(n_carry, 2.0), n_used)
            fewer = np.where(few, np.clip(n_carry - 1.0, 1.0, df[i, rivals]), df[i, rivals])
            df[i, rivals] = df[rivals, i] = fewer
        size = ((flipped[:, i : i + 1] - flipped[:, rivals]) / width) ** 2
        # Now the squared t that results if the spread is measured around the flipped mean.
        size *= (n_used - 1.0) / np.maximum(n_used - size, SAME)
        largest = np.maximum(largest, size.max(axis=1))
        # With few clusters residuals are too small by this factor: they also estimate the mean.
        width = width * np.sqrt(n_used / np.maximum(n_used - 1.0, 1.0))
        errors[i, rivals] = errors[rivals, i] = width
    return _ranges(values, errors, np.sqrt(largest), level, df, above)


def effective_clusters(squares: Floats, n: Floats) -> Floats:
    """Return how many clusters carry each difference, from the squares of their influences.

    If m clusters have equal normal influences and the others none, the result is m on average. A
    late model is connected to the others by few clusters: with 5 models, one of them in the last 5
    of 50 sessions, 12% of boards of equal models separated some pair with all clusters, and 3% do
    with these.
    """
    total, fourths = squares.sum(axis=0), (squares * squares).sum(axis=0)
    ratio = np.where(fourths > 0.0, total * total / np.where(fourths > 0.0, fourths, 1.0), 0.0)
    return np.minimum(n, 3.0 * ratio - 2.0)


def welch_df(variances: ArrayLike, n_clusters: ArrayLike) -> Floats:
    """Return Welch's degrees of freedom of the difference of any two estimates."""
    v = np.asarray(variances, dtype=np.float64)
    n = np.maximum(np.asarray(n_clusters, dtype=np.float64) - 1.0, 1.0)
    total = v[:, None] + v[None, :]
    own = v * v / n
    both = own[:, None] + own[None, :]
    return np.where(both > 0.0, total * total / np.where(both > 0.0, both, 1.0), math.inf)


def _flip_signs(pulls: Floats, rng: np.random.Generator, n_draws: int) -> Floats:
    """Return sums of the influences with random signs (draws × estimates)."""
    rows, n = round_to_grid(pulls), max(1, pulls.shape[1])
    totals = np.zeros((n_draws, pulls.shape[1]))
    width = max(1, (CHUNK_PRODUCTS // n if n <= FEW_COLUMNS else CHUNK_WEIGHTS) // n_draws)
    for start in range(0, len(rows), width):
        part = rows[start : start + width]
        bits = random_bits(rng, n_draws, len(part))
        n_at_once = CHUNK_PRODUCTS // part.size if part.size else n_draws
        n_at_once = n_draws if n_at_once < FEWEST_DRAWS else n_at_once
        for first in range(0, n_draws, n_at_once):
            some = slice(first, first + n_at_once)
            totals[some] += bits[some].astype(np.float64) @ part
    # A sign is twice a bit minus 1; on the grid, these sums are exact.
    return 2.0 * totals - rows.sum(axis=0)


def simultaneous_ranks(
    estimates: ArrayLike,
    draws: ArrayLike,
    *,
    level: float = 0.95,
    df: ArrayLike = math.inf,
    groups: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Return the best and the worst rank of each estimate from joint draws of all of them.

    Use this for estimates whose covariance is known but not their influences (see `normal_draws`).
    `draws` has draws × estimates, with NaN for a missing estimate. With few clusters, pass degrees
    of freedom (one number, or one per pair). The method needs more clusters than estimates: with 40
    equally good models and 50 sessions, 8% of boards wrongly separate some models.
    """
    values, drawn = _check_shapes(estimates, draws)
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


def _check_shapes(estimates: ArrayLike, table: ArrayLike) -> tuple[Floats, Floats]:
    values, rows = np.asarray(estimates, dtype=np.float64), np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(values):
        raise ValueError(f"expected rows × {len(values)} estimates, got shape {rows.shape}")
    return np.where(np.isfinite(values), values, np.nan), rows


def _errors(values: Floats, variances: Floats, i: int, groups: Ints | None = None) -> Floats:
    """Return the standard errors of estimate i minus each later one.

    A standard error of zero becomes infinite, and so does that of a pair from different groups:
    such pairs cannot be separated.
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
    """Convert a normal quantile to quantiles of t with these degrees of freedom."""
    chance = 1.0 - normal_p(reach)
    if chance >= 1.0:
        return np.where(np.isfinite(df), math.inf, reach)
    dfs, place = np.unique(np.where(df > MANY_DF, math.inf, np.round(df, 1)), return_inverse=True)
    reaches = [t_critical(chance, one) if math.isfinite(one) else reach for one in dfs.tolist()]
    return np.array(reaches)[place].reshape(df.shape)


def normal_draws(
    estimates: ArrayLike, covariance: ArrayLike, rng: np.random.Generator, n_draws: int = N_DRAWS
) -> Floats:
    """Return normal draws around the estimates; the covariance may be singular."""
    centre = np.asarray(estimates, dtype=np.float64)
    root = _root(np.asarray(covariance, dtype=np.float64))
    return centre + rng.standard_normal((n_draws, root.shape[1])) @ root.T


def _root(covariance: Floats) -> Floats:
    """Return a square root of the covariance, by the Cholesky decomposition with pivots.

    A library's eigenvectors are not used, because their signs depend on the machine, and so would
    the draws. The decomposition stops when only rounding errors are left.
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
    """Return the tier of each estimate (1 is the best) from simultaneous rank ranges.

    A tier ends where every range so far is better than every later range. Therefore each member of
    a tier is separated from each member of the next, and estimates with overlapping ranges are
    never in different tiers.
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


# -- agreement of two orders -----------------------------------------------------------------------


def midranks(values: ArrayLike) -> Floats:
    """Return ranks from 1 up; ties share the mean of their places."""
    array = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[place]


def spearman(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Return Spearman's rank correlation, or None if undefined."""
    x, y = _pair(xs, ys)
    return correlation(midranks(x), midranks(y)) if np.isfinite([x, y]).all() else None


def kendall_tau(xs: ArrayLike, ys: ArrayLike) -> float | None:
    """Return Kendall's τ-b, or None for fewer than two items or if all items of one list tie."""
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
    """Return the number of pairs that are in descending order, by sorting codes bit by bit.

    The highest bit comes first. Among codes with the same higher bits, each code with a 0 moves
    past every earlier code with a 1, and each move is one pair.
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
        raise ValueError(f"expected two lists of equal length, got {x.shape} and {y.shape}")
    return x, y
