"""Boards of models with known strengths: how often intervals and rank ranges hold the truth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import BASE, ModelSums, sum_votes
from peerage.boards.models import board_columns
from peerage.reviews.rows import Rows
from tests.shared.rates import wilson_interval

Floats = NDArray[np.float64]

STRENGTHS = (0.0, 0.0, 0.15, 0.5, 1.0)  # two models do not differ: their order is nobody's to tell
MODELS = tuple("abcde")
N_REVIEWERS = 5
DESIGNS = ((4, 1), (8, 1), (20, 1), (60, 1), (200, 1), (20, 10))  # queries, times each is asked


def ranks(rng: np.random.Generator, n_sessions: int, tastes: Floats, n_repeats: int = 1) -> Floats:
    """Sessions × reviewers × models: answers differ by query, and noise by review.

    `tastes` are what each reviewer (of each session) thinks of each model, whatever the answer.
    """
    n_reviewers = tastes.shape[-2]
    quality = np.array(STRENGTHS) + rng.normal(0.0, 1.0, (n_sessions, 1, len(MODELS)))
    quality = np.repeat(quality, n_repeats, axis=0)
    noise = rng.normal(0.0, 0.7, (n_sessions * n_repeats, n_reviewers, len(MODELS)))
    seen = quality + tastes + noise
    placed: Floats = ((-seen).argsort(axis=2).argsort(axis=2) + 1).astype(np.float64)
    return placed


def totals(rank: Floats, n_repeats: int = 1) -> ModelSums:
    """The board's sums; reviewers are outsiders, and sessions on one query one cluster."""
    n_sessions, n_reviewers, n_models = rank.shape
    names = (*MODELS, *(f"r{i:03d}" for i in range(n_reviewers)))
    session, reviewer, model = (part.ravel() for part in np.indices(rank.shape))
    n_clusters = n_sessions // n_repeats
    rows = Rows(
        names=names,
        n_clusters=n_clusters,
        cluster=np.arange(n_sessions) // n_repeats,
        session=session,
        reviewer=reviewer + n_models,
        candidate=model,
        numbers={"rank": rank.ravel()},
        units=tuple(f"query {i:05d}" for i in range(n_clusters)),
    )
    return sum_votes(rows, (*BASE, "influence"))


@cache
def truth(taste_sd: float) -> Floats:
    """The shares that endless sessions of ever new reviewers would give."""
    rng = np.random.default_rng(1)
    beaten = np.zeros(len(MODELS))
    for _ in range(10):
        tastes = rng.normal(0.0, taste_sd, (200_000, 1, len(MODELS)))
        beaten += (len(MODELS) - ranks(rng, len(tastes), tastes)).mean(axis=(0, 1))
    return beaten / 10 / (len(MODELS) - 1)


def coverage(
    n_sessions: int,
    n_reviewers: int,
    taste_sd: float,
    n_boards: int,
    *,
    two_way: bool = False,
    n_repeats: int = 1,
) -> tuple[int, int]:
    """How many intervals hold the true share, and how many boards have all their ranges right."""
    rng = np.random.default_rng(n_sessions * 1_000 + n_reviewers)
    wanted = truth(taste_sd)
    held, right = 0, 0
    for _ in range(n_boards):
        tastes = rng.normal(0.0, taste_sd, (n_reviewers, len(MODELS)))
        found = totals(ranks(rng, n_sessions, tastes, n_repeats), n_repeats)
        rows = board_columns(found, "borda", two_way=two_way)
        held += sum(
            low <= wanted[MODELS.index(name)] <= high
            for name, low, high in zip(
                rows["model"], rows["share_low"], rows["share_high"], strict=True
            )
        )
        right += all(
            low <= 1 + sum(s > STRENGTHS[MODELS.index(name)] for s in STRENGTHS)
            and high >= sum(s >= STRENGTHS[MODELS.index(name)] for s in STRENGTHS)
            for name, low, high in zip(
                rows["model"], rows["rank_low"], rows["rank_high"], strict=True
            )
        )
    return held, right


def coverage_lines(n_boards: int) -> Iterator[str]:
    heads = "intervals that hold the share | ranges all right"
    yield f"| queries × times asked ({n_boards} boards each) | {heads} |"
    yield "|---|---|---|"
    for n_queries, n_repeats in DESIGNS:
        held, right = coverage(n_queries, N_REVIEWERS, 0.0, n_boards, n_repeats=n_repeats)
        cells = [_rate(held, n_boards * len(MODELS)), _rate(right, n_boards)]
        yield f"| {n_queries} × {n_repeats} | {' | '.join(cells)} |"


def _rate(k: int, n: int) -> str:
    low, high = wilson_interval(k, n) or (0.0, 1.0)
    return f"{k / n:.1%} [{low:.1%}, {high:.1%}]"
