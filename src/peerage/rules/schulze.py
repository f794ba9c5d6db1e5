"""Schulze: the rivals that a candidate beats along the strongest chains of majorities.

Markus Schulze, A new monotonic, clone-independent, reversal symmetric, and
Condorcet-consistent single-winner election method, Social Choice and Welfare 36 (2011).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from peerage.rules import rule
from peerage.rules.pairwise import Counts, count_pairs
from peerage.types import Placing


@rule("schulze", unit="rivals beaten")
def schulze(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the number of rivals lower in Schulze's order, plus half of those that are equal.

    Formula: rivals j with p(i, j) > p(j, i), plus half of those with p(i, j) = p(j, i), where p =
        strength of the strongest chain of majorities, and a chain is as strong as its weakest
        majority, in ballots
    Ties: a tie on a ballot counts for neither side.
    Partial ballots: a pair that no ballot ranks together has no majority. Candidates with no chain
        between them are equal.
    Use it: to choose a winner when majorities go round in a circle. The order is transitive, and a
        Condorcet winner is first.
    Assumes: nothing about distances: a majority counts by its number of ballots.
    Fooled by: few ballots, as in `copeland`, and pairs that met on few ballots, whose majorities
        are weak.
    """
    pairs = count_pairs(placings, candidates)
    paths = strongest_paths(pairs.wins)
    ahead = (paths > paths.T).sum(axis=1)
    behind = (paths < paths.T).sum(axis=1)
    return pairs.halves(len(pairs.names) - 1 + ahead - behind)


def strongest_paths(wins: Counts) -> Counts:
    """Return, for each pair, the weakest majority on the strongest chain between them.

    The strength of a majority is the number of ballots on its side (winning votes); 0 means no
    chain.
    """
    paths = np.where(wins > wins.T, wins, 0)
    for via in range(len(paths)):
        np.maximum(paths, np.minimum(paths[:, via, None], paths[None, via, :]), out=paths)
    np.fill_diagonal(paths, 0)
    return paths
