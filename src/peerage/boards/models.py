"""The board of models: each session counts once, and every number has an interval.

Intervals come from the spread of whole sessions (reviews of one session are not independent), by a
closed form. Rank ranges are valid for all models together, and tiers follow from them. Two-way
intervals add the spread of reviewers, for claims beyond this panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import ModelSums
from peerage.boards.score_views import SCORE_ENDS, fitted_scores, score_intervals, z_scores
from peerage.reviews.cells import Bools, Floats, Ints, dense
from peerage.stats import clusters as by_cluster
from peerage.stats.clusters import generator
from peerage.stats.ranking import normal_draws, sign_flip_ranks, simultaneous_ranks, tiers
from peerage.stats.strengths import (
    SCALE,
    common_shares,
    covariance,
    coverage,
    groups_that_met,
    rating,
    strengths,
)

LEVEL = 0.95
DECIMALS = 12  # the last bits depend on the order in which sums were added
MIN_REVIEWERS = 3  # reviewers that a two-way interval needs
MIN_CLUSTERS = 4  # queries; a model with fewer is not separated from any other
MIN_COVERED = 0.9  # if two models' rivals overlap less, shares are put on common rivals
FLAT = 1e-12
MEANS = {
    "borda": ("share", "voted"),
    "mean_rank": ("place", "voted"),
    "hybrid": ("blend", "scored"),
}
LOWER_IS_BETTER = ("mean_rank",)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Each model's value (NaN if none) and interval, and the influences that give rank ranges."""

    value: Floats
    low: Floats
    high: Floats
    influences: Floats | None = None  # clusters by models
    covariance: Floats | None = None
    df: Floats | float = math.inf  # one for all differences, or one for each
    lower_is_better: bool = False
    n_clusters: Ints | None = None  # of each model
    by_cluster: Floats | None = None  # values, clusters by models; NaN if a model is not in it
    slopes: Floats | None = None  # [k, i]: what one more point of model k adds to the value of i
    met_in: NDArray[np.int64] | None = None  # each model's group; groups never met


def board_columns(
    totals: ModelSums,
    rule: str,
    *,
    two_way: bool = False,
    ranked: Estimates | None = None,
    meetings: ModelSums | None = None,
) -> dict[str, list[Any]]:
    """Return the board's columns, best model first.

    `ranked` has the values of a rule that is not a mean over sessions. If `meetings` is given,
    models are ranked by their shares on common rivals.
    """
    share = mean_estimates(totals, "borda")
    common = None if meetings is None else common_estimates(totals, meetings, share)
    if two_way:
        share = _two_way(share, totals)
        common = None if common is None else _two_way(common, totals)
    if ranked is None:
        ranked = (common or share) if rule == "borda" else mean_estimates(totals, rule)
    values = {name: make(totals) for name, make in VALUES.items()}
    values |= score_intervals(totals, values["mean_score"], values["z_score"])
    if "lengths" in totals.tables:
        values["share_length_controlled"] = length_controlled(totals)[0]
    return columns_of(totals.models, ranked, share, values)


def columns_of(
    models: Sequence[str],
    ranked: Estimates,
    share: Estimates,
    values: Mapping[str, Floats | Ints],
) -> dict[str, list[Any]]:
    """Return the columns of a board in their order, best model first.

    A column of `COLUMNS` without values is None in every row; additional values come last.
    """
    apart = provisional(ranked.value, share.n_clusters)
    wins = values["total_wins"]
    order, rank = standing(ranked.value, wins, models, ranked.lower_is_better, apart)
    estimated = {**_share_columns("share", share), **values}
    nothing = np.full(len(models), np.nan)
    columns: dict[str, list[Any]] = {
        "model": [models[i] for i in order],
        "rank": [rank.get(i) for i in order],
    }
    ranges = rank_ranges(ranked, apart)
    for name, places in zip(("rank_low", "rank_high", "tier"), ranges, strict=True):
        columns[name] = [place or None for place in places[list(order)].tolist()]
    columns["provisional"] = apart[list(order)].tolist()
    for name in COLUMNS[len(columns) :]:
        columns[name] = round_values(estimated.get(name, nothing), order)
    if ranked.slopes is not None:
        own = _share_columns("share_common", ranked)
        columns |= {name: round_values(column, order) for name, column in own.items()}
    elif ranked is not share:
        own = {"value": ranked.value, "value_low": ranked.low, "value_high": ranked.high}
        columns |= {name: round_values(column, order) for name, column in own.items()}
    more = {name: column for name, column in values.items() if name not in columns}
    return columns | {name: round_values(column, order) for name, column in more.items()}


