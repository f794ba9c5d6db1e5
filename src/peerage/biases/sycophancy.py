"""Does a reviewer favour, or spite, one candidate beyond what both their means explain?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.cells import Cells, tabulate
from peerage.reviews.intervals import contrast, estimates
from peerage.reviews.rows import group
from peerage.reviews.view import View

NAME = "sycophancy"
FEW_PAIRS = 400  # up to here pairs with too few reviews are listed too


def sums(view: View) -> Sums:
    """By pair and cluster: n, deviation of the pair; n, deviation of the reviewer's others."""
    rows, n_names, n_clusters = view.judged, len(view.names), view.all.n_clusters
    pair = rows.reviewer.astype(np.int64) * n_names + rows.candidate
    cells = group((pair, n_names * n_names), (view.cluster, n_clusters))
    has = None if view.has_others.all() else view.has_others.astype(np.float64)
    mine = tabulate(cells, pair, view.cluster, [has, view.deviation])
    everyone = view.compared
    key = everyone.subject.astype(np.int64) * n_clusters + everyone.cluster
    place = np.searchsorted(key, mine.subject // n_names * n_clusters + mine.cluster)
    table = np.column_stack([mine.sums, everyone.sums[place] - mine.sums])
    return {"pairs": Cells(mine.subject, mine.cluster, table)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, n_names = panel.n_min(NAME), len(panel.names)
    cells = sums["pairs"]
    many = len(np.unique(cells.subject)) > FEW_PAIRS
    if many:
        cells = _with_enough(cells, n_min)
    tested = [
        Tested(
            NAME,
            f"{panel.names[one.subject // n_names]}>{panel.names[one.subject % n_names]}",
            one.value,
            one.low,
            one.high,
            one.p,
            int(one.sums[0]),
            n_min,
            panel.healthy(NAME) * panel.sd,
            "beyond the reviewer's harshness and the answers' standing with the others",
        )
        for one in estimates(cells, contrast)
        if one.sums[0] > 0 and one.sums[2] > 0
    ]
    if tested:
        return tested
    reason = f"no pair has {n_min} reviews" if many else "needs three candidates or more a ballot"
    return [unknown(NAME, n_min, reason)]


def _with_enough(cells: Cells, n_min: int) -> Cells:
    """Only the pairs that reach the minimum: a list of all the others would help nobody."""
    subjects, place = np.unique(cells.subject, return_inverse=True)
    kept = (np.bincount(place, weights=cells.sums[:, 0], minlength=len(subjects)) >= n_min)[place]
    return Cells(cells.subject[kept], cells.cluster[kept], cells.sums[kept])


metrics.register(NAME)(Metric(NAME, (), sums, findings))
