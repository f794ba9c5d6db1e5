"""Is a reviewer harder on short answers than the others are?"""

from __future__ import annotations

import numpy as np

from peerage.plugins import Metric, Panel, Sums, Tested, View, build_finding, estimates, mean_of

NAME = "short_answers"
SHORT = 100  # words


def sums(view: View) -> Sums:
    """Return, by reviewer, the count of short answers and the sum of deviations on them."""
    kept = (view.judged.numbers["words"] < SHORT) & view.has_others
    deviations = np.where(kept, view.score - view.others, 0.0)
    return {"short": view.by_ballot(view.ballot.sum(kept), view.ballot.sum(deviations))}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return each reviewer's mean deviation on short answers, with its interval."""
    return [
        build_finding(
            NAME,
            panel.names[one.subject],
            panel,
            value=one.value,
            low=one.low,
            high=one.high,
            p=one.p,
            n=int(one.sums[0]),
            unit=panel.sd,
            note=f"points above the other reviewers, on answers below {SHORT} words",
        )
        for one in estimates(sums["short"], mean_of)
    ]


SHORT_ANSWERS = Metric(
    NAME,
    needs=("words",),
    sums=sums,
    findings=findings,
    why="the words of each answer",
    n_min=30,  # fewer observations are never called evidence
    healthy=0.25,  # in standard deviations of the scores
)
