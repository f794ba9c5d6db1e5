"""How far two orders agree: Spearman's ρ and Kendall's τ, None where undefined."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.stats.clusters import Floats
from peerage.stats.correlations import correlation


def midranks(values: ArrayLike) -> Floats:
    """Ranks from 1 up, ties sharing the mean of their places."""
    array = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[place]


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


def _finite(x: Floats, y: Floats) -> bool:
    return bool(np.isfinite(x).all() and np.isfinite(y).all())
