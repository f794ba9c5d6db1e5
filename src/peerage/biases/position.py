"""Does the first answer shown score higher, whoever wrote it?

For everyone together, scores are centred within session and candidate, so that only an answer
seen in different places by different reviewers can speak, and the null deals the orders again.
A reviewer is held against the others on one scale, less what the others' firsts put into it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested, as_tested, signed, unknown
from peerage.reviews.cells import Cells, Tables, beside, ordered, single_cell, table_of
from peerage.reviews.deviations import FIT, MAX_JOINT, totals_by
from peerage.reviews.intervals import Estimate, measurements
from peerage.reviews.one_scale import NOBODY, TAU, Scales
from peerage.reviews.rows import Bools, Floats, Ints
from peerage.reviews.view import View
from peerage.stats.clusters import JackknifeSpread, quotient, spread_of
from peerage.stats.tails import beta_tail, t_critical

NAME = "position"
N_CURVE = 26
FLAT = 1e-9
MAX_PLACES = 1_024
N_SWEEPS = 20
MAX_CONDITION = 1e8
COINCIDE = "every answer kept one position, so position and answer coincide"


def sums(view: View) -> Sums:
    """Ballots, centred scores of the firsts and their weight; the spread of new deals; a curve."""
    first = view.judged.numbers["position"] == 0.0  # and not where there is no position
    x = first.astype(np.float64)
    e = view.ballot.centred(view.centred)
    apart = view.ballot.centred(x - (view.answer.sum(x) / view.n_by_answer)[view.answer.code])
    effect = single_cell(shows_first(view, first).sum(), e[first].sum(), apart[first].sum())
    return {"effect": effect, "curve": _curve(view, e), **spread_sums(view, first, e)}


def _curve(view: View, e: Floats) -> Cells:
    """By position: rows, sum of centred scores; and sums for the correlation, as position −1."""
    position = view.judged.numbers["position"]
    known = np.isfinite(position)
    p, here = np.where(known, position, -1.0), e * known
    at = np.minimum(p, N_CURVE).astype(np.int64) + 1
    n, total = np.bincount(at, minlength=N_CURVE + 2), np.bincount(at, e, minlength=N_CURVE + 2)
    pc = view.ballot.centred(p) * known
    table = np.column_stack([n, total, np.zeros((len(n), 3))]).astype(np.float64)
    table[0] = [known.sum(), 0.0, (pc * pc).sum(), (here * here).sum(), (pc * here).sum()]
    where = np.arange(len(n), dtype=np.int64)
    return ordered(np.zeros_like(where), where, table)


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, edge = panel.n_min(NAME), panel.healthy(NAME) * panel.scale
    n, top, bottom = (float(value) for value in sums["effect"].sums[0])
    if bottom <= FLAT * max(n, 1.0):
        why = COINCIDE if n else "no scored answer was shown first on a ballot with another"
        return [unknown(NAME, panel, why, n=int(n))]
    value, spread = top / bottom, dealt_spread(sums)
    half = spread.half_width(top)
    low, high = (None, None) if half is None else (value - half / bottom, value + half / bottom)
    null = (
        "orders dealt again as they were dealt"
        if "dealt" in sums
        else "orders permuted within ballots, which holds for independent shuffles"
    )
    note = f"{_curve_words(sums['curve'])}; {null}"
    everyone = Tested(NAME, "all", value, low, high, spread.p(top), int(n), n_min, edge, note)
    note = "points for the answer shown first, beyond what the others give it"
    each = position(panel.compared.sums, panel.compared.scales)
    return [everyone, *(as_tested(NAME, one, panel, note, edge=edge) for one in each)]


def curve_of(cells: Cells) -> list[tuple[int, float, int]]:
    """Position, mean centred score and rows, for each position that was used."""
    table = cells.sums[1:]
    return [(i, float(row[1] / row[0]), int(row[0])) for i, row in enumerate(table) if row[0] > 0]


def _curve_words(cells: Cells) -> str:
    means = [mean for _, mean, _ in curve_of(cells)]
    _, _, pp, ee, pe = cells.sums[0]
    r = float(pe / np.sqrt(pp * ee)) if pp > 0.0 and ee > 0.0 else None
    shape = f"by position {' '.join(signed(mean) for mean in means[:8])}"
    return f"{_shape_word(means)}{shape}; position–score r {signed(r)}"


def _shape_word(means: list[float]) -> str:
    """Primacy, recency or middle neglect: which end of the curve stands out."""
    if len(means) < 3:
        return ""
    first, last, middle = means[0], means[-1], sum(means[1:-1]) / (len(means) - 2)
    if min(first, last) > middle and abs(first - last) < abs(first - middle) / 2:
        return "middle neglect; "
    return "primacy; " if first >= last else "recency; "


# -- the null: who stands first is dealt again, and everything else stays -------------------------
#
# Give each row of a ballot a value g, what the ballot would add to a statistic if that row
# stood first, with mean zero on the ballot. The statistic is the sum of g over the rows that
# did stand first. Dealing again moves only "first", so the mean and the variance of the
# statistic under all deals follow from sums of g, with no drawing at all:
#
# - independent shuffles: each row of a ballot is first as often as any other, and ballots do
#   not know of each other, so that variances add up;
# - balanced squares: all ballots of one deal share one square, and a new draw gives each row of
#   the square another first candidate. With E the sums of g by row of the square and
#   candidate, the statistic is a sum along a random permutation, whose variance is that of
#   the doubly centred E over n − 1 (Hoeffding). Treating such ballots as shuffles gives false
#   alarms, since the square balances what a shuffle leaves to chance.
#
# A small square has few permutations, so the spread it shows is itself uncertain: a sum along
# a permutation of n is one of (n − 1)² directions, and its p is that of the correlation
# between where the sums are and where "first" was, with as many degrees of freedom. (A
# reviewer's own answer is missing from its squares, which leaves fewer.)


def shows_first(view: View, first: Bools) -> Bools:
    """Which ballots show a judged answer first, and another beside it."""
    return (view.ballot.sum(first) > 0) & (view.n_by_ballot > 1)


def spread_sums(view: View, first: Bools, value: Floats) -> dict[str, Cells]:
    """What the variance under new deals needs: of shuffled ballots, and of balanced squares."""
    chance = shows_first(view, first) / view.n_by_ballot
    dealt, place = _dealt(view)
    free = np.where(view.ballot.first(dealt), 0.0, chance)
    variance = (free * view.ballot.sum(value * value)).sum()
    dimensions = ((free > 0) * (view.n_by_ballot - 1.0)).sum()
    tables = {"free": single_cell(variance, dimensions)}
    if dealt.any():
        # By deal, and by candidate and row of the square: the sums of values and of firsts.
        rows = view.judged
        at = rows.candidate[dealt].astype(np.int64) * MAX_PLACES + place[dealt]
        tables["dealt"] = table_of(rows.keys["deal"][dealt], at, [value[dealt], first[dealt]])
    return tables


def _dealt(view: View) -> tuple[Bools, Ints]:
    """Which rows come from a balanced deal, and the row of the square that their ballot took."""
    rows, every = view.judged, view.all
    if "deal" not in rows.keys or "place" not in rows.numbers:
        return np.zeros(rows.n, dtype=bool), np.zeros(rows.n, dtype=np.int64)
    position, place = every.numbers["position"], rows.numbers["place"]
    known = np.isfinite(position)
    n_shown = np.ones(every.n_sessions, dtype=np.int64)  # own and unscored answers included
    np.maximum.at(n_shown, every.session[known], position[known].astype(np.int64) + 1)
    width = n_shown[rows.session]
    dealt = (rows.keys["deal"] >= 0) & (width <= MAX_PLACES) & np.isfinite(place)
    dealt &= np.isfinite(rows.numbers["position"])
    return dealt, np.where(dealt, place, 0.0).astype(np.int64) % width


@dataclass(frozen=True, slots=True)
class DealtSpread:
    """The variance of a statistic under new deals, and how many directions it was seen in."""

    variance: float
    dimensions: float

    def p(self, statistic: float) -> float | None:
        """The two-sided p of a statistic with mean zero; None where no deal could differ."""
        share = self._share(statistic)
        if share is None:
            return None
        return 0.0 if share >= 1.0 else beta_tail(1.0 - share, share, self.dimensions - 1.0)

    def half_width(self, statistic: float) -> float | None:
        """Half of the statistic's 95% interval, from the spread that is not the statistic's own."""
        share = self._share(statistic)
        if share is None:
            return None
        df = self.dimensions - 1.0
        rest = max(0.0, 1.0 - share) * self.dimensions / df
        return t_critical(0.95, round(df, 1)) * math.sqrt(self.variance * rest)

    def _share(self, statistic: float) -> float | None:
        """How much of the whole spread lies along the deal that was dealt."""
        if self.variance <= 0.0 or self.dimensions <= 1.5:
            return None
        return statistic * statistic / self.variance / self.dimensions


def dealt_spread(sums: Tables) -> DealtSpread:
    """The spread of the statistic over all deals that might have been."""
    variance, dimensions = (float(x) for x in sums["free"].sums.sum(axis=0))
    parts = [(variance, dimensions)] if variance > 0.0 else []
    if "dealt" in sums:
        parts += _squares(sums["dealt"])
    total = sum(v for v, _ in parts)
    shared = sum(v * v / d for v, d in parts if d > 0)
    return DealtSpread(total, total * total / shared if shared > 0.0 else 0.0)


def _squares(dealt: Cells) -> list[tuple[float, float]]:
    """Variance and dimensions of each deal's square."""
    candidate, place = np.divmod(dealt.cluster, MAX_PLACES)
    parts = []
    for deal in np.unique(dealt.subject):
        mine = dealt.subject == deal
        rows, i = np.unique(place[mine], return_inverse=True)
        names, j = np.unique(candidate[mine], return_inverse=True)
        sums, firsts, filled = np.zeros((3, len(rows), len(names)))
        sums[i, j], firsts[i, j] = dealt.sums[mine].T
        filled[i, j] = 1.0
        size = filled.sum() - len(rows) - len(names) + 1.0
        if size > 0.0:
            spread, first = (_doubly_centred(table, filled) for table in (sums, firsts > 0))
            parts.append((float((spread**2).sum() * (first**2).sum() / size), float(size)))
    return parts


