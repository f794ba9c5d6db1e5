"""Two reviewers side by side on the answers that both judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerage.reports.what_if import HeldRows
from peerage.stats.correlations import correlation
from peerage.stats.rank_correlations import kendall_tau

MAX_POINTS = 2_000  # of a scatter


@dataclass(frozen=True, slots=True)
class TwoReviewers:
    """How two reviewers judge the same answers; None where a number is not defined."""

    n: int  # answers that both judged
    scores: tuple[tuple[float, float], ...]  # the first of them
    pearson: float | None
    tau: float | None
    kappa: float | None  # of places, weighted by the square of the distance
    places: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]  # by the first one's place, then the second's


def compare_reviewers(held: HeldRows, a: str, b: str) -> TwoReviewers:
    """Two reviewers on the answers that both judged and neither wrote."""
    rows = held.rows
    codes = [rows.names.index(name) if name in rows.names else -1 for name in (a, b)]
    rank = rows.numbers.get("rank", np.full(rows.n, np.nan))
    score = rows.numbers.get("score", np.full(rows.n, np.nan))
    fair = ~np.isin(rows.candidate, codes)
    said = []
    for code in codes:
        mine = np.flatnonzero((rows.reviewer == code) & fair)
        keys = (rows.session[mine] * len(rows.names) + rows.candidate[mine]).tolist()
        said.append(dict(zip(keys, zip(rank[mine], score[mine], strict=True), strict=True)))
    shared = sorted(said[0].keys() & said[1].keys())
    pairs = [(said[0][key], said[1][key]) for key in shared]
    scores = [(x[1], y[1]) for x, y in pairs if not (np.isnan(x[1]) or np.isnan(y[1]))]
    ranks = [(round(x[0]), round(y[0])) for x, y in pairs if not (np.isnan(x[0]) or np.isnan(y[0]))]
    places = tuple(range(1, max((max(pair) for pair in ranks), default=0) + 1))
    counts = Counter(ranks)
    return TwoReviewers(
        n=len(shared),
        scores=tuple((float(x), float(y)) for x, y in scores[:MAX_POINTS]),
        pearson=correlation([x for x, _ in scores], [y for _, y in scores]),
        tau=kendall_tau([x for x, _ in ranks], [y for _, y in ranks]) if len(ranks) > 1 else None,
        kappa=weighted_kappa(ranks, len(places)),
        places=places,
        confusion=tuple(tuple(counts[x, y] for y in places) for x in places),
    )


def weighted_kappa(pairs: Sequence[tuple[int, int]], n_places: int) -> float | None:
    """Cohen's κ with quadratic weights: 1 for the same places, 0 for what chance would give."""
    if len(pairs) < 2 or n_places < 2:
        return None
    seen = np.zeros((n_places, n_places))
    for x, y in pairs:
        seen[x - 1, y - 1] += 1
    seen /= seen.sum()
    expected = np.outer(seen.sum(axis=1), seen.sum(axis=0))
    place = np.arange(n_places)
    weight = (place[:, None] - place[None, :]) ** 2
    chance = float((weight * expected).sum())
    return None if chance == 0 else 1 - float((weight * seen).sum()) / chance
