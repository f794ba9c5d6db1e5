"""Copeland: the number of rivals that a candidate beats by majority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.rules import rule
from peerage.rules.pairwise import count_pairs
from peerage.types import Placing


@rule("copeland", unit="rivals beaten")
def copeland(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the number of rivals that a majority of ballots places lower, plus half the ties.

    Formula: Σ over rivals of 1 if more ballots place the rival lower than higher, 1/2 if equally
        many, else 0
    Ties: a tie on a ballot counts for neither side.
    Partial ballots: a pair that no ballot ranks together adds nothing to either candidate.
    Use it: to see whether one candidate beats all the others. Of m compared candidates, only such a
        Condorcet winner has the value m - 1.
    Assumes: nothing about distances: a rival is beaten or not.
    Fooled by: few ballots. One ballot may turn a majority and move the value by a whole rival; many
        candidates often have equal values.
    """
    pairs = count_pairs(placings, candidates)
    won = (pairs.wins > pairs.wins.T).sum(axis=1)
    met = (pairs.wins + pairs.wins.T + pairs.ties) > 0
    even = (met & (pairs.wins == pairs.wins.T)).sum(axis=1)
    return pairs.halves(2 * won + even)
