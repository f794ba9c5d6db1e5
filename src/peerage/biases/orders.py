"""The null of order effects: who stands first is dealt again, and everything else stays.

Give each row of a ballot a value g, what the ballot would add to a statistic if that row
stood first, with mean zero on the ballot. The statistic is the sum of g over the rows that
did stand first. Dealing again moves only "first", so the mean and the variance of the
statistic under all deals follow from sums of g, with no drawing at all:

- independent shuffles: each row of a ballot is first as often as any other, and ballots do
  not know of each other, so that variances add up;
- balanced squares: all ballots of one deal share one square, and a new draw gives each row of
  the square another first candidate. With E the sums of g by row of the square and
  candidate, the statistic is a sum along a random permutation, whose variance is that of
  the doubly centred E over n − 1 (Hoeffding). Treating such ballots as shuffles gives false
  alarms, since the square balances what a shuffle leaves to chance.

A small square has few permutations, so the spread it shows is itself uncertain: a sum along
a permutation of n is one of (n − 1)² directions, and its p is that of the correlation
between where the sums are and where "first" was, with as many degrees of freedom. (A
reviewer's own answer is missing from its squares, which leaves fewer.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.reviews.cells import Cells, single_cell, table_of
from peerage.reviews.rows import Bools, Floats, Ints
from peerage.reviews.view import View
from peerage.stats.tails import beta_tail, t_critical

MAX_PLACES = 1_024
N_SWEEPS = 20


def is_first(view: View) -> Bools:
    """Whether each judged row was shown first; a row without a position was not."""
    return view.judged.numbers["position"] == 0.0


def shows_first(view: View, first: Bools) -> Bools:
    """Which ballots show a judged answer first, and another beside it."""
    return (view.ballot.sum(first) > 0) & (view.n_by_ballot > 1)


def spread_sums(view: View, first: Bools, value: Floats) -> dict[str, Cells]:
    """What the variance under new deals needs: of shuffled ballots, and of balanced squares."""
    chance = shows_first(view, first) / view.n_by_ballot
    dealt, place = _places(view)
    free = chance if dealt is None else np.where(view.ballot.first(dealt), 0.0, chance)
    variance = (free * view.ballot.sum(value * value)).sum()
    dimensions = ((free > 0) * (view.n_by_ballot - 1.0)).sum()
    found = {"free": single_cell(variance, dimensions)}
    if dealt is not None:
        # By deal, and by candidate and row of the square: the sums of values and of firsts.
        rows = view.judged
        at = rows.candidate[dealt].astype(np.int64) * MAX_PLACES + place[dealt]
        found["dealt"] = table_of(rows.keys["deal"][dealt], at, [value[dealt], first[dealt]])
    return found


def _places(view: View) -> tuple[Bools | None, Ints]:
    """Which rows come from a balanced deal, and the row of the square that their ballot took."""
    rows = view.judged
    none = np.zeros(0, dtype=np.int64)
    if "deal" not in rows.keys or "place" not in rows.numbers:
        return None, none
    place = rows.numbers["place"]
    dealt = (rows.keys["deal"] >= 0) & np.isfinite(place) & np.isfinite(rows.numbers["position"])
    if not dealt.any():
        return None, none
    width = _n_shown(view)[rows.session]
    dealt &= width <= MAX_PLACES
    return dealt, np.where(dealt, place, 0.0).astype(np.int64) % width


def _n_shown(view: View) -> Ints:
    """How many answers each session showed, own and unscored ones included."""
    rows = view.all
    shown = np.ones(rows.n_sessions, dtype=np.int64)
    position = rows.numbers["position"]
    known = np.isfinite(position)
    np.maximum.at(shown, rows.session[known], position[known].astype(np.int64) + 1)
    return shown


@dataclass(frozen=True, slots=True)
class DealtSpread:
    """The variance of a statistic under new deals, and how many directions it was seen in."""

    variance: float
    dimensions: float

    def p(self, statistic: float) -> float | None:
        """The two-sided p of a statistic with mean zero; None where no deal could differ."""
        share = self._share(statistic)
        if share is None:
            return None
        return 0.0 if share >= 1.0 else beta_tail(1.0 - share, share, self.dimensions - 1.0)

    def half_width(self, statistic: float) -> float | None:
        """Half of the statistic's 95% interval, from the spread that is not the statistic's own."""
        share = self._share(statistic)
        if share is None:
            return None
        df = self.dimensions - 1.0
        rest = max(0.0, 1.0 - share) * self.dimensions / df
        return t_critical(0.95, round(df, 1)) * math.sqrt(self.variance * rest)

    def _share(self, statistic: float) -> float | None:
        """How much of the whole spread lies along the deal that was dealt."""
        if self.variance <= 0.0 or self.dimensions <= 1.5:
            return None
        return statistic * statistic / self.variance / self.dimensions


def spread(found: Mapping[str, Cells]) -> DealtSpread:
    """The spread of the statistic over all deals that might have been."""
    variance, dimensions = (float(x) for x in found["free"].sums.sum(axis=0))
    parts = [(variance, dimensions)] if variance > 0.0 else []
    if "dealt" in found:
        parts += _squares(found["dealt"])
    total = sum(v for v, _ in parts)
    shared = sum(v * v / d for v, d in parts if d > 0)
    return DealtSpread(total, total * total / shared if shared > 0.0 else 0.0)


def _squares(dealt: Cells) -> list[tuple[float, float]]:
    """Variance and dimensions of each deal's square."""
    candidate, place = np.divmod(dealt.cluster, MAX_PLACES)
    parts = []
    for deal in np.unique(dealt.subject):
        mine = dealt.subject == deal
        rows, i = np.unique(place[mine], return_inverse=True)
        names, j = np.unique(candidate[mine], return_inverse=True)
        sums, firsts, held = np.zeros((3, len(rows), len(names)))
        sums[i, j], firsts[i, j] = dealt.sums[mine].T
        held[i, j] = 1.0
        size = held.sum() - len(rows) - len(names) + 1.0
        if size > 0.0:
            spread = (_centred(sums, held) ** 2).sum() * (_centred(firsts > 0, held) ** 2).sum()
            parts.append((float(spread / size), float(size)))
    return parts


def _centred(square: NDArray[Any], held: Floats) -> Floats:
    """What rows and columns do not explain, over the cells that are there."""
    left: Floats = np.where(held > 0, square, 0.0).astype(np.float64)
    for _ in range(N_SWEEPS):
        left = left - held * (left.sum(axis=1) / held.sum(axis=1))[:, None]
        left = left - held * (left.sum(axis=0) / held.sum(axis=0))[None, :]
    return left
