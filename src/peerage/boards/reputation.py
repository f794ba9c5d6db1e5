"""Reputation: the weight of a reviewer, computed from the opinions or votes themselves.

Iterative filtering: reviewers far from the weighted mean opinion get less weight, until the weights
converge. C. de Kerchove and P. Van Dooren, Iterative filtering in reputation systems, SIAM Journal
on Matrix Analysis and Applications 31 (2010): with weights 1 − k·d there is one fixed point.

Dawid–Skene is a second model for comparison: each reviewer mistakes each level for each other
level at their own rates. A. P. Dawid and A. M. Skene, Maximum likelihood estimation of observer
error-rates using the EM algorithm, Applied Statistics 28 (1979).

On the board of models a reviewer may be weighted by its own score as a candidate, scaled from 0
for the lowest to 1 for the highest, while scores are weighted means over reviewers. The two depend
on each other and are computed in turn. R. Li, T. Patel and X. Du, PRD: Peer rank and discussion
improve large language model based evaluations, Transactions on Machine Learning Research (2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community
from peerage.reviews.cells import Bools, Floats

Places = NDArray[np.intp]

CLOSE = 1e-9
MAX_ROUNDS = 10_000
FIRMNESS = 0.99  # the part of the weight that the worst possible reviewer loses

DAWID_SKENE_ROUNDS = 200
DAWID_SKENE_CLOSE = 1e-6
N_ROUNDS = 5  # of peer weights
PSEUDO_COUNT = 0.01  # in every cell of a confusion table, so that no probability is zero


@dataclass(frozen=True, slots=True)
class Reputation:
    """The weight of each person's opinions, and the number of rounds until convergence."""

    weight: Floats
    iterations: int


def iterate(community: Community, weights: Floats | None = None) -> Reputation:
    """Return the weights at the fixed point of iterative filtering, starting from 1.

    q = weighted mean opinion of an item, d = a reviewer's mean squared distance from it,
    w = 1 − k·d with k = .99 / range². A person without opinions keeps weight 1. `weights` of
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
    raise ArithmeticError(f"reputation did not converge in {MAX_ROUNDS} rounds")


def _furthest(new: Floats, old: Floats) -> float:
    return float(np.abs(new - old).max(initial=0.0))


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """The result of the model of Dawid and Skene for the same opinions.

    `accuracy` is, by person, the probability that an opinion is the item's true level;
    `quality` is, by item, the expected true level. NaN for people and items without opinions.
    """

    accuracy: Floats
    quality: Floats
    iterations: int
    converged: bool = True


def dawid_skene(community: Community) -> DawidSkene:
    """Estimate items' true levels and reviewers' errors by EM, starting from majorities."""
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
    """Return the frequency of each true level, and each person's confusion probabilities."""
    n_people, n_levels = shape
    prior = truth[heard].sum(axis=0) + PSEUDO_COUNT
    size = n_people * n_levels
    table = np.stack([np.bincount(opinion, true[item], minlength=size) for true in truth.T])
    counts = table.reshape(n_levels, n_people, n_levels).transpose(1, 0, 2) + PSEUDO_COUNT
    return prior / prior.sum(), counts / counts.sum(axis=2, keepdims=True)


def _truth(prior: Floats, errors: Floats, item: Places, opinion: Places, n_items: int) -> Floats:
    """Return the probability of each true level, by item, given all reviewers' errors."""
    logs = np.log(errors).transpose(1, 0, 2).reshape(len(prior), -1)
    likelihoods = [np.bincount(item, true[opinion], minlength=n_items) for true in logs]
    scores = np.log(prior) + np.column_stack(likelihoods)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


# -- peer weights --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PeerWeights:
    """The weights of reviewers, which sum to 1: those used in the last round, and the next ones.

    A round computes scores with the weights so far (`used`), then `weight` from those scores.
    """

    used: Floats
    score: Floats
    weight: Floats
    outsiders: tuple[int, ...]  # reviewers that are not candidates; they get the mean weight


def peer_weights(
    shares: Floats, votes: Floats, model_of: Sequence[int], n_rounds: int = N_ROUNDS
) -> PeerWeights | None:
    """Return the weights after some rounds, from reviewers × models sums of shares and votes.

    `model_of` has each reviewer's index among the models, −1 if it is not one of them. Return None
    if no reviewer is a candidate, because there are no scores to weigh by.
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
        weight = _scale_scores(score, own, inside)
    return PeerWeights(used, score, weight, tuple(np.flatnonzero(~inside).tolist()))


def _scale_scores(score: Floats, own: Places, inside: Bools) -> Floats:
    """Scale own scores from 0 for the lowest to 1 for the highest model, then to sum 1."""
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
