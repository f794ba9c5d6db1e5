"""The graph of who supports whose items, its densest block, and what chance would make of it.

A ring is a set of people who support each other's items far more than their habits explain.
The search peels the graph as FRAUDAR does (B. Hooi and others, KDD 2016): people with the
least to do with the rest go first, and the best set on the way is kept. FRAUDAR discounts
popular targets by a logarithm; here support counts against what the two people's totals lead
one to expect, so neither the popular nor the generous look dense. How far a set stands out is
a Poisson log likelihood ratio less the price of choosing it among all sets of its size: plain
average support would always choose the large, busy, honest core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Bools, Community, Floats, Ints, sums_by

Places = NDArray[np.int64]

PEELED = 0.05  # of the people left go in one step while they are many
ONE_BY_ONE = 48  # people from which on each goes alone
MIN_MEMBERS = 3  # two who like each other are a pair, listed as such
MAX_REPAIRS = 60
MAX_TOGGLES = 30
GAIN = 1e-9  # less is rounding


@dataclass(frozen=True, slots=True)
class Support:
    """Directed edges between people: `n` supporting opinions of one on items of the other.

    Edges are within a stratum (a category): a shuffle never moves one out of it.
    """

    n_people: int
    giver: Places
    taker: Places
    n: Floats
    stratum: Places

    @property
    def size(self) -> int:
        return len(self.giver)


@dataclass(frozen=True, slots=True)
class Block:
    """A set of people, the support inside it and expected there, and how far it stands out."""

    members: Places
    inside: float
    expected: float
    score: float


def support_graph(community: Community) -> Support:
    """Who supported whom how often: opinions above the middle of the scale."""
    above = np.asarray(community.scale) > community.middle
    rows = np.flatnonzero(above[community.level])
    item = community.item[rows]
    giver = community.reviewer[rows].astype(np.int64)
    taker = community.author[item].astype(np.int64)
    n_people = community.n_people
    stratum = np.zeros(len(rows), dtype=np.int64)
    if community.category is not None:
        stratum = community.category[item].astype(np.int64) + 1
    keys = (stratum * n_people + giver) * n_people + taker
    edges, n = np.unique(keys[giver != taker], return_counts=True)
    pairs = edges % n_people**2
    return Support(
        n_people,
        pairs // n_people,
        pairs % n_people,
        n.astype(np.float64),
        edges // n_people**2,
    )


def without_block(graph: Support, members: Places) -> Support:
    """The graph less the edges inside a set of people."""
    inside = np.zeros(graph.n_people, dtype=bool)
    inside[members] = True
    kept = ~(inside[graph.giver] & inside[graph.taker])
    return Support(
        graph.n_people,
        graph.giver[kept],
        graph.taker[kept],
        graph.n[kept],
        graph.stratum[kept],
    )


# -- the densest block ------------------------------------------------------------------------


class _Ties:
    """Unordered pairs of people with the support between them, beside what was expected.

    Expected is support given times support taken, over all support that could be taken.
    """

    def __init__(self, graph: Support) -> None:
        n = graph.n_people
        taken = sums_by(graph.taker, graph.n, n)
        given = sums_by(graph.giver, graph.n, n)
        rest = float(taken.sum()) - taken  # no one can support their own items
        self.given = given / np.where(rest > 0.0, rest, 1.0)
        self.taken = taken
        self.involved = (given > 0) | (taken > 0)
        self.n_involved = int(np.count_nonzero(self.involved))
        forth = graph.giver < graph.taker
        low = np.where(forth, graph.giver, graph.taker)
        high = np.where(forth, graph.taker, graph.giver)
        keys, pair = np.unique(low * n + high, return_inverse=True)
        self.a, self.b = keys // n, keys % n
        self.n = sums_by(pair, graph.n, len(keys))
        self.mutual = (sums_by(pair, forth, len(keys)) > 0) & (sums_by(pair, ~forth, len(keys)) > 0)

    def pull(self, weights: Floats, inside: Bools) -> Floats:
        """Each person's weights towards the set."""
        n = len(inside)
        return sums_by(self.a, weights * inside[self.b], n) + sums_by(
            self.b, weights * inside[self.a], n
        )

    def surprise(self) -> Floats:
        """How far each pair stands out by itself: its Poisson log likelihood ratio."""
        expected = self.given[self.a] * self.taken[self.b] + self.given[self.b] * self.taken[self.a]
        return _ratio(self.n, expected)

    def expected(self, inside: Bools) -> Floats:
        """What each person's support to and from the set was expected to be."""
        held = inside.astype(np.float64)
        given, taken = float((self.given * held).sum()), float((self.taken * held).sum())
        own = 2.0 * self.given * self.taken * inside
        return self.given * taken + self.taken * given - own

    def score(self, inside: Floats, expected: Floats, size: Ints) -> Floats:
        """How far sets of these sums and sizes stand out, less the price of the choice."""
        price = size * (np.log(self.n_involved / np.maximum(size, 1)) + 1.0)
        dense = (inside > expected) & (size >= MIN_MEMBERS)
        score: Floats = np.where(dense, _ratio(inside, expected) - price, -np.inf)
        return score

    def score_of(self, people: Places, inside: float) -> float:
        """The score of one set, given the support inside it."""
        given, taken = self.given[people], self.taken[people]
        expected = float(given.sum()) * float(taken.sum()) - float((given * taken).sum())
        one = self.score(np.array([inside]), np.array([expected]), np.array([len(people)]))
        return float(one[0])

    def block(self, inside: Bools) -> tuple[Block, Floats, Floats]:
        """A set as a block, with everyone's ties to it and what they were expected to be."""
        real, expected = self.pull(self.n, inside), self.expected(inside)
        members = np.flatnonzero(inside)
        w, e = float(real[members].sum()) / 2.0, float(expected[members].sum()) / 2.0
        return Block(members, w, e, self.score_of(members, w)), real, expected


