"""One default window for boards: named above each, and how much it leaves out."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import peerage
from peerage import config
from peerage.boards import Board
from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.pages import board_page
from peerage.doors.render.report_views import show_board
from peerage.imports import take
from peerage.reports import InputTables, Reports
from peerage.reports.options import (
    BOARD_OPTIONS,
    ContributorBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
)
from peerage.stores import open_store

DAY_S = 86_400.0
NOW_S = 1_790_000_000.0
MODELS = ("provider/some-long-model-2026-11", "provider/some-long-model-2026-12", "c")
Rows = list[dict[str, Any]]


def reviews(n_old: int = 4, n_new: int = 6, **columns: Any) -> Rows:
    """Three rows a session: so many sessions of sixty days ago, and so many of now."""
    return [
        {
            "session_id": f"s{i}",
            "reviewer": "judge",
            "candidate": model,
            "rank": 1 + (place + i) % 3,
            "at": NOW_S - (60 * DAY_S if i < n_old else 0.0),
            "category": "old" if i < n_old else "new",
            **columns,
        }
        for i in range(n_old + n_new)
        for place, model in enumerate(MODELS)
    ]


def opinions(days_ago: float) -> Rows:
    return [
        {
            "item_id": f"{days_ago:g}-{i}",
            "contributor": f"author{i % 2}",
            "reviewer": f"r{j}",
            "opinion": 1 if (i + j) % 3 else -1,
            "at": NOW_S - days_ago * DAY_S,
        }
        for i in range(4)
        for j in range(4)
    ]


def shown(board: Board, width: int = 80) -> str:
    out = io.StringIO()
    show_board(Terminal(file=out, width=width, force_terminal=True, no_color=True), board)
    return re.sub(r"\x1b\[\d*m", "", out.getvalue())


def stored(tmp_path: Path, rows: Rows) -> Reports:
    file = tmp_path / "reviews.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    url = f"sqlite:///{tmp_path / 's.db'}"
    take(open_store(url), file, "reviews", lambda: NOW_S)
    return Reports(config.load(flags={"store": url}, environ={}))


def test_the_board_of_models_is_of_thirty_days_at_every_door() -> None:
    from peerage.doors.web.board_pages import MODEL_USUAL

    assert BOARD_OPTIONS["models"]().since == "30d" == MODEL_USUAL["since"]


def test_a_board_counts_what_its_window_leaves_out() -> None:
    board = peerage.board_models(reviews())
    assert board.document()["reviews"] == 18
    assert board.document()["reviews_left_out"] == board.n_left_out == 12
    assert "12 left out" in repr(board)
    assert peerage.board_models(reviews(), since="all").n_left_out == 0
    assert peerage.board_models(reviews(), since="all", as_of=NOW_S - DAY_S).n_left_out == 18


@pytest.mark.parametrize("options", [{}, {"category": "new"}, {"by_category": True}])
def test_a_store_and_its_table_leave_out_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    ours = stored(tmp_path, reviews()).board(ModelBoardOptions(**options))
    table = peerage.board_models(reviews(), **options)
    assert ours.n_left_out == table.n_left_out == (0 if "category" in options else 12)


def test_a_window_that_leaves_out_everything_says_so_and_how_to_see_it(tmp_path: Path) -> None:
    reports = stored(tmp_path, reviews())
    board = reports.board(ModelBoardOptions(category="old"))
    assert len(board) == 0
    assert re.search(r"all 12 reviews .*--since all", board.hint)
    assert board.flags == ()
    assert board.document()["hint"] == board.hint
    assert board.hint in board_page(board)
    assert len(reports.board(ModelBoardOptions(category="old", since="all"))) == 3
    assert not reports.board(ModelBoardOptions()).hint


def test_comparisons_that_are_only_counted_leave_out_the_same() -> None:
    rows = [
        {"model_a": "a", "model_b": "b", "winner": "model_a", "at": NOW_S - i // 2_000 * 60 * DAY_S}
        for i in range(6_000)
    ]
    for rule in ("bradley_terry", "borda"):
        board = peerage.board_models(rows, rule=rule)
        assert (board.notes["reviews"], board.n_left_out) == (4_000, 8_000)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_window_stands_above_the_board(width: int) -> None:
    text = " ".join(shown(peerage.board_models(reviews()), width).split())
    assert text.startswith("Models: the last 30 days up to 2026-09-")
    assert re.search(r"; 12 reviews left out .*--since all", text)
    assert text.index("left out") < text.index("rivals beaten")
    text = shown(peerage.board_models(reviews(), since="all"), width)
    assert "no review left out" in " ".join(text.split())


@pytest.mark.parametrize("kind", [ContributorBoardOptions, ReviewerBoardOptions])
def test_boards_of_a_community_name_their_window_too(kind: Any) -> None:
    rows = [*opinions(0), *opinions(60)]
    reports = Reports(config.load(environ={}), InputTables(opinions=rows))
    assert reports.board(kind()).n_left_out == 0
    board = reports.board(kind(since="30d"))
    assert board.parameters["opinions_left_out"] == board.n_left_out == 16
    text = " ".join(shown(board).split())
    assert f"{board.board.capitalize()}: the last 30 days up to 2026-09-" in text
    assert "16 opinions left out" in text
    board = reports.board(kind(since="12h", as_of=NOW_S - 30 * DAY_S))
    assert "all 32 opinions lie outside this window" in board.hint
