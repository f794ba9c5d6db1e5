"""A value with its standard error from leaving out one cluster at a time, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Cells
from peerage.reviews.deviations import FIT, DeviationSums, totals_by
from peerage.reviews.intervals import LEVEL, JackknifeSpread, spread_of
from peerage.reviews.one_scale import TAU, Scales
from peerage.reviews.rows import Bools, Floats, Ints
from peerage.stats.clusters import quotient
from peerage.stats.tails import student_t_p, t_critical

ROUNDING = 1e-9  # of the unit: a spread below it is none
ALIKE = 1e-9  # of the sum of squares: a spread below it is rounding

CONSTANT = "gives every answer the same score"
ALONE = "judged nothing that others judged too"
NO_SPREAD = "no spread over sessions, so no telling how it would vary"
ONE_OTHER = "only one other reviewer stands beside it, and no telling which of the two departs"
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
    unit: float  # the standard deviation of the reviewer's scores
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


# -- leave one cluster out ---------------------------------------------------------------------


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


Statistic = Callable[[Floats, Fit], tuple[Floats, Floats]]


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
        statistic: Statistic,
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
    place = np.repeat(np.arange(len(subject)), sizes)
    cell = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[place]
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
