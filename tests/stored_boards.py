"""The board of models of an open store, on an engine of the test's own."""

from __future__ import annotations

from dataclasses import replace

from peerage.boards import Board
from peerage.engines import Engine
from peerage.engines.duckdb import DuckDB
from peerage.reports.model_boards import build_model_board
from peerage.reports.model_reviews import NO_REVIEWS, ReviewsTable, StoredReviews
from peerage.reports.options import ModelBoardOptions
from peerage.reports.stored_reviews import RubricOf, stored_reviews
from peerage.stores import Store

EVERYTHING = ModelBoardOptions(since="all")


def board_of_store(
    store: Store,
    rubric_of: RubricOf,
    options: ModelBoardOptions = EVERYTHING,
    engine: Engine | None = None,
) -> Board:
    engine = engine or DuckDB()
    mirror, files, flags = stored_reviews(store, rubric_of)
    stored = StoredReviews(engine, mirror, files, options) if files else None
    board = build_model_board(stored or ReviewsTable(engine, NO_REVIEWS, options))
    return replace(board, flags=(*board.flags, *flags))


def files_of_store(store: Store, rubric_of: RubricOf) -> list[str]:
    """The Parquet files of all its reviews."""
    return [str(file) for file in stored_reviews(store, rubric_of)[1]]
