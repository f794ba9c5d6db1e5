"""The ceiling that people set, the disagreements with a judge, and warnings about labels."""

from __future__ import annotations

import re

import numpy as np

from peerage.findings import Bounded, Mismatch
from peerage.labels.judged import Judged
from peerage.labels.rates import rate
from peerage.labels.selection import is_selected
from peerage.reviews.cells import Floats
from peerage.stats.clusters import ratio_interval

N_ANSWER = 200  # characters of an answer that are listed
NUMBERS = re.compile(r"(\d{1,18})")
MANY_OF_ONE = 9  # answers to one question that are probably to several


def ceiling(judged: Judged) -> tuple[Bounded | None, Bounded | None]:
    """Return how often two people agree about an item, and that less the judge's agreement.

    Marks agree if they are equal.
    """
    values = judged.by_person
    known = np.isfinite(values) & np.isfinite(judged.by_judge)[:, None]
    several = known.sum(axis=1) > 1
    if not several.any():
        return None, None
    values, known = values[several], known[several]
    n = known.sum(axis=1).astype(np.float64)
    same = np.zeros(len(values))
    for column in range(values.shape[1]):
        equal = (values == values[:, [column]]) & known & known[:, [column]]
        same += np.maximum(equal.sum(axis=1) - 1.0, 0.0) * known[:, column]
    people = same / (n * (n - 1.0))
    own = judged.by_judge[several][:, None]
    judge = ((values == own) & known).sum(axis=1) / n
    group = judged.group[several]
    _, code = np.unique(group, return_inverse=True)
    sizes = np.bincount(code).astype(np.float64)
    behind = ratio_interval(np.bincount(code, people - judge), sizes)
    if behind is None or behind.low is None or behind.high is None:
        return rate(people, group), None
    ends = (max(-1.0, behind.low), min(1.0, behind.high))
    return rate(people, group), Bounded(behind.value, *ends)


def disagreements(judged: Judged) -> tuple[Mismatch, ...]:
    """Return the items that judge and people judge differently, the worst first."""
    there = np.flatnonzero(judged.labelled)
    j, h = judged.by_judge[there], judged.by_people[there]
    far = np.abs(j - h)
    if judged.kind == "marks":
        far = np.abs(_in_spreads(j) - _in_spreads(h))
    ids = [_by_number(one) for one in judged.session[there].tolist()]
    rank = np.empty(len(ids), dtype=np.int64)
    rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    order = np.lexsort((rank, j < h, -far))
    wrong = [at for at in order.tolist() if far[at] > (1.0 if judged.kind == "marks" else 0.0)]
    listed = []
    for at in wrong:
        i = int(there[at])
        name = judged.names[judged.candidate[i]]
        if judged.rival is not None:
            name = f"{name} or {judged.names[judged.rival[i]]}"
        reason = "" if judged.reason is None else str(judged.reason[i])
        answer = "" if judged.answer is None else str(judged.answer[i] or "")[:N_ANSWER]
        values = float(j[at]), float(h[at])
        listed.append(Mismatch(str(judged.session[i]), name, *values, reason, answer))
    return tuple(listed)


def _by_number(id_: str) -> list[tuple[int, int, str]]:
    """Return a key by which q48 comes before q195."""
    parts = NUMBERS.split(id_)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def _in_spreads(values: Floats) -> Floats:
    spread = float(values.std())
    scaled: Floats = (values - values.mean()) / (spread if spread > 0.0 else 1.0)
    return scaled


def warnings_of(judged: Judged) -> list[str]:
    """Return what is wrong with people's labels as a sample."""
    warnings = []
    judged_at_all = np.isfinite(judged.by_judge)
    if judged.kind != "picks":
        labelled = np.isfinite(judged.by_people)[judged_at_all]
        selected = is_selected(
            labelled,
            judged.by_judge[judged_at_all],
            judged.words[judged_at_all],
            binary=judged.kind == "verdicts",
        )
        if selected == "verdicts":
            warnings.append(
                "people may not have labelled a random sample: the judge's verdicts on these "
                "answers differ from those on the others, so corrected figures may be wrong."
            )
        elif selected:
            warnings.append(
                "people may not have labelled a random sample: these answers are longer or shorter "
                "than the others, so corrected figures may be wrong."
            )
        known = np.isfinite(judged.by_person)
        tied = judged_at_all & (known.sum(axis=1) > 0) & ~np.isfinite(judged.by_people)
        if n := int(tied.sum()):
            warnings.append(
                f"{n:,} {'answer was' if n == 1 else 'answers were'} labelled with pass and fail "
                "equally often: no label."
            )
    n_groups = len(np.unique(judged.group[judged_at_all]))
    if n_groups == 1 and judged_at_all.sum() > MANY_OF_ONE:
        warnings.append(
            "all answers are to one question, so they count as one observation. If each has its "
            "own input, leave out the column of the question."
        )
    return warnings
