"""What the rules that compare candidates two by two share: the counts, and equal floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.types import Placing

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]

SAME = 1e-8  # ratings closer than this differ by rounding only


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Ballots that place one above the other (`wins[above, below]`), and ballots that tie them.

    Names are sorted, so that nothing downstream can depend on the order of the input.
    """

    names: tuple[str, ...]
    wins: Counts
    ties: Counts

    @property
    def points(self) -> Reals:
        """Wins with a tie as half a win for each side."""
        return self.wins + self.ties / 2


def compare(placings: Sequence[Placing], candidates: Sequence[str]) -> Pairs:
    """Counts over the candidates that share a ballot with another one; the rest are left out.

    A ballot compares only those it ranks: unranked is not judged, so it is not beaten either.
    """
    names = sorted(candidates)
    index = {name: at for at, name in enumerate(names)}
    wins = np.zeros((len(names), len(names)), dtype=np.int64)
    ties = np.zeros_like(wins)
    for placing in placings:
        ranked = np.array([index[name] for name in placing.doubled], dtype=np.intp)
        places = np.array(list(placing.doubled.values()), dtype=np.int64)
        grid = np.ix_(ranked, ranked)
        wins[grid] += places[:, None] < places[None, :]
        ties[grid] += places[:, None] == places[None, :]
    np.fill_diagonal(ties, 0)
    compared = np.flatnonzero((wins + wins.T + ties).any(axis=0))
    kept = np.ix_(compared, compared)
    return Pairs(tuple(names[at] for at in compared), wins[kept], ties[kept])


def level(values: Reals, gap: float = SAME) -> Reals:
    """The values with each run of neighbours closer than the gap set to its mean.

    Two candidates with the same record must share a rank, and the last bit of a sum in
    floating point must not decide which of them is listed first.
    """
    if not values.size:
        return values
    order = np.argsort(values, kind="stable")
    run = np.concatenate(([0], np.cumsum(np.diff(values[order]) >= gap)))
    means = np.bincount(run, weights=values[order]) / np.bincount(run)
    levelled = np.empty_like(values)
    levelled[order] = means[run]
    return levelled
