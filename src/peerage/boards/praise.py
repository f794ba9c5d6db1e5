"""How positive an opinion was to be expected to be, and opinions dealt again within items.

Opinions above the middle of the scale are positive. The chance of one is that of its item and
of its reviewer's habit: logit P = a_item + b_reviewer (+ g_reviewer,category). Items are free,
habits are drawn from normal distributions whose variances are learned (EM, with Laplace's
approximation). A deal keeps who reviewed what and how many positive opinions each item got,
and lets habits and luck decide whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peerage.boards.exchange import CHUNK, Exchange, ExchangeBlocks
from peerage.boards.opinions import Community, cells_of, sums_by
from peerage.reviews.rows import Bools, Floats, Ints

SWEEPS = 60
REFIT_SWEEPS = 2  # from the fit to the real opinions, which is near
SETTLED = 1e-3  # logits
MAX_STEP = 1.5  # logits a sweep
MIN_VARIANCE = 0.01  # of habits
SMALLEST = 1e-9
HALF = 0.5  # of an opinion: keeps sums of few from looking precise
LATENT_WITHIN = 64.0  # logits: habits and luck are never as far out


@dataclass(frozen=True, slots=True)
class Exposure:
    """Who reviewed what, the opinions left aside: rows sorted by item, none without a row.

    `habits` has the codes of each row in each set of habits: reviewers, and reviewers within
    categories where there are any. `teaches` is 1 where a row may teach a habit.
    """

    starts: Ints
    n_by_item: Ints
    habits: tuple[Ints, ...]
    n_habits: tuple[int, ...]
    teaches: Floats

    def by_item(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.starts)

    def spread(self, values: Floats) -> Floats:
        """What each item has, by row."""
        return np.repeat(values, self.n_by_item)

    def latent(self, habits: Sequence[Floats]) -> Floats:
        """The sum of the habits behind each row."""
        total: Floats = habits[0][self.habits[0]]
        for values, codes in zip(habits[1:], self.habits[1:], strict=True):
            total += values[codes]
        return total


@dataclass(frozen=True, slots=True)
class HabitFit:
    """Items and habits in logits, the habits' precisions and variances, the chances by row."""

    items: Floats
    habits: tuple[Floats, ...]
    precisions: tuple[Floats, ...]
    variances: tuple[float, ...]
    chance: Floats


def informative(community: Community) -> tuple[NDArray[np.intp], Bools]:
    """The rows of items that got both kinds of opinion, sorted by item, and which are positive."""
    above = np.asarray(community.scale) > community.middle
    positive = above[community.level]
    n = np.bincount(community.item, minlength=community.n_items)
    n_positive = np.bincount(community.item[positive], minlength=community.n_items)
    rows = np.flatnonzero(((n_positive > 0) & (n_positive < n))[community.item])
    rows = rows[np.argsort(community.item[rows], kind="stable")]
    return rows, positive[rows]


def exposure(community: Community, exchanged: Bools) -> Exposure:
    """The exposure of a community sorted by item.

    A habit is learned from opinions on people who never reviewed the reviewer; from all of
    the reviewer's opinions where those are fewer than half.
    """
    reviewer = community.reviewer.astype(np.int64)
    item, n_people = community.item, community.n_people
    starts = np.flatnonzero(np.append(True, item[1:] != item[:-1]))
    n_given = np.bincount(reviewer, minlength=n_people)
    n_apart = np.bincount(reviewer[~exchanged], minlength=n_people)
    teaches = ~exchanged | (2 * n_apart < n_given)[reviewer]
    habits, n_habits = [reviewer], [n_people]
    if community.category is not None:
        category = community.category[item] + 1
        cells = cells_of(reviewer, category, int(category.max(initial=0)) + 1)
        kept, codes = np.unique(cells, return_inverse=True)
        habits.append(codes)
        n_habits.append(len(kept))
    n_by_item = np.diff(np.append(starts, len(item)))
    return Exposure(starts, n_by_item, tuple(habits), tuple(n_habits), teaches.astype(np.float64))


def fit(exposed: Exposure, positive: Bools) -> HabitFit:
    """The habits and items that make the opinions likeliest, and the habits' variances."""
    n_positive = exposed.by_item(positive.astype(np.float64))
    share = n_positive / exposed.n_by_item
    now = HabitFit(
        np.log(share / (1.0 - share)),
        tuple(np.zeros(n) for n in exposed.n_habits),
        tuple(np.ones(n) for n in exposed.n_habits),
        (0.5,) * len(exposed.n_habits),
        exposed.spread(share),
    )
    for _ in range(SWEEPS):
        before = now.items
        now = _items(exposed, n_positive, _habits(exposed, positive, now, learn=True))
        if float(np.abs(now.items - before).max()) < SETTLED:
            break
    return _items(exposed, n_positive, now)


def refit(exposed: Exposure, positive: Bools, real: HabitFit) -> HabitFit:
    """The fit to opinions that were dealt again, from the fit to the real ones."""
    n_positive = exposed.by_item(positive.astype(np.float64))
    now = real
    for _ in range(REFIT_SWEEPS):
        now = _items(exposed, n_positive, _habits(exposed, positive, now))
    return _items(exposed, n_positive, now)


