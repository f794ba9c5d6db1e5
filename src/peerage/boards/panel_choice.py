"""Which judges a panel needs: cheaper panels and cascades, tested on held-out queries.

A smaller panel is compared with the full panel on the pairs of answers that both judged (see
`common_cells.py`), on queries that it was not chosen on; only those figures are reported. So judges
who agree never need the larger panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from peerage.boards.common_cells import PairCells, compare_results, fit_cells, met_in
from peerage.errors import InputError, how_many
from peerage.notebooks import Tabular
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.rows import buckets_of
from peerage.stats.clusters import generator, random_bits
from peerage.stats.ranking import kendall_tau

MAX_ALL_SUBSETS = 12  # judges; with more, panels are built one judge at a time
CHUNK_CELLS = 2**22  # cells by panels that are added up at once
CHANCE = 0.8  # that the board of a panel on fresh queries is within its bound
N_FRESH = 500  # draws of fresh queries
MIN_QUERIES = 20
MIN_JUDGES = 3
SAME_WINNER = 0.95  # share of queries on which a cascade must name the full panel's winner
N_THRESHOLDS = 41
SAME = 1e-12
SHARED_ERRORS = (
    "A panel that agrees with the full panel shares its errors: agreement is not accuracy. If "
    "people have reviewed, `peerage board models --people` measures the judges' errors."
)


@dataclass(frozen=True, slots=True)
class JudgeWorth:
    """The contribution of one judge to the panel, on held-out queries."""

    judge: str
    queries: int
    price_usd: float | None  # of one review
    moves: float  # how far the board moves without this judge, as a root mean square of shares
    agrees: float | None  # Kendall's τ of its own board with that of the others


@dataclass(frozen=True, slots=True)
class PanelAdvice:
    """A panel with its tested distance from the full panel's board."""

    judges: tuple[str, ...]
    price_usd: float | None  # of one review by each
    rmse: float  # of shares, on held-out queries
    bound: float  # what the root mean square is below on 80% of as many fresh queries
    largest: float
    tau: float | None
    tau_left_out: float | None  # with the board of the judges outside this panel


@dataclass(frozen=True, slots=True)
class CascadeAdvice:
    """A cheap panel first; the full panel only if the cheap panel's lead is below the threshold."""

    judges: tuple[str, ...]
    threshold: float  # of the winner's lead in share
    asked_again: float  # share of held-out queries that go to the full panel
    same_winner: float  # share of held-out queries
    price_usd: float | None  # of a query, on average


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Tabular):
    """Advice on a panel; all figures except prices are from held-out queries."""

    judges: tuple[JudgeWorth, ...]
    panels: tuple[PanelAdvice, ...]  # the best of each size
    # The cheapest panel whose bound, on the queries it was chosen on, is within what was asked for.
    cheapest: PanelAdvice | None
    cascade: CascadeAdvice | None
    full_price_usd: float | None
    within: float
    queries: tuple[int, int]  # how many panels were chosen on, and how many they were tested on
    effective_votes: Mapping[str, Any] | None = None
    note: str = SHARED_ERRORS

    def table(self) -> dict[str, list[Any]]:
        names = list(JudgeWorth.__dataclass_fields__)
        return {name: [getattr(one, name) for one in self.judges] for name in names}

    def document(self) -> dict[str, Any]:
        """Return the JSON of the advice."""
        return asdict(self)


