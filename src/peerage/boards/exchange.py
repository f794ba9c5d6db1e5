"""Who exchanges reviews with whom, and the blocks of people who exchange many.

Opinions are not looked at here: friends, topics and mutual attention are honest, and a block
is only where to look. Blocks therefore stay the same however opinions are dealt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from peerage.boards.opinions import Community, sums_by
from peerage.reviews.rows import Floats, Ints

SIZES = (3, 4, 5, 6, 8, 10, 12, 16, 20)
MOST_COUNTED = 4  # reviews of one by the other; what more there are adds little
BESIDE, MOST_BESIDE = 0.1, 8
CHUNK = 1 << 20  # pairs looked up at a time


@dataclass(frozen=True, slots=True)
class Exchange:
    """Pairs of people (a < b, sorted) who reviewed each other's items.

    `pair` is that of each opinion, −1 where the item's author never reviewed the reviewer.
    """

    n_people: int
    a: Ints
    b: Ints
    n: Ints  # opinions either way
    pull: Floats  # how much of their attention the two give each other
    pair: Ints  # by opinion

    @property
    def keys(self) -> Ints:
        return self.a * self.n_people + self.b


@dataclass(frozen=True, slots=True)
class ExchangeBlocks:
    """Sets of `size` people: members (sorted codes) by block, and the pairs among them.

    `pair` has the pairs of all blocks, block after block; `first` and `second` are the places
    of the two members in their block.
    """

    size: int
    members: Ints
    block: Ints
    pair: Ints
    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.members)

    def sums(self, by_pair: Floats) -> Floats:
        """The sum over each block's pairs."""
        return sums_by(self.block, by_pair[self.pair], len(self))

    def only(self, kept: Ints) -> ExchangeBlocks:
        """Some of the blocks, by place."""
        place = np.full(len(self), -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        held = place[self.block] >= 0
        columns = (place[self.block], self.pair, self.first, self.second)
        return ExchangeBlocks(self.size, self.members[kept], *(column[held] for column in columns))


def exchanges(community: Community) -> Exchange:
    """Who reviewed each other, how often, and how much of their attention that is.

    The pull of a pair is min(forth, back, 4) + .1·min(forth + back, 8), over the fourth root
    of one more than the reviews that each of the two gives.
    """
    n_people = max(community.n_people, 1)
    author = community.author[community.item].astype(np.int64)
    reviewer = community.reviewer.astype(np.int64)
    key = np.minimum(author, reviewer) * n_people + np.maximum(author, reviewer)
    keys, pair = np.unique(key, return_inverse=True)
    forth = np.bincount(pair[reviewer < author], minlength=len(keys))
    back = np.bincount(pair[reviewer > author], minlength=len(keys))
    mutual = (forth > 0) & (back > 0)
    place = np.where(mutual, np.cumsum(mutual) - 1, -1)
    keys, forth, back = keys[mutual], forth[mutual], back[mutual]
    a, b = keys // n_people, keys % n_people
    given = np.bincount(reviewer, minlength=n_people) + 1.0
    pull = np.minimum(np.minimum(forth, back), MOST_COUNTED) + BESIDE * np.minimum(
        forth + back, MOST_BESIDE
    )
    return Exchange(n_people, a, b, forth + back, pull / (given[a] * given[b]) ** 0.25, place[pair])


def candidate_blocks(exchange: Exchange) -> Iterator[ExchangeBlocks]:
    """From each person the blocks met by adding whoever is pulled most; by size, each once."""
    grown: dict[int, set[tuple[int, ...]]] = {size: set() for size in SIZES}
    for people in _growth(exchange):
        for size in SIZES:
            if len(people) >= size:
                grown[size].add(tuple(sorted(people[:size])))
    for sets in grown.values():
        if sets:
            yield _with_pairs(exchange, np.array(sorted(sets), dtype=np.int64))


def pair_blocks(exchange: Exchange) -> ExchangeBlocks:
    """Every pair as a block of two."""
    both, each = np.column_stack((exchange.a, exchange.b)), np.arange(len(exchange.a))
    return ExchangeBlocks(2, both, each, each, np.zeros_like(each), np.ones_like(each))


def _growth(exchange: Exchange) -> Iterator[list[int]]:
    """For each person with a pair: the person, and those added one after the other."""
    ends = np.concatenate((exchange.a, exchange.b))
    order = np.lexsort((np.concatenate((exchange.b, exchange.a)), ends))
    others = np.concatenate((exchange.b, exchange.a))[order]
    pulls = np.concatenate((exchange.pull, exchange.pull))[order]
    starts = np.searchsorted(ends[order], np.arange(exchange.n_people + 1)).tolist()
    near = [others[i:j] for i, j in pairwise(starts)]
    pull_of = [pulls[i:j] for i, j in pairwise(starts)]
    pulled = np.zeros(exchange.n_people)
    for seed in np.unique(ends).tolist():
        people, reached = [seed], near[seed]
        pulled[near[seed]] = pull_of[seed]
        pulled[seed] = -np.inf
        while len(people) < SIZES[-1]:
            best = int(reached[pulled[reached].argmax()])
            if pulled[best] <= 0.0:
                break
            people.append(best)
            pulled[near[best]] += pull_of[best]
            pulled[best] = -np.inf
            reached = np.concatenate((reached, near[best]))
        pulled[reached] = 0.0
        pulled[people] = 0.0
        yield people


def _with_pairs(exchange: Exchange, members: Ints) -> ExchangeBlocks:
    """The blocks with the pairs among their members that exchange reviews."""
    n_blocks, size = members.shape
    first, second = np.triu_indices(size, 1)
    keys = exchange.keys
    parts = []
    step = max(1, CHUNK // len(first))
    for start in range(0, n_blocks, step):
        some = members[start : start + step]
        wanted = some[:, first] * exchange.n_people + some[:, second]
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        block, column = np.nonzero(keys[place] == wanted)
        parts.append((block + start, place[block, column], first[column], second[column]))
    columns = [np.concatenate(part).astype(np.int32) for part in zip(*parts, strict=True)]
    return ExchangeBlocks(size, members, *columns)
