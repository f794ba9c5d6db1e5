"""Agreement beyond chance of two classifications: Cohen's κ and Gwet's AC1, with intervals.

The interval is that of 2,000 Dirichlet draws of the table, whose counts are divided by the design
effect of queries with several answers. It covers the truth in 94 to 100% of cases from 20 labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from peerage.findings import Bounded
from peerage.labels.rates import Z
from peerage.reviews.cells import Floats, Ints
from peerage.stats.clusters import generator
from peerage.stats.tails import t_critical

N_DRAWS = 2_000
Statistic = Callable[[Floats], Floats]  # of tables (… × K × K)


def kappa(tables: Floats) -> Floats:
    """Return Cohen's κ of each table; NaN if chance alone would agree always."""
    total, agreed, rows, columns = _parts(tables)
    chance = (rows * columns).sum(axis=-1) / total**2
    return _beyond(agreed / total, chance)


def ac1(tables: Floats) -> Floats:
    """Return Gwet's AC1 of each table."""
    total, agreed, rows, columns = _parts(tables)
    mean = (rows + columns) / 2.0 / total[..., None]
    chance = (mean * (1.0 - mean)).sum(axis=-1) / (tables.shape[-1] - 1.0)
    return _beyond(agreed / total, chance)


def quadratic_kappa(tables: Floats) -> Floats:
    """Return κ with quadratic weights of each table, for classes in order."""
    n = tables.shape[-1]
    step = np.arange(n, dtype=np.float64)
    away = (step[:, None] - step[None, :]) ** 2
    total, _, rows, columns = _parts(tables)
    seen = (tables * away).sum(axis=(-1, -2)) / total
    expected = np.einsum("...i,ij,...j->...", rows, away, columns) / total**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0.0, 1.0 - seen / expected, np.nan)


def _parts(tables: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the totals, the diagonals' sums, and the margins of tables."""
    total = np.maximum(tables.sum(axis=(-1, -2)), 1e-300)
    agreed = np.trace(tables, axis1=-2, axis2=-1)
    return total, agreed, tables.sum(axis=-1), tables.sum(axis=-2)


def _beyond(agreed: Floats, chance: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance < 1.0 - 1e-12, (agreed - chance) / (1.0 - chance), np.nan)


def count_table(first: Ints, second: Ints, n_classes: int) -> Floats:
    """Return how often each pair of classes occurs (first × second)."""
    counts = np.bincount(first * n_classes + second, minlength=n_classes**2)
    return counts.astype(np.float64).reshape(n_classes, n_classes)


def agreement(
    statistic: Statistic, first: Ints, second: Ints, n_classes: int, group: Ints
) -> Bounded | None:
    """Return κ or AC1 of two classifications with its interval; None if a class is missing.

    `second` are people's labels: without two classes among them nothing is beyond chance.
    """
    if len(np.unique(second)) < 2:
        return None
    table = count_table(first, second, n_classes)
    value = float(statistic(table))
    if not np.isfinite(value):
        return None
    effect = _design_effect(statistic, table, first, second, group)
    draws = generator("agreement", statistic.__name__, table.tolist())
    counts = table / effect
    everywhere = counts + 2.0 / n_classes**2
    diagonal = counts + np.diag(np.full(n_classes, 2.0 / n_classes**2))
    low = np.nanpercentile(statistic(_gammas(draws, everywhere)), 2.5)
    high = np.nanpercentile(statistic(_gammas(draws, diagonal)), 97.5)
    return Bounded(value, min(float(low), value), max(float(high), value))


def _gammas(draws: np.random.Generator, shapes: Floats) -> Floats:
    """Return Dirichlet draws, not divided by their sums; a cell of zero stays zero."""
    return draws.gamma(np.broadcast_to(shapes, (N_DRAWS, *shapes.shape)))


def _design_effect(
    statistic: Statistic, table: Floats, first: Ints, second: Ints, group: Ints
) -> float:
    """Return by how much the variance is larger because answers share queries."""
    _, code = np.unique(group, return_inverse=True)
    n_groups, n = int(code.max()) + 1, len(first)
    if n_groups == n or n_groups < 2:
        return 1.0
    k = table.shape[0]
    cell = first * k + second
    parts = np.bincount(code * k * k + cell, minlength=n_groups * k * k)
    without_group = table[None] - parts.reshape(n_groups, k, k)
    without_row = table[None] - np.eye(k * k).reshape(-1, k, k)
    by_group = _jackknife_variance(statistic(without_group), np.ones(n_groups))
    by_row = _jackknife_variance(statistic(without_row), table.ravel())
    largest = float(np.bincount(code).max())
    effect = min(largest, max(1.0, by_group / by_row)) if by_row > 0.0 else largest
    return effect * (t_critical(0.95, n_groups - 1.0) / Z) ** 2


def _jackknife_variance(values: Floats, weights: Floats) -> float:
    """Return the jackknife variance of leave-one-out values that occur `weights` times."""
    used = (weights > 0.0) & np.isfinite(values)
    values, weights = values[used], weights[used]
    n = float(weights.sum())
    mean = float((values * weights).sum() / n)
    return (n - 1.0) / n * float((weights * (values - mean) ** 2).sum())
