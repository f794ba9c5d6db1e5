"""Measure how a reviewer departs from the others, on one scale, with an interval.

Every function takes the sums of all blocks and the fitted scales, and gives one `Measurement` a
reviewer (or pair). Values are in points of the reviewer's own scores; `unit` is their standard
deviation, which healthy ranges are multiples of. Intervals leave out one cluster at a time, fit
the reviewer's own level and scale again, and add what the prior on scales hides: a scale that is
wrong by τ(1 − κ) moves a value by that times the gap in quality it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from peerage.reviews.deviations import MAX_JOINT, DeviationSums, SumsTable, table_of
from peerage.reviews.one_scale import NOBODY, TAU, Bools, Floats, Ints, Reviews, Scales, fit_scales
from peerage.reviews.deviations import deviation_sums
from peerage.stats.clusters import quotient
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import benjamini_hochberg, normal_critical, student_t_p, t_critical

MeasurementStatus = Literal["ok", "not_identifiable"]

LEVEL = 0.95
FAR_Q = 2.0  # standard deviations of quality that a group may lie from the answers of the fit
ROUNDING = 1e-9  # of the unit: a spread below it is none
MAX_CONDITION = 1e8
MAX_ASIDE = 3
POWER_Z = normal_critical(0.6)  # 80% lie below it

CANNOT = {
    "constant": "gives every answer the same score",
    "alone": "judged nothing that others judged too",
}
ONE_OTHER = "only one other reviewer stands beside it, and no telling which of the two departs"
TOO_FAR = "these answers lie beyond the qualities that the reviewer's scale was fitted on"
NO_SPREAD = "no spread over sessions, so no telling how it would vary"
COINCIDE = "every answer kept one position, so position and answer coincide"
LONE_CLUSTER = "one session, or one query asked again and again: no telling how it would vary"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value with its standard error, or the reason why there is none.

    `subject` is the reviewer's code, or reviewer × names + candidate for a pair.
    """

    subject: int
    value: float | None
    se: float | None
    df: float | None
    n: int
    n_clusters: int
    unit: float
    status: MeasurementStatus = "ok"
    note: str = ""

    @property
    def low(self) -> float | None:
        return self._edge(-1.0)

    @property
    def high(self) -> float | None:
        return self._edge(1.0)

    @property
    def p(self) -> float | None:
        """Two-sided, against zero."""
        if self.value is None or self.se is None or self.df is None:
            return None
        return student_t_p(self.value / self.se, self.df)

    def _edge(self, side: float) -> float | None:
        if self.value is None or self.se is None or self.df is None:
            return None
        return self.value + side * t_critical(LEVEL, round(self.df, 3)) * self.se


def smallest_visible(se: float, df: float, edge: float) -> float:
    """The effect that four in five audits of this size would name (the `mde`).

    To be named, an estimate must pass both its critical value and the healthy edge; it does so in
    80% of audits where the true effect lies z(.8) standard errors beyond the higher of the two.
    """
    return max(edge, t_critical(LEVEL, round(df, 3)) * se) + POWER_Z * se


def n_needed(se: float, df: float, n: int, edge: float) -> int | None:
    """The n at which an effect as large as the healthy edge is told from none in 80% of audits.

    Standard errors shrink with the root of n: (t + z(.8))·se must fit into the edge. At that n
    a reviewer without any effect comes out clear about as often. None without a healthy range.
    """
    if edge <= 0.0:
        return None
    return max(n, math.ceil(n * ((t_critical(LEVEL, round(df, 3)) + POWER_Z) * se / edge) ** 2))


# -- leave one cluster out ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """For each subject, the cells of its reviewer's clusters, side by side with its own sums."""

    subject: Ints  # by subject
    reviewer: Ints  # by subject
    place: Ints  # by cell: which subject
    own: Floats  # cells by columns of the subject's table
    base: Floats  # cells by columns of the reviewer's table

    def totals(self) -> tuple[Floats, Floats]:
        return self._added(self.own), self._added(self.base)

    def left_out(self) -> tuple[Floats, Floats]:
        own, base = self.totals()
        return own[self.place] - self.own, base[self.place] - self.base

    def _added(self, columns: Floats) -> Floats:
        n = len(self.subject)
        return np.column_stack([np.bincount(self.place, c, minlength=n) for c in columns.T])


