"""The sums of `sum_votes` for votes between two models each, by counting alone.

A vote between two models is a session with one ballot of two places, so nothing has to be ranked: a
table of votes needs neither the rows of its reviews nor the ids of its sessions. Equal votes of one
cluster are grouped once, and each group says how often they occurred.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from peerage.boards.model_sums import BASE, ModelSums
from peerage.reviews.cells import (
    ALWAYS_ROOM,
    ROOMY,
    Bools,
    Cells,
    Floats,
    Ints,
    single_cell,
    sort_cells,
    table_of,
)

LOST, TIED, WON = 0, 1, 2  # twice the points of the first model
NOT_COUNTED = 3
N_OUTCOMES = 4
MIRRORED = np.array([WON, TIED, LOST, NOT_COUNTED])  # the outcome for the other side


@dataclass(frozen=True, slots=True)
class PairVotes:
    """Votes between two models each, grouped by cluster and pair.

    In a vote that does not count, such as one by one of its two models, both models appear but get
    no vote.
    """

    models: tuple[str, ...]  # sorted
    units: tuple[str, ...] | None  # of each cluster; None if clusters are buckets
    cluster: Ints  # of each group
    first: Ints  # codes of models, smaller than those of the second
    second: Ints
    times: Floats  # groups by outcomes of the first model: how often each occurred

    @property
    def both(self) -> tuple[Ints, Ints]:
        """Return the codes of the first models followed by the second ones, and of their rivals."""
        one = np.concatenate([self.first, self.second])
        return one, np.concatenate([self.second, self.first])

    @property
    def n_counted(self) -> Floats:
        """Return the number of votes in each group that count."""
        counted: Floats = self.times[:, :NOT_COUNTED].sum(axis=1)
        return counted


def group_votes(
    models: tuple[str, ...],
    units: tuple[str, ...] | None,
    cluster: Ints,
    sides: tuple[Ints, Ints],
    outcome: Ints,
) -> PairVotes:
    """Return votes grouped by cluster and pair; the outcome is that of the first side.

    If nearly all votes would be groups of their own, each is left as one.
    """
    n, n_clusters = len(models), int(cluster.max(initial=0)) + 1
    if n * n * n_clusters * N_OUTCOMES > ROOMY * len(outcome) + ALWAYS_ROOM:
        swapped = sides[0] > sides[1]
        first, second = np.where(swapped, sides[1], sides[0]), np.where(swapped, *sides)
        times = np.eye(N_OUTCOMES)[np.where(swapped, MIRRORED[outcome], outcome)]
        return PairVotes(models, units, cluster, first, second, times)
    key = sides[0].astype(np.int64)  # changed in place: each copy of many votes takes a while
    for code, n_codes in ((sides[1], n), (cluster, n_clusters), (outcome, N_OUTCOMES)):
        key *= n_codes
        key += code
    counts = np.bincount(key, minlength=n * n * n_clusters * N_OUTCOMES)
    counts = counts.reshape(n, n, n_clusters, N_OUTCOMES)
    one, other = np.triu_indices(n, 1)
    by_pair = counts[one, other] + counts[other, one][..., MIRRORED]
    pair, cluster = np.nonzero(by_pair.any(axis=2))
    times = by_pair[pair, cluster].astype(np.float64)
    return PairVotes(models, units, cluster, one[pair], other[pair], times)


def sum_pair_votes(votes: PairVotes, tables: Collection[str] = BASE) -> ModelSums:
    """Return the tables of sums that `sum_votes` would make from the reviews of these votes."""
    return ModelSums(votes.models, votes.units, {name: TABLES[name](votes) for name in tables})


def _models(votes: PairVotes) -> Cells:
    lost, tied, won, _ = votes.times.T
    n, appeared = votes.n_counted, votes.times.sum(axis=1)
    wins, share = np.concatenate([won, lost]), np.tile(tied / 2.0, 2)
    columns = [np.tile(appeared, 2), np.tile(n, 2), wins, share + wins]
    cells = table_of(votes.both[0], np.tile(votes.cluster, 2), columns)
    appeared, n, wins, share = cells.sums.T
    nothing = np.zeros(cells.n)
    place = 2.0 * n - share  # the first place is 1, a tie 1.5
    sums = [appeared, n, wins, n, share, share, nothing, nothing, place, nothing]
    return Cells(cells.subject, cells.cluster, np.column_stack(sums))


def _counts(votes: PairVotes) -> Cells:
    return single_cell(float(votes.n_counted.sum()), 2.0 * float(votes.times.sum()), 0, 0, 0)


def _rivals(votes: PairVotes) -> Cells:
    return _meet(votes, np.zeros_like(votes.cluster))


def _meetings(votes: PairVotes) -> Cells:
    return _meet(votes, votes.cluster)


def _meet(votes: PairVotes, cluster: Ints) -> Cells:
    met: Bools = votes.n_counted > 0.0
    one, other = (codes[np.tile(met, 2)] for codes in votes.both)
    subject = one.astype(np.int64) * len(votes.models) + other
    return table_of(subject, np.tile(cluster[met], 2), [np.tile(votes.n_counted[met], 2)])


def _pairs(votes: PairVotes) -> Cells:
    """Return, by upper and lower model, how often one was above, and how often they tied."""
    lost, tied, won, _ = votes.times.T
    n = len(votes.models)
    above = np.concatenate([votes.first * n + votes.second, votes.second * n + votes.first])
    some = np.flatnonzero(np.concatenate([(won > 0.0) | (tied > 0.0), lost > 0.0]))
    small = np.uint16 if n * n <= 2**16 else np.int64  # small numbers are sorted in one pass
    order = some[np.argsort(above[some].astype(small), kind="stable")]
    sums = np.stack([np.concatenate([won, lost]), np.concatenate([tied, 0.0 * tied])], axis=1)
    return sort_cells(above[order], np.tile(votes.cluster, 2)[order], sums[order])


TABLES: Mapping[str, Callable[[PairVotes], Cells]] = {
    "models": _models,
    "counts": _counts,
    "rivals": _rivals,
    "meetings": _meetings,
    "pairs": _pairs,
}
