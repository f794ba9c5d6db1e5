"""Bradley–Terry: the ratings that make the counted wins most likely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peerage.rules import rule
from peerage.rules.pairwise import compare
from peerage.stats.strengths import rating, strengths
from peerage.types import Placing


@rule("bradley_terry", unit="rating")
def bradley_terry(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, float]:
    """Return ratings on Elo's scale, mean 1500, of the candidates compared at least once.

    Unlike Elo's ratings they do not depend on the order of ballots. If the likelihood has no
    maximum, a weak prior keeps the ratings finite.
    """
    pairs = compare(placings, candidates)
    return dict(zip(pairs.names, rating(strengths(pairs.points)).tolist(), strict=True))
