"""Agreement with other reviewers, self-consistency, and the panel's effective number of votes.

A panel of k reviewers is worth k / (1 + (k − 1)·r) independent votes, where r is the mean
correlation of the reviewers' errors: reviewers who make the same errors are worth fewer votes.
Scores alone cannot separate a shared error from quality, and errors relative to the others' mean
always give r = −1 / (k − 1). Pairs of reviewers can be compared, though: if their errors are
independent, the variance of the difference between their scores, on one scale, is the sum of their
error variances. One error variance per reviewer is fitted robustly, and a pair that differs less
than the sum has correlated errors. An error that all reviewers share remains invisible, so the
number is an upper bound, and the note says so. Reviewers who never differ are worth one vote. Ranks
are compared on pairs of answers that neither reviewer wrote, because shares over different rivals
differ without any error. If correctness is known, the note adds the number of votes measured
against it. That number is not tested, because it counts differences in quality between equally
correct answers as shared errors.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested, as_tested, error_of, one_sided, unknown, write_signed
from peerage.reviews.cells import (
    Cells,
    Floats,
    Ints,
    Kind,
    Tables,
    cell_codes,
    dense,
    group,
    name_columns,
    single_cell,
    table_of,
)
from peerage.reviews.comparisons import View
from peerage.reviews.deviations import AgreementSums
from peerage.reviews.intervals import (
    Estimate,
    Fit,
    SubjectCells,
    centred_correlation,
    estimates,
    interval_of,
)
from peerage.reviews.one_scale import Scales
from peerage.reviews.rows import N_PANEL, Rows, ballot_codes, has_rounds, select
from peerage.stats.clusters import quotient

NAME, REPEATS = "agreement", "consistency"
MIX = np.uint64(0x9E3779B97F4A7C15)
ALL_ALONE = "no answer was judged by two reviewers"
NO_REPEATS = "no reviewer judged one answer twice among the same others"


def agreement(sums: Tables, scales: Scales) -> list[Estimate]:
    """Return each reviewer's correlation with the others' quality estimates, within ballots.

    The standard error is that of the correlation itself; the note names contrarians.
    """
    cells = SubjectCells(sums["agreement"], sums["base"])

    def correlation(own: Floats, _: Fit, __: bool) -> tuple[Floats, Floats]:
        return centred_correlation(own), np.zeros(len(own))

    return cells.measure(correlation, name_columns(AgreementSums, cells.totals).n, scales)


def findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how well each reviewer's scores agree with the others' scores, within ballots.

    Of: each reviewer.
    Formula: r(score, the others' view of the answer), both minus the mean of their ballot
    Counts: reviews.
    Healthy: {edge} or more, a correlation.
    Assumes: that the others are worth agreeing with.
    Fooled by: a panel whose members make the same errors, so that its best member looks worst; and
        answers that hardly differ.
    Example: `agreement, a: 0.652 [0.61, 0.691], n 1000` – a mostly orders the answers of a ballot
        as the others do: clear. A reviewer below .3 adds noise, sees something that the others do
        not, or is a contrarian; the note names contrarians.
    """
    by_dimension = {
        name: {one.subject: one.value for one in estimates(cells, centred_correlation)}
        for name, cells in panel.by_dimension.items()
    }
    out = []
    for one in agreement(panel.compared.sums, panel.compared.scales):
        dimensions = ", ".join(
            f"{name} {write_signed(values.get(one.subject))}"
            for name, values in by_dimension.items()
        )
        out.append(_test_agreement(one, panel, dimensions))
    return out


