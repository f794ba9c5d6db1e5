"""A board beside a ranking from elsewhere, and what would agree with it best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards import Board
from peerage.boards.against import Trial, compare, tune
from peerage.engines import Engine, Source
from peerage.errors import InputError, UsageError
from peerage.reports.community_boards import CommunityBoards
from peerage.reports.options import (
    ContributorBoardOptions,
    ReputationKind,
    ReviewerBoardOptions,
)
from peerage.rules import rules

NAMES = ("name", "model", "contributor", "reviewer", "item_id", "user_id")
REPUTATIONS: tuple[ReputationKind, ...] = ("fixed", "iterate")
BONUSES = (0.0, 1.0, 3.0, 10.0, 30.0)
MINIMA = (1, 2, 3, 4, 5, 8)
HALF_LIVES = (None, 30.0, 90.0, 365.0)
SCORES = {  # by board: the columns of names and of scores
    "models": ("model", "share"),
    "contributors": ("contributor", "total_score"),
    "reviewers": ("reviewer", "pearson"),
    "items": ("item_id", "quality"),
}


def read_outside(engine: Engine, source: Source) -> dict[str, float]:
    """Scores by name from a table with a name and a `score` (higher is better) or a `rank`."""
    opened = engine.open(source)
    columns = list(opened.collect_schema().names())
    key = next((name for name in NAMES if name in columns), None)
    value = next((name for name in ("score", "rank") if name in columns), None)
    if key is None or value is None:
        raise InputError(
            "an outside ranking needs names and a score or a rank.",
            hint=f"Name columns: {', '.join(NAMES)}; values: score, rank. "
            f"It has: {', '.join(columns[:20])}.",
        )
    found = engine.arrays(
        opened.select(nw.col(key).cast(nw.String), nw.col(value).cast(nw.Float64))
    )
    sign = -1.0 if value == "rank" else 1.0
    names, values = found[key].tolist(), np.asarray(found[value], dtype=np.float64)
    wrong = [
        str(row)
        for row, (name, one) in enumerate(zip(names, values.tolist(), strict=True), 1)
        if name is None or not np.isfinite(one)
    ]
    if wrong:
        raise InputError(f"an outside ranking has no name or no {value} in row {wrong[0]}.")
    if len(set(names)) != len(names):
        raise InputError("an outside ranking names someone twice.", hint="Keep one row for each.")
    return dict(zip(names, (sign * values).tolist(), strict=True))


def agreeing(
    board: Board, engine: Engine, against: Source | None, tunable: CommunityBoards | None = None
) -> Board:
    """A board that says how far it agrees with an outside ranking, if there is one.

    Of boards that can be tuned, the coefficients that agree with it best are searched on a small
    grid around the defaults; the figure to believe is the cross-validated one.
    """
    if against is None:
        return board
    outside = read_outside(engine, against)
    notes = {**board.notes, "against": compare(scores_of(board), outside)}
    if tunable is not None:
        notes["tuned"] = tune([*_trials(tunable)], outside)
    return replace(board, notes=notes)


def scores_of(board: Board) -> dict[str, float]:
    """The scores of a board by name, of those it ranks, a higher one always the better."""
    if "category" in board.columns:
        raise UsageError("several boards have no one agreement.", hint="Name one category.")
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


def _trials(boards: CommunityBoards) -> Iterator[Trial]:
    """What is in force, and then the grid; boards are shared where only coefficients differ."""
    table, options, now = boards.table, boards.options, boards.coefficients
    table.rows  # noqa: B018 - brought here once, and not summed up where they are each time
    is_contributors = isinstance(options, ContributorBoardOptions)
    yield _trial(boards)
    half_lives = HALF_LIVES if table.latest is not None else (None,)
    bonuses = BONUSES if is_contributors else (now.affiliation_bonus_points,)
    for reputation, half_life in product(REPUTATIONS, half_lives):
        changes = {"reputation": reputation, "half_life": half_life, "literal": False}
        weighed = CommunityBoards(table, options.model_copy(update=changes), now)
        for minimum, bonus in product(MINIMA, bonuses):
            if isinstance(options, ReviewerBoardOptions) and minimum < 3:  # a consensus needs three
                continue
            coefficients = replace(
                now, min_reviews_for_quality=minimum, affiliation_bonus_points=bonus
            )
            yield _trial(weighed.under(coefficients))


def _trial(boards: CommunityBoards) -> Trial:
    options, coefficients = boards.options, boards.coefficients
    settings: dict[str, Any] = {
        "reputation": options.reputation,
        "half_life_days": options.half_life,
        "min_reviews_for_quality": coefficients.min_reviews_for_quality,
    }
    if isinstance(options, ContributorBoardOptions):
        settings["affiliation_bonus_points"] = coefficients.affiliation_bonus_points
    return Trial(settings, scores_of(boards.board()))
