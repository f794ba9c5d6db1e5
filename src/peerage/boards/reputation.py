"""Reputation: what a reviewer's word weighs, found from the opinions or votes themselves.

Iterative filtering: who is far from the weighted opinion weighs less, until nothing moves.
C. de Kerchove and P. Van Dooren, Iterative filtering in reputation systems, SIAM Journal on
Matrix Analysis and Applications 31 (2010): with weights 1 − k·d there is one fixed point.

Dawid–Skene stands beside it: a model with another idea of error (each reviewer mistakes each
level for each other at their own rates). It is there to compare, not to confirm.
A. P. Dawid and A. M. Skene, Maximum likelihood estimation of observer error-rates using the
EM algorithm, Applied Statistics 28 (1979).

On the board of models a reviewer may weigh what the panel thinks of its own answers: its own
score, scaled from 0 for the lowest to 1 for the highest, while scores are weighted means over
reviewers. Each follows from the other, so they are found in turn. R. Li, T. Patel and X. Du,
PRD: Peer rank and discussion improve large language model based evaluations, Transactions on
Machine Learning Research (2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community
from peerage.reviews.rows import Bools, Floats

Places = NDArray[np.intp]

CLOSE = 1e-9
MAX_ROUNDS = 10_000
FIRMNESS = 0.99  # of the weight that the worst possible reviewer loses

DAWID_SKENE_ROUNDS = 200
DAWID_SKENE_CLOSE = 1e-6
N_ROUNDS = 5  # of peers
PSEUDO_COUNT = 0.01  # in every cell of a confusion table, so that no chance is zero


@dataclass(frozen=True, slots=True)
class Reputation:
    """The weight of each person's word, and the rounds it took to settle."""

    weight: Floats
    iterations: int


def iterate(community: Community, weights: Floats | None = None) -> Reputation:
    """Weights at the fixed point of iterative filtering, all 1 at the start.

    q = weighted mean opinion of an item, d = a reviewer's mean squared distance from it,
    w = 1 − k·d with k = .99 / range². Who has no opinion keeps weight 1. `weights` of
    single opinions (time decay) multiply the reviewer's in q; d is a plain mean.
    """
    scale = np.asarray(community.scale)
    k = FIRMNESS / (scale[-1] - scale[0]) ** 2
    n_people, n_items = community.n_people, community.n_items
    item, reviewer = community.item.astype(np.intp), community.reviewer.astype(np.intp)
    value = community.value
    n_opinions = np.maximum(np.bincount(reviewer, minlength=n_people), 1)
    word, quality = np.ones(n_people), np.full(n_items, np.inf)
    for rounds in range(1, MAX_ROUNDS + 1):
        pull = word[reviewer]
        if weights is not None:
            pull *= weights
        weighed = np.bincount(item, weights=pull, minlength=n_items)
        pull *= value
        total = np.bincount(item, weights=pull, minlength=n_items)
        now = total / np.where(weighed > 0.0, weighed, 1.0)
        apart = value - now[item]
        apart *= apart
        new = 1.0 - k * np.bincount(reviewer, weights=apart, minlength=n_people) / n_opinions
        moved = max(_furthest(new, word), _furthest(now, quality))
        word, quality = new, now
        if moved < CLOSE:
            return Reputation(word, rounds)
    raise ArithmeticError(f"reputation did not settle in {MAX_ROUNDS} rounds")


def _furthest(new: Floats, old: Floats) -> float:
    return float(np.abs(new - old).max(initial=0.0))


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """What the model of Dawid and Skene makes of the same opinions.

    `accuracy` is the chance that a person's opinion is the item's true level, by person;
    `quality` the expected true level, by item. NaN for who said nothing and what has no opinion.
    """

    accuracy: Floats
    quality: Floats
    iterations: int
    converged: bool = True


def dawid_skene(community: Community) -> DawidSkene:
    """The posterior of items' true levels and of reviewers' errors, by EM from majorities."""
    n_levels, n_people, n_items = len(community.scale), community.n_people, community.n_items
    item, reviewer = community.item.astype(np.intp), community.reviewer.astype(np.intp)
    level = community.level.astype(np.intp)
    opinion = reviewer * n_levels + level
    n_heard = np.bincount(item, minlength=n_items)
    heard = n_heard > 0
    votes = np.bincount(item * n_levels + level, minlength=n_items * n_levels)
    truth = votes.reshape(n_items, n_levels) / np.maximum(n_heard, 1)[:, None]
    moved, rounds = np.inf, 0
    while moved >= DAWID_SKENE_CLOSE and rounds < DAWID_SKENE_ROUNDS:
        prior, errors = _errors(truth, item, opinion, (n_people, n_levels), heard)
        new = _truth(prior, errors, item, opinion, n_items)
        moved = _furthest(new[heard], truth[heard])
        truth, rounds = new, rounds + 1
    right = np.einsum("l,pll->p", prior, errors)
    spoke = np.bincount(reviewer, minlength=n_people) > 0
    return DawidSkene(
        np.where(spoke, right, np.nan),
        np.where(heard, truth @ np.asarray(community.scale), np.nan),
        rounds,
        moved < DAWID_SKENE_CLOSE,
    )


def _errors(
    truth: Floats, item: Places, opinion: Places, shape: tuple[int, int], heard: Bools
) -> tuple[Floats, Floats]:
    """How common each true level is, and each person's chances of saying what about it."""
    n_people, n_levels = shape
    prior = truth[heard].sum(axis=0) + PSEUDO_COUNT
    size = n_people * n_levels
    table = np.stack([np.bincount(opinion, true[item], minlength=size) for true in truth.T])
    counts = table.reshape(n_levels, n_people, n_levels).transpose(1, 0, 2) + PSEUDO_COUNT
    return prior / prior.sum(), counts / counts.sum(axis=2, keepdims=True)


def _truth(prior: Floats, errors: Floats, item: Places, opinion: Places, n_items: int) -> Floats:
    """The chance of each true level, by item, given everyone's errors."""
    logs = np.log(errors).transpose(1, 0, 2).reshape(len(prior), -1)
    likelihoods = [np.bincount(item, true[opinion], minlength=n_items) for true in logs]
    scores = np.log(prior) + np.column_stack(likelihoods)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


# -- peers ---------------------------------------------------------------------------------------


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
    inside, voted = own >= 0, votes > 0.0
    if not inside.any():
        return None
    mean_share = shares / np.where(voted, votes, 1.0)
    weight = np.full(len(own), 1.0 / len(own))
    for _ in range(n_rounds):
        used = weight
        weight_heard = used @ voted
        score = np.where(weight_heard > 0.0, used @ (mean_share * voted), np.nan)
        score /= np.where(weight_heard > 0.0, weight_heard, 1.0)
        weight = _scaled(score, own, inside)
    return PeerWeights(used, score, weight, tuple(np.flatnonzero(~inside).tolist()))


def _scaled(score: Floats, own: Places, inside: Bools) -> Floats:
    """Own scores from 0 for the lowest to 1 for the highest of all models, then in sum 1."""
    known = score[np.isfinite(score)]
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    even = np.full(len(own), 1.0 / len(own))
    if not high > low:
        return even
    mine = np.where(inside, score[own], np.nan)
    scaled = (mine - low) / (high - low)
    mean = float(np.nanmean(scaled)) if np.isfinite(scaled).any() else 1.0
    scaled = np.where(np.isfinite(scaled), scaled, mean)
    total = float(scaled.sum())
    return scaled / total if total > 0.0 else even
