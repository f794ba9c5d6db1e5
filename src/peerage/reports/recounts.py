"""Reviews as they would count otherwise: some of them alone, or marks under other weights.

A season or a panel chooses sessions, reviewers are left out, marks are weighed anew. No model is
called: each only changes ranks and scores of rows that are there, or leaves rows out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.engines import Engine, Frame
from peerage.engines.review_tables import Reviews, counts_of
from peerage.errors import InputError, UsageError, few, how_many, meant, shown
from peerage.reports.options import ReviewSelection
from peerage.reviews.columns import MARK, is_number
from peerage.reviews.rows import (
    Bools,
    Floats,
    Ints,
    Rows,
    ballot_codes,
    clusters_of,
    group,
    rows_and_units,
    unit_of,
)
from peerage.types import Rubric

GATED_SCORE = 0.0
DECIMALS = 9
MAX_WEIGHED_ROWS = 5_000_000  # they are brought into memory
N_NAMED = 10
IN_MEMORY = ("session_id", "reviewer", "candidate", "query_id", "category", "season")


# -- which reviews -----------------------------------------------------------------------------


def select_reviews(
    engine: Engine, reviews: Reviews, options: ReviewSelection, rubric: Rubric | None
) -> Reviews:
    """The reviews that the options choose, with ranks and scores under other weights if asked.

    A season, panel or reviewer that the table does not know is refused. The latest time is that
    of the whole table, so that the same window is looked at.
    """
    if not options.selects:
        return reviews
    frame = reviews.frame
    if options.season is not None:
        frame = frame.filter(nw.col("season") == _season(engine, reviews, options.season))
    if options.panel:
        frame = _panel(engine, frame, options.panel)
    if options.without:
        reviewers = counts_of(engine, frame, "reviewer")
        left_out = known_names(options.without, reviewers, "reviewer")
        if left_out >= reviewers.keys():
            raise UsageError("no reviewer is left.", hint="Leave out fewer reviewers.")
        frame = frame.filter(~nw.col("reviewer").is_in(sorted(left_out)))
    if options.weights:
        frame = _weighed(engine, replace(reviews, frame=frame), options, rubric)
    return replace(reviews, frame=frame)


def known_names(names: Iterable[str], known: Collection[str], what: str) -> set[str]:
    """The names as a table has them; one that it does not know may be several, with commas."""
    wanted = {
        part.strip()
        for name in names
        for part in ([name] if name in known else name.split(","))
        if part.strip()
    }
    if unknown := sorted(wanted - set(known)):
        hint = meant(unknown[0], known) or f"Known: {few(sorted(known), N_NAMED)}."
        raise UsageError(f"no {what} is called {shown(unknown[0])} here.", hint=hint)
    return wanted


def _season(engine: Engine, reviews: Reviews, season: str) -> str:
    """The id of the one season that begins so."""
    seasons = (
        {name for name in counts_of(engine, reviews.frame, "season") if name is not None}
        if "season" in reviews.columns
        else set()
    )
    matches = sorted(name for name in seasons if name.startswith(season))
    if season in seasons:
        return season
    if len(matches) == 1 and season:
        return matches[0]
    about = f"{len(matches)} seasons begin with" if matches and season else "there is no season"
    hint = f"Known: {few(sorted(seasons), N_NAMED)}." if seasons else "No review names its season."
    raise UsageError(f"{about} {shown(season)} here.", hint=hint)


def _panel(engine: Engine, frame: Frame, panel: Collection[str]) -> Frame:
    """The rows of sessions in which all of these sat, as candidates or as reviewers."""
    sides = (counts_of(engine, frame, column) for column in ("reviewer", "candidate"))
    known = {name for side in sides for name in side}
    names = sorted(known_names(panel, known, "model or reviewer"))
    for name in names:
        sat = (nw.col("candidate") == name) | (nw.col("reviewer") == name)
        sessions = frame.filter(sat).select("session_id").unique()
        frame = frame.join(sessions, on="session_id", how="semi")
    frame = engine.keep(frame)
    if not int(engine.arrays(frame.select(nw.len().alias("n")))["n"][0]):
        raise UsageError(
            f"no session has all of {', '.join(names)} in it.", hint="Name fewer of them."
        )
    return frame


def _weighed(
    engine: Engine, reviews: Reviews, options: ReviewSelection, rubric: Rubric | None
) -> Frame:
    """The rows with ranks and scores under other weights; they are brought here for it."""
    n = int(engine.arrays(reviews.frame.select(nw.len().alias("n")))["n"][0])
    if n > MAX_WEIGHED_ROWS:
        raise UsageError(
            f"{how_many(n, 'review')} are too many to weigh anew ({MAX_WEIGHED_ROWS:,} at most).",
            hint="Choose a season or a panel.",
        )
    held = held_rows(engine, reviews, everything=True)
    return engine.open(recount(held, rubric, options.weight_by_dimension).columns)


# -- reviews in memory -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Reviews ballot by ballot: the columns of their table, and the same with names as codes."""

    columns: Mapping[str, NDArray[Any]]
    rows: Rows
    sessions: tuple[str, ...]  # the id of each
    units: tuple[str, ...]  # what each session is an observation of

    def code(self, name: str) -> int:
        """The code of a name, −1 where nobody has it."""
        return self.rows.names.index(name) if name in self.rows.names else -1

    def number(self, name: str) -> Floats:
        """A column of numbers, NaN where there is none."""
        return self.rows.numbers.get(name, np.full(self.rows.n, np.nan))

    def ballots(self) -> Ints:
        """The ballot of each row, by number: one reviewer in one session and round."""
        return group(*ballot_codes(self.rows)).code

    def only(self, keep: Bools) -> HeldRows:
        """Some of the rows, with the sessions that are left."""
        rows = self.rows
        there = np.bincount(rows.session[keep], minlength=rows.n_sessions) > 0
        left = np.flatnonzero(there).tolist()
        sessions, units = (tuple(known[i] for i in left) for known in (self.sessions, self.units))
        is_whole = len(left) == rows.n_sessions
        cluster, n_clusters = (rows.cluster, rows.n_clusters) if is_whole else clusters_of(units)
        some = replace(
            rows,
            n_clusters=n_clusters,
            cluster=cluster,
            session=(np.cumsum(there) - 1)[rows.session[keep]],
            reviewer=rows.reviewer[keep],
            candidate=rows.candidate[keep],
            numbers={name: values[keep] for name, values in rows.numbers.items()},
        )
        columns = {name: values[keep] for name, values in self.columns.items()}
        return HeldRows(columns, some, sessions, units)


