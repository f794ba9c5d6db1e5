"""The fragility of a board of models, computed from its reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from peerage.boards.fragility import (
    Flip,
    QuerySums,
    fragility_of,
    influence_flip,
    missed_judge,
)
from peerage.boards.model_sums import BASE, ModelSums, sum_votes
from peerage.boards.models import (
    LOWER_IS_BETTER,
    MEANS,
    common_estimates,
    mean_estimates,
    rating_estimates,
)
from peerage.errors import UsageError
from peerage.reports.board_reviews import BoardReviews
from peerage.reviews.cells import Bools, Floats
from peerage.reviews.rows import Rows
from peerage.stats.strengths import strengths

MAX_CELLS = 60_000_000  # queries by models

FlipOf = Callable[[str, str, int | None], Flip | None]


def board_fragility(
    reviews: BoardReviews,
    weights: Floats | None,
    columns: Mapping[str, list[Any]],
    *,
    is_common: bool,
) -> dict[str, Any]:
    """Return how few queries a board depends on, and the judge whose absence changes it most.

    For shares and other means, the number of queries is exact. Ratings and shares on common rivals
    are fitted, so queries are removed in the order of their influence; ratings are fitted again
    without them.
    """
    tables = [*BASE, "absences"]
    tables += ["pairs"] if reviews.options.rule == "bradley_terry" else []
    tables += ["rivals", "meetings"] if is_common else []
    totals = sum_votes(by_query(reviews), tables, reviews.options.own_votes, weights).part(None)
    n_models, n_queries = len(totals.models), totals.n_clusters
    if n_models * n_queries > MAX_CELLS:
        raise UsageError(
            f"{n_models:,} models on {n_queries:,} queries are too many to compute fragility.",
            hint="Choose a shorter window or one category.",
        )
    order = [
        model
        for model, rank in zip(columns["model"], columns["rank"], strict=True)
        if rank is not None
    ]
    units, flip = _flips(totals, reviews.options.rule, is_common)
    return fragility_of(order, units, flip, _missed_judge(totals))


def by_query(reviews: BoardReviews) -> Rows:
    """Return the reviews of a board with each query as its own cluster."""
    rows = reviews.rows()
    cluster, units = rows.queries()
    return replace(rows, cluster=cluster, n_clusters=len(units), units=units)


def _flips(totals: ModelSums, rule: str, is_common: bool) -> tuple[Sequence[str], FlipOf]:
    """Return the queries, and a function that finds the queries whose removal ends a lead."""
    place = {model: i for i, model in enumerate(totals.models)}
    if rule == "bradley_terry":
        return _rating_flips(totals, place)
    if is_common:
        fit = common_estimates(totals, totals, mean_estimates(totals, rule))
        pulls = np.asarray(fit.influences)

        def common(ahead: str, behind: str, _: int | None) -> Flip | None:
            a, b = place[ahead], place[behind]
            lead = float(fit.value[a] - fit.value[b])
            return influence_flip(lead, pulls[:, a] - pulls[:, b])

        return totals.voted_units, common
    top, bottom = (totals.by_cluster(column) for column in MEANS[rule])
    by_query = QuerySums(-top if rule in LOWER_IS_BETTER else top, bottom)

    def exact(ahead: str, behind: str, at_most: int | None) -> Flip | None:
        return by_query.flip(place[ahead], place[behind], at_most)

    return totals.voted_units, exact


def _rating_flips(totals: ModelSums, place: Mapping[str, int]) -> tuple[Sequence[str], FlipOf]:
    """Return the queries with a match, and a function that fits ratings without some of them."""
    fit = rating_estimates(totals)
    pulls = np.asarray(fit.influences)
    above, below, sums = totals.matches()
    codes, query = np.unique(totals.tables["pairs"].cluster, return_inverse=True)
    won, tied, n = sums["won"], sums["tied"] / 2.0, len(totals.models)

    def flip(ahead: str, behind: str, _: int | None) -> Flip | None:
        a, b = place[ahead], place[behind]

        def refit(inside: Bools) -> float:
            used = inside[query]
            points = np.zeros((n, n))
            np.add.at(points, (above[used], below[used]), (won + tied)[used])
            np.add.at(points, (below[used], above[used]), tied[used])
            met = np.flatnonzero((points + points.T).any(axis=0))
            if a not in met or b not in met:
                return np.inf
            logs: Floats = np.zeros(n)
            logs[met] = strengths(points[np.ix_(met, met)])
            return float(logs[a] - logs[b])

        return influence_flip(float(fit.value[a] - fit.value[b]), pulls[:, a] - pulls[:, b], refit)

    units = totals.units or ()
    return [units[code] for code in codes.tolist()], flip


def _missed_judge(totals: ModelSums) -> dict[str, Any] | None:
    """Return the judge whose absence changes a model's share most."""
    reviewer, model, sums = totals.by_reviewer("absences")
    codes, place = np.unique(reviewer, return_inverse=True)
    moved, lost = np.zeros((2, len(codes), len(totals.models)))
    moved[place, model], lost[place, model] = sums["share"], sums["voted"]
    share, voted = totals.by_model["share"], totals.by_model["voted"]
    rest = voted - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.where(rest > 0.0, (share + moved) / rest, np.nan)
        shares = np.where(voted > 0.0, share / voted, np.nan)
    if not np.isfinite(shares).any():
        return None
    names = [totals.names[code] for code in codes.tolist()]
    return missed_judge(names, totals.models, shares, without)
