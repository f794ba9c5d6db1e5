"""A value with its standard error from leaving out one cluster at a time, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from peerage.reviews.deviations import FIT, SumsTable, totals_by
from peerage.reviews.one_scale import TAU, Bools, Floats, Ints, Scales
from peerage.stats.clusters import quotient
from peerage.stats.tails import normal_critical, student_t_p, t_critical

MeasurementStatus = Literal["ok", "not_identifiable"]

LEVEL = 0.95
ROUNDING = 1e-9  # of the unit: a spread below it is none
POWER_Z = normal_critical(0.6)  # 80% lie below it

CONSTANT = "gives every answer the same score"
ALONE = "judged nothing that others judged too"
NO_SPREAD = "no spread over sessions, so no telling how it would vary"
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


def smallest_visible(one: Measurement, edge: float) -> float | None:
    """The effect that four in five audits of this size would name; None without a value.

    To be named, an estimate must pass both its critical value and the healthy edge; it does so in
    80% of audits where the true effect lies z(.8) standard errors beyond the higher of the two.
    """
    if one.se is None or one.df is None:
        return None
    return max(edge, t_critical(LEVEL, round(one.df, 3)) * one.se) + POWER_Z * one.se


def n_needed(one: Measurement, edge: float) -> int | None:
    """The n at which an effect as large as the healthy edge is told from none in 80% of audits.

    Standard errors shrink with the root of n, and (t + z(.8)) of them must fit into the edge. At
    that n the interval of a reviewer without any effect lies within the healthy range about as
    often. Never below the n there is; None without a value or a healthy range.
    """
    if one.se is None or one.df is None or edge <= 0.0:
        return None
    reach = (t_critical(LEVEL, round(one.df, 3)) + POWER_Z) * one.se
    return max(one.n, math.ceil(one.n * (reach / edge) ** 2))


# -- leave one cluster out ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
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

    def at(self, places: Ints) -> Fit:
        return Fit(
            self.n[places],
            self.y[places],
            self.q[places],
            self.others_level[places],
            self.others_scale[places],
            self.scale[places],
            self.prior[places],
        )


def fit_of(reviewer: Ints, sums: Floats, scales: Scales) -> Fit:
    """A reviewer's sums and scale from columns of `DeviationSums.base`."""
    n, y, q, level, others = np.moveaxis(sums[..., :5], -1, 0)
    scale, prior = scales.of_sums(reviewer, list(np.moveaxis(sums[..., FIT], -1, 0)))
    return Fit(n, y, q, level, others, scale, prior)


Statistic = Callable[[Floats, Fit], tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class Cells:
    """For each subject, the cells of all its reviewer's clusters."""

    subject: Ints  # by subject
    reviewer: Ints  # by subject
    place: Ints  # by cell: which subject
    own: Floats  # by cell: columns of the subject's table
    cell: Ints  # by cell: which cell of the reviewer's table
    base: SumsTable

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
        without = fit_of(who, base[who] - self.base.sums, scales).at(self.cell)
        left_out, _ = statistic(own[self.place] - self.own, without)
        spread = spread_of(left_out, self.place, len(self.subject), gap * TAU * fit.prior)
        named = self.subject if subject is None else subject
        return measurements(named, self.reviewer, value, spread, n, scales, reasons)


def beside_base(table: SumsTable, base: SumsTable, reviewer_of: Callable[[Ints], Ints]) -> Cells:
    """Subjects of a table with all clusters of their reviewer; what a cluster lacks is zero."""
    subject = np.unique(table.subject)
    reviewer = reviewer_of(subject)
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
    return Cells(subject, reviewer, place, own, cell, base)


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard errors and degrees of freedom of many subjects from their left-out values."""

    se: Floats
    df: Floats
    n_clusters: Ints


def spread_of(left_out: Floats, place: Ints, n: int, extra: Floats | float = 0.0) -> Spread:
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
    return Spread(np.sqrt(variance + np.square(extra)), df, count)


def measurements(
    subject: Ints,
    reviewer: Ints,
    value: Floats,
    spread: Spread,
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
        why = cannot.get(scales.status[who], "") or next((w for bad, w in reasons if bad[i]), "")
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
                code,
                float(value[i]),
                float(spread.se[i]),
                float(spread.df[i]),
                size,
                count,
                unit,
                "ok",
                note,
            )
        )
    return out
