"""Opinions as arrays: who may speak, which word stands, and what it weighs.

Names are places in sorted lists, so ties that are broken by name are broken by code. A
community holds what was imported; `eligible` is what every board counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from peerage.errors import ConfigError, UsageError
from peerage.reviews.rows import Bools, Floats, Ints
from peerage.types import CommunityCoefficients

Names = NDArray[np.object_]

DAY_S = 86_400.0
FADED = 1_000.0  # half-lives after which a weight is kept from vanishing, so that ratios stay
SAME = 1e-11  # scores this close are the same score, differently added


@dataclass(frozen=True, slots=True)
class Coefficients(CommunityCoefficients):
    """The numbers of the community boards, their scale sorted and checked."""

    def __post_init__(self) -> None:
        levels = tuple(sorted({float(level) for level in self.scale}))
        if len(levels) < 2 or not np.isfinite(levels).all():
            raise ConfigError(
                f"an opinion scale needs two levels or more, not {list(self.scale)}.",
                place="[community] scale",
                hint="Write [-1, 1], or [-1, 0, 1, 2].",
            )
        object.__setattr__(self, "scale", levels)


@dataclass(frozen=True, slots=True)
class Community:
    """People, items and opinions; arrays by person, by item and by opinion.

    `level` is an opinion's place on the scale. `category` is −1 where an item has none.
    `registered` is None where no list of users was given.
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
    n_own: int = 0  # left out: opinions on one's own items
    n_superseded: int = 0  # left out: an earlier word on the same item
    n_outside: int = 0  # left out: given before or after the window
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
        """Above it an opinion supports."""
        return (self.scale[0] + self.scale[-1]) / 2.0

    def only(self, rows: Ints | Bools | slice) -> Community:
        """The same people and items with some of the opinions."""
        return replace(
            self,
            item=self.item[rows],
            reviewer=self.reviewer[rows],
            level=self.level[rows],
            at=None if self.at is None else self.at[rows],
        )


@dataclass(frozen=True, slots=True)
class Counting:
    """Which opinions count, and what they weigh by their age."""

    category: str | None = None
    since_s: float | None = None
    as_of: float | None = None  # None where no opinion has a time
    half_life_days: float | None = None
    literal: bool = False  # own and repeated opinions count too


def counted(community: Community, how: Counting) -> Community:
    """The opinions that count, of the items of the category if there is one.

    Those of a window that ends at `as_of`; items and people stay.
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
    """One number for each (code, level)."""
    cells = codes.astype(np.int64)
    cells *= n_levels
    cells += level
    return cells


def pair_keys(community: Community) -> NDArray[np.int64]:
    """One number for each (item, reviewer)."""
    return cells_of(community.item, community.reviewer, max(community.n_people, 1))


def eligible(community: Community) -> Community:
    """What counts: no opinion on one's own item, and of several on one item the last.

    Last by time, then by row. Both kinds that are left out are counted, and the history
    stays in the community that was handed in.
    """
    out = community.author[community.item] == community.reviewer
    n_own = int(np.count_nonzero(out))
    replaced = _replaced(community, out)
    out[replaced] = True
    rest = community.only(~out) if n_own or len(replaced) else community
    return replace(rest, n_own=n_own, n_superseded=len(replaced))


def _replaced(community: Community, own: Bools) -> NDArray[np.intp]:
    """The rows that a later word on the same item of someone else's replaces.

    Few pairs are repeated in most tables. So the keys are cut to 32 bits, which sort twice as
    fast, and only rows whose short key comes up again are looked at as a whole.
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
    rows = rows[np.lexsort((times, keys[rows]))]  # stable: equal times stay in the order of rows
    return rows[:-1][keys[rows[1:]] == keys[rows[:-1]]]


def of_category(community: Community, category: str) -> Community:
    """The items of one category and the opinions on them; everyone stays."""
    if not community.n_items:
        return community
    if community.category is None or community.categories is None:
        raise UsageError(
            f"nothing here has a category, so none is {category!r}.",
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
    """What each opinion still weighs: half after a half-life; None where all weigh the same."""
    if how.half_life_days is None or community.at is None or how.as_of is None:
        return None
    ages = np.maximum(how.as_of - community.at, 0.0) / (how.half_life_days * DAY_S)
    return np.exp2(-np.minimum(ages, FADED))


def ranked(values: Floats, *, among: Bools | None = None) -> tuple[Ints, Ints]:
    """The order, best first, and the rank of each: equal values share one ("1224").

    Those not `among` the ranked come last with rank 0. Values closer than rounding are
    equal, and listed in the order of their codes, which is that of their names.
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
    if ((np.diff(listed) < 0) & ~new[1:]).any():  # equals that rounding has put out of order
        listed = listed[np.lexsort((listed, group))]
    return np.concatenate((listed, np.sort(rest))), ranks


def sums_by(codes: Ints, values: Floats | Ints | Bools, n: int) -> Floats:
    """The sum of the values of each code."""
    weights = np.asarray(values, dtype=np.float64)
    return np.bincount(codes, weights=weights, minlength=n).astype(np.float64, copy=False)
