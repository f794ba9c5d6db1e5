"""Elo: ratings that move after every ballot, each ballot a round of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from peerage.rules import rule
from peerage.stats.strengths import level
from peerage.types import Placing


@rule("elo", unit="rating")
def elo(
    placings: Sequence[Placing],
    candidates: Sequence[str],
    *,
    k: float = 32.0,
    start: float = 1500.0,
    scale: float = 400.0,
) -> Mapping[str, float]:
    """Ratings after the ballots in the order given; that order matters, as it does in Elo.

    On one ballot each ranked pair plays once, a tie is half a point, and everyone moves at
    once from the ratings before it, by k divided by the number of opponents: so the order
    of pairs does not matter and a long ballot does not shake the table more than a short
    one. A candidate that met no one is left out; 1500 would look like a finding.
    """
    names = sorted(candidates)
    index = {name: at for at, name in enumerate(names)}
    ratings = np.full(len(names), float(start))
    met = np.zeros(len(names), dtype=bool)
    for placing in placings:
        if len(placing.doubled) < 2:
            continue
        # sorted, so that not even the last bit depends on how the ballot was written down
        ranked = np.array(sorted(index[name] for name in placing.doubled), dtype=np.intp)
        places = np.array([placing.doubled[names[at]] for at in ranked])
        before = ratings[ranked]
        won = (1 + np.sign(places[None, :] - places[:, None])) / 2
        expected = 1 / (1 + 10 ** ((before[None, :] - before[:, None]) / scale))
        # the diagonal is a half in both, so it cancels
        ratings[ranked] += k / (len(ranked) - 1) * (won - expected).sum(axis=1)
        met[ranked] = True
    levelled = level(ratings[met])
    return dict(zip((names[at] for at in np.flatnonzero(met)), levelled.tolist(), strict=True))
