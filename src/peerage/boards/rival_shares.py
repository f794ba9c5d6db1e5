"""Put judges' and people's shares on common rivals, where models met different rivals.

People review some of the queries, and these may lack models that other queries have. A plain share
there depends on the rivals that happened to be present. So each share is measured against what the
judges' results on the same pairs of models are on average, and added to the share that the board's
own estimator gives the model. Identical judges and people then have equal shares on any queries.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from peerage.boards.common_cells import PairCells, fit_cells
from peerage.reviews.cells import Floats, Ints, dense
from peerage.reviews.judge_shares import JudgeShares
from peerage.stats.clusters import quotient


@dataclass(frozen=True, slots=True)
class RivalShares:
    """Shares on common rivals by row and reviewer, and the judges' board that they refer to."""

    shares: JudgeShares
    value: Floats  # by model: the judges' share as estimated on a board; NaN for none
    influences: Floats  # queries by models: of each query on these values


def met_alike(shares: JudgeShares) -> bool:
    """Return whether every reviewer judged all models on each query that it judged."""
    there = np.isfinite(shares.share)
    n_judged = np.zeros((len(shares.units), there.shape[1]), dtype=np.int64)
    np.add.at(n_judged, shares.unit, there)
    return bool(np.isin(n_judged, (0, len(shares.models))).all())


def rival_shares(
    shares: JudgeShares, cells: PairCells, people: Collection[str]
) -> RivalShares | None:
    """Return the shares on common rivals; None if the judges' results do not connect all models.

    A model that no judge compared keeps its plain shares.
    """
    is_judge = np.array([name not in people for name in cells.judges], dtype=bool)
    panel = cells.results(is_judge)
    fit = fit_cells(cells, panel)
    if not fit.is_connected:
        return None
    place = {name: code for code, name in enumerate(cells.models)}
    model = np.array([place[name] for name in shares.models], dtype=np.int64)
    value = fit.value[model]
    beyond = _beyond_rates(shares, cells, panel, model)
    own = value[shares.model, None] + beyond
    share = np.where(np.isfinite(value)[shares.model, None], own, shares.share)
    n = np.bincount(shares.model[np.isfinite(share).any(axis=1)], minlength=len(model))
    influences = np.zeros((len(shares.units), len(model)))
    influences[: len(fit.influences)] = fit.influences[:, model]
    influences *= np.sqrt(n / np.maximum(n - 1.0, 1.0))
    return RivalShares(replace(shares, share=share), value, influences)


def _beyond_rates(shares: JudgeShares, cells: PairCells, panel: Floats, model: Ints) -> Floats:
    """Return, by row and reviewer, the mean over rivals of a result minus the judges' rate."""
    n, n_judges = len(cells.models), len(cells.judges)
    known = np.isfinite(panel)
    pair = cells.one.astype(np.int64) * n + cells.other
    met = np.bincount(pair[known], minlength=n * n)
    rate = quotient(np.bincount(pair[known], panel[known], n * n), met)
    gap = cells.above - rate[pair[cells.cell]]
    some = np.flatnonzero(np.isfinite(gap))
    cell, judge = cells.cell[some], cells.judge[some].astype(np.int64)
    row = cells.place[cell].astype(np.int64) * n_judges + judge
    key = np.concatenate([row * n + cells.one[cell], row * n + cells.other[cell]])
    code, n_keys = dense(key)
    total = np.bincount(code, np.concatenate([gap[some], -gap[some]]), n_keys)
    mean = quotient(total, np.bincount(code, minlength=n_keys))
    keys = np.zeros(n_keys, dtype=np.int64)
    keys[code] = key
    place = {name: column for column, name in enumerate(cells.judges)}
    reviewer = np.array([place[name] for name in shares.reviewers], dtype=np.int64)
    wanted = (shares.unit[:, None] * n_judges + reviewer) * n + model[shares.model][:, None]
    if not n_keys:
        return np.full(wanted.shape, np.nan)
    at = np.minimum(np.searchsorted(keys, wanted), n_keys - 1)
    return np.where(keys[at] == wanted, mean[at], np.nan)
