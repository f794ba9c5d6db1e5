"""Rules that are not means over sessions: they read ballots in order, or count pairs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from peerage.boards.model_sums import ModelSums
from peerage.boards.models import (
    MEANS,
    Estimates,
    cluster_estimates,
    common_values,
    left_out_estimates,
    n_queries,
    plain,
    provisional,
    rating_estimates,
    standing,
)
from peerage.errors import UsageError
from peerage.registry import PluginError
from peerage.reviews.cells import Floats
from peerage.reviews.rows import N_FOLDS, Rows, by_session
from peerage.reviews.spread_marks import session_marks
from peerage.reviews.votes import votes
from peerage.rules import rules
from peerage.rules.elo import ratings_left_out
from peerage.rules.hybrid import check_scale
from peerage.rules.marks import refuse_without_marks
from peerage.types import OwnVotes, Placing

if TYPE_CHECKING:
    from peerage.reports.board_reviews import BoardReviews

MAX_PLACED_ROWS = 500_000  # limit for rules that read one ballot after another
# Built-in rules in the order in which they are compared; rules of plug-ins follow.
COMPARED = ("borda", "marks", "bradley_terry", "elo", "mean_rank", "hybrid", "copeland", "schulze")
TOO_MANY = "too many ballots to read one after another"


class FoldedPlacings(NamedTuple):
    """Ballots ordered by time, with the fold of each ballot's query."""

    placings: list[Placing]
    folds: list[int]


