"""A community board beside a ranking from elsewhere, and what would agree with it best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from peerage.boards.against import Comparison, Trial, Tuned, compare, tune
from peerage.engines import Engine, Source
from peerage.errors import InputError
from peerage.reports.community_boards import CommunityBoards
from peerage.reports.options import CommunityBoardOptions, ReputationKind

if TYPE_CHECKING:
    from peerage.engines.opinions import Opinions

NAMES = ("name", "model", "contributor", "reviewer", "item_id", "user_id")
REPUTATIONS: tuple[ReputationKind, ...] = ("fixed", "iterate")
BONUSES = (0.0, 1.0, 3.0, 10.0, 30.0)
MINIMA = (1, 2, 3, 4, 5, 8)
HALF_LIVES = (None, 30.0, 90.0, 365.0)
KEY = {"contributors": "contributor", "reviewers": "reviewer", "items": "item_id"}
SCORE = {"contributors": "total_score", "reviewers": "pearson", "items": "quality"}


def read_outside(engine: Engine, source: Source) -> dict[str, float]:
    """Scores by name from a table with a name and a `score` (higher is better) or a `rank`."""
    import narwhals.stable.v2 as nw

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


def scores_of(boards: CommunityBoards, name: str) -> dict[str, float]:
    """The scores of a board by name, of those it ranks."""
    made = boards.board(name)
    values = np.asarray(made.columns[SCORE[name]], dtype=np.float64)
    names = list(made.columns[KEY[name]])
    ranked = made.columns.get("rank", values)
    return {
        one: value
        for one, value, rank in zip(names, values.tolist(), ranked, strict=True)
        if rank is not None and np.isfinite(value)
    }


def compared(boards: CommunityBoards, name: str, outside: Mapping[str, float]) -> Comparison:
    """How far a board of this boards agrees with an outside ranking."""
    return compare(scores_of(boards, name), outside)


def tuned(
    table: Opinions, options: CommunityBoardOptions, name: str, outside: Mapping[str, float]
) -> Tuned:
    """The coefficients with which a board agrees best with an outside ranking.

    They are searched on a small grid around the seed's; the figure to believe is the
    cross-validated one.
    """
    return tune([*_trials(table, options, name)], outside)


def _trials(table: Opinions, options: CommunityBoardOptions, name: str) -> Iterator[Trial]:
    """What is in force, and then the grid; boards are shared where only coefficients differ."""
    table.rows  # noqa: B018 — they are brought here once, and not summed up where they are each time
    yield Trial(_settings(options, name), scores_of(CommunityBoards(table, options), name))
    half_lives = HALF_LIVES if table.latest is not None else (None,)
    bonuses = (
        BONUSES if name == "contributors" else (options.coefficients.affiliation_bonus_points,)
    )
    for reputation, half_life in product(REPUTATIONS, half_lives):
        weighed = CommunityBoards(
            table,
            replace(options, reputation=reputation, half_life_days=half_life, literal=False),
        )
        for minimum, bonus in product(MINIMA, bonuses):
            if name == "reviewers" and minimum < 3:  # a consensus needs three anyway
                continue
            coefficients = replace(
                options.coefficients,
                min_reviews_for_quality=minimum,
                affiliation_bonus_points=bonus,
            )
            again = weighed.under(coefficients)
            yield Trial(_settings(again.options, name), scores_of(again, name))


def _settings(options: CommunityBoardOptions, name: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "reputation": options.reputation,
        "half_life_days": options.half_life_days,
        "min_reviews_for_quality": options.coefficients.min_reviews_for_quality,
    }
    if name == "contributors":
        settings["affiliation_bonus_points"] = options.coefficients.affiliation_bonus_points
    return settings