def _test_agreement(one: Estimate, panel: Panel, dimensions: str) -> Tested:
    """Return the test of one correlation: below the healthy edge it is evidence."""
    if one.value is None or one.se is None or one.df is None or not abs(one.value) < 1.0:
        why = one.note or "agrees completely with the others"
        return unknown(NAME, panel, why, panel.names[one.subject], one.n)
    what = "pairs of answers" if panel.ranks_only else "answers within ballots"
    note = f"correlation with the others' scores of {what}"
    if one.note:
        note += f"; a {one.note}: rates answers low that the others rate high"
    if dimensions:
        note += f"; by dimension: {dimensions}"
    edge, se = panel.healthy(NAME), one.se / (1.0 - one.value**2)
    low, high, p = interval_of(one.value, one.n_clusters, se, one.df, edge, fisher=True)
    tested = as_tested(NAME, one, panel, note, edge=edge)
    p = one_sided(p, one.value < edge)
    return replace(tested, low=low, high=high, p=p, side="at_least")


def dimension_sums(view: View) -> Cells:
    """Return n, yy, oo, yo by reviewer: y are its marks, o the others' means, within ballots."""
    sums = view.ballot.sum
    shared = view.has_others
    y, o = np.where(shared, view.score, 0.0), np.where(shared, view.others, 0.0)
    n, sy, so = sums(shared), sums(y), sums(o)
    some = np.maximum(n, 1.0)
    columns = (sums(y * y) - sy * sy / some, sums(o * o) - so * so / some)
    return view.by_ballot(n, *columns, sums(y * o) - sy * so / some)


# -- with itself: one answer scored twice -------------------------------------------------------


def repeat_sums(view: View) -> Sums:
    """Return, by reviewer and cluster, the number of repeated scores and their squared spread."""
    unit, n_units = _units(view.all)
    if not has_rounds(view.rows):  # then only another session of the query repeats an answer
        again = (np.bincount(unit, minlength=n_units) > 1)[unit][view.all.session]
        view = View(select(view.all, np.flatnonzero(again)), view.value)
    rows, n_names = view.judged, len(view.names)
    shown, code = np.unique(_shown(view, n_units < view.all.n_sessions), return_inverse=True)
    same = group(
        (unit[rows.session], n_units),
        (rows.reviewer, n_names),
        (rows.candidate, n_names),
        (code, len(shown)),
    )
    n, y, yy = same.count(), same.sum(view.score), same.sum(view.score * view.score)
    twice = n > 1
    columns = [n[twice] - 1.0, np.maximum(0.0, yy - y * y / n)[twice]]
    reviewer, cluster = same.first(rows.reviewer)[twice], same.first(view.cluster)[twice]
    return {"repeats": table_of(reviewer, cluster, columns)}


def _shown(view: View, by_words: bool) -> Ints:
    """Return a number for each judged row, equal for ballots with the same set of answers.

    A score depends on the other answers of the ballot. Two sessions of one query count as showing
    the same answers if these are equally long; an answer of unknown length counts as the same only
    in the rounds of one session.
    """
    rows = view.all
    ballot = group(*ballot_codes(rows))
    answer = rows.candidate.astype(np.uint64) + np.uint64(1)
    if by_words:
        words = rows.numbers.get("words", np.full(rows.n, np.nan))
        known, session = np.isfinite(words), rows.session.astype(np.uint64) + np.uint64(1 << 40)
        answer = answer * MIX + np.where(known, np.nan_to_num(words).astype(np.uint64), session)
    answer = (answer ^ (answer >> np.uint64(29))) * MIX
    total = np.zeros(ballot.n, dtype=np.uint64)
    np.add.at(total, ballot.code, answer ^ (answer >> np.uint64(32)))
    return total[ballot.code][view.scored_at][~view.is_own]


def _units(rows: Rows) -> tuple[Ints, int]:
    """Return a code for each session's unit (its query, or itself), and the number of units."""
    query = rows.keys.get("query_id")
    if query is None:
        return np.arange(rows.n_sessions), rows.n_sessions
    by_session = np.full(rows.n_sessions, -1, dtype=np.int64)
    by_session[rows.session] = query
    alone = by_session < 0  # no query id, so no other session is known to repeat it
    by_session[alone] = -1 - np.flatnonzero(alone)
    return dense(by_session)


