"""The boards of a community: items, contributors and reviewers.

An item is scored by the opinions of others, a contributor by the sum over their items, and a
reviewer by Pearson's r between their opinions and the leave-one-out consensus. All of this follows
from sums: the consensus without one opinion is the item's sums minus that opinion, so pairs of
reviewers are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerage.boards import Board
from peerage.boards.opinions import SAME, Coefficients, Community, cells_of, rank_values, sums_by
from peerage.reviews.cells import Bools, Cells, Floats, Ints, single_cell
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import normal_critical

ByPerson = Mapping[str, NDArray[Any]]  # columns of a board, with a value for each person

N_FOR_CONSENSUS = 3  # distinct opinions on an item, so that at least two are by others
BANDS = ((0.7, "excellent"), (0.3, "good"), (0.0, "fair"))  # r at least -> band
WORST = "poor"
ROUNDING = 1e-13
RANKED, TOO_FEW, UNDEFINED = "ranked", "too_few", "undefined"
BELOW, AT, ABOVE, UNHEARD = range(4)  # the consensus relative to the middle; or no consensus
N_SIDES = 4


class OpinionCounts(NamedTuple):
    """How many opinions count, and how many do not, by reason."""

    counted: int
    own: int  # on the reviewer's own item
    superseded: int  # by a later one of the same reviewer on the same item
    outside: int  # of the window

    @classmethod
    def of(cls, sums: Mapping[str, Cells]) -> OpinionCounts:
        """Return the counts in the sums of opinions."""
        return cls(*sums["counts"].sums[0].astype(int).tolist())


@dataclass(frozen=True, slots=True)
class ReviewerSums:
    """Sums by reviewer: opinions by level and side of the others' consensus, and that consensus."""

    sides: Ints  # people by levels by sides
    consensus: Floats  # people by levels: the sum
    squares: Floats  # people: the sum of its squares

    @classmethod
    def of(cls, columns: Floats, n_levels: int) -> ReviewerSums:
        """Return the sums in the columns of a table with one row per person."""
        n_sides = n_levels * N_SIDES
        sides, consensus, squares = np.split(columns, [n_sides, n_sides + n_levels], axis=1)
        shape = (len(columns), n_levels, N_SIDES)
        return cls(sides.reshape(shape).astype(np.int64), consensus, squares.ravel())

    def columns(self) -> Floats:
        """Return the sums as columns of a table with one row per person."""
        n, n_levels, n_sides = self.sides.shape
        sides = self.sides.reshape(n, n_levels * n_sides)
        return np.column_stack([sides, self.consensus, self.squares])


@dataclass(frozen=True, slots=True)
class ItemSums:
    """Sums by item: the number of opinions, the sum of their weights, and their weighted sum."""

    n: Ints
    weight: Floats
    total: Floats

    def quality(self, n_min: int) -> Floats:
        """Return the weighted mean opinion, 0 for an item with fewer than `n_min` opinions."""
        known = (self.n >= max(n_min, 1)) & (self.weight > 0.0)
        return np.where(known, self.total, 0.0) / np.where(known, self.weight, 1.0)


def item_sums(
    item: Ints, level: Ints, n_items: int, scale: tuple[float, ...], weights: Floats | None = None
) -> ItemSums:
    """Return the sums of every item's opinions, exact if weights are 1 and levels are integers."""
    n_levels = len(scale)
    cells = cells_of(item, level, n_levels)
    n = np.bincount(cells, minlength=n_items * n_levels).reshape(-1, n_levels)
    weight = n.astype(np.float64)
    if weights is not None:
        weight = sums_by(cells, weights, n.size).reshape(-1, n_levels)
    return ItemSums(n.sum(axis=1), weight.sum(axis=1), weight @ np.asarray(scale))


