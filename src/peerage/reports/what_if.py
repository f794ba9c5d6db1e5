"""The board of models from the stored ballots, counted otherwise: no model is called.

A reviewer's marks are weighed anew, ceilings are lifted, answers fail the gate, reviewers are left
out: each only changes ranks and scores of rows that are there. What comes out is a table of
reviews, from which the board is made like from any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from peerage.boards import Board
from peerage.boards.model_sums import ModelSums, Plan, add_tables, block_sums
from peerage.errors import InputError, UsageError
from peerage.reports.model_boards import CHUNK_ROWS, build_model_board, placings_of, window_of
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.columns import MARK, is_number
from peerage.reviews.rows import (
    N_CLUSTERS,
    Floats,
    Rows,
    chunks,
    clusters_of,
    rows_and_units,
    unit_of,
)
from peerage.types import Placing, Rubric

if TYPE_CHECKING:
    from peerage.reports import Reports

GATED_SCORE = 0.0
DECIMALS = 9


class WhatIfOptions(ModelBoardOptions):
    """How a board of models would be made; what is not given stays as it was recorded."""

    without: tuple[str, ...] = Field(default=(), description="Reviewers to leave out.")
    weights: Mapping[str, float] = Field(
        default_factory=dict, description="Weights of the rubric's dimensions, of any sum."
    )
    ceiling: bool = Field(default=True, description="Whether low accuracy caps the score.")
    gate: bool = Field(default=False, description="Whether answers that fail the gate go last.")
    calibrated: bool = Field(
        default=False, description="Rank by scores normalised for each reviewer."
    )

    @property
    def changes_rows(self) -> bool:
        """Whether rows have to be counted anew, beyond what any board can do."""
        return bool(self.without or self.weights or not self.ceiling or self.gate)

    @property
    def plain(self) -> ModelBoardOptions:
        """The options that every board of models has."""
        return ModelBoardOptions(**self.model_dump(include=set(ModelBoardOptions.model_fields)))


@dataclass(frozen=True, slots=True)
class HeldRows:
    """All stored reviews in memory: as rows, with what a session is an observation of."""

    rows: Rows
    units: tuple[str, ...]  # by session
    sessions: tuple[str, ...]
    category: NDArray[np.object_]

    def only(self, keep: NDArray[np.bool_]) -> HeldRows:
        """Some of the rows, with the sessions that they are of."""
        rows = self.rows
        if keep.all():
            return self
        there = np.bincount(rows.session[keep], minlength=rows.n_sessions) > 0
        kept = np.flatnonzero(there).tolist()
        sessions, units = (tuple(known[i] for i in kept) for known in (self.sessions, self.units))
        is_whole = len(kept) == rows.n_sessions
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
        return HeldRows(some, units, sessions, self.category[keep])


class HeldReviews:
    """Reviews in memory, within the window of a board; `model_boards.Reviews` says what for."""

    def __init__(self, held: HeldRows, options: ModelBoardOptions) -> None:
        self.options = options
        self.columns = tuple(held.rows.numbers)
        at = held.rows.numbers.get("at")
        latest = None if at is None or np.isnan(at).all() else float(np.nanmax(at))
        self.latest, self.earliest = window_of(options, latest, self.columns)
        keep = np.ones(held.rows.n, dtype=bool)
        if options.category is not None:
            keep &= held.category == options.category
        if options.as_of is not None and at is not None and self.latest is not None:
            keep &= ~(at > self.latest)
        kept = held.only(keep)
        known = tuple(sorted(set(kept.units)))
        self.units = known if len(known) <= N_CLUSTERS else None
        self.rows, self.n_rows = kept.rows, kept.rows.n
        self.categories: tuple[str, ...] = ()
        self.has_weights, self.not_finite = False, 0

    def sums(self, plan: Plan) -> ModelSums:
        """What a board adds up."""
        parts = [block_sums(part, plan) for part in chunks(self.rows, CHUNK_ROWS)]
        return ModelSums(self.rows.names, self.units, add_tables(parts))

    def placings(self, plan: Plan) -> list[Placing]:
        """Every ballot as rules take it."""
        return placings_of(self.rows, plan)

    def n_after(self, instant: float) -> int:
        at = self.rows.numbers.get("at")
        return 0 if at is None else int(np.count_nonzero(at > instant))

    def first_s(self) -> float | None:
        at = self.rows.numbers.get("at")
        if self.earliest is not None or at is None or np.isnan(at).all():
            return self.earliest
        return float(np.nanmin(at))

    def truncated(self) -> dict[str, int]:
        """Nothing: the rows that are held do not say which answers were cut off."""
        return {}


def what_if_board(
    reports: Reports,
    options: WhatIfOptions,
    rubric: Rubric | None,
    failed: Collection[tuple[str, str]] = (),
) -> Board:
    """The board under these options; `failed` are the answers that fail the gate, by session."""
    held = stored_rows(reports) if options.changes_rows else None
    if held is None:
        return reports.board(options.plain)
    changed = counted_otherwise(held, options, rubric, failed)
    return build_model_board(HeldReviews(changed, options.plain))


def stored_rows(reports: Reports) -> HeldRows | None:
    """All stored reviews; they are kept in memory until the store has more."""
    try:
        files = reports.review_files()
    except InputError:  # there are none yet
        return None
    return _rows_of(tuple(files))


@lru_cache(maxsize=2)
def _rows_of(files: tuple[str, ...]) -> HeldRows:
    from peerage.engines import engines
    from peerage.engines.reviews import read_reviews

    engine = engines.get("duckdb")()
    engine.admit(list(files))
    table = read_reviews(engine, list(files))
    numbers = [name for name in table.columns if is_number(name) or name == "at"]
    texts = ["session_id", "reviewer", "candidate"]
    texts += [name for name in ("query_id", "category") if name in table.columns]
    found = engine.arrays(table.frame.select(*texts, *numbers))
    first = {name: found[name].astype(str) for name in ("session_id", "reviewer")}
    number = np.nan_to_num(found["round"].astype(float)) if "round" in found else None
    keys = [] if number is None else [number]
    order = np.lexsort([*keys, first["reviewer"], first["session_id"]])  # ballot by ballot
    found = {name: values[order] for name, values in found.items()}
    ids = found["session_id"].tolist()
    queries = found["query_id"].tolist() if "query_id" in found else [None] * len(ids)
    query_by_session = dict(zip(ids, queries, strict=True))
    sessions = tuple(sorted(query_by_session))
    units = tuple(unit_of(one, query_by_session[one]) for one in sessions)
    nothing = np.full(len(ids), None, dtype=object)
    rows, _ = rows_and_units(found, numbers)
    return HeldRows(rows, units, sessions, found.get("category", nothing))


def counted_otherwise(
    held: HeldRows,
    options: WhatIfOptions,
    rubric: Rubric | None,
    failed: Collection[tuple[str, str]] = (),
) -> HeldRows:
    """The same reviews with ranks and scores as other options would have made them."""
    if options.without:
        out = np.isin(np.array(held.rows.names, dtype=object), list(options.without))
        held = held.only(~out[held.rows.reviewer])
        if not held.rows.n:
            raise UsageError("nobody is left to review.", hint="Leave out fewer reviewers.")
    rows = held.rows
    score = rows.numbers.get("score", np.full(rows.n, np.nan)).copy()
    marked = _overall(rows, options, rubric)
    changed = ~np.isnan(marked)
    score[changed] = marked[changed]
    gated = np.zeros(rows.n, dtype=bool)
    if options.gate and failed:
        place = {name: i for i, name in enumerate(held.sessions)}
        code = {name: i for i, name in enumerate(rows.names)}
        n = len(rows.names)
        answers = [place[s] * n + code[m] for s, m in failed if s in place and m in code]
        gated = np.isin(rows.session * n + rows.candidate, answers)
        score[gated & ~np.isnan(score)] = GATED_SCORE
    ranks = _ranked(rows, score, changed | gated, gated)
    numbers = {**rows.numbers, "score": score, "rank": ranks}
    return replace(held, rows=replace(rows, numbers=numbers))


def _overall(rows: Rows, options: WhatIfOptions, rubric: Rubric | None) -> Floats:
    """Each row's weighed marks under the ceilings, NaN where they stay as they were."""
    marks = {
        name.removeprefix(MARK): values
        for name, values in rows.numbers.items()
        if name.startswith(MARK)
    }
    recorded = {name: float(weight) for name, weight in rubric.weights.items()} if rubric else {}
    weights = options.weights or recorded
    if "accuracy" not in marks or not (options.weights or not options.ceiling):
        return np.full(rows.n, np.nan)
    total, weighed = np.zeros(rows.n), np.zeros(rows.n)
    for name in (name for name in weights if name in marks):
        given = ~np.isnan(marks[name])
        total += weights[name] * np.where(given, marks[name], 0.0)
        weighed += weights[name] * given
    accuracy = marks["accuracy"]
    weighed[np.isnan(accuracy) | (weighed == 0)] = np.nan
    # Rounded, so that sums which are equal on paper are equal here.
    overall = np.round(total / weighed, DECIMALS)
    for below, at_most in rubric.ceilings if rubric and options.ceiling else ():
        overall = np.where(accuracy < float(below), np.minimum(overall, float(at_most)), overall)
    return overall


