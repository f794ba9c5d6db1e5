"""The board of models: each session counts once, and every number comes with its doubt.

Intervals come from the spread of whole sessions (reviews of one session are not
independent), by a closed form; rank ranges hold for all models at once, and tiers follow
from them. Two-way intervals add the spread of reviewers, for claims beyond this panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peerage.boards.model_sums import ModelSums
from peerage.reviews.intervals import interval_of
from peerage.reviews.rows import Bools, Floats, Ints
from peerage.stats import clusters as by_cluster
from peerage.stats.clusters import generator
from peerage.stats.ranking import normal_draws, sign_flip_ranks, simultaneous_ranks, tiers, welch_df
from peerage.stats.strengths import SCALE, covariance, rating, strengths
from peerage.stats.tails import t_critical

LEVEL = 0.95
DECIMALS = 12  # the last bits depend on the order in which sums were added
MIN_REVIEWERS = 3  # of a two-way interval
MIN_CLUSTERS = 4  # below it nobody is told apart
MAX_SWEEPS = 5_000
FLAT = 1e-12
MEANS = {
    "borda": ("share", "voted"),
    "mean_rank": ("place", "voted"),
    "hybrid": ("blend", "scored"),
}
LOWER_IS_BETTER = ("mean_rank",)


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
    n_clusters: Ints | None = None  # of each model
    by_cluster: Floats | None = None  # values, clusters by models, NaN where a model is not in it


class ModelTotals:
    """One slice of the sums, by model: what every column of the board is taken from."""

    def __init__(self, sums: ModelSums) -> None:
        self.sums = sums
        every = sums.totals("models")
        self.code = np.flatnonzero(every["appeared"] > 0.0)  # of each model among the names
        self.by_model = {name: column[self.code] for name, column in every.items()}
        self.models = tuple(sums.names[i] for i in self.code.tolist())
        self._place = np.full(len(sums.names), -1)
        self._place[self.code] = np.arange(len(self.code))

    def __len__(self) -> int:
        return len(self.models)

    def column(self, name: str) -> Floats:
        return self.by_model[name]

    def count(self, name: str) -> int:
        return int(self.sums.totals("counts")[name][0])

    @property
    def has_scores(self) -> bool:
        return "scores" in self.sums.tables and self.sums.tables["scores"].n > 0

    def mean(self, top: str, bottom: str) -> Floats:
        """A mean over sessions, NaN where a model is in none."""
        return by_cluster.quotient(self.column(top), self.column(bottom))

    def by_cluster(self, name: str) -> Floats:
        """A column of the sums, clusters by models; clusters that hold nothing are left out."""
        cells, columns = self.sums.tables["models"], self.sums.columns("models")
        table = np.zeros((self.sums.n_clusters, len(self)))
        table[cells.cluster, self._place[cells.subject]] = columns[name]
        return table[np.unique(cells.cluster[columns["voted"] > 0.0])]

    def matches(self) -> tuple[Ints, Ints, dict[str, Floats]]:
        """The upper model, the lower one, and the sums of each cell of the pairs."""
        above, below = np.divmod(self.sums.tables["pairs"].subject, len(self.sums.names))
        return self._place[above], self._place[below], self.sums.columns("pairs")

    def points(self) -> Floats:
        """How often each model stood above each other on a ballot; a tie is half."""
        points = np.zeros((len(self), len(self)))
        above, below, sums = self.matches()
        np.add.at(points, (above, below), sums["won"] + sums["tied"] / 2.0)
        np.add.at(points, (below, above), sums["tied"] / 2.0)
        return points

    def by_reviewer(self, table: str) -> tuple[Ints, Ints, dict[str, Floats]]:
        """Reviewer, model and sums of each pair that has any, of a table by reviewers."""
        reviewer, candidate = np.divmod(self.sums.tables[table].subject, len(self.sums.names))
        model = self._place[candidate]
        on_board = model >= 0
        columns = {name: column[on_board] for name, column in self.sums.columns(table).items()}
        return reviewer[on_board], model[on_board], columns


def board_columns(
    totals: ModelTotals, rule: str, *, two_way: bool = False, ranked: Estimates | None = None
) -> dict[str, list[Any]]:
    """The board's columns, the best model first.

    `ranked` brings the values of a rule that is no mean over sessions.
    """
    share = mean_estimates(totals, "borda")
    share = _two_way(share, totals) if two_way else share
    if ranked is None:
        ranked = share if rule == "borda" else mean_estimates(totals, rule)
    values = {name: make(totals) for name, make in VALUES.items()}
    if "lengths" in totals.sums.tables:
        values["share_length_controlled"] = length_controlled(totals)[0]
    return columns_of(totals.models, ranked, share, values)


def columns_of(
    models: Sequence[str],
    ranked: Estimates,
    share: Estimates,
    values: Mapping[str, Floats | Ints],
) -> dict[str, list[Any]]:
    """The columns of a board in their order, the best model first.

    A column of `COLUMNS` without values is None in every row; values beyond it come last.
    """
    order, rank = standing(ranked.value, values["total_wins"], models, ranked.lower_is_better)
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
    }
    for name, places in zip(("rank_low", "rank_high", "tier"), _rank_ranges(ranked), strict=True):
        columns[name] = [place or None for place in places[list(order)].tolist()]
    for name in COLUMNS[len(columns) :]:
        columns[name] = rounded(estimated.get(name, nothing), order)
    if ranked is not share:
        own = {"value": ranked.value, "value_low": ranked.low, "value_high": ranked.high}
        columns |= {name: rounded(column, order) for name, column in own.items()}
    more = {name: column for name, column in values.items() if name not in columns}
    return columns | {name: rounded(column, order) for name, column in more.items()}


def rounded(values: Floats | Ints, order: Sequence[int]) -> list[Any]:
    """Values in this order: counts as they are, numbers rounded, None for what is undefined."""
    picked: list[Any] = values[list(order)].tolist()
    is_count = np.issubdtype(values.dtype, np.integer)
    return picked if is_count else [plain(value) for value in picked]


def plain(value: float) -> float | None:
    """A number that does not depend on the order in which sums were added; None for none."""
    return round(value, DECIMALS) + 0.0 if math.isfinite(value) else None


def standing(
    values: Floats, wins: Floats | Ints, models: Sequence[str], lower: bool = False
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
    first: dict[tuple[bool, float, float], int] = {}  # the rank that equals share
    return order, {i: first.setdefault(key(i), place) for place, i in enumerate(order, 1)}


def _rank_ranges(ranked: Estimates) -> Ints:
    """The best and worst rank and the tier of each model, 0 without a value and a spread."""
    ranges = np.zeros((3, len(ranked.value)), dtype=np.int64)
    known = np.flatnonzero(np.isfinite(ranked.value))
    if len(known) == 0 or (ranked.influences is None and ranked.covariance is None):
        return ranges
    values = -ranked.value[known] if ranked.lower_is_better else ranked.value[known]
    # Whose own spread is unknown cannot be told apart from anyone.
    spread_known = np.isfinite(ranked.low[known])
    if ranked.n_clusters is not None:
        spread_known &= ranked.n_clusters[known] >= MIN_CLUSTERS
    values = np.where(spread_known, values, np.nan)
    rng = generator("rank ranges", len(known))
    if ranked.influences is not None:
        pulls = ranked.influences[:, known]
        alike, above = _unanimous(ranked, known, values)
        drawn = np.where(alike, np.nan, values)
        low, high = sign_flip_ranks(drawn, pulls, rng, level=LEVEL, above=above)
    else:
        spread = np.asarray(ranked.covariance)[np.ix_(known, known)]
        draws = normal_draws(values, np.where(np.isfinite(spread), spread, 0.0), rng)
        df = np.broadcast_to(ranked.df, (len(ranked.value),) * 2)[np.ix_(known, known)]
        low, high = simultaneous_ranks(values, draws, level=LEVEL, df=df)
    tiered = np.isfinite(values)
    tiered = tiered | ~tiered.any()
    # Who may stand anywhere has no tier and parts none, unless there is nobody else.
    ranges[:2, known] = low, high
    ranges[2, known[tiered]] = tiers(low[tiered], high[tiered] - (~tiered).sum())
    return ranges


def _unanimous(ranked: Estimates, known: Ints, values: Floats) -> tuple[Bools, Bools | None]:
    """Models that have one value in all clusters, and whom each of them stands above or below.

    Their spread cannot be seen, so a difference is held to an exact sign test over the clusters
    that both are in, corrected for the number of pairs: forty of one sign are evidence.
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


