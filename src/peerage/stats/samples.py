"""Whether two samples have the same mean: Welch's test."""

from __future__ import annotations

import math

import numpy as np

from peerage.stats.clusters import Floats
from peerage.stats.ranking import welch_df
from peerage.stats.tails import student_t_p


def welch_p(one: Floats, other: Floats) -> float | None:
    """Return the two-sided p of equal means; None if a sample is too small or nothing varies."""
    if len(one) < 2 or len(other) < 2:
        return None
    parts = np.array([one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)])
    variance = float(parts.sum())
    if not variance > 0.0:
        return None
    df = float(welch_df(parts, [len(one), len(other)])[0, 1])
    return student_t_p(float(one.mean() - other.mean()) / math.sqrt(variance), df)
