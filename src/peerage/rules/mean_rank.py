"""Mean rank: the average place, 1 for first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.rules import rule
from peerage.types import Placing


@rule("mean_rank", lower_is_better=True, unit="place")
def mean_rank(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return the exact mean place of each candidate with votes.

    Formula: mean over its ballots of i + 1, where i = place on the ballot (0 is first)
    Ties: tied candidates share their mean place.
    Partial ballots: unranked candidates have no place.
    Use it: for a result that is quick to explain.
    Assumes: that every ballot ranks the same number of candidates.
    Fooled by: ballots of different length (third of three and third of thirty have the same value),
        and partial ballots: a candidate looks too good if only the reviewers who like it rank it.
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
