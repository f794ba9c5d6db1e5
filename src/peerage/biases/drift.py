"""Does a reviewer grow harsher or kinder over the weeks, against the others?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import NO_LEVEL, compared_with_others, unknown
from peerage.reviews.cells import table_of
from peerage.reviews.comparisons import WEEK_S
from peerage.reviews.departures import drift
from peerage.reviews.view import View

NAME = "drift"


def sums(view: View) -> Sums:
    """By reviewer and week: ballots."""
    at = view.ballot.first(view.judged.numbers["at"])
    known = np.isfinite(at)
    week = np.floor(at[known] / WEEK_S).astype(np.int64)
    return {"weeks": table_of(view.ballot_reviewer[known], np.maximum(week, 0), [known[known]])}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    if panel.ranks_only:
        return [unknown(NAME, n_min, NO_LEVEL)]
    n_weeks = dict(zip(*np.unique(sums["weeks"].subject, return_counts=True), strict=True))
    note = "points a week against the others; a drift that all share looks like none"
    tested = [
        replace(compared_with_others(NAME, one, panel, note), n=int(n_weeks.get(one.subject, 0)))
        for one in drift(panel.compared.sums, panel.compared.scales)
    ]
    return tested or [unknown(NAME, n_min, "no review has both a time and another beside it")]


metrics.register(NAME)(Metric(NAME, ("at",), sums, findings, "the time of each review"))
