"""Whether the order of observations goes with their groups or with their values.

A sequential test looks at its observations one after another, so their order must not go with
their values: losses that come first look like a loss. Permutation tests, with draws seeded from the
data, so that the same data always give the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_PERMUTATIONS = 199


def groups_p(groups: Ints) -> float:
    """Return the p that observations of one group are adjacent as often as this by chance."""
    codes = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    if len(codes) < 2 or not codes.any():
        return 1.0
    return _permutation_p(codes, lambda order: float((codes[order][1:] == codes[order][:-1]).sum()))


def values_p(values: Floats) -> float:
    """Return the p that values (series × observations) drift apart this far by chance.

    The statistic is the largest deviation of a running sum from its straight line, over all series,
    each in units of its own spread.
    """
    if values.shape[1] < 2:
        return 1.0
    centred = values - values.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    varies = spread[:, 0] > 0.0
    if not varies.any():
        return 1.0
    parts = centred[varies] / spread[varies]
    return _permutation_p(
        parts, lambda order: float(np.abs(np.cumsum(parts[:, order], axis=1)).max())
    )


def _permutation_p(data: Floats | Ints, statistic: Callable[[Ints], float]) -> float:
    """Return the share of permutations with a statistic at least as large, itself included."""
    digest = hashlib.sha256(np.ascontiguousarray(data).tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    n = data.shape[-1]
    observed = statistic(np.arange(n)) - 1e-12  # equal sums may be rounded differently
    n_as_large = sum(statistic(rng.permutation(n)) >= observed for _ in range(N_PERMUTATIONS))
    return (1 + n_as_large) / (1 + N_PERMUTATIONS)
