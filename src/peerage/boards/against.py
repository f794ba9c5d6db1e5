"""Comparison of a board with another ranking: their agreement, and the names that move most."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.reviews.cells import Floats, Ints
from peerage.stats.correlations import fisher_interval
from peerage.stats.ranking import kendall_tau, midranks, spearman

N_MOVERS = 10
N_FOLDS = 5
N_TO_TUNE = 10  # common names; with fewer, some folds have no pairs


def compare(here: Mapping[str, float], there: Mapping[str, float]) -> dict[str, Any]:
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
    agreement of settings on names that were not used to choose them; trust this one. Names are
    assigned to folds by their hashes. The agreement of a fold is over the pairs inside it, and
    folds count by their pairs.
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
