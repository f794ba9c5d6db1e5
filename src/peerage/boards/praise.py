"""Exchanges of reviews between people, and the expected share of positive opinions.

Blocks of people who exchange many reviews are found without looking at opinions. Such blocks may be
honest (friends, or people with the same topics): a block is only a place to look. Because opinions
are not used, the blocks stay the same when opinions are dealt again.

Opinions above the middle of the scale are positive. The probability P of a positive opinion depends
on its item and its reviewer's habit: logit P = a_item + b_reviewer (+ g_reviewer,category). Items
are free parameters; habits have normal distributions whose variances are learned (EM, with
Laplace's approximation). A deal keeps the reviewers of each item and its number of positive
opinions; habits and chance decide who gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peerage.boards.opinions import Community, cells_of, sums_by
from peerage.reviews.cells import Bools, Floats, Ints, spans

SIZES = (3, 4, 5, 6, 8, 10, 12, 16, 20)
MOST_COUNTED = 4  # reviews of one by the other; further ones add little
BESIDE, MOST_BESIDE = 0.1, 8
CHUNK = 1 << 20  # pairs looked up at a time
SWEEPS = 60
REFIT_SWEEPS = 2  # for opinions that were dealt again
SETTLED = 1e-3  # logits
MAX_STEP = 1.5  # logits a sweep
MIN_VARIANCE = 0.01  # of habits
SMALLEST = 1e-9
HALF = 0.5  # added to variances, so that sums of a few opinions do not look precise
LATENT_WITHIN = 64.0  # logits; habit plus luck is never further from zero


class Exchange:
    """Pairs of people (a < b, sorted) who reviewed each other's items, from a community.

    The pull of a pair is min(forth, back, 4) + .1·min(forth + back, 8), divided by the fourth root
    of (n_a + 1)·(n_b + 1), where n_a and n_b are the numbers of reviews that the two give.
    """

    def __init__(self, community: Community) -> None:
        self.n_people = n_people = max(community.n_people, 1)
        author = community.author[community.item].astype(np.int64)
        reviewer = community.reviewer.astype(np.int64)
        key = np.minimum(author, reviewer) * n_people + np.maximum(author, reviewer)
        keys, pair = np.unique(key, return_inverse=True)
        forth = np.bincount(pair[reviewer < author], minlength=len(keys))
        back = np.bincount(pair[reviewer > author], minlength=len(keys))
        mutual = (forth > 0) & (back > 0)
        # By opinion: its pair, −1 if the item's author never reviewed the reviewer.
        self.pair: Ints = np.where(mutual, np.cumsum(mutual) - 1, -1)[pair]
        self.keys: Ints = keys[mutual]
        self.a, self.b = np.divmod(self.keys, n_people)
        forth, back = forth[mutual], back[mutual]
        self.n = forth + back  # opinions either way
        n_given = np.bincount(reviewer, minlength=n_people) + 1.0
        pull = np.minimum(np.minimum(forth, back), MOST_COUNTED)
        pull = pull + BESIDE * np.minimum(self.n, MOST_BESIDE)
        self.pull: Floats = pull / (n_given[self.a] * n_given[self.b]) ** 0.25


@dataclass(frozen=True, slots=True)
class ExchangeBlocks:
    """Sets of `size` people: their members (sorted codes), and the pairs among them.

    `pair` has the pairs of all blocks, block after block; `first` and `second` are the indices of
    the two members in their block.
    """

    size: int
    members: Ints
    block: Ints
    pair: Ints
    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.members)

    def sums(self, by_pair: Floats | Ints) -> Floats:
        """Return the sum over each block's pairs."""
        return sums_by(self.block, by_pair[self.pair], len(self))

    def only(self, chosen: Ints) -> ExchangeBlocks:
        """Return some of the blocks, by index."""
        place = np.full(len(self), -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        block = place[self.block]
        columns = (column[block >= 0] for column in (block, self.pair, self.first, self.second))
        return ExchangeBlocks(self.size, self.members[chosen], *columns)


def candidate_blocks(exchange: Exchange) -> Iterator[ExchangeBlocks]:
    """Yield the blocks of each size, each once.

    They are grown from every person by adding the most strongly linked person, again and again.
    """
    grown: dict[int, set[tuple[int, ...]]] = {size: set() for size in SIZES}
    for people in _growth(exchange):
        for size in SIZES:
            if len(people) >= size:
                grown[size].add(tuple(sorted(people[:size])))
    for sets in grown.values():
        if sets:
            yield blocks_of(exchange, np.array(sorted(sets), dtype=np.int64))


def _growth(exchange: Exchange) -> Iterator[list[int]]:
    """Yield, for each person with a pair, that person and the people added one after the other."""
    ends, others = np.hstack(((exchange.a, exchange.b), (exchange.b, exchange.a)))
    order = np.lexsort((others, ends))
    starts = np.searchsorted(ends[order], np.arange(1, exchange.n_people))
    near = np.split(others[order], starts)
    pull_of = np.split(np.tile(exchange.pull, 2)[order], starts)
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


def blocks_of(exchange: Exchange, members: Ints) -> ExchangeBlocks:
    """Return the blocks with these members, and the pairs among them that exchange reviews."""
    n_blocks, size = members.shape
    first, second = np.triu_indices(size, 1)
    parts = []
    step = max(1, CHUNK // len(first))
    for start in range(0, n_blocks, step):
        some = members[start : start + step]
        keys = some[:, first] * exchange.n_people + some[:, second]
        place = np.minimum(np.searchsorted(exchange.keys, keys), len(exchange.keys) - 1)
        block, column = np.nonzero(exchange.keys[place] == keys)
        parts.append((block + start, place[block, column], first[column], second[column]))
    columns = [np.concatenate(part).astype(np.int32) for part in zip(*parts, strict=True)]
    return ExchangeBlocks(size, members, *columns)


# -- habits and chances ----------------------------------------------------------------------------


class Exposure:
    """The reviews of a community sorted by item, without their opinions.

    A habit is learned from opinions on people who never reviewed the reviewer; if those are fewer
    than half, from all of the reviewer's opinions. `teaches` is 1 for the rows used. `habits` has
    each row's code in each set of habits: reviewers, and reviewers by category if there are
    categories.
    """

    def __init__(self, community: Community, exchanged: Bools) -> None:
        reviewer = community.reviewer.astype(np.int64)
        item, n_people = community.item, community.n_people
        self.starts = np.flatnonzero(np.append(True, item[1:] != item[:-1]))
        self.n_by_item = np.diff(np.append(self.starts, len(item)))
        n_given = np.bincount(reviewer, minlength=n_people)
        n_apart = np.bincount(reviewer[~exchanged], minlength=n_people)
        self.teaches: Floats = (~exchanged | (2 * n_apart < n_given)[reviewer]).astype(np.float64)
        self.habits: list[Ints] = [reviewer]
        self.n_habits = [n_people]
        if community.category is not None:
            category = community.category[item] + 1
            cells = cells_of(reviewer, category, int(category.max(initial=0)) + 1)
            cells, codes = np.unique(cells, return_inverse=True)
            self.habits.append(codes)
            self.n_habits.append(len(cells))

    def by_item(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.starts)

    def spread(self, values: Floats) -> Floats:
        """Return a value of each item, repeated for its rows."""
        return np.repeat(values, self.n_by_item)

    def latent(self, habits: Sequence[Floats]) -> Floats:
        """Return the sum of the habits for each row."""
        total: Floats = habits[0][self.habits[0]]
        for values, codes in zip(habits[1:], self.habits[1:], strict=True):
            total += values[codes]
        return total


@dataclass(frozen=True, slots=True)
class HabitFit:
    """Items and habits in logits, the habits' precisions and variances, and row probabilities."""

    items: Floats
    habits: tuple[Floats, ...]
    precisions: tuple[Floats, ...]
    variances: tuple[float, ...]
    chance: Floats


def informative(community: Community) -> tuple[NDArray[np.intp], Bools]:
    """Return the rows of items with both kinds of opinion, by item, and which are positive."""
    above = np.asarray(community.scale) > community.middle
    positive = above[community.level]
    n = np.bincount(community.item, minlength=community.n_items)
    n_positive = np.bincount(community.item[positive], minlength=community.n_items)
    rows = np.flatnonzero(((n_positive > 0) & (n_positive < n))[community.item])
    rows = rows[np.argsort(community.item[rows], kind="stable")]
    return rows, positive[rows]


def fit(exposed: Exposure, positive: Bools, real: HabitFit | None = None) -> HabitFit:
    """Return the habits and items that fit the opinions best, and the habits' variances.

    For opinions that were dealt again, a few sweeps start from the fit to the `real` ones, which is
    near, and keep its variances.
    """
    n_positive = exposed.by_item(positive.astype(np.float64))
    now = _start(exposed, n_positive) if real is None else real
    for _ in range(SWEEPS if real is None else REFIT_SWEEPS):
        before = now.items
        now = _habits(exposed, positive, now, learn=real is None)
        now = _items(exposed, n_positive, now)
        if real is None and float(np.abs(now.items - before).max()) < SETTLED:
            break
    return _items(exposed, n_positive, now)


def _start(exposed: Exposure, n_positive: Floats) -> HabitFit:
    """Return initial values: no habits, and items at the logits of their shares of positives."""
    share = n_positive / exposed.n_by_item
    return HabitFit(
        np.log(share / (1.0 - share)),
        tuple(np.zeros(n) for n in exposed.n_habits),
        tuple(np.ones(n) for n in exposed.n_habits),
        (0.5,) * len(exposed.n_habits),
        exposed.spread(share),
    )


def _chances(exposed: Exposure, items: Floats, habits: Sequence[Floats]) -> Floats:
    logits = exposed.latent(habits)
    logits += exposed.spread(items)
    np.negative(logits, out=logits)
    np.exp(logits, out=logits)
    logits += 1.0
    return np.reciprocal(logits, out=logits)


def _items(exposed: Exposure, n_positive: Floats, now: HabitFit) -> HabitFit:
    """Return one Newton step of every item, towards its number of positive opinions."""
    chance = now.chance
    weight = exposed.by_item(chance * (1.0 - chance))
    step = (n_positive - exposed.by_item(chance)) / np.maximum(weight, SMALLEST)
    items = now.items + np.clip(step, -MAX_STEP, MAX_STEP)
    return replace(now, items=items, chance=_chances(exposed, items, now.habits))


def _habits(exposed: Exposure, positive: Bools, now: HabitFit, learn: bool) -> HabitFit:
    """Return one Newton step of every habit, and of its variance if `learn` is set."""
    habits, precisions, variances = list(now.habits), list(now.precisions), list(now.variances)
    chance = now.chance
    for k, (codes, n) in enumerate(zip(exposed.habits, exposed.n_habits, strict=True)):
        slope = sums_by(codes, (positive - chance) * exposed.teaches, n) - habits[k] / variances[k]
        weight = sums_by(codes, chance * (1.0 - chance) * exposed.teaches, n)
        precisions[k] = weight + 1.0 / variances[k]
        habits[k] = habits[k] + np.clip(slope / precisions[k], -MAX_STEP, MAX_STEP)
        if learn and (weight > 0.0).any():
            taught = weight > 0.0
            spread = habits[k][taught] ** 2 + 1.0 / precisions[k][taught]
            variances[k] = max(MIN_VARIANCE, float(spread.mean()))
        chance = _chances(exposed, now.items, habits)
    return HabitFit(now.items, tuple(habits), tuple(precisions), tuple(variances), chance)


def deal_again(
    exposed: Exposure, n_positive: Ints, real: HabitFit, rng: np.random.Generator
) -> Bools:
    """Return opinions dealt again by habits and chance, with each item's positives unchanged.

    Habits are drawn from their posterior; then in each item the opinions with the largest sum of
    habit and logistic noise are positive.
    """
    drawn = [
        mean + rng.standard_normal(len(mean)) / np.sqrt(precision)
        for mean, precision in zip(real.habits, real.precisions, strict=True)
    ]
    luck = rng.random(len(exposed.teaches))
    latent = exposed.latent(drawn)
    latent += np.log(np.maximum(luck, SMALLEST) / (1.0 - luck))
    # The values of each item get an interval of their own, so that one sort orders all items.
    latent /= 2.0 * LATENT_WITHIN
    np.clip(latent, -0.49, 0.49, out=latent)
    latent += exposed.spread(np.arange(len(exposed.starts), dtype=np.float64))
    ordered = np.sort(latent)
    least = ordered[exposed.starts + exposed.n_by_item - n_positive]
    return latent >= exposed.spread(least)


# -- weights of blocks -------------------------------------------------------------------------


class Praise:
    """Informative opinions (a community sorted by item) and their fitted probabilities.

    `pair` is each opinion's pair in the exchange. `rows` are the exchanged opinions, pair after
    pair, and `starts` has the start of each pair, and the end.
    """

    def __init__(self, community: Community, positive: Bools, pair: Ints, n_pairs: int) -> None:
        self.community, self.positive = community, positive
        self.exposed = exposed = Exposure(community, pair >= 0)
        self.real = fit(exposed, positive)
        self.n_positive = np.add.reduceat(positive.astype(np.int64), exposed.starts)  # by item
        rows = np.argsort(pair, kind="stable")
        self.rows: Ints = rows[np.searchsorted(pair[rows], 0) :]
        self.starts = np.searchsorted(pair[self.rows], np.arange(n_pairs + 1))
        # By opinion: its information (the variance of its chance), the sum of this over its item,
        # the standard error of the reviewer's habit (in logits), and the index of its item.
        self.weight = self.real.chance * (1.0 - self.real.chance)
        self.item_weight = exposed.spread(exposed.by_item(self.weight))
        self.habit_sd = np.sqrt(exposed.latent([1.0 / known for known in self.real.precisions]))
        self.place = np.repeat(np.arange(len(exposed.starts)), exposed.n_by_item)

    def excess(self, positive: Bools, now: HabitFit) -> Floats:
        """Return, by pair, the positive opinions minus the expected number."""
        excess = positive[self.rows] - now.chance[self.rows]
        total = np.append(0.0, np.cumsum(excess))
        return total[self.starts[1:]] - total[self.starts[:-1]]

    def evidence(self, rows: Ints, cell: Ints) -> Floats:
        """Return the information of opinions inside a block; `cell` is a code of block and item.

        The larger the block's share of an item's weight, the less information its opinions carry:
        an item without outsiders carries none.
        """
        own = sums_by(cell, self.weight[rows], 0)[cell]
        return self.weight[rows] * np.maximum(0.0, 1.0 - own / self.item_weight[rows])


def weigh_blocks(
    praise: Praise, exchange: Exchange, blocks: ExchangeBlocks
) -> tuple[Floats, Floats]:
    """Return the weight of each block's exchanged opinions (D) and the variance of its excess (V).

    V is D plus the uncertainty of the members' habits.
    """
    reviewer, n_items = praise.community.reviewer, len(praise.exposed.starts)
    n_rows = np.diff(praise.starts)[blocks.pair]
    ends = np.append(0, np.cumsum(n_rows))
    limits = np.searchsorted(blocks.block, np.arange(len(blocks) + 1))
    weight, variance = np.zeros(len(blocks)), np.zeros(len(blocks))
    start = 0
    while start < len(blocks):
        stop = int(np.searchsorted(ends[limits], ends[limits[start]] + CHUNK, side="right")) - 1
        stop = min(max(stop, start + 1), len(blocks))
        chunk = slice(limits[start], limits[stop])
        place, at = spans(praise.starts[blocks.pair[chunk]], n_rows[chunk])
        which, row = place + limits[start], praise.rows[at]
        block = blocks.block[which].astype(np.int64) - start
        _, cell = np.unique(block * n_items + praise.place[row], return_inverse=True)
        evidence = praise.evidence(row, cell)
        by_first = reviewer[row] == exchange.a[blocks.pair[which]]
        seat = block * blocks.size + np.where(by_first, blocks.first[which], blocks.second[which])
        n = stop - start
        unsure = sums_by(seat, evidence * praise.habit_sd[row], n * blocks.size)
        weight[start:stop] = sums_by(block, evidence, n)
        variance[start:stop] = (unsure.reshape(n, blocks.size) ** 2).sum(axis=1)
        start = stop
    return weight, variance + weight
