"""Rank correlations against scipy; concordance, alpha and kappa against brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from peerage.stats import (
    alpha_of_marks,
    kendall_tau,
    kendall_w,
    krippendorff_alpha,
    midranks,
    spearman,
    weighted_kappa,
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


@pytest.mark.parametrize("measure", [kendall_tau, spearman, weighted_kappa])
def test_a_value_that_is_not_finite_leaves_nothing_to_say(measure: Callable[..., object]) -> None:
    assert measure([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]) is None
    assert measure([1.0, 2.0, 3.0], [1.0, math.inf, 3.0]) is None
    with pytest.raises(ValueError, match="one length"):
        measure([1.0, 2.0, 3.0], [1.0])


# -- Kendall's W ------------------------------------------------------------------------------


@given(tables)
def test_kendalls_w_is_the_mean_rank_correlation_where_no_row_is_flat(
    table: list[list[float]],
) -> None:
    """Without ties W is ((m − 1)·ρ̄ + 1) / m; jittering by index makes such rows."""
    rows = [[mark + 0.01 * place for place, mark in enumerate(row)] for row in table]
    m, n = len(rows), len(rows[0])
    if n < 3:
        return
    mean = np.mean([spearman(a, b) for a, b in itertools.combinations(rows, 2)])
    assert kendall_w(rows) == pytest.approx(((m - 1) * mean + 1) / m, abs=1e-9)


@given(tables)
def test_kendalls_w_is_friedmans_statistic_over_its_maximum(table: list[list[float]]) -> None:
    m, n = len(table), len(table[0])
    w = kendall_w(table)
    if not any(varies(row) for row in table):
        assert w is None
    elif n >= 3:
        with np.errstate(all="ignore"):
            friedman = scipy_stats.friedmanchisquare(*np.array(table).T).statistic
        assert w == pytest.approx(friedman / (m * (n - 1)), abs=1e-9)


@given(tables, st.randoms(use_true_random=False))
def test_kendalls_w_does_not_depend_on_the_order(table: list[list[float]], random: object) -> None:
    order = list(range(len(table[0])))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = [[row[place] for place in order] for row in reversed(table)]
    assert kendall_w(shuffled) == pytest.approx(kendall_w(table), abs=1e-12)


def test_kendalls_w_is_one_when_all_agree_and_unknown_when_it_cannot_be() -> None:
    assert kendall_w([[1, 2, 3], [2, 4, 6]]) == 1.0
    assert kendall_w([[1, 2, 3], [3, 2, 1]]) == 0.0
    assert kendall_w([[1, 2, 3]]) is None
    assert kendall_w([[1], [2]]) is None
    assert kendall_w([[2, 2, 2], [2, 2, 2]]) is None
    assert kendall_w([[1, 2, math.nan], [1, 2, 3]]) is None
    with pytest.raises(ValueError, match="raters by items"):
        kendall_w([1, 2, 3])


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


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@given(table=gappy)
def test_alpha_is_that_of_all_pairs_one_by_one(scale: str, table: list[Marks]) -> None:
    expected = alpha_by_pairs(table, scale)
    assert krippendorff_alpha(table, scale) == pytest.approx(expected, abs=1e-9)  # type: ignore[arg-type]


def test_alpha_gives_krippendorffs_own_figures() -> None:
    """The four observers of his paper on computing alpha, with missing marks."""
    x = None
    table = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, x, x, x],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, x, 3],
        [x, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, x],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, x],
    ]
    assert krippendorff_alpha(table, "nominal") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(table, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(table, "interval") == pytest.approx(0.849, abs=5e-4)
    marks = np.array(table, dtype=float)
    assert krippendorff_alpha(marks) == krippendorff_alpha(table)


@given(gappy, st.floats(-100, 100), st.floats(0.1, 10))
def test_interval_alpha_ignores_shift_and_scale(
    table: list[Marks], shift: float, scale: float
) -> None:
    moved = [[None if mark is None else mark * scale + shift for mark in row] for row in table]
    assert krippendorff_alpha(moved) == pytest.approx(krippendorff_alpha(table), abs=1e-9)


def test_alpha_of_long_form_is_alpha_of_the_table() -> None:
    rng = np.random.default_rng(3)
    table = rng.integers(1, 11, (6, 40)).astype(float)
    items = np.tile(np.arange(40), 6)
    assert alpha_of_marks(items, table.ravel(), "ordinal") == pytest.approx(
        krippendorff_alpha(table, "ordinal")
    )


def test_alpha_is_unknown_where_nothing_can_disagree() -> None:
    assert krippendorff_alpha([[0.1] * 5, [0.1] * 5]) is None
    assert krippendorff_alpha([[1, None, 3], [None, 2, None]]) is None
    assert krippendorff_alpha([[1.0, None], [2.0, None]]) is None
    assert alpha_of_marks([], []) is None
    with pytest.raises(ValueError, match="finite"):
        alpha_of_marks([0, 0, 1, 1], [1, 2, math.inf, 4])
    with pytest.raises(ValueError, match="raters by items"):
        krippendorff_alpha([1.0, 2.0])  # type: ignore[list-item]


# -- weighted kappa ---------------------------------------------------------------------------


def kappa_by_table(xs: Sequence[float], ys: Sequence[float], power: int) -> float:
    """Cohen's definition over the table of five marks."""
    counts = np.zeros((5, 5))
    for x, y in zip(xs, ys, strict=True):
        counts[int(x) - 1, int(y) - 1] += 1
    weights = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) ** power
    chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(1 - (weights * counts).sum() / (weights * chance).sum())


@pytest.mark.parametrize(("weighting", "power"), [("linear", 1), ("quadratic", 2)])
@given(rows=pairs)
def test_kappa_is_cohens(weighting: str, power: int, rows: list[tuple[float, float]]) -> None:
    xs, ys = zip(*rows, strict=True)
    kappa = weighted_kappa(xs, ys, weighting)  # type: ignore[arg-type]
    if not varies([*xs, *ys]):
        assert kappa is None
    else:
        assert kappa == pytest.approx(kappa_by_table(xs, ys, power), abs=1e-9)
        moved = weighted_kappa([x * 3 + 7 for x in xs], [y * 3 + 7 for y in ys], weighting)  # type: ignore[arg-type]
        assert moved == pytest.approx(kappa, abs=1e-9)


def test_kappa_is_one_in_agreement_and_unknown_of_one_item() -> None:
    assert weighted_kappa([1, 2, 3], [1, 2, 3]) == 1.0
    assert weighted_kappa([1, 2, 3], [1, 2, 3], "linear") == 1.0
    assert weighted_kappa([1], [2]) is None
    assert weighted_kappa([], []) is None
    assert weighted_kappa([0.1] * 5, [0.1] * 5) is None
