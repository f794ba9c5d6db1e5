"""`peerage board models`: a table, JSON, CSV, Parquet and a page, from the same board."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.dom.minidom import parseString

import pytest

from peerage.doors.cli.board_commands import BoardFiles
from peerage.doors.cli.common_options import Common
from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.pages import board_page
from peerage.doors.render.report_views import show_board
from peerage.engines.duckdb import DuckDB
from peerage.errors import UsageError
from peerage.reports import InputTables
from peerage.reports.from_tables import board_models
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews


@pytest.fixture(scope="module")
def season() -> dict[str, Any]:
    seats = ("a", "b", "<script>alert(1)</script>")
    return dict(
        simulated_reviews(SimulatedSeason(seats=seats, n_sessions=40, n_weeks=3), Planted(), 2)
    )


@pytest.fixture(scope="module")
def full(season: dict[str, Any]) -> Any:
    return board_models(season, since="all", matrix=True, compare_rules=True, history="week")


def printed(board: Any, **how: Any) -> str:
    out = io.StringIO()
    show_board(Terminal(file=out, width=140, force_terminal=True, no_color=True), board, **how)
    return out.getvalue()


def test_the_table_shows_ranks_with_their_ranges_and_intervals(full: Any) -> None:
    text = printed(full)
    assert re.search(r"1 \(1–\d\)", text)
    assert "●" in text and "─" in text  # noqa: PT018 — one bar
    assert "row above the column" in text
    assert "rules side by side" in text
    assert "share by week" in text
    assert "95% intervals of the share of rivals beaten over" in text


def test_a_line_separates_the_models_that_cannot_be_first() -> None:
    rows = [
        {"session_id": f"s{i}", "reviewer": "j", "candidate": c, "rank": r}
        for i in range(30)
        for c, r in (("a", 1.0), ("b", 2.0 + (i % 9 == 0)), ("c", 3.0 - (i % 9 == 0)))
    ]
    shown = printed(board_models(rows))
    lines = shown[shown.index("rank") :].splitlines()
    at = next(i for i, line in enumerate(lines) if "── cannot be first ──" in line)
    assert " a " in lines[at - 1]
    assert " b " in lines[at + 1]
    assert "tier" not in shown


def test_an_empty_board_is_an_empty_table_and_a_sentence() -> None:
    empty = {name: [] for name in ("session_id", "reviewer", "candidate", "rank")}
    text = printed(board_models(empty))
    assert "rank" in text
    assert "No reviews in this window." in text


def test_json_csv_and_parquet_say_the_same(
    season: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "board.parquet"
    board = board_models(season, since="all")
    BoardFiles(parquet=path).write(board, Common(json=True, quiet=True))
    document = json.loads(capsys.readouterr().out)
    BoardFiles(csv=True).write(board, Common())
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    stored = DuckDB().arrays(DuckDB().open(path))
    assert [row["model"] for row in document["rows"]] == [row["model"] for row in lines]
    assert [float(row["share"]) for row in lines] == stored["share"].tolist()
    assert [row["rank"] for row in document["rows"]] == stored["rank"].tolist()
    assert document["board"] == "models"
    assert document["rule"] == "borda"


def test_the_page_holds_all_it_shows_and_nothing_runs_in_it(full: Any) -> None:
    page = board_page(full)
    no_svg = r"(?:(?!</?svg).)*"  # the weeks are a drawing in a drawing
    drawings = re.findall(rf"<svg{no_svg}(?:<svg{no_svg}</svg>{no_svg})?</svg>", page, re.DOTALL)
    assert len(drawings) == 3 + 1 + 6 + 1  # bars and their axis, pairs, the weeks
    for drawing in drawings:
        parseString(drawing)  # noqa: S318 — our own
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page


def test_the_page_is_written_where_it_was_asked_for(
    full: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "board.html"
    BoardFiles(html=path).write(full, Common(json=True))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert str(path) in capsys.readouterr().err


def test_against_an_outside_ranking_it_says_how_far_they_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"session_id": f"s{i}", "reviewer": "j", "candidate": c, "rank": float(r)}
        for i in range(5)
        for r, c in enumerate("abcde", 1)
    ]
    path = tmp_path / "outside.csv"
    path.write_text("model,rank\na,1\nb,2\nc,3\nd,5\ne,4\n", encoding="utf-8")
    BoardFiles().write(board_models(rows, against=path), Common(json=True))
    found = json.loads(capsys.readouterr().out)["against"]
    assert found["kendall_tau"] == pytest.approx(0.8)
    assert {one["name"] for one in found["movers"]} == {"d", "e"}


def test_a_master_goes_with_spark() -> None:
    with pytest.raises(UsageError, match="--master cannot be used with the engine duckdb"):
        InputTables(engine="duckdb", master="local[2]").runner()
