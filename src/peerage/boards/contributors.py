"""Contributors: the sum of what others think of their items, and one bonus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.boards import Board
from peerage.boards.items import ItemSums
from peerage.boards.opinions import Bools, Coefficients, Community, Floats, Ints, ranked, sums_by


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