def item_weights(quality: Floats, reputation: Floats, coefficients: Coefficients) -> Floats:
    """Return the weight of each item in a test: max(0, .7·quality + .3·min(2, ρ/100)).

    ρ is the total score of the item's contributor.
    """
    standing = np.minimum(coefficients.reputation_cap, reputation / 100.0)
    raw = coefficients.quality_weight * quality + coefficients.reputation_weight * standing
    return np.maximum(0.0, raw)


def items(
    community: Community, sums: ItemSums, total_by_person: Floats, coefficients: Coefficients
) -> Board:
    """Return the board of items, best first; an item with too few opinions has quality 0."""
    quality = sums.quality(coefficients.min_reviews_for_quality)
    weight = item_weights(quality, total_by_person[community.author], coefficients)
    order, _ = rank_values(quality)
    return Board(
        "items",
        {
            "item_id": community.items[order],
            "contributor": community.people[community.author[order]],
            "quality": quality[order],
            "reviews": sums.n[order],
            "weight": weight[order],
        },
    )


# -- contributors ----------------------------------------------------------------------------------


def standings(community: Community, sums: ItemSums, coefficients: Coefficients) -> ByPerson:
    """Return the columns of the board of contributors for all people, at full precision.

    The total is Σ quality of a person's items, plus the affiliation bonus once.
    """
    n, author = community.n_people, community.author
    scored = sums.n >= coefficients.min_reviews_for_quality
    quality = sums_by(author, sums.quality(coefficients.min_reviews_for_quality), n)
    affiliated = np.zeros(n, dtype=bool) if community.affiliated is None else community.affiliated
    bonus = np.where(affiliated, coefficients.affiliation_bonus_points, 0.0)
    return {
        "total_score": quality + bonus,
        "quality_score": quality,
        "affiliation_bonus": bonus,
        "items": np.bincount(author, minlength=n),
        "items_scored": np.bincount(author[scored], minlength=n),
        "reviews_received": sums_by(author, sums.n, n).astype(np.int64),
    }


def contributors(
    community: Community,
    scores: ByPerson,
    *,
    everyone: bool = False,
    only_registered: bool = False,
    sort: str = "total_score",
) -> Board:
    """Return the board of contributors, the highest first; `everyone` adds people without items.

    `only_registered` lists only the given users, as the published scoring code does (`--literal`).
    """
    listed = (scores["items"] > 0) | everyone
    if only_registered and community.registered is not None:
        listed &= community.registered
    order, rank = rank_values(scores[sort].astype(np.float64), among=listed)
    order = order[: int(np.count_nonzero(listed))]
    return Board(
        "contributors",
        {
            "contributor": community.people[order],
            "rank": rank[order],
            **{name: values[order] for name, values in scores.items()},
        },
    )


# -- reviewers ------------------------------------------------------------------------------------


def sum_opinions(
    community: Community, weights: Floats | None, n_min: int, literal: bool = False
) -> dict[str, Cells]:
    """Return the sums of opinions that count, each compared with other opinions on its item.

    The sums cover some whole items, and sums of different items can be added. `items` has, by item:
    the number of opinions, the sum of their weights, and their weighted sum. `reviewers` has, by
    person: the number of opinions by level and side of the others' consensus; the sum of that
    consensus by level; and the sum of its squares. `counts` has the number of opinions that count,
    and of those that do not because they are on own items, superseded, or outside the window.

    An item has a consensus from `n_min` opinions on. The consensus is weighted like qualities; all
    items of a reviewer count equally. `literal` follows the published scoring code: an item needs
    three opinions of any kind, the consensus leaves out all of the reviewer's opinions on the item
    and needs two by others, and each repeated opinion is a data point.
    """
    scale, level = community.scale, community.level
    items, item = _compact(community.item, community.n_items)
    people, reviewer = _compact(community.reviewer, community.n_people)
    sums = item_sums(item, level, len(items), scale, weights)
    pairs = cells_of(item, reviewer, len(people)) if literal else None
    consensus, side = _leave_one_out(community, sums, item, n_min, weights, pairs)
    by_level = cells_of(reviewer, level, len(scale))
    n, n_levels = len(people), len(scale)
    sides = np.bincount(cells_of(by_level, side, N_SIDES), minlength=n * n_levels * N_SIDES)
    ys = sums_by(by_level, consensus, n * n_levels)
    yys = sums_by(reviewer, consensus * consensus, n)
    by_person = ReviewerSums(sides.reshape(n, n_levels, N_SIDES), ys.reshape(n, n_levels), yys)
    item_columns = np.column_stack([sums.n, sums.weight, sums.total])
    return {
        "counts": single_cell(
            *OpinionCounts(
                counted=community.n,
                own=community.n_own,
                superseded=community.n_superseded,
                outside=community.n_outside,
            )
        ),
        "items": Cells(items, np.zeros_like(items), item_columns),
        "reviewers": Cells(people, np.zeros_like(people), by_person.columns()),
    }


