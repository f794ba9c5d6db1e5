"""The board of models: each session counts once, and every number comes with its doubt.

Intervals come from the spread of whole sessions (reviews of one session are not
independent), by a closed form; rank ranges hold for all models at once, and tiers follow
from them. Two-way intervals add the spread of reviewers, for claims beyond this panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from peerage.boards.model_sums import (
    APPEARED,
    BLEND,
    BORDA,
    COUNTS,
    HELD,
    INFLUENCE,
    L_LONG,
    L_N,
    L_PRODUCT,
    L_SHARE,
    L_SQUARE,
    LENGTHS,
    MODELS,
    N_ROWS,
    N_SESSIONS,
    PAIRS,
    PLACE,
    R_N,
    R_PULL,
    R_SCORE,
    R_SQUARE,
    R_SUM,
    R_VOTES,
    R_WEIGHT,
    SCORE,
    SCORED,
    SCORES,
    SHARE,
    TIED,
    VOTES,
    WINS,
    WON,
    ModelSums,
)
from peerage.reviews.rows import Floats, Ints
from peerage.stats import clusters as by_cluster
from peerage.stats.ranking import normal_draws, sign_flip_ranks, simultaneous_ranks, tiers
from peerage.stats.resampling import generator
from peerage.stats.strengths import SCALE, covariance, rating, strengths
from peerage.stats.tails import t_critical

LEVEL = 0.95
DECIMALS = 12  # the last bits depend on the order in which sums were added
MIN_REVIEWERS = 3  # of a two-way interval
FLAT = 1e-12
MEANS = {"borda": (SHARE, HELD), "mean_rank": (PLACE, HELD), "hybrid": (BLEND, SCORED)}
LOWER_IS_BETTER = ("mean_rank",)

COLUMNS = (
    "model",
    "rank",
    "rank_low",
    "rank_high",
    "tier",
    "aggregate_borda",
    "share",
    "share_low",
    "share_high",
    "total_votes",
    "total_wins",
    "appearances",
    "mean_score",
    "z_score",
)
WHOLE = ("total_votes", "total_wins", "appearances")


@dataclass(frozen=True, slots=True)
class Estimates:
    """A value of each model (NaN for none), its interval, and what ranks are drawn from."""

    value: Floats
    low: Floats
    high: Floats
    influences: Floats | None = None  # clusters by models
    covariance: Floats | None = None
    df: Floats | float = math.inf  # of all differences, or of each
    lower_is_better: bool = False


class ModelTotals:
    """One slice of the sums, by model: what every column of the board is taken from."""

    def __init__(self, sums: ModelSums) -> None:
        self.sums = sums
        every = sums.totals(MODELS, 11, len(sums.names))
        self.code = np.flatnonzero(every[:, APPEARED] > 0.0)  # of each model among the names
        self.by_model: Floats = every[self.code]
        self.models = tuple(sums.names[i] for i in self.code.tolist())
        self._place = np.full(len(sums.names), -1)
        self._place[self.code] = np.arange(len(self.code))

    def __len__(self) -> int:
        return len(self.models)

    def column(self, which: int) -> Floats:
        return self.by_model[:, which]

    def count(self, which: int) -> int:
        return int(self.sums.totals(COUNTS, 6, 1)[0, which])

    @property
    def n_sessions(self) -> int:
        return self.count(N_SESSIONS)

    @property
    def n_rows(self) -> int:
        return self.count(N_ROWS)

    def by_cluster(self, which: int) -> Floats:
        """A column of the sums, clusters by models; clusters that hold nothing are left out."""
        cells = self.sums.tables[MODELS]
        found = np.zeros((self.sums.n_clusters, len(self)))
        found[cells.cluster, self._place[cells.subject]] = cells.sums[:, which]
        return found[self._held_clusters]

    @cached_property
    def _held_clusters(self) -> Ints:
        cells = self.sums.tables[MODELS]
        return np.unique(cells.cluster[cells.sums[:, HELD] > 0.0])

    def pairs(self, which: int) -> Floats:
        """A column of the pairs' sums, models by models."""
        found = np.zeros((len(self), len(self)))
        cells = self.sums.tables[PAIRS]
        above, below = np.divmod(cells.subject, len(self.sums.names))
        np.add.at(found, (self._place[above], self._place[below]), cells.sums[:, which])
        return found

    def by_reviewer(self, table: str) -> tuple[Ints, Ints, Floats]:
        """Reviewer, model and sums of each pair that has any, of a table by reviewers."""
        cells = self.sums.tables[table]
        reviewer, candidate = np.divmod(cells.subject, len(self.sums.names))
        kept = self._place[candidate] >= 0
        return reviewer[kept], self._place[candidate][kept], cells.sums[kept]