def _ratio(real: Floats, expected: Floats) -> Floats:
    """n·log(n/e) − (n − e) where there is more than expected, else 0."""
    more = (real > expected) & (expected > 0.0)
    n, e = np.where(more, real, 1.0), np.where(more, expected, 1.0)
    ratio: Floats = n * np.log(n / e) - (n - e)
    return ratio


def densest(graph: Support) -> Block | None:
    """The block that stands out most, or None where no three people support each other.

    Two peelings, by how much of a surprise people's ties to the rest are: one by mutual
    ties alone, where rings are, and one by all ties, for those who serve without return.
    """
    ties = _Ties(graph)
    if ties.n_involved < MIN_MEMBERS:
        return None
    surprise = ties.surprise()
    blocks = [
        _refined(ties, best)
        for weights in (np.where(ties.mutual, surprise, 0.0), surprise)
        if (best := _peeled(ties, weights)) is not None
    ]
    if not blocks:
        return None
    return _parted(ties, surprise, max(blocks, key=lambda block: block.score))


def _peeled(ties: _Ties, weights: Floats) -> Bools | None:
    """The best set met while those with the least weight towards the rest leave."""
    n = len(ties.involved)
    bound = weights > 0.0
    inside = np.zeros(n, dtype=bool)
    inside[ties.a[bound]] = inside[ties.b[bound]] = True
    people = np.flatnonzero(inside)
    kept = inside[ties.a] & inside[ties.b]
    a, b, held, pull = ties.a[kept], ties.b[kept], ties.n[kept], weights[kept]
    best, best_score = None, -np.inf
    while len(people) >= MIN_MEMBERS:
        score = ties.score_of(people, float(held.sum()))
        if score > best_score:
            best, best_score = people, score
        n_gone = max(1, int(len(people) * PEELED)) if len(people) > ONE_BY_ONE else 1
        left = (sums_by(a, pull, n) + sums_by(b, pull, n))[people]
        order = np.argsort(left, kind="stable")
        inside[people[order[:n_gone]]] = False
        people = np.sort(people[order[n_gone:]])
        kept = inside[a] & inside[b]  # so that each step is about those who are left
        a, b, held, pull = a[kept], b[kept], held[kept], pull[kept]
    if best is None:
        return None
    inside[:] = False
    inside[best] = True
    return inside


