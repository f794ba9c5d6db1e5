"""Does a reviewer think better of its own family's answers than those outside of it do?"""

from __future__ import annotations

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, unknown
from peerage.reviews.departures import family_preference

NAME = "family_preference"


def findings(_: Sums, panel: Panel) -> list[Tested]:
    note = "answers of its own family beside the view of reviewers outside of it, on one scale"
    found = family_preference(panel.compared.sums, panel.compared.scales)
    if not found:
        why = "no two seats of one family reviewed each other, with two others beside them"
        return [unknown(NAME, panel.n_min(NAME), why)]
    return [compared_with_others(NAME, one, panel, note) for one in found]


metrics.register(NAME)(Metric(NAME, ("family",), no_sums, findings, "the family of each candidate"))