def mean_estimates(totals: ModelTotals, rule: str) -> Estimates:
    """The mean over sessions of each model, with its leave-one-session-out interval."""
    top, bottom = (totals.by_cluster(column) for column in MEANS[rule])
    value, influences = by_cluster.ratio_influences(top, bottom)
    each = by_cluster.quotient(top, bottom)
    inside = np.isfinite(each)
    n = inside.sum(axis=0)
    half = np.where(n > 1, _half_widths(influences, inside), np.nan)
    low, high = value - half, value + half
    # Where all agree: what a session may do that is too rare to have been seen.
    largest, smallest = (
        pick.reduce(each, axis=0, where=inside, initial=bound)
        for pick, bound in ((np.maximum, -np.inf), (np.minimum, np.inf))
    )
    alike = (n > 1) & ~(largest - smallest > by_cluster.SAME)
    least, most = (1.0, float(max(len(value), 2))) if rule == "mean_rank" else (0.0, 1.0)
    rare = 1.0 - ((1.0 - LEVEL) / 2.0) ** (1.0 / np.maximum(n, 1))
    low = np.where(alike, least + (value - least) * (1.0 - rare), low)
    high = np.where(alike, low + rare * (most - least), high)
    return Estimates(
        value,
        low,
        high,
        influences=influences,
        lower_is_better=rule in LOWER_IS_BETTER,
        n_clusters=n,
        by_cluster=each,
    )


