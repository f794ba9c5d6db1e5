"""Does a reviewer favour, or spite, one candidate beyond what its scale and the answers explain?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, unknown
from peerage.reviews.departures import sycophancy

NAME = "sycophancy"
FEW_PAIRS = 400  # up to here pairs with too few reviews are listed too


def findings(_: Sums, panel: Panel) -> list[Tested]:
    n_min, names, compared = panel.n_min(NAME), panel.names, panel.compared
    many = len(np.unique(compared.sums.pairs.subject)) > FEW_PAIRS
    found = sycophancy(compared.sums, compared.scales, n_min if many else 0)
    note = "beyond the reviewer's level and scale and the answers' standing with the others"
    tested = []
    for one in found:
        reviewer, candidate = divmod(one.subject, len(names))
        pair = f"{names[reviewer]}>{names[candidate]}"
        tested.append(compared_with_others(NAME, one, panel, note, pair))
    if tested:
        return tested
    reason = f"no pair has {n_min} reviews" if many else "needs three candidates or more a ballot"
    return [unknown(NAME, n_min, reason)]


metrics.register(NAME)(Metric(NAME, (), no_sums, findings))
