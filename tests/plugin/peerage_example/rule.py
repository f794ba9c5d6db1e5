"""First places: the share of its ballots on which a candidate is alone in first place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.plugins import Placing, Rule


def first_places(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the share of ballots that put each candidate first; others have no value."""
    firsts = [placing.first for placing in placings]
    ballots = {name: sum(name in placing.doubled for placing in placings) for name in candidates}
    return {name: Fraction(firsts.count(name), n) for name, n in ballots.items() if n}


FIRST_PLACES = Rule("first_places", first_places, unit="share")
