"""Compare two panels, or two sets of sessions, on the pairs of answers that both judged.

Shares of two selections differ even if all judges agree, because a judge who wrote an answer does
not judge it, and sessions lack models. So two selections are compared on common *cells*: a cell is
a question and two of its answers, and its result is the mean, over the judges who placed both and
wrote neither, of 1 if the first is above the second and ½ for a tie. Identical judges give exactly
no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from peerage.boards.models import MIN_COVERED
from peerage.reviews.cells import Bools, Floats, Ints, dense, spans
from peerage.reviews.rows import Rows
from peerage.reviews.votes import votes
from peerage.stats.clusters import quotient
from peerage.stats.strengths import common_shares, coverage, groups_that_met
from peerage.stats.tails import t_critical
from peerage.types import OwnVotes

LEVEL = 0.95
MIN_CLUSTERS = 10  # queries; with fewer, a change has no interval


@dataclass(frozen=True, slots=True)
class PairCells:
    """Pairs of answers (cells) and the judges' results on them; codes index the tuples.

    `place` is the question of a cell, a session or a query, and `cluster` the query of each place.
    """

    models: tuple[str, ...]
    judges: tuple[str, ...]
    places: tuple[str, ...]
    queries: tuple[str, ...]
    cluster: Ints  # by place
    place: Ints  # by cell
    one: Ints  # by cell: the first model, with a smaller code than the other
    other: Ints
    cell: Ints  # of each result
    judge: Ints
    above: Floats  # of each result: how often the judge puts the first above the other

    @property
    def n(self) -> int:
        return len(self.place)

    def results(self, judges: Bools | None = None) -> Floats:
        """Return the result of each cell by some of the judges; NaN if none of them has one."""
        cell, above = self.cell, self.above
        if judges is not None:
            chosen = judges[self.judge]
            cell, above = cell[chosen], above[chosen]
        n = np.bincount(cell, minlength=self.n)
        total = np.bincount(cell, above, minlength=self.n)
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def only(self, places: Bools) -> PairCells:
        """Return the cells of some of the places."""
        is_left = places[self.place]
        code = np.cumsum(is_left) - 1
        of_left = is_left[self.cell]
        return replace(
            self,
            place=self.place[is_left],
            one=self.one[is_left],
            other=self.other[is_left],
            cell=code[self.cell[of_left]],
            judge=self.judge[of_left],
            above=self.above[of_left],
        )


def pair_cells(rows: Rows, *, by_query: bool = False, own_votes: OwnVotes = "out") -> PairCells:
    """Return the cells of all sessions, or of all queries, with the results of each judge.

    A judge who ranked two answers several times, in rounds or sessions of one query, has the mean.
    """
    cast = votes(rows, own_votes, np.zeros(rows.n_sessions, dtype=np.int64))
    counted = np.flatnonzero(cast.counts)
    counted = counted[np.lexsort((rows.candidate[counted], cast.ballot[counted]))]
    ballot = cast.ballot[counted]
    size = np.bincount(ballot, minlength=cast.n_ballots)
    end = np.cumsum(size)[ballot]
    after = np.arange(len(counted)) + 1
    first, second = spans(after, end - after)
    first, second = counted[first], counted[second]
    query, queries = rows.queries()
    names = queries if by_query else tuple(map(str, rows.session_ids.tolist()))
    place = query[rows.session[first]] if by_query else rows.session[first].astype(np.int64)
    n_models = len(rows.names)
    pair = (place * n_models + rows.candidate[first]) * n_models + rows.candidate[second]
    cell, n_cells = dense(pair)
    key = np.zeros(n_cells, dtype=np.int64)
    key[cell] = pair
    gap = cast.doubled[second] - cast.doubled[first]
    above = 0.5 + 0.5 * np.sign(gap)
    vote, n_votes = dense(cell * n_models + rows.reviewer[first])
    of_vote = np.zeros(n_votes, dtype=np.int64)
    of_vote[vote] = cell * n_models + rows.reviewer[first]
    mean = np.bincount(vote, above, n_votes) / np.maximum(np.bincount(vote, minlength=n_votes), 1)
    return PairCells(
        rows.names,
        rows.names,
        names,
        queries,
        np.arange(len(names)) if by_query else query,
        key // n_models**2,
        key // n_models % n_models,
        key % n_models,
        of_vote // n_models,
        of_vote % n_models,
        mean,
    )


def shares_on_common_rivals(rows: Rows, own_votes: OwnVotes, sides: tuple[int, int]) -> Floats:
    """Return the shares of two models (by code) in each session, on the rivals that both met there.

    The two are rivals of each other, too. An answer that was shown and not ranked lost to all that
    were. NaN if no judge compared both with a common rival.
    """
    cast = votes(rows, own_votes, np.zeros(rows.n_sessions, dtype=np.int64))
    shown = cast.there if own_votes == "in" else cast.there & (rows.reviewer != rows.candidate)
    at = np.flatnonzero(shown)
    at = at[np.argsort(cast.ballot[at], kind="stable")]
    size = np.bincount(cast.ballot[at], minlength=cast.n_ballots)
    own = np.flatnonzero(cast.counts & np.isin(rows.candidate, sides))
    ballot = cast.ballot[own]
    one, other = spans((np.cumsum(size) - size)[ballot], size[ballot])
    one, other = own[one], at[other]
    one, other = one[apart := rows.candidate[one] != rows.candidate[other]], other[apart]
    gap = np.sign(cast.doubled[other] - cast.doubled[one])
    above = np.where(cast.counts[other], 0.5 + 0.5 * gap, 1.0)
    rival = rows.session[one].astype(np.int64) * len(rows.names) + rows.candidate[other]
    is_head = np.isin(rows.candidate[other], sides)
    rival[is_head] = rows.session[one][is_head] * len(rows.names) + min(sides)
    code, n = dense(rival)
    session = np.zeros(n, dtype=np.int64)
    session[code] = rows.session[one]
    results = np.full((2, n), np.nan)
    for row, side in zip(results, sides, strict=True):
        mine = rows.candidate[one] == side
        row[:] = quotient(
            np.bincount(code[mine], above[mine], n), np.bincount(code[mine], minlength=n)
        )
    both = np.isfinite(results).all(axis=0)
    n_common = np.bincount(session[both], minlength=rows.n_sessions)
    totals = [np.bincount(session[both], row[both], rows.n_sessions) for row in results]
    return quotient(np.array(totals), n_common)


# -- the fit -------------------------------------------------------------------------------------


class CellFit(NamedTuple):
    """Shares from cells, and what each cluster adds to them."""

    value: Floats
    influences: Floats  # clusters by models
    slopes: Floats  # [k, i]: what one more point of model k adds to the value of i
    is_connected: bool  # whether a chain of cells connects all models


def fit_cells(cells: PairCells, result: Floats) -> CellFit:
    """Return the shares of the models from the cells with a result, estimated as on a board.

    In each place all rivals of a model count equally. Where the models met different rivals, the
    shares are those on common rivals. Models without a cell have NaN.
    """
    n, n_clusters = len(cells.models), int(cells.cluster.max(initial=-1)) + 1
    known = np.flatnonzero(np.isfinite(result))
    one, other = cells.one[known], cells.other[known]
    a, b = np.concatenate([one, other]), np.concatenate([other, one])
    points = np.concatenate([result[known], 1.0 - result[known]])
    at, n_at = dense(np.tile(cells.place[known], 2) * n + a)
    weight = 1.0 / np.bincount(at, minlength=n_at)[at]
    met: Floats = np.bincount(a * n + b, weight, n * n).reshape(n, n).astype(np.float64)
    there = np.flatnonzero(met.any(axis=1))
    if len(there) < 2:
        return CellFit(np.full(n, np.nan), np.zeros((n_clusters, n)), np.zeros((n, n)), False)
    here = np.ix_(there, there)
    own: Floats = np.bincount(a, weight * points, n).astype(np.float64)
    value, slopes, expected = _nothing(n)
    if coverage(met[here]) < MIN_COVERED:
        value[there], slopes[here], expected[here] = common_shares(own[there], met[here])
    else:
        total = met[there].sum(axis=1)
        value[there], slopes[there, there] = own[there] / total, 1.0 / total
        expected[there] = value[there, None]
    cluster = cells.cluster[np.tile(cells.place[known], 2)].astype(np.int64)
    gap = np.bincount(cluster * n + a, weight * (points - expected[a, b]), n_clusters * n)
    is_connected = not groups_that_met(met[here]).any()
    return CellFit(value, gap.reshape(n_clusters, n) @ slopes, slopes, is_connected)


def met_in(cells: PairCells) -> tuple[Floats, Floats]:
    """Return the weight of each cell for its first and its second model: 1 over its rivals there.

    All cells count as having a result.
    """
    n = len(cells.models)
    at, n_at = dense(np.concatenate([cells.place * n + cells.one, cells.place * n + cells.other]))
    one, other = np.split(1.0 / np.bincount(at, minlength=n_at)[at], 2)
    return one, other


def _nothing(n: int) -> tuple[Floats, Floats, Floats]:
    return np.full(n, np.nan), np.zeros((n, n)), np.zeros((n, n))


@dataclass(frozen=True, slots=True)
class PanelChange:
    """The change of each model's share from one selection to another, on common cells.

    A change is NaN if the cells of a model do not connect it to the others. `low` and `high` hold
    for all models together; they are NaN with fewer than `MIN_CLUSTERS` queries.
    """

    models: tuple[str, ...]
    before: Floats
    after: Floats
    change: Floats
    low: Floats
    high: Floats
    n_queries: Ints  # of each model
    influences: Floats  # of each query on the changes; their squares add up to the variances

    @property
    def moved(self) -> Bools:
        """Models whose interval excludes zero."""
        with np.errstate(invalid="ignore"):
            return np.isfinite(self.low) & ((self.low > 0.0) | (self.high < 0.0))


def compare_results(cells: PairCells, before: Floats, after: Floats) -> PanelChange:
    """Return the change from one result of each cell to another, on cells with both."""
    common = np.isfinite(before) & np.isfinite(after)
    there = cells.cluster[cells.place[common]]
    fits = [fit_cells(cells, np.where(common, one, np.nan)) for one in (before, after)]
    influences = (fits[1].influences - fits[0].influences)[np.unique(there)]
    n = _queries_by_model(cells, common, len(cells.models))
    return _change(cells.models, fits, influences, n)


def compare_pairs(first: PairCells, second: PairCells) -> PanelChange:
    """Return the change between two sets without a common query, on pairs of models in both.

    Both must have the same models. The sets are independent, so their variances add up.
    """
    n = len(first.models)
    met = [np.bincount(one.one * n + one.other, minlength=n * n) > 0 for one in (first, second)]
    fits, influences, n_queries = [], [], np.zeros(n, dtype=np.int64)
    for one in (first, second):
        common = (met[0] & met[1])[one.one * n + one.other]
        fits.append(fit_cells(one, np.where(common, one.results(), np.nan)))
        used = np.unique(one.cluster[one.place[common]])
        own = fits[-1].influences[used]
        influences.append(own - own.sum(axis=0) / max(len(own), 1))
        n_queries += _queries_by_model(one, common, n)
    return _change(first.models, fits, np.concatenate([-influences[0], influences[1]]), n_queries)


def _change(
    models: tuple[str, ...], fits: Sequence[CellFit], influences: Floats, n_queries: Ints
) -> PanelChange:
    """Return the changes with intervals that hold for all models together."""
    n, nothing = len(influences), np.full(len(models), np.nan)
    connected = all(fit.is_connected for fit in fits)
    before, after = (fit.value if connected else nothing for fit in fits)
    change = after - before
    low, high = nothing, nothing
    influences = influences - influences.sum(axis=0) / max(n, 1)
    influences *= np.sqrt(n / max(n - 1.0, 1.0))
    if n >= MIN_CLUSTERS:
        error = np.sqrt((influences**2).sum(axis=0))
        n_known = max(int(np.isfinite(change).sum()), 1)
        half = t_critical(1.0 - (1.0 - LEVEL) / n_known, n - 1.0) * error
        low, high = change - half, change + half
    return PanelChange(models, before, after, change, low, high, n_queries, influences)


def _queries_by_model(cells: PairCells, chosen: Bools, n_models: int) -> Ints:
    """Return how many queries have a chosen cell of each model."""
    query = cells.cluster[cells.place[chosen]].astype(np.int64)
    models = np.concatenate([cells.one[chosen], cells.other[chosen]])
    there = np.unique(np.tile(query, 2) * n_models + models)
    return np.bincount(there % n_models, minlength=n_models)


def align_cells(first: PairCells, second: PairCells) -> tuple[PairCells, Floats, Floats]:
    """Return the cells of two sets together, and the results of all judges of each set.

    Equal cells have the same place and the same models, by name.
    """
    models, places, queries = (
        tuple(sorted({*getattr(first, name), *getattr(second, name)}))
        for name in ("models", "places", "queries")
    )
    keys, cluster = [], np.zeros(len(places), dtype=np.int64)
    for one in (first, second):
        model, place = (
            np.searchsorted(every, own) if own else np.zeros(0, dtype=np.int64)
            for every, own in ((models, one.models), (places, one.places))
        )
        pair = model[one.one] * len(models) + model[one.other]  # names are sorted on both sides
        keys.append(place[one.place] * len(models) ** 2 + pair)
        cluster[place] = np.searchsorted(queries, one.queries)[one.cluster]
    every, code = np.unique(np.concatenate(keys), return_inverse=True)
    n, nothing = len(models), np.zeros(0, dtype=np.int64)
    results = np.full((2, len(every)), np.nan)
    for row, one, own in zip(results, (first, second), np.split(code, [first.n]), strict=True):
        row[own] = one.results()
    places_and_pairs = every // n**2, every // n % n, every % n
    joined = PairCells(
        models, (), places, queries, cluster, *places_and_pairs, nothing, nothing, np.zeros(0)
    )
    return joined, results[0], results[1]


def compare_sets(first: PairCells, second: PairCells) -> PanelChange:
    """Return the change from one set of reviews to another.

    Sets with a common query are compared on common cells, others on the pairs of models in both.
    """
    cells, before, after = align_cells(first, second)
    if (np.isfinite(before) & np.isfinite(after)).any():
        return compare_results(cells, before, after)
    both = []
    for result in (before, after):
        known = np.isfinite(result)
        own = np.flatnonzero(known)
        both.append(
            replace(
                cells,
                place=cells.place[own],
                one=cells.one[own],
                other=cells.other[own],
                cell=np.arange(len(own)),
                judge=np.zeros(len(own), dtype=np.int64),
                above=result[own],
            )
        )
    return compare_pairs(*both)
