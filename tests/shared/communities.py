"""Made-up communities of honest people, with and without a ring planted among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community, eligible
from peerage.boards.rings import find_rings
from peerage.stats.clusters import generator
from tests.shared.rates import wilson_interval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Honest:
    """How honest people choose what they review, and how they judge it."""

    n_people: int = 300
    items_each: int = 3
    opinions_each: float = 30.0
    group: int = 0  # people in a topic or circle of friends; 0: there are none
    at_home: float = 0.0  # the part of opinions that goes to one's group
    liking: float = 0.0  # for items of one's group, beside a quality of sd 1
    liking_sd: float = 0.0  # of that, from group to group
    heavy_tail: bool = False  # in who reviews and in what is reviewed
    returned: float = 0.0  # the chance that a review is answered by one of the reviewer's items
    always_positive: float = 0.0  # the part of people
    error: tuple[float, float] = (1.0, 1.0)  # sd of judgements, from person to person
    category: bool = False  # the group is known as the items' category


@dataclass(frozen=True, slots=True)
class Ring:
    """People who review all of each other's items and praise them so often, rightly or not.

    In a chain each reviews the next one's alone, and round a star all review those of one.
    """

    size: int
    praise: float = 1.0
    camouflage: float = 1.0  # times the usual opinions on others
    worth: float = 0.0  # of their items, on average
    shape: Literal["ring", "chain", "star"] = "ring"

    def praised(self, members: Ints, reviewer: Ints, author: Ints) -> Bools:
        """Which of these opinions are by one member on another whom the shape has it praise."""
        place = np.full(int(max(members.max(), reviewer.max(), author.max())) + 1, -1)
        place[members] = np.arange(len(members))
        one, other = place[reviewer], place[author]
        inside: Bools = (one >= 0) & (other >= 0)
        if self.shape == "chain":
            inside &= other == (one + 1) % len(members)
        elif self.shape == "star":
            inside &= other == 0
        return inside


HONEST = {
    "uniform": Honest(),
    "power law": Honest(heavy_tail=True),
    "topics, 60% at home": Honest(group=30, at_home=0.6),
    "topics, 85% at home": Honest(group=30, at_home=0.85),
    "topics, liking one's own": Honest(group=30, at_home=0.6, liking=0.3),
    "topics named as categories, liking one's own": Honest(
        group=30, at_home=0.6, liking=0.3, category=True
    ),
    "circles of 6": Honest(group=6, at_home=0.4),
    "circles of 6, liking friends": Honest(group=6, at_home=0.4, liking=0.3),
    "circles of 12": Honest(group=12, at_home=0.5),
    "reciprocal attention": Honest(opinions_each=15.0, returned=0.7),
    "20% always positive": Honest(always_positive=0.2),
    "different accuracy": Honest(error=(0.2, 2.5)),
    "sparse": Honest(opinions_each=15.0),
}


VARYING = {
    "circles of 6, liking .3 ± .3": Honest(group=6, at_home=0.4, liking=0.3, liking_sd=0.3),
    "circles of 6, liking .3 ± .6": Honest(group=6, at_home=0.4, liking=0.3, liking_sd=0.6),
    "circles of 12, liking .3 ± .3": Honest(group=12, at_home=0.5, liking=0.3, liking_sd=0.3),
    "circles of 12, liking .3 ± .6": Honest(group=12, at_home=0.5, liking=0.3, liking_sd=0.6),
    "topics, liking .3 ± .3": Honest(group=30, at_home=0.6, liking=0.3, liking_sd=0.3),
    "topics, liking .3 ± .6": Honest(group=30, at_home=0.6, liking=0.3, liking_sd=0.6),
}


def made(
    honest: Honest, seed: object, rings: tuple[Ring, ...] = ()
) -> tuple[Community, list[Ints]]:
    """A community with its eligible opinions, and the members of each ring."""
    rng = generator("honest", seed)
    n, each = honest.n_people, honest.items_each
    author = np.repeat(np.arange(n), each)
    group = np.arange(n) // honest.group if honest.group else np.zeros(n, dtype=np.int64)
    members = _members(rng, n, rings)
    quality = rng.normal(size=len(author))
    appetite = np.full(n, honest.opinions_each)
    for ring, people in zip(rings, members, strict=True):
        quality[np.isin(author, people)] += ring.worth
        appetite[people] *= ring.camouflage
    reviewer, item = _reviews(rng, honest, author, group, appetite)
    for ring, people in zip(rings, members, strict=True):
        inside = np.flatnonzero(np.isin(author, people))
        givers, theirs = np.repeat(people, len(inside)), np.tile(inside, len(people))
        given = ring.praised(people, givers, author[theirs])
        reviewer, item = np.append(reviewer, givers[given]), np.append(item, theirs[given])
    keys = np.unique(item * n + reviewer)
    item, reviewer = keys // n, keys % n
    error = rng.uniform(*honest.error, size=n)[reviewer]
    home = (group[reviewer] == group[author[item]]) & (honest.group > 0)
    liked = quality[item] + honest.liking * home + error * rng.normal(size=len(item)) > 0.0
    if honest.liking_sd:
        liking = rng.normal(honest.liking, honest.liking_sd, int(group.max()) + 1)[group[reviewer]]
        liked = quality[item] + liking * home + error * rng.normal(size=len(item)) > 0.0
    liked |= (rng.random(n) < honest.always_positive)[reviewer]
    for ring, people in zip(rings, members, strict=True):
        exchanged = ring.praised(people, reviewer, author[item])
        liked |= exchanged & (rng.random(len(item)) < ring.praise)
    community = Community(
        np.array([f"u{i:05d}" for i in range(n)], dtype=object),
        np.array([f"i{i:06d}" for i in range(len(author))], dtype=object),
        author.astype(np.int32),
        item.astype(np.int32),
        reviewer.astype(np.int32),
        liked.astype(np.int8),
        category=group[author] if honest.category else None,
    )
    return eligible(community), members


def _members(rng: np.random.Generator, n: int, rings: tuple[Ring, ...]) -> list[Ints]:
    """Everyone's place is by chance, so that members come from all groups."""
    people = rng.permutation(n)
    ends = np.cumsum([0, *(ring.size for ring in rings)])
    return [np.sort(people[a:b]) for a, b in pairwise(ends)]


