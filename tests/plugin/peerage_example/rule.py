"""First places: on which part of its ballots a candidate is the sole first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.types import Placing, Rule


def first_places(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """The share of ballots that put each candidate first; who is on no ballot is left out."""
    firsts = [placing.first for placing in placings]
    ballots = {name: sum(name in placing.doubled for placing in placings) for name in candidates}
    return {name: Fraction(firsts.count(name), n) for name, n in ballots.items() if n}


FIRST_PLACES = Rule("first_places", first_places, unit="share")
