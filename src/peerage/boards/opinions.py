"""Opinions as arrays: which opinions count, and their weights.

Names are indices into sorted lists, so ordering by code orders by name. A community has all
imported opinions; every board counts those that `eligible` keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from peerage.errors import ConfigError, UsageError
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.types import CommunityCoefficients

Names = NDArray[np.object_]

DAY_S = 86_400.0
FADED = 1_000.0  # half-lives after which a weight stops shrinking, so that ratios stay defined
SAME = 1e-11  # scores closer than this differ only by rounding


@dataclass(frozen=True, slots=True)
class Coefficients(CommunityCoefficients):
    """The coefficients of the community boards, with the scale sorted and checked."""

    def __post_init__(self) -> None:
        levels = tuple(sorted({float(level) for level in self.scale}))
        if len(levels) < 2 or not np.isfinite(levels).all():
            raise ConfigError(
                f"an opinion scale needs at least two levels, got {list(self.scale)}.",
                place="[community] scale",
                hint="Write [-1, 1], or [-1, 0, 1, 2].",
            )
        object.__setattr__(self, "scale", levels)


@dataclass(frozen=True, slots=True)
class Community:
    """People, items and opinions; arrays by person, by item and by opinion.

    `level` is the index of an opinion on the scale. `category` is −1 for an item without one.
    `registered` is None without a table of users.
    """

    people: Names
    items: Names
    author: Ints  # by item: a person
    item: Ints
    reviewer: Ints
    level: Ints
    scale: tuple[float, ...] = (-1.0, 1.0)
    at: Floats | None = None  # seconds; never NaN here
    affiliated: Bools | None = None
    registered: Bools | None = None
    category: Ints | None = None
    categories: Names | None = None
    n_own: int = 0  # left out: opinions on own items
    n_superseded: int = 0  # left out: earlier opinions on the same item
    n_outside: int = 0  # left out: opinions outside the window
    flags: tuple[str, ...] = field(default=())

    @property
    def n(self) -> int:
        return len(self.item)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_people(self) -> int:
        return len(self.people)

    @property
    def value(self) -> Floats:
        return np.asarray(self.scale, dtype=np.float64)[self.level]

    @property
    def middle(self) -> float:
        """Return the middle of the scale; an opinion above it is positive."""
        return (self.scale[0] + self.scale[-1]) / 2.0

    def only(self, rows: Ints | Bools | slice) -> Community:
        """Return the same people and items with some of the opinions."""
        return replace(
            self,
            item=self.item[rows],
            reviewer=self.reviewer[rows],
            level=self.level[rows],
            at=None if self.at is None else self.at[rows],
        )


@dataclass(frozen=True, slots=True)
class Counting:
    """Options that select opinions and weigh them by age."""

    category: str | None = None
    since_s: float | None = None
    as_of: float | None = None  # None if no opinion has a time
    half_life_days: float | None = None
    literal: bool = False  # own and repeated opinions count too


def select_opinions(community: Community, how: Counting) -> Community:
    """Return the opinions that count: of one category if given, within the window.

    The window ends at `as_of`; it does not affect items and people.
    """
    if how.category is not None:
        community = of_category(community, how.category)
    if community.at is not None and how.as_of is not None:
        inside = community.at <= how.as_of
        if how.since_s is not None:
            inside &= community.at >= how.as_of - how.since_s
        if n_outside := len(inside) - int(np.count_nonzero(inside)):
            community = replace(community.only(inside), n_outside=n_outside)
    return community if how.literal else eligible(community)


def cells_of(codes: Ints, level: Ints, n_levels: int) -> NDArray[np.int64]:
    """Return one number for each (code, level)."""
    cells = codes.astype(np.int64)
    cells *= n_levels
    cells += level
    return cells


def pair_keys(community: Community) -> NDArray[np.int64]:
    """Return one number for each (item, reviewer)."""
    return cells_of(community.item, community.reviewer, max(community.n_people, 1))


def eligible(community: Community) -> Community:
    """Remove opinions on own items, and all but the last opinion of a reviewer on an item.

    "Last" is by time, then by row. The result has the number of opinions removed for each reason;
    the given community is unchanged.
    """
    out = community.author[community.item] == community.reviewer
    n_own = int(np.count_nonzero(out))
    superseded = _superseded_rows(community, out)
    out[superseded] = True
    rest = community.only(~out) if n_own or len(superseded) else community
    return replace(rest, n_own=n_own, n_superseded=len(superseded))


def _superseded_rows(community: Community, own: Bools) -> NDArray[np.intp]:
    """Return the rows that a later opinion of the same reviewer on the same item replaces.

    Most tables repeat few pairs. So the keys are shortened to 32 bits, which sort twice as
    fast, and only rows whose short key repeats are compared in full.
    """
    keys = pair_keys(community)
    short = keys.astype(np.uint32)
    ordered = np.sort(short)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    mask = np.uint32((1 << max(10, len(again).bit_length() + 4)) - 1)
    suspects = np.zeros(int(mask) + 1, dtype=bool)
    suspects[again & mask] = True
    rows = np.flatnonzero(suspects[short & mask] & ~own)
    times = np.zeros(len(rows)) if community.at is None else community.at[rows]
    rows = rows[np.lexsort((times, keys[rows]))]  # stable: equal times keep the order of rows
    return rows[:-1][keys[rows[1:]] == keys[rows[:-1]]]


def of_category(community: Community, category: str) -> Community:
    """Return the items of one category and the opinions on them, with all people."""
    if not community.n_items:
        return community
    if community.category is None or community.categories is None:
        raise UsageError(
            f"no item has a category, so {category!r} cannot be selected.",
            hint="Give opinions or items a `category` column.",
        )
    chosen = np.isin(community.category, np.flatnonzero(community.categories == category))
    place = np.cumsum(chosen) - 1
    rows = community.only(chosen[community.item])
    return replace(
        rows,
        items=community.items[chosen],
        author=community.author[chosen],
        category=community.category[chosen],
        item=place[rows.item].astype(np.int32),
    )


def decay(community: Community, how: Counting) -> Floats | None:
    """Return each opinion's weight, which halves with every half-life; None if all are equal."""
    if how.half_life_days is None or community.at is None or how.as_of is None:
        return None
    ages = np.maximum(how.as_of - community.at, 0.0) / (how.half_life_days * DAY_S)
    return np.exp2(-np.minimum(ages, FADED))


def rank_values(values: Floats, *, among: Bools | None = None) -> tuple[Ints, Ints]:
    """Return the order, best first, and the rank of each; equal values share a rank ("1224").

    Values that are not `among` the ranked come last with rank 0. Values that differ only by
    rounding are equal and listed in the order of their codes, which is that of their names.
    """
    if among is None:
        order, n_ranked = np.argsort(-values, kind="stable"), len(values)
    else:
        order, n_ranked = np.lexsort((-values, ~among)), int(np.count_nonzero(among))
    best = values[order[:n_ranked]]
    new = np.append(True, best[:-1] - best[1:] > SAME)[:n_ranked]
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[order[:n_ranked]] = starts[group] + 1
    listed, rest = order[:n_ranked], order[n_ranked:]
    if ((np.diff(listed) < 0) & ~new[1:]).any():  # equal values that rounding has reordered
        listed = listed[np.lexsort((listed, group))]
    return np.concatenate((listed, np.sort(rest))), ranks


def sums_by(codes: Ints, values: Floats | Ints | Bools, n: int) -> Floats:
    """Return the sum of the values of each code."""
    weights = np.asarray(values, dtype=np.float64)
    return np.bincount(codes, weights=weights, minlength=n).astype(np.float64, copy=False)
