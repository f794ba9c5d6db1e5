"""Which judges a panel needs: cheaper panels and cascades, tested on held-out queries.

The board of a panel is the mean over queries of the mean share that its judges give to a model. A
smaller panel is compared with the full panel's board on queries that it was not chosen on; only
those figures are reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from peerage.errors import InputError, how_many
from peerage.notebooks import Tabular
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.judge_shares import JudgeShares, model_means, row_means
from peerage.stats.ranking import kendall_tau

MAX_ALL_SUBSETS = 12  # judges; with more, panels are built one judge at a time
CHUNK = 256  # panels that are added up at once
MIN_QUERIES = 20
MIN_JUDGES = 3
SAME_WINNER = 0.95  # share of queries on which a cascade must name the full panel's winner
N_THRESHOLDS = 41
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
    cheapest: PanelAdvice | None  # within the distance asked for, on the queries it was chosen on
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


def choose_panel(shares: JudgeShares, price_by_judge: Mapping[str, float], within: float) -> Advice:
    """Return each judge's contribution, the best smaller panels, and a cascade."""
    n_judges, n_queries = len(shares.reviewers), len(np.unique(shares.unit))
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
    order = np.argsort(shares.folds, kind="stable")
    half = np.zeros(len(shares.units), dtype=bool)
    half[order[::2]] = True
    chosen_on, tested_on = shares.only(half[shares.unit]), shares.only(~half[shares.unit])
    prices = [price_by_judge.get(name) for name in shares.reviewers]
    panels = candidate_panels(chosen_on)
    distance = _distances(chosen_on, panels)
    cost = np.array([_cost(panel, prices) for panel in panels])
    best: dict[int, int] = {}
    for at in np.lexsort((distance, cost)).tolist():
        size = len(panels[at])
        if size not in best or distance[at] < distance[best[size]] - 1e-12:
            best[size] = at
    fit = [at for at in range(len(panels)) if distance[at] <= within and len(panels[at]) < n_judges]
    cheapest = min(fit, key=lambda at: (cost[at], len(panels[at]), distance[at]), default=None)
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
        queries=(len(np.unique(chosen_on.unit)), len(np.unique(tested_on.unit))),
    )


def candidate_panels(shares: JudgeShares) -> list[tuple[int, ...]]:
    """Return the panels to compare: all of them if judges are few, else a good one of each size."""
    n = len(shares.reviewers)
    if n <= MAX_ALL_SUBSETS:
        return [some for size in range(1, n + 1) for some in combinations(range(n), size)]
    panels: list[tuple[int, ...]] = []
    current: tuple[int, ...] = ()
    for _ in range(n - 1):
        more = [tuple(sorted((*current, j))) for j in range(n) if j not in current]
        current = more[int(_distances(shares, more).argmin())]
        swaps = [
            tuple(sorted({*current} - {out} | {new}))
            for out in current
            for new in range(n)
            if new not in current
        ]
        if swaps:
            gaps = _distances(shares, [current, *swaps])
            current = [current, *swaps][int(gaps.argmin())]
        panels.append(current)
    return [*panels, tuple(range(n))]


def _distances(shares: JudgeShares, panels: Sequence[tuple[int, ...]]) -> Floats:
    """Return the root mean square distance of each panel's board from the full panel's."""
    known = np.isfinite(shares.share).astype(np.float64)
    filled = np.where(known > 0, shares.share, 0.0)
    full = model_means(shares, row_means(shares.share))
    n_models, distances = len(shares.models), []
    starts, order = _runs(shares.model, n_models)
    filled, known = filled[order], known[order]
    for first in range(0, len(panels), CHUNK):
        part = panels[first : first + CHUNK]
        member = np.zeros((len(shares.reviewers), len(part)))
        for k, panel in enumerate(part):
            member[list(panel), k] = 1.0
        n = known @ member
        mean = np.divide(filled @ member, n, out=np.zeros_like(n), where=n > 0)
        n_rows = np.add.reduceat((n > 0).astype(np.float64), starts, axis=0)
        board = np.add.reduceat(mean, starts, axis=0) / np.where(n_rows > 0, n_rows, np.nan)
        gap = board - full[np.unique(shares.model)][:, None]
        distances.append(np.sqrt(np.where(np.isfinite(gap), gap**2, 1.0).mean(axis=0)))
    return np.concatenate(distances)


