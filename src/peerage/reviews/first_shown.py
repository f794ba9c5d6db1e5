"""Measure order effects: what the answer shown first gains, and what it does to the later ones.

Both need orders that differ between reviewers. Where all saw one order, what a reviewer gives to
the first answer is in the quality that it is held against, and nothing can tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerage.reviews.cells import Cells, table_of
from peerage.reviews.deviations import FIT, MAX_JOINT, DeviationSums, totals_by
from peerage.reviews.measurements import Fit, Measurement, beside_base, measurements, spread_of
from peerage.reviews.one_scale import NOBODY, TAU, Bools, Floats, Ints, Scales
from peerage.stats.clusters import quotient

MAX_CONDITION = 1e8
COINCIDE = "every answer kept one position, so position and answer coincide"


def anchoring(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's slope of the later answers' deviation on the first one's quality.

    Nothing for comparisons: the mean of a full ranking is fixed, so that later answers fall
    by design where the first is placed high.
    """
    if sums.anchor is None:
        return []
    cells = beside_base(sums.anchor, sums.base, lambda subject: subject)

    def slope(own: Floats, fit: Fit) -> tuple[Floats, Floats]:
        _, one, y, q, squares = own.T
        squares = np.where(squares > 0.0, squares, 0.0)
        level = quotient(fit.y - fit.scale * fit.q, fit.n)
        tilt = quotient(q - quotient(fit.q, fit.n) * one, squares)
        return quotient(y - level * one - fit.scale * q, squares), tilt

    own = cells.own_totals()
    same = np.isin(cells.subject, _without_own_order(sums, scales))
    reasons = [
        (same, "every answer kept one position, so all reviewers have the same anchor"),
        (own[:, 4] <= 0.0, "first answers do not differ in quality beyond noise"),
    ]
    return cells.measured(slope, own[:, 0], scales, reasons)


def pooled_slope(found: Sequence[Measurement]) -> Measurement | None:
    """What all reviewers share of an effect, each weighed by how surely it is measured."""
    known = [one for one in found if one.value is not None and one.se and one.df]
    if not known:
        return None
    weight = np.array([1.0 / one.se**2 for one in known if one.se])
    value = float((weight * [one.value for one in known]).sum() / weight.sum())
    df = float(sum(one.df for one in known if one.df))
    n, most = sum(one.n for one in known), max(one.n_clusters for one in known)
    return Measurement(0, value, float(weight.sum() ** -0.5), df, n, most, known[0].unit)


def _without_own_order(sums: DeviationSums, scales: Scales) -> Ints:
    """Reviewers whose position effect cannot be told, because all saw the same order.

    Other rounds in another order do not help: on each of them all had the same anchor.
    """
    k = len(scales.sd)
    if k > MAX_JOINT or sums.first_alone is None:
        return NOBODY
    alone = sums.first_alone
    once = alone.subject // k != alone.subject % k  # anchors are not measured on comparisons
    alone = Cells(alone.subject[once], alone.cluster[once], alone.sums[once])
    system = _PositionSystem.of(replace(sums, first_alone=alone), scales)
    unknown: Ints = system.reviewer[np.isnan(system.solution(leave_out=False)[0])]
    return unknown


