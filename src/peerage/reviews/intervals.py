"""Values with intervals for many subjects at once, from sums by cluster.

The closed form of the cluster bootstrap: leave out one session (or bucket of sessions) at a
time, and take the spread. Tails are Student's, with fewer degrees of freedom where a few
clusters carry most of the spread. A `Measurement` is of a reviewer on one scale, whose fit is
taken again without each cluster too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Cells
from peerage.reviews.deviations import FIT, DeviationSums, totals_by
from peerage.reviews.one_scale import TAU, Scales
from peerage.reviews.rows import Bools, Floats, Ints, spans
from peerage.stats.clusters import JackknifeSpread, quotient, spread_of
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import student_t_p, t_critical

Statistic = Callable[[Floats], Floats]
Interval = tuple[float | None, float | None, float | None]  # low, high and p

FLAT = 1e-12  # a spread this small beside the value is rounding
LEVEL = 0.95
ROUNDING = 1e-9  # of the unit: a spread below it is none
ALIKE = 1e-9  # of the sum of squares: a spread below it is rounding

CONSTANT = "gives every answer the same score"
ALONE = "judged nothing that others judged too"
NO_SPREAD = "no spread over sessions, so no telling how it would vary"
ONE_OTHER = "only one other reviewer stands beside it, and no telling which of the two departs"
LONE_CLUSTER = "one session, or one query asked again and again: no telling how it would vary"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A subject's value and what the spread over sessions says of it; None for nothing."""

    subject: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n_clusters: int
    sums: Floats  # the subject's totals, of which the first is n

    @property
    def n(self) -> int:
        return int(self.sums[0])


def estimates(
    cells: Cells, statistic: Statistic, *, null: float = 0.0, fisher: bool = False
) -> Iterator[Estimate]:
    """Each subject's estimate, in the order of subjects; a statistic marks undefined with NaN.

    `fisher` makes the interval of a correlation on the scale where it is symmetric.
    """
    if cells.n == 0:
        return
    held = (cells.sums != 0.0).any(axis=1)
    new = np.r_[True, np.diff(cells.subject) != 0]
    starts, place = np.flatnonzero(new), np.cumsum(new) - 1
    totals = np.add.reduceat(cells.sums, starts, axis=0)
    values = statistic(totals)
    left_out = statistic(totals[place] - cells.sums)[held]
    if fisher:
        bounded = np.abs(left_out) < 1.0
        left_out = np.where(bounded, np.arctanh(np.where(bounded, left_out, 0.0)), np.nan)
    spread = spread_of(left_out, place[held], len(starts))
    for i, start in enumerate(starts.tolist()):
        value, n = float(values[i]), int(spread.n_clusters[i])
        interval = interval_of(value, n, float(spread.se[i]), float(spread.df[i]), null, fisher)
        known = value if math.isfinite(value) else None
        yield Estimate(int(cells.subject[start]), known, *interval, n, totals[i])


def interval_of(
    value: float, n: int, se: float, df: float, null: float = 0.0, fisher: bool = False
) -> Interval:
    """The interval and p of a value with this spread over n clusters; None where there is none."""
    if not math.isfinite(value) or n < 2 or not math.isfinite(se):
        return None, None, None
    if fisher and not abs(value) < 1.0:
        return None, None, None
    centre, zero = (math.atanh(value), math.atanh(null)) if fisher else (value, null)
    if se <= FLAT * max(abs(centre), abs(zero)):
        return _steady(value, n, null)
    half = t_critical(LEVEL, round(df, 3)) * se
    p = student_t_p((centre - zero) / se, df)
    low, high = centre - half, centre + half
    return (math.tanh(low), math.tanh(high), p) if fisher else (low, high, p)


def _steady(value: float, n: int, null: float) -> Interval:
    """What n clusters say that agree to the last digit: no spread, only a sign test."""
    if abs(value - null) <= FLAT * max(abs(value), abs(null), 1.0):
        return value, value, 1.0
    p = math.ldexp(1.0, 1 - n)
    edge = value if p < 1.0 - LEVEL else None
    return edge, edge, p


# -- statistics of totals; columns are named in each ------------------------------------------


def mean_of(totals: Floats) -> Floats:
    """Mean from (n, sum)."""
    return quotient(totals[:, 1], totals[:, 0])


def centred_correlation(totals: Floats) -> Floats:
    """The correlation of columns already centred, from (n, xx, yy, xy)."""
    n, xx, yy, xy = totals.T
    zeros = np.zeros_like(n)
    return correlations_from_sums(np.column_stack([n, zeros, zeros, xx, yy, xy]))


# -- reviewers on one scale --------------------------------------------------------------------


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
    unit: float  # the standard deviation of the reviewer's scores
    note: str = ""

    @property
    def low(self) -> float | None:
        return self._interval()[0]

    @property
    def high(self) -> float | None:
        return self._interval()[1]

    @property
    def p(self) -> float | None:
        """Two-sided, against zero."""
        return self._interval()[2]

    def _interval(self) -> Interval:
        if self.value is None or self.se is None or self.df is None:
            return None, None, None
        return interval_of(self.value, self.n_clusters, self.se, self.df)


class Fit(NamedTuple):
    """A reviewer's sums over answers with another judge, and the scale fitted from them.

    One element a reviewer, or a reviewer and a cluster that was left out. `prior` is the part of
    the scale that is not from data; a scale may be wrong by τ times that.
    """

    n: Floats
    y: Floats
    q: Floats
    others_level: Floats
    others_scale: Floats
    scale: Floats
    prior: Floats


