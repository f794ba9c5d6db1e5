"""The board of comparisons two by two, from how often each pair met.

Comparisons are independent of each other, so every interval follows from the counts: the cost does
not grow with the number of comparisons once they are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.boards.models import LEVEL, Estimates, columns_of
from peerage.reviews.cells import Floats
from peerage.reviews.intervals import interval_of
from peerage.stats import clusters as by_cluster
from peerage.stats.ranking import welch_df
from peerage.stats.strengths import SCALE, covariance, rating, strengths


@dataclass(frozen=True, slots=True)
class WinCounts:
    """How often each model won against each other (`wins[winner, loser]`), and tied with it."""

    models: tuple[str, ...]
    wins: Floats
    ties: Floats  # symmetric

    @classmethod
    def of(
        cls, a: Sequence[str], b: Sequence[str], points: Sequence[float], n: Sequence[int]
    ) -> WinCounts:
        """Counts from kinds of comparison: two models, the first one's points, how many."""
        models = tuple(sorted({*a, *b}))
        place = {name: i for i, name in enumerate(models)}
        wins, ties = np.zeros((2, len(models), len(models)))
        for first, second, point, count in zip(a, b, points, n, strict=True):
            i, j = place[first], place[second]
            if point == 0.5:
                ties[i, j] += count
                ties[j, i] += count
            else:
                wins[(i, j) if point > 0.5 else (j, i)] += count
        return cls(models, wins, ties)

    @property
    def n(self) -> int:
        return int(self.wins.sum() + self.ties.sum() / 2.0)


def win_counts_columns(counts: WinCounts) -> dict[str, list[Any]]:
    """The columns of the model board under Bradley–Terry, the best model first."""
    ranked = rating_estimates_of(counts)
    won, tied, lost = counts.wins.sum(axis=1), counts.ties.sum(axis=1), counts.wins.sum(axis=0)
    n = won + tied + lost
    share = (won + tied / 2.0) / n
    return columns_of(
        counts.models,
        ranked,
        _share_estimates(share, won, tied, lost),
        {
            "aggregate_borda": share,
            "total_votes": n.astype(np.int64),
            "total_wins": won.astype(np.int64),
            "appearances": n.astype(np.int64),
        },
    )


def rating_estimates_of(counts: WinCounts) -> Estimates:
    """Ratings with intervals, each comparison an observation: the sandwich estimator from counts.

    A comparison moves the log strengths by its surprise times the difference of two rows of the
    inverse information. Sums of squares and fourth powers of these need only the counts.
    """
    points = counts.wins + counts.ties / 2.0
    logs = strengths(points)
    inverse = covariance(points, logs) * SCALE
    lose = 1.0 / (1.0 + np.exp(logs[:, None] - logs[None, :]))
    level = np.triu(counts.ties)  # each tie once
    squares, fourths = (
        counts.wins * lose**power + level * (lose - 0.5) ** power for power in (2, 4)
    )
    both = squares + squares.T
    spread = inverse @ (np.diag(both.sum(axis=1)) - both) @ inverse
    n, value, own = counts.n, rating(logs), spread.diagonal()
    half = np.full(len(value), np.nan)
    if n > 1:
        gaps = (row[:, None] - row[None, :] for row in inverse)
        each = np.array([(fourths * gap**4).sum() for gap in gaps])
        degrees = by_cluster.jackknife_df(np.full(len(own), n), own, each)
        half = np.where(
            own > 0.0, by_cluster.t_halves(np.sqrt(own * n / (n - 1.0)), degrees, LEVEL), np.nan
        )
    met = (points + points.T).sum(axis=1)
    df = welch_df(own, met)
    return Estimates(value, value - half, value + half, covariance=spread, df=df)


def _share_estimates(share: Floats, won: Floats, tied: Floats, lost: Floats) -> Estimates:
    """Shares of comparisons won, a tie as half, with their leave-one-out intervals."""
    n_each, gaps = np.stack([won, tied, lost]), np.stack([1.0 - share, 0.5 - share, -share])
    n = n_each.sum(axis=0)
    left_out = gaps / np.maximum(n - 1.0, 1.0)
    squares, fourths = ((n_each * left_out**power).sum(axis=0) for power in (2, 4))
    error = np.sqrt((n - 1.0) / n * squares)
    columns = (share, n.astype(np.int64), error, by_cluster.jackknife_df(n, squares, fourths))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    intervals = [interval_of(*row)[:2] for row in rows]
    low, high = np.array(intervals, dtype=np.float64).reshape(-1, 2).T
    return Estimates(share, low, high, n_clusters=n.astype(np.int64))
