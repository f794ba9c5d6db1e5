"""Does a reviewer think better of its own answers than the others do?"""

from __future__ import annotations

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, unknown
from peerage.reviews.departures import self_preference

NAME = "self_preference"


def findings(_: Sums, panel: Panel) -> list[Tested]:
    note = "own answers beside the others' view of them, all on one scale"
    found = self_preference(panel.compared.sums, panel.compared.scales)
    if not found:
        why = "no own answer was reviewed by its author and by others who can be compared"
        return [unknown(NAME, panel.n_min(NAME), why)]
    return [compared_with_others(NAME, one, panel, note) for one in found if one.n > 0]


metrics.register(NAME)(Metric(NAME, (), no_sums, findings))
