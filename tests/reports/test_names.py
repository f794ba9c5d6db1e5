"""Names are trimmed wherever a table is read, and names that look alike are flagged."""

import csv

import pytest

import peerage
from peerage.imports import take
from peerage.names import alike
from peerage.stores import open_store

PADDED = [
    {"session_id": f"s{i}", "reviewer": reviewer, "candidate": candidate, "rank": rank}
    for i in range(6)
    for reviewer in ("x", f"y{' ' * (i % 2)}", "z")
    for rank, candidate in enumerate(("a", f"\u00a0b{' ' * (i % 3)}", "c"), 1)
]
PLAIN = [
    {name: value.strip() if isinstance(value, str) else value for name, value in row.items()}
    for row in PADDED
]
LIKE = [{**row, "candidate": "B" if row["candidate"] == "c" else row["candidate"]} for row in PLAIN]
OPINIONS = [
    {"item_id": f"i{i} ", "contributor": f"ann{' ' * i}", "reviewer": reviewer, "opinion": 1}
    for i in range(3)
    for reviewer in ("r1", " r2", "r3", "R3")
]


def as_file(rows, path):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def names_of(flags):
    return {flag.partition(":")[0] for flag in flags}


@pytest.mark.parametrize(
    ("engine", "in_file"),
    [
        ("duckdb", False),
        ("duckdb", True),
        pytest.param("spark", False, marks=[pytest.mark.needs("java", "spark"), pytest.mark.slow]),
    ],
)
def test_a_board_of_padded_names_is_the_board_of_trimmed_ones(engine, in_file, tmp_path):
    rows = as_file(PADDED, tmp_path / "r.csv") if in_file else PADDED
    board, plain = peerage.board_models(rows, engine=engine), peerage.board_models(PLAIN)
    assert board.rows == plain.rows
    (flag,) = board.flags
    assert flag.startswith("names_that_differed_by_spaces:2: ")
    assert plain.flags == ()


def test_an_audit_of_padded_names_is_the_audit_of_trimmed_ones():
    padded, plain = peerage.audit(PADDED), peerage.audit(PLAIN)
    assert padded.findings == plain.findings
    assert names_of(padded.views["flags"]) == {"names_that_differed_by_spaces"}


def test_comparisons_of_padded_names_are_one_model():
    rows = [{"model_a": "a" + " " * (i % 2), "model_b": "b", "winner": "a "} for i in range(4)]
    board = peerage.board_models(rows)
    assert [row["model"] for row in board.rows] == ["a", "b"]
    assert names_of(board.flags) == {"names_that_differed_by_spaces"}


def test_people_and_items_of_a_community_are_trimmed_too():
    users = [{"user_id": " ann", "affiliated": True}]
    (row,) = peerage.board_contributors(OPINIONS, users).rows
    assert (row["contributor"], row["items"], row["affiliation_bonus"]) == ("ann", 3, 10.0)
    reviewers = {row["reviewer"] for row in peerage.board_reviewers(OPINIONS, all=True).rows}
    assert {"r1", "r2", "r3", "R3"} <= reviewers
    assert {row["item_id"] for row in peerage.board_items(OPINIONS).rows} == {"i0", "i1", "i2"}


def test_an_outside_ranking_and_weights_match_trimmed_names():
    outside = [
        {"model": f" {name} ", "score": score} for name, score in zip("abc", (3, 2, 1), strict=True)
    ]
    assert peerage.board_models(PLAIN, against=outside).notes["against"]["n"] == 3
    weights = [{"item_id": f"s{i} ", "weight": 1.0} for i in range(6)]
    board = peerage.board_models(PLAIN, item_weights=weights)
    assert "sessions_without_a_weight" not in names_of(board.flags)


def test_a_name_that_differs_only_in_blanks_or_case_is_flagged_wherever_a_table_is_read(tmp_path):
    assert "names_alike:1: 'B' and 'b'" in peerage.board_models(LIKE).flags
    assert "names_alike:1: 'B' and 'b'" in peerage.audit(LIKE).views["flags"]
    for result in (peerage.board_contributors(OPINIONS), peerage.find_rings(OPINIONS)):
        assert "names_alike:1: 'R3' and 'r3'" in result.flags
    scored = peerage.score([["GPT-4", "gpt-4", "gpt 4"], ["gpt-4", "GPT-4", "gpt 4"]])
    assert scored.session.flags == ("names_alike:'GPT-4' and 'gpt-4'",)
    file = as_file(LIKE, tmp_path / "like.csv")
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    assert "names_alike:1: 'B' and 'b'" in take(store, file, "reviews", lambda: 1.8e9).flags


