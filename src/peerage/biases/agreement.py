"""Does a reviewer rank answers as the others do?"""

from __future__ import annotations

import math

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested, one_sided, signed, unknown
from peerage.reviews.cells import Cells
from peerage.reviews.deviations import DeviationSums
from peerage.reviews.intervals import (
    LEVEL,
    Fit,
    Measurement,
    beside_base,
    centred_correlation,
    estimates,
)
from peerage.reviews.one_scale import Scales
from peerage.reviews.rows import Floats
from peerage.reviews.view import View
from peerage.stats.tails import student_t_p, t_critical

NAME = "agreement"


def agreement(sums: DeviationSums, scales: Scales) -> list[Measurement]:
    """Each reviewer's correlation with the quality by the others, within ballots.

    The standard error is that of the correlation itself; a contrarian is named in the note.
    """
    cells = beside_base(sums.agreement, sums.base)

    def correlation(own: Floats, _: Fit) -> tuple[Floats, Floats]:
        return centred_correlation(own), np.zeros(len(own))

    return cells.measured(correlation, cells.own_totals()[:, 0], scales)


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
    return out or [unknown(NAME, panel.n_min(NAME), "no answer was judged by two reviewers")]


def _tested(one: Measurement, panel: Panel, dimensions: str) -> Tested:
    """A correlation below the healthy one is evidence; its interval is Fisher's."""
    name, edge, n_min = panel.names[one.subject], panel.healthy(NAME), panel.n_min(NAME)
    if one.value is None or one.se is None or one.df is None or not abs(one.value) < 1.0:
        return unknown(NAME, n_min, one.note or "agrees with the others in everything", name, one.n)
    what = "pairs of answers" if panel.ranks_only else "answers within ballots"
    note = f"correlation with the others' view of {what}"
    if one.note:
        note += f"; a {one.note}: rates low what the others rate high"
    if dimensions:
        note += f"; by dimension: {dimensions}"
    z, error = math.atanh(one.value), one.se / (1.0 - one.value**2)
    half = t_critical(LEVEL, round(one.df, 3)) * error
    low, high = math.tanh(z - half), math.tanh(z + half)
    p = one_sided(student_t_p((z - math.atanh(edge)) / error, one.df), one.value < edge)
    return Tested(NAME, name, one.value, low, high, p, one.n, n_min, edge, note, side="at_least")


def dimension_sums(view: View) -> Cells:
    """By reviewer and cluster: n, yy, oo, yo of own marks and the others' means within ballots."""
    sums = view.ballot.sum
    kept = view.has_others
    y, o = np.where(kept, view.score, 0.0), np.where(kept, view.others, 0.0)
    n, sy, so = sums(kept), sums(y), sums(o)
    some = np.maximum(n, 1.0)
    columns = (sums(y * y) - sy * sy / some, sums(o * o) - so * so / some)
    return view.by_ballot(n, *columns, sums(y * o) - sy * so / some)


metrics.register(NAME)(Metric(NAME, (), no_sums, findings))