def _runs(codes: Ints, n: int) -> tuple[Ints, Ints]:
    """Return where each code starts in an order that puts equal codes together, and that order."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n)
    counts = counts[counts > 0]
    return np.cumsum(counts) - counts, order


def _cost(panel: Sequence[int], prices: Sequence[float | None]) -> float:
    """Return the price of a panel; if a price is unknown, the number of its judges."""
    known = _known_cost(range(len(prices)), prices)
    return float(len(panel)) if known is None else sum(prices[j] or 0.0 for j in panel)


def _known_cost(panel: Sequence[int] | range, prices: Sequence[float | None]) -> float | None:
    values = [prices[j] for j in panel]
    return None if any(value is None for value in values) else math.fsum(v or 0.0 for v in values)


def _test_panel(
    panel: tuple[int, ...], shares: JudgeShares, prices: Sequence[float | None]
) -> PanelAdvice:
    """Return a panel with its figures on held-out queries."""
    full = model_means(shares, row_means(shares.share))
    board = model_means(shares, row_means(shares.share[:, list(panel)]))
    rest = [j for j in range(len(shares.reviewers)) if j not in panel]
    others = model_means(shares, row_means(shares.share[:, rest])) if rest else full
    gap = np.abs(board - full)
    gap = gap[np.isfinite(gap)]
    return PanelAdvice(
        tuple(shares.reviewers[j] for j in panel),
        _known_cost(panel, prices),
        float(np.sqrt((gap**2).mean())) if len(gap) else math.inf,
        float(gap.max(initial=0.0)),
        _tau(board, full),
        _tau(board, others) if rest else None,
    )


def _tau(a: Floats, b: Floats) -> float | None:
    known = np.isfinite(a) & np.isfinite(b)
    return kendall_tau(a[known], b[known]) if known.sum() > 1 else None


def _worths(shares: JudgeShares, prices: Sequence[float | None]) -> tuple[JudgeWorth, ...]:
    full = model_means(shares, row_means(shares.share))
    worths = []
    for j, name in enumerate(shares.reviewers):
        others = model_means(shares, row_means(np.delete(shares.share, j, axis=1)))
        own = model_means(shares, shares.share[:, j])
        gap = (others - full)[np.isfinite(others - full)]
        there = np.isfinite(shares.share[:, j])
        worths.append(
            JudgeWorth(
                name,
                len(np.unique(shares.unit[there])),
                prices[j],
                float(np.sqrt((gap**2).mean())) if len(gap) else 0.0,
                _tau(own, others),
            )
        )
    return tuple(sorted(worths, key=lambda one: (-one.moves, one.judge)))


# -- a cascade -------------------------------------------------------------------------------------


def _cascade(
    chosen_on: JudgeShares,
    tested_on: JudgeShares,
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
        tuple(tested_on.reviewers[j] for j in panel),
        threshold,
        float(unsure.mean()),
        float((same | unsure).mean()),
        average,
    )


def _leads(shares: JudgeShares, panel: Sequence[int]) -> tuple[Floats, Bools]:
    """Return, by query, the lead of a panel's winner, and whether the full panel agrees."""
    cheap, full = row_means(shares.share[:, list(panel)]), row_means(shares.share)
    starts = np.flatnonzero(np.append(True, np.diff(shares.unit) != 0))
    cheap = np.where(np.isfinite(cheap), cheap, -1.0)
    full = np.where(np.isfinite(full), full, -1.0)
    top = np.maximum.reduceat(cheap, starts)
    span = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(cheap))))
    is_top = cheap == top[span]
    n_top = np.add.reduceat(is_top.astype(np.int64), starts)
    second = np.maximum.reduceat(np.where(is_top, -1.0, cheap), starts)
    lead = np.where((n_top > 1) | (top < 0), 0.0, top - np.maximum(second, 0.0))
    best = np.maximum.reduceat(full, starts)
    agrees = np.logical_or.reduceat(is_top & (full == best[span]), starts)
    return lead, agrees
