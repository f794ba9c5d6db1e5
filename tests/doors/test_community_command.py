"""`board contributors|reviewers|items` and `rings` over files: JSON, CSV and what a person sees."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.dom.minidom import parseString

import duckdb
import pytest

from peerage.doors.cli import board_commands
from peerage.doors.cli.board_commands import BoardFiles, CommunityBoard, write_parquet
from peerage.doors.cli.common_options import Common, OpinionFiles
from peerage.doors.render.pages import MAX_BARS, board_page
from peerage.errors import UsageError
from peerage.reports.from_tables import board_contributors, board_items, board_reviewers
from peerage.reports.options import (
    ContributorBoardOptions,
    ItemBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)
from peerage.simulate import Population, simulate

COLUMNS = {
    "contributors": "contributor rank total_score quality_score affiliation_bonus items "
    "items_scored reviews_received",
    "reviewers": "reviewer rank pearson low high status band agreement qualifying reviews "
    "reputation",
    "items": "item_id contributor quality reviews weight",
}

OPTIONS: Mapping[str, Any] = {
    "contributors": ContributorBoardOptions,
    "reviewers": ReviewerBoardOptions,
    "items": ItemBoardOptions,
}
BOARDS: Mapping[str, Any] = {
    "contributors": board_contributors,
    "reviewers": board_reviewers,
    "items": board_items,
}
COMMON, NO_FILES = Common(), BoardFiles()


def run_board(
    name: str,
    tables: OpinionFiles,
    options: Mapping[str, Any],
    common: Common = COMMON,
    forms: BoardFiles = NO_FILES,
    **more: Any,
) -> None:
    """One of the boards, as its command runs it with these options."""
    asked = CommunityBoard(opinions=tables, forms=forms, common=common, **more)
    asked.write(OPTIONS[name](**options))


def run_rings(tables: OpinionFiles, common: Common = COMMON) -> None:
    board_commands.rings(options=RingsOptions(), opinions=tables, common=common)


def write(path: Path, table: Mapping[str, Any]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return str(path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> OpinionFiles:
    folder = tmp_path_factory.mktemp("community")
    made = simulate(Population(honest=60, lazy=4, rings=(5,), opinions_each=25), 1)
    return OpinionFiles(
        write(folder / "opinions.csv", made.opinions),
        write(folder / "items.csv", made.items),
        write(folder / "users.csv", made.users),
    )


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", COLUMNS)
def test_json_has_the_public_columns_and_echoes_its_parameters(
    name: str, tables: OpinionFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    run_board(name, tables, {}, Common(json=True))
    document = printed(capsys)
    assert document["board"] == name
    assert list(document["rows"][0]) == COLUMNS[name].split()
    assert document["parameters"]["min_reviews_required"] == 5
    assert document["parameters"]["own_left_out"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_csv_has_every_row(
    name: str, tables: OpinionFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    run_board(name, tables, {}, forms=BoardFiles(csv=True))
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    run_board(name, tables, {}, Common(json=True))
    assert len(rows) == len(printed(capsys)["rows"])
    assert list(rows[0]) == COLUMNS[name].split()


@pytest.mark.parametrize("name", COLUMNS)
def test_parquet_has_every_row_of_the_json(
    name: str, tables: OpinionFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "board.parquet"
    everyone = {} if name == "items" else {"all": True}
    run_board(name, tables, everyone, Common(json=True, quiet=True), BoardFiles(parquet=path))
    stored = duckdb.read_parquet(str(path))
    rows = [dict(zip(stored.columns, row, strict=True)) for row in stored.fetchall()]
    assert rows == printed(capsys)["rows"]


def test_an_empty_parquet_has_the_types_of_a_full_one(tables: OpinionFiles, tmp_path: Path) -> None:
    full, empty = tmp_path / "full.parquet", tmp_path / "empty.parquet"
    board = board_reviewers(tables.opinions)
    write_parquet(board, full)
    write_parquet(replace(board, columns=dict.fromkeys(board.columns, ())), empty)
    texts = [
        [name for name, kind in zip(t.columns, t.types, strict=True) if str(kind) == "VARCHAR"]
        for t in (duckdb.read_parquet(str(path)) for path in (full, empty))
    ]
    assert texts[0] == texts[1] == ["reviewer", "status", "band"]


@pytest.mark.parametrize("name", COLUMNS)
def test_the_page_shows_scores_with_their_n_and_nothing_runs_in_it(
    name: str, tables: OpinionFiles
) -> None:
    board = BOARDS[name](tables.opinions, tables.users, items=tables.items)
    page = board_page(board)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == min(len(board), MAX_BARS) + 1
    for drawing in drawings:
        parseString(drawing)  # noqa: S318 — our own
    assert "<small>n " in page
    assert "<script" not in page
    assert "http" not in page
    assert 'class="interval"' in page if name == "reviewers" else 'class="part"' in page


def test_a_name_is_text_on_the_page() -> None:
    rows = [
        {"item_id": "<u>", "contributor": "&", "reviewer": f"<i>{k}", "opinion": 1}
        for k in range(5)
    ]
    for name in COLUMNS:
        everyone = {} if name == "items" else {"all": True}
        page = board_page(BOARDS[name](rows, **everyone))
        assert "<u>" not in page
        assert "<i>" not in page


def test_an_iterated_reputation_reports_its_rounds_and_dawid_and_skene(
    tables: OpinionFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    run_board("reviewers", tables, {"reputation": "iterate"}, Common(json=True))
    document = printed(capsys)
    assert document["parameters"]["iterations"] > 1
    assert 0 < document["rows"][0]["reputation"] < 1
    assert 0 < document["rows"][0]["dawid_skene"] <= 1


def test_rings_are_named_and_boards_can_do_without_them(
    tables: OpinionFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    run_rings(tables, Common(json=True))
    document = printed(capsys)
    assert [len(ring["members"]) for ring in document["rings"]] == [5]
    assert {"members", "p", "density", "evidence"} <= set(document["rings"][0])
    assert {"a", "b", "gap", "n", "p"} <= set(document["pairs"][0])
    run_board("contributors", tables, {}, Common(json=True))
    before = {row["contributor"]: row["quality_score"] for row in printed(capsys)["rows"]}
    run_board("contributors", tables, {"without_flagged": True}, Common(json=True))
    document = printed(capsys)
    after = {row["contributor"]: row["quality_score"] for row in document["rows"]}
    gained = {name for name in before if after[name] < before[name] - 1e-12}
    assert gained == {name for name in before if name.startswith("ring")}
    assert "60 opinions inside 1 flagged ring left out" in document["flags"]


@pytest.mark.slow
def test_a_person_sees_boards_rings_and_agreement(
    tables: OpinionFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_board("contributors", tables, {}, Common(json=True))
    names = [row["contributor"] for row in printed(capsys)["rows"]][:20]
    outside = tmp_path / "outside.csv"
    lines = [f"{name},{place}" for place, name in enumerate(names, 1)]
    outside.write_text("name,rank\n" + "\n".join(lines) + "\n", encoding="utf-8")
    run_board("contributors", tables, {}, against=outside, tune=True)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Kendall τ +" in shown
    assert "cross-validated" in shown
    run_rings(tables)
    shown = " ".join(capsys.readouterr().out.split())
    assert "ring of 5" in shown
    assert "unexplained mutual praise" in shown
    assert "shuffles" not in shown
    run_board("contributors", tables, {"by": "quality"}, Common(json=True))
    qualities = [round(row["quality_score"], 9) for row in printed(capsys)["rows"]]
    assert qualities == sorted(qualities, reverse=True)
    run_board("reviewers", tables, {})
    assert "pearson" in capsys.readouterr().out
    run_board("items", tables, {"category": None}, Common(quiet=True))
    assert "item" in capsys.readouterr().out


def test_tuning_without_a_goal_is_refused(tables: OpinionFiles) -> None:
    with pytest.raises(UsageError, match="an outside ranking to agree with"):
        run_board("items", tables, {}, tune=True)