def repeat_findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how much each reviewer's score of an answer changes when the reviewer is asked again.

    Of: each reviewer.
    Formula: √(Σ (score - mean of its repeats)² / (repeats - answers)) / standard deviation of the
        reviewer's scores, over answers that it scored more than once among the same other answers
    Counts: repeated scores.
    Healthy: at most {edge}.
    Assumes: that only the reviewer changed between its scores of one answer. Repeats are rounds of
        a session, or sessions with one `query_id` whose answers have equal lengths.
    Fooled by: different answers of equal length, and different orders: a preference for the first
        place looks like inconsistency.
    Example: `consistency, c: 0.771 [0.663, 0.88], n 105` – if c sees an answer again, its score
        moves by three quarters of its usual spread. Lower its temperature, or run two rounds.
    """
    edge = panel.healthy(REPEATS)

    def spread(totals: Floats) -> Floats:
        n, squares = totals.T
        return np.sqrt(quotient(squares, n))

    cells = sums["repeats"]
    own = panel.compared.scales.sd[cells.subject]  # a wide scale is not inconsistency
    sd = np.where((own > 0.0) & (not panel.ranks_only), own, panel.sd)
    in_sds = Cells(cells.subject, cells.cluster, cells.sums / np.column_stack([sd**0, sd**2]))
    note = (
        "spread of repeated scores of one answer among the same others, in the reviewer's own sds"
    )
    return [
        replace(
            as_tested(REPEATS, one, panel, note),
            low=one.low if one.low is None else max(0.0, one.low),
            p=one_sided(one.p, one.value is not None and one.value > edge),
            side="at_most",
        )
        for one in estimates(in_sds, spread, null=edge)
    ]


metrics.register(NAME)(Metric(NAME, (), no_sums, findings, nothing=ALL_ALONE))
metrics.register(REPEATS)(
    Metric(REPEATS, (), repeat_sums, repeat_findings, nothing=NO_REPEATS, across_sessions=True)
)


# -- effective votes ------------------------------------------------------------------------------


VOTES = "effective_votes"
MIN_REVIEWERS = 3
N_PAIR_SUMS = 6  # sums of a pair of reviewers i and j: n, i, j, ii, jj, ij
N_POLISH = 30
ROUNDING = 1e-9  # relative to two variances: a difference that varies less counts as constant


def error_sums(view: View) -> Sums:
    """Return sums of the differences of each pair of reviewers, and of their errors, by cluster."""
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
    if reviews.correct is not None:  # for comparisons: correctness of the first minus the second
        truth = by_answer(reviews.correct)
        better = np.where(truth < 0.0, -scores, scores)
        levels = (np.abs(truth) > 0.5, np.abs(truth) <= 0.5)
        tables["known"] = _pairs([np.where(level, better, np.nan) for level in levels], cluster)
    return tables


def _pairs(levels: list[Floats], cluster: Ints) -> Cells:
    """Return, by cluster, the moments of each pair of reviewers' scores, for each level."""
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


