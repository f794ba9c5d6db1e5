"""Does a reviewer think better of its own family's answers than the others do?"""

from __future__ import annotations

import numpy as np

from peerage.audit import Metric, Panel, Sums, metrics
from peerage.audit.limits import Tested
from peerage.audit.self_preference import preferences
from peerage.audit.view import View
from peerage.audit.wording import unknown

NAME = "family_preference"


def sums(view: View) -> Sums:
    """By reviewer and cluster: n, deviation of its family's answers; n, deviation of the rest."""
    rows = view.judged
    family = rows.family if rows.family is not None else np.full(len(view.names), -1)
    mine = family[rows.reviewer]
    kin = (mine >= 0) & (mine == family[rows.candidate]) & view.has_others
    rest = view.has_others & ~kin
    gap = view.deviation
    return {
        "reviews": view.by_reviewer(kin, np.where(kin, gap, 0.0), rest, np.where(rest, gap, 0.0))
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    tested = preferences(sums["reviews"], NAME, panel, "answers of its own family")
    if tested:
        return tested
    return [unknown(NAME, panel.n_min(NAME), "no two seats of one family reviewed each other")]


metrics.register(NAME)(Metric(NAME, ("family",), sums, findings, "the family of each candidate"))
