"""Does a reviewer rank answers as the others do, and give one answer the same score twice?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested, as_tested, one_sided, signed, unknown
from peerage.reviews.cells import Cells, Tables, table_of
from peerage.reviews.comparisons import View
from peerage.reviews.intervals import (
    Estimate,
    Fit,
    SubjectCells,
    centred_correlation,
    estimates,
    interval_of,
)
from peerage.reviews.one_scale import Scales
from peerage.reviews.rows import Floats, Ints, Rows, ballot_codes, dense, group, has_rounds, select
from peerage.stats.clusters import quotient

NAME, REPEATS = "agreement", "consistency"
MIX = np.uint64(0x9E3779B97F4A7C15)
ALL_ALONE = "no answer was judged by two reviewers"
NO_REPEATS = "no reviewer judged one answer twice beside the same others"


def agreement(sums: Tables, scales: Scales) -> list[Estimate]:
    """Each reviewer's correlation with the quality by the others, within ballots.

    The standard error is that of the correlation itself; a contrarian is named in the note.
    """
    cells = SubjectCells(sums["agreement"], sums["base"])

    def correlation(own: Floats, _: Fit, __: bool) -> tuple[Floats, Floats]:
        return centred_correlation(own), np.zeros(len(own))

    return cells.measured(correlation, cells.totals[:, 0], scales)


def findings(_: Sums, panel: Panel) -> list[Tested]:
    by_dimension = {
        name: {one.subject: one.value for one in estimates(cells, centred_correlation)}
        for name, cells in panel.by_dimension.items()
    }
    out = []
    for one in agreement(panel.compared.sums, panel.compared.scales):
        dimensions = ", ".join(
            f"{name} {signed(values.get(one.subject))}" for name, values in by_dimension.items()
        )
        out.append(_tested(one, panel, dimensions))
    return out


def _tested(one: Estimate, panel: Panel, dimensions: str) -> Tested:
    """A correlation below the healthy one is evidence; its interval is Fisher's."""
    if one.value is None or one.se is None or one.df is None or not abs(one.value) < 1.0:
        why = one.note or "agrees with the others in everything"
        return unknown(NAME, panel, why, panel.names[one.subject], one.n)
    what = "pairs of answers" if panel.ranks_only else "answers within ballots"
    note = f"correlation with the others' view of {what}"
    if one.note:
        note += f"; a {one.note}: rates low what the others rate high"
    if dimensions:
        note += f"; by dimension: {dimensions}"
    edge, se = panel.healthy(NAME), one.se / (1.0 - one.value**2)
    low, high, p = interval_of(one.value, one.n_clusters, se, one.df, edge, fisher=True)
    tested = as_tested(NAME, one, panel, note, edge=edge)
    p = one_sided(p, one.value < edge)
    return replace(tested, low=low, high=high, p=p, side="at_least")


def dimension_sums(view: View) -> Cells:
    """By reviewer and cluster: n, yy, oo, yo of own marks and the others' means within ballots."""
    sums = view.ballot.sum
    shared = view.has_others
    y, o = np.where(shared, view.score, 0.0), np.where(shared, view.others, 0.0)
    n, sy, so = sums(shared), sums(y), sums(o)
    some = np.maximum(n, 1.0)
    columns = (sums(y * y) - sy * sy / some, sums(o * o) - so * so / some)
    return view.by_ballot(n, *columns, sums(y * o) - sy * so / some)


# -- with itself: one answer scored twice -------------------------------------------------------


def repeat_sums(view: View) -> Sums:
    """By reviewer and cluster: how many scores repeat an earlier one, and their squared spread."""
    unit, n_units = _units(view.all)
    if not has_rounds(view.rows):  # only sessions that repeat a query
        again = (np.bincount(unit, minlength=n_units) > 1)[unit][view.all.session]
        view = View(select(view.all, np.flatnonzero(again)), view.value)
    rows, n_names = view.judged, len(view.names)
    beside, code = np.unique(_shown(view, n_units < view.all.n_sessions), return_inverse=True)
    same = group(
        (unit[rows.session], n_units),
        (rows.reviewer, n_names),
        (rows.candidate, n_names),
        (code, len(beside)),
    )
    n, y, yy = same.count(), same.sum(view.score), same.sum(view.score * view.score)
    twice = n > 1
    columns = [n[twice] - 1.0, np.maximum(0.0, yy - y * y / n)[twice]]
    reviewer, cluster = same.first(rows.reviewer)[twice], same.first(view.cluster)[twice]
    return {"repeats": table_of(reviewer, cluster, columns)}


def _shown(view: View, by_words: bool) -> Ints:
    """For each judged row, a number that ballots share which show the same set of answers.

    A score depends on what stands beside the answer. Sessions that repeat a query show the same
    answers where those are equally long; an unknown length is like no other.
    """
    rows = view.all
    ballot = group(*ballot_codes(rows))
    answer = rows.candidate.astype(np.uint64) + np.uint64(1)
    words = rows.numbers.get("words") if by_words else None
    if words is not None:
        answer = answer * MIX + np.nan_to_num(words).astype(np.uint64)
    answer = (answer ^ (answer >> np.uint64(29))) * MIX
    total = np.zeros(ballot.n, dtype=np.uint64)
    np.add.at(total, ballot.code, answer ^ (answer >> np.uint64(32)))
    if words is not None:
        lacking = ballot.sum(~np.isfinite(words)) > 0
        total[lacking] = np.flatnonzero(lacking)
    return total[ballot.code][view.scored_at][~view.is_own]


def _units(rows: Rows) -> tuple[Ints, int]:
    """For each session what its answers belong to: its query where it has an id, else itself."""
    query = rows.keys.get("query_id")
    if query is None:
        return np.arange(rows.n_sessions), rows.n_sessions
    by_session = np.full(rows.n_sessions, -1, dtype=np.int64)
    by_session[rows.session] = query
    alone = by_session < 0  # no id: nothing is known to repeat it
    by_session[alone] = -1 - np.flatnonzero(alone)
    return dense(by_session)


def repeat_findings(sums: Sums, panel: Panel) -> list[Tested]:
    edge = panel.healthy(REPEATS)

    def spread(totals: Floats) -> Floats:
        return np.sqrt(quotient(totals[:, 1], totals[:, 0]))

    cells = sums["repeats"]
    own = panel.compared.scales.sd[cells.subject]  # a wide reviewer is not an unsteady one
    sd = np.where((own > 0.0) & (not panel.ranks_only), own, panel.sd)
    in_sds = Cells(cells.subject, cells.cluster, cells.sums / np.column_stack([sd**0, sd**2]))
    note = "spread of scores of one answer beside the same others, in the reviewer's own sds"
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
