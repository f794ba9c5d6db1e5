"""Rank correlations against scipy; concordance, alpha and kappa against brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from peerage.stats.rank_correlations import (
    kendall_tau,
    midranks,
    spearman,
)

Marks = list[float | None]
few_marks = st.integers(1, 5).map(float)
pairs = st.lists(st.tuples(few_marks, few_marks), min_size=3, max_size=25)
tables = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.lists(few_marks, min_size=n, max_size=n), min_size=2, max_size=6)
)
gappy = st.integers(2, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.none() | few_marks, min_size=n, max_size=n), min_size=2, max_size=5
    )
)


def varies(values: Sequence[float]) -> bool:
    return len(set(values)) > 1


@given(st.lists(few_marks, min_size=1, max_size=40))
def test_midranks_are_scipys(values: list[float]) -> None:
    assert midranks(values).tolist() == scipy_stats.rankdata(values).tolist()


@given(pairs)
def test_rank_correlations_are_scipys(rows: list[tuple[float, float]]) -> None:
    xs, ys = zip(*rows, strict=True)
    if varies(xs) and varies(ys):
        tau, rho = scipy_stats.kendalltau(xs, ys).statistic, scipy_stats.spearmanr(xs, ys).statistic
        assert kendall_tau(xs, ys) == pytest.approx(tau, abs=1e-12)
        assert spearman(xs, ys) == pytest.approx(rho, abs=1e-12)
    else:
        assert kendall_tau(xs, ys) is None
        assert spearman(xs, ys) is None


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_kendalls_tau_is_scipys_on_many_items(digits: int) -> None:
    rng = np.random.default_rng(digits)
    xs = rng.normal(size=5000).round(digits)
    ys = (xs + rng.normal(size=5000)).round(digits)
    assert kendall_tau(xs, ys) == pytest.approx(scipy_stats.kendalltau(xs, ys).statistic, abs=1e-12)


def test_two_items_have_a_tau_but_no_rho() -> None:
    assert kendall_tau([1.0, 2.0], [5.0, 3.0]) == -1.0
    assert spearman([1.0, 2.0], [5.0, 3.0]) is None
    assert kendall_tau([1.0], [1.0]) is None
    assert kendall_tau([], []) is None


@given(pairs, st.randoms(use_true_random=False))
def test_rank_correlations_only_see_the_order(
    rows: list[tuple[float, float]], random: object
) -> None:
    random.shuffle(rows)  # type: ignore[attr-defined]
    xs, ys = zip(*rows, strict=True)
    bent = [math.exp(x) for x in xs]
    for measure in (kendall_tau, spearman):
        r = measure(xs, ys)
        assert measure(bent, ys) == pytest.approx(r, abs=1e-12)
        flipped = measure(xs, [-y for y in ys])
        assert flipped == (None if r is None else pytest.approx(-r, abs=1e-12))


# -- Kendall's W ------------------------------------------------------------------------------


# -- Krippendorff's alpha ---------------------------------------------------------------------


def alpha_by_pairs(table: list[Marks], scale: str) -> float | None:
    """Every pair of marks, one by one, as the definition has it."""
    units = [[row[i] for row in table if row[i] is not None] for i in range(len(table[0]))]
    units = [unit for unit in units if len(unit) > 1]
    pooled = [mark for unit in units for mark in unit]
    if len(units) < 2 or not varies(pooled):
        return None
    counts = Counter(pooled)

    def distance(a: float, b: float) -> float:
        if scale == "nominal":
            return float(a != b)
        if scale == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(count for mark, count in counts.items() if low <= mark <= high)
        return (between - (counts[a] + counts[b]) / 2) ** 2

    n = len(pooled)
    observed = sum(
        sum(distance(a, b) for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1)
        for unit in units
    )
    expected = sum(distance(a, b) for a, b in itertools.permutations(pooled, 2)) / (n - 1)
    return 1 - observed / expected


# -- weighted kappa ---------------------------------------------------------------------------


def kappa_by_table(xs: Sequence[float], ys: Sequence[float], power: int) -> float:
    """Cohen's definition over the table of five marks."""
    counts = np.zeros((5, 5))
    for x, y in zip(xs, ys, strict=True):
        counts[int(x) - 1, int(y) - 1] += 1
    weights = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) ** power
    chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(1 - (weights * counts).sum() / (weights * chance).sum())
