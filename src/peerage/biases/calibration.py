"""Is a reviewer harsh or generous, against what the others give an average answer?"""

from __future__ import annotations

import math
from statistics import median, stdev

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import NO_LEVEL, ranged, unknown
from peerage.reviews.departures import calibration
from peerage.reviews.intervals import estimates, mean_of
from peerage.reviews.measurements import ALONE
from peerage.reviews.view import View

NAME = "calibration"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, y, yy of scores."""
    columns = (view.n_by_ballot, view.score_by_ballot, view.squares_by_ballot)
    return {"reviews": view.by_ballot(*columns)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, names, scales = panel.n_min(NAME), panel.names, panel.compared.scales
    means = list(estimates(sums["reviews"], mean_of))
    if panel.ranks_only:
        return [unknown(NAME, n_min, NO_LEVEL, names[one.subject]) for one in means]
    gaps = {one.subject: one for one in calibration(panel.compared.sums, scales)}
    values = [one.value for one in means if one.value is not None]
    middle = median(values) if values else 0.0
    reach = stdev(values) if len(values) > 1 else math.inf
    out = []
    for mean in means:
        who = mean.subject
        gap = gaps.get(who)
        alone = gap is None or gap.status != "ok"
        held = (None, None, None) if gap is None else (gap.value, gap.low, gap.high)
        against = (
            (ALONE if gap is None else gap.note)
            if alone
            else f"{ranged(*held)} against the others for an average answer; {_scale(who, panel)}"
        )
        out.append(
            Tested(
                NAME,
                names[who],
                mean.value,
                mean.low,
                mean.high,
                None if gap is None else gap.p,
                int(mean.sums[0]) if gap is None else gap.n,
                n_min,
                panel.healthy(NAME) * float(scales.sd[who]),
                f"{_word(mean.value, middle, reach)}spread {scales.sd[who]:.2f}; {against}",
                tested=held,
                not_identifiable=alone,
            )
        )
    return out


def _scale(who: int, panel: Panel) -> str:
    """A reviewer's level and scale in words, with how far to trust them."""
    scales = panel.compared.scales
    level = f"level {scales.level[who]:.2f}"
    if scales.status[who] == "assumed":
        return f"{level}, its scale cannot be told: too few answers shared with two others"
    return f"{level}, scale {scales.scale[who]:.2f} ± {1.96 * scales.scale_se[who]:.2f}"


def _word(mean: float | None, middle: float, reach: float) -> str:
    """Beyond the median of reviewer means by one sample standard deviation."""
    if mean is None or abs(mean - middle) <= reach:
        return ""
    return "harsh; " if mean < middle else "generous; "


metrics.register(NAME)(Metric(NAME, (), sums, findings))