def _half_widths(influences: Floats, inside: Bools) -> Floats:
    """Half of each model's interval, from the influences of the clusters that it is in."""
    cluster, model = np.nonzero(inside)
    spread = by_cluster.spread_of(influences[cluster, model], model, influences.shape[1])
    return t_halves(np.sqrt((influences**2).sum(axis=0)), spread.df)


def t_halves(error: Floats, df: Floats) -> Floats:
    """Half of each interval with this standard error and these degrees of freedom."""
    return error * np.array([t_critical(LEVEL, degrees) for degrees in df.tolist()])


def _two_way(sessions: Estimates, totals: ModelTotals) -> Estimates:
    """Both spreads added: of sessions, and of reviewers around each session's mean.

    A sum of variances has Satterthwaite's degrees of freedom.
    """
    pulls, n_reviewers = _reviewer_influence(totals)
    influences, others = np.asarray(sessions.influences), np.maximum(n_reviewers - 1.0, 1.0)
    scaled = pulls * np.sqrt(n_reviewers / others)
    of_sessions, of_reviewers = influences.T @ influences, scaled.T @ scaled
    total = of_sessions + of_reviewers
    variance, own, theirs = (table.diagonal() for table in (total, of_sessions, of_reviewers))
    known = (n_reviewers >= MIN_REVIEWERS) & (variance > 0.0) & np.isfinite(sessions.low)
    shared = own**2 / max(len(influences) - 1.0, 1.0) + theirs**2 / others
    df = np.where(known, variance**2 / np.where(known, shared, 1.0), 1.0)
    half = np.where(known, t_halves(np.sqrt(np.where(known, variance, 0.0)), df), np.nan)
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


def n_voters(totals: ModelTotals) -> int:
    """How many reviewers have cast a vote."""
    return len(_reviewer_influence(totals)[0])


def _reviewer_influence(totals: ModelTotals) -> tuple[Floats, Floats]:
    """What each reviewer does to each model's share, and how many reviewers each model has."""
    reviewer, model, sums = totals.by_reviewer("influence")
    voted = sums["votes"] > 0.0
    reviewers, place = np.unique(reviewer[voted], return_inverse=True)
    table = np.zeros((len(reviewers), len(totals)))
    table[place, model[voted]] = sums["pull"][voted]
    n = np.bincount(model[voted], minlength=len(totals)).astype(np.float64)
    weight = totals.column("voted")
    return table / np.where(weight > 0.0, weight, 1.0), n


# -- other views -------------------------------------------------------------------------------


def fitted_scores(totals: ModelTotals) -> Floats:
    """Each model's mean score as graders of average level would give it; NaN without a score.

    Score = grader's level + model, over the means of each grader and model. Nobody grades itself,
    so a plain mean punishes everyone but the harsh grader. Alternating least squares; graders
    and models that nothing connects keep their own mean level.
    """
    if not totals.has_scores:
        return np.full(len(totals), np.nan)
    reviewer, model, sums = totals.by_reviewer("scores")
    _, who = np.unique(reviewer, return_inverse=True)
    weight, score = sums["weight"], sums["score"]
    by_who = np.maximum(np.bincount(who, weight), FLAT)
    by_model = np.bincount(model, weight, minlength=len(totals))
    level, value = np.zeros(len(by_who)), np.zeros(len(totals))
    for _ in range(MAX_SWEEPS):
        left = np.bincount(model, score - weight * level[who], minlength=len(totals))
        new = left / np.maximum(by_model, FLAT)
        level = np.bincount(who, score - weight * new[model]) / by_who
        moved, value = float(np.abs(new - value).max(initial=0.0)), new
        if moved <= FLAT:
            break
    return np.where(by_model > 0.0, value, np.nan)


