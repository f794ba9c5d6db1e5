"""Repeats of a prompt: the chances that one of k answers passes (pass@k) and that all do (pass^k).

The interval is over prompts, since answers to one prompt are alike. With 3 to 100 prompts and 3 to
10 repeats each, 95% intervals covered the truth in 91 to 100% of simulations.

Chen et al. (2021), "Evaluating large language models trained on code", has the unbiased pass@k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from peerage.findings import Bounded
from peerage.labels.pass_rates import wilson
from peerage.stats.tails import t_critical

FEWEST_PROMPTS = 3  # for an interval


class PromptRepeats(NamedTuple):
    """The answers to one prompt: how many passed, of how many."""

    passed: int
    n: int


def any_passes(repeats: PromptRepeats, k: int) -> float | None:
    """Return pass@k of a prompt, the chance that one of k answers passes; None below k answers."""
    if repeats.n < k:
        return None
    return 1.0 - math.comb(repeats.n - repeats.passed, k) / math.comb(repeats.n, k)


def all_pass(repeats: PromptRepeats, k: int) -> float | None:
    """Return pass^k of a prompt, the chance that k answers all pass; None below k answers."""
    if repeats.n < k:
        return None
    return math.comb(repeats.passed, k) / math.comb(repeats.n, k)


def over_prompts(values: Sequence[float | None]) -> Bounded | None:
    """Return the mean over prompts with its interval; prompts without a value are left out.

    Below three prompts there is a mean and no interval, and without any prompt there is neither.
    """
    known = [value for value in values if value is not None]
    n = len(known)
    if not n:
        return None
    mean = math.fsum(known) / n
    if n < FEWEST_PROMPTS:
        return Bounded(mean)
    spread = math.fsum((value - mean) ** 2 for value in known) / (n - 1)
    smooth = (n * mean + 0.5) / (n + 1)
    variance = (spread + 0.25 / n) / n
    size = max(float(n), smooth * (1.0 - smooth) / variance)
    low, high = wilson(min(max(mean, 0.0), 1.0), size, t_critical(0.95, n - 1.0))
    return Bounded(mean, min(low, mean), max(high, mean))
