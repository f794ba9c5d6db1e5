"""A store's board is the board of its rows, read at once or kept and added to, in any order."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from peerage.boards import Board
from peerage.engines.duckdb import DuckDB
from peerage.engines.mirror import MANY, Mirror
from peerage.events import Opened
from peerage.imports import take
from peerage.panel import Council
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.from_tables import board_models
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import ModelBoardOptions
from peerage.reports.stored_reviews import keep_reviews, mirror_of, stored_reviews
from peerage.scoring import recorded_rubric
from peerage.seating import settings_of
from peerage.stores import Store, open_store
from peerage.types import Rubric
from tests.stored_boards import board_of_store, files_of_store

DAY_S = 86_400.0
ENGINE = DuckDB()
NOW = time.time() - 10.0  # sessions held by a test come later
CONFIG = """
[council]
seed = 7
[[seat]]
name = "able"
provider = "simulated"
[[seat]]
name = "baker"
provider = "simulated"
[[seat]]
name = "charlie"
provider = "simulated"
"""
OPTIONS = [
    ModelBoardOptions(since="all"),
    ModelBoardOptions(),
    ModelBoardOptions(since="12h"),
    ModelBoardOptions(since="37.5d", rule="hybrid", own_votes="in"),
    ModelBoardOptions(since="5d", matrix=True, interval="two-way"),
    ModelBoardOptions(since="all", rule="bradley_terry"),
    ModelBoardOptions(since="8d", history="week", compare_rules=True),
]


@pytest.fixture
def council(tmp_path: Path) -> Path:
    file = tmp_path / "peerage.toml"
    file.write_text(f'store = "sqlite:///{tmp_path}/peerage.db"\n{CONFIG}')
    return file


def rubric_of(opened: Opened) -> Rubric | None:
    return recorded_rubric(settings_of(None, {}), opened)


def store_of(config: Path) -> Store:
    return open_store(settings_of(config, {}).store)


def held(config: Path, n: int = 1) -> None:
    async def scene() -> None:
        async with Council.from_config(config) as council:
            for i in range(n):
                await council.ask(f"Which is number {i}?")

    asyncio.run(scene())


def reviews(folder: Path, name: str, models: str, n: int = 40, days: float = 50.0) -> Path:
    """A CSV of sessions spread evenly over the last days."""
    rng = np.random.default_rng(len(name) + n)
    lines = ["session_id,reviewer,candidate,rank,score,at"]
    for i in range(n):
        at = NOW - days * DAY_S * (1.0 - i / n)
        for reviewer in models:
            order = rng.permutation(len(models))
            lines += [
                f"{name}-{i},{reviewer},{models[c]},{r + 1},{9 - r},{at}"
                for r, c in enumerate(order)
            ]
    file = folder / f"{name}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def imported(store: Store, file: Path) -> None:
    take(store, file, "reviews", lambda: NOW)


def stored(store: Store, options: ModelBoardOptions) -> str:
    """The board of the reviews that are kept in memory."""
    files, _ = stored_reviews(store, rubric_of)
    return said(build_model_board(BoardReviews(keep_reviews(files), options)))


def scratch(store: Store, options: ModelBoardOptions) -> str:
    """The board of all rows, read as one table."""
    return said(board_models(files_of_store(store, rubric_of), **options.model_dump()))


def said(board: Board) -> str:
    return json.dumps(board.document())


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: f"{options.since} {options.rule}")
def test_reviews_in_memory_give_the_board_of_the_files(
    council: Path, tmp_path: Path, options: ModelBoardOptions
) -> None:
    store = store_of(council)
    imported(store, reviews(tmp_path, "first", "abcd"))
    assert stored(store, options) == scratch(store, options)
    imported(store, reviews(tmp_path, "older", "cdef", days=400.0))  # periods grow longer
    held(council, 2)
    store = store_of(council)
    assert stored(store, options) == scratch(store, options)
    assert '"model": "able"' in stored(store, options)  # and again, of what is kept


def test_only_files_that_are_new_are_read(council: Path, tmp_path: Path) -> None:
    store = store_of(council)
    imported(store, reviews(tmp_path, "first", "abcd"))
    first = keep_reviews(stored_reviews(store, rubric_of)[0])
    assert keep_reviews(stored_reviews(store, rubric_of)[0]) is first
    for file in stored_reviews(store, rubric_of)[0]:
        about = file.stat()
        file.write_bytes(b"x" * about.st_size)  # which nobody can read
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        files = [file]
    (tmp_path / "more.parquet").write_bytes(b"")
    second = reviews(tmp_path, "second", "cdef")
    DuckDB(folders=[tmp_path]).open(second).to_native().write_parquet(
        str(tmp_path / "more.parquet")
    )
    both = keep_reviews([*files, tmp_path / "more.parquet"])
    assert both.n_rows == first.n_rows + 40 * 16
    assert both.rows is not None
    assert set(both.rows.names) == set("abcdef")


def test_rows_of_a_file_that_is_gone_are_gone(council: Path, tmp_path: Path) -> None:
    store, options = store_of(council), ModelBoardOptions(since="all")
    imported(store, reviews(tmp_path, "first", "abcd"))
    imported(store, reviews(tmp_path, "second", "cdef"))
    files, _ = stored_reviews(store, rubric_of)
    keep_reviews(files)
    board = build_model_board(BoardReviews(keep_reviews(files[1:]), options))
    assert said(board) == said(board_models([str(file) for file in files[1:]], since="all"))
    assert set(board.columns["model"]) == set("cdef")


def test_a_session_in_two_files_is_one_session(council: Path, tmp_path: Path) -> None:
    store = store_of(council)
    lines = reviews(tmp_path, "whole", "abcd").read_text().splitlines()
    for name, who in (("one", "ab"), ("two", "cd")):
        rows = [line for line in lines[1:] if line.split(",")[1] in who]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *rows]) + "\n")
        imported(store, tmp_path / f"{name}.csv")
    assert stored(store, ModelBoardOptions()) == scratch(store, ModelBoardOptions())


def test_a_session_whose_reviews_took_days_is_in_the_window_as_a_whole(
    council: Path, tmp_path: Path
) -> None:
    store = store_of(council)
    lines = reviews(tmp_path, "slow", "abcd").read_text().splitlines()
    rows = [line.rsplit(",", 1) for line in lines[1:]]
    late = [f"{head},{float(at) - (i % 4) * DAY_S}" for i, (head, at) in enumerate(rows)]
    (tmp_path / "slow.csv").write_text("\n".join([lines[0], *late]) + "\n")
    imported(store, tmp_path / "slow.csv")
    options = ModelBoardOptions(since="9.5d")
    assert stored(store, options) == scratch(store, options)


@pytest.mark.slow
def test_many_small_segments_are_joined_and_nothing_is_lost(council: Path) -> None:
    for _ in range(MANY + 2):
        held(council)
        board = stored(store_of(council), ModelBoardOptions())
    store = store_of(council)
    assert len(mirror_of(store).segments) < MANY
    assert json.loads(board)["sessions"] == MANY + 2
    assert board == scratch(store, ModelBoardOptions())


def test_a_store_that_was_deleted_leaves_nothing_to_its_successor(council: Path) -> None:
    held(council, 3)
    stored(store_of(council), ModelBoardOptions())
    for file in council.parent.glob("peerage.db*"):
        if file.is_file():
            file.unlink()
    assert board_of_store(store_of(council), rubric_of, ModelBoardOptions(), ENGINE).rows == []
    held(council)
    board = stored(store_of(council), ModelBoardOptions())
    assert json.loads(board)["sessions"] == 1


def test_an_empty_store_has_an_empty_board(council: Path) -> None:
    board = board_of_store(store_of(council), rubric_of, ModelBoardOptions(), ENGINE)
    assert board.rows == []
    assert "model" in board.columns


@pytest.mark.parametrize("since", ["all", "9.5d", "30d"])
def test_an_imported_table_in_parts_gives_the_board_of_its_rows(tmp_path: Path, since: str) -> None:
    """Parts hold whole sessions in the order of time, so that a window cuts one of them."""
    whole = str(tmp_path / "whole.parquet")
    lines = reviews(tmp_path, "slow", "abcd").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    typed = [
        {
            **row,
            "rank": float(row["rank"]),
            "score": float(row["score"]),
            "at": float(row["at"]) - (i % 4) * DAY_S,
        }
        for i, row in enumerate(rows)
    ]
    DuckDB(folders=[tmp_path]).open(typed).to_native().write_parquet(whole)
    mirror = Mirror(tmp_path / "mirror")
    files = mirror.keep_table("reviews-0", lambda: [Path(whole).read_bytes()], part_rows=100)
    assert len(files) > 3
    assert mirror.keep_table("reviews-0", list) == files  # written once
    board = build_model_board(BoardReviews(keep_reviews(files), ModelBoardOptions(since=since)))
    assert said(board) == said(board_models(whole, since=since))
