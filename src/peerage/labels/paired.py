"""Two judges against people on the same answers: the difference in how often they are right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from peerage.findings import BehindBest, Bounded
from peerage.labels.judged import Judged
from peerage.labels.rates import Z
from peerage.labels.selection import mcnemar_p


def behind_best(judges: Sequence[Judged]) -> Mapping[str, BehindBest]:
    """Return by how much each judge but the best one is right less often than the best."""
    right = {one.judge: _right_by_answer(one) for one in judges}
    if len(right) < 2:
        return {}
    best = max(right, key=lambda name: (np.mean(list(right[name].values())), name))
    behind = {name: _compare(best, right[best], own) for name, own in right.items() if name != best}
    return {name: one for name, one in behind.items() if one is not None}


def _right_by_answer(judged: Judged) -> dict[tuple[str, int], bool]:
    """Return whether the judge says what people say, by session and answer."""
    there = judged.labelled
    right = (judged.by_judge == judged.by_people)[there].tolist()
    keys = zip(judged.session[there].tolist(), judged.candidate[there].tolist(), strict=True)
    return dict(zip(keys, right, strict=True))


def _compare(
    best: str, its: Mapping[tuple[str, int], bool], own: Mapping[tuple[str, int], bool]
) -> BehindBest | None:
    shared = [(its[key], own[key]) for key in its.keys() & own.keys()]
    if not shared:
        return None
    n = len(shared)
    only_own = sum(mine and not other for other, mine in shared)
    only_best = sum(other and not mine for other, mine in shared)
    p, q = (only_own + 1) / (n + 2), (only_best + 1) / (n + 2)
    half = Z * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
    value = (only_own - only_best) / n
    ends = (min(value, p - q - half), max(value, p - q + half))
    return BehindBest(best, Bounded(value, *ends), mcnemar_p(only_own, only_best), n)
