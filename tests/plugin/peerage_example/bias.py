"""Is a reviewer harder on short answers than the others are?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums
from peerage.biases.thresholds import Tested
from peerage.reviews.intervals import estimates, mean_of
from peerage.reviews.view import View

NAME = "short_answers"
SHORT = 100  # words


def sums(view: View) -> Sums:
    """By reviewer: how many short answers, and the sum of deviations from the others' scores."""
    kept = (view.judged.numbers["words"] < SHORT) & view.has_others
    beside_others = np.where(kept, view.score - view.others, 0.0)
    return {"short": view.by_ballot(view.ballot.sum(kept), view.ballot.sum(beside_others))}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Each reviewer's mean deviation on short answers, with its interval over sessions."""
    return [
        Tested(
            NAME,
            panel.names[one.subject],
            one.value,
            one.low,
            one.high,
            one.p,
            n=int(one.sums[0]),
            n_min=panel.n_min(NAME),
            edge=panel.healthy(NAME) * panel.sd,
            note=f"points beside the others, on answers below {SHORT} words",
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
