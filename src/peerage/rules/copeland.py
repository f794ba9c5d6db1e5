"""Copeland: the number of rivals that a candidate beats by majority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.rules import rule
from peerage.rules.pairwise import compare
from peerage.types import Placing


@rule("copeland", unit="rivals beaten")
def copeland(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the number of rivals that a majority of ballots places lower, plus half the ties.

    A rival that no ballot ranks together with the candidate adds nothing. Of m compared candidates,
    only a Condorcet winner has the value m - 1.
    """
    pairs = compare(placings, candidates)
    won = (pairs.wins > pairs.wins.T).sum(axis=1)
    met = (pairs.wins + pairs.wins.T + pairs.ties) > 0
    even = (met & (pairs.wins == pairs.wins.T)).sum(axis=1)
    return pairs.halves(2 * won + even)
