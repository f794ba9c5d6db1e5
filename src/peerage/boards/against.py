"""A board beside a ranking from elsewhere: how far they agree, and who moves most."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.boards.opinions import Floats, Ints
from peerage.stats.agreement import kendall_tau, midranks, spearman
from peerage.stats.correlations import fisher_interval

N_MOVERS = 10
N_FOLDS = 5
N_TO_TUNE = 10  # names in common; fewer leave folds without pairs


@dataclass(frozen=True, slots=True)
class Mover:
    """A name with its place here and elsewhere, among the names both have."""

    name: str
    here: float
    there: float

    @property
    def moved(self) -> float:
        return self.there - self.here


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rank correlations with intervals, None where undefined, over the names in common."""

    n: int
    n_only_here: int
    n_only_there: int
    kendall: float | None
    kendall_interval: tuple[float, float] | None
    spearman: float | None
    spearman_interval: tuple[float, float] | None
    movers: tuple[Mover, ...]

    def document(self) -> dict[str, Any]:
        kendall, rho = self.kendall_interval, self.spearman_interval
        return {
            "n": self.n,
            "only_here": self.n_only_here,
            "only_there": self.n_only_there,
            "kendall_tau": self.kendall,
            "kendall_low": kendall[0] if kendall else None,
            "kendall_high": kendall[1] if kendall else None,
            "spearman": self.spearman,
            "spearman_low": rho[0] if rho else None,
            "spearman_high": rho[1] if rho else None,
            "movers": [
                {"name": one.name, "here": one.here, "there": one.there, "moved": one.moved}
                for one in self.movers
            ],
        }


def compare(here: Mapping[str, float], there: Mapping[str, float]) -> Comparison:
    """Two sets of scores by name, higher is better in both, over the names that both have."""
    names = sorted(here.keys() & there.keys())
    ours = np.array([here[name] for name in names], dtype=np.float64)
    theirs = np.array([there[name] for name in names], dtype=np.float64)
    tau, rho = kendall_tau(ours, theirs), spearman(ours, theirs)
    n = len(names)
    places, others = midranks(-ours), midranks(-theirs)
    movers = [
        Mover(name, float(place), float(other))
        for name, place, other in zip(names, places, others, strict=True)
        if place != other
    ]
    movers.sort(key=lambda one: (-abs(one.moved), one.name))
    return Comparison(
        n,
        len(here) - n,
        len(there) - n,
        tau,
        None if tau is None else fisher_interval(tau, n, kind="kendall"),
        rho,
        None if rho is None else fisher_interval(rho, n, kind="spearman"),
        tuple(movers[:N_MOVERS]),
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the coefficients, and the scores it gives."""

    settings: Mapping[str, Any]
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The setting that agrees best with an outside ranking, and what that is worth.

    `kendall` is its agreement with the very ranking it was chosen by; `cross_validated` is
    that of settings chosen without the names they are judged on, and the one to believe.
    """

    settings: Mapping[str, Any]
    kendall: float | None
    cross_validated: float | None
    before: float | None  # with the settings that were in force
    n: int
    n_tried: int

    def document(self) -> dict[str, Any]:
        return {
            "settings": dict(self.settings),
            "kendall_tau": self.kendall,
            "cross_validated": self.cross_validated,
            "before": self.before,
            "n": self.n,
            "tried": self.n_tried,
        }


def tune(trials: Sequence[Trial], there: Mapping[str, float]) -> Tuned:
    """The best of the trials, the first of which is what was in force; it wins all ties.

    Names are dealt into folds by a hash of theirs; the agreement of a fold is over the pairs
    inside it, and folds count by their pairs.
    """
    names = sorted(set.intersection(set(there), *(set(trial.scores) for trial in trials)))
    theirs = np.array([there[name] for name in names], dtype=np.float64)
    ours = [np.array([trial.scores[name] for name in names]) for trial in trials]
    everyone = np.arange(len(names))
    best, tau = _best(ours, theirs, everyone)
    return Tuned(
        trials[best].settings,
        tau,
        _cross_validated(ours, theirs, _folds(names)),
        kendall_tau(ours[0], theirs) if len(names) > 1 else None,
        len(names),
        len(trials),
    )


def _best(ours: Sequence[Floats], theirs: Floats, chosen: Ints) -> tuple[int, float | None]:
    taus = [kendall_tau(scores[chosen], theirs[chosen]) for scores in ours]
    best = max(range(len(taus)), key=lambda i: (-2.0 if taus[i] is None else taus[i], -i))
    return best, taus[best]


def _folds(names: Sequence[str]) -> Ints:
    """The fold of each name: dealt in the order of their hashes, so that folds are even."""
    digests = [hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest() for name in names]
    folds = np.zeros(len(names), dtype=np.int64)
    folds[sorted(range(len(names)), key=digests.__getitem__)] = np.arange(len(names)) % N_FOLDS
    return folds


def _cross_validated(ours: Sequence[Floats], theirs: Floats, folds: Ints) -> float | None:
    if len(theirs) < N_TO_TUNE:
        return None
    total, n_pairs = 0.0, 0
    for fold in range(N_FOLDS):
        held = np.flatnonzero(folds == fold)
        best, _ = _best(ours, theirs, np.flatnonzero(folds != fold))
        tau = kendall_tau(ours[best][held], theirs[held])
        if tau is not None:
            pairs = len(held) * (len(held) - 1) // 2
            total, n_pairs = total + tau * pairs, n_pairs + pairs
    return total / n_pairs if n_pairs else None
