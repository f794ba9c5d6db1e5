"""Does a reviewer give one answer the same score twice?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import one_sided, unknown
from peerage.reviews.cells import Cells, merge, ordered
from peerage.reviews.intervals import estimates
from peerage.reviews.rows import Floats, Groups, Ints, Rows, group
from peerage.reviews.view import View, select
from peerage.stats.clusters import quotient

NAME = "consistency"


def sums(view: View) -> Sums:
    """By reviewer and cluster: how many scores repeat an earlier one, and their squared spread."""
    unit, n_units = _units(view.all)
    nobody = np.zeros(0, dtype=np.int64)
    parts = [Cells(nobody, nobody, np.zeros((0, 2)))]
    if not view.repeated:  # only sessions that repeat a query
        again = (np.bincount(unit, minlength=n_units) > 1)[unit][view.all.session]
        view = View(select(view.all, again), view.given[again])
    rows, n_names = view.judged, len(view.names)
    code = group((unit[rows.session], n_units), (rows.reviewer, n_names), (rows.candidate, n_names))
    left = np.flatnonzero(code.count()[code.code] > 1)
    same = Groups(code.code[left], code.n)
    words = rows.numbers.get("words") if n_units < rows.n_sessions else None
    # A repeated query is a repeated answer only if the answer is as long. Each turn takes one
    # length of every answer, and what is left goes round again.
    while len(left):
        taken = np.ones(len(left), dtype=bool)
        if words is not None:
            taken = words[left] == same.first(words[left])[same.code]
        parts.append(_spread(view, Groups(same.code[taken], same.n), left[taken]))
        rest = ~taken & np.isfinite(words[left]) if words is not None else ~taken
        left, same = left[rest], Groups(same.code[rest], same.n)
    return {"repeats": merge(parts)}


def _spread(view: View, same: Groups, taken: Ints) -> Cells:
    """Repeats and their squared spread, of rows that are about the same answers."""
    score = view.score[taken]
    n, y, yy = same.count(), same.sum(score), same.sum(score * score)
    twice = n > 1
    n, y, yy = n[twice], y[twice], yy[twice]
    table = np.column_stack([n - 1.0, np.maximum(0.0, yy - y * y / n)])
    reviewer = same.first(view.judged.reviewer[taken])[twice]
    return ordered(reviewer, same.first(view.cluster[taken])[twice], table)


def _units(rows: Rows) -> tuple[Ints, int]:
    """For each session what its answers belong to: its query where it has an id, else itself."""
    query = rows.keys.get("query_id")
    if query is None:
        return np.arange(rows.n_sessions), rows.n_sessions
    by_session = np.full(rows.n_sessions, -1, dtype=np.int64)
    by_session[rows.session] = query
    alone = by_session < 0  # no id: nothing is known to repeat it
    by_session[alone] = -1 - np.flatnonzero(alone)
    kept, code = np.unique(by_session, return_inverse=True)
    return code, len(kept)


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, edge = panel.n_min(NAME), panel.healthy(NAME)

    def spread(totals: Floats) -> Floats:
        return np.sqrt(quotient(totals[:, 1], totals[:, 0])) / panel.sd

    tested = []
    for one in estimates(sums["repeats"], spread, null=edge):
        beyond = one.value is not None and one.value > edge
        tested.append(
            Tested(
                NAME,
                panel.names[one.subject],
                one.value,
                one.low if one.low is None else max(0.0, one.low),
                one.high,
                one_sided(one.p, beyond),
                int(one.sums[0]),
                n_min,
                edge,
                "spread of repeated scores of one answer, in standard deviations of all scores",
                side="at_most",
            )
        )
    return tested or [unknown(NAME, n_min, "no reviewer judged one answer twice")]


metrics.register(NAME)(Metric(NAME, (), sums, findings, across_sessions=True))
