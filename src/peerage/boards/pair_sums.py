"""The sums of `sum_votes` for votes between two models each, by counting alone.

A vote between two models is a session with one ballot of two places, so nothing has to be ranked: a
table of votes needs neither the rows of its reviews nor the ids of its sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from peerage.boards.model_sums import BASE, ModelSums
from peerage.reviews.cells import Bools, Cells, Floats, Ints, single_cell, table_of

WON, TIED, LOST = 2, 1, 0  # twice the points of the first model


@dataclass(frozen=True, slots=True)
class PairVotes:
    """Votes between two models each; every array has one element per vote.

    In a vote that does not count, such as one by one of its two models, both models appear but get
    no vote.
    """

    models: tuple[str, ...]  # sorted
    units: tuple[str, ...] | None  # of each cluster; None if clusters are buckets
    cluster: Ints
    first: Ints  # codes of models
    second: Ints
    outcome: Ints  # WON, TIED or LOST, by the first model
    counts: Bools

    @property
    def both(self) -> tuple[Ints, Ints]:
        """Return the codes of the first models followed by the second ones, and of their rivals."""
        one = np.concatenate([self.first, self.second])
        return one, np.concatenate([self.second, self.first])


def sum_pair_votes(votes: PairVotes, tables: Collection[str] = BASE) -> ModelSums:
    """Return the tables of sums that `sum_votes` would make from the reviews of these votes."""
    return ModelSums(votes.models, votes.units, {name: TABLES[name](votes) for name in tables})


def _models(votes: PairVotes) -> Cells:
    points = np.concatenate([votes.outcome, WON - votes.outcome])
    voted = np.concatenate([votes.counts, votes.counts])
    columns: list[Floats | Bools | None] = [None, voted, voted & (points == WON)]
    cells = table_of(votes.both[0], np.tile(votes.cluster, 2), [*columns, points * (voted / 2.0)])
    appeared, n, wins, share = cells.sums.T
    nothing = np.zeros(cells.n)
    place = 2.0 * n - share  # the first place is 1, a tie 1.5
    sums = [appeared, n, wins, n, share, share, nothing, nothing, place, nothing]
    return Cells(cells.subject, cells.cluster, np.column_stack(sums))


def _counts(votes: PairVotes) -> Cells:
    return single_cell(float(np.count_nonzero(votes.counts)), 2.0 * len(votes.first), 0, 0, 0)


def _rivals(votes: PairVotes) -> Cells:
    return _meet(votes, np.zeros_like(votes.cluster))


def _meetings(votes: PairVotes) -> Cells:
    return _meet(votes, votes.cluster)


def _meet(votes: PairVotes, cluster: Ints) -> Cells:
    one, other = (codes[np.tile(votes.counts, 2)] for codes in votes.both)
    subject = one.astype(np.int64) * len(votes.models) + other
    return table_of(subject, np.tile(cluster[votes.counts], 2), [None])


def _pairs(votes: PairVotes) -> Cells:
    """Return, by upper and lower model, how often one was above, and how often they tied."""
    at = np.flatnonzero(votes.counts)
    first, second = votes.first[at].astype(np.int64), votes.second[at].astype(np.int64)
    tied, is_upper = votes.outcome[at] == TIED, votes.outcome[at] != LOST
    upper, lower = np.where(is_upper, first, second), np.where(is_upper, second, first)
    return table_of(upper * len(votes.models) + lower, votes.cluster[at], [~tied, tied])


TABLES: Mapping[str, Callable[[PairVotes], Cells]] = {
    "models": _models,
    "counts": _counts,
    "rivals": _rivals,
    "meetings": _meetings,
    "pairs": _pairs,
}