def z_scores(totals: ModelTotals) -> Floats:
    """The calibrated view: scores z-normalised per reviewer, then averaged session by session.

    A reviewer whose scores are all alike says nothing: zero. NaN where there is no score.
    """
    if not totals.has_scores:
        return np.full(len(totals), np.nan)
    reviewer, model, sums = totals.by_reviewer("scores")
    _, place = np.unique(reviewer, return_inverse=True)
    n, total, squares = (np.bincount(place, sums[name]) for name in ("n", "sum", "squares"))
    mean = total / np.maximum(n, 1.0)
    spread = squares - n * mean * mean
    flat = spread <= FLAT * np.maximum(squares, 1.0)
    sd = np.sqrt(np.where(flat, 1.0, spread) / np.maximum(n - 1.0, 1.0))
    gap = sums["score"] - mean[place] * sums["weight"]
    z = np.where(flat[place], 0.0, gap / sd[place])
    added = np.bincount(model, weights=z, minlength=len(totals))
    return by_cluster.quotient(added, totals.column("scored"))


def length_controlled(totals: ModelTotals) -> tuple[Floats, float | None]:
    """Each model's share at its rivals' length, and what a unit of log length is worth.

    The slope comes from answers of the same model that were longer or shorter than their
    rivals, so that a model which is both wordy and good does not pay for being good.
    """
    table = {name: c[totals.code] for name, c in totals.sums.totals("lengths").items()}
    n, long = np.maximum(table["n"], 1.0), table["long"]
    squares = float((table["square"] - long**2 / n).sum())
    products = float((table["product"] - long * table["share"] / n).sum())
    share = totals.mean("share", "voted")
    if squares <= FLAT * max(float(table["square"].sum()), 1.0):
        return np.full(len(share), np.nan), None
    slope = products / squares
    return np.clip(share - slope * long / n, 0.0, 1.0), slope


def head_to_head(totals: ModelTotals, order: Sequence[str]) -> dict[str, Any]:
    """How often each model stands above each other on a ballot that ranks both.

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


def rating_estimates(totals: ModelTotals) -> Estimates:
    """Bradley–Terry ratings with intervals over sessions; NaN for who met no one.

    The sandwich estimator, each cluster's surprise through the information: comparisons read off
    one ballot, or of one session, are not independent, so the plain inverse information would
    promise too much.
    """
    points = totals.points()
    met = np.flatnonzero((points + points.T).any(axis=0))
    points = points[np.ix_(met, met)]
    value, logs = np.full(len(totals), np.nan), np.zeros(len(totals))
    logs[met] = strengths(points)
    value[met] = rating(logs[met])
    surprise = _surprise(totals, logs)
    influences = np.zeros((len(surprise), len(totals)))
    influences[:, met] = surprise[:, met] @ covariance(points, logs[met]) * SCALE
    n = (influences != 0.0).sum(axis=0)
    half = _half_widths(influences, influences != 0.0)
    half = np.where(n > 1, half * np.sqrt(n / np.maximum(n - 1.0, 1.0)), np.nan)
    return Estimates(value, value - half, value + half, influences=influences, n_clusters=n)


def _surprise(totals: ModelTotals, logs: Floats) -> Floats:
    """By cluster and model: points won head to head, less what the strengths expect."""
    above, below, sums = totals.matches()
    chance = 1.0 / (1.0 + np.exp(logs[below] - logs[above]))
    gain = sums["won"] * (1.0 - chance) + sums["tied"] * (0.5 - chance)
    clusters, cluster = np.unique(totals.sums.tables["pairs"].cluster, return_inverse=True)
    surprise = np.zeros((len(clusters), len(totals)))
    np.add.at(surprise, (cluster, above), gain)
    np.add.at(surprise, (cluster, below), -gain)
    return surprise


# Beside ranks and shares. Whole numbers are counts; None stands where a value is not finite.
VALUES: Mapping[str, Callable[[ModelTotals], Floats | Ints]] = {
    "aggregate_borda": lambda totals: totals.mean("borda", "voted"),
    "total_votes": lambda totals: totals.column("votes").astype(np.int64),
    "total_wins": lambda totals: totals.column("wins").astype(np.int64),
    "appearances": lambda totals: totals.column("appeared").astype(np.int64),
    "mean_score": fitted_scores,
    "mean_score_plain": lambda totals: totals.mean("score", "scored"),
    "z_score": z_scores,
}
PLACES = ("model", "rank", "rank_low", "rank_high", "tier", "aggregate_borda")
COLUMNS = tuple(dict.fromkeys((*PLACES, "share", "share_low", "share_high", *VALUES)))


# -- comparisons two by two ----------------------------------------------------------------------
#
# They are independent of each other, so every interval follows from how often each pair met: the
# cost does not grow with the number of comparisons once they are counted.


@dataclass(frozen=True, slots=True)
class WinCounts:
    """How often each model won against each other (`wins[winner, loser]`), and tied with it."""

    models: tuple[str, ...]
    wins: Floats
    ties: Floats  # symmetric

    @classmethod
    def of(
        cls, a: Sequence[str], b: Sequence[str], points: Sequence[float], n: Sequence[int]
    ) -> WinCounts:
        """Counts from kinds of comparison: two models, the first one's points, how many."""
        models = tuple(sorted({*a, *b}))
        place = {name: i for i, name in enumerate(models)}
        wins, ties = np.zeros((2, len(models), len(models)))
        for first, second, point, count in zip(a, b, points, n, strict=True):
            i, j = place[first], place[second]
            if point == 0.5:
                ties[i, j] += count
                ties[j, i] += count
            else:
                wins[(i, j) if point > 0.5 else (j, i)] += count
        return cls(models, wins, ties)

    @property
    def n(self) -> int:
        return int(self.wins.sum() + self.ties.sum() / 2.0)