def position(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's points for the answer shown first, all reviewers solved for together.

    What others give to their first answers is in the quality that a reviewer is held against,
    so that effects are the solution of one system. Answers nobody else judged add to the
    reviewer's own equation, with position and score less their means for that candidate.
    """
    if sums.first is None or sums.first_others is None or sums.first_alone is None:
        return []
    if len(scales.sd) > MAX_JOINT:
        return _position_of_crowd(sums, scales)
    system = _PositionSystem.of(sums, scales)
    if len(system.reviewer) == 0:
        return []
    whole = system.solution(leave_out=False)
    left_out = system.solution(leave_out=True)
    n, k = len(system.reviewer), system.n_clusters
    place = np.repeat(np.arange(n), k)
    held = system.held.T.ravel()
    tilt = system.tilt * TAU * system.prior
    spread = spread_of(left_out.T.ravel()[held], place[held], n, tilt)
    coincide = (np.isnan(whole[0]), COINCIDE)
    return measurements(
        system.reviewer,
        system.reviewer,
        whole[0],
        spread,
        system.n_first,
        scales,
        [coincide],
        may_be_alone=True,
    )


@dataclass(frozen=True, slots=True)
class _PositionSystem:
    """A·π = T by cluster, dense: clusters by reviewers (by reviewers)."""

    scales: Scales
    reviewer: Ints
    n_clusters: int
    line: Floats  # clusters, reviewers, columns of LINE
    base: Floats
    others: Floats  # clusters, reviewers, reviewers, the two sums of others' firsts
    lone: Floats  # clusters (what leaving each out takes away), reviewers, xx and xy
    lone_all: Floats  # reviewers, xx and xy
    weight: Floats  # of lone answers, by reviewer
    n_first: Floats

    @classmethod
    def of(cls, sums: DeviationSums, scales: Scales) -> _PositionSystem:
        k = len(scales.sd)
        tables = [t for t in (sums.first, sums.first_others, sums.first_alone) if t is not None]
        first, first_others, alone = tables
        lone, lone_all, variance, lone_first = _lone_sums(alone, scales)
        reviewer = np.union1d(np.unique(first.subject), np.flatnonzero(lone_all[:, 0] > 0.0))
        clusters = np.unique(np.concatenate([t.cluster for t in (*tables, sums.base)]))
        place = np.full(k, -1)
        place[reviewer] = np.arange(len(reviewer))

        def dense(table: Cells) -> Floats:
            out = np.zeros((len(clusters), len(reviewer), table.sums.shape[1]))
            kept = place[table.subject] >= 0
            at = np.searchsorted(clusters, table.cluster[kept]), place[table.subject[kept]]
            out[at] = table.sums[kept]
            return out

        others = np.zeros((len(clusters), len(reviewer), len(reviewer), 2))
        r, s = place[first_others.subject // k], place[first_others.subject % k]
        kept = (r >= 0) & (s >= 0)
        at = np.searchsorted(clusters, first_others.cluster[kept])
        others[at, r[kept], s[kept]] = first_others.sums[kept]
        weight = _lone_weight(scales, variance)[reviewer]
        line = dense(first)
        n_first = line[:, :, 7].sum(axis=0) + lone_first[reviewer]
        return cls(
            scales,
            reviewer,
            len(clusters),
            line,
            dense(sums.base),
            others,
            dense(lone),
            lone_all[reviewer],
            weight,
            n_first,
        )

    @property
    def held(self) -> Bools:
        """Clusters by reviewers: where a reviewer has anything."""
        there: Bools = (self.line[:, :, 0] > 0.0) | (self.lone != 0.0).any(axis=2)
        return there

    @property
    def prior(self) -> Floats:
        _, prior = self._scale(self.base.sum(axis=0, keepdims=True))
        return prior.reshape(-1)

    @property
    def tilt(self) -> Floats:
        """How far a wrong scale moves a reviewer's effect: the slope of quality on position."""
        n, x, _, q, xx, _, xq = self.line.sum(axis=0)[:, :7].T
        if not self.scales.compares:
            xx, xq = xx - x * x / np.maximum(n, 1.0), xq - x * q / np.maximum(n, 1.0)
        lone = self.weight * self.lone_all[:, 0]
        return np.nan_to_num(quotient(xq, xx + lone))

    def _scale(self, base: Floats) -> tuple[Floats, Floats]:
        who = np.broadcast_to(self.reviewer, base.shape[:2])
        scale, prior = self.scales.of_sums(who, list(np.moveaxis(base[..., FIT], -1, 0)))
        return np.nan_to_num(scale), prior

    def solution(self, *, leave_out: bool) -> Floats:
        """Effects by reviewer: of all clusters together, or without each of them in turn."""

        def rest(by_cluster: Floats) -> Floats:
            whole: Floats = by_cluster.sum(axis=0)[None]
            return whole - by_cluster if leave_out else whole

        n, x, y, q, xx, xy, xq = np.moveaxis(rest(self.line)[..., :7], -1, 0)
        some = np.maximum(n, 1.0)
        mean = np.zeros_like(x) if self.scales.compares else x / some
        scale, _ = self._scale(rest(self.base))
        others = rest(self.others)
        lone = self.lone_all[None] - (self.lone if leave_out else 0.0)
        own = xx - mean * x + self.weight * lone[..., 0]
        top = xy - mean * y - scale * (xq - mean * q) + self.weight * lone[..., 1]
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


def _lone_weight(scales: Scales, variance: Floats) -> Floats:
    """What an answer nobody else judged counts for, beside one that is held against others."""
    both = np.isfinite(scales.level) & (variance > 0.0)
    ratio = scales.residual_variance / np.where(variance > 0.0, variance, 1.0)
    return np.where(both, np.minimum(1.0, ratio), 1.0)


def _position_of_crowd(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's effect among too many to solve for: all others have the pooled one."""
    if sums.first is None or sums.first_others is None or sums.first_alone is None:
        return []
    k = len(scales.sd)
    lone, lone_all, variance, lone_first = _lone_sums(sums.first_alone, scales)
    weight = _lone_weight(scales, variance)
    parts = (
        (sums.base.subject, sums.base.cluster, sums.base.sums),
        (sums.first.subject, sums.first.cluster, sums.first.sums),
        (sums.first_others.subject // k, sums.first_others.cluster, sums.first_others.sums),
        (lone.subject, lone.cluster, lone.sums),
    )
    width = [part[2].shape[1] for part in parts]
    at = np.cumsum([0, *width])
    stacked = np.zeros((sum(len(part[0]) for part in parts), at[-1]))
    row = 0
    for (subject, _, columns), start in zip(parts, at, strict=False):
        stacked[row : row + len(subject), start : start + columns.shape[1]] = columns
        row += len(subject)
    table = table_of(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        list(stacked.T),
    )
    reviewer, place = np.unique(table.subject, return_inverse=True)
    total = totals_by(place, table.sums, len(reviewer))
    alone = lone_all[reviewer]

    def equation(each: Floats, lone_sums: Floats, who: Ints) -> tuple[Floats, Floats, Floats]:
        """Own weight, what the reviewer gives, and what others' firsts take from it a point."""
        scale, _ = scales.of_sums(who, list(each[:, FIT].T))
        scale = np.nan_to_num(scale)
        n, x, y, q, xx, xy, xq = each[:, at[1] : at[1] + 7].T
        mean = np.zeros_like(x) if scales.compares else x / np.maximum(n, 1.0)
        own = xx - mean * x + weight[who] * lone_sums[:, 0]
        top = xy - mean * y - scale * (xq - mean * q) + weight[who] * lone_sums[:, 1]
        others = each[:, at[2] : at[2] + 2]
        return np.where(own > 1e-9, own, 0.0), top, scale * (others[:, 1] - mean * others[:, 0])

    own, top, shared = equation(total, alone, reviewer)
    pooled = float(np.nan_to_num(quotient(top.sum(), (own - shared).sum())))
    rest = equation(
        total[place] - table.sums, alone[place] - table.sums[:, at[3] :], reviewer[place]
    )
    _, prior = scales.of_sums(reviewer, list(total[:, FIT].T))
    n, x, _, q, _, _, xq = total[:, at[1] : at[1] + 7].T
    mean = np.zeros_like(x) if scales.compares else x / np.maximum(n, 1.0)
    tilt = np.nan_to_num(quotient(xq - mean * q, own))
    value = quotient(top + pooled * shared, own)
    left_out = quotient(rest[1] + pooled * rest[2], rest[0])
    spread = spread_of(left_out, place, len(reviewer), tilt * TAU * prior)
    n_first = total[:, at[1] + 7] + lone_first[reviewer]
    coincide = (np.isnan(value), COINCIDE)
    return measurements(
        reviewer, reviewer, value, spread, n_first, scales, [coincide], may_be_alone=True
    )


def _lone_sums(alone: Cells, scales: Scales) -> tuple[Cells, Floats, Floats, Floats]:
    """Answers nobody else judged, centred by candidate: sums by reviewer.

    What leaving each cluster out takes from (xx, xy); (xx, xy) by reviewer; the variance of the
    centred scores; and how many such answers were shown first.
    """
    subject, place = np.unique(alone.subject, return_inverse=True)
    k = len(scales.sd)
    who = subject // (k * k if scales.compares else k)
    total = totals_by(place, alone.sums, len(subject))
    centred = _centred(total)
    rest = total[place] - alone.sums
    taken = centred[place] - np.where(rest[:, :1] > 0.5, _centred(rest), 0.0)
    lone = table_of(who[place], alone.cluster, [taken[:, 0], taken[:, 1]])
    added = totals_by(who, centred, k)
    counts = totals_by(who, total[:, [0, 6]] - [1.0, 0.0], k)
    variance = quotient(added[:, 2], counts[:, 0])
    return lone, added[:, :2], np.nan_to_num(variance), counts[:, 1]


def _centred(sums: Floats) -> Floats:
    n, x, y, xx, xy, yy = sums[:, :6].T
    some = np.maximum(n, 1.0)
    return np.column_stack([xx - x * x / some, xy - x * y / some, yy - y * y / some])
