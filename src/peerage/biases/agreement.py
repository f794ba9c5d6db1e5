"""Does a reviewer rank answers as the others do?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import one_sided, signed, unknown
from peerage.reviews.cells import Cells
from peerage.reviews.intervals import Estimate, centred_correlation, estimates
from peerage.reviews.view import View

NAME = "agreement"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, yy, oo, yo of own scores and the others' means within ballots."""
    sums = view.ballot.sum
    y, o, kept = view.score, view.others, view.has_others
    n, sy, yy = view.n_by_ballot, view.score_by_ballot, view.squares_by_ballot
    if not kept.all():
        y, o = np.where(kept, y, 0.0), np.where(kept, o, 0.0)
        n, sy, yy = view.n_compared_by_ballot, sums(y), sums(y * y)
    so, oo, yo, some = sums(o), sums(o * o), sums(y * o), np.maximum(n, 1.0)
    return {
        "reviews": view.by_ballot(n, yy - sy * sy / some, oo - so * so / some, yo - sy * so / some)
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    by_dimension = {name: _values(cells) for name, cells in panel.by_dimension.items()}
    out = []
    for one in _correlations(sums["reviews"], panel):
        dimensions = ", ".join(
            f"{name} {signed(values.get(one.subject))}" for name, values in by_dimension.items()
        )
        beyond = one.value is not None and one.value < panel.healthy(NAME)
        note = "correlation with the others' mean within ballots"
        out.append(
            Tested(
                NAME,
                panel.names[one.subject],
                one.value,
                one.low,
                one.high,
                one_sided(one.p, beyond),
                int(one.sums[0]),
                n_min,
                panel.healthy(NAME),
                f"{note}; by dimension: {dimensions}" if dimensions else note,
                side="at_least",
            )
        )
    return out or [unknown(NAME, n_min, "no answer was judged by two reviewers")]


def _correlations(cells: Cells, panel: Panel) -> list[Estimate]:
    return list(estimates(cells, centred_correlation, null=panel.healthy(NAME), fisher=True))


def _values(cells: Cells) -> dict[int, float | None]:
    return {one.subject: one.value for one in estimates(cells, centred_correlation)}


metrics.register(NAME)(Metric(NAME, (), sums, findings))
