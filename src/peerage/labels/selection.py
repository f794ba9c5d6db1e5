"""Whether people labelled a random sample of the answers, which corrected figures assume."""

from __future__ import annotations

import math

import numpy as np

from peerage.reviews.cells import Bools, Floats
from peerage.stats.samples import welch_p
from peerage.stats.tails import sign_test_p

FEWEST = 5  # answers on each side, below which nothing is tested
ALIKE = 1e-9  # values that differ by rounding alone


def is_selected(labelled: Bools, judged: Floats, words: Floats, *, binary: bool) -> str:
    """Return how labelled answers differ from the others: `verdicts`, `lengths`, or nothing.

    Of labels drawn at random, at most 3% are called selected.
    """
    known = np.isfinite(judged)
    if binary:
        p = fisher_p(
            int((labelled & (judged == 1)).sum()),
            int((labelled & (judged == 0)).sum()),
            int((~labelled & (judged == 1)).sum()),
            int((~labelled & (judged == 0)).sum()),
        )
    else:
        p = _mean_p(judged[labelled & known], judged[~labelled & known])
    if p is not None and 2.0 * p < 0.01:
        return "verdicts"
    there = np.isfinite(words) & (words > 0)
    logs = np.log(np.where(there, words, 1.0))
    p = _mean_p(logs[labelled & there], logs[~labelled & there])
    return "lengths" if p is not None and 2.0 * p < 0.01 else ""


def _mean_p(one: Floats, other: Floats) -> float | None:
    """Return the p of equal means; None for few values, or values that do not differ."""
    if min(len(one), len(other)) < FEWEST or max(np.ptp(one), np.ptp(other)) < ALIKE:
        return None
    return welch_p(one, other)


def fisher_p(a: int, b: int, c: int, d: int) -> float | None:
    """Return Fisher's exact two-sided p of a 2 × 2 table; None for too few values."""
    if min(a + b, c + d) < FEWEST:
        return None
    row, column, total = a + b, a + c, a + b + c + d
    low, high = max(0, row + column - total), min(row, column)
    logs = np.array([_log_ways(x, row, column, total) for x in range(low, high + 1)])
    chances = np.exp(logs - logs.max())
    seen = chances[a - low]
    return float(min(1.0, chances[chances <= seen * (1.0 + 1e-9)].sum() / chances.sum()))


def mcnemar_p(b: int, c: int) -> float:
    """Return the exact two-sided p that two kinds of discordant pairs are equally frequent."""
    return min(1.0, 2.0 * sign_test_p(max(b, c), b + c))


def _log_ways(x: int, row: int, column: int, total: int) -> float:
    def log_factorials(*numbers: int) -> float:
        return sum(math.lgamma(number + 1.0) for number in numbers)

    return -log_factorials(x, row - x, column - x, total - row - column + x)