def board_columns(
    totals: ModelTotals,
    rule: str,
    *,
    two_way: bool = False,
    ranked: Estimates | None = None,
) -> dict[str, list[Any]]:
    """The board's columns, the best model first.

    `ranked` brings the values of a rule that is no mean over sessions.
    """
    share = mean_estimates(totals, "borda")
    share = _two_way(share, totals) if two_way else share
    if ranked is None:
        ranked = share if rule == "borda" else mean_estimates(totals, rule)
    models = totals.models
    order, rank = standing(ranked.value, totals.column(WINS), models, ranked.lower_is_better)
    held = totals.column(HELD)
    voted = np.where(held > 0.0, held, np.nan)
    values = {
        "aggregate_borda": totals.column(BORDA) / voted,
        "total_votes": totals.column(VOTES),
        "total_wins": totals.column(WINS),
        "appearances": totals.column(APPEARED),
        "mean_score": by_cluster.quotient(totals.column(SCORE), totals.column(SCORED)),
        "z_score": z_scores(totals),
    }
    columns = columns_of(models, order, rank, ranked, share, values)
    if LENGTHS in totals.sums.tables:
        columns["share_length_controlled"] = rounded(length_controlled(totals)[0], order)
    return columns


def columns_of(
    models: Sequence[str],
    order: Sequence[int],
    rank: Mapping[int, int],
    ranked: Estimates,
    share: Estimates,
    values: Mapping[str, Floats],
) -> dict[str, list[Any]]:
    """The columns of a board in their order; a column without values is None in every row."""
    low, high, tier = _rank_ranges(ranked)
    estimated = {
        "share": share.value,
        "share_low": np.maximum(share.low, 0.0),
        "share_high": np.minimum(share.high, 1.0),
        **values,
    }
    nothing = np.full(len(models), np.nan)
    columns: dict[str, list[Any]] = {
        "model": [models[i] for i in order],
        "rank": [rank[i] for i in order],
        "rank_low": [low.get(i) for i in order],
        "rank_high": [high.get(i) for i in order],
        "tier": [tier.get(i) for i in order],
    }
    for name in COLUMNS[len(columns) :]:
        held = estimated.get(name, nothing)
        whole = name in WHOLE
        columns[name] = [int(held[i]) for i in order] if whole else rounded(held, order)
    if ranked is not share:
        columns["value"] = rounded(ranked.value, order)
        columns["value_low"] = rounded(ranked.low, order)
        columns["value_high"] = rounded(ranked.high, order)
    return columns


def rounded(values: Floats, order: Sequence[int]) -> list[float | None]:
    picked = [float(values[i]) for i in order]
    return [round(v, DECIMALS) + 0.0 if math.isfinite(v) else None for v in picked]


def standing(
    values: Floats,
    wins: Floats,
    models: Sequence[str],
    lower: bool = False,
) -> tuple[list[int], dict[int, int]]:
    """The models from the best down, and their ranks; equal up to their wins is equal.

    Those without a value come last.
    """

    def key(i: int) -> tuple[bool, float, float]:
        value = float(values[i])
        if not math.isfinite(value):
            return True, 0.0, 0.0
        return False, round(value if lower else -value, DECIMALS), -float(wins[i])

    order = sorted(range(len(models)), key=lambda i: (*key(i), models[i]))
    rank: dict[int, int] = {}
    for place, i in enumerate(order):
        tied = place > 0 and key(order[place - 1]) == key(i)
        rank[i] = rank[order[place - 1]] if tied else place + 1
    return order, rank


