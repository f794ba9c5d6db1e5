"""Two views of scores that correct for harsh and generous graders, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from peerage.boards.model_sums import ModelSums
from peerage.reviews.cells import Floats, Ints
from peerage.stats import clusters as by_cluster
from peerage.stats.strengths import groups_that_met

LEVEL = 0.95
MAX_SWEEPS = 5_000
FLAT = 1e-12
SCORE_ENDS = ("mean_score_low", "mean_score_high", "z_score_low", "z_score_high")


def _has_scores(totals: ModelSums) -> bool:
    return "scores" in totals.tables and totals.tables["scores"].n > 0


def fitted_scores(totals: ModelSums) -> Floats:
    """Return each model's mean score by graders of average level; NaN without a score.

    A score is the grader's level plus the model's value, fitted to the means of each grader and
    model by alternating least squares. No grader grades itself, so a harsh grader lowers the plain
    mean of every model except its own. Groups of graders and models that have no connection to
    other groups keep their own mean level.
    """
    if not _has_scores(totals):
        return np.full(len(totals.models), np.nan)
    reviewer, model, sums = totals.by_reviewer("scores")
    _, who = np.unique(reviewer, return_inverse=True)
    weight, score = sums["weight"], sums["score"]
    by_who = np.maximum(np.bincount(who, weight), FLAT)
    by_model = np.bincount(model, weight, minlength=len(totals.models))
    level, value = np.zeros(len(by_who)), np.zeros(len(totals.models))
    for _ in range(MAX_SWEEPS):
        left = np.bincount(model, score - weight * level[who], minlength=len(totals.models))
        new = left / np.maximum(by_model, FLAT)
        level = np.bincount(who, score - weight * new[model]) / by_who
        moved, value = float(np.abs(new - value).max(initial=0.0)), new
        if moved <= FLAT:
            break
    return np.where(by_model > 0.0, value, np.nan)


def z_scores(totals: ModelSums) -> Floats:
    """Return scores z-normalised per reviewer, then averaged session by session.

    A reviewer who gives equal scores counts as zero; a model without a score is NaN.
    """
    if not _has_scores(totals):
        return np.full(len(totals.models), np.nan)
    reviewer, model, sums = totals.by_reviewer("scores")
    _, place = np.unique(reviewer, return_inverse=True)
    added = np.bincount(model, weights=_z_sums(place, sums), minlength=len(totals.models))
    return by_cluster.quotient(added, totals.by_model["scored"])


def _z_sums(place: Ints, sums: Mapping[str, Floats]) -> Floats:
    """Return sums of scores minus the reviewer's mean, over its spread, by reviewer and model."""
    n, total, squares = (np.bincount(place, sums[name]) for name in ("n", "sum", "squares"))
    mean = total / np.maximum(n, 1.0)
    spread = squares - n * mean * mean
    flat = spread <= FLAT * np.maximum(squares, 1.0)
    sd = np.sqrt(np.where(flat, 1.0, spread) / np.maximum(n - 1.0, 1.0))
    gap = sums["score"] - mean[place] * sums["weight"]
    return np.where(flat[place], 0.0, gap / sd[place])


def score_intervals(
    totals: ModelSums, mean_score: Floats | Ints, z_score: Floats | Ints
) -> dict[str, Floats]:
    """Return the interval ends of both views of scores, from the values without each fold."""
    n_models = len(totals.models)
    if not _has_scores(totals):
        return dict.fromkeys(SCORE_ENDS, np.full(n_models, np.nan))
    cells = totals.tables["scores"]
    subjects, pair = np.unique(cells.subject, return_inverse=True)
    reviewer, candidate = np.divmod(subjects, len(totals.names))
    model = totals.place[candidate]
    _, who = np.unique(reviewer, return_inverse=True)
    whole: dict[str, Floats] = {
        name: np.bincount(pair, column).astype(np.float64)
        for name, column in totals.columns("scores").items()
    }
    folds = np.unique(cells.cluster)
    means, zs = np.full((2, len(folds), n_models), np.nan)
    for at, fold in enumerate(folds.tolist()):
        here = np.flatnonzero(cells.cluster == fold)
        part = dict(zip(whole, cells.sums[here].T, strict=True))
        left = {
            name: column - np.bincount(pair[here], part[name], minlength=len(subjects))
            for name, column in whole.items()
        }
        weight = np.bincount(model, left["weight"], minlength=n_models)
        touched = np.zeros(n_models, dtype=bool)
        touched[model[pair[here]]] = True
        touched &= weight > FLAT
        means[at, touched] = solve_scores(who, model, left["weight"], left["score"], n_models)[
            touched
        ]
        z = by_cluster.quotient(np.bincount(model, _z_sums(who, left), n_models), weight)
        zs[at, touched] = z[touched]
    ends = []
    for value, left_out in ((mean_score, means), (z_score, zs)):
        half = by_cluster.left_out_pulls(left_out).halves(LEVEL)
        ends += [value - half, value + half]
    return dict(zip(SCORE_ENDS, ends, strict=True))


def solve_scores(who: Ints, model: Ints, weight: Floats, score: Floats, n_models: int) -> Floats:
    """Return the fit of `fitted_scores` in one step: graders are eliminated, models solved for.

    In each group that shares graders, the graders' weighted levels add up to zero.
    """
    table = np.zeros((int(who.max()) + 1, n_models))
    table[who, model] = np.maximum(weight, 0.0)
    by_who = np.maximum(table.sum(axis=1), FLAT)
    share = table / by_who[:, None]
    by_model = table.sum(axis=0)
    wanted = np.bincount(model, score, minlength=n_models)
    total = np.bincount(who, score, minlength=len(table))
    system = np.diag(by_model) - table.T @ share
    target = wanted - share.T @ total
    groups = groups_that_met(table.T @ share)
    for code in range(int(groups.max(initial=-1)) + 1):
        own = np.flatnonzero(groups == code)
        anchor = by_model[own] / max(float(by_model[own].sum()), FLAT)
        system[np.ix_(own, own)] += np.outer(by_model[own], anchor)
        target[own] += anchor * wanted[own].sum()
    system += np.diag(np.where(by_model > 0.0, 0.0, 1.0))
    solved: Floats = np.linalg.solve(system, target).astype(np.float64)
    return np.where(by_model > 0.0, solved, np.nan)
