"""The board of models: each session counts once, and every number comes with its doubt.

Intervals come from the spread of whole sessions (reviews of one session are not
independent), by a closed form; rank ranges hold for all models at once, and tiers follow
from them. Two-way intervals add the spread of reviewers, for claims beyond this panel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.boards.model_sums import (
    APPEARED,
    BLEND,
    BORDA,
    HELD,
    L_LONG,
    L_N,
    L_PRODUCT,
    L_SHARE,
    L_SQUARE,
    PLACE,
    R_N,
    R_PULL,
    R_SCORE,
    R_SQUARE,
    R_SUM,
    R_VOTES,
    R_WEIGHT,
    RANKED_BY,
    SCORE,
    SCORED,
    SESSIONS,
    SHARE,
    VOTES,
    WINS,
    Spread,
    Sums,
)
from peerage.reviews.rows import Floats, Ints
from peerage.stats import clusters as by_cluster
from peerage.stats.ranking import (
    normal_draws,
    sign_flip_ranks,
    simultaneous_ranks,
    tiers,
    welch_df,
)
from peerage.stats.resampling import generator
from peerage.stats.tails import t_critical

LEVEL = 0.95
DECIMALS = 12  # the last bits depend on the order in which sums were added
MIN_REVIEWERS = 3  # of a two-way interval
LOWER_IS_BETTER = ("mean_rank",)
FLAT = 1e-12

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


@dataclass(frozen=True, slots=True)
class Estimates:
    """A value of each model (NaN for none), its interval, and what ranks are drawn from."""

    value: Floats
    low: Floats
    high: Floats
    influences: Floats | None = None  # clusters by models
    covariance: Floats | None = None
    df: Floats | float = math.inf  # of all differences, or of each

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True)
class Valued:
    """What a rule that is no mean over sessions says: values, and influences where it has them."""

    estimates: Estimates
    lower_is_better: bool = False


def rows_of(
    sums: Sums,
    models: Sequence[str],
    rule: str,
    *,
    two_way: bool = False,
    valued: Valued | None = None,
) -> dict[str, list[Any]]:
    """The board's columns for one slice, the best model first.

    `valued` brings the values of a rule that works on more than session means.
    """
    table = sums.by_model[0]
    seen = np.flatnonzero(table[:, APPEARED] > 0.0)
    share = estimate(sums.share, table[:, SHARE], table[:, HELD], sums)
    share = _two_way(share, sums) if two_way else share
    ranked = share
    if valued is not None:
        ranked = valued.estimates
    elif rule in RANKED_BY and sums.value is not None:
        top, bottom = (table[:, column] for column in RANKED_BY[rule])
        ranked = estimate(sums.value, top, bottom, sums)
    lower = valued.lower_is_better if valued is not None else rule in LOWER_IS_BETTER
    order, rank = standing(ranked.value, table[:, WINS], models, lower, seen)
    low, high, tier = _rank_ranges(ranked, seen, lower)
    voted = np.where(table[:, HELD] > 0.0, table[:, HELD], np.nan)
    columns: dict[str, Any] = {
        "model": [models[i] for i in order],
        "rank": [rank[i] for i in order],
        "rank_low": [low.get(i) for i in order],
        "rank_high": [high.get(i) for i in order],
        "tier": [tier.get(i) for i in order],
        "aggregate_borda": rounded(table[:, BORDA] / voted, order),
        "share": rounded(share.value, order),
        "share_low": rounded(np.maximum(share.low, 0.0), order),
        "share_high": rounded(np.minimum(share.high, 1.0), order),
        "total_votes": [int(table[i, VOTES]) for i in order],
        "total_wins": [int(table[i, WINS]) for i in order],
        "appearances": [int(table[i, APPEARED]) for i in order],
        "mean_score": rounded(by_cluster.quotient(table[:, SCORE], table[:, SCORED]), order),
        "z_score": rounded(z_scores(sums), order),
    }
    if ranked is not share:
        columns |= {
            "value": rounded(ranked.value, order),
            "value_low": rounded(ranked.low, order),
            "value_high": rounded(ranked.high, order),
        }
    if sums.lengths is not None:
        columns["share_length_controlled"] = rounded(length_controlled(sums)[0], order)
    return columns


def rounded(values: Floats, order: Sequence[int]) -> list[float | None]:
    picked = [float(values[i]) for i in order]
    return [round(v, DECIMALS) + 0.0 if math.isfinite(v) else None for v in picked]


def standing(
    values: Floats,
    wins: Floats,
    models: Sequence[str],
    lower: bool = False,
    among: Ints | None = None,
) -> tuple[list[int], dict[int, int]]:
    """The models from the best down, and their ranks; equal up to their wins is equal.

    Those without a value come last.
    """

    def key(i: int) -> tuple[bool, float, float]:
        value = float(values[i])
        if not math.isfinite(value):
            return True, 0.0, 0.0
        return False, round(value if lower else -value, DECIMALS), -float(wins[i])

    places = range(len(models)) if among is None else among.tolist()
    order = sorted(places, key=lambda i: (*key(i), models[i]))
    rank: dict[int, int] = {}
    for place, i in enumerate(order):
        tied = place > 0 and key(order[place - 1]) == key(i)
        rank[i] = rank[order[place - 1]] if tied else place + 1
    return order, rank


def _rank_ranges(
    ranked: Estimates, seen: Ints, lower: bool
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """The best and worst rank and the tier of each model that has a value and a spread."""
    known = seen[np.isfinite(ranked.value[seen])]
    if len(known) == 0 or (ranked.influences is None and ranked.covariance is None):
        return {}, {}, {}
    values = -ranked.value[known] if lower else ranked.value[known]
    # Whose own spread is unknown (one session, or all alike) cannot be told apart from anyone.
    values = np.where(np.isfinite(ranked.low[known]), values, np.nan)
    rng = generator("rank ranges", len(known))
    if ranked.influences is not None:
        low, high = sign_flip_ranks(values, ranked.influences[:, known], rng, level=LEVEL)
    else:
        assert ranked.covariance is not None  # noqa: S101 — one of the two, looked at above
        spread = ranked.covariance[np.ix_(known, known)]
        draws = normal_draws(values, np.where(np.isfinite(spread), spread, 0.0), rng)
        df = np.broadcast_to(ranked.df, ranked.covariance.shape)[np.ix_(known, known)]
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


def estimate(spread: Spread, top: Floats, bottom: Floats, sums: Sums) -> Estimates:
    """The mean over sessions of each model, with its interval."""
    if spread.products is not None:
        return _from_products(spread.products[0], top, bottom, sums.by_model[0, :, SESSIONS])
    assert spread.tops is not None and spread.bottoms is not None  # noqa: S101, PT018
    return _from_clusters(spread.tops[0], spread.bottoms[0])


def _from_clusters(tops: Floats, bottoms: Floats) -> Estimates:
    """Leave-one-session-out intervals by Student's t; few sessions are taken for what they are."""
    value, influences = by_cluster.ratio_influences(tops, bottoms)
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for i in range(len(value)):
        found = by_cluster.ratio_interval(tops[:, i], bottoms[:, i], level=LEVEL)
        if found is not None and found.low is not None and found.high is not None:
            low[i], high[i] = found.low, found.high
    return Estimates(value, low, high, influences=influences)


