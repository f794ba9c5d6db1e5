"""Outside rankings: read, compared with a board, and used to choose coefficients."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards import Board
from peerage.engines import Engine, Source
from peerage.engines.review_tables import trimmed_names
from peerage.errors import InputError, UsageError
from peerage.reviews.cells import Floats, Ints
from peerage.rules import rules
from peerage.stats.correlations import fisher_interval
from peerage.stats.ranking import kendall_tau, midranks, spearman

N_MOVERS = 10
N_FOLDS = 5
N_TO_TUNE = 10  # common names; with fewer, some folds have no pairs
NAMES = ("name", "model", "contributor", "reviewer", "item_id", "user_id")
SCORES = {  # by board: the columns of names and of scores
    "models": ("model", "share"),
    "contributors": ("contributor", "total_score"),
    "reviewers": ("reviewer", "pearson"),
    "items": ("item_id", "quality"),
}


def compare_with(
    board: Board, engine: Engine, source: Source, trials: Iterable[Trial] = ()
) -> Board:
    """Return a board with its agreement with an outside ranking in its notes.

    Given trials of other coefficients, also return those that agree best; trust the cross-validated
    figure.
    """
    outside = read_outside(engine, source)
    notes = {**board.notes, "against": compare_scores(scores_of(board), outside)}
    if tried := list(trials):
        notes["tuned"] = tune(tried, outside)
    return replace(board, notes=notes)


def read_outside(engine: Engine, source: Source) -> dict[str, float]:
    """Return scores by name from a table with a `score` (higher is better) or a `rank`."""
    opened = engine.open(source)
    columns = list(opened.collect_schema().names())
    key = next((name for name in NAMES if name in columns), None)
    value = next((name for name in ("score", "rank") if name in columns), None)
    if key is None or value is None:
        raise InputError(
            "an outside ranking needs names and a score or a rank.",
            hint=f"Name column: one of {', '.join(NAMES)}; value column: score or rank. It "
            f"has: {', '.join(columns[:20])}.",
        )
    named = opened.select(nw.col(key).cast(nw.String), nw.col(value).cast(nw.Float64))
    scores = engine.arrays(trimmed_names(named, [key]))
    sign = -1.0 if value == "rank" else 1.0
    names, values = scores[key].tolist(), np.asarray(scores[value], dtype=np.float64)
    nameless = np.array([name is None for name in names], dtype=bool)
    wrong = np.flatnonzero(nameless | ~np.isfinite(values))
    if len(wrong):
        raise InputError(f"the outside ranking lacks a name or a {value} in row {wrong[0] + 1}.")
    if len(set(names)) != len(names):
        raise InputError(
            "the outside ranking contains a name twice.", hint="Keep one row per name."
        )
    return dict(zip(names, (sign * values).tolist(), strict=True))


def scores_of(board: Board) -> dict[str, float]:
    """Return the scores of a board's ranked names; higher is always better."""
    if "category" in board.columns:
        raise UsageError(
            "agreement with an outside ranking needs one board, not one per category.",
            hint="Name one category.",
        )
    key, column, sign = *SCORES[board.board], 1.0
    if "value" in board.columns:  # of models, by another rule
        column, sign = "value", -1.0 if rules.get(board.notes["rule"]).lower_is_better else 1.0
    values = np.asarray(board.columns[column], dtype=np.float64)
    ranked = board.columns.get("rank", values)
    return {
        name: sign * value
        for name, value, rank in zip(board.columns[key], values.tolist(), ranked, strict=True)
        if rank is not None and np.isfinite(value)
    }


def compare_scores(here: Mapping[str, float], there: Mapping[str, float]) -> dict[str, Any]:
    """Return the agreement of two sets of scores over their common names, and the largest moves.

    Higher is better in both. Rank correlations have intervals, None if undefined.
    """
    names = sorted(here.keys() & there.keys())
    ours, theirs = (np.array([side[name] for name in names], float) for side in (here, there))
    n, tau, rho = len(names), kendall_tau(ours, theirs), spearman(ours, theirs)
    kendall = None if tau is None else fisher_interval(tau, n, kind="kendall")
    rank_r = None if rho is None else fisher_interval(rho, n, kind="spearman")
    (tau_low, tau_high), (rho_low, rho_high) = kendall or (None, None), rank_r or (None, None)
    places = (midranks(-ours).tolist(), midranks(-theirs).tolist())
    movers = [
        {"name": name, "here": place, "there": other, "moved": other - place}
        for name, place, other in zip(names, *places, strict=True)
        if place != other
    ]
    movers.sort(key=lambda mover: (-abs(mover["moved"]), mover["name"]))
    return {
        "n": n,
        "only_here": len(here) - n,
        "only_there": len(there) - n,
        "kendall_tau": tau,
        "kendall_low": tau_low,
        "kendall_high": tau_high,
        "spearman": rho,
        "spearman_low": rho_low,
        "spearman_high": rho_high,
        "movers": movers[:N_MOVERS],
    }


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the coefficients, and the scores it gives."""

    settings: Mapping[str, Any]
    scores: Mapping[str, float]


def tune(trials: Sequence[Trial], there: Mapping[str, float]) -> dict[str, Any]:
    """Return the best of the trials; the first is the current setting and wins all ties.

    `kendall_tau` is its agreement with the ranking by which it was chosen. `cross_validated` is the
    agreement of settings on names that were not used to choose them; trust this figure. Names are
    assigned to folds by their hashes. The agreement of a fold is over the pairs inside it, and
    folds are weighted by their numbers of pairs.
    """
    names = sorted(set.intersection(set(there), *(set(trial.scores) for trial in trials)))
    theirs = np.array([there[name] for name in names], dtype=np.float64)
    ours = [np.array([trial.scores[name] for name in names]) for trial in trials]
    best, tau = _best(ours, theirs, np.arange(len(names)))
    return {
        "settings": dict(trials[best].settings),
        "kendall_tau": tau,
        "cross_validated": _cross_validate(ours, theirs, _folds(names)),
        "before": kendall_tau(ours[0], theirs) if len(names) > 1 else None,
        "n": len(names),
        "tried": len(trials),
    }


def _best(ours: Sequence[Floats], theirs: Floats, chosen: Ints) -> tuple[int, float | None]:
    taus = [kendall_tau(scores[chosen], theirs[chosen]) for scores in ours]
    best = max(range(len(taus)), key=lambda i: (-2.0 if taus[i] is None else taus[i], -i))
    return best, taus[best]


def _folds(names: Sequence[str]) -> Ints:
    """Return the fold of each name, assigned in the order of their hashes in equal sizes."""
    digests = [hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest() for name in names]
    folds = np.zeros(len(names), dtype=np.int64)
    folds[sorted(range(len(names)), key=digests.__getitem__)] = np.arange(len(names)) % N_FOLDS
    return folds


def _cross_validate(ours: Sequence[Floats], theirs: Floats, folds: Ints) -> float | None:
    if len(theirs) < N_TO_TUNE:
        return None
    total, n_pairs = 0.0, 0
    for fold in range(N_FOLDS):
        left_out = np.flatnonzero(folds == fold)
        best, _ = _best(ours, theirs, np.flatnonzero(folds != fold))
        tau = kendall_tau(ours[best][left_out], theirs[left_out])
        if tau is not None:
            pairs = len(left_out) * (len(left_out) - 1) // 2
            total, n_pairs = total + tau * pairs, n_pairs + pairs
    return total / n_pairs if n_pairs else None
