"""Items and those who wrote them: what a community thinks of each, and what that adds up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.boards import Board
from peerage.boards.opinions import Coefficients, Community, cells_of, ranked, sums_by
from peerage.reviews.rows import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class ItemSums:
    """Per item: how many opinions, what they weigh, and their weighted sum."""

    n: Ints
    weight: Floats
    total: Floats

    def quality(self, n_min: int) -> Floats:
        """The weighted mean opinion, 0 for an item with fewer than `n_min`."""
        known = (self.n >= max(n_min, 1)) & (self.weight > 0.0)
        return np.where(known, self.total, 0.0) / np.where(known, self.weight, 1.0)


def item_sums(
    item: Ints, level: Ints, n_items: int, scale: tuple[float, ...], weights: Floats | None = None
) -> ItemSums:
    """The sums of every item's opinions; with weights 1 they are integers for integer scales."""
    n_levels = len(scale)
    cells = cells_of(item, level, n_levels)
    n = np.bincount(cells, minlength=n_items * n_levels).reshape(-1, n_levels)
    held = n if weights is None else sums_by(cells, weights, n.size).reshape(-1, n_levels)
    weight = held.astype(np.float64)
    return ItemSums(n.sum(axis=1), weight.sum(axis=1), weight @ np.asarray(scale))


def item_weights(quality: Floats, reputation: Floats, coefficients: Coefficients) -> Floats:
    """What each item should weigh in a test: max(0, .7·quality + .3·min(2, ρ/100)).

    ρ is the total score of the item's contributor.
    """
    standing = np.minimum(coefficients.reputation_cap, reputation / 100.0)
    raw = coefficients.quality_weight * quality + coefficients.reputation_weight * standing
    return np.maximum(0.0, raw)


def items(
    community: Community, sums: ItemSums, total_by_person: Floats, coefficients: Coefficients
) -> Board:
    """The items, the best liked first; one without opinions enough has quality 0."""
    quality = sums.quality(coefficients.min_reviews_for_quality)
    weight = item_weights(quality, total_by_person[community.author], coefficients)
    order, _ = ranked(quality)
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


# -- contributors: the sum of what others think of their items, and one bonus ----------------------


@dataclass(frozen=True, slots=True)
class Standings:
    """Everyone's score, by person, at full precision."""

    quality: Floats
    bonus: Floats
    n_items: Ints
    n_scored: Ints
    n_reviews: Ints

    @property
    def total(self) -> Floats:
        return self.quality + self.bonus


def standings(community: Community, sums: ItemSums, coefficients: Coefficients) -> Standings:
    """Σ quality of a person's items, plus the affiliation bonus, once."""
    n, author = community.n_people, community.author
    scored = sums.n >= coefficients.min_reviews_for_quality
    quality = sums.quality(coefficients.min_reviews_for_quality)
    affiliated = np.zeros(n, dtype=bool) if community.affiliated is None else community.affiliated
    return Standings(
        quality=sums_by(author, quality, n),
        bonus=np.where(affiliated, coefficients.affiliation_bonus_points, 0.0),
        n_items=np.bincount(author, minlength=n),
        n_scored=np.bincount(author[scored], minlength=n),
        n_reviews=sums_by(author, sums.n, n).astype(np.int64),
    )


def contributors(
    community: Community,
    scores: Standings,
    *,
    everyone: bool = False,
    only_registered: bool = False,
    sort: str = "total_score",
) -> Board:
    """The contributors, the highest first; those with no item only where everyone is asked for.

    `only_registered` lists the given users and no one else, as the literal scoring does.
    """
    shown: Bools = np.ones(community.n_people, dtype=bool) if everyone else scores.n_items > 0
    if only_registered and community.registered is not None:
        shown = shown & community.registered
    columns = {
        "total_score": scores.total,
        "quality_score": scores.quality,
        "affiliation_bonus": scores.bonus,
        "items": scores.n_items,
        "items_scored": scores.n_scored,
        "reviews_received": scores.n_reviews,
    }
    order, rank = ranked(columns[sort].astype(np.float64), among=shown)
    order = order[: int(np.count_nonzero(shown))]
    return Board(
        "contributors",
        {
            "contributor": community.people[order],
            "rank": rank[order],
            **{name: values[order] for name, values in columns.items()},
        },
    )
