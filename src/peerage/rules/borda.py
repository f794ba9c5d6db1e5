"""Borda as a share: the mean share of its rivals that a candidate beat on its ballots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.rules import rule
from peerage.types import Placing


@rule("borda", unit="share")
def borda(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, Fraction]:
    """Return, for each candidate with votes, the exact mean share of rivals that it beat.

    Formula: mean over its ballots of (n - 1 - i) / (n - 1), where i = place on the ballot (0 is
        first) and n = number of candidates on it
    Ties: tied candidates share the mean of their places. A soft vote counts by its own shares.
    Partial ballots: ranked candidates beat unranked ones, and unranked ones get no vote.
    Use it: by default. Multiplied by N - 1 it gives the usual points: N - 1 for the first place, 0
        for the last.
    Assumes: that the distance between two neighbouring places is worth the same everywhere on the
        ballot.
    Fooled by: added candidates. Two nearly equal answers take places from each other, and weak
        candidates that one reviewer always puts between two rivals widen the gap between them.
    """
    points: dict[str, dict[int, int]] = {name: {} for name in candidates}
    votes: dict[str, int] = dict.fromkeys(candidates, 0)
    soft: dict[str, Fraction] = {}
    for placing in placings:
        if placing.soft:
            for name in placing.doubled:
                soft[name] = soft.get(name, Fraction(0)) + placing.soft[name]
                votes[name] += 1
            continue
        top = 2 * (placing.n - 1)
        for name, doubled in placing.doubled.items():
            by_top = points[name]
            by_top[top] = by_top.get(top, 0) + top - doubled
            votes[name] += 1
    return {
        name: sum(
            (Fraction(total, top) for top, total in points[name].items()),
            soft.get(name, Fraction(0)),
        )
        / votes[name]
        for name in candidates
        if votes[name]
    }
