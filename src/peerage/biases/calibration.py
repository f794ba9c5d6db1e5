"""Is a reviewer harsh or generous, against what the others gave the same answers?"""

from __future__ import annotations

import math
from statistics import median, stdev

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import ranged
from peerage.reviews.intervals import estimates, mean_of
from peerage.reviews.view import View

NAME = "calibration"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, y, yy of scores; n, sum of deviations from the others."""
    return {
        "reviews": view.by_ballot(
            view.n_by_ballot,
            view.score_by_ballot,
            view.squares_by_ballot,
            view.n_compared_by_ballot,
            view.deviation_by_ballot,
        )
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    cells = sums["reviews"]
    means = list(estimates(cells.columns(0, 1, 2), mean_of))
    gaps = list(estimates(cells.columns(3, 4), mean_of))
    values = [one.value for one in means if one.value is not None]
    middle = median(values) if values else 0.0
    reach = stdev(values) if len(values) > 1 else math.inf
    out = []
    for mean, gap in zip(means, gaps, strict=True):
        n, y, yy = mean.sums
        sd = math.sqrt(max(0.0, (yy - y * y / n) / (n - 1))) if n > 1 else 0.0
        alone = gap.value is None
        note = f"{_word(mean.value, middle, reach)}spread {sd:.2f}; " + (
            "nobody else judged the same answers"
            if alone
            else f"{ranged(gap.value, gap.low, gap.high)} against the others on the same answers"
        )
        out.append(
            Tested(
                NAME,
                panel.names[mean.subject],
                mean.value,
                mean.low,
                mean.high,
                gap.p,
                int(gap.sums[0]) if not alone else int(n),
                panel.n_min(NAME),
                panel.healthy(NAME) * panel.sd,
                note,
                tested=(gap.value, gap.low, gap.high),
                not_identifiable=alone,
            )
        )
    return out


def _word(mean: float | None, middle: float, reach: float) -> str:
    """The seed's rule: beyond the median of reviewer means by one sample standard deviation."""
    if mean is None or abs(mean - middle) <= reach:
        return ""
    return "harsh; " if mean < middle else "generous; "


metrics.register(NAME)(Metric(NAME, (), sums, findings))
