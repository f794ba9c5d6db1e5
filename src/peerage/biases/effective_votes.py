"""How many independent votes is the panel worth? Reviewers who err together count as fewer.

k / (1 + (k − 1)·r), with r the mean correlation of the reviewers' errors. An error that all
share cannot be told from quality by looking at scores alone, and against the others' mean
r is −1 / (k − 1) whatever the reviewers do. What can be seen is who errs with whom: the
variance of the difference of two reviewers is fitted by one error variance each, robustly,
and what a pair falls short of it counts as correlation. So the number is an upper bound, and
the note says so. Where correctness is known, the note adds the number against it; it is no
test, since whatever quality there is beyond being correct counts as a shared error there.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import one_sided, unknown
from peerage.reviews.cells import Cells, count_of, ordered
from peerage.reviews.intervals import estimates
from peerage.reviews.rows import N_PANEL, Floats, Ints
from peerage.reviews.view import View
from peerage.stats.clusters import quotient

NAME = "effective_votes"
MIN_REVIEWERS = 3
BLIND, KNOWN = 3, 12  # columns a pair: n, d, dd; and twice n, i, j, ii, jj, ij
N_POLISH = 30


def sums(view: View) -> Sums:
    """By cluster, for each pair of the panel: sums of their differences, and beside the truth."""
    panel = view.all.panel if view.all.panel is not None else np.unique(view.judged.reviewer)
    rows = view.judged
    seats = np.full(len(view.names), -1)
    seats[panel] = np.arange(len(panel))
    several = view.n_by_answer > 1
    place = np.cumsum(several) - 1
    kept = several[view.answer.code] & (seats[rows.reviewer] >= 0)
    chosen = np.flatnonzero(kept)
    scores = np.full((len(panel), int(several.sum())), np.nan)
    scores[seats[rows.reviewer[chosen]], place[view.answer.code[chosen]]] = view.score[chosen]
    cluster = view.answer.first(view.cluster)[several]
    n_sessions = float((np.bincount(rows.session) > 0).sum())
    found = {
        "blind": _pairs(scores, cluster, view.all.n_clusters),
        "sessions": count_of(n_sessions),
    }
    if "correct" in rows.numbers:
        truth = view.answer.first(rows.numbers["correct"])[several]
        found["known"] = _pairs_by_truth(scores, truth, cluster, view.all.n_clusters)
    return found


def _pairs(scores: Floats, cluster: Ints, n_clusters: int) -> Cells:
    columns = []
    for i, j in combinations(range(len(scores)), 2):
        gap = scores[i] - scores[j]
        both = np.flatnonzero(np.isfinite(gap))
        at, gap = cluster[both], gap[both]
        columns += [np.bincount(at, w, minlength=n_clusters) for w in (None, gap, gap * gap)]
    return _wide(columns, n_clusters)


def _pairs_by_truth(scores: Floats, truth: Floats, cluster: Ints, n_clusters: int) -> Cells:
    columns = []
    for i, j in combinations(range(len(scores)), 2):
        both = np.isfinite(scores[i]) & np.isfinite(scores[j])
        for level in (truth > 0.5, truth <= 0.5):
            kept = both & level
            at, a, b = cluster[kept], scores[i, kept], scores[j, kept]
            weights = (None, a, b, a * a, b * b, a * b)
            columns += [np.bincount(at, w, minlength=n_clusters) for w in weights]
    return _wide(columns, n_clusters)


def _wide(columns: list[np.ndarray], n_clusters: int) -> Cells:
    """One row a cluster, for the whole panel at once."""
    table = np.column_stack(columns) if columns else np.zeros((n_clusters, 0))
    held = (table != 0.0).any(axis=1) if columns else np.zeros(n_clusters, dtype=bool)
    where = np.flatnonzero(held)
    return ordered(np.zeros_like(where), where, table[held].astype(np.float64))


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    k = _n_seats(sums["blind"].sums.shape[1] // BLIND)
    if k < MIN_REVIEWERS:
        return [unknown(NAME, n_min, "needs three reviewers or more")]
    edge = panel.healthy(NAME) * k
    cells = sums["blind"]
    if cells.n == 0:
        return [unknown(NAME, n_min, "no answer was judged by two reviewers")]
    against = _against_known(sums, k)
    if k == MIN_REVIEWERS:
        note = "of three reviewers it cannot be told which two err together"
        return [unknown(NAME, n_min, note + against)]
    first = _error_variances(cells.sums.sum(axis=0)[None, :], k)
    one = next(
        iter(estimates(cells, lambda t: _votes(_excess_correlation(t, first, k), k), null=edge))
    )
    beyond = one.value is not None and one.value < edge
    note = f"of {k} votes, at most: an error that all share looks like quality{against}"
    if panel.n_reviewers > N_PANEL:
        note += f"; the {N_PANEL} most active of {panel.n_reviewers} reviewers"
    value, low, high = (
        None if x is None else min(float(k), max(1.0, x)) for x in (one.value, one.low, one.high)
    )
    p = one_sided(one.p, beyond)
    n = int(sums["sessions"].sums.sum())
    return [Tested(NAME, "all", value, low, high, p, n, n_min, edge, note, side="at_least")]


def _votes(r: Floats, k: int) -> Floats:
    votes: Floats = k / (1.0 + (k - 1) * np.maximum(r, -0.5 / (k - 1)))
    return votes


def _against_known(sums: Sums, k: int) -> str:
    if "known" not in sums or sums["known"].n == 0:
        return ""
    r = _known_correlation(sums["known"].sums.sum(axis=0)[None, :])
    if not np.isfinite(r[0]):
        return ""
    return f"; against correctness alone {min(float(k), float(_votes(r, k)[0])):.1f}"


def _n_seats(n_pairs: int) -> int:
    """The panel that has so many pairs."""
    return (1 + math.isqrt(1 + 8 * n_pairs)) // 2


def _known_correlation(totals: Floats) -> Floats:
    """The mean over pairs of the correlation of scores within answers of equal correctness."""
    n, a, b, aa, bb, ab = np.moveaxis(totals.reshape(len(totals), -1, 2, KNOWN // 2), -1, 0)
    safe = np.maximum(n, 1.0)
    both = (ab - a * b / safe).sum(axis=-1)
    spread = (aa - a * a / safe).sum(axis=-1) * (bb - b * b / safe).sum(axis=-1)
    return _mean(quotient(both, np.sqrt(np.maximum(spread, 0.0))))


def _gaps(totals: Floats) -> Floats:
    """The variance of the difference of each pair; NaN for pairs that never met."""
    n, d, dd = np.moveaxis(totals.reshape(len(totals), -1, BLIND), -1, 0)
    mean = quotient(d, n)
    return quotient(dd, n) - mean * mean


def _error_variances(totals: Floats, k: int) -> Floats:
    """One error variance a reviewer that explains most pairs' differences, by median polish."""
    if totals.shape[1] != BLIND * (k * (k - 1) // 2):
        return np.ones(k)
    gaps = np.full((k, k), np.nan)
    for (i, j), gap in zip(combinations(range(k), 2), _gaps(totals)[0], strict=True):
        gaps[i, j] = gaps[j, i] = gap
    met = np.isfinite(gaps)
    if not met.any():
        return np.ones(k)
    variance = np.full(k, float(np.median(gaps[met])) / 2.0)
    for _ in range(N_POLISH):
        for i in range(k):
            if met[i].any():
                variance[i] = max(1e-12, float(np.median(gaps[i, met[i]] - variance[met[i]])))
    return variance


def _excess_correlation(totals: Floats, variance: Floats, k: int) -> Floats:
    """The mean over pairs of what their difference falls short of two independent errors."""
    pairs = list(combinations(range(k), 2))
    i, j = np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])
    expected = variance[i] + variance[j]
    scale = 2.0 * np.sqrt(variance[i] * variance[j])
    return _mean((expected - _gaps(totals)) / scale)


def _mean(by_pair: Floats) -> Floats:
    known = np.isfinite(by_pair)
    return quotient(np.where(known, by_pair, 0.0).sum(axis=-1), known.sum(axis=-1))


metrics.register(NAME)(Metric(NAME, (), sums, findings))
