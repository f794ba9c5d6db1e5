"""Measure how a reviewer departs from the others, on one scale, with an interval.

Every function takes the sums of all blocks and the fitted scales, and gives one `Measurement` a
reviewer (or pair). Values are in points of the reviewer's own scores; `unit` is their standard
deviation, which healthy ranges are multiples of. Intervals leave out one cluster at a time, fit
the reviewer's own level and scale again, and add what the prior on scales hides: a scale that is
wrong by τ(1 − κ) moves a value by that times the gap in quality it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from peerage.reviews.deviations import DeviationSums, SumsTable, deviation_sums, totals_by
from peerage.reviews.measurements import (
    LEVEL,
    Fit,
    Measurement,
    beside_base,
    fit_of,
    measurements,
    spread_of,
)
from peerage.reviews.one_scale import NOBODY, TAU, Bools, Floats, Ints, Reviews, Scales, fit_scales
from peerage.stats.clusters import quotient
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import benjamini_hochberg

FAR_Q = 2.0  # standard deviations of quality that a group may lie from the answers of the fit
MAX_ASIDE = 3
ALIKE = 1e-9  # of the sum of squares: a spread below it is rounding

ONE_OTHER = "only one other reviewer stands beside it, and no telling which of the two departs"
NOBODY_ELSE = "judged nobody else's answers to compare with"
TOO_FAR = "these answers lie beyond the qualities that the reviewer's scale was fitted on"

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


def family_preference(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's mean deviation on its family's other members, less that on strangers."""
    if sums.family is None or sums.family_cast is None:
        return []
    k = len(scales.sd)
    n_kin = totals_by(sums.family.subject // (k + 1), sums.family.sums[:, :1], k)[:, 0]
    table = _chosen(sums.family, n_kin[sums.family.subject // (k + 1)] > 0.0)
    return _preferences(table, sums.family_cast, sums, scales)


def _chosen(table: SumsTable, kept: Bools) -> SumsTable:
    return SumsTable(table.subject[kept], table.cluster[kept], table.sums[kept])


def _groups(pairs: SumsTable, scales: Scales) -> SumsTable:
    """Pairs with what of the reviewer's own sums (n, y, q) is theirs, and not of the rest."""
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
    cells = beside_base(table, sums.base, lambda subject: subject // k)
    is_pair = cells.subject // k != cells.subject % k

    def contrast(own: Floats, fit: Fit) -> tuple[Floats, Floats]:
        n, y, q, ballots = own[:, :4].T
        if scales.compares:
            shared = is_pair if len(own) == len(is_pair) else is_pair[cells.place]
            factor = 1.0 + np.where(shared, quotient(ballots, n), 0.0)
            score, quality = factor * quotient(y, n), factor * quotient(q, n)
        else:
            rest = fit.n - own[:, 4]
            score = quotient(y, n) - quotient(fit.y - own[:, 5], rest)
            quality = quotient(q, n) - quotient(fit.q - own[:, 6], rest)
        return score - fit.scale * quality, quality

    own, base = cells.own_totals(), cells.base_totals()[cells.reviewer]
    reasons = [
        (_one_other(cells.subject, cast), ONE_OTHER),
        (base[:, 0] - own[:, 4] < 0.5, NOBODY_ELSE),
        (_too_far(own, base, scales), TOO_FAR),
    ]
    subject = np.where(is_pair, cells.subject, cells.reviewer)
    return cells.measured(contrast, own[:, 3], scales, reasons, subject)


def _one_other(subject: Ints, cast: SumsTable) -> Bools:
    """Whether all qualities a subject is held against come from one and the same reviewer."""
    at = np.searchsorted(cast.subject, subject)
    n, code, square = cast.sums[at].T
    alike: Bools = n * square - code * code <= 0.5
    return alike


def _too_far(own: Floats, base: Floats, scales: Scales) -> Bools:
    """Whether a group's mean quality lies beyond those that the reviewer's scale was fitted on."""
    n2, q2, qq2 = base[:, 5], base[:, 7], base[:, 10]
    centre = np.zeros_like(n2) if scales.compares else quotient(q2, n2)
    sd = np.sqrt(np.maximum(quotient(qq2, n2) - centre**2, 0.0))
    gap = np.abs(quotient(own[:, 2], own[:, 0]) - centre)
    far: Bools = gap > FAR_Q * sd
    return far


def most_evident(found: Sequence[Measurement], healthy: float) -> int | None:
    """The most deviant subject that is evident on its own, or None.

    Its bias is in the quality that everyone else is held against, and makes them look biased the
    other way; so it is set aside and the rest is measured again.
    """
    qs = benjamini_hochberg([one.p for one in found])
    evident = [
        one
        for one, q in zip(found, qs, strict=True)
        if q is not None and q < 1.0 - LEVEL and abs(one.value or 0.0) > healthy * one.unit
    ]
    if not evident:
        return None
    return max(evident, key=lambda one: abs(one.value or 0.0) / (one.se or 1.0)).subject


def measured_pairs(reviews: Reviews, healthy: float, n_min: int) -> tuple[Scales, DeviationSums]:
    """Fit, set the most deviant evident pair aside and fit again, at most three times."""
    aside = NOBODY
    for round_ in range(MAX_ASIDE + 1):
        scales = fit_scales(reviews, aside)
        sums = deviation_sums(reviews, scales)
        free = [one for one in sycophancy(sums, scales, n_min) if one.subject not in aside]
        pair = most_evident(free, healthy) if round_ < MAX_ASIDE else None
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


def measured_lengths(
    reviews: Reviews, sums: DeviationSums, scales: Scales, healthy: float
) -> list[Measurement]:
    """Slopes on log words, with the evidently biased silenced for the others, at most three."""
    found, silent = length_relative(sums, scales), list[int]()
    for _ in range(MAX_ASIDE):
        who = most_evident([one for one in found if one.subject not in silent], healthy)
        if who is None:
            break
        silent.append(who)
        quiet = scales.silencing(silent)
        again = length_relative(deviation_sums(reviews, quiet), quiet)
        fresh = {one.subject: one for one in again if one.subject not in silent}
        found = [fresh.get(one.subject, one) for one in found]
    return found


def drift(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's slope of deviation on weeks."""
    return [] if sums.week is None else _slopes(sums.week, sums, scales, 1.0)


def _slopes(
    table: SumsTable, sums: DeviationSums, scales: Scales, step: float
) -> list[Measurement]:
    cells = beside_base(table, sums.base, lambda subject: subject)

    def slope(own: Floats, fit: Fit) -> tuple[Floats, Floats]:
        n, x, y, q, xx, xy, xq = own.T
        if not scales.compares:
            some = np.maximum(n, 1.0)
            xx, xy, xq = xx - x * x / some, xy - x * y / some, xq - x * q / some
        xx = np.where(xx > ALIKE * own[:, 4], xx, 0.0)
        tilt = step * quotient(xq, xx)
        return step * quotient(xy, xx) - fit.scale * tilt, tilt

    own = cells.own_totals()
    alike = own[:, 4] - own[:, 1] ** 2 / np.maximum(own[:, 0], 1.0) <= ALIKE * own[:, 4]
    reasons = [
        (alike, "all answers are alike in what the slope is on"),
        (_one_other_reviewer(cells.subject, sums, scales), ONE_OTHER),
    ]
    return cells.measured(slope, own[:, 0], scales, reasons)


def _one_other_reviewer(reviewer: Ints, sums: DeviationSums, scales: Scales) -> Bools:
    """Whether a reviewer's judged answers were all judged by one and the same other."""
    k = len(scales.sd)
    who = sums.cast.subject // k
    added = totals_by(who, sums.cast.sums, k)
    whole = SumsTable(np.arange(k), np.zeros(k, dtype=np.int64), added)
    return _one_other(reviewer, whole)


# -- levels and agreement ------------------------------------------------------------------------


def calibration(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """What each reviewer gives an average answer, less what those beside it give.

    The gap to the others on the same answers, moved to answers of average quality: a wide reviewer
    of good answers is not generous. That average is taken again without each cluster, too.
    """
    if scales.compares:
        return []
    base, k = sums.base, len(scales.sd)
    total = totals_by(base.subject, base.sums, k)
    width = int(base.cluster.max(initial=-1)) + 1
    by_cluster = totals_by(base.cluster, base.sums[:, [0, 2]], width)
    n_all, q_all = by_cluster.sum(axis=0)

    def gap(fit: Fit, average: Floats | float) -> tuple[Floats, Floats]:
        level = quotient(fit.y - fit.scale * fit.q - fit.others_level, fit.n)
        wider = fit.scale - quotient(fit.others_scale, fit.n)
        return level + wider * average, average - quotient(fit.q, fit.n)

    reviewer, place = np.unique(base.subject, return_inverse=True)
    fit = fit_of(reviewer, total[reviewer], scales)
    value, ahead = gap(fit, float(quotient(q_all, n_all)))
    average = quotient(q_all - by_cluster[:, 1], n_all - by_cluster[:, 0])[base.cluster]
    without = fit_of(base.subject, total[base.subject] - base.sums, scales)
    left_out, _ = gap(without, average)
    spread = spread_of(left_out, place, len(reviewer), ahead * TAU * fit.prior)
    return measurements(reviewer, reviewer, value, spread, fit.n, scales)


def agreement(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's correlation with the quality by the others, within ballots.

    The standard error is that of the correlation itself; a contrarian is named in the note.
    """
    cells = beside_base(sums.agreement, sums.base, lambda subject: subject)

    def correlation(own: Floats, _: Fit) -> tuple[Floats, Floats]:
        n, yy, qq, yq = own.T
        zero = np.zeros_like(n)
        columns = np.column_stack([n, zero, zero, yy, qq, yq])
        return correlations_from_sums(columns), zero

    return cells.measured(correlation, cells.own_totals()[:, 0], scales)
