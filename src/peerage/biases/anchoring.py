"""Do the later answers on a ballot fare better or worse after a good first one?

The deviation of the later answers from the others' view of them is regressed on the
others' view of the answer seen first. The first answer is also missing from "the later
ones", and a good one drags their mean down by its absence alone; that part is the same
whoever is first, and dealing again takes it out.
"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.orders import is_first, shows_first, spread, spread_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.cells import Cells, count_of
from peerage.reviews.rows import Groups
from peerage.reviews.view import View

NAME = "anchoring"
FLAT = 1e-9


def sums(view: View) -> Sums:
    """Values A and q of each row, as if it were first; A − h·q is its part for harshness h."""
    first = is_first(view) & view.has_others
    m = view.n_by_ballot
    q = view.within_ballot(view.others)
    mean = view.ballot.each(view.deviation_by_ballot / m)
    rest = view.ballot.each(np.maximum(m - 1.0, 1.0))
    a = q * mean - view.within_ballot(q * (view.deviation - mean)) / rest
    kept = 1.0 - 1.0 / np.maximum(m * (m - 1.0), 2.0)  # of the slope survives the centring
    shown = np.flatnonzero(first)
    ballots = Groups(view.ballot.code[shown], view.ballot.n)
    who, table = view.by_name(
        shows_first(view, first),
        ballots.sum(a[shown]),
        ballots.sum(q[shown]),
        ballots.sum(q[shown] ** 2) * kept,
        view.n_compared_by_ballot,
        view.deviation_by_ballot,
    )
    firsts = view.answer.sum(first)
    apart = (firsts - firsts**2 / np.maximum(view.n_by_answer, 1.0)).sum()
    effect = Cells(who, np.zeros_like(who), table)
    return {"effect": effect, "apart": count_of(apart), **spread_sums(view, first, [a, q])}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    effect = sums["effect"]
    n, a, q, qq, n_gaps, gap = effect.sums.T if effect.n else np.zeros((6, 0))
    if sums["apart"].sums.sum() <= FLAT * max(float(n.sum()), 1.0):
        note = "every answer kept one position, so all reviewers have the same anchor"
        return [unknown(NAME, n_min, note, n=int(n.sum()))]
    harshness = gap / np.maximum(n_gaps, 1.0)
    weights = np.column_stack([np.ones_like(harshness), -harshness])
    top = a - harshness * q
    found = {name: sums[name] for name in ("free", "dealt") if name in sums}
    note = "points on the later answers for each point of the first one's standing"
    out = []
    subjects = [("all", np.arange(effect.n))] + [
        (panel.names[reviewer], np.array([i])) for i, reviewer in enumerate(effect.subject)
    ]
    for subject, at in subjects:
        total, bottom = float(top[at].sum()), float(qq[at].sum())
        seen = spread(found, weights[at], effect.subject[at], len(panel.names))
        if bottom <= FLAT:
            why = "first answers are all of one standing, or none was judged by others"
            out.append(unknown(NAME, n_min, why, subject, int(n[at].sum())))
            continue
        value, half = total / bottom, seen.half_width(total)
        low, high = (None, None) if half is None else (value - half / bottom, value + half / bottom)
        healthy = panel.healthy(NAME)
        n_ballots = int(n[at].sum())
        p = seen.p(total)
        out.append(Tested(NAME, subject, value, low, high, p, n_ballots, n_min, healthy, note))
    return out


metrics.register(NAME)(
    Metric(NAME, ("position",), sums, findings, "the position of each answer on each ballot")
)