def test_names_that_differ_in_more_are_not_alike():
    assert alike(["gpt-4", "gpt-5", "gpt4", "GPT 5"]) == []
    assert alike(["gpt 4", "GPT  4", "gpt4", "x"]) == [("GPT  4", "gpt 4", "gpt4")]


@pytest.mark.parametrize(
    "other", ["\u0412", "\uff22", "B\u200b", "\u200dB", "\u0392", "B\ufe0f", "\U0001d401"]
)
def test_names_that_are_drawn_alike_are_alike_in_every_script(other):
    assert alike(["B", other]) == [tuple(sorted(("B", other)))]
    spelt = {"a": "a", "b": "B", "c": other}
    rows = [{**row, "candidate": spelt[row["candidate"]]} for row in PLAIN]
    assert any(flag.startswith("names_alike:1") for flag in peerage.board_models(rows).flags)


def test_cases_of_one_script_are_alike_also_where_only_one_case_looks_like_latin():
    assert alike(["\u0410\u041d\u041d\u0410", "\u0430\u043d\u043d\u0430"]) != []
    assert alike(["\u0436\u0443\u043a", "zuk"]) == []


def test_a_candidate_with_a_reserved_name_is_flagged_on_boards_and_imports(tmp_path):
    rows = [{**row, "candidate": row["candidate"].replace("a", "chair:a")} for row in PLAIN]
    assert "names_reserved:1: 'chair:a'" in peerage.board_models(rows).flags
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    imported = take(store, as_file(rows, tmp_path / "r.csv"), "reviews", lambda: 1.8e9)
    assert "names_reserved:1: 'chair:a'" in imported.flags
    assert not any("names_reserved" in flag for flag in peerage.board_models(PLAIN).flags)


# -- what other tools call their columns -----------------------------------------------------------


def arena(**more):
    return [
        {
            "question_id": f"q{i % 5}",
            "model_a": "a",
            "model_b": "b",
            "winner": "model_a",
            "judge": f"arena_user_{i}",
            "turn": 1,
            "tstamp": 1_700_000_000.0 + i * 3600,
            **more,
        }
        for i in range(20)
    ]


@pytest.mark.parametrize("in_file", [False, True])
def test_the_times_and_questions_of_an_arena_table_are_read(in_file, tmp_path):
    """Twenty battles over five questions are five observations; the window ends with the last."""
    rows = as_file(arena(), tmp_path / "battles.csv") if in_file else arena()
    usual = [{**row, "at": row["tstamp"], "query_id": row["question_id"]} for row in arena()]
    board = peerage.board_models(rows)
    assert board.rows == peerage.board_models(usual).rows
    assert board.parameters["as_of"] == "2023-11-15T17:13:20Z"
    assert board.rows[0]["share_low"] == pytest.approx(0.025 ** (1 / 5), abs=1e-9)
    short = peerage.board_models(rows, since="5h")
    assert short.notes["sessions"] == 6


def test_an_arena_table_is_imported_with_its_times_and_questions(tmp_path):
    from peerage.config import Settings
    from peerage.reports import ModelBoardOptions, Reports

    url = f"sqlite:///{tmp_path}/s.db"
    file = as_file(arena(), tmp_path / "battles.csv")
    take(open_store(url), file, "reviews", lambda: 1.8e9)
    stored = Reports(Settings(store=url)).board(ModelBoardOptions())
    assert stored.rows == peerage.board_models(arena()).rows
    assert stored.parameters["as_of"] == "2023-11-15T17:13:20Z"


def test_reviews_with_an_id_of_the_question_are_imported_under_its_usual_name(tmp_path):
    rows = [{**row, "question_id": "q1", "tstamp": 1_700_000_000} for row in PLAIN]
    board = peerage.board_models(rows)
    assert board.rows == peerage.board_models([{**row, "query_id": "q1"} for row in PLAIN]).rows
    assert board.parameters["as_of"] == "2023-11-14T22:13:20Z"
