"""Values with intervals for many subjects at once, from sums by cluster.

This is the closed form of the cluster bootstrap: one session (or bucket of sessions) is left out at
a time, and the spread of the results is used. Tails are Student's, with fewer degrees of freedom if
a few clusters carry most of the spread. If reviewers are on one scale, their fit is also repeated
without each cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Cells, Floats, Ints, Tables, name_columns, spans
from peerage.reviews.deviations import BaseSums, LineSums, totals_by
from peerage.reviews.one_scale import TAU, Scales
from peerage.stats.clusters import JackknifeSpread, quotient, spread_of
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import student_t_p, t_critical

Statistic = Callable[[Floats], Floats]
Interval = tuple[float | None, float | None, float | None]  # low, high and p

FLAT = 1e-12  # relative to the value: a smaller spread is rounding
LEVEL = 0.95
ROUNDING = 1e-9  # relative to the unit: a smaller spread is rounding
ALIKE = 1e-9  # relative to the sum of squares: a smaller spread is rounding

CONSTANT = "gives every answer the same score"
ALONE = "judged no answer that others judged too"
NO_SPREAD = "no spread over sessions, so its variation is unknown"
ONE_OTHER = (
    "only one other reviewer judged the same answers, so either of the two may be the biased one"
)
LONE_CLUSTER = "one session, or one query asked several times: its variation is unknown"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A subject's value, interval and p from its spread over sessions; None if undefined.

    `subject` is a reviewer's code, or reviewer × names + candidate for a pair. If there is no
    value, `note` may have the reason.
    """

    subject: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None  # two-sided
    n: int
    n_clusters: int
    se: float | None = None
    df: float | None = None
    unit: float = 1.0  # of the healthy range: the sd of the reviewer's scores, or 1
    note: str = ""
    sums: Floats = field(default_factory=lambda: np.zeros(0))  # the subject's totals
    se_sessions: float | None = None  # the part of `se` that more sessions make smaller


def estimates(
    cells: Cells, statistic: Statistic, *, null: float = 0.0, fisher: bool = False
) -> Iterator[Estimate]:
    """Yield the estimates of subjects, in their order; an undefined statistic is NaN.

    The first column is n. `fisher` makes the interval of a correlation on the scale where it is
    symmetric.
    """
    if cells.n == 0:
        return
    used = (cells.sums != 0.0).any(axis=1)
    new = np.r_[True, np.diff(cells.subject) != 0]
    starts, place = np.flatnonzero(new), np.cumsum(new) - 1
    totals = np.add.reduceat(cells.sums, starts, axis=0)
    n_rows, *_ = totals.T
    values = statistic(totals)
    left_out = statistic(totals[place] - cells.sums)[used]
    if fisher:
        bounded = np.abs(left_out) < 1.0
        left_out = np.where(bounded, np.arctanh(np.where(bounded, left_out, 0.0)), np.nan)
    spread = spread_of(left_out, place[used], len(starts))
    for i, start in enumerate(starts.tolist()):
        value, se, df = (float(column[i]) for column in (values, spread.se, spread.df))
        subject, n, n_clusters = cells.subject[start], n_rows[i], int(spread.n_clusters[i])
        interval = interval_of(value, n_clusters, se, df, null, fisher)
        known = value if math.isfinite(value) else None
        yield Estimate(int(subject), known, *interval, int(n), n_clusters, se, df, sums=totals[i])


def interval_of(
    value: float, n: int, se: float, df: float, null: float = 0.0, fisher: bool = False
) -> Interval:
    """Return the interval and p of a value with this spread over n clusters; None if unknown."""
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
    """Return the interval of n clusters with exactly equal values, from a sign test."""
    if abs(value - null) <= FLAT * max(abs(value), abs(null), 1.0):
        return value, value, 1.0
    p = math.ldexp(1.0, 1 - n)
    edge = value if p < 1.0 - LEVEL else None
    return edge, edge, p


# -- statistics of totals; columns are named in each ------------------------------------------


def mean_of(totals: Floats) -> Floats:
    """Return the mean from (n, sum, …)."""
    n, y, *_ = totals.T
    return quotient(y, n)


def centred_correlation(totals: Floats) -> Floats:
    """Return the correlation of columns already centred, from (n, xx, yy, xy)."""
    n, xx, yy, xy = totals.T
    zeros = np.zeros_like(n)
    return correlations_from_sums(np.column_stack([n, zeros, zeros, xx, yy, xy]))


# -- reviewers on one scale --------------------------------------------------------------------


class Fit(NamedTuple):
    """A reviewer's sums over answers with another judge, and the scale fitted from them.

    There is one element per reviewer, or per reviewer and cluster that was left out. `prior` is the
    part of the scale that does not come from data; a scale may be wrong by τ times that.
    """

    n: Floats
    y: Floats
    q: Floats
    others_level: Floats
    others_scale: Floats
    scale: Floats
    prior: Floats


def fit_of(reviewer: Ints, sums: Floats, scales: Scales) -> Fit:
    """Return a reviewer's sums and scale from columns of the table `base`."""
    base = name_columns(BaseSums, sums)
    scale, prior = scales.of_sums(reviewer, base.scale_columns())
    return Fit(base.n, base.y, base.q, base.others_level, base.others_scale, scale, prior)


# Takes own sums, fits, and whether there is one of each per cell, without that cell's cluster.
FittedStatistic = Callable[[Floats, Fit, bool], tuple[Floats, Floats]]