def votes_findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how many independent votes the panel is worth.

    Of: the panel.
    Formula: k / (1 + (k - 1)·r), where k = number of reviewers and r = mean correlation of two
        reviewers' errors on one scale, each pair weighted by its errors
    Counts: sessions.
    Healthy: at least {edge} of the number of reviewers.
    Assumes: four reviewers or more; with three it is unknown which two make the same errors. Ranks
        are compared on pairs of answers that neither reviewer wrote.
    Fooled by: an error that all reviewers share, which looks exactly like quality. So the value is
        an upper bound. The number against known correctness, in the note, is not a test: it counts
        differences between equally correct answers as shared errors.
    Example: `effective_votes, all: 6 [4.74, 6], n 200` – six reviewers whose errors are independent
        are worth six votes: clear. A value near 1 means that one reviewer would have been enough.
        Seat models of other families.
    """
    seats = np.unique(sums["panel"].subject)
    k = len(seats)
    if k < MIN_REVIEWERS:
        return [unknown(VOTES, panel, "needs three reviewers or more")]
    edge = panel.healthy(VOTES) * k
    cells = sums["blind"]
    if cells.n == 0:
        return [unknown(VOTES, panel, "no answer was judged by two reviewers")]
    against = _against_known(sums, k)
    if k == MIN_REVIEWERS:
        note = "with three reviewers the data cannot show which two err together"
        return [unknown(VOTES, panel, note + against)]
    scale, centred = panel.compared.scales.scale[seats], not panel.ranks_only
    first = _error_variances(_gaps(cells.sums.sum(axis=0)[None, :], scale, centred)[0], k)

    def votes(totals: Floats) -> Floats:
        return _votes(_excess_correlation(_gaps(totals, scale, centred), first, k), k)

    one = next(iter(estimates(cells, votes, null=edge)))
    why = "a shared error looks like quality"
    if not first.any():
        why = "all reviewers always agree, so together they are one vote"
    note = f"upper bound, out of {k} votes: {why}{against}"
    if panel.n_reviewers > N_PANEL:
        note += f"; the {N_PANEL} most active of {panel.n_reviewers} reviewers"
    value, low, high = (
        None if x is None else min(float(k), max(1.0, x)) for x in (one.value, one.low, one.high)
    )
    p = one_sided(one.p, one.value is not None and one.value < edge)
    n, n_min = int(sums["sessions"].sums.sum()), panel.n_min(VOTES)
    measured = (value, low, high, p, n, n_min, edge, note)
    return [Tested(VOTES, "all", *measured, side="at_least", error=error_of(one))]


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
    """Return the mean correlation of pairs of reviewers within answers of equal correctness."""
    n, a, b, aa, bb, ab = np.moveaxis(totals.reshape(len(totals), -1, 2, N_PAIR_SUMS), -1, 0)
    safe = np.maximum(n, 1.0)
    both = (ab - a * b / safe).sum(axis=-1)
    spread = (aa - a * a / safe).sum(axis=-1) * (bb - b * b / safe).sum(axis=-1)
    r = quotient(both, np.sqrt(np.maximum(spread, 0.0)))
    return quotient(np.nansum(r, axis=-1), np.isfinite(r).sum(axis=-1))


def _gaps(totals: Floats, scale: Floats, centred: bool) -> Floats:
    """Return the variance of each pair's difference, on one scale; NaN if they share no answer.

    Comparisons are not centred: the order of the two answers in them has no meaning.
    """
    n, a, b, aa, bb, ab = np.moveaxis(totals.reshape(len(totals), -1, N_PAIR_SUMS), -1, 0)
    i, j = np.triu_indices(len(scale), 1)
    a, b = quotient(a, n) * centred, quotient(b, n) * centred
    own = (quotient(aa, n) - a * a) / scale[i] ** 2 + (quotient(bb, n) - b * b) / scale[j] ** 2
    gap = own - 2.0 * (quotient(ab, n) - a * b) / (scale[i] * scale[j])
    return np.where(np.abs(gap) <= ROUNDING * own, 0.0, gap)


def _error_variances(gaps: Floats, k: int) -> Floats:
    """Return one error variance per reviewer that fits most differences (median polish)."""
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
    """Return the excess correlation of errors: how much less pairs differ than independent ones.

    It is a ratio of sums: a reviewer with almost no error has almost no weight, while a mean of
    ratios would divide by it. If no pair ever differs it is 1.
    """
    i, j = np.triu_indices(k, 1)
    known = np.isfinite(gaps)
    short = np.where(known, variance[i] + variance[j] - gaps, 0.0).sum(axis=-1)
    r = quotient(short, (known * 2.0 * np.sqrt(variance[i] * variance[j])).sum(axis=-1))
    alike = known.any(axis=-1) & (np.where(known, gaps, 0.0) == 0.0).all(axis=-1)
    return np.where(alike, 1.0, r)


metrics.register(VOTES)(Metric(VOTES, (), error_sums, votes_findings))
