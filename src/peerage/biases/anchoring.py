"""Do the later answers on a ballot fare better or worse after a good first one?

The deviation of the later answers from the others' view of them, on one scale, is regressed on
the others' view of the answer seen first. What a good first answer takes from the mean of the
later ones by its absence alone is the same whoever is first, and is left out.
"""

from __future__ import annotations

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, unknown
from peerage.reviews.first_shown import anchoring, pooled_slope

NAME = "anchoring"


def findings(_: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    if panel.ranks_only:
        why = "the mean of a ranking is fixed: later answers fall where the first is placed high"
        return [unknown(NAME, n_min, why)]
    found = anchoring(panel.compared.sums, panel.compared.scales)
    if not found:
        return [unknown(NAME, n_min, "no answer that others judged too was shown first")]
    everyone = pooled_slope(found)
    if everyone is None:
        return [unknown(NAME, n_min, found[0].note, n=sum(one.n for one in found))]
    note = "points on the later answers for each point of the first one's standing"
    edge = panel.healthy(NAME)
    return [
        compared_with_others(NAME, everyone, panel, note, "all", edge),
        *(compared_with_others(NAME, one, panel, note, edge=edge) for one in found),
    ]


metrics.register(NAME)(
    Metric(NAME, ("position",), no_sums, findings, "the position of each answer on each ballot")
)