def win_counts_columns(counts: WinCounts) -> dict[str, list[Any]]:
    """The columns of the model board under Bradley–Terry, the best model first."""
    ranked = rating_estimates_of(counts)
    won, tied, lost = counts.wins.sum(axis=1), counts.ties.sum(axis=1), counts.wins.sum(axis=0)
    n = won + tied + lost
    share = (won + tied / 2.0) / n
    return columns_of(
        counts.models,
        ranked,
        _share_estimates(share, won, tied, lost),
        {
            "aggregate_borda": share,
            "total_votes": n.astype(np.int64),
            "total_wins": won.astype(np.int64),
            "appearances": n.astype(np.int64),
        },
    )


def rating_estimates_of(counts: WinCounts) -> Estimates:
    """Ratings with intervals, each comparison an observation: the sandwich estimator from counts.

    A comparison moves the log strengths by its surprise times the difference of two rows of the
    inverse information. Sums of squares and fourth powers of these need only the counts.
    """
    points = counts.wins + counts.ties / 2.0
    logs = strengths(points)
    inverse = covariance(points, logs) * SCALE
    lose = 1.0 / (1.0 + np.exp(logs[:, None] - logs[None, :]))
    level = np.triu(counts.ties)  # each tie once
    squares, fourths = (
        counts.wins * lose**power + level * (lose - 0.5) ** power for power in (2, 4)
    )
    both = squares + squares.T
    spread = inverse @ (np.diag(both.sum(axis=1)) - both) @ inverse
    n, value, own = counts.n, rating(logs), spread.diagonal()
    half = np.full(len(value), np.nan)
    if n > 1:
        gaps = (row[:, None] - row[None, :] for row in inverse)
        each = np.array([(fourths * gap**4).sum() for gap in gaps])
        degrees = by_cluster.jackknife_df(np.full(len(own), n), own, each)
        half = np.where(own > 0.0, t_halves(np.sqrt(own * n / (n - 1.0)), degrees), np.nan)
    met = (points + points.T).sum(axis=1)
    df = welch_df(own, met)
    return Estimates(value, value - half, value + half, covariance=spread, df=df)


def _share_estimates(share: Floats, won: Floats, tied: Floats, lost: Floats) -> Estimates:
    """Shares of comparisons won, a tie as half, with their leave-one-out intervals."""
    n_each, gaps = np.stack([won, tied, lost]), np.stack([1.0 - share, 0.5 - share, -share])
    n = n_each.sum(axis=0)
    left_out = gaps / np.maximum(n - 1.0, 1.0)
    squares, fourths = ((n_each * left_out**power).sum(axis=0) for power in (2, 4))
    error = np.sqrt((n - 1.0) / n * squares)
    columns = (share, n, error, by_cluster.jackknife_df(n, squares, fourths))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    intervals = [interval_of(*row)[:2] for row in rows]
    low, high = np.array(intervals, dtype=np.float64).reshape(-1, 2).T
    return Estimates(share, low, high)