def _beside_base(table: SumsTable, base: SumsTable, reviewer_of: Callable[[Ints], Ints]) -> _Cells:
    """Subjects of a table with all clusters of their reviewer; what a cluster lacks is zero."""
    subject = np.unique(table.subject)
    reviewer = reviewer_of(subject)
    starts = np.searchsorted(base.subject, reviewer, "left")
    sizes = np.searchsorted(base.subject, reviewer, "right") - starts
    place = np.repeat(np.arange(len(subject)), sizes)
    cell = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[place]
    cluster = base.cluster[cell]
    width = int(max(base.cluster.max(initial=0), table.cluster.max(initial=0))) + 1
    at = np.searchsorted(subject, table.subject) * width + table.cluster
    found = np.searchsorted(at, place * width + cluster)
    own = np.zeros((len(place), table.sums.shape[1]))
    within = np.flatnonzero(found < len(at))
    within = within[at[found[within]] == (place * width + cluster)[within]]
    own[within] = table.sums[found[within]]
    return _Cells(subject, reviewer, place, own, base.sums[cell])


@dataclass(frozen=True, slots=True)
class _Spread:
    """Standard errors and degrees of freedom of many subjects from their left-out values."""

    se: Floats
    df: Floats
    n_clusters: Ints


def _spread(left_out: Floats, place: Ints, n: int, extra: Floats | float = 0.0) -> _Spread:
    """The jackknife's spread; fewer degrees of freedom where few clusters carry most of it."""
    count = np.bincount(place, minlength=n)
    some = np.maximum(count, 1)
    gap = left_out - (np.bincount(place, left_out, minlength=n) / some)[place]
    squares = np.bincount(place, gap**2, minlength=n)
    fourths = np.bincount(place, gap**4, minlength=n)
    kurtosis = quotient(some * fourths, squares**2)
    full = np.maximum(count - 1.0, 1.0)
    df = np.where(kurtosis > 1.0, np.clip(quotient(2.0 * some, kurtosis - 1.0), 1.0, full), full)
    variance = (some - 1.0) / some * squares
    return _Spread(np.sqrt(variance + np.square(extra)), df, count)


def _measurements(
    subject: Ints,
    reviewer: Ints,
    value: Floats,
    spread: _Spread,
    n: Floats,
    scales: Scales,
    reasons: Sequence[tuple[Bools, str]] = (),
) -> list[Measurement]:
    out = []
    for i, code in enumerate(subject.tolist()):
        who = int(reviewer[i])
        unit, size, count = float(scales.sd[who]), round(float(n[i])), int(spread.n_clusters[i])
        why = CANNOT.get(scales.status[who], "") or next((w for bad, w in reasons if bad[i]), "")
        if not why and (not math.isfinite(value[i]) or not math.isfinite(spread.se[i])):
            why = LONE_CLUSTER if count < 2 else NO_SPREAD
        if not why and (count < 2 or spread.se[i] <= ROUNDING * max(unit, ROUNDING)):
            why = LONE_CLUSTER if count < 2 else NO_SPREAD
        if why:
            out.append(
                Measurement(code, None, None, None, size, count, unit, "not_identifiable", why)
            )
            continue
        note = "contrarian" if scales.status[who] == "contrarian" else ""
        out.append(
            Measurement(
                code, float(value[i]), float(spread.se[i]), float(spread.df[i]),
                size, count, unit, "ok", note,
            )
        )
    return out


# -- a group of answers against the reviewer's others ------------------------------------------


