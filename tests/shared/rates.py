"""Intervals of rates and errors of probabilities, over many simulated runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from peerage.stats.tails import normal_critical


def wilson_interval(k: int, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Wilson's interval for a rate of k in n; None for n = 0. It holds near 0 and 1 too."""
    if n <= 0:
        return None
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a count")
    z = normal_critical(level)
    rate = k / n
    shrunk = 1.0 + z * z / n
    middle = (rate + z * z / (2 * n)) / shrunk
    half = z * math.sqrt(rate * (1.0 - rate) / n + z * z / (4.0 * n * n)) / shrunk
    return (
        0.0 if k == 0 else max(0.0, middle - half),
        1.0 if k == n else min(1.0, middle + half),
    )


N_BINS = 10


def calibration_error(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The expected calibration error of probabilities over ten bins of equal width."""
    bins = np.minimum((x * N_BINS).astype(np.int64), N_BINS - 1)
    gaps = np.bincount(bins, weights=x - y, minlength=N_BINS)
    return float(np.abs(gaps).sum() / max(len(x), 1))
