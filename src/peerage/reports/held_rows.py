"""All stored reviews in memory, and the board of models as other options would have made it.

No model is called for it: a reviewer's marks are weighed anew, ceilings are lifted, answers fail
the gate, reviewers are left out. Each only changes ranks and scores of rows that are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from peerage.boards import Board
from peerage.boards.model_sums import ModelSums, Plan
from peerage.engines import engines
from peerage.engines.review_tables import read_reviews
from peerage.errors import InputError, UsageError
from peerage.reports.model_boards import build_model_board
from peerage.reports.model_reviews import ReviewsTable, placings_of, summed
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.columns import MARK, REVIEWS, is_number, required
from peerage.reviews.rows import (
    N_CLUSTERS,
    Bools,
    Floats,
    Ints,
    Rows,
    clusters_of,
    rows_and_units,
    unit_of,
)
from peerage.types import Placing, Rubric

if TYPE_CHECKING:
    from peerage.reports import Reports

GATED_SCORE = 0.0
DECIMALS = 9


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Reviews ballot by ballot, with the id of each session and what it is an observation of."""

    rows: Rows
    units: tuple[str, ...]  # by session
    sessions: tuple[str, ...]
    category: NDArray[np.object_]

    def code(self, name: str) -> int:
        """The code of a name, −1 where nobody has it."""
        return self.rows.names.index(name) if name in self.rows.names else -1

    def number(self, name: str) -> Floats:
        """A column of numbers, NaN where there is none."""
        return self.rows.numbers.get(name, np.full(self.rows.n, np.nan))

    def ballots(self) -> Ints:
        """The ballot of each row, by number: one reviewer in one session and round."""
        rows = self.rows
        round_ = np.nan_to_num(self.number("round")).astype(np.int64)
        keys = rows.session * len(rows.names) + rows.reviewer
        keys = keys * (int(round_.max(initial=0)) + 1) + round_
        code: Ints = np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)
        return code

    def only(self, keep: Bools) -> HeldRows:
        """Some of the rows, with the sessions that are left."""
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


def stored_rows(reports: Reports) -> HeldRows | None:
    """All stored reviews; they are kept in memory until the store has more."""
    try:
        files = reports.review_files()
    except InputError:  # there are none yet
        return None
    return _rows_of(tuple(files))


@lru_cache(maxsize=2)
def _rows_of(files: tuple[Path, ...]) -> HeldRows:
    engine = engines.get("duckdb")()
    table = read_reviews(engine, list(files))
    numbers = [name for name in table.columns if is_number(name) or name == "at"]
    texts = [*required(REVIEWS), *(n for n in ("query_id", "category") if n in table.columns)]
    columns = engine.arrays(table.frame.select(*texts, *numbers))
    round_ = np.nan_to_num(columns["round"].astype(float)) if "round" in columns else None
    keys = [columns[name].astype(str) for name in ("reviewer", "session_id")]
    order = np.lexsort(keys if round_ is None else [round_, *keys])  # ballot by ballot
    columns = {name: values[order] for name, values in columns.items()}
    nothing = np.full(len(order), None, dtype=object)
    ids, queries = columns["session_id"].tolist(), columns.get("query_id", nothing).tolist()
    query_by_session = dict(zip(ids, queries, strict=True))
    sessions = tuple(sorted(query_by_session))
    units = tuple(unit_of(one, query_by_session[one]) for one in sessions)
    rows, _ = rows_and_units(columns, numbers)
    return HeldRows(rows, units, sessions, columns.get("category", nothing))


class HeldReviews(ReviewsTable):
    """Reviews in memory, within the window of a board; which answers were cut off is not known."""

    def __init__(self, held: HeldRows, options: ModelBoardOptions) -> None:
        self.options, self.columns = options, tuple(held.rows.numbers)
        self.categories = ()  # their numbers are not held: no board by category
        at = held.number("at")
        self.set_window(None if np.isnan(at).all() else float(np.nanmax(at)))
        keep = np.ones(held.rows.n, dtype=bool)
        if options.category is not None:
            keep &= held.category == options.category
        if options.as_of is not None and self.latest is not None:
            keep &= ~(at > self.latest)
        self.held = held.only(keep)
        self.n_rows = self.held.rows.n

    def sums(self, plan: Plan) -> ModelSums:
        rows, units = self.held.rows, tuple(sorted(set(self.held.units)))
        known = units if len(units) <= N_CLUSTERS else None
        return ModelSums(rows.names, known, summed(rows, plan))

    def win_counts(self) -> None:
        return None

    def truncated(self) -> dict[str, int]:
        return {}

    def placings(self, plan: Plan) -> list[Placing]:
        return placings_of(self.held.rows, plan)

    def n_after(self, instant: float) -> int:
        return int(np.count_nonzero(self.held.number("at") > instant))

    def first_s(self) -> float | None:
        at = self.held.number("at")
        if self.earliest is not None or np.isnan(at).all():
            return self.earliest
        return float(np.nanmin(at))


# -- counted otherwise ---------------------------------------------------------------------------


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


def counted_otherwise(
    held: HeldRows,
    options: WhatIfOptions,
    rubric: Rubric | None,
    failed: Collection[tuple[str, str]] = (),
) -> HeldRows:
    """The same reviews with ranks and scores as other options would have made them."""
    if options.without:
        left_out = np.isin(np.array(held.rows.names, dtype=object), list(options.without))
        keep = ~left_out[held.rows.reviewer]
        if not keep.any():
            raise UsageError("nobody is left to review.", hint="Leave out fewer reviewers.")
        held = held.only(keep)
    rows = held.rows
    score = held.number("score").copy()
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
    ranks = _ranked(held, score, changed | gated, gated)
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


def _ranked(held: HeldRows, score: Floats, changed: Bools, gated: Bools) -> Floats:
    """Ranks within each ballot that has changed, ties at their mean; the old rank parts equals."""
    old, ballot = held.number("rank"), held.ballots()
    touched = np.bincount(ballot, changed)[ballot] > 0
    at = np.flatnonzero(touched & ~(np.isnan(old) & np.isnan(score)))
    ballot = ballot[at]
    keys = [gated[at].astype(float), -_known(score[at], -np.inf), _known(old[at], np.inf)]
    place = np.ones(len(at))
    for step in range(1, int(np.bincount(ballot).max(initial=1))):
        same = ballot[step:] == ballot[:-step]  # each row with the one so many below it
        ahead, level = np.zeros(len(same), dtype=bool), same
        for key in keys:
            ahead |= level & (key[:-step] < key[step:])
            level = level & (key[:-step] == key[step:])
        place[step:] += ahead + 0.5 * level
        place[:-step] += (same & ~ahead) - 0.5 * level
    ranks = np.where(touched, np.nan, old)
    ranks[at] = place
    return ranks


def _known(values: Floats, otherwise: float) -> Floats:
    return np.where(np.isnan(values), otherwise, values)