def _share_columns(name: str, share: Estimates) -> dict[str, Floats]:
    """Return a share and its interval, which lies between 0 and 1."""
    low, high = np.maximum(share.low, 0.0), np.minimum(share.high, 1.0)
    return {name: share.value, f"{name}_low": low, f"{name}_high": high}


def round_values(values: Floats | Ints, order: Sequence[int]) -> list[Any]:
    """Return values in this order: counts unchanged, numbers rounded, None if undefined."""
    picked: list[Any] = values[list(order)].tolist()
    is_count = np.issubdtype(values.dtype, np.integer)
    return picked if is_count else [plain(value) for value in picked]


def plain(value: float) -> float | None:
    """Return a number without the rounding noise of the order of summation; None for NaN."""
    return round(value, DECIMALS) + 0.0 if math.isfinite(value) else None


def provisional(values: Floats, n_clusters: Ints | None) -> Bools:
    """Return which models have a value based on fewer than `MIN_CLUSTERS` queries.

    If no model has enough, all of them are equally uncertain, and none is marked.
    """
    known = np.isfinite(values)
    if n_clusters is None:
        return np.zeros(len(values), dtype=bool)
    few = known & (n_clusters < MIN_CLUSTERS)
    return few & bool((known & ~few).any())


def n_queries(totals: ModelSums) -> Ints:
    """Return the number of queries with a vote on each model."""
    return (totals.by_cluster("voted") > 0.0).sum(axis=0)


def standing(
    values: Floats,
    wins: Floats | Ints,
    models: Sequence[str],
    lower: bool = False,
    apart: Bools | None = None,
) -> tuple[list[int], dict[int, int]]:
    """Return the models best first, and the rank of each with a value that is not `apart`.

    Of equal values the one with more wins ranks higher; models equal in both share a rank and are
    listed by name. Models that are `apart` come after the ranked ones, then those without a value.
    """

    def key(i: int) -> tuple[int, float, float]:
        value = float(values[i])
        if not math.isfinite(value):
            return 2, 0.0, 0.0
        group = 0 if apart is None else int(apart[i])
        return group, round(value if lower else -value, DECIMALS), -float(wins[i])

    order = sorted(range(len(models)), key=lambda i: (*key(i), models[i]))
    first: dict[tuple[int, float, float], int] = {}  # the rank that equal models share
    places = {i: first.setdefault(key(i), place) for place, i in enumerate(order, 1)}
    return order, {i: place for i, place in places.items() if key(i)[0] == 0}


def rank_ranges(ranked: Estimates, apart: Bools) -> Ints:
    """Return the best rank, worst rank and tier of each model; 0 if it has no value or spread."""
    ranges = np.zeros((3, len(ranked.value)), dtype=np.int64)
    known = np.flatnonzero(np.isfinite(ranked.value) & ~apart)
    if len(known) == 0 or (ranked.influences is None and ranked.covariance is None):
        return ranges
    values = -ranked.value[known] if ranked.lower_is_better else ranked.value[known]
    # A model whose spread is unknown cannot be separated from any other.
    spread_known = np.isfinite(ranked.low[known])
    if ranked.n_clusters is not None:
        spread_known &= ranked.n_clusters[known] >= MIN_CLUSTERS
    values = np.where(spread_known, values, np.nan)
    groups = None if ranked.met_in is None else ranked.met_in[known]
    rng = generator("rank ranges", len(known))
    if ranked.influences is not None:
        pulls = ranked.influences[:, known]
        alike, above = _unanimous(ranked, known, values)
        drawn = np.where(alike, np.nan, values)
        low, high = sign_flip_ranks(
            drawn,
            pulls,
            rng,
            level=LEVEL,
            above=above,
            groups=groups,
            fitted=ranked.slopes is not None,
        )
    else:
        spread = np.asarray(ranked.covariance)[np.ix_(known, known)]
        draws = normal_draws(values, np.where(np.isfinite(spread), spread, 0.0), rng)
        df = np.broadcast_to(ranked.df, (len(ranked.value),) * 2)[np.ix_(known, known)]
        low, high = simultaneous_ranks(values, draws, level=LEVEL, df=df, groups=groups)
    tiered = np.isfinite(values)
    tiered = tiered | ~tiered.any()
    # A model that may have any rank gets no tier and separates no tiers, unless all are like that.
    ranges[:2, known] = low, high
    ranges[2, known[tiered]] = tiers(low[tiered], high[tiered] - (~tiered).sum())
    return ranges


