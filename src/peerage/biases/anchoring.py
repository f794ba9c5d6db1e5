"""Do the later answers on a ballot fare better or worse after a good first one?

The deviation of the later answers from the others' view of them, on one scale, is regressed on
the others' view of the answer seen first. What a good first answer takes from the mean of the
later ones by its absence alone is the same whoever is first, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.places import without_own_order
from peerage.biases.thresholds import Tested, as_tested, unknown
from peerage.reviews.cells import Tables
from peerage.reviews.intervals import Estimate, Fit, SubjectCells, interval_of
from peerage.reviews.one_scale import Scales
from peerage.reviews.rows import Floats
from peerage.stats.clusters import quotient

NAME = "anchoring"
NOTHING = "no answer that others judged too was shown first"


def anchoring(sums: Tables, scales: Scales) -> list[Estimate]:
    """Each reviewer's slope of the later answers' deviation on the first one's quality.

    Nothing for comparisons: the mean of a full ranking is fixed, so that later answers fall
    by design where the first is placed high.
    """
    if "anchor" not in sums:
        return []
    cells = SubjectCells(sums["anchor"], sums["base"])

    def slope(own: Floats, fit: Fit, _: bool) -> tuple[Floats, Floats]:
        _, one, y, q, squares = own.T
        squares = np.where(squares > 0.0, squares, 0.0)
        level = quotient(fit.y - fit.scale * fit.q, fit.n)
        tilt = quotient(q - quotient(fit.q, fit.n) * one, squares)
        return quotient(y - level * one - fit.scale * q, squares), tilt

    same = np.isin(cells.subject, without_own_order(sums, scales))
    reasons = [
        (same, "every answer kept one position, so all reviewers have the same anchor"),
        (cells.totals[:, 4] <= 0.0, "first answers do not differ in quality beyond noise"),
    ]
    return cells.measured(slope, cells.totals[:, 0], scales, reasons)


def pooled_slope(slopes: Sequence[Estimate]) -> Estimate | None:
    """What all reviewers share of an effect, each weighed by how surely it is measured."""
    known = [one for one in slopes if one.value is not None and one.se and one.df]
    if not known:
        return None
    weight = np.array([1.0 / one.se**2 for one in known if one.se])
    value = float((weight * [one.value for one in known]).sum() / weight.sum())
    se, df = float(weight.sum() ** -0.5), float(sum(one.df for one in known if one.df))
    n, most = sum(one.n for one in known), max(one.n_clusters for one in known)
    return Estimate(0, value, *interval_of(value, most, se, df), n, most, se, df)


def findings(_: Sums, panel: Panel) -> list[Tested]:
    if panel.ranks_only:
        why = "the mean of a ranking is fixed: later answers fall where the first is placed high"
        return [unknown(NAME, panel, why)]
    slopes = anchoring(panel.compared.sums, panel.compared.scales)
    if not slopes:
        return []
    everyone = pooled_slope(slopes)
    if everyone is None:
        return [unknown(NAME, panel, slopes[0].note, n=sum(one.n for one in slopes))]
    note = "points on the later answers for each point of the first one's standing"
    edge = panel.healthy(NAME)
    return [
        as_tested(NAME, everyone, panel, note, "all", edge),
        *(as_tested(NAME, one, panel, note, edge=edge) for one in slopes),
    ]


WHY = "the position of each answer on each ballot"
metrics.register(NAME)(Metric(NAME, ("position",), no_sums, findings, WHY, nothing=NOTHING))