def self_preference(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's mean deviation on its own answers, less that on everyone else's."""
    k = len(scales.sd)
    table = _chosen(sums.pairs, sums.pairs.subject // k == sums.pairs.subject % k)
    return _preferences(_groups(table, scales), sums.cast, sums, scales)


def sycophancy(sums: DeviationSums, scales: Scales, n_min: int = 0) -> list[Measurement]:
    """Each pair's mean deviation, less the reviewer's on all others; pairs below n_min left out."""
    k = len(scales.sd)
    table = _chosen(sums.pairs, sums.pairs.subject // k != sums.pairs.subject % k)
    if n_min:
        subject, place = np.unique(table.subject, return_inverse=True)
        n = np.bincount(place, table.sums[:, 3], minlength=len(subject))
        table = _chosen(table, (n >= n_min)[place])
    return _preferences(_groups(table, scales), sums.cast, sums, scales)


def family_preference(
    sums: DeviationSums, scales: Scales, family: Ints
) -> list[Measurement]:
    """Each reviewer's mean deviation on its family's other members, less that on strangers.

    `family` is a code by name, negative where none is known.
    """
    k = len(scales.sd)
    pairs = _groups(sums.pairs, scales)

    def is_kin(subject: Ints) -> Bools:
        reviewer, candidate = subject // k, subject % k
        known = (family[reviewer] == family[candidate]) & (family[reviewer] >= 0)
        kin: Bools = known & (reviewer != candidate)
        return kin

    def by_reviewer(table: SumsTable) -> SumsTable:
        """The family as one candidate: the code of a pair with itself."""
        kin = _chosen(table, is_kin(table.subject))
        return table_of(kin.subject // k * (k + 1), kin.cluster, list(kin.sums.T))

    return _preferences(by_reviewer(pairs), by_reviewer(sums.cast), sums, scales)


def _chosen(table: SumsTable, kept: Bools) -> SumsTable:
    return SumsTable(table.subject[kept], table.cluster[kept], table.sums[kept])


def _groups(pairs: SumsTable, scales: Scales) -> SumsTable:
    """Pairs with how much of their sums (n, y, q) is also in the reviewer's own table."""
    k = len(scales.sd)
    own = pairs.subject // k == pairs.subject % k
    inside = ~own & ~np.isin(pairs.subject, scales.aside)
    sums = np.column_stack([pairs.sums, pairs.sums[:, :3] * inside[:, None]])
    return SumsTable(pairs.subject, pairs.cluster, sums)


def _preferences(
    table: SumsTable, cast: SumsTable, sums: DeviationSums, scales: Scales
) -> list[Measurement]:
    """The mean deviation on each group of answers, less the reviewer's mean on all others.

    A pair of comparisons takes what it gains from the reviewer's other candidates: among m
    answers the others lose 1/(m − 1) of it, and the difference is m/(m − 1) of the gain.
    """
    k = len(scales.sd)
    cells = _beside_base(table, sums.base, lambda subject: subject // k)
    own_answer = cells.subject // k == cells.subject % k

    def contrast(own: Floats, base: Floats, at: Ints) -> tuple[Floats, Floats, Floats]:
        """Deviation, gap in quality, how much of the scale is the prior's."""
        scale, prior = scales.of_sums(cells.reviewer[at], base[:, [4, 5, 6, 7, 8]].T)
        n, y, q, ballots = own[:, :4].T
        if scales.compares:
            factor = np.where(own_answer[at], 1.0, 1.0 + quotient(ballots, n))
            score, quality = factor * quotient(y, n), factor * quotient(q, n)
        else:
            rest = base[:, :3] - own[:, 4:]
            score = quotient(y, n) - quotient(rest[:, 1], rest[:, 0])
            quality = quotient(q, n) - quotient(rest[:, 2], rest[:, 0])
        return score - scale * quality, quality, prior

    own, base = cells.totals()
    every = np.arange(len(cells.subject))
    value, gap, prior = contrast(own, base, every)
    left_out, _, _ = contrast(*cells.left_out(), cells.place)
    spread = _spread(left_out, cells.place, len(every), gap * TAU * prior)
    reasons = [
        (_one_other(cells.subject, cast), ONE_OTHER),
        (_too_far(own, base, scales), TOO_FAR),
    ]
    subject = np.where(own_answer, cells.reviewer, cells.subject)
    return _measurements(subject, cells.reviewer, value, spread, own[:, 3], scales, reasons)


def _one_other(subject: Ints, cast: SumsTable) -> Bools:
    """Whether all qualities a subject is held against come from one and the same reviewer."""
    at = np.searchsorted(cast.subject, subject)
    n, code, square = cast.sums[at].T
    alike: Bools = n * square - code * code <= 0.5
    return alike


def _too_far(own: Floats, base: Floats, scales: Scales) -> Bools:
    """Whether a group's mean quality lies beyond those that the reviewer's scale was fitted on."""
    n2, q2, qq2 = base[:, 4], base[:, 6], base[:, 9]
    centre = np.zeros_like(n2) if scales.compares else quotient(q2, n2)
    sd = np.sqrt(np.maximum(quotient(qq2, n2) - centre**2, 0.0))
    gap = np.abs(quotient(own[:, 2], own[:, 0]) - centre)
    far: Bools = gap > FAR_Q * sd
    return far


def evident_pair(pairs: Sequence[Measurement], healthy: float) -> int | None:
    """The most deviant pair that is evident on its own, or None.

    Its favour is in the quality that everyone else's reviews of that candidate are held
    against, and makes them look biased; so it is set aside and the rest is measured again.
    """
    qs = benjamini_hochberg([one.p for one in pairs])
    evident = [
        one
        for one, q in zip(pairs, qs, strict=True)
        if q is not None and q < 1.0 - LEVEL and abs(one.value or 0.0) > healthy * one.unit
    ]
    if not evident:
        return None
    return max(evident, key=lambda one: abs(one.value or 0.0) / (one.se or 1.0)).subject


def measured_pairs(
    reviews: Reviews, healthy: float, n_min: int
) -> tuple[Scales, DeviationSums]:
    """Fit, set the most deviant evident pair aside and fit again, at most three times."""
    aside = NOBODY
    for round_ in range(MAX_ASIDE + 1):
        scales = fit_scales(reviews, aside)
        sums = deviation_sums(reviews, scales)
        free = [one for one in sycophancy(sums, scales, n_min) if one.subject not in aside]
        pair = evident_pair(free, healthy) if round_ < MAX_ASIDE else None
        if pair is None:
            break
        aside = np.append(aside, pair)
    return scales, sums


# -- slopes --------------------------------------------------------------------------------------


def length_relative(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's slope of deviation on log words, a standard deviation of them."""
    table = sums.length
    if table is None or len(table.subject) == 0:
        return []
    n, x, _, _, xx, _, _ = table.sums.sum(axis=0)
    middle = 0.0 if scales.compares else x / n
    return _slopes(table, sums, scales, math.sqrt(max(0.0, xx / n - middle**2)))


def drift(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's slope of deviation on weeks."""
    return [] if sums.week is None else _slopes(sums.week, sums, scales, 1.0)


def _slopes(
    table: SumsTable, sums: DeviationSums, scales: Scales, step: float
) -> list[Measurement]:
    cells = _beside_base(table, sums.base, lambda subject: subject)

    def slope(own: Floats, base: Floats, at: Ints) -> tuple[Floats, Floats, Floats]:
        scale, prior = scales.of_sums(cells.reviewer[at], base[:, [4, 5, 6, 7, 8]].T)
        n, x, y, q, xx, xy, xq = own.T
        if not scales.compares:
            some = np.maximum(n, 1.0)
            xx, xy, xq = xx - x * x / some, xy - x * y / some, xq - x * q / some
        xx = np.where(xx > 1e-9 * own[:, 4], xx, 0.0)
        tilt = quotient(xq, xx)
        return step * (quotient(xy, xx) - scale * tilt), step * tilt, prior

    own, base = cells.totals()
    every = np.arange(len(cells.subject))
    value, gap, prior = slope(own, base, every)
    left_out, _, _ = slope(*cells.left_out(), cells.place)
    spread = _spread(left_out, cells.place, len(every), gap * TAU * prior)
    reasons = [
        (np.isnan(value), "all answers are alike in what the slope is on"),
        (_one_other_reviewer(cells.subject, sums, scales), ONE_OTHER),
    ]
    return _measurements(cells.subject, cells.reviewer, value, spread, own[:, 0], scales, reasons)


def _one_other_reviewer(reviewer: Ints, sums: DeviationSums, scales: Scales) -> Bools:
    """Whether a reviewer's judged answers were all judged by one and the same other."""
    k = len(scales.sd)
    who = sums.cast.subject // k
    added = np.column_stack([np.bincount(who, c, minlength=k) for c in sums.cast.sums.T])
    whole = SumsTable(np.arange(k), np.zeros(k, dtype=np.int64), added)
    return _one_other(reviewer, whole)


# -- levels and agreement ------------------------------------------------------------------------


def calibration(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's level, less the mean level of those who judged the same answers."""
    if scales.compares:
        return []
    cells = _beside_base(sums.base, sums.base, lambda subject: subject)

    def gap(base: Floats, at: Ints) -> Floats:
        scale, _ = scales.of_sums(cells.reviewer[at], base[:, [4, 5, 6, 7, 8]].T)
        n, y, q, others = base[:, :4].T
        return quotient(y - scale * q - others, n)

    _, base = cells.totals()
    every = np.arange(len(cells.subject))
    _, prior = scales.of_sums(cells.reviewer, base[:, [4, 5, 6, 7, 8]].T)
    extra = quotient(base[:, 2], base[:, 0]) * TAU * prior
    spread = _spread(gap(cells.left_out()[1], cells.place), cells.place, len(every), extra)
    value = gap(base, every)
    return _measurements(cells.subject, cells.reviewer, value, spread, base[:, 0], scales)


def agreement(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's correlation with the quality by the others, within ballots.

    The standard error is that of the correlation itself; a contrarian is named in the note.
    """
    cells = _beside_base(sums.agreement, sums.base, lambda subject: subject)

    def correlation(own: Floats) -> Floats:
        n, yy, qq, yq = own.T
        zero = np.zeros_like(n)
        return correlations_from_sums(np.column_stack([n, zero, zero, yy, qq, yq]))

    own, _ = cells.totals()
    spread = _spread(correlation(cells.left_out()[0]), cells.place, len(cells.subject))
    value = correlation(own)
    return _measurements(cells.subject, cells.reviewer, value, spread, own[:, 0], scales)


# -- order on the ballot -------------------------------------------------------------------------


def anchoring(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's slope of the later answers' deviation on the first one's quality.

    Nothing for comparisons: the mean of a full ranking is fixed, so that later answers fall
    by design where the first is placed high.
    """
    if sums.anchor is None:
        return []
    cells = _beside_base(sums.anchor, sums.base, lambda subject: subject)

    def slope(own: Floats, base: Floats, at: Ints) -> tuple[Floats, Floats, Floats]:
        scale, prior = scales.of_sums(cells.reviewer[at], base[:, [4, 5, 6, 7, 8]].T)
        level = quotient(base[:, 1] - scale * base[:, 2], base[:, 0])
        _, one, y, q, squares = own.T
        squares = np.where(squares > 0.0, squares, 0.0)
        centre = quotient(base[:, 2], base[:, 0])
        tilt = quotient(q - centre * one, squares)
        return quotient(y - level * one - scale * q, squares), tilt, prior

    own, base = cells.totals()
    every = np.arange(len(cells.subject))
    value, gap, prior = slope(own, base, every)
    left_out, _, _ = slope(*cells.left_out(), cells.place)
    spread = _spread(left_out, cells.place, len(every), gap * TAU * prior)
    flat = (np.isnan(value), "first answers do not differ in quality beyond noise")
    return _measurements(
        cells.subject, cells.reviewer, value, spread, own[:, 0], scales, [flat]
    )


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
    whole = system.solution(None)
    left_out = system.solution(np.arange(system.n_clusters))
    n, k = len(system.reviewer), system.n_clusters
    place = np.repeat(np.arange(n), k)
    held = system.held.T.ravel()
    tilt = system.tilt * TAU * system.prior
    spread = _spread(left_out.T.ravel()[held], place[held], n, tilt)
    coincide = (np.isnan(whole[0]), COINCIDE)
    return _measurements(
        system.reviewer, system.reviewer, whole[0], spread, system.n_first, scales, [coincide]
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
        lone, lone_all, variance, lone_first = _lone_sums(alone, k)
        reviewer = np.union1d(np.unique(first.subject), np.flatnonzero(lone_all[:, 0] > 0.0))
        clusters = np.unique(np.concatenate([t.cluster for t in (*tables, sums.base)]))
        place = np.full(k, -1)
        place[reviewer] = np.arange(len(reviewer))

        def dense(table: SumsTable) -> Floats:
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
            scales, reviewer, len(clusters), line, dense(sums.base), others,
            dense(lone), lone_all[reviewer], weight, n_first,
        )

    @property
    def held(self) -> Bools:
        """Clusters by reviewers: where a reviewer has anything."""
        there: Bools = (self.line[:, :, 0] > 0.0) | (self.lone != 0.0).any(axis=2)
        return there

    @property
    def prior(self) -> Floats:
        _, prior = self._scale(self.base.sum(axis=0)[None])
        return prior[0]

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
        scale, prior = self.scales.of_sums(who, [base[..., c] for c in (4, 5, 6, 7, 8)])
        return np.nan_to_num(scale), prior

    def solution(self, without: Ints | None) -> Floats:
        """Effects by reviewer, without each of the clusters in turn (None for none)."""
        out = slice(0, 0) if without is None else without
        def rest(by_cluster: Floats) -> Floats:
            whole = by_cluster.sum(axis=0)[None]
            return whole if without is None else whole - by_cluster[out]

        n, x, y, q, xx, xy, xq = np.moveaxis(rest(self.line)[..., :7], -1, 0)
        some = np.maximum(n, 1.0)
        mean = np.zeros_like(x) if self.scales.compares else x / some
        scale, _ = self._scale(rest(self.base))
        others = rest(self.others)
        lone = self.lone_all[None] - (0.0 if without is None else self.lone[out])
        own = xx - mean * x + self.weight * lone[..., 0]
        top = xy - mean * y - scale * (xq - mean * q) + self.weight * lone[..., 1]
        across = scale[..., None] * (others[..., 1] - mean[..., None] * others[..., 0])
        return _solved(own, top, across)


def _solved(own: Floats, top: Floats, across: Floats) -> Floats:
    """The effects; NaN where a reviewer's position never varies or nothing tells effects apart."""
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
    """Each reviewer's effect where reviewers are too many to solve for: others have the mean one."""
    if sums.first is None or sums.first_others is None or sums.first_alone is None:
        return []
    k = len(scales.sd)
    lone, lone_all, variance, lone_first = _lone_sums(sums.first_alone, k)
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
    total = np.column_stack([np.bincount(place, c) for c in table.sums.T])
    alone = lone_all[reviewer]

    def equation(each: Floats, lone_sums: Floats, who: Ints) -> tuple[Floats, Floats, Floats]:
        """Own weight, what the reviewer gives, and what others' firsts take from it a point."""
        scale, _ = scales.of_sums(who, each[:, [4, 5, 6, 7, 8]].T)
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
    _, prior = scales.of_sums(reviewer, total[:, [4, 5, 6, 7, 8]].T)
    n, x, _, q, _, _, xq = total[:, at[1] : at[1] + 7].T
    mean = np.zeros_like(x) if scales.compares else x / np.maximum(n, 1.0)
    tilt = np.nan_to_num(quotient(xq - mean * q, own))
    value = quotient(top + pooled * shared, own)
    left_out = quotient(rest[1] + pooled * rest[2], rest[0])
    spread = _spread(left_out, place, len(reviewer), tilt * TAU * prior)
    n_first = total[:, at[1] + 7] + lone_first[reviewer]
    coincide = (np.isnan(value), COINCIDE)
    return _measurements(reviewer, reviewer, value, spread, n_first, scales, [coincide])


def _lone_sums(alone: SumsTable, k: int) -> tuple[SumsTable, Floats, Floats, Floats]:
    """Answers nobody else judged, centred by candidate: sums by reviewer.

    What leaving each cluster out takes from (xx, xy); (xx, xy) by reviewer; the variance of the
    centred scores; and how many such answers were shown first.
    """
    subject, place = np.unique(alone.subject, return_inverse=True)
    who = subject // k**2
    total = np.column_stack(
        [np.bincount(place, c, minlength=len(subject)) for c in alone.sums.T]
    ).reshape(len(subject), 6)
    centred = _centred(total)
    rest = total[place] - alone.sums
    taken = centred[place] - np.where(rest[:, :1] > 0.5, _centred(rest), 0.0)
    lone = table_of(who[place], alone.cluster, [taken[:, 0], taken[:, 1]])
    added = np.column_stack([np.bincount(who, c, minlength=k) for c in centred.T]).reshape(k, 3)
    spare = np.bincount(who, total[:, 0] - 1.0, minlength=k)
    variance = quotient(added[:, 2], spare)
    shown = np.bincount(who, total[:, 3], minlength=k)
    return lone, added[:, :2], np.nan_to_num(variance), shown


def _centred(sums: Floats) -> Floats:
    n, x, y, xx, xy, yy = sums.T
    some = np.maximum(n, 1.0)
    return np.column_stack([xx - x * x / some, xy - x * y / some, yy - y * y / some])