def _refined(ties: _Ties, inside: Bools) -> Block:
    """The block after letting in and out, one by one, whoever makes it stand out more."""
    block, real, expected = ties.block(inside)
    for _ in range(MAX_TOGGLES):
        step = np.where(inside, -1, 1)
        scores = ties.score(
            block.inside + step * real, block.expected + step * expected, len(block.members) + step
        )
        best = int(np.argmax(np.where(ties.involved, scores, -np.inf)))
        if not scores[best] > block.score + GAIN:
            break
        inside = inside.copy()
        inside[best] = ~inside[best]
        block, real, expected = ties.block(inside)
    return block


def _parted(ties: _Ties, surprise: Floats, block: Block) -> Block:
    """The part of a block that stands out most, where it is several rings in one.

    Parts hang together by ties at least half as surprising as the block's usual tie: an
    honest word between members of two rings does not make them one.
    """
    inside = np.zeros(len(ties.involved), dtype=bool)
    inside[block.members] = True
    held = inside[ties.a] & inside[ties.b]
    strong = held & (surprise >= np.median(surprise[held]) / 2.0)
    part = _components(ties.a[strong], ties.b[strong], len(inside))
    numbers = np.unique(part[block.members])
    if len(numbers) < 2:
        return block
    parts = [ties.block(inside & (part == number))[0] for number in numbers]
    best = max(parts, key=lambda one: one.score)
    return best if np.isfinite(best.score) else block


def _components(a: Places, b: Places, n: int) -> Places:
    """The connected component of each person: the least code in it."""
    part = np.arange(n)
    while True:
        least = np.minimum(part[a], part[b])
        new = part.copy()
        np.minimum.at(new, a, least)
        np.minimum.at(new, b, least)
        if (new == part).all():
            return part
        part = new


# -- what chance would make of it --------------------------------------------------------------


def shuffled(graph: Support, rng: np.random.Generator) -> Support:
    """The graph with everyone's edges given and taken kept, and who meets whom dealt anew.

    Takers are permuted within strata; then edges to oneself and repeated edges trade their
    taker with a random one until none is left. An edge keeps its weight, so that fans, who
    support one person often, are as common as they were.
    """
    order = np.lexsort((rng.random(graph.size), graph.stratum))
    home = np.argsort(graph.stratum, kind="stable")
    taker = np.empty_like(graph.taker)
    taker[home] = graph.taker[order]
    starts, sizes = _strata(graph.stratum[home])
    place = np.empty(graph.size, dtype=np.int64)
    place[home] = np.arange(graph.size)
    prefix = (graph.stratum * graph.n_people + graph.giver) * graph.n_people
    for _ in range(MAX_REPAIRS):
        wrong = _wrong(prefix + taker, graph.giver == taker)
        if not len(wrong):
            break
        stratum_start, stratum_size = starts[place[wrong]], sizes[place[wrong]]
        picks = home[stratum_start + (rng.random(len(wrong)) * stratum_size).astype(np.int64)]
        for one, other in zip(wrong.tolist(), picks.tolist(), strict=True):
            taker[one], taker[other] = taker[other], taker[one]
    return Support(graph.n_people, graph.giver, taker, graph.n, graph.stratum)


def _strata(stratum: Places) -> tuple[Places, Places]:
    """Where the stratum of each place of a sorted list starts, and how many it has."""
    if not len(stratum):
        return stratum, stratum
    first = np.flatnonzero(np.diff(stratum, prepend=stratum[0] - 1))
    counts = np.diff(np.append(first, len(stratum)))
    return np.repeat(first, counts), np.repeat(counts, counts)


def _wrong(keys: Places, own: Bools) -> Places:
    """The edges that may not be: to oneself, or there already."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    wrong = own.copy()
    wrong[order[1:][ordered[1:] == ordered[:-1]]] = True
    return np.flatnonzero(wrong)
