"""The board of models of an open store, on an engine of the test's own."""

from __future__ import annotations

from dataclasses import replace

from peerage.boards import Board
from peerage.engines import Engine
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.model_boards import NO_REVIEWS, build_model_board
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
    files, flags = stored_reviews(store, rubric_of)
    table = read_reviews(engine or DuckDB(), files or NO_REVIEWS)
    board = build_model_board(BoardReviews(table, options))
    return replace(board, flags=(*board.flags, *flags))


def files_of_store(store: Store, rubric_of: RubricOf) -> list[str]:
    """The Parquet files of all its reviews."""
    return [str(file) for file in stored_reviews(store, rubric_of)[0]]