def _rank_ranges(
    ranked: Estimates,
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """The best and worst rank and the tier of each model that has a value and a spread."""
    known = np.flatnonzero(np.isfinite(ranked.value))
    if len(known) == 0 or (ranked.influences is None and ranked.covariance is None):
        return {}, {}, {}
    values = -ranked.value[known] if ranked.lower_is_better else ranked.value[known]
    # Whose own spread is unknown (one session, or all alike) cannot be told apart from anyone.
    values = np.where(np.isfinite(ranked.low[known]), values, np.nan)
    rng = generator("rank ranges", len(known))
    if ranked.influences is not None:
        low, high = sign_flip_ranks(values, ranked.influences[:, known], rng, level=LEVEL)
    else:
        spread = np.asarray(ranked.covariance)[np.ix_(known, known)]
        draws = normal_draws(values, np.where(np.isfinite(spread), spread, 0.0), rng)
        df = np.broadcast_to(ranked.df, (len(ranked.value),) * 2)[np.ix_(known, known)]
        low, high = simultaneous_ranks(values, draws, level=LEVEL, df=df)
    places = known.tolist()
    told = np.isfinite(values)
    told = told | ~told.any()
    # Who may stand anywhere has no tier and parts none, unless there is nobody else.
    tier = tiers(low[told], high[told] - (~told).sum())
    return (
        dict(zip(places, low.tolist(), strict=True)),
        dict(zip(places, high.tolist(), strict=True)),
        dict(zip(known[told].tolist(), tier.tolist(), strict=True)),
    )


# -- intervals ---------------------------------------------------------------------------------


def mean_estimates(totals: ModelTotals, rule: str) -> Estimates:
    """The mean over sessions of each model, with its leave-one-session-out interval."""
    top, bottom = (totals.by_cluster(column) for column in MEANS[rule])
    value, influences = by_cluster.ratio_influences(top, bottom)
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for i in range(len(value)):
        found = by_cluster.ratio_interval(top[:, i], bottom[:, i], level=LEVEL)
        if found is not None and found.low is not None and found.high is not None:
            low[i], high[i] = found.low, found.high
    lower = rule in LOWER_IS_BETTER
    return Estimates(value, low, high, influences=influences, lower_is_better=lower)


def influence_interval(value: Floats, influences: Floats) -> tuple[Floats, Floats]:
    """Intervals of values whose clusters' influences are known, by Student's t."""
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for i in np.flatnonzero(np.isfinite(value)).tolist():
        held = influences[influences[:, i] != 0.0, i]
        if len(held) >= 2:
            fewer = math.sqrt(len(held) / (len(held) - 1.0))
            error = math.sqrt(float((held * held).sum())) * fewer
            half = t_critical(LEVEL, by_cluster.effective_df(held)) * error
            low[i], high[i] = value[i] - half, value[i] + half
    return low, high


def _two_way(sessions: Estimates, totals: ModelTotals) -> Estimates:
    """Both spreads added: of sessions, and of reviewers around each session's mean."""
    pulls, n_reviewers = _reviewer_influence(totals)
    influences = np.asarray(sessions.influences)
    of_sessions = influences.T @ influences
    scaled = pulls * np.sqrt(n_reviewers / np.maximum(n_reviewers - 1.0, 1.0))
    of_reviewers = scaled.T @ scaled
    total = of_sessions + of_reviewers
    value = sessions.value
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for i in range(len(value)):
        variance = float(total[i, i])
        if n_reviewers[i] < MIN_REVIEWERS or not variance > 0.0 or not np.isfinite(sessions.low[i]):
            continue
        df = _combined_df(
            (float(of_sessions[i, i]), max(totals.n_sessions - 1.0, 1.0)),
            (float(of_reviewers[i, i]), n_reviewers[i] - 1.0),
        )
        half = t_critical(LEVEL, df) * math.sqrt(variance)
        low[i], high[i] = value[i] - half, value[i] + half
    least = float(n_reviewers[n_reviewers > 0].min(initial=math.inf))
    return Estimates(value, low, high, covariance=total, df=max(least - 1.0, 1.0))


def _combined_df(*parts: tuple[float, float]) -> float:
    """Satterthwaite's degrees of freedom of a sum of variances, each with its own."""
    total = sum(variance for variance, _ in parts)
    return total * total / sum(variance * variance / df for variance, df in parts)


def n_voters(totals: ModelTotals) -> int:
    """How many reviewers have cast a vote."""
    reviewer, _, sums = totals.by_reviewer(INFLUENCE)
    return len(np.unique(reviewer[sums[:, R_VOTES] > 0.0]))


def _reviewer_influence(totals: ModelTotals) -> tuple[Floats, Floats]:
    """What each reviewer does to each model's share, and how many reviewers each model has."""
    reviewer, model, sums = totals.by_reviewer(INFLUENCE)
    voted = sums[:, R_VOTES] > 0.0
    reviewers, place = np.unique(reviewer[voted], return_inverse=True)
    table = np.zeros((len(reviewers), len(totals)))
    table[place, model[voted]] = sums[voted, R_PULL]
    n = np.bincount(model[voted], minlength=len(totals)).astype(np.float64)
    held = totals.column(HELD)
    return table / np.where(held > 0.0, held, 1.0), n


# -- other views -------------------------------------------------------------------------------


def z_scores(totals: ModelTotals) -> Floats:
    """The calibrated view: scores z-normalised per reviewer, then averaged session by session.

    A reviewer whose scores are all alike says nothing: zero. NaN where there is no score.
    """
    if SCORES not in totals.sums.tables or totals.sums.tables[SCORES].n == 0:
        return np.full(len(totals), np.nan)
    reviewer, model, sums = totals.by_reviewer(SCORES)
    _, place = np.unique(reviewer, return_inverse=True)
    n, total, squares = (np.bincount(place, sums[:, i]) for i in (R_N, R_SUM, R_SQUARE))
    mean = total / np.maximum(n, 1.0)
    spread = squares - n * mean * mean
    flat = spread <= FLAT * np.maximum(squares, 1.0)
    sd = np.sqrt(np.where(flat, 1.0, spread) / np.maximum(n - 1.0, 1.0))
    gap = sums[:, R_SCORE] - mean[place] * sums[:, R_WEIGHT]
    z = np.where(flat[place], 0.0, gap / sd[place])
    added = np.bincount(model, weights=z, minlength=len(totals))
    return by_cluster.quotient(added, totals.column(SCORED))


def length_controlled(totals: ModelTotals) -> tuple[Floats, float | None]:
    """Each model's share at its rivals' length, and what a unit of log length is worth.

    The slope comes from answers of the same model that were longer or shorter than their
    rivals, so that a model which is both wordy and good does not pay for being good.
    """
    table = totals.sums.totals(LENGTHS, 5, len(totals.sums.names))[totals.code]
    n = np.maximum(table[:, L_N], 1.0)
    squares = float((table[:, L_SQUARE] - table[:, L_LONG] ** 2 / n).sum())
    products = float((table[:, L_PRODUCT] - table[:, L_LONG] * table[:, L_SHARE] / n).sum())
    share = by_cluster.quotient(totals.column(SHARE), totals.column(HELD))
    if squares <= FLAT * max(float(table[:, L_SQUARE].sum()), 1.0):
        return np.full(len(share), np.nan), None
    slope = products / squares
    return np.clip(share - slope * table[:, L_LONG] / n, 0.0, 1.0), slope


def means(totals: ModelTotals) -> dict[str, Floats]:
    """The values of the rules that are means over sessions, from the same ballots."""
    return {
        rule: by_cluster.quotient(totals.column(top), totals.column(bottom))
        for rule, (top, bottom) in MEANS.items()
    }


def head_to_head(totals: ModelTotals, order: Sequence[str]) -> dict[str, Any]:
    """How often each model stands above each other on a ballot that ranks both.

    A tie is half. The diagonal, and pairs that never met, are None.
    """
    place = [totals.models.index(name) for name in order]
    grid = np.ix_(place, place)
    wins, ties = totals.pairs(WON)[grid], totals.pairs(TIED)[grid]
    ties = ties + ties.T
    n = wins + wins.T + ties
    rate = np.where(n > 0, (wins + ties / 2.0) / np.where(n > 0, n, 1.0), np.nan)
    return {
        "models": list(order),
        "above": [[plain(x) for x in row] for row in rate.tolist()],
        "n": [[int(x) for x in row] for row in n.tolist()],
    }


def plain(value: float) -> float | None:
    return round(value, DECIMALS) if np.isfinite(value) else None


# -- Bradley–Terry -----------------------------------------------------------------------------


def ratings(totals: ModelTotals) -> tuple[Floats, Floats, Ints]:
    """Bradley–Terry ratings by model (NaN for who met no one), log strengths, and who met."""
    points = _points(totals)
    met = np.flatnonzero((points + points.T).any(axis=0))
    found, logs = np.full(len(totals), np.nan), np.zeros(len(totals))
    logs[met] = strengths(points[np.ix_(met, met)])
    found[met] = rating(logs[met])
    return found, logs, met


def _points(totals: ModelTotals) -> Floats:
    ties = totals.pairs(TIED)
    return totals.pairs(WON) + (ties + ties.T) / 2.0


def rating_estimates(totals: ModelTotals) -> Estimates:
    """Ratings with intervals over sessions: each cluster's surprise, through the information.

    The sandwich estimator: comparisons read off one ballot, or of one session, are not
    independent, so the plain inverse information would promise too much.
    """
    value, logs, met = ratings(totals)
    points = _points(totals)[np.ix_(met, met)]
    surprise = _surprise(totals, logs)
    influences = np.zeros((len(surprise), len(totals)))
    influences[:, met] = surprise[:, met] @ covariance(points, logs[met]) * SCALE
    low, high = influence_interval(value, influences)
    return Estimates(value, low, high, influences=influences)


def _surprise(totals: ModelTotals, logs: Floats) -> Floats:
    """By cluster and model: points won head to head, less what the strengths expect."""
    cells = totals.sums.tables[PAIRS]
    names = len(totals.sums.names)
    place = np.full(names, -1)
    place[totals.code] = np.arange(len(totals))
    above, below = place[cells.subject // names], place[cells.subject % names]
    chance = 1.0 / (1.0 + np.exp(logs[below] - logs[above]))
    won, tied = cells.sums[:, WON], cells.sums[:, TIED]
    gain = won * (1.0 - chance) + tied * (0.5 - chance)
    clusters, cluster = np.unique(cells.cluster, return_inverse=True)
    found = np.zeros((len(clusters), len(totals)))
    np.add.at(found, (cluster, above), gain)
    np.add.at(found, (cluster, below), -gain)
    return found