def _doubly_centred(square: NDArray[Any], filled: Floats) -> Floats:
    """What rows and columns do not explain, over the cells that are there."""
    left: Floats = filled * square
    for _ in range(N_SWEEPS):
        for axis in (1, 0):
            mean = left.sum(axis=axis, keepdims=True) / filled.sum(axis=axis, keepdims=True)
            left = left - filled * mean
    return left


# -- one reviewer beside the others ------------------------------------------------------------


def position(sums: Tables, scales: Scales) -> list[Estimate]:
    """Each reviewer's points for the answer shown first, all reviewers solved for together.

    What others give to their first answers is in the quality that a reviewer is held against,
    so that effects are the solution of one system. Answers nobody else judged add to the
    reviewer's own equation, with position and score less their means for that candidate.
    """
    if "first" not in sums:
        return []
    if len(scales.sd) > MAX_JOINT:
        return _position_of_crowd(sums, scales)
    system = _PositionSystem(sums, scales)
    if len(system.reviewer) == 0:
        return []
    value, left_out = system.effects()[0], system.effects(leave_out=True)
    used = system.has_rows.T.ravel()
    place = np.repeat(np.arange(len(value)), len(left_out))[used]
    spread = spread_of(left_out.T.ravel()[used], place, len(value), system.scale_error())
    return _measured(system.reviewer, value, spread, system.n_first, scales)


