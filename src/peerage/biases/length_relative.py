"""Does a reviewer favour length more than the others do? That can be told without gold answers."""

from __future__ import annotations

import math

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.intervals import estimates, slope_of
from peerage.reviews.view import View

NAME = "length_relative"
MIN_REVIEWERS = 3


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, x, y, xx, xy of log words and deviation from the others."""
    words = view.judged.numbers["words"]
    kept = np.isfinite(words) & view.has_others
    x = np.log1p(np.where(kept, words, 0.0))
    y = view.deviation
    return {"reviews": view.by_reviewer(None, x, y, x * x, x * y, kept=kept)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    if panel.n_reviewers < MIN_REVIEWERS:
        note = "with fewer than three reviewers there is no telling which one departs"
        return [unknown(NAME, n_min, note)]
    cells = sums["reviews"]
    n, x, _, xx, _ = cells.sums.sum(axis=0) if cells.n else np.zeros(5)
    spread = math.sqrt(max(0.0, xx / n - (x / n) ** 2)) if n else 0.0
    edge = panel.healthy(NAME) * panel.sd
    note = (
        "points per standard deviation of log words, beyond what the other reviewers give the "
        "same answers; a taste for length that all share needs known quality to be seen"
    )
    return [
        Tested(
            NAME,
            panel.names[one.subject],
            None if one.value is None else one.value * spread,
            None if one.low is None else one.low * spread,
            None if one.high is None else one.high * spread,
            one.p,
            int(one.sums[0]),
            n_min,
            edge,
            note if one.value is not None else "all answers are equally long",
        )
        for one in estimates(cells, slope_of)
    ]


metrics.register(NAME)(Metric(NAME, ("words",), sums, findings, "the words of each answer"))