class SubjectCells:
    """Subjects of a table with all clusters of their reviewer; missing cells are zero.

    A reviewer has `n_each` subjects: one for itself, or one per candidate.
    """

    def __init__(self, table: Cells, base: Cells, n_each: int = 1) -> None:
        self.base = base
        self.subject = np.unique(table.subject)
        self.reviewer = self.subject // n_each  # by subject
        starts = np.searchsorted(base.subject, self.reviewer, "left")
        sizes = np.searchsorted(base.subject, self.reviewer, "right") - starts
        self.place, self.cell = spans(starts, sizes)  # by cell: its subject, and its cell of `base`
        width = int(max(base.cluster.max(initial=0), table.cluster.max(initial=0))) + 1
        key = self.place * width + base.cluster[self.cell]
        table_key = np.searchsorted(self.subject, table.subject) * width + table.cluster
        at = np.searchsorted(key, table_key)
        if not np.array_equal(key[np.minimum(at, len(key) - 1)], table_key):
            raise ValueError("a subject has a cluster that its reviewer does not have")
        self.own = np.zeros((len(key), table.sums.shape[1]))  # by cell: columns of the table
        self.own[at] = table.sums
        self.totals = totals_by(self.place, self.own, len(self.subject))
        by_reviewer = totals_by(base.subject, base.sums, int(base.subject.max(initial=-1)) + 1)
        self.base_totals = by_reviewer[self.reviewer]
        self.base_rest = by_reviewer[base.subject] - base.sums  # by cell of `base`: without it

    def measure(
        self,
        statistic: FittedStatistic,
        n: Floats,
        scales: Scales,
        reasons: Sequence[tuple[Bools, str]] = (),
    ) -> list[Estimate]:
        """Return an estimate for each subject.

        The statistic returns values, and the change of each if the scale is off by one.
        """
        fit = fit_of(self.reviewer, self.base_totals, scales)
        value, gap = statistic(self.totals, fit, False)
        rest = fit_of(self.base.subject, self.base_rest, scales)
        without = Fit(*(column[self.cell] for column in rest))
        left_out, _ = statistic(self.totals[self.place] - self.own, without, True)
        prior = np.hypot(fit.prior, scales.prior_of_others)
        spread = spread_of(left_out, self.place, len(self.subject), gap * TAU * prior)
        alone = np.array(scales.status, dtype=object)[self.reviewer] == "alone"
        whys = [(alone, ALONE), *reasons]
        return measurements(self.subject, self.reviewer, value, spread, n, scales, whys)


def measurements(
    subject: Ints,
    reviewer: Ints,
    value: Floats,
    spread: JackknifeSpread,
    n: Floats,
    scales: Scales,
    reasons: Sequence[tuple[Bools, str]],
) -> list[Estimate]:
    """Return, for each subject, its value with its spread, or the reason why there is none."""
    out = []
    for i, (code, who) in enumerate(zip(subject.tolist(), reviewer.tolist(), strict=True)):
        at, se, df = (float(column[i]) for column in (value, spread.se, spread.df))
        n_rows, n_clusters = round(float(n[i])), int(spread.n_clusters[i])
        status, unit = scales.status[who], float(scales.sd[who])
        least = ROUNDING * max(unit, ROUNDING)
        why = next((why for unknown, why in reasons if unknown[i]), "")
        if status == "constant":
            why = CONSTANT
        elif not why and n_clusters < 2:
            why = LONE_CLUSTER
        elif not why and not (math.isfinite(at) and least < se < math.inf):
            why = NO_SPREAD
        if why:
            none = (None, None, None, None)
            out.append(Estimate(code, *none, n_rows, n_clusters, unit=unit, note=why))
            continue
        interval = interval_of(at, n_clusters, se, df)
        note = status if status == "contrarian" else ""
        out.append(Estimate(code, at, *interval, n_rows, n_clusters, se, df, unit, note))
    return out


# -- what several metrics measure ----------------------------------------------------------------


def slopes(
    table: Cells, sums: Tables, scales: Scales, step: float, same_x: str, *, centred: bool = False
) -> list[Estimate]:
    """Return each reviewer's slope of the deviation on x, times `step`.

    `same_x` says that x does not vary. `centred` means that the sums are already centred, as for
    comparisons.
    """
    cells = SubjectCells(table, sums["base"])
    centred = centred or scales.compares

    def slope(own: Floats, fit: Fit, _: bool) -> tuple[Floats, Floats]:
        line = name_columns(LineSums, own)
        n, x, xx, xy, xq = line.n, line.x, line.xx, line.xy, line.xq
        if not centred:
            some = np.maximum(n, 1.0)
            xx = xx - x * x / some
            xy, xq = xy - x * line.y / some, xq - x * line.q / some
        xx = np.where(xx > ALIKE * line.xx, xx, 0.0)
        tilt = step * quotient(xq, xx)
        return step * quotient(xy, xx) - fit.scale * tilt, tilt

    line = name_columns(LineSums, cells.totals)
    k, cast = len(scales.sd), sums["cast"]
    reasons = [
        (line.xx - line.x**2 / np.maximum(line.n, 1.0) <= ALIKE * line.xx, same_x),
        (has_one_other(totals_by(cast.subject // k, cast.sums, k)[cells.subject]), ONE_OTHER),
    ]
    return cells.measure(slope, line.n, scales, reasons)


def has_one_other(cast: Floats) -> Bools:
    """Return, by subject, whether all scores it is compared with come from one reviewer."""
    n, code, square = cast.T
    return n * square - code * code <= 0.5
