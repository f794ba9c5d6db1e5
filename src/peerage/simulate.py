"""Simulate a community of five kinds of people, and return the truth about it too.

Honest experts judge by quality; lazy approvers like everything; contrarians say the opposite of
what they see; spammers give many random opinions; ring members judge strangers honestly and praise
each other. The same seed gives the same community. It is used in tests, documents and the tour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.stats.clusters import generator

HONEST, LAZY, CONTRARIAN, SPAMMER, RING = "honest", "lazy", "contrarian", "spammer", "ring"
ERROR_SD = {HONEST: 0.5, CONTRARIAN: 0.5, RING: 1.0}  # of a judgement's error; quality has sd 1
EAGER = {SPAMMER: 3.0}  # multiples of the usual number of opinions
APPROVES = 0.97  # probability that a lazy approver likes an item
POOR = {SPAMMER: -1.0, RING: -0.5}  # mean quality of their own items; others have 0
START_S = 1_767_225_600.0  # 2026-01-01: a fixed day, so that the same seed gives the same bytes
DAYS = 90.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Population:
    """The number of people of each kind, ring sizes, and each person's items and opinions."""

    honest: int = 300
    lazy: int = 0
    contrarian: int = 0
    spammer: int = 0
    rings: tuple[int, ...] = ()
    items_each: int = 3
    opinions_each: int = 30
    affiliated: float = 0.2  # share of people with an affiliation


@dataclass(frozen=True, slots=True)
class Simulated:
    """The tables that a community would import, and the truth about them."""

    opinions: Mapping[str, NDArray[Any]]
    items: Mapping[str, NDArray[Any]]
    users: Mapping[str, NDArray[Any]]
    persona: Mapping[str, str]  # by user
    quality: Mapping[str, float]  # by item
    rings: tuple[tuple[str, ...], ...]


def simulate(population: Population, seed: object = 0) -> Simulated:
    """Return a community of this composition, the same for the same seed."""
    rng = generator("community", seed)
    kinds, ring = _people(population)
    n = len(kinds)
    width = len(str(n))
    users = np.array([f"{kind}{i:0{width}d}" for i, kind in enumerate(kinds)], dtype=object)
    author = np.repeat(np.arange(n), population.items_each)
    item_ids = np.array([f"item{i:0{len(str(len(author)))}d}" for i in range(len(author))], object)
    worth = np.array([POOR.get(kinds[person], 0.0) for person in author])
    quality = worth + rng.normal(size=len(author))
    appetite = np.array([EAGER.get(kind, 1.0) for kind in kinds]) * population.opinions_each
    n_opinions = rng.poisson(appetite * rng.gamma(2.0, 0.5, size=n))
    items, reviewers, values = [], [], []
    for person in range(n):
        reviewed = _reviewed_items(rng, person, int(n_opinions[person]), author, ring)
        opinions = _opinions(rng, kinds[person], quality[reviewed])
        opinions[(ring[person] >= 0) & (ring[author[reviewed]] == ring[person])] = 1
        items.append(reviewed)
        reviewers.append(np.full(len(reviewed), person))
        values.append(opinions)
    item, reviewer = np.concatenate(items), np.concatenate(reviewers)
    mixed = rng.permutation(len(item))
    item, reviewer, value = item[mixed], reviewer[mixed], np.concatenate(values)[mixed]
    at = START_S + np.sort(rng.random(len(item))) * DAYS * DAY_S
    return Simulated(
        opinions={
            "item_id": item_ids[item],
            "contributor": users[author[item]],
            "reviewer": users[reviewer],
            "opinion": value,
            "at": at,
        },
        items={"item_id": item_ids, "contributor": users[author]},
        users={"user_id": users, "affiliated": rng.random(n) < population.affiliated},
        persona=dict(zip(users.tolist(), kinds, strict=True)),
        quality=dict(zip(item_ids.tolist(), quality.tolist(), strict=True)),
        rings=tuple(
            tuple(users[ring == number].tolist()) for number in range(len(population.rings))
        ),
    )


def _people(population: Population) -> tuple[list[str], NDArray[np.int64]]:
    """Return each person's kind, and the number of their ring or −1."""
    kinds = [
        kind
        for kind in (HONEST, LAZY, CONTRARIAN, SPAMMER)
        for _ in range(getattr(population, kind))
    ]
    ring = [-1] * len(kinds)
    for number, size in enumerate(population.rings):
        kinds += [RING] * size
        ring += [number] * size
    return kinds, np.array(ring, dtype=np.int64)


def _reviewed_items(
    rng: np.random.Generator,
    person: int,
    n_opinions: int,
    author: NDArray[np.int64],
    ring: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the items a person reviews: random ones and the ring's, never their own."""
    chosen = rng.choice(len(author), size=min(n_opinions, len(author)), replace=False)
    if ring[person] >= 0:
        chosen = np.union1d(chosen, np.flatnonzero(ring[author] == ring[person]))
    others: NDArray[np.int64] = chosen[author[chosen] != person]
    return others


def _opinions(
    rng: np.random.Generator, kind: str, quality: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return opinions of +1 or −1 on items of these qualities by this kind of person."""
    n = len(quality)
    if kind == LAZY:
        liked = rng.random(n) < APPROVES
    elif kind == SPAMMER:
        liked = rng.random(n) < 0.5
    else:
        liked = quality + ERROR_SD[kind] * rng.normal(size=n) > 0.0
    if kind == CONTRARIAN:
        liked = ~liked
    return np.where(liked, 1, -1).astype(np.int64)
