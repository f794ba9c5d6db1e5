"""Does a reviewer give one answer the same score twice?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested, estimated, one_sided, unknown
from peerage.reviews.cells import Cells, table_of
from peerage.reviews.intervals import estimates
from peerage.reviews.rows import Floats, Ints, Rows, ballot_codes, dense, group, has_rounds, select
from peerage.reviews.view import View
from peerage.stats.clusters import quotient

NAME = "consistency"
MIX = np.uint64(0x9E3779B97F4A7C15)


def sums(view: View) -> Sums:
    """By reviewer and cluster: how many scores repeat an earlier one, and their squared spread."""
    unit, n_units = _units(view.all)
    if not has_rounds(view.rows):  # only sessions that repeat a query
        again = (np.bincount(unit, minlength=n_units) > 1)[unit][view.all.session]
        view = View(select(view.all, np.flatnonzero(again)), view.value)
    rows, n_names = view.judged, len(view.names)
    shown = _shown(view, n_units < view.all.n_sessions)
    kept, code = np.unique(shown, return_inverse=True)
    same = group(
        (unit[rows.session], n_units),
        (rows.reviewer, n_names),
        (rows.candidate, n_names),
        (code, len(kept)),
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
    return total[ballot.code][np.isfinite(view.given)][~view.is_own]


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


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, edge = panel.n_min(NAME), panel.healthy(NAME)

    def spread(totals: Floats) -> Floats:
        return np.sqrt(quotient(totals[:, 1], totals[:, 0]))

    cells = sums["repeats"]
    own = panel.compared.scales.sd[cells.subject]  # a wide reviewer is not an unsteady one
    sd = np.where((own > 0.0) & (not panel.ranks_only), own, panel.sd)
    in_sds = Cells(cells.subject, cells.cluster, cells.sums / np.column_stack([sd**0, sd**2]))
    note = "spread of scores of one answer beside the same others, in the reviewer's own sds"
    tested = [
        replace(
            estimated(NAME, one, panel, note),
            low=one.low if one.low is None else max(0.0, one.low),
            p=one_sided(one.p, one.value is not None and one.value > edge),
            side="at_most",
        )
        for one in estimates(in_sds, spread, null=edge)
    ]
    return tested or [
        unknown(NAME, n_min, "no reviewer judged one answer twice beside the same others")
    ]


metrics.register(NAME)(Metric(NAME, (), sums, findings, across_sessions=True))