def _chances(exposed: Exposure, items: Floats, habits: Sequence[Floats]) -> Floats:
    logits = exposed.latent(habits)
    logits += exposed.spread(items)
    np.negative(logits, out=logits)
    np.exp(logits, out=logits)
    logits += 1.0
    return np.reciprocal(logits, out=logits)


def _items(exposed: Exposure, n_positive: Floats, now: HabitFit) -> HabitFit:
    """One Newton step of every item towards chances that add up to its positive opinions."""
    chance = now.chance
    weight = exposed.by_item(chance * (1.0 - chance))
    step = (n_positive - exposed.by_item(chance)) / np.maximum(weight, SMALLEST)
    items = now.items + np.clip(step, -MAX_STEP, MAX_STEP)
    return replace(now, items=items, chance=_chances(exposed, items, now.habits))


def _habits(exposed: Exposure, positive: Bools, now: HabitFit, learn: bool = False) -> HabitFit:
    """One Newton step of every habit, and of its variance where that is to be learned."""
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
    """Opinions as habits and luck would have dealt them, as many positive in each item as it got.

    Habits are drawn from what is known of them; then in each item those with the largest sum
    of habit and logistic luck are positive.
    """
    drawn = [
        mean + rng.standard_normal(len(mean)) / np.sqrt(precision)
        for mean, precision in zip(real.habits, real.precisions, strict=True)
    ]
    luck = rng.random(len(exposed.teaches))
    latent = exposed.latent(drawn)
    latent += np.log(np.maximum(luck, SMALLEST) / (1.0 - luck))
    # Each item has a stretch of the line to itself, so that one sort orders within all of them.
    latent /= 2.0 * LATENT_WITHIN
    np.clip(latent, -0.49, 0.49, out=latent)
    latent += exposed.spread(np.arange(len(exposed.starts), dtype=np.float64))
    ordered = np.sort(latent)
    least = ordered[exposed.starts + exposed.n_by_item - n_positive]
    return latent >= exposed.spread(least)


# -- what blocks of people weigh ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Praise:
    """Informative opinions and their chances; `rows` are those exchanged, pair after pair."""

    community: Community  # those opinions alone, by item
    exposed: Exposure
    real: HabitFit
    positive: Bools
    n_positive: Ints  # by item
    rows: Ints
    starts: Ints  # by pair, and the end
    weight: Floats  # what an opinion tells: the variance of its chance
    item_weight: Floats  # of all opinions on its item
    habit_sd: Floats  # how far the reviewer's habit is from known, in logits
    place: Ints  # of its item among the informative

    def excess(self, positive: Bools, now: HabitFit) -> Floats:
        """By pair: positive opinions beyond their chances."""
        excess = positive[self.rows] - now.chance[self.rows]
        total = np.append(0.0, np.cumsum(excess))
        return total[self.starts[1:]] - total[self.starts[:-1]]

    def told(self, rows: Ints, cell: Ints) -> Floats:
        """What opinions inside a block tell; `cell` is alike for those on one item.

        The less, the more of the item's weight is the block's own: an item without outsiders
        says nothing.
        """
        own = sums_by(cell, self.weight[rows], 0)[cell]
        return self.weight[rows] * np.maximum(0.0, 1.0 - own / self.item_weight[rows])


def expected_praise(community: Community, positive: Bools, pair: Ints, n_pairs: int) -> Praise:
    """The chance of each informative opinion to be positive, fitted."""
    exposed = exposure(community, pair >= 0)
    real = fit(exposed, positive)
    weight = real.chance * (1.0 - real.chance)
    rows = np.argsort(pair, kind="stable")
    rows = rows[np.searchsorted(pair[rows], 0) :]
    unsure = [1.0 / precision for precision in real.precisions]
    return Praise(
        community,
        exposed,
        real,
        positive,
        np.add.reduceat(positive.astype(np.int64), exposed.starts),
        rows,
        np.searchsorted(pair[rows], np.arange(n_pairs + 1)),
        weight,
        exposed.spread(exposed.by_item(weight)),
        np.sqrt(exposed.latent(unsure)),
        np.repeat(np.arange(len(exposed.starts)), exposed.n_by_item),
    )


def weigh_blocks(
    praise: Praise, exchange: Exchange, blocks: ExchangeBlocks
) -> tuple[Floats, Floats]:
    """What each block's exchanged opinions weigh (D), and the variance of their excess (V).

    V adds to D what is not known of the members' habits.
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
        held = slice(limits[start], limits[stop])
        n_held = n_rows[held]
        which = np.repeat(np.arange(limits[start], limits[stop]), n_held)
        within = np.arange(len(which)) - np.repeat(ends[held] - ends[held.start], n_held)
        row = praise.rows[praise.starts[blocks.pair[which]] + within]
        block = blocks.block[which].astype(np.int64) - start
        _, cell = np.unique(block * n_items + praise.place[row], return_inverse=True)
        told = praise.told(row, cell)
        by_first = reviewer[row] == exchange.a[blocks.pair[which]]
        seat = block * blocks.size + np.where(by_first, blocks.first[which], blocks.second[which])
        n = stop - start
        unsure = sums_by(seat, told * praise.habit_sd[row], n * blocks.size)
        weight[start:stop] = sums_by(block, told, n)
        variance[start:stop] = (unsure.reshape(n, blocks.size) ** 2).sum(axis=1)
        start = stop
    return weight, variance + weight