def _from_products(products: Floats, top: Floats, bottom: Floats, n: Floats) -> Estimates:
    """The closed form of the same from sums of products, for many sessions."""
    both, mixed, below = products
    value = by_cluster.quotient(top, bottom)
    m = np.where(np.isfinite(value), value, 0.0)
    crossed = both - mixed * m[None, :] - mixed.T * m[:, None] + np.outer(m, m) * below
    scale = np.where(bottom > 0.0, bottom, np.nan)
    fewer = np.sqrt(n / np.maximum(n - 1.0, 1.0))
    covariance = crossed / np.outer(scale, scale) * np.outer(fewer, fewer)
    variance = np.diagonal(covariance)
    known = (n >= 2.0) & (variance > FLAT * value * value)  # else nothing is known of its spread
    error = np.sqrt(np.where(known, variance, np.nan))
    reach = np.array([t_critical(LEVEL, max(one - 1.0, 1.0)) for one in n.tolist()])
    return Estimates(
        value,
        value - reach * error,
        value + reach * error,
        covariance=covariance,
        df=welch_df(variance, n),
    )


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


def _two_way(sessions: Estimates, sums: Sums) -> Estimates:
    """Both spreads added: of sessions, and of reviewers around each session's mean."""
    pulls, n_reviewers = _reviewer_pulls(sums)
    covariance = (
        sessions.influences.T @ sessions.influences
        if sessions.influences is not None
        else sessions.covariance
    )
    assert covariance is not None  # noqa: S101 — an estimate has one or the other
    scaled = pulls * np.sqrt(n_reviewers / np.maximum(n_reviewers - 1.0, 1.0))
    of_reviewers = scaled.T @ scaled
    total = covariance + of_reviewers
    value = sessions.value
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    n_sessions = int(sums.n_sessions[0])
    for i in range(len(value)):
        variance = float(total[i, i])
        if n_reviewers[i] < MIN_REVIEWERS or not variance > 0.0 or not np.isfinite(sessions.low[i]):
            continue
        df = _combined_df(
            (float(covariance[i, i]), max(n_sessions - 1.0, 1.0)),
            (float(of_reviewers[i, i]), n_reviewers[i] - 1.0),
        )
        half = t_critical(LEVEL, df) * math.sqrt(variance)
        low[i], high[i] = value[i] - half, value[i] + half
    least = float(n_reviewers[n_reviewers > 0].min(initial=math.inf))
    df = max(least - 1.0, 1.0)
    return Estimates(value, low, high, covariance=total, df=df)


