"""Whether reviewers who first wrote an answer of their own judge by that answer.

For each answer, such a reviewer says whether the answer agrees with its own. A reviewer who often
praises answers that contradict its own does not judge by its own answer. If a reviewer also has
blind reviews, its preference for answers written like its own is compared between the two kinds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, style
from peerage.biases.thresholds import Tested, as_tested, one_sided
from peerage.reviews.cells import Cells, Floats, merge, name_columns, table_of
from peerage.reviews.comparisons import View
from peerage.reviews.intervals import ROUNDING, estimates, mean_of
from peerage.reviews.rows import select
from peerage.reviews.votes import shares
from peerage.stats.clusters import quotient

NAME, CHANGE = "contradiction", "style_change"
PRAISE = 7.0  # "good" on the scale from 1 to 10
# A praised answer beats this share of rivals: a generous reviewer who puts it last does not praise.
PRAISED_SHARE = 2.0 / 3.0
SAID = "whether each answer agrees with the reviewer's own"


def sums(view: View) -> Sums:
    """Return how many answers contradict the reviewer's own, and how many of these it praises."""
    rows = view.judged
    contradicts = np.flatnonzero(rows.number("agrees") == 0.0)
    praised = (shares(rows)[contradicts] >= PRAISED_SHARE - ROUNDING).astype(np.float64)
    if view.value != "rank":
        praised *= view.score[contradicts] >= PRAISE
    cells = table_of(rows.reviewer[contradicts], view.cluster[contradicts], [None, praised])
    return {"contradictions": cells}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return the share of answers contradicting its own that each reviewer praises.

    Of: each reviewer that writes its own answer before it judges.
    Formula: praised / contradicting, among answers that contradict the reviewer's own by its own
        statement; praised = a mark of 7 or more (if there are marks), and above two thirds of the
        other answers on the ballot
    Counts: reviews of answers that contradict its own.
    Healthy: at most {edge}. The status is never above `indicator`.
    Assumes: that the reviewer says truly which answers agree with its own.
    Fooled by: a reviewer that notices that its own answer is wrong, and then rightly praises
        another one.
    Example: `contradiction, c: 0.571 [0.47, 0.673], n 105` – c praises more than half of the
        answers that contradict its own. Either its own answers are often wrong, or it does not
        check.
    """
    edge = panel.healthy(NAME)
    note = "share of answers that it praises, among those that contradict its own"
    return [
        replace(
            as_tested(NAME, one, panel, note, edge=edge),
            low=None if one.low is None else max(0.0, one.low),
            high=None if one.high is None else min(1.0, one.high),
            p=one_sided(one.p, one.value is not None and one.value > edge),
            side="at_most",
            at_most_indicator=True,  # its own answer may be the wrong one
        )
        for one in estimates(sums["contradictions"], mean_of, null=edge)
    ]


class ChangeSums(NamedTuple):
    """Sums of likeness and liking as in `style`, for blind and for committed reviews."""

    n: Floats
    blind_both: Floats
    blind_like: Floats
    blind_liking: Floats
    committed_both: Floats
    committed_like: Floats
    committed_liking: Floats


def change_sums(view: View) -> Sums:
    """Return the sums of `style` for blind and for committed reviews, by reviewer and cluster.

    Reviewers are put on one scale within each kind.
    """
    is_committed = view.all.number("committed") >= 1.0
    parts = []
    for is_blind, chosen in ((True, ~is_committed), (False, is_committed)):
        rows = select(view.all, np.flatnonzero(chosen))
        cells = style.sums(View(rows, view.value))["reviews"] if rows.n else None
        if cells is None or not cells.n:
            nothing = np.zeros((0, len(ChangeSums._fields)))
            return {"reviews": Cells(np.zeros(0, int), np.zeros(0, int), nothing)}
        n, both, _, like, liking = name_columns(style.LikenessSums, cells.sums)
        kind, none = (both, like, liking), (np.zeros(cells.n),) * 3
        columns = (n, *kind, *none) if is_blind else (n, *none, *kind)
        parts.append(Cells(cells.subject, cells.cluster, np.column_stack(columns)))
    return {"reviews": merge(parts)}


def change_findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return the change in each reviewer's preference for its own style, committed minus blind.

    Of: each reviewer with both committed and blind reviews.
    Formula: r(likeness, liking) in committed reviews - the same in blind reviews
    Counts: reviews.
    Healthy: from -{edge} to +{edge}, a difference of correlations.
    Assumes: that committed and blind reviews are about the same kind of question.
    Fooled by: anything else that differs between the two kinds of review.
    Example: `style_change, c: -0.626 [-0.792, -0.461], n 480` – once c has written its own answer,
        it prefers its own style much less. Use the kind of review in which the preference is
        smaller.
    """
    note = "correlation of likeness to its own answers with liking: committed minus blind reviews"
    return [
        as_tested(CHANGE, one, panel, note)
        for one in estimates(sums["reviews"], _difference)
        if one.value is not None
    ]


def _difference(totals: Floats) -> Floats:
    """Return the correlation in committed minus that in blind reviews; NaN if one is unknown."""

    def correlation(both: Floats, like: Floats, liking: Floats) -> Floats:
        return quotient(both, np.sqrt(np.maximum(like * liking, 0.0)))

    _, *blind_and_committed = name_columns(ChangeSums, totals)
    return correlation(*blind_and_committed[3:]) - correlation(*blind_and_committed[:3])


metrics.register(NAME)(Metric(NAME, ("agrees",), sums, findings, SAID, is_rare=True))
metrics.register(CHANGE)(
    Metric(
        CHANGE,
        ("text", "committed"),
        change_sums,
        change_findings,
        style.TEXTS,
        across_sessions=True,
        is_rare=True,
    )
)
