"""Elo: ratings that change after every ballot, which counts as a round of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

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
    """Return the ratings after the ballots in the given order, which matters in Elo.

    Formula: rating += 32 / opponents × Σ over opponents of (points - expected), where expected = 1
        / (1 + 10^((r_j - r_i) / 400)) and all ratings begin at 1500
    Ties: half a point for each side.
    Partial ballots: only ranked candidates play. A candidate without a rival is left out, because
        1500 would look like a result.
    Use it: to follow a long stream of ballots over time.
    Assumes: that later ballots should weigh more. On one ballot each ranked pair plays once and all
        ratings move at once, so the order of pairs does not matter, and a long ballot does not move
        ratings more than a short one.
    Fooled by: the order of ballots. The same ballots in another order give other ratings.
    """
    names = sorted(candidates)
    ratings, met = ratings_left_out(placings, names, k=k, start=start, scale=scale)
    levelled = level(ratings[0][met[0]])
    known = (names[at] for at in np.flatnonzero(met[0]))
    return dict(zip(known, levelled.tolist(), strict=True))


def ratings_left_out(
    placings: Sequence[Placing],
    names: Sequence[str],
    folds: Sequence[int] = (),
    n_folds: int = 0,
    *,
    k: float = 32.0,
    start: float = 1500.0,
    scale: float = 400.0,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the ratings with all ballots and without each fold, and which candidates met a rival.

    Each fold needs a run of its own, because an early ballot changes all later ratings. All runs
    are computed together.
    """
    index = {name: at for at, name in enumerate(names)}
    ratings = np.full((1 + n_folds, len(names)), float(start))
    met = np.zeros(ratings.shape, dtype=bool)
    for at, placing in enumerate(placings):
        if len(placing.doubled) < 2:
            continue
        # sorted, so that even the last bit does not depend on the order within the ballot
        ranked = np.array(sorted(index[name] for name in placing.doubled), dtype=np.intp)
        places = np.array([placing.doubled[names[at]] for at in ranked])
        before = ratings[:, ranked]
        won = (1 + np.sign(places[None, :] - places[:, None])) / 2
        expected = 1 / (1 + 10 ** ((before[:, None, :] - before[:, :, None]) / scale))
        # the diagonal is one half in both, so it cancels out
        gain = k / (len(ranked) - 1) * (won - expected).sum(axis=2)
        plays = np.ones(len(ratings), dtype=bool)
        if n_folds:
            plays[1 + folds[at]] = False
        ratings[:, ranked] += np.where(plays[:, None], gain, 0.0)
        met[:, ranked] |= plays[:, None]
    return ratings, met