def by_item(sums: Mapping[str, Cells], n_items: int) -> ItemSums:
    """Return the sums of every item, zero for those without opinions."""
    n, weight, total = _dense(sums["items"], n_items).T
    return ItemSums(n.astype(np.int64), weight, total)


def _compact(codes: Ints, n: int) -> tuple[Ints, Ints]:
    """Return the codes that occur, in order, and each row's index among them."""
    there = np.zeros(n, dtype=bool)
    there[codes] = True
    present = np.flatnonzero(there)
    return present, codes if len(present) == n else (np.cumsum(there) - 1)[codes]


def _leave_one_out(
    community: Community,
    sums: ItemSums,
    item: Ints,
    n_min: int,
    weights: Floats | None,
    pairs: Ints | None,
) -> tuple[Floats, Ints]:
    """Return the others' consensus for each opinion's item, and its side of the middle.

    `pairs` has a code for each opinion's item and reviewer; it is given if a reviewer may have
    several opinions on an item.
    """
    at: Ints | slice = slice(None)
    n_min = N_FOR_CONSENSUS if pairs is not None else max(n_min, N_FOR_CONSENSUS)
    if pairs is not None:
        _, pair = np.unique(pairs, return_inverse=True)
        rest: Floats | Ints = sums.n[item] - np.bincount(pair)[pair]
        apart = sums.total[item] - np.bincount(pair, weights=community.value)[pair]
        heard = (sums.n[item] >= n_min) & (rest >= 2)
    elif weights is not None:
        rest = sums.weight[item] - weights
        apart = sums.total[item] - weights * community.value
        # A smaller rest is a rounding error of the subtraction.
        heard = (sums.n[item] >= n_min) & (rest > SAME * sums.weight[item])
    else:  # the consensus depends on item and level only, so look it up in a small table
        n_levels = len(community.scale)
        rest = np.repeat(sums.n - 1, n_levels)
        apart = (sums.total[:, None] - np.asarray(community.scale)).ravel()
        heard = np.repeat(sums.n >= n_min, n_levels)
        at = cells_of(item, community.level, n_levels)
    consensus = np.where(heard, apart / np.where(heard, rest, 1.0), 0.0)
    side = np.where(heard, np.sign(consensus - community.middle).astype(np.int8) + AT, UNHEARD)
    return consensus[at], side[at]


def _dense(cells: Cells, n: int) -> Floats:
    """Return a row of sums for each of n subjects, zero for those without sums."""
    table = np.zeros((n, cells.sums.shape[1]))
    table[cells.subject] = cells.sums
    return table


def alignment(sums: Mapping[str, Cells], n_people: int, scale: tuple[float, ...]) -> ByPerson:
    """Return every reviewer's correlation with the leave-one-out consensus, with its interval.

    The agreement rate is the share of items on which the others lean to the reviewer's side of the
    scale's middle, among the items on which the others lean to a side. NaN means undefined.
    """
    levels = np.asarray(scale)
    by_person = ReviewerSums.of(_dense(sums["reviewers"], n_people), len(levels))
    sides, ys = by_person.sides, by_person.consensus
    counts = sides[:, :, :UNHEARD].sum(axis=2)
    n = counts.sum(axis=1)
    moments = (n, counts @ levels, ys.sum(axis=1), counts @ levels**2, by_person.squares)
    r = _snap_to_bands(correlations_from_sums(np.column_stack((*moments, ys @ levels))))
    low, high = fisher_intervals(r, n)
    return {
        "pearson": r,
        "low": low,
        "high": high,
        "agreement": _agreement(sides, levels),
        "qualifying": n,
        "reviews": sides.sum(axis=(1, 2)),
    }