def _ranked(
    rows: Rows, score: Floats, changed: NDArray[np.bool_], gated: NDArray[np.bool_]
) -> Floats:
    """Ranks within each ballot that has changed, ties at their mean; the old rank parts equals."""
    old = rows.numbers.get("rank", np.full(rows.n, np.nan))
    number = np.nan_to_num(rows.numbers.get("round", np.zeros(rows.n))).astype(np.int64)
    ballot = rows.session * len(rows.names) + rows.reviewer
    ballot = ballot * (int(number.max(initial=0)) + 1) + number
    opens = np.flatnonzero(np.r_[True, ballot[1:] != ballot[:-1]][: rows.n])
    sizes = np.diff(np.r_[opens, rows.n])
    touched = np.repeat(np.logical_or.reduceat(changed, opens), sizes) if rows.n else changed
    votes = touched & ~(np.isnan(old) & np.isnan(score))
    at = np.flatnonzero(votes)
    ballot = ballot[at]
    keys = [gated[at].astype(float), -_known(score[at]), _known(old[at], np.inf)]
    place = np.ones(len(at))
    for step in range(1, int(sizes.max(initial=1))):  # each with the one so many rows below
        same = ballot[step:] == ballot[:-step]
        ahead, level = np.zeros(len(same), dtype=bool), same
        for key in keys:
            ahead |= level & (key[:-step] < key[step:])
            level = level & (key[:-step] == key[step:])
        place[step:] += ahead + 0.5 * level
        place[:-step] += (same & ~ahead) - 0.5 * level
    ranks = np.where(touched, np.nan, old)
    ranks[at] = place
    return ranks


def _known(values: Floats, otherwise: float = -np.inf) -> Floats:
    return np.where(np.isnan(values), otherwise, values)