def choose_panel(cells: PairCells, price_by_judge: Mapping[str, float], within: float) -> Advice:
    """Return each judge's contribution, the best smaller panels, and a cascade."""
    judges = tuple(cells.judges[code] for code in np.unique(cells.judge).tolist())
    queries = np.unique(cells.cluster[cells.place])
    n_judges, n_queries = len(judges), len(queries)
    if n_judges < MIN_JUDGES:
        raise InputError(
            f"{how_many(n_judges, 'judge is', 'judges are')} too few for advice: at least "
            f"{MIN_JUDGES} are needed."
        )
    if n_queries < MIN_QUERIES:
        raise InputError(
            f"{how_many(n_queries, 'query is', 'queries are')} too few to choose a panel on one "
            f"half and test it on the other: at least {MIN_QUERIES} are needed."
        )
    folds = buckets_of([cells.queries[code] for code in queries.tolist()])
    half = np.zeros(len(cells.queries), dtype=bool)
    half[queries[np.argsort(folds, kind="stable")[::2]]] = True
    chosen_on, tested_on = (
        JudgedCells.of(cells.only(some[cells.cluster]), judges) for some in (half, ~half)
    )
    prices = [price_by_judge.get(name) for name in judges]
    panels = candidate_panels(chosen_on)
    distance = _distances(chosen_on, panels)
    cost = np.array([_cost(panel, prices) for panel in panels])
    best: dict[int, int] = {}
    for at in np.lexsort((distance, cost)).tolist():
        size = len(panels[at])
        if size not in best or distance[at] < distance[best[size]] - 1e-12:
            best[size] = at
    fit = [at for at in range(len(panels)) if distance[at] <= within and len(panels[at]) < n_judges]
    fit.sort(key=lambda at: (cost[at], len(panels[at]), distance[at]))
    good = (at for at in fit if _test_panel(panels[at], chosen_on, prices).bound <= within)
    cheapest = next(good, None)
    shown = {*best.values(), *([] if cheapest is None else [cheapest])}
    tested = {at: _test_panel(panels[at], tested_on, prices) for at in shown}
    small = [best[size] for size in sorted(best) if size < n_judges]
    return Advice(
        judges=_worths(tested_on, prices),
        panels=tuple(tested[at] for at in small),
        cheapest=None if cheapest is None else tested[cheapest],
        cascade=_cascade(chosen_on, tested_on, [panels[at] for at in small], prices),
        full_price_usd=_known_cost(range(n_judges), prices),
        within=within,
        queries=(int(half.sum()), n_queries - int(half.sum())),
    )


class JudgedCells(NamedTuple):
    """Cells with the result of each judge (cells by judges; NaN for none), and of all together."""

    cells: PairCells
    judges: tuple[str, ...]
    result: Floats
    full: Floats

    @classmethod
    def of(cls, cells: PairCells, judges: tuple[str, ...]) -> JudgedCells:
        """Return some cells as a table, with a column for each judge."""
        column = {cells.judges.index(name): j for j, name in enumerate(judges)}
        table = np.full((cells.n, len(judges)), np.nan)
        table[cells.cell, [column[code] for code in cells.judge.tolist()]] = cells.above
        return cls(cells, judges, table, cells.results())

    def by(self, panel: Sequence[int]) -> Floats:
        """Return the result of each cell by a panel; NaN if none of its judges has one."""
        return _row_means(self.result[:, list(panel)])


def _row_means(values: Floats) -> Floats:
    known = np.isfinite(values)
    n = known.sum(axis=1)
    return np.where(n > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(n, 1), np.nan)


def candidate_panels(judged: JudgedCells) -> list[tuple[int, ...]]:
    """Return the panels to compare: all of them if judges are few, else a good one of each size."""
    n = len(judged.judges)
    if n <= MAX_ALL_SUBSETS:
        return [some for size in range(1, n + 1) for some in combinations(range(n), size)]
    panels: list[tuple[int, ...]] = []
    current: tuple[int, ...] = ()
    for _ in range(n - 1):
        more = [tuple(sorted((*current, j))) for j in range(n) if j not in current]
        current = more[int(_distances(judged, more).argmin())]
        swaps = [
            tuple(sorted({*current} - {out} | {new}))
            for out in current
            for new in range(n)
            if new not in current
        ]
        if swaps:
            gaps = _distances(judged, [current, *swaps])
            current = [current, *swaps][int(gaps.argmin())]
        panels.append(current)
    return [*panels, tuple(range(n))]


