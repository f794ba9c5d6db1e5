"""Fragility of a board: the fewest queries whose removal puts another model ahead.

This count complements a rank range and does not replace it: a first place that depends on a few
queries can still be significant, and one that is not significant can be hard to overturn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints

SAME = 1e-12  # a lead below this is rounding
MAX_STEPS = 250  # queries that are removed one at a time before a lead counts as firm
MAX_CHECKED = 10  # sets of at most this many queries are compared with all smaller sets
N_NAMED = 20  # queries that are named at most


class Flip(NamedTuple):
    """Queries whose removal puts one model behind the other; `exact`: no smaller set does."""

    queries: tuple[int, ...]
    exact: bool

    @property
    def n(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, slots=True)
class QuerySums:
    """A board's values by query: sums of values and of weights, queries by models.

    A model's value is the ratio of the two sums over all queries; higher is better.
    """

    values: Floats
    weights: Floats

    def flip(self, ahead: int, behind: int, at_most: int | None = None) -> Flip | None:
        """Return the fewest queries whose removal puts one model behind another, or None.

        If both are in every query with the same weight, their denominators stay equal, so only the
        sum of differences matters. Removing the k largest differences leaves the smallest possible
        sum: taking the largest first is optimal.
        """
        x, y = self.values[:, ahead], self.values[:, behind]
        w, v = self.weights[:, ahead], self.weights[:, behind]
        there = np.flatnonzero((w > 0.0) | (v > 0.0))
        x, y, w, v = x[there], y[there], w[there], v[there]
        if np.array_equal(w, v):
            removed = _largest_first(x - y)
            return None if removed is None else Flip(tuple(there[removed].tolist()), True)
        step = _one_by_one(x, y, w, v, MAX_STEPS if at_most is None else min(at_most, MAX_STEPS))
        if step is None:
            return None
        is_plain = bool(np.isin(w, (0.0, 1.0)).all() and np.isin(v, (0.0, 1.0)).all())
        while is_plain and 1 < len(step) <= MAX_CHECKED:
            fewer = _best_subset(x, y, w > 0.0, v > 0.0, len(step) - 1)
            if fewer is None:
                return Flip(tuple(there[step].tolist()), True)
            step = fewer
        return Flip(tuple(there[step].tolist()), len(step) == 1)


def _largest_first(gap: Floats) -> Ints | None:
    """Return the indices of the fewest largest gaps whose removal makes the sum negative."""
    order = np.argsort(-gap, kind="stable")
    left = gap.sum() - np.cumsum(gap[order])
    behind = np.flatnonzero(left[:-1] < -SAME * max(1.0, float(np.abs(gap).sum())))
    if gap.sum() < -SAME or len(behind) == 0:
        return None
    return order[: int(behind[0]) + 1]


def _one_by_one(x: Floats, y: Floats, w: Floats, v: Floats, at_most: int) -> Ints | None:
    """Return queries removed one at a time, each time the one that leaves the smallest lead."""
    totals = [float(column.sum()) for column in (x, y, w, v)]
    inside, removed = np.ones(len(x), dtype=bool), list[int]()
    while len(removed) < at_most:
        a, b, n, m = totals
        rest_n, rest_m = n - w, m - v
        possible = inside & (rest_n > SAME) & (rest_m > SAME)
        if not possible.any():
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            lead = np.where(possible, (a - x) / rest_n - (b - y) / rest_m, np.inf)
        best = int(lead.argmin())
        removed.append(best)
        inside[best] = False
        totals = [a - x[best], b - y[best], n - w[best], m - v[best]]
        if lead[best] < -SAME:
            return np.array(removed)
    return None


def _best_subset(x: Floats, y: Floats, w: Bools, v: Bools, k: int) -> Ints | None:
    """Return k queries whose removal puts the first model behind, or None; weights are 0 or 1.

    Given how many queries with only the first model (i), only the second (j) and both (l) are
    removed, the denominators are fixed, and the best queries of each kind can be taken. So every
    (i, j, l) is tried.
    """
    only_x, only_y, both = np.flatnonzero(w & ~v), np.flatnonzero(v & ~w), np.flatnonzero(w & v)
    high_x = only_x[np.argsort(-x[only_x], kind="stable")]
    low_y = only_y[np.argsort(y[only_y], kind="stable")]
    n, m, a, b = int(w.sum()), int(v.sum()), float(x[w].sum()), float(y[v].sum())
    for i in range(min(k, len(high_x)) + 1):
        for j in range(min(k - i, len(low_y)) + 1):
            n_both = k - i - j
            rest_n, rest_m = n - i - n_both, m - j - n_both
            if n_both > len(both) or rest_n < 1 or rest_m < 1:
                continue
            worth = x[both] / rest_n - y[both] / rest_m
            picked = both[np.argsort(-worth, kind="stable")[:n_both]]
            removed = np.concatenate([high_x[:i], low_y[:j], picked]).astype(np.int64)
            lead = (a - x[removed][w[removed]].sum()) / rest_n
            lead -= (b - y[removed][v[removed]].sum()) / rest_m
            if lead < -SAME:
                return removed
    return None


# -- values that are fitted ------------------------------------------------------------------------


def influence_flip(
    lead: float, pulls: Floats, refit: Callable[[Bools], float] | None = None
) -> Flip | None:
    """Return queries whose removal ends a fitted lead, chosen by their influence on it.

    `pulls` is the first-order contribution of each query to the lead. If `refit` is given (it
    returns the lead without some queries), queries are removed in that order until the lead is
    gone.
    """
    order = np.argsort(-pulls, kind="stable")
    left = lead - np.cumsum(pulls[order])
    behind = np.flatnonzero((left < 0.0) & (pulls[order] > 0.0))
    if refit is None:
        return Flip(tuple(order[: int(behind[0]) + 1].tolist()), False) if len(behind) else None
    most = min(int((pulls > 0.0).sum()), len(pulls) - 1)

    def is_gone(k: int) -> bool:
        inside = np.ones(len(pulls), dtype=bool)
        inside[order[:k]] = False
        return refit(inside) < -SAME

    k = min(int(behind[0]) + 1 if len(behind) else most, most)
    while k < most and not is_gone(k):
        k = min(most, max(k + 1, k + k // 4))
    if k < 1 or not is_gone(k):
        return None
    low = 0  # removing this many does not suffice
    while k - low > 1:
        middle = (low + k) // 2
        low, k = (low, middle) if is_gone(middle) else (middle, k)
    return Flip(tuple(order[:k].tolist()), False)


# -- the whole board -------------------------------------------------------------------------------


def fragility_of(
    order: Sequence[str],
    units: Sequence[str],
    flip: Callable[[str, str, int | None], Flip | None],
    judge: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return how few queries the first place and each neighbouring pair of a board depend on.

    `order` has the models with a value, best first; `judge` is the reviewer whose absence changes
    the shares most.
    """
    first: dict[str, Any] | None = None
    for rival in order[1:]:
        best = None if first is None else first["queries"] - 1
        least = flip(order[0], rival, best) if best is None or best > 0 else None
        if least is not None and (first is None or least.n < first["queries"]):
            first = {
                "model": order[0],
                "overtaken_by": rival,
                "queries": least.n,
                "part": round(least.n / max(len(units), 1), 12),
                "exact": least.exact,
                "without": [units[i] for i in least.queries[:N_NAMED]],
            }
    neighbours = []
    for above, below in pairwise(order):
        pair = flip(above, below, None)
        neighbours.append(
            {
                "above": above,
                "below": below,
                "queries": None if pair is None else pair.n,
                "exact": None if pair is None else pair.exact,
            }
        )
    return {"queries": len(units), "first": first, "neighbours": neighbours, "judge": judge}
