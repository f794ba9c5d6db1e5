"""Verdicts of one judge and labels of people, as the code of scorecards takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerage.labels.judged import Judged
from peerage.reviews.rows import buckets_of

Floats = NDArray[np.float64]


def judged_verdicts(
    verdicts: Floats,
    people: Floats,
    *,
    group: NDArray[np.int64] | None = None,
    confidence: Floats | None = None,
) -> Judged:
    """One judge's verdicts on answers; `people` is NaN without a label, `group` is the query."""
    n = len(verdicts)
    queries = np.arange(n) if group is None else group
    names = [f"q{one}" for one in range(int(queries.max()) + 1)]
    return Judged(
        judge="judge",
        kind="verdicts",
        session=np.array([f"a{i}" for i in range(n)], dtype=object),
        candidate=np.zeros(n, dtype=np.int64),
        rival=None,
        group=queries,
        fold=buckets_of(names)[queries],
        by_judge=verdicts,
        by_people=people,
        by_person=people[:, None],
        words=np.full(n, np.nan),
        confidence=np.ones(n) if confidence is None else confidence,
        shown_first=np.full(n, np.nan),
        reason=None,
        answer=None,
        names=("application",),
        are_binary=True,
    )
