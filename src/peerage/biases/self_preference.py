"""Does a reviewer think better of its own answers than the others do?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.cells import Cells, beside, tabulate
from peerage.reviews.intervals import contrast, estimates
from peerage.reviews.rows import group
from peerage.reviews.view import View

NAME = "self_preference"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, deviation of own answers; n, deviation of the others'."""
    rows = view.own
    known, gap = view.own_deviation
    cluster = rows.cluster[rows.session]
    cells = group((rows.reviewer, len(view.names)), (cluster, view.all.n_clusters))
    own = tabulate(cells, rows.reviewer, cluster, [known.astype(np.float64), gap])
    return {"reviews": beside(own, view.compared)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    tested = preferences(
        sums["reviews"], NAME, panel, "own answers beside the others' view of them"
    )
    if tested:
        return tested
    return [unknown(NAME, panel.n_min(NAME), "nobody reviewed its own answer where others did too")]


def preferences(cells: Cells, name: str, panel: Panel, note: str) -> list[Tested]:
    """A reviewer's deviation on some answers, net of its deviation on the rest."""
    return [
        Tested(
            name,
            panel.names[one.subject],
            one.value,
            one.low,
            one.high,
            one.p,
            int(one.sums[0]),
            panel.n_min(name),
            panel.healthy(name) * panel.sd,
            f"{note}, net of harshness",
        )
        for one in estimates(cells, contrast)
        if one.sums[0] > 0
    ]


metrics.register(NAME)(Metric(NAME, (), sums, findings))
