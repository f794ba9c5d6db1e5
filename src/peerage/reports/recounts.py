"""Selections of reviews, and reviews with marks under other weights.

Options select sessions by season or panel, leave out reviewers, and weight marks again. No model is
called: only ranks and scores of existing rows change, or rows are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError, UsageError, few, meant, shown
from peerage.reports.options import ReviewSelection
from peerage.reviews.cells import Bools, Floats
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Rows
from peerage.types import Rubric

GATED_SCORE = 0.0
DECIMALS = 9
N_NAMED = 10


# -- which reviews -----------------------------------------------------------------------------


def select_reviews(
    table: ReviewTable, options: ReviewSelection, rubric: Rubric | None
) -> ReviewTable:
    """Return the reviews that the options select, with ranks and scores under other weights.

    Raise an error for a season, panel or reviewer that is not in the table.
    """
    if options.season is not None:
        season = find_season(table, options.season)
        table = table.change(partial(_of_season, season=season))
    if options.panel:
        known = names_in(table, "reviewer") | names_in(table, "candidate")
        names = sorted(known_names(options.panel, known, "model or reviewer"))
        table = table.change(partial(_with_panel, panel=names))
        if not sum(table.map(_n_rows)):
            raise UsageError(
                f"no session contains all of {', '.join(names)}.", hint="Name fewer of them."
            )
    if options.review is not None:
        table = table.change(partial(_of_kind, kind=options.review))
        if not sum(table.map(_n_rows)):
            raise UsageError(f"there are no {options.review} reviews.", hint="Leave out --review.")
    if options.without:
        table = leave_out(table, options.without)
    if options.weights:
        weights = options.weight_by_dimension
        check_weights(table.columns, weights)
        table = table.change(partial(recount, rubric=rubric, weights=weights))
    return table


def leave_out(table: ReviewTable, reviewers: Collection[str]) -> ReviewTable:
    """Return the reviews of the other reviewers; raise an error if none is left."""
    there = names_in(table, "reviewer")
    left_out = known_names(reviewers, there, "reviewer")
    if left_out >= there:
        raise UsageError("no reviewer is left.", hint="Leave out fewer reviewers.")
    return table.change(partial(_without, reviewers=left_out))


def names_in(table: ReviewTable, side: str) -> set[str]:
    """Return the names of all reviewers, or of all candidates."""
    return set[str]().union(*table.map(partial(_names_in, side=side)))


def _names_in(rows: Rows, side: str) -> set[str]:
    return {rows.names[code] for code in np.unique(getattr(rows, side)).tolist()}


def _n_rows(rows: Rows) -> int:
    return rows.n


def _of_season(rows: Rows, season: str) -> Rows:
    return rows.only(rows.has_label("season", season))


def _with_panel(rows: Rows, panel: Collection[str]) -> Rows:
    """Return the rows of sessions in which the whole panel took part."""
    whole = np.ones(rows.n_sessions, dtype=bool)
    for name in panel:
        code = rows.code(name)
        sat = np.flatnonzero((rows.candidate == code) | (rows.reviewer == code))
        whole &= np.bincount(rows.session[sat], minlength=rows.n_sessions) > 0
    return rows.only(whole[rows.session])


def _of_kind(rows: Rows, kind: str) -> Rows:
    return rows.only((rows.number("committed") >= 1) == (kind == "committed"))


def _without(rows: Rows, reviewers: Collection[str]) -> Rows:
    counts = np.array([name not in reviewers for name in rows.names], dtype=bool)
    return rows.only(counts[rows.reviewer])


def known_names(names: Iterable[str], known: Collection[str], what: str) -> set[str]:
    """Return these names if a table has all of them; an unknown one is first split at commas."""
    wanted = {
        part.strip()
        for name in names
        for part in ([name] if name in known else name.split(","))
        if part.strip()
    }
    if unknown := sorted(wanted - set(known)):
        hint = meant(unknown[0], known) or f"Known: {few(sorted(known), N_NAMED)}."
        raise UsageError(f"there is no {what} {shown(unknown[0])} in these reviews.", hint=hint)
    return wanted


def find_season(table: ReviewTable, season: str) -> str:
    """Return the id of the one season that begins with this text."""
    seasons = set[str]().union(*table.map(lambda rows: rows.labels_there("season")))
    matches = sorted(name for name in seasons if name.startswith(season))
    if season in seasons:
        return season
    if len(matches) == 1 and season:
        return matches[0]
    about = f"{len(matches)} seasons begin with" if matches and season else "there is no season"
    hint = f"Known: {few(sorted(seasons), N_NAMED)}." if seasons else "No review names its season."
    raise UsageError(f"{about} {shown(season)} in these reviews.", hint=hint)


# -- other weights -----------------------------------------------------------------------------


def check_weights(columns: Collection[str], weights: Collection[str]) -> None:
    """Raise an error for weights of dimensions for which no review has a mark."""
    marks = [name.removeprefix(MARK) for name in columns if name.startswith(MARK)]
    if unknown := sorted(set(weights) - set(marks)):
        raise UsageError(
            f"no review has a mark for {shown(unknown[0])}.",
            hint=meant(unknown[0], marks) or f"Known: {', '.join(marks) or 'none'}.",
        )
    if "accuracy" not in marks:
        raise InputError(
            "no review has a mark for accuracy, which the score needs.",
            hint="Weights and ceilings only apply to reviews made with a rubric.",
        )


def recount(
    rows: Rows,
    rubric: Rubric | None,
    weights: Mapping[str, float],
    *,
    ceiling: bool = True,
    failed: Collection[tuple[str, str]] = (),
) -> Rows:
    """Return the same reviews with ranks and scores computed under other options.

    Without weights the rubric's own are used. `failed` has the answers that fail the gate, by
    session and model.
    """
    score = rows.number("score").copy()
    marked = np.full(rows.n, np.nan)
    if weights or not ceiling:
        marked = _overall(rows, rubric, weights, ceiling)
    changed = ~np.isnan(marked)
    score[changed] = marked[changed]
    gated = np.zeros(rows.n, dtype=bool)
    if failed:
        place = {id_: i for i, id_ in enumerate(rows.session_ids.tolist())}
        answers = {
            place[session] * len(rows.names) + rows.code(name)
            for session, name in failed
            if session in place and name in rows.names
        }
        gated = np.isin(rows.session * len(rows.names) + rows.candidate, list(answers))
        score[gated & ~np.isnan(score)] = GATED_SCORE
    numbers = {"score": score, "rank": _rank_again(rows, score, changed | gated, gated)}
    ballot = rows.ballots()
    touched = np.bincount(ballot, changed | gated)[ballot] > 0
    return replace(rows, numbers={**rows.numbers, **numbers}).without_probability(touched)


def _overall(
    rows: Rows, rubric: Rubric | None, weights: Mapping[str, float], ceiling: bool
) -> Floats:
    """Return each row's weighted marks under the ceilings; NaN without a mark for accuracy."""
    marks = {
        name.removeprefix(MARK): values
        for name, values in rows.numbers.items()
        if name.startswith(MARK)
    }
    if not weights:
        weights = {name: float(w) for name, w in rubric.weights.items()} if rubric else {}
    total, weighed = np.zeros(rows.n), np.zeros(rows.n)
    for name in (name for name in weights if name in marks):
        marked = ~np.isnan(marks[name])
        total += weights[name] * np.where(marked, marks[name], 0.0)
        weighed += weights[name] * marked
    accuracy = marks["accuracy"]
    weighed[np.isnan(accuracy) | (weighed == 0)] = np.nan
    # Rounded, so that sums which are equal on paper are equal here.
    overall = np.round(total / weighed, DECIMALS)
    for below, at_most in rubric.ceilings if rubric and ceiling else ():
        overall = np.where(accuracy < float(below), np.minimum(overall, float(at_most)), overall)
    return overall


def _rank_again(rows: Rows, score: Floats, changed: Bools, gated: Bools) -> Floats:
    """Return ranks within each changed ballot; the old rank breaks ties."""
    old, ballot = rows.number("rank"), rows.ballots()
    touched = np.bincount(ballot, changed)[ballot] > 0
    at = np.flatnonzero(touched & ~(np.isnan(old) & np.isnan(score)))
    best_first = np.where(np.isnan(score), np.inf, -score)
    keys = np.stack([np.where(np.isnan(old), np.inf, old), best_first, gated, ballot])[:, at]
    order = np.lexsort(keys)  # by ballot, then best first
    at, keys = at[order], keys[:, order]
    differs = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    tie = np.cumsum(np.append(True, differs)[: len(at)]) - 1
    place = np.arange(len(at)) - np.searchsorted(keys[-1], keys[-1]) + 1.0
    ranks = np.where(touched, np.nan, old)
    ranks[at] = (np.bincount(tie, place) / np.bincount(tie))[tie]
    return ranks