def placings_of(rows: Rows, own_votes: OwnVotes) -> FoldedPlacings:
    """Return every ballot as a placing, ordered by time, then session, round and reviewer."""
    n_names = len(rows.names)
    answers = np.unique(rows.session.astype(np.int64) * n_names + rows.candidate)
    n_candidates = np.bincount(answers // n_names, minlength=rows.n_sessions)
    cast = votes(rows, own_votes, n_candidates)
    part = np.zeros(rows.n_sessions) if rows.part is None else rows.part
    counted = np.flatnonzero(cast.counts & (part[rows.session] >= 0))
    at = np.zeros(len(rows.session))
    if "at" in rows.numbers:
        times = by_session(rows, rows.numbers["at"], np.fmax)
        at = np.where(np.isfinite(times), times, -np.inf)[rows.session]
    round_ = rows.numbers.get("round", at * 0.0)
    session = rows.session_ranks()[rows.session]
    keys = (rows.candidate, rows.reviewer, round_, session, at)
    order = counted[np.lexsort(tuple(key[counted] for key in keys))]
    ends = np.flatnonzero(np.diff(cast.ballot[order])) + 1
    score = rows.numbers.get("score", np.full(rows.n, np.nan))
    folds = rows.cluster % N_FOLDS
    result = FoldedPlacings([], [])
    for ballot in np.split(order, ends) if len(order) else []:
        names = [rows.names[code] for code in rows.candidate[ballot].tolist()]
        doubled = dict(zip(names, cast.doubled[ballot].tolist(), strict=True))
        first = next((name for name, place in doubled.items() if place == 0), None)
        scores = {
            name: Fraction(value).limit_denominator(1_000)
            for name, value in zip(names, score[ballot].tolist(), strict=True)
            if math.isfinite(value)
        }
        reviewer = rows.names[int(rows.reviewer[ballot[0]])]
        shown = int(cast.shown[cast.ballot[ballot[0]]])
        result.placings.append(Placing(reviewer, shown, doubled, first, scores))
        result.folds.append(int(folds[rows.session[ballot[0]]]))
    return result


def check_scores(reviews: BoardReviews) -> None:
    """Raise an error for scores that the rule hybrid cannot use."""
    earliest = reviews.earliest

    def scores_in(rows: Rows) -> list[float]:
        score = rows.number("score")
        known = score[np.isfinite(score) & rows.since(earliest)]
        return [float(known.min()), float(known.max())] if len(known) else []

    if ends := [score for part in reviews.counted.map(scores_in) for score in part]:
        check_scale(min(ends), max(ends))


def estimate_by_rule(reviews: BoardReviews, totals: ModelSums) -> Estimates | None:
    """Return the values of a rule; None for a rule that is a mean over sessions."""
    name = reviews.options.rule
    rule = rules.get(name)
    if name in MEANS:
        return None
    if name == "bradley_terry":
        return rating_estimates(totals)
    if name == "marks":
        return mark_estimates(reviews.rows(), reviews.options.own_votes, totals)
    if reviews.n_asked_for > MAX_PLACED_ROWS:
        raise UsageError(
            f"the rule {name} takes at most {MAX_PLACED_ROWS} reviews, and there are "
            f"{reviews.n_asked_for}.",
            hint="Use borda or bradley_terry, or a shorter window.",
        )
    ballots = placings_of(reviews.rows(), reviews.options.own_votes)
    values = _by_ballots(ballots.placings, totals, name)
    if name == "elo":
        return _elo_estimates(ballots, totals, values)
    nothing = np.full(len(totals.models), np.nan)
    return Estimates(values, nothing, nothing, lower_is_better=rule.lower_is_better)


def mark_estimates(rows: Rows, own_votes: OwnVotes, totals: ModelSums) -> Estimates:
    """Return the mean over sessions of each model's standardised marks; spreads are the board's.

    Raise an error with the reviewers whose ballots have no marks.
    """
    cast = votes(rows, own_votes, np.zeros(rows.n_sessions, dtype=np.int64))
    part = np.zeros(rows.n_sessions) if rows.part is None else rows.part
    inside = part[rows.session] >= 0
    is_marked = np.zeros(cast.n_ballots, dtype=bool)
    is_marked[cast.ballot[np.isfinite(rows.number("score"))]] = True
    bare = rows.reviewer[inside & cast.counts & ~is_marked[cast.ballot]]
    refuse_without_marks(sorted({rows.names[code] for code in np.unique(bare).tolist()}))
    marks = session_marks(rows, inside & cast.counts)
    model_of = {name: i for i, name in enumerate(totals.models)}
    model = np.array([model_of.get(name, -1) for name in rows.names])[marks.candidate]
    clusters, cluster = np.unique(rows.cluster[marks.session], return_inverse=True)
    top, bottom = np.zeros((2, len(clusters), len(totals.models)))
    np.add.at(top, (cluster, model), marks.value)
    np.add.at(bottom, (cluster, model), 1.0)
    most = float(np.abs(marks.value).max(initial=0.0))
    return cluster_estimates(top, bottom, (-most, most), totals.met)


def _elo_estimates(ballots: FoldedPlacings, totals: ModelSums, values: Floats) -> Estimates:
    """Return Elo ratings with intervals: ballots are replayed without each fold of queries."""
    names = sorted(totals.models)
    ratings, met = ratings_left_out(ballots.placings, names, ballots.folds, N_FOLDS)
    there = np.zeros((N_FOLDS, len(names)), dtype=bool)  # whether a fold has a ballot of the model
    index = {name: at for at, name in enumerate(names)}
    for placing, fold in zip(*ballots, strict=True):
        there[fold, [index[name] for name in placing.doubled]] = True
    left_out = np.where(there & met[1:], ratings[1:], np.nan)
    order = [index[name] for name in totals.models]
    return left_out_estimates(values, left_out[:, order], lower_is_better=False)


def _by_ballots(placings: list[Placing], totals: ModelSums, name: str) -> Floats:
    """Return a registered rule's values over all ballots of the window, ordered by time."""
    values = rules.get(name).values(placings, totals.models)
    return np.array([float(values.get(model, np.nan)) for model in totals.models])


def compare_rules(
    reviews: BoardReviews, totals: ModelSums, meetings: ModelSums | None
) -> list[dict[str, Any]]:
    """Return every rule's values and ranks; a rule with too many ballots gets a note instead."""
    many = reviews.n_asked_for > MAX_PLACED_ROWS
    own_votes = reviews.options.own_votes
    placings = [] if many else placings_of(reviews.rows(), own_votes).placings
    compared: list[dict[str, Any]] = []
    for name in (*COMPARED, *(other for other in rules.names() if other not in COMPARED)):
        rule = rules.get(name)
        head = {"rule": name, "unit": rule.unit, "lower_is_better": rule.lower_is_better}
        try:
            if name == "hybrid":
                check_scores(reviews)
            if name == "borda" and meetings is not None:
                values = common_values(totals)
            elif name in MEANS:
                values = totals.mean(*MEANS[name])
            elif name == "bradley_terry":
                values = rating_estimates(totals).value
            elif name == "marks":
                values = mark_estimates(reviews.rows(), own_votes, totals).value
            elif many:
                compared.append({**head, "note": TOO_MANY, "rows": []})
                continue
            else:
                values = _by_ballots(placings, totals, name)
        except (PluginError, UsageError) as error:
            compared.append({**head, "note": error.message, "rows": []})
            continue
        wins, apart = totals.by_model["wins"], provisional(values, n_queries(totals))
        order, rank = standing(values, wins, totals.models, rule.lower_is_better, apart)
        rows = [
            {"model": totals.models[i], "value": plain(float(values[i])), "rank": rank.get(i)}
            for i in order
            if np.isfinite(values[i])
        ]
        compared.append({**head, "rows": rows})
    return compared