def _combined_df(*parts: tuple[float, float]) -> float:
    """Satterthwaite's degrees of freedom of a sum of variances, each with its own."""
    total = sum(variance for variance, _ in parts)
    return total * total / sum(variance * variance / df for variance, df in parts)


def _reviewer_pulls(sums: Sums) -> tuple[Floats, Floats]:
    """What each reviewer does to each model's share, and how many reviewers each model has."""
    cells = sums.pulls
    n_models = sums.by_model.shape[1]
    assert cells is not None  # noqa: S101 — the plan asked for it
    voted = cells.sums[:, R_VOTES] > 0.0
    key, pull = cells.key[voted], cells.sums[voted, R_PULL]
    reviewers, place = np.unique(key // n_models, return_inverse=True)
    held = sums.by_model[0, :, HELD]
    table = np.zeros((len(reviewers), n_models))
    table[place, key % n_models] = pull
    n = np.bincount(key % n_models, minlength=n_models).astype(np.float64)
    return table / np.where(held > 0.0, held, 1.0), n


# -- other views -------------------------------------------------------------------------------


def z_scores(sums: Sums) -> Floats:
    """The calibrated view: scores z-normalised per reviewer, then averaged session by session.

    A reviewer whose scores are all alike says nothing: zero. NaN where there is no score.
    """
    n_models = sums.by_model.shape[1]
    cells = sums.scores
    if cells is None or len(cells.key) == 0:
        return np.full(n_models, np.nan)
    _, place = np.unique(cells.key // n_models, return_inverse=True)
    n, total, squares = (np.bincount(place, cells.sums[:, i]) for i in (R_N, R_SUM, R_SQUARE))
    mean = total / np.maximum(n, 1.0)
    spread = squares - n * mean * mean
    flat = spread <= FLAT * np.maximum(squares, 1.0)
    sd = np.sqrt(np.where(flat, 1.0, spread) / np.maximum(n - 1.0, 1.0))
    gap = cells.sums[:, R_SCORE] - mean[place] * cells.sums[:, R_WEIGHT]
    z = np.where(flat[place], 0.0, gap / sd[place])
    added = np.bincount(cells.key % n_models, weights=z, minlength=n_models)
    return by_cluster.quotient(added, sums.by_model[0, :, SCORED])


def length_controlled(sums: Sums) -> tuple[Floats, float | None]:
    """Each model's share at its rivals' length, and what a unit of log length is worth.

    The slope comes from answers of the same model that were longer or shorter than their
    rivals, so that a model which is both wordy and good does not pay for being good.
    """
    assert sums.lengths is not None  # noqa: S101 — the plan asked for it
    table = sums.lengths[0]
    n = np.maximum(table[:, L_N], 1.0)
    squares = float((table[:, L_SQUARE] - table[:, L_LONG] ** 2 / n).sum())
    products = float((table[:, L_PRODUCT] - table[:, L_LONG] * table[:, L_SHARE] / n).sum())
    share = by_cluster.quotient(sums.by_model[0, :, SHARE], sums.by_model[0, :, HELD])
    if squares <= FLAT * max(float(table[:, L_SQUARE].sum()), 1.0):
        return np.full(len(share), np.nan), None
    slope = products / squares
    return np.clip(share - slope * table[:, L_LONG] / n, 0.0, 1.0), slope


def means(sums: Sums) -> dict[str, Floats]:
    """The values of the rules that are means over sessions, from the same ballots."""
    table = sums.by_model[0]
    return {
        "borda": by_cluster.quotient(table[:, SHARE], table[:, HELD]),
        "mean_rank": by_cluster.quotient(table[:, PLACE], table[:, HELD]),
        "hybrid": by_cluster.quotient(table[:, BLEND], table[:, SCORED]),
    }
