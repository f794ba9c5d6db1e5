"""Bradley–Terry: ratings under which the wins that were counted are most likely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peerage.rules import rule
from peerage.rules.pairwise import compare
from peerage.stats.strengths import rating, strengths
from peerage.types import Placing


@rule("bradley_terry", unit="rating")
def bradley_terry(placings: Sequence[Placing], candidates: Sequence[str]) -> Mapping[str, float]:
    """Ratings on Elo's scale, mean 1500, of the candidates compared at least once.

    Unlike Elo's they do not depend on the order of ballots. Where the likelihood has no
    maximum they hold a weak pull to the middle instead of infinity.
    """
    pairs = compare(placings, candidates)
    return dict(zip(pairs.names, rating(strengths(pairs.points)).tolist(), strict=True))
