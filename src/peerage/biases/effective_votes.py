"""How many independent votes is the panel worth? Reviewers who err together count as fewer.

k / (1 + (k − 1)·r), with r the mean correlation of the reviewers' errors. An error that all
share cannot be told from quality by looking at scores alone, and against the others' mean
r is −1 / (k − 1) whatever the reviewers do. What can be seen is who errs with whom: the
variance of the difference of two reviewers, on one scale, is fitted by one error variance each,
robustly, and what a pair falls short of it counts as correlation. So the number is an upper
bound, and the note says so. Reviewers who never differ are one vote. Ranks are compared on pairs
of answers that neither reviewer wrote: shares over different rivals differ without any error.
Where correctness is known, the note adds the number against it; it is no test, since
whatever quality there is beyond being correct counts as a shared error there.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested, error_of, one_sided, unknown
from peerage.reviews.cells import Cells, cell_codes, single_cell
from peerage.reviews.comparisons import View
from peerage.reviews.intervals import estimates
from peerage.reviews.rows import N_PANEL, Floats, Ints, Kind
from peerage.stats.clusters import quotient

NAME = "effective_votes"
MIN_REVIEWERS = 3
COLUMNS = 6  # a pair: n, i, j, ii, jj, ij
N_POLISH = 30
ROUNDING = 1e-9  # of two variances: a difference that varies less does not vary


def sums(view: View) -> Sums:
    """By cluster, for each pair of the panel: sums of their differences, and beside the truth."""
    panel = view.all.panel if view.all.panel is not None else np.unique(view.judged.reviewer)
    seats = np.full(len(view.names), -1)
    seats[panel] = np.arange(len(panel))
    reviews = view.scored
    heard = np.flatnonzero(~reviews.own)
    answer, reviewer = reviews.answer[heard], reviews.reviewer[heard]
    n = np.bincount(answer, minlength=reviews.n_answers)
    several = n > 1
    place = np.cumsum(several) - 1
    shared = several[answer] & (seats[reviewer] >= 0)
    scores = np.full((len(panel), int(several.sum())), np.nan)
    scores[seats[reviewer[shared]], place[answer[shared]]] = reviews.score[heard[shared]]

    def by_answer(values: NDArray[Kind]) -> NDArray[Kind]:
        each = np.zeros(len(n), dtype=values.dtype)
        each[answer] = values[heard]
        return each[several]

    cluster = by_answer(reviews.cluster)
    tables = {
        "panel": Cells(panel, np.zeros_like(panel), np.ones((len(panel), 1))),
        "blind": _pairs([scores], cluster),
        "sessions": single_cell((np.bincount(view.judged.session) > 0).sum()),
    }
    if reviews.correct is not None:  # of comparisons, how much more correct the first one is
        truth = by_answer(reviews.correct)
        better = np.where(truth < 0.0, -scores, scores)
        levels = (np.abs(truth) > 0.5, np.abs(truth) <= 0.5)
        tables["known"] = _pairs([np.where(level, better, np.nan) for level in levels], cluster)
    return tables


def _pairs(levels: list[Floats], cluster: Ints) -> Cells:
    """By cluster: the moments of each pair of rows of scores, for each level apart."""
    codes = cell_codes(np.zeros_like(cluster), cluster)
    moments = []
    for scores in levels:
        there = np.isfinite(scores).astype(np.float64)
        y = np.where(there > 0.0, scores, 0.0)
        moments.append((there, y, y * y))
    sums = [
        codes.sums(m[i] * m[j], y[i] * m[j], m[i] * y[j], yy[i] * m[j], m[i] * yy[j], y[i] * y[j])
        for i, j in combinations(range(len(levels[0])), 2)
        for m, y, yy in moments
    ]
    return codes.cells(*sums) if sums else Cells(cluster[:0], cluster[:0], np.zeros((0, 0)))


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    seats = np.unique(sums["panel"].subject)
    k = len(seats)
    if k < MIN_REVIEWERS:
        return [unknown(NAME, panel, "needs three reviewers or more")]
    edge = panel.healthy(NAME) * k
    cells = sums["blind"]
    if cells.n == 0:
        return [unknown(NAME, panel, "no answer was judged by two reviewers")]
    against = _against_known(sums, k)
    if k == MIN_REVIEWERS:
        note = "of three reviewers it cannot be told which two err together"
        return [unknown(NAME, panel, note + against)]
    scale, centred = panel.compared.scales.scale[seats], not panel.ranks_only
    first = _error_variances(_gaps(cells.sums.sum(axis=0)[None, :], scale, centred)[0], k)

    def votes(totals: Floats) -> Floats:
        return _votes(_excess_correlation(_gaps(totals, scale, centred), first, k), k)

    one = next(iter(estimates(cells, votes, null=edge)))
    why = "an error that all share looks like quality"
    if not first.any():
        why = "no reviewer ever differs from another, so all are one vote"
    note = f"of {k} votes, at most: {why}{against}"
    if panel.n_reviewers > N_PANEL:
        note += f"; the {N_PANEL} most active of {panel.n_reviewers} reviewers"
    value, low, high = (
        None if x is None else min(float(k), max(1.0, x)) for x in (one.value, one.low, one.high)
    )
    p = one_sided(one.p, one.value is not None and one.value < edge)
    n, n_min = int(sums["sessions"].sums.sum()), panel.n_min(NAME)
    measured = (value, low, high, p, n, n_min, edge, note)
    return [Tested(NAME, "all", *measured, side="at_least", error=error_of(one))]


def _votes(r: Floats, k: int) -> Floats:
    return k / (1.0 + (k - 1) * np.maximum(r, -0.5 / (k - 1)))


def _against_known(sums: Sums, k: int) -> str:
    if "known" not in sums or sums["known"].n == 0:
        return ""
    r = _known_correlation(sums["known"].sums.sum(axis=0)[None, :])
    if not np.isfinite(r[0]):
        return ""
    return f"; against correctness alone {min(float(k), float(_votes(r, k)[0])):.1f}"


def _known_correlation(totals: Floats) -> Floats:
    """The mean over pairs of the correlation of scores within answers of equal correctness."""
    n, a, b, aa, bb, ab = np.moveaxis(totals.reshape(len(totals), -1, 2, COLUMNS), -1, 0)
    safe = np.maximum(n, 1.0)
    both = (ab - a * b / safe).sum(axis=-1)
    spread = (aa - a * a / safe).sum(axis=-1) * (bb - b * b / safe).sum(axis=-1)
    r = quotient(both, np.sqrt(np.maximum(spread, 0.0)))
    return quotient(np.nansum(r, axis=-1), np.isfinite(r).sum(axis=-1))


def _gaps(totals: Floats, scale: Floats, centred: bool) -> Floats:
    """The variance of the difference of each pair, on one scale; NaN for pairs that never met.

    Comparisons are not centred: which of two answers comes first in them means nothing.
    """
    n, a, b, aa, bb, ab = np.moveaxis(totals.reshape(len(totals), -1, COLUMNS), -1, 0)
    i, j = np.triu_indices(len(scale), 1)
    a, b = quotient(a, n) * centred, quotient(b, n) * centred
    own = (quotient(aa, n) - a * a) / scale[i] ** 2 + (quotient(bb, n) - b * b) / scale[j] ** 2
    gap = own - 2.0 * (quotient(ab, n) - a * b) / (scale[i] * scale[j])
    return np.where(np.abs(gap) <= ROUNDING * own, 0.0, gap)


def _error_variances(gaps: Floats, k: int) -> Floats:
    """One error variance a reviewer that explains most pairs' differences, by median polish."""
    table = np.full((k, k), np.nan)
    table[np.triu_indices(k, 1)] = gaps
    table = np.where(np.isfinite(table), table, table.T)
    met = np.isfinite(table)
    if not met.any():
        return np.zeros(k)
    variance = np.full(k, float(np.median(table[met])) / 2.0)
    for _ in range(N_POLISH):
        for i in range(k):
            if met[i].any():
                variance[i] = max(0.0, float(np.median(table[i, met[i]] - variance[met[i]])))
    return variance


def _excess_correlation(gaps: Floats, variance: Floats, k: int) -> Floats:
    """What pairs' differences fall short of two independent errors, beside their errors' size.

    A ratio of sums: a reviewer who errs next to nothing weighs next to nothing in either, where
    a mean of ratios would divide by it. Where no pair ever differs it is 1.
    """
    i, j = np.triu_indices(k, 1)
    known = np.isfinite(gaps)
    short = np.where(known, variance[i] + variance[j] - gaps, 0.0).sum(axis=-1)
    r = quotient(short, (known * 2.0 * np.sqrt(variance[i] * variance[j])).sum(axis=-1))
    alike = known.any(axis=-1) & (np.where(known, gaps, 0.0) == 0.0).all(axis=-1)
    return np.where(alike, 1.0, r)


metrics.register(NAME)(Metric(NAME, (), sums, findings))