def _measured(
    reviewer: Ints, value: Floats, spread: JackknifeSpread, n: Floats, scales: Scales
) -> list[Estimate]:
    coincide = [(np.isnan(value), COINCIDE)]
    return measurements(reviewer, reviewer, value, spread, n, scales, coincide)


def without_own_order(sums: Tables, scales: Scales) -> Ints:
    """Reviewers whose position effect cannot be told, because all saw the same order.

    Other rounds in another order do not help: on each of them all had the same anchor.
    """
    k, alone = len(scales.sd), sums["first_alone"]
    if k > MAX_JOINT:
        return NOBODY
    once = alone.only(alone.subject // k != alone.subject % k)  # these are no comparisons
    system = _PositionSystem({**sums, "first_alone": once}, scales)
    return system.reviewer[np.isnan(system.effects()[0])]


def _equation(
    line: Floats, lone: Floats, scale: Floats, weight: Floats, compares: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """A reviewer's equation: its own weight, what it gives, how quality tilts, and the mean of x.

    `line` has the columns of a line, `lone` what answers nobody else judged add (xx, xy).
    """
    n, x, y, q, xx, xy, xq = np.moveaxis(line[..., :7], -1, 0)
    mean = np.zeros_like(x) if compares else x / np.maximum(n, 1.0)
    own = xx - mean * x + weight * lone[..., 0]
    tilt = xq - mean * q
    return own, xy - mean * y - scale * tilt + weight * lone[..., 1], tilt, mean


class _PositionSystem:
    """A·π = T by cluster, dense: clusters by reviewers (by reviewers)."""

    def __init__(self, sums: Tables, scales: Scales) -> None:
        first, others, self.scales, k = sums["first"], sums["first_others"], scales, len(scales.sd)
        alone = _LoneSums(sums["first_alone"], scales)
        self.reviewer = np.union1d(first.subject, np.flatnonzero(alone.totals[:, 0] > 0.0))
        tables = (first, others, sums["first_alone"], sums["base"])
        clusters = np.unique(np.concatenate([table.cluster for table in tables]))
        n, place = len(self.reviewer), np.full(k, -1)
        place[self.reviewer] = np.arange(n)

        def dense(table: Cells, at: Ints, size: int) -> Floats:
            """Clusters by places by columns."""
            out = np.zeros((len(clusters), size, table.sums.shape[1]))
            known = at >= 0
            out[np.searchsorted(clusters, table.cluster[known]), at[known]] = table.sums[known]
            return out

        self.line, self.base, self.alone = (
            dense(table, place[table.subject], n) for table in (first, sums["base"], alone.removed)
        )
        r, s = place[others.subject // k], place[others.subject % k]
        # The two sums of others' firsts: clusters, reviewers, reviewers, 2
        self.others = dense(others, np.where((r >= 0) & (s >= 0), r * n + s, -1), n * n)
        self.others = self.others.reshape(len(clusters), n, n, 2)
        self.alone_all, self.weight = alone.totals[self.reviewer], alone.weight[self.reviewer]
        self.n_first = self.line[:, :, 7].sum(axis=0) + alone.n_first[self.reviewer]
        # Clusters by reviewers: where a reviewer has anything.
        self.has_rows: Bools = (self.line[:, :, 0] > 0.0) | (self.alone != 0.0).any(axis=2)

    def scale_error(self) -> Floats:
        """What a wrong scale may do to a reviewer's effect, by the slope of quality on position."""
        line, compares = self.line.sum(axis=0), self.scales.compares
        own, _, tilt, _ = _equation(line, self.alone_all, 0.0 * self.weight, self.weight, compares)
        _, prior = self._scale(self.base.sum(axis=0, keepdims=True))
        return np.nan_to_num(quotient(tilt, own)) * TAU * prior.reshape(-1)

    def _scale(self, base: Floats) -> tuple[Floats, Floats]:
        who = np.broadcast_to(self.reviewer, base.shape[:2])
        scale, prior = self.scales.of_sums(who, list(np.moveaxis(base[..., FIT], -1, 0)))
        return np.nan_to_num(scale), prior

    def effects(self, *, leave_out: bool = False) -> Floats:
        """Effects by reviewer: of all clusters together, or without each of them in turn."""

        def rest(by_cluster: Floats) -> Floats:
            whole: Floats = by_cluster.sum(axis=0)[None]
            return whole - by_cluster if leave_out else whole

        scale, _ = self._scale(rest(self.base))
        alone = self.alone_all[None] - (self.alone if leave_out else 0.0)
        compares, others = self.scales.compares, rest(self.others)
        own, top, _, mean = _equation(rest(self.line), alone, scale, self.weight, compares)
        across = scale[..., None] * (others[..., 1] - mean[..., None] * others[..., 0])
        return _solved(own, top, across)


def _solved(own: Floats, top: Floats, across: Floats) -> Floats:
    """The effects; NaN where a reviewer's position never varies or nothing tells effects apart."""
    if own.size == 0:
        return own
    flat = own <= 1e-9 * np.maximum(own.max(initial=0.0), 1.0)
    own = np.where(flat, 1.0, own)
    apart = ~(flat[:, :, None] | flat[:, None, :])
    system = np.where(apart, -across, 0.0) / own[..., None] + np.eye(own.shape[1])
    good = np.linalg.cond(system) < MAX_CONDITION
    system = np.where(good[:, None, None], system, np.eye(own.shape[1]))
    effects = np.linalg.solve(system, (top / own)[..., None])[..., 0]
    return np.where(flat | ~good[:, None], np.nan, effects)


def _position_of_crowd(sums: Tables, scales: Scales) -> list[Estimate]:
    """Each reviewer's effect among too many to solve for: all others have the pooled one."""
    lone = _LoneSums(sums["first_alone"], scales)
    others = sums["first_others"]
    others = Cells(others.subject // len(scales.sd), others.cluster, others.sums)
    parts = (sums["base"], sums["first"], others, lone.removed)
    table = reduce(beside, parts)
    at = np.cumsum([part.sums.shape[1] for part in parts])
    reviewer, place = np.unique(table.subject, return_inverse=True)
    total = totals_by(place, table.sums, len(reviewer))
    alone = lone.totals[reviewer]

    def equation(each: Floats, alone: Floats, who: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Own weight, what the reviewer gives, what others' firsts take from it, and the tilt."""
        scale = np.nan_to_num(scales.of_sums(who, list(each[:, FIT].T))[0])
        line, shared = each[:, at[0] : at[1]], each[:, at[1] : at[2]]
        own, top, tilt, mean = _equation(line, alone, scale, lone.weight[who], scales.compares)
        by_others = scale * (shared[:, 1] - mean * shared[:, 0])
        return np.where(own > 1e-9, own, 0.0), top, by_others, tilt

    own, top, by_others, tilt = equation(total, alone, reviewer)
    pooled = float(np.nan_to_num(quotient(top.sum(), (own - by_others).sum())))
    rest = equation(
        total[place] - table.sums, alone[place] - table.sums[:, at[2] :], reviewer[place]
    )
    _, prior = scales.of_sums(reviewer, list(total[:, FIT].T))
    left_out = quotient(rest[1] + pooled * rest[2], rest[0])
    extra = np.nan_to_num(quotient(tilt, own)) * TAU * prior
    spread = spread_of(left_out, place, len(reviewer), extra)
    n_first = total[:, at[0] + 7] + lone.n_first[reviewer]
    return _measured(reviewer, quotient(top + pooled * by_others, own), spread, n_first, scales)


class _LoneSums:
    """Answers nobody else judged, position and score less their means for that candidate."""

    def __init__(self, alone: Cells, scales: Scales) -> None:
        subject, place = np.unique(alone.subject, return_inverse=True)
        k = len(scales.sd)
        who = subject // (k * k if scales.compares else k)
        total = totals_by(place, alone.sums, len(subject))
        centred = _centred(total)
        rest = total[place] - alone.sums
        change = centred[place] - np.where(rest[:, :1] > 0.5, _centred(rest), 0.0)
        added = totals_by(who, centred, k)
        n, self.n_first = totals_by(who, total[:, [0, 6]] - [1.0, 0.0], k).T  # by reviewer
        variance = np.nan_to_num(quotient(added[:, 2], n))
        both = np.isfinite(scales.level) & (variance > 0.0)
        ratio = scales.residual_variance / np.where(variance > 0.0, variance, 1.0)
        # By reviewer: what such an answer counts beside one held against others.
        self.weight = np.where(both, np.minimum(1.0, ratio), 1.0)
        self.totals = added[:, :2]  # by reviewer: (xx, xy)
        # By reviewer and cluster: what leaving it out takes from (xx, xy).
        self.removed = table_of(who[place], alone.cluster, [change[:, 0], change[:, 1]])


def _centred(sums: Floats) -> Floats:
    n, x, y, xx, xy, yy = sums[:, :6].T
    some = np.maximum(n, 1.0)
    return np.column_stack([xx - x * x / some, xy - x * y / some, yy - y * y / some])


metrics.register(NAME)(
    Metric(NAME, ("position",), sums, findings, "the position of each answer on each ballot")
)
