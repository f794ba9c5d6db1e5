"""Permutation tests: what the statistic would have been, had the design fallen otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import SAME, Floats
from peerage.stats.tails import normal_p

Places = NDArray[np.intp]
Tail = Literal["both", "greater", "less"]


def permutation_test(
    observed: float | None, null_draws: ArrayLike, *, tail: Tail = "both", centre: float = 0.0
) -> float | None:
    """The p of an observed statistic among draws of its null; None without either.

    The observed design is one of those possible, so it counts among the draws: p is never
    below 1 / (draws + 1). Two-sided p counts distance from `centre`. A draw within
    rounding of the observed value equals it; undefined draws (NaN) are left out.
    """
    draws = np.asarray(null_draws, dtype=np.float64)
    draws = draws[np.isfinite(draws)]
    if observed is None or not math.isfinite(observed) or len(draws) == 0:
        return None
    sign = -1.0 if tail == "less" else 1.0
    distances, distance = sign * (draws - centre), sign * (observed - centre)
    if tail == "both":
        distances, distance = np.abs(distances), abs(distance)
    rounding = SAME * max(abs(distance), abs(centre))
    n_beyond = int((distances >= distance - rounding).sum())
    return (1 + n_beyond) / (1 + len(draws))


def within_blocks(*keys: ArrayLike) -> Callable[[np.random.Generator], Places]:
    """A dealer of random permutations that move rows only within rows of the same keys.

    Keys are columns (session and reviewer, say). The blocks are found once; each call then
    gives places p such that `xs[p]` is xs permuted, every order equally likely.
    """
    order, starts = _blocks(keys)
    n = len(order)
    sizes = np.diff(np.append(starts, n))
    tables = [
        order[starts[sizes == size][:, None] + np.arange(size)]
        for size in np.unique(sizes)
        if size > 1
    ]

    def permute(rng: np.random.Generator) -> Places:
        places = np.arange(n)
        for table in tables:  # blocks of one size at a time: small sorts, no loop over blocks
            shuffled = rng.random(table.shape).argsort(axis=1)
            places[table] = np.take_along_axis(table, shuffled, axis=1)
        return places

    return permute


def _blocks(keys: tuple[ArrayLike, ...]) -> tuple[Places, Places]:
    """Rows in an order that keeps blocks together, and where in it each block starts."""
    columns = [np.asarray(key) for key in keys]
    order = np.lexsort(columns)
    edges = np.zeros(len(order), dtype=bool)
    edges[:1] = True
    for column in columns:
        edges[1:] |= column[order[1:]] != column[order[:-1]]
    return order, np.flatnonzero(edges)


@dataclass(frozen=True, slots=True)
class BlockTest:
    """A sum of products beside what permuting within blocks would make of it.

    `excess` is observed minus expected; over `base`, the sum of squares of x within
    blocks, it is the slope of y on x within blocks.
    """

    excess: float
    sd: float
    base: float
    p: float
    n_blocks: int  # those in which a permutation can change anything

    @property
    def slope(self) -> float:
        return self.excess / self.base


def block_permutation_test(xs: ArrayLike, ys: ArrayLike, *keys: ArrayLike) -> BlockTest | None:
    """The test of Σ x·y against permuting x within blocks, without drawing one; None if fixed.

    Mean and variance over all permutations have a closed form, and over many blocks
    the sum is normal: a million rows cost one sort. With fewer than some 20 blocks draw
    the permutations instead (`within_blocks`, `permutation_test`).
    """
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    order, starts = _blocks(keys)
    if len(order) == 0:
        return None
    sizes = np.diff(np.append(starts, len(order)))
    block, n = np.repeat(np.arange(len(starts)), sizes), sizes.astype(np.float64)
    dx, dy = (_centred(values[order], block, n) for values in (x, y))
    xx, yy, xy = (np.bincount(block, weights=a * b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    variances = np.where(n > 1, xx * yy / np.maximum(n - 1.0, 1.0), 0.0)
    variance = float(variances.sum())
    if not variance > 0.0:
        return None
    excess, sd = float(xy.sum()), math.sqrt(variance)
    n_blocks = int((variances > 0.0).sum())
    return BlockTest(excess, sd, float(xx.sum()), normal_p(excess / sd), n_blocks)


def _centred(values: Floats, block: Places, n: Floats) -> Floats:
    """Deviations from the block's mean, exactly zero in a block whose values are all alike."""
    means = np.bincount(block, weights=values) / n
    deviations = values - means[block]
    deviations[np.abs(deviations) <= SAME * np.abs(means[block])] = 0.0
    centred: Floats = deviations
    return centred