def _distances(judged: JudgedCells, panels: Sequence[tuple[int, ...]]) -> Floats:
    """Return the root mean square of the changes that each panel makes, to the first order.

    The change of results on the cells that a panel has is multiplied by the slopes of the full
    panel's fit. A model without such a cell is as far away as possible.
    """
    cells, n_models = judged.cells, len(judged.cells.models)
    known = np.isfinite(judged.result).astype(np.float64)
    filled = np.where(known > 0.0, judged.result, 0.0)
    fit, weights = fit_cells(cells, judged.full), met_in(cells)
    there, sides = np.flatnonzero(np.isfinite(fit.value)), (cells.one, cells.other)
    total = sum(np.bincount(s, w, n_models) for s, w in zip(sides, weights, strict=True))
    by_model = [(side, order, *_runs(side[order])) for side, order in _by_side(cells)]
    distances = []
    step = max(1, CHUNK_CELLS // max(cells.n, 1))
    for first in range(0, len(panels), step):
        part = panels[first : first + step]
        member = np.zeros((len(judged.judges), len(part)))
        for k, panel in enumerate(part):
            member[list(panel), k] = 1.0
        n = known @ member
        mean = np.divide(filled @ member, n, out=np.zeros_like(n), where=n > 0.0)
        gap = np.where(n > 0.0, mean - judged.full[:, None], 0.0)
        change, covered = np.zeros((2, n_models, len(part)))
        for (_, order, codes, starts), weight, sign in zip(
            by_model, weights, (1.0, -1.0), strict=True
        ):
            own = weight[order, None]
            change[codes] += sign * np.add.reduceat(own * gap[order], starts, axis=0)
            covered[codes] += np.add.reduceat(own * (n[order] > 0.0), starts, axis=0)
        share = covered / np.where(total > 0.0, total, 1.0)[:, None]
        moved = (np.where(share > 0.0, change / np.where(share > 0.0, share, 1.0), 0.0)).T
        moved = moved @ fit.slopes
        missing = share.T <= 0.0
        squares = np.where(missing, 1.0, moved**2)[:, there]
        distances.append(np.sqrt(squares.mean(axis=1)))
    return np.concatenate(distances)


def _by_side(cells: PairCells) -> list[tuple[Ints, Ints]]:
    """Return both models of each cell, each with an order that puts equal ones together."""
    return [(side, np.argsort(side, kind="stable")) for side in (cells.one, cells.other)]


def _runs(codes: Ints) -> tuple[Ints, Ints]:
    """Return the distinct codes of a sorted array and where each starts."""
    starts = np.flatnonzero(np.append(True, np.diff(codes) != 0)[: len(codes)])
    return codes[starts], starts


def _cost(panel: Sequence[int], prices: Sequence[float | None]) -> float:
    """Return the price of a panel; if a price is unknown, the number of its judges."""
    known = _known_cost(range(len(prices)), prices)
    return float(len(panel)) if known is None else sum(prices[j] or 0.0 for j in panel)


def _known_cost(panel: Sequence[int] | range, prices: Sequence[float | None]) -> float | None:
    values = [prices[j] for j in panel]
    return None if any(value is None for value in values) else math.fsum(v or 0.0 for v in values)


def _test_panel(
    panel: tuple[int, ...], judged: JudgedCells, prices: Sequence[float | None]
) -> PanelAdvice:
    """Return a panel with its figures on held-out queries."""
    cells, own = judged.cells, judged.by(panel)
    change = compare_results(cells, judged.full, own)
    gap = np.abs(change.change)
    gap = gap[np.isfinite(gap)]
    rest = [j for j in range(len(judged.judges)) if j not in panel]
    left_out = compare_results(cells, judged.by(rest), own) if rest else None
    return PanelAdvice(
        tuple(judged.judges[j] for j in panel),
        _known_cost(panel, prices),
        float(np.sqrt((gap**2).mean())) if len(gap) else math.inf,
        _fresh_bound(change.change, change.influences),
        float(gap.max(initial=0.0)),
        _tau(change.after, change.before),
        None if left_out is None else _tau(left_out.after, left_out.before),
    )


def _fresh_bound(change: Floats, influences: Floats) -> float:
    """Return what the root mean square of the changes is below on most fresh sets of queries.

    Fresh queries change it by as much as the influences of these queries with random signs.
    """
    known = np.isfinite(change)
    if not known.any():
        return math.inf
    signs = 2.0 * random_bits(generator("fresh queries"), N_FRESH, len(influences)) - 1.0
    drawn = change[known] + signs @ influences[:, known]
    return float(np.quantile(np.sqrt((drawn**2).mean(axis=1)), CHANCE))


def _tau(a: Floats, b: Floats) -> float | None:
    known = np.isfinite(a) & np.isfinite(b)
    return kendall_tau(a[known], b[known]) if known.sum() > 1 else None


def _worths(judged: JudgedCells, prices: Sequence[float | None]) -> tuple[JudgeWorth, ...]:
    cells, everyone = judged.cells, range(len(judged.judges))
    worths = []
    for j, name in enumerate(judged.judges):
        others = judged.by([other for other in everyone if other != j])
        gap = compare_results(cells, judged.full, others).change
        gap = gap[np.isfinite(gap)]
        alone = compare_results(cells, others, judged.result[:, j])
        there = np.isfinite(judged.result[:, j])
        worths.append(
            JudgeWorth(
                name,
                len(np.unique(cells.cluster[cells.place[there]])),
                prices[j],
                float(np.sqrt((gap**2).mean())) if len(gap) else 0.0,
                _tau(alone.after, alone.before),
            )
        )
    return tuple(sorted(worths, key=lambda one: (-one.moves, one.judge)))


# -- a cascade -------------------------------------------------------------------------------------


def _cascade(
    chosen_on: JudgedCells,
    tested_on: JudgedCells,
    panels: Sequence[tuple[int, ...]],
    prices: Sequence[float | None],
) -> CascadeAdvice | None:
    """Return the cheapest cascade that names the full panel's winner often enough, or None.

    Its figures are from held-out queries.
    """
    best: tuple[float, tuple[int, ...], float] | None = None
    full_cost = _cost(range(len(prices)), prices)
    for panel in panels:
        lead, same = _leads(chosen_on, panel)
        for threshold in np.unique(np.quantile(lead, np.linspace(0, 1, N_THRESHOLDS))).tolist():
            unsure = lead < threshold
            n_wrong = int((~(same | unsure)).sum())
            if (n_wrong + 1) / (len(same) + 1) > 1.0 - SAME_WINNER:
                continue
            price = _cost(panel, prices)
            price += float(unsure.mean()) * (full_cost - price)
            if best is None or price < best[0] - 1e-12:
                best = price, panel, threshold
    if best is None:
        return None
    _, panel, threshold = best
    lead, same = _leads(tested_on, panel)
    unsure = lead < threshold
    cheap, full = _known_cost(panel, prices), _known_cost(range(len(prices)), prices)
    average = None
    if cheap is not None and full is not None:
        average = cheap + float(unsure.mean()) * (full - cheap)
    return CascadeAdvice(
        tuple(tested_on.judges[j] for j in panel),
        threshold,
        float(unsure.mean()),
        float((same | unsure).mean()),
        average,
    )


def _leads(judged: JudgedCells, panel: Sequence[int]) -> tuple[Floats, Bools]:
    """Return, by question, the lead of a panel's winner, and whether the full panel agrees."""
    cells = judged.cells
    places, place = np.unique(cells.place, return_inverse=True)
    cheap, full = (
        _shares_by_place(cells, place, len(places), result)
        for result in (judged.by(panel), judged.full)
    )
    ranked = np.sort(np.where(np.isfinite(cheap), cheap, -1.0), axis=1)
    top, second = ranked[:, -1], ranked[:, -2]
    lead = np.where((top < 0.0) | (top - second < SAME), 0.0, top - np.maximum(second, 0.0))
    is_top = cheap >= top[:, None] - SAME
    best = np.nanmax(np.where(np.isfinite(full), full, -1.0), axis=1)
    return lead, (is_top & (full >= best[:, None] - SAME)).any(axis=1)


def _shares_by_place(cells: PairCells, place: Ints, n: int, result: Floats) -> Floats:
    """Return the share of rivals that each model beat in each place; NaN if it has no cell."""
    known, n_models = np.isfinite(result), len(cells.models)
    at = np.concatenate(
        [place[known] * n_models + side[known] for side in (cells.one, cells.other)]
    )
    points = np.concatenate([result[known], 1.0 - result[known]])
    total, count = (np.bincount(at, one, n * n_models) for one in (points, None))
    share = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return share.reshape(n, n_models)