def _snap_to_bands(r: Floats) -> Floats:
    """Remove rounding errors next to ±1 and the edges of the bands."""
    marks = np.array([-1.0, *sorted(edge for edge, _ in BANDS), 1.0])
    nearest = marks[np.abs(r[:, None] - marks).argmin(axis=1)]
    return np.where(np.abs(r - nearest) < ROUNDING, nearest, r)


def _agreement(sides: Ints, levels: Floats) -> Floats:
    """Return, by person, the share of decided items on which they lean like the others."""
    own = np.sign(levels - (levels[0] + levels[-1]) / 2.0).astype(np.int8) + AT
    decided = (sides[:, :, BELOW] + sides[:, :, ABOVE]).sum(axis=1)
    alike = sum(sides[:, level, side] for level, side in enumerate(own) if side != AT)
    return np.where(decided > 0, alike, np.nan) / np.maximum(decided, 1)


def fisher_intervals(r: Floats, n: Ints) -> tuple[Floats, Floats]:
    """Return Fisher's 95% intervals of many correlations; NaN for too few points or |r| = 1."""
    known = (n >= 4) & (np.abs(r) < 1.0)
    z = np.arctanh(np.where(known, r, 0.0))
    half = normal_critical(0.95) / np.sqrt(np.where(known, n - 3, 1))
    low: Floats = np.where(known, np.tanh(z - half), np.nan)
    high: Floats = np.where(known, np.tanh(z + half), np.nan)
    return low, high


def reviewers(
    community: Community,
    aligned: ByPerson,
    coefficients: Coefficients,
    reputation: Floats | None = None,
    *,
    everyone: bool = False,
    only_registered: bool = False,
) -> Board:
    """Return the board of reviewers, best first; `everyone` adds those with too few items.

    The score is undefined if a reviewer's opinions, or the consensus on the reviewed items, never
    vary: then it is 0, with the status `undefined` and no band.
    """
    enough = aligned["qualifying"] >= coefficients.min_reviews_required
    listed = aligned["reviews"] > 0 if everyone else enough
    if only_registered and community.registered is not None:
        enough, listed = enough & community.registered, listed & community.registered
    undefined = np.isnan(aligned["pearson"])
    score = np.where(undefined, 0.0, aligned["pearson"])
    order, rank = rank_values(score, among=enough)
    order = order[listed[order]]
    r = np.where(enough, score, aligned["pearson"])[order]
    status = np.where(~enough, TOO_FEW, np.where(undefined, UNDEFINED, RANKED))[order]
    weight = np.ones(community.n_people) if reputation is None else reputation
    return Board(
        "reviewers",
        {
            "reviewer": community.people[order],
            "rank": [place or None for place in rank[order].tolist()],
            "pearson": r,
            "low": aligned["low"][order],
            "high": aligned["high"][order],
            "status": status,
            "band": bands(r, status == RANKED),
            **{name: aligned[name][order] for name in ("agreement", "qualifying", "reviews")},
            "reputation": weight[order],
        },
    )


def bands(r: Floats, known: Bools) -> list[str | None]:
    """Return the band of each known score, lower edges inclusive."""
    edges = np.array([edge for edge, _ in reversed(BANDS)])
    names = [WORST, *(name for _, name in reversed(BANDS))]
    places = np.searchsorted(edges, np.where(known, r, 0.0), side="right")
    return [names[i] if ok else None for i, ok in zip(places, known.tolist(), strict=True)]
