"""Bradley–Terry: the ratings that make the counted wins most likely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peerage.rules import rule
from peerage.rules.pairwise import count_pairs
from peerage.stats.strengths import rating, strengths
from peerage.types import Placing


@rule("bradley_terry", unit="rating")
def bradley_terry(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, float]:
    """Return ratings on Elo's scale, mean 1500, of the candidates compared at least once.

    Formula: 1500 + 400·log10 s, where the strengths s make the counted wins most likely under P(i
        beats j) = s_i / (s_i + s_j), with a geometric mean of 1
    Ties: half a win for each side.
    Partial ballots: only pairs ranked together are compared.
    Use it: for many sessions in which not all candidates met. 400 points are odds of ten to one,
        and the order of ballots does not matter.
    Assumes: that one number describes each candidate: if a mostly beats b and b mostly beats c, a
        beats c even more often.
    Fooled by: circles of majorities, and candidates that never met. The likelihood has a maximum
        only if a path of wins leads from every candidate to every other; if not, each candidate
        gets one virtual tie, half a win and half a loss, spread over its rivals. Groups that never
        met then get the same mean, by convention.
    """
    pairs = count_pairs(placings, candidates)
    return dict(zip(pairs.names, rating(strengths(pairs.points)).tolist(), strict=True))
