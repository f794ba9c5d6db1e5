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
    Cells,
    Floats,
    Ints,
    merge,
    places,
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
    times: Floats  # outcomes of the first model by groups: how often each occurred

    @property
    def both(self) -> tuple[Ints, Ints]:
        """Return the codes of the first models followed by the second ones, and of their rivals."""
        one = np.concatenate([self.first, self.second])
        return one, np.concatenate([self.second, self.first])

    @property
    def n_counted(self) -> Floats:
        """Return the number of votes in each group that count."""
        lost, tied, won, _ = self.times
        return lost + tied + won


@dataclass(frozen=True, slots=True)
class VoteKinds:
    """The kinds of votes that occur: who met, and the outcome for the first side.

    There are few, however many votes there are, so that a vote is read as one number.
    """

    code: Ints  # of each kind, ascending
    first: Ints  # codes of models
    second: Ints
    outcome: Ints


def group_votes(
    models: tuple[str, ...],
    units: tuple[str, ...] | None,
    cluster: Ints,
    kind: Ints,
    kinds: VoteKinds,
) -> PairVotes:
    """Return votes, given by their cluster and the code of their kind, grouped by cluster and pair.

    If nearly all votes would be groups of their own, each is left as one.
    """
    swapped = kinds.first > kinds.second
    one, other = np.minimum(kinds.first, kinds.second), np.maximum(kinds.first, kinds.second)
    outcome = np.where(swapped, MIRRORED[kinds.outcome], kinds.outcome)
    pairs, pair = np.unique(one.astype(np.int64) * len(models) + other, return_inverse=True)
    n_clusters = int(cluster.max(initial=0)) + 1
    size = n_clusters * N_OUTCOMES  # numbers of one pair
    column = np.zeros(int(kinds.code.max(initial=0)) + 1, dtype=np.int64)
    if len(pairs) * size > ROOMY * len(kind) + ALWAYS_ROOM:
        column[kinds.code] = np.arange(len(kinds.code))
        place = column[kind]
        times = np.eye(N_OUTCOMES)[:, outcome[place]]
        return PairVotes(models, units, cluster.astype(np.int64), one[place], other[place], times)
    column[kinds.code] = pair * size + outcome
    cell = column[kind]
    cell += np.multiply(cluster, N_OUTCOMES, dtype=np.int64)
    counts = np.bincount(cell, minlength=len(pairs) * size).reshape(-1, N_OUTCOMES)
    some = np.flatnonzero(counts @ np.ones(N_OUTCOMES, dtype=np.int64))
    group, cluster = np.divmod(some, n_clusters)
    one, other = np.divmod(pairs, len(models))
    times = counts[some].T.astype(np.float64, order="C")
    return PairVotes(models, units, cluster, one[group], other[group], times)


def sum_pair_votes(votes: PairVotes, tables: Collection[str] = BASE) -> ModelSums:
    """Return the tables of sums that `sum_votes` would make from the reviews of these votes."""
    return ModelSums(votes.models, votes.units, {name: TABLES[name](votes) for name in tables})


def _models(votes: PairVotes) -> Cells:
    lost, tied, won, left_out = votes.times
    columns = [np.concatenate([won, lost]), np.tile(tied, 2), np.concatenate([lost, won])]
    if left_out.any():
        columns.append(np.tile(left_out, 2))
    cells = table_of(votes.both[0], np.tile(votes.cluster, 2), columns)
    wins, ties, losses, *others = cells.sums.T
    n = wins + ties + losses
    appeared, share = sum(others, n), wins + ties / 2.0
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
    met, n = votes.n_counted, len(votes.models)
    some = places(met > 0.0)
    one, other = votes.first[some].astype(np.int64), votes.second[some].astype(np.int64)
    cells = table_of(one * n + other, cluster[some], [met[some]])
    one, other = np.divmod(cells.subject, n)
    return merge([cells, Cells(other * n + one, cells.cluster, cells.sums)])


def _pairs(votes: PairVotes) -> Cells:
    """Return, by upper and lower model, how often one was above, and how often they tied."""
    lost, tied, won, _ = votes.times
    n = len(votes.models)
    is_upper, is_lower = won + tied > 0.0, lost > 0.0
    some = np.flatnonzero(np.concatenate([is_upper, is_lower]))
    above = np.concatenate(
        [
            (votes.first.astype(np.int64) * n + votes.second)[is_upper],
            (votes.second.astype(np.int64) * n + votes.first)[is_lower],
        ]
    )
    small = np.uint16 if n * n <= 2**16 else np.int64  # small numbers are sorted in one pass
    order = np.argsort(above.astype(small), kind="stable")
    some = some[order]
    sums = np.stack(
        [np.concatenate([won, lost])[some], np.concatenate([tied, np.zeros(len(tied))])[some]],
        axis=1,
    )
    return sort_cells(above[order], np.tile(votes.cluster, 2)[some], sums)


TABLES: Mapping[str, Callable[[PairVotes], Cells]] = {
    "models": _models,
    "counts": _counts,
    "rivals": _rivals,
    "meetings": _meetings,
    "pairs": _pairs,
}