def held_rows(engine: Engine, reviews: Reviews, *, everything: bool = False) -> HeldRows:
    """The rows of a table in memory, ballot by ballot; without texts that no board needs."""
    numbers = [name for name in reviews.columns if is_number(name) or name == "at"]
    texts = [name for name in reviews.columns if name not in numbers]
    if not everything:
        texts = [name for name in texts if name in IN_MEMORY]
    keys = [n for n in ("session_id", "reviewer", "round", "candidate") if n in reviews.columns]
    columns = engine.arrays(reviews.frame.select(*texts, *numbers).sort(*keys))
    rows, _ = rows_and_units(columns, numbers)
    ids = columns["session_id"].tolist()
    queries = columns["query_id"].tolist() if "query_id" in columns else [None] * len(ids)
    query_by_session = dict(zip(ids, queries, strict=True))
    sessions = tuple(sorted(query_by_session))
    units = tuple(unit_of(session, query_by_session[session]) for session in sessions)
    return HeldRows(columns, rows, sessions, units)


# -- counted otherwise -------------------------------------------------------------------------


def recount(
    held: HeldRows,
    rubric: Rubric | None,
    weights: Mapping[str, float],
    *,
    ceiling: bool = True,
    failed: Collection[tuple[str, str]] = (),
) -> HeldRows:
    """The same reviews, with ranks and scores as other options would have made them.

    Without weights the rubric's own are taken. `failed` are the answers that fail the gate, by
    session and model.
    """
    rows, columns = held.rows, held.columns
    score = held.number("score").copy()
    marked = np.full(rows.n, np.nan)
    if weights or not ceiling:
        marked = _overall(rows, rubric, weights, ceiling)
    changed = ~np.isnan(marked)
    score[changed] = marked[changed]
    gated = np.zeros(rows.n, dtype=bool)
    if failed:
        failing = set(failed)
        answers = zip(columns["session_id"].tolist(), columns["candidate"].tolist(), strict=True)
        gated = np.array([answer in failing for answer in answers], dtype=bool)
        score[gated & ~np.isnan(score)] = GATED_SCORE
    numbers = {"score": score, "rank": _ranked(held, score, changed | gated, gated)}
    rows = replace(rows, numbers={**rows.numbers, **numbers})
    return replace(held, columns={**columns, **numbers}, rows=rows)


def _overall(
    rows: Rows, rubric: Rubric | None, weights: Mapping[str, float], ceiling: bool
) -> Floats:
    """Each row's weighed marks under the ceilings, NaN where it has no mark for accuracy."""
    marks = {
        name.removeprefix(MARK): values
        for name, values in rows.numbers.items()
        if name.startswith(MARK)
    }
    if not weights:
        weights = {name: float(w) for name, w in rubric.weights.items()} if rubric else {}
    elif unknown := sorted(weights.keys() - marks.keys()):
        raise UsageError(
            f"no review has a mark for {shown(unknown[0])}.",
            hint=meant(unknown[0], marks) or f"Known: {', '.join(marks) or 'none'}.",
        )
    if "accuracy" not in marks:
        raise InputError(
            "no review has a mark for accuracy, and without it marks give no score.",
            hint="Weights and ceilings change boards of reviews by a rubric.",
        )
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


def _ranked(held: HeldRows, score: Floats, changed: Bools, gated: Bools) -> Floats:
    """Ranks within each ballot that has changed, ties at their mean; the old rank parts equals."""
    old, ballot = held.number("rank"), held.ballots()
    touched = np.bincount(ballot, changed)[ballot] > 0
    at = np.flatnonzero(touched & ~(np.isnan(old) & np.isnan(score)))
    best_first = np.where(np.isnan(score), np.inf, -score)
    keys = np.stack([np.where(np.isnan(old), np.inf, old), best_first, gated, ballot])[:, at]
    order = np.lexsort(keys)  # by ballot, and then as it ranks
    at, keys = at[order], keys[:, order]
    differs = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    tie = np.cumsum(np.append(True, differs)[: len(at)]) - 1
    place = np.arange(len(at)) - np.searchsorted(keys[-1], keys[-1]) + 1.0
    ranks = np.where(touched, np.nan, old)
    ranks[at] = (np.bincount(tie, place) / np.bincount(tie))[tie]
    return ranks