def fit_of(reviewer: Ints, sums: Floats, scales: Scales) -> Fit:
    """A reviewer's sums and scale from columns of `DeviationSums.base`."""
    n, y, q, level, others = np.moveaxis(sums[..., :5], -1, 0)
    scale, prior = scales.of_sums(reviewer, list(np.moveaxis(sums[..., FIT], -1, 0)))
    return Fit(n, y, q, level, others, scale, prior)


FittedStatistic = Callable[[Floats, Fit], tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class SubjectCells:
    """For each subject, the cells of all its reviewer's clusters."""

    subject: Ints  # by subject
    reviewer: Ints  # by subject
    place: Ints  # by cell: which subject
    own: Floats  # by cell: columns of the subject's table
    cell: Ints  # by cell: which cell of the reviewer's table
    base: Cells

    def own_totals(self) -> Floats:
        return totals_by(self.place, self.own, len(self.subject))

    def base_totals(self) -> Floats:
        """By reviewer code: columns of the reviewer's table."""
        n = int(self.base.subject.max(initial=-1)) + 1
        return totals_by(self.base.subject, self.base.sums, n)

    def measured(
        self,
        statistic: FittedStatistic,
        n: Floats,
        scales: Scales,
        reasons: Sequence[tuple[Bools, str]] = (),
        subject: Ints | None = None,
    ) -> list[Measurement]:
        """A measurement for each subject.

        The statistic gives values and how far each moves if the scale is off by one.
        """
        own, base = self.own_totals(), self.base_totals()
        fit = fit_of(self.reviewer, base[self.reviewer], scales)
        value, gap = statistic(own, fit)
        who = self.base.subject
        without = fit_of(who, base[who] - self.base.sums, scales)
        without = Fit(*(column[self.cell] for column in without))
        left_out, _ = statistic(own[self.place] - self.own, without)
        spread = spread_of(left_out, self.place, len(self.subject), gap * TAU * fit.prior)
        named = self.subject if subject is None else subject
        return measurements(named, self.reviewer, value, spread, n, scales, reasons)


def beside_base(table: Cells, base: Cells, n_each: int = 1) -> SubjectCells:
    """Subjects of a table with all clusters of their reviewer; what a cluster lacks is zero.

    A reviewer has `n_each` subjects: with itself alone one, and with every candidate as many.
    """
    subject = np.unique(table.subject)
    reviewer = subject // n_each
    starts = np.searchsorted(base.subject, reviewer, "left")
    sizes = np.searchsorted(base.subject, reviewer, "right") - starts
    place, cell = spans(starts, sizes)
    width = int(max(base.cluster.max(initial=0), table.cluster.max(initial=0))) + 1
    at = np.searchsorted(subject, table.subject) * width + table.cluster
    key = place * width + base.cluster[cell]
    own = np.zeros((len(place), table.sums.shape[1]))
    found = np.searchsorted(key, at)
    if not np.array_equal(key[np.minimum(found, len(key) - 1)], at):
        raise ValueError("a subject has a cluster that its reviewer does not have")
    own[found] = table.sums
    return SubjectCells(subject, reviewer, place, own, cell, base)


def measurements(
    subject: Ints,
    reviewer: Ints,
    value: Floats,
    spread: JackknifeSpread,
    n: Floats,
    scales: Scales,
    reasons: Sequence[tuple[Bools, str]] = (),
    *,
    may_be_alone: bool = False,
) -> list[Measurement]:
    """Values with their spread, or the reason why there is none, one each a subject."""
    cannot = {"constant": CONSTANT} if may_be_alone else {"constant": CONSTANT, "alone": ALONE}
    out = []
    for i, code in enumerate(subject.tolist()):
        who = int(reviewer[i])
        unit, size, count = float(scales.sd[who]), round(float(n[i])), int(spread.n_clusters[i])
        found = float(value[i]), float(spread.se[i]), float(spread.df[i])
        least = ROUNDING * max(unit, ROUNDING)
        why = cannot.get(scales.status[who], "") or next((w for bad, w in reasons if bad[i]), "")
        if not why and count < 2:
            why = LONE_CLUSTER
        if not why and not (math.isfinite(found[0]) and least < found[1] < math.inf):
            why = NO_SPREAD
        if why:
            out.append(Measurement(code, None, None, None, size, count, unit, why))
        else:
            note = "contrarian" if scales.status[who] == "contrarian" else ""
            out.append(Measurement(code, *found, size, count, unit, note))
    return out


# -- what several metrics measure ----------------------------------------------------------------


def slopes(table: Cells, sums: DeviationSums, scales: Scales, step: float) -> list[Measurement]:
    """Each reviewer's slope of deviation on what a table of lines has as x, times step."""
    cells = beside_base(table, sums.base)

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
    k = len(scales.sd)
    by_reviewer = totals_by(sums.cast.subject // k, sums.cast.sums, k)
    cast = Cells(np.arange(k), np.zeros(k, dtype=np.int64), by_reviewer)
    reasons = [
        (alike, "all answers are alike in what the slope is on"),
        (has_one_other(cells.subject, cast), ONE_OTHER),
    ]
    return cells.measured(slope, own[:, 0], scales, reasons)


def has_one_other(subject: Ints, cast: Cells) -> Bools:
    """Whether all qualities a subject is held against come from one and the same reviewer."""
    n, code, square = cast.sums[np.searchsorted(cast.subject, subject)].T
    return n * square - code * code <= 0.5