def _unanimous(ranked: Estimates, known: Ints, values: Floats) -> tuple[Bools, Bools | None]:
    """Return which models have the same value in all clusters, and which model is above which.

    Such a model shows no spread, so a difference is tested by an exact sign test over the clusters
    that have both models, corrected for the number of pairs: forty differences of one sign are
    evidence.
    """
    alike = np.zeros(len(known), dtype=bool)
    if ranked.by_cluster is None:
        return alike, None
    table = ranked.by_cluster[:, known]
    alike = ~(np.nanmax(table, axis=0) - np.nanmin(table, axis=0) > by_cluster.SAME)
    above = np.zeros((len(known),) * 2, dtype=bool)
    n_pairs = len(known) * (len(known) - 1) / 2.0
    for i in np.flatnonzero(alike & np.isfinite(values)).tolist():
        gap = table[:, [i]] - table
        n = np.isfinite(gap).sum(axis=0)
        surely = np.isfinite(values) & (n_pairs * np.exp2(1.0 - n) <= 1.0 - LEVEL)
        over = surely & (np.nanmin(np.where(np.isfinite(gap), gap, np.inf), axis=0) > 0.0)
        under = surely & (np.nanmax(np.where(np.isfinite(gap), gap, -np.inf), axis=0) < 0.0)
        above[i] |= under if ranked.lower_is_better else over
        above[:, i] |= over if ranked.lower_is_better else under
    return alike, above


# -- intervals ---------------------------------------------------------------------------------


def mean_estimates(totals: ModelSums, rule: str) -> Estimates:
    """Return the mean over sessions of each model, with its leave-one-session-out interval."""
    top, bottom = (totals.by_cluster(column) for column in MEANS[rule])
    ends = (1.0, float(max(top.shape[1], 2))) if rule == "mean_rank" else (0.0, 1.0)
    estimates = cluster_estimates(top, bottom, ends, totals.met)
    return replace(estimates, lower_is_better=rule in LOWER_IS_BETTER)


def cluster_estimates(
    top: Floats, bottom: Floats, ends: tuple[float, float], met: Floats | None
) -> Estimates:
    """Return means from sums and counts by cluster and model; `ends` are the bounds of a value."""
    value, influences = by_cluster.ratio_influences(top, bottom)
    each = by_cluster.quotient(top, bottom)
    inside = np.isfinite(each)
    n = inside.sum(axis=0)
    half = np.where(n > 1, by_cluster.half_widths(influences, inside, LEVEL), np.nan)
    alike = _alike(each)
    rare_low, rare_high = rare_ends(value, n, ends)
    return Estimates(
        value,
        np.where(alike, rare_low, value - half),
        np.where(alike, rare_high, value + half),
        influences=influences,
        n_clusters=n,
        by_cluster=each,
        met_in=None if met is None else groups_that_met(met),
    )


def _alike(by_cluster_: Floats) -> Bools:
    """Return models with at least two clusters and the same value in all of them."""
    inside = np.isfinite(by_cluster_)
    largest, smallest = (
        pick.reduce(by_cluster_, axis=0, where=inside, initial=bound)
        for pick, bound in ((np.maximum, -np.inf), (np.minimum, np.inf))
    )
    return (inside.sum(axis=0) > 1) & ~(largest - smallest > by_cluster.SAME)


