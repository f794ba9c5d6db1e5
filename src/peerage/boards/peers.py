"""Reviewers weighed by what the panel thinks of their own answers.

A model's weight as a reviewer is its own score, scaled from 0 for the lowest to 1 for the
highest, and scores are weighted means over reviewers: each follows from the other, so they
are found in turn. R. Li, T. Patel and X. Du, PRD: Peer rank and discussion improve large
language model based evaluations, Transactions on Machine Learning Research (2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerage.reviews.rows import Floats

N_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class PeerWeights:
    """The weights of reviewers, in sum 1: those of the last round's scores, and what follows.

    A round is scores under the weights so far (`used`), then `weight` from those scores.
    """

    used: Floats
    score: Floats
    weight: Floats
    outsiders: tuple[int, ...]  # reviewers that are no models: they weigh the mean of the others


def peer_weights(
    shares: Floats, votes: Floats, model_of: Sequence[int], n_rounds: int = N_ROUNDS
) -> PeerWeights | None:
    """Weights after some rounds, from reviewers × models sums of shares and counts of votes.

    `model_of` is the model that each reviewer is, −1 for none. None where no reviewer is a
    model: there is nothing to weigh anyone by.
    """
    own = np.asarray(model_of)
    inside = own >= 0
    if not inside.any():
        return None
    given = shares / np.where(votes > 0.0, votes, 1.0)
    voted = votes > 0.0
    weight = np.full(len(own), 1.0 / len(own))
    for _ in range(n_rounds):
        used = weight
        score = _scores(given, voted, used)
        weight = _scaled(score, own, inside)
    return PeerWeights(used, score, weight, tuple(np.flatnonzero(~inside).tolist()))


def _scores(given: Floats, voted: np.ndarray, weight: Floats) -> Floats:
    held = weight @ voted
    score: Floats = np.where(held > 0.0, weight @ (given * voted), np.nan)
    return score / np.where(held > 0.0, held, 1.0)


def _scaled(score: Floats, own: np.ndarray, inside: np.ndarray) -> Floats:
    """Own scores from 0 for the lowest to 1 for the highest of all models, then in sum 1."""
    known = score[np.isfinite(score)]
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    mine = np.where(inside, score[own], np.nan)
    if not high > low:
        return np.full(len(own), 1.0 / len(own))
    scaled = (mine - low) / (high - low)
    mean = float(np.nanmean(scaled)) if np.isfinite(scaled).any() else 1.0
    scaled = np.where(np.isfinite(scaled), scaled, mean)
    total = float(scaled.sum())
    return scaled / total if total > 0.0 else np.full(len(own), 1.0 / len(own))