def _reviews(
    rng: np.random.Generator, honest: Honest, author: Ints, group: Ints, appetite: Floats
) -> tuple[Ints, Ints]:
    """Who reviews which item: some at home, some anywhere, some in return."""
    n, n_items = len(group), len(author)
    popular = np.ones(n_items)
    if honest.heavy_tail:
        appetite = np.clip(appetite * (rng.pareto(1.5, n) + 0.3), 3.0, n_items / 3)
        popular = rng.pareto(1.2, n_items) + 0.1
    n_said = rng.poisson(appetite * rng.gamma(4.0, 0.25, size=n))
    reviewer = np.repeat(np.arange(n), n_said)
    item = rng.choice(n_items, size=len(reviewer), p=popular / popular.sum())
    if honest.group:
        home = rng.random(len(reviewer)) < honest.at_home
        per_group = honest.group * honest.items_each
        chosen = group[reviewer] * per_group + rng.integers(0, per_group, len(reviewer))
        item = np.where(home, np.minimum(chosen, n_items - 1), item)
    answered = rng.random(len(reviewer)) < honest.returned
    back = reviewer[answered] * honest.items_each
    back += rng.integers(0, honest.items_each, len(back))
    return (
        np.concatenate((reviewer, author[item[answered]])),
        np.concatenate((item, back)),
    )


# -- how often the search is right ---------------------------------------------------------------

PLACES = ("uniform", "topics, 85% at home")
SIZES = (4, 6, 8, 12)
KINDS = {
    "full praise": Ring(0),
    "full praise, twice as many opinions on others": Ring(0, camouflage=2.0),
    "70% praise": Ring(0, praise=0.7),
    "40% praise": Ring(0, praise=0.4),
}


def n_flagged(kind: str, n: int) -> int:
    """Of n honest communities of a kind, those in which anybody is flagged."""
    honest = {**HONEST, **VARYING}[kind]
    return sum(bool(find_rings(made(honest, f"{kind} {k}")[0]).rings) for k in range(n))


def n_found(place: str, ring: Ring, n: int) -> int:
    """Of n communities with a planted ring, those in which it is named.

    Named is a ring with at least half of the planted members, who are at least half of it.
    """
    return sum(n_found_of(place, (ring,), f"{place} {ring} {k}")[0] for k in range(n))


def n_found_of(place: str, rings: tuple[Ring, ...], seed: str) -> tuple[int, int]:
    """How many of the rings in one community are named, and how many people who are in none."""
    community, planted = made(HONEST[place], seed, rings)
    named = [set(ring.members.tolist()) for ring in find_rings(community).rings]
    members = [set(people.tolist()) for people in planted]
    n_named = sum(
        any(2 * len(one & people) >= max(len(one), len(people)) for one in named)
        for people in members
    )
    return n_named, len(set().union(*named) - set().union(*members))


def honest_counts(n: int) -> dict[str, int]:
    """Of n honest communities, in how many anybody is flagged, by kind."""
    return {kind: n_flagged(kind, n) for kind in HONEST}


def varying_counts(n: int) -> dict[str, int]:
    """The same where liking differs from circle to circle: more than a search can tell apart."""
    return {kind: n_flagged(kind, n) for kind in VARYING}


def honest_lines(counts: dict[str, int], n: int) -> Iterator[str]:
    yield f"| honest community | flagged, of {n} | 95% interval |"
    yield "|---|---:|---|"
    for kind, k in counts.items():
        low, high = wilson_interval(k, n) or (0.0, 1.0)
        yield f"| {kind} | {k} | {low:.0%} to {high:.0%} |"


def planted_lines(n: int) -> Iterator[str]:
    yield (
        f"| planted ring, found of {n} | " + " | ".join(f"{size} members" for size in SIZES) + " |"
    )
    yield "|---" * (len(SIZES) + 1) + "|"
    for place in PLACES:
        for name, like in KINDS.items():
            rings = (Ring(size, like.praise, like.camouflage) for size in SIZES)
            counts = " | ".join(str(n_found(place, ring, n)) for ring in rings)
            yield f"| {name}; {place} | {counts} |"


SEVERAL = ((8, 5), (12, 6))  # rings in one community, and their members


def several_lines(n: int) -> Iterator[str]:
    """A table of many rings at once, and of praise that is not returned."""
    yield f"| planted, {n} communities each | found | others named |"
    yield "|---|---|---:|"
    plans = {f"{k} rings of {size}": tuple(Ring(size) for _ in range(k)) for k, size in SEVERAL}
    plans |= {f"a {shape} of 8": (Ring(8, shape=shape),) for shape in ("chain", "star")}
    for place in PLACES:
        for name, rings in plans.items():
            counts = [n_found_of(place, rings, f"{name} {place} {k}") for k in range(n)]
            n_right, n_wrong = map(sum, zip(*counts, strict=True))
            yield f"| {name}; {place} | {n_right} of {n * len(rings)} | {n_wrong} |"