def rare_ends(value: Floats, n: Ints, ends: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return an interval for values that are equal in all sessions; rare exceptions may exist."""
    least, most = ends
    rare = 1.0 - ((1.0 - LEVEL) / 2.0) ** (1.0 / np.maximum(n, 1))
    low = least + (value - least) * (1.0 - rare)
    return low, low + rare * (most - least)


def rivals_covered(totals: ModelSums) -> float:
    """Return how equally any two models of a group met the same rivals; 1 if all met equally."""
    met = totals.met
    if met is None:
        return 1.0
    groups = groups_that_met(met)
    own = (np.flatnonzero(groups == code) for code in range(n_groups(totals)))
    return min((coverage(met[np.ix_(some, some)]) for some in own), default=1.0)


def n_groups(totals: ModelSums) -> int:
    """Return the number of groups of judged models; no chain of meetings connects two groups."""
    voted = totals.by_model["voted"] > 0.0
    return 0 if totals.met is None else len(set(groups_that_met(totals.met)[voted].tolist()))


def common_values(totals: ModelSums) -> Floats:
    """Return each model's share on common rivals; NaN without votes."""
    return _common_fit(totals)[0]


def _common_fit(totals: ModelSums) -> tuple[Floats, Floats, Floats]:
    """Return shares on common rivals, their slopes, and each model's share against each rival."""
    met, points, n = np.asarray(totals.met), totals.by_model["share"], len(totals.models)
    value, slopes, against = totals.mean("share", "voted"), *np.zeros((2, n, n))
    groups = groups_that_met(met)
    for code in range(int(groups.max(initial=-1)) + 1):
        own = np.flatnonzero((groups == code) & (totals.by_model["voted"] > 0.0))
        if len(own) > 1:
            here = np.ix_(own, own)
            value[own], slopes[here], against[here] = common_shares(points[own], met[here])
    return value, slopes, against


def common_estimates(totals: ModelSums, meetings: ModelSums, plain: Estimates) -> Estimates:
    """Return shares as if every model had met every other one of its group equally often.

    Each cluster's points beyond the expected ones are multiplied by the slopes of the fit; clusters
    are left out one at a time, as for the plain shares.
    """
    value, slopes, against = _common_fit(totals)
    top, bottom = totals.by_cluster("share"), totals.by_cluster("voted")
    gap = top - totals.expect_shares(meetings, against)
    used, left = bottom > 0.0, bottom.sum(axis=0) - bottom  # what is left without the cluster
    n = used.sum(axis=0)
    pull = np.where(used, gap * by_cluster.quotient(left + bottom, left), 0.0)
    pull = np.where(used, pull - pull.sum(axis=0) / np.maximum(n, 1), 0.0)
    pull = np.where(n > 1, pull * np.sqrt(np.maximum(n - 1.0, 0.0) / np.maximum(n, 1)), 0.0)
    influences = pull @ slopes
    half = np.where(n > 1, by_cluster.half_widths(influences, used, LEVEL), np.nan)
    rare_low, rare_high = rare_ends(value, n, (0.0, 1.0))
    alike = _alike(np.asarray(plain.by_cluster))
    return replace(
        plain,
        value=value,
        low=np.where(alike, np.minimum(rare_low, value - half), value - half),
        high=np.where(alike, np.maximum(rare_high, value + half), value + half),
        influences=influences,
        slopes=slopes,
    )


def _two_way(sessions: Estimates, totals: ModelSums) -> Estimates:
    """Return estimates with both spreads: of sessions, and of reviewers around session means.

    A sum of variances has Satterthwaite's degrees of freedom.
    """
    pulls, n_reviewers = _reviewer_influence(totals)
    if sessions.slopes is None:
        weight = totals.by_model["voted"]
        pulls = pulls / np.where(weight > 0.0, weight, 1.0)
    else:
        pulls = pulls @ sessions.slopes
    influences, others = np.asarray(sessions.influences), np.maximum(n_reviewers - 1.0, 1.0)
    scaled = pulls * np.sqrt(n_reviewers / others)
    of_sessions, of_reviewers = influences.T @ influences, scaled.T @ scaled
    total = of_sessions + of_reviewers
    variance, own, theirs = (table.diagonal() for table in (total, of_sessions, of_reviewers))
    known = (n_reviewers >= MIN_REVIEWERS) & (variance > 0.0) & np.isfinite(sessions.low)
    shared = own**2 / max(len(influences) - 1.0, 1.0) + theirs**2 / others
    df = np.where(known, variance**2 / np.where(known, shared, 1.0), 1.0)
    half = np.where(
        known, by_cluster.t_halves(np.sqrt(np.where(known, variance, 0.0)), df, LEVEL), np.nan
    )
    least = float(n_reviewers[n_reviewers > 0].min(initial=math.inf))
    return replace(
        sessions,
        low=sessions.value - half,
        high=sessions.value + half,
        influences=None,
        by_cluster=None,
        covariance=total,
        df=max(least - 1.0, 1.0),
    )


def n_voters(totals: ModelSums) -> int:
    """Return the number of reviewers who cast a vote."""
    return len(_reviewer_influence(totals)[0])


def _reviewer_influence(totals: ModelSums) -> tuple[Floats, Floats]:
    """Return each reviewer's effect on each model's points, and the reviewers of each model."""
    reviewer, model, sums = totals.by_reviewer("influence")
    voted = sums["votes"] > 0.0
    reviewers, place = np.unique(reviewer[voted], return_inverse=True)
    table = np.zeros((len(reviewers), len(totals.models)))
    table[place, model[voted]] = sums["pull"][voted]
    return table, np.bincount(model[voted], minlength=len(totals.models)).astype(np.float64)


# -- other views -------------------------------------------------------------------------------


def length_controlled(totals: ModelSums) -> tuple[Floats, float | None]:
    """Return each model's share at its rivals' length, and the effect of a unit of log length.

    The slope comes from answers of the same model that were longer or shorter than their rivals, so
    that a model which is both wordy and good is not penalised for being good.
    """
    table = {name: c[totals.code] for name, c in totals.totals("lengths").items()}
    n, long = np.maximum(table["n"], 1.0), table["long"]
    squares = float((table["square"] - long**2 / n).sum())
    products = float((table["product"] - long * table["share"] / n).sum())
    share = totals.mean("share", "voted")
    if squares <= FLAT * max(float(table["square"].sum()), 1.0):
        return np.full(len(share), np.nan), None
    slope = products / squares
    return np.clip(share - slope * long / n, 0.0, 1.0), slope


def head_to_head(totals: ModelSums, order: Sequence[str]) -> dict[str, Any]:
    """Return how often each model was ranked above each other on a ballot that ranks both.

    A tie is half. The diagonal, and pairs that never met, are None.
    """
    place = [totals.models.index(name) for name in order]
    points = totals.points()[np.ix_(place, place)]
    n = points + points.T
    rate = by_cluster.quotient(points, n)
    return {
        "models": list(order),
        "above": [[plain(x) for x in row] for row in rate.tolist()],
        "n": [[int(x) for x in row] for row in n.tolist()],
    }


# -- Bradley–Terry -----------------------------------------------------------------------------


def left_out_estimates(value: Floats, left_out: Floats, lower_is_better: bool) -> Estimates:
    """Return values with intervals over folds, from the values without each fold.

    Each query belongs to one fold. A model that occurs in fewer than two folds has no interval.
    """
    pulls = by_cluster.left_out_pulls(left_out)
    half = pulls.halves(LEVEL)
    return Estimates(
        value,
        value - half,
        value + half,
        influences=pulls.influences,
        n_clusters=pulls.inside.sum(axis=0),
        lower_is_better=lower_is_better,
    )


def rating_estimates(totals: ModelSums) -> Estimates:
    """Return Bradley–Terry ratings with intervals over sessions; NaN for a model without rivals.

    The sandwich estimator is used, because comparisons of one ballot or session are not
    independent: the plain inverse information would give too narrow intervals.
    """
    points = totals.points()
    met = np.flatnonzero((points + points.T).any(axis=0))
    points = points[np.ix_(met, met)]
    value, logs = np.full(len(totals.models), np.nan), np.zeros(len(totals.models))
    logs[met] = strengths(points)
    value[met] = rating(logs[met])
    surprise = _surprise(totals, logs)
    influences = np.zeros((len(surprise), len(totals.models)))
    influences[:, met] = surprise[:, met] @ covariance(points, logs[met]) * SCALE
    n = (influences != 0.0).sum(axis=0)
    half = by_cluster.half_widths(influences, influences != 0.0, LEVEL)
    half = np.where(n > 1, half * np.sqrt(n / np.maximum(n - 1.0, 1.0)), np.nan)
    return Estimates(value, value - half, value + half, influences=influences, n_clusters=n)


def _surprise(totals: ModelSums, logs: Floats) -> Floats:
    """Return, by cluster and model, points won head to head minus the expected points."""
    above, below, sums = totals.matches()
    chance = (1.0 / (1.0 + np.exp(logs[None, :] - logs[:, None])))[above, below]
    gain = sums["won"] * (1.0 - chance) + sums["tied"] * (0.5 - chance)
    cluster, n_clusters = dense(totals.tables["pairs"].cluster)
    n, size = len(totals.models), n_clusters * len(totals.models)
    won, lost = (np.bincount(cluster * n + side, gain, size) for side in (above, below))
    surprise: Floats = (won - lost).reshape(n_clusters, n).astype(np.float64, copy=False)
    return surprise


# Values in addition to ranks and shares. Integers are counts; NaN becomes None on the board.
VALUES: Mapping[str, Callable[[ModelSums], Floats | Ints]] = {
    "aggregate_borda": lambda totals: totals.mean("borda", "voted"),
    "total_votes": lambda totals: totals.by_model["votes"].astype(np.int64),
    "total_wins": lambda totals: totals.by_model["wins"].astype(np.int64),
    "appearances": lambda totals: totals.by_model["appeared"].astype(np.int64),
    "mean_score": fitted_scores,
    "mean_score_plain": lambda totals: totals.mean("score", "scored"),
    "z_score": z_scores,
}
PLACES = ("model", "rank", "rank_low", "rank_high", "tier", "provisional", "aggregate_borda")
COLUMNS = tuple(dict.fromkeys((*PLACES, "share", "share_low", "share_high", *VALUES, *SCORE_ENDS)))
