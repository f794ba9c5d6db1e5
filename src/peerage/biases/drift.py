"""Does a reviewer grow harsher or kinder over the weeks, against the others?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.cells import tabulate
from peerage.reviews.intervals import estimates, slope_of
from peerage.reviews.rows import group
from peerage.reviews.view import View

NAME = "drift"
WEEK_S = 7 * 86_400.0
MID_WEEK = 2_800  # weeks since 1970: keeps the squares of recent weeks small


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, x, y, xx, xy of week and deviation; and the weeks seen."""
    at = view.ballot.first(view.judged.numbers["at"])
    n = np.where(np.isfinite(at), view.n_compared_by_ballot, 0.0)
    y = np.where(n > 0, view.deviation_by_ballot, 0.0)
    week = np.floor(np.where(n > 0, at, MID_WEEK * WEEK_S) / WEEK_S) - MID_WEEK
    cells = view.by_ballot(n, n * week, y, n * week * week, y * week)
    when, who = week[n > 0].astype(np.int64), view.ballot_reviewer[n > 0]
    since = when - int(when.min(initial=0))
    seen = group((who, len(view.names)), (since, int(since.max(initial=0)) + 1))
    return {"reviews": cells, "weeks": tabulate(seen, who, when + MID_WEEK, [None])}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    n_weeks = dict(zip(*np.unique(sums["weeks"].subject, return_counts=True), strict=True))
    tested = [
        Tested(
            NAME,
            panel.names[one.subject],
            one.value,
            one.low,
            one.high,
            one.p,
            int(n_weeks.get(one.subject, 0)),
            n_min,
            panel.healthy(NAME) * panel.sd,
            "points a week against the others; a drift that all share looks like none",
        )
        for one in estimates(sums["reviews"], slope_of)
    ]
    return tested or [unknown(NAME, n_min, "no review has both a time and another beside it")]


metrics.register(NAME)(Metric(NAME, ("at",), sums, findings, "the time of each review"))
