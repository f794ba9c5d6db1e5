"""A season, a panel, reviewers left out, other weights: one selection at every door."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import peerage
from peerage import config
from peerage.doors.mcp import create_server
from peerage.engines.duckdb import DuckDB
from peerage.errors import InputError, UsageError
from peerage.imports.table_files import write_reviews
from peerage.panel import Council
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.service import Service
from peerage.stores import open_store
from tests.doors.http.conftest import running
from tests.small_seasons import hold_season, simulated_seats

SELECTIONS: list[dict[str, Any]] = [
    {"season": "SEASON"},
    {"panel": ("a", "d")},
    {"without": ("a", "b")},
    {"weights": "accuracy=1"},
    {"weights": "accuracy=0.5,clarity=0.5", "without": ("c",), "panel": ("a",)},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of two seasons with other panels."""
    url = f"sqlite:///{tmp_path_factory.mktemp('seasons')}/s.db"
    hold_season(url, "abcd", season="one", n=6)
    hold_season(url, "abce", season="two", n=4)
    return url


@pytest.fixture(scope="module")
def reports(url: str) -> Reports:
    return Reports(config.load(flags={"store": url}, environ={}))


@pytest.fixture(scope="module")
def table(reports: Reports, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reviews of the store as one file."""
    path = tmp_path_factory.mktemp("table") / "reviews.parquet"
    write_reviews(reports.review_files(), ".parquet", path)
    return path


@pytest.fixture(scope="module")
def season(reports: Reports) -> str:
    return reports.store.sessions()[0].season


def given(selection: dict[str, Any], season: str) -> dict[str, Any]:
    return {n: season if value == "SEASON" else value for n, value in selection.items()}


def rows_of(table: Path) -> list[dict[str, Any]]:
    columns = DuckDB().arrays(DuckDB().open(table))
    lists = {name: values.tolist() for name, values in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_a_store_and_its_table_give_the_same_board(
    reports: Reports, table: Path, season: str, selection: dict[str, Any]
) -> None:
    options = given(selection, season)
    stored = reports.board(ModelBoardOptions(**options))
    assert stored.rows == peerage.board_models(table, **options).rows  # type: ignore[arg-type]
    assert stored.rows != reports.board(ModelBoardOptions()).rows
    assert stored.document()["parameters"].keys() >= options.keys()


def test_a_season_a_panel_and_reviewers_left_out_are_what_a_person_would_filter(
    reports: Reports, table: Path, season: str
) -> None:
    rows = rows_of(table)
    sat: dict[str, set[str]] = {}
    for row in rows:
        sat.setdefault(row["session_id"], set()).update((row["reviewer"], row["candidate"]))
    kept = {
        "season": [row for row in rows if row["season"] == season],
        "panel": [row for row in rows if {"a", "d"} <= sat[row["session_id"]]],
        "without": [row for row in rows if row["reviewer"] not in ("a", "b")],
    }
    options = {"season": season, "panel": ("a", "d"), "without": ("a", "b")}
    for name, some in kept.items():
        ours = reports.board(ModelBoardOptions(**{name: options[name]}, since="all"))
        assert ours.rows == peerage.board_models(columns_of(some), since="all").rows


def test_the_recorded_weights_give_the_recorded_board(reports: Reports) -> None:
    weights = {n: float(weight) for n, weight in config.rubric("general").weights.items()}
    assert reports.board(ModelBoardOptions(weights=weights)).rows == (
        reports.board(ModelBoardOptions()).rows
    )


def test_accuracy_alone_ranks_each_ballot_by_the_marks_for_accuracy(table: Path) -> None:
    rows = rows_of(table)
    for row in rows:
        row["score"], row["rank"] = row["mark_accuracy"], None
    by_hand = peerage.board_models(columns_of(rows))
    ours = peerage.board_models(table, weights={"accuracy": 1})
    hand = {row["model"]: row["mean_score_plain"] for row in by_hand.rows}
    for row in ours.rows:  # but for the ceilings, which only lower a score
        assert row["mean_score_plain"] <= hand[row["model"]] + 1e-9


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_an_audit_takes_the_same_selection(
    reports: Reports, table: Path, season: str, selection: dict[str, Any]
) -> None:
    options = given(selection, season)
    stored = reports.audit(AuditOptions(**options))
    assert stored.document() == peerage.audit(table, **options).document()  # type: ignore[arg-type]
    subjects = {one.subject for one in stored.findings}
    assert not {"a", "b"} & subjects if selection.get("without") == ("a", "b") else subjects


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"season": "nope"}, "no season 'nope'"),
        ({"panel": "nope"}, "there is no model or reviewer 'nope'"),
        ({"panel": ("d", "e")}, "no session contains all of d, e"),
        ({"without": ("zed",)}, "there is no reviewer 'zed'"),
        ({"without": tuple("abcde")}, "no reviewer is left"),
        ({"weights": "acuracy=1"}, "Did you mean 'accuracy'"),
        ({"weights": "accuracy"}, "must be a dimension and its weight"),
        ({"weights": "accuracy=much"}, "must be a dimension and its weight"),
        ({"weights": "accuracy=-1"}, "must be a dimension and its weight"),
        ({"weights": "accuracy=0,clarity=0"}, "at least one weight must be above 0"),
        ({"weights": "accuracy=1,accuracy=2"}, "given twice"),
    ],
)
def test_what_the_reviews_do_not_have_is_refused(
    reports: Reports, options: dict[str, Any], problem: str
) -> None:
    for ask in (
        lambda: reports.board(ModelBoardOptions(**options)),
        lambda: reports.audit(AuditOptions(**options)),
    ):
        with pytest.raises(UsageError) as error:
            ask()
        assert problem in str(error.value)


def test_weights_need_marks() -> None:
    rows = {
        "session_id": ["s", "s"],
        "reviewer": ["r", "r"],
        "candidate": ["a", "b"],
        "rank": [1, 2],
        "mark_clarity": [5, 6],
    }
    with pytest.raises(InputError, match="no review has a mark for accuracy"):
        peerage.board_models(rows, weights="clarity=1")


def test_names_may_be_given_one_by_one_or_with_commas_and_may_hold_commas() -> None:
    rows = [
        {"session_id": f"s{i}", "reviewer": who, "candidate": c, "rank": r}
        for i in range(4)
        for who in ("Doe, J.", "bob", "cyd")
        for c, r in (("x", 1 + i % 2), ("y", 2 - i % 2))
    ]
    votes = [
        peerage.board_models(rows, without=without).rows[0]["total_votes"]
        for without in ("Doe, J.", ("bob",), "bob,cyd", ("bob", "cyd"), ("Doe, J.", "bob"))
    ]
    assert votes == [8, 8, 4, 4, 4]


def test_a_page_of_what_if_is_the_board_of_the_command_line(url: str, reports: Reports) -> None:
    with running(url, simulated_seats("ab")) as server:
        asked = "w_accuracy=100&w_relevance=0&w_completeness=0&w_conciseness=0&w_clarity=0"
        page = server.client.get(f"/boards/models/json?{asked}&without=c&panel=a,d").json()
        api = server.client.get(
            "/api/boards/models", params={"weights": "accuracy=1", "without": "c", "panel": "a,d"}
        ).json()
        several = server.client.get("/api/boards/models?without=a&without=b").json()
        audit = server.client.get("/api/audit?without=a&without=b&panel=c").json()
        wrong = server.client.get("/api/boards/models?weights=x")
    options = ModelBoardOptions(weights="accuracy=1", without="c", panel="a,d")  # type: ignore[arg-type]
    ours = json.loads(json.dumps(reports.board(options).rows))
    assert page["rows"] == api["rows"] == ours
    assert several["rows"] == json.loads(
        json.dumps(reports.board(ModelBoardOptions(without=("a", "b"))).rows)
    )
    assert len(audit["findings"]) == len(
        reports.audit(AuditOptions(without=("a", "b"), panel=("c",))).findings
    )
    assert wrong.status_code == 422


def test_an_agent_asks_for_the_same(url: str, reports: Reports) -> None:
    async def scene() -> Any:
        service = Service(Council(store=open_store(url), seats=simulated_seats("ab")))
        try:
            async with Client(create_server(service)) as client:
                options = {"without": ["c"], "weights": "accuracy=1", "panel": ["a", "d"]}
                board = await client.call_tool("board", {"options": options})
                audit = await client.call_tool("audit", {"options": options})
                return board.structured_content, audit.structured_content
        finally:
            await service.close(grace_s=0)

    board, audit = asyncio.run(scene())
    chosen: dict[str, Any] = {"without": ("c",), "weights": "accuracy=1", "panel": ("a", "d")}
    assert board["rows"] == json.loads(json.dumps(reports.board(ModelBoardOptions(**chosen)).rows))
    assert len(audit["findings"]) == len(reports.audit(AuditOptions(**chosen)).findings)
