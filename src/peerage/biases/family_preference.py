"""Does a reviewer think better of its own family's answers than the others do?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.self_preference import preferences
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.rows import group
from peerage.reviews.view import View

NAME = "family_preference"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, deviation of its family's answers; n, deviation of the rest.

    Deviations are from reviewers outside the reviewer's family. With the family among them, a
    harsh cousin would lower what is said of strangers, never of its own answers, and would look
    like a preference of everyone else's.
    """
    rows, n_names = view.judged, len(view.names)
    family = rows.family if rows.family is not None else np.full(n_names, -1)
    family = np.where(family >= 0, family, n_names + np.arange(n_names))  # alone: one's own
    mine = family[rows.reviewer]
    clan = group((view.answer.code, view.answer.n), (mine, 2 * n_names))
    n = view.n_by_answer[view.answer.code] - clan.count()[clan.code]
    total = view.sum_by_answer[view.answer.code] - clan.sum(view.score)[clan.code]
    gap = view.score - total / np.maximum(n, 1.0)
    kin = (mine == family[rows.candidate]) & (n > 0)
    rest = (mine != family[rows.candidate]) & (n > 0)
    columns = (kin, np.where(kin, gap, 0.0), rest, np.where(rest, gap, 0.0))
    return {"reviews": view.by_reviewer(*columns)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    tested = preferences(sums["reviews"], NAME, panel, "answers of its own family")
    if tested:
        return tested
    return [unknown(NAME, panel.n_min(NAME), "no two seats of one family reviewed each other")]


metrics.register(NAME)(Metric(NAME, ("family",), sums, findings, "the family of each candidate"))
