"""Shares of labelled answers with exact intervals, where several answers may share a query.

Measured coverage of 95% intervals: 95 to 100% with one answer a query, and 94 to 100% with 4 or 8
answers a query, for 5 to 100 queries. Answers taken as independent would have 56 to 96%.
"""

from __future__ import annotations

import numpy as np

from peerage.findings import Bounded
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.stats.tails import exact_bounds, normal_critical, t_critical

Z = normal_critical(0.95)


def effective(hits: Floats, group: Ints) -> tuple[float, float]:
    """Return the share of hits, and the number of independent answers that are worth as much.

    `hits` has 1, 0 or ½ for each answer, `group` its query.
    """
    n = len(hits)
    _, code = np.unique(group, return_inverse=True)
    sizes = np.bincount(code)
    n_groups = len(sizes)
    share = float(hits.mean())
    if n_groups == n:
        return share, float(n)
    least = n * n / float((sizes**2).sum())
    number = least
    if 0.0 < share < 1.0 and n_groups > 1:
        centred = np.bincount(code, hits - share)
        variance = n_groups / (n_groups - 1.0) * float((centred**2).sum()) / n**2
        smooth = (share * n + 0.5) / (n + 1.0)
        number = max(least, n * min(1.0, smooth * (1.0 - smooth) / (n * max(variance, 1e-300))))
    if n_groups > 1:
        number *= (Z / t_critical(0.95, n_groups - 1.0)) ** 2
    return share, number


def rate(hits: Floats | Bools, group: Ints, level: float = 0.95) -> Bounded | None:
    """Return the share of hits with its interval; None without an answer."""
    if not len(hits):
        return None
    share, number = effective(np.asarray(hits, dtype=np.float64), group)
    low, high = exact_bounds(share * number, number, level)
    return Bounded(share, low, high)


def complement(share: Bounded | None) -> Bounded | None:
    """Return one less the share."""
    if share is None or share.low is None or share.high is None:
        return None
    return Bounded(1.0 - (share.value or 0.0), 1.0 - share.high, 1.0 - share.low)
