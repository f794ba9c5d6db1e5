"""The board of models: a reviews table and an engine in, a board out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from peerage.boards import Board
from peerage.engines import Engine, Source, engines
from peerage.standings.terms import Terms

__all__ = ["Terms", "board_models"]


def board_models(
    reviews: Source,
    terms: Terms | None = None,
    *,
    engine: str | Engine = "duckdb",
    item_weights: Source | None = None,
    **changes: Any,
) -> Board:
    """The models, the best first, from any `reviews` table.

    The terms may also be given by name: `board_models(reviews, own_votes="in")`. Weights of
    items are a table of `item_id` and `weight`; they are matched to `query_id`, or to
    `session_id` where there is none, and a session without one is left out and counted.
    """
    from peerage.standings.making import made
    from peerage.standings.table import Table

    asked = replace(terms or Terms(), **changes)
    runner = engines.get(engine)() if isinstance(engine, str) else engine
    return made(Table(runner, reviews, asked, item_weights))
