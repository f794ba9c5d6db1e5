"""Does a reviewer favour length more than the others do? That can be told without gold answers."""

from __future__ import annotations

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, unknown

NAME = "length_relative"


def findings(_: Sums, panel: Panel) -> list[Tested]:
    found = panel.compared.lengths
    if not found:
        why = "no answer of known length was judged by two reviewers"
        return [unknown(NAME, panel.n_min(NAME), why)]
    note = (
        "points per standard deviation of log words, beyond what the other reviewers give the "
        "same answers; a taste for length that all share needs known quality to be seen"
    )
    return [compared_with_others(NAME, one, panel, note) for one in found]


metrics.register(NAME)(Metric(NAME, ("words",), no_sums, findings, "the words of each answer"))
