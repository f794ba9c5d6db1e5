"""The board of models from the stored ballots, counted otherwise: no model is called.

A reviewer's marks are weighed anew, ceilings are lifted, answers fail the gate, reviewers are left
out: each only changes ranks and scores of rows that are there. What comes out is a table of
reviews, from which the board is made like from any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from peerage.boards import Board
from peerage.errors import UsageError
from peerage.reports.held_rows import HeldReviews, HeldRows, stored_rows
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Bools, Floats, Rows
from peerage.types import Rubric

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
