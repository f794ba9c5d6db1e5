"""Mean rank: the average place, 1 for first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.rules import rule
from peerage.types import Placing


@rule("mean_rank", lower_is_better=True, unit="place")
def mean_rank(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the mean place of each candidate with votes, exact; ties share their mean place.

    A place ignores how many were ranked: third of three and third of thirty have the same value.
    Therefore the Borda share is the default.
    """
    doubled: dict[str, int] = dict.fromkeys(candidates, 0)
    votes: dict[str, int] = dict.fromkeys(candidates, 0)
    for placing in placings:
        for name, place in placing.doubled.items():
            doubled[name] += place
            votes[name] += 1
    return {
        name: 1 + Fraction(doubled[name], 2 * votes[name]) for name in candidates if votes[name]
    }
