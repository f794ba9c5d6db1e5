"""Pairwise counts of ballots, for the rules that compare candidates in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from peerage.types import Placing

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Counts of ballots that place one candidate above another (`wins[above, below]`), and ties.

    Names are sorted, so that results do not depend on the order of the input.
    """

    names: tuple[str, ...]
    wins: Counts
    ties: Counts

    @property
    def points(self) -> Reals:
        """Return the wins, with each tie counted as half a win for both sides."""
        return self.wins + self.ties / 2

    def halves(self, counts: Counts) -> dict[str, Fraction]:
        """Return half of each candidate's count as an exact fraction."""
        return {name: Fraction(n, 2) for name, n in zip(self.names, counts.tolist(), strict=True)}


def count_pairs(placings: Sequence[Placing], candidates: Sequence[str]) -> Pairs:
    """Count wins and ties of the candidates that share a ballot with another; leave out the rest.

    A ballot compares only the candidates it ranks; an unranked candidate is not beaten.
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
    grid = np.ix_(compared, compared)
    return Pairs(tuple(names[at] for at in compared), wins[grid], ties[grid])
