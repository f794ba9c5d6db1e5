"""The fragility of a board of models, computed from its reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from peerage.boards.common_cells import compare_results, pair_cells
from peerage.boards.fragility import (
    SAME,
    Flip,
    QuerySums,
    fragility_of,
    influence_flip,
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

DECIMALS = 12
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
    rows, tables = by_query(reviews), [*BASE]
    tables += ["pairs"] if reviews.options.rule == "bradley_terry" else []
    tables += ["rivals", "meetings"] if is_common else []
    totals = sum_votes(rows, tables, reviews.options.own_votes, weights).part(None)
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
    return fragility_of(order, units, flip, _missed_judge(rows))


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


def _missed_judge(rows: Rows) -> dict[str, Any] | None:
    """Return the judge whose absence changes a model's share most; None with one judge.

    All judges and all others are compared on the pairs of answers that both judged.
    """
    if rows.part is not None:
        rows = rows.only(rows.part[rows.session] >= 0)
    cells = pair_cells(rows)
    everyone, largest = cells.results(), None
    judges = np.unique(cells.judge).tolist()
    for judge in judges if len(judges) > 1 else ():
        without = cells.results(np.arange(len(cells.judges)) != judge)
        change = compare_results(cells, everyone, without)
        known = np.flatnonzero(np.isfinite(change.change))
        if len(known) == 0:
            continue
        model = int(known[np.abs(change.change[known]).argmax()])
        moved = round(float(change.change[model]), DECIMALS) + 0.0
        if largest is None or abs(moved) > abs(largest["moved"]):
            first, now = (int(known[one[known].argmax()]) for one in (change.before, change.after))
            led = change.after[now] > change.after[first] + SAME
            largest = {
                "reviewer": cells.judges[judge],
                "model": change.models[model],
                "moved": moved,
                "first_without": change.models[now if led else first],
            }
    return largest
