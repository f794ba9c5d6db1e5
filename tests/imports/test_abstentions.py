"""Rows without a judgement are abstentions: reports are the same as without these rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peerage
from peerage.imports.files import open_reviews
from peerage.reports.review_diff import diff
from tests.imports.test_round_trips import GRADES, PAIRS
from tests.shared.foreign_files import Grade, Pair

MODELS, JUDGES = ("a", "b", "c"), ("j1", "j2", "j3")
N_QUERIES = 24
OPTIONS = {"interval": "two-way", "fragility": True, "matrix": True}
Row = dict[str, Any]


def board_and_audit(table: Any) -> list[str]:
    """Return the JSON of a board with all that it can show, and of the audit."""
    board = peerage.board_models(table, since="all", **OPTIONS)
    parts = (board.columns, board.flags, board.notes, board.parameters)
    return [json.dumps(one) for one in (*parts, peerage.audit(table, since="all").document())]


def other_reports(table: Any) -> list[str]:
    """Return the JSON of other reports on a table of reviews."""
    ratings = peerage.board_models(table, since="all", rule="bradley_terry", compare_rules=True)
    gate = peerage.gate(table, since="all", base="a", candidate="b")
    changes = diff(table, table).document()
    changes["a"]["name"] = changes["b"]["name"] = "the table"
    advice = peerage.advise(table, since="all").document()
    return [
        json.dumps(one)
        for one in (ratings.columns, ratings.notes, gate.document(), changes, advice)
    ]


def grades() -> list[Grade]:
    rng = np.random.default_rng(5)
    return [
        Grade(query, model, judge, None if rng.random() < 0.25 else rng.integers(0, 11) / 10)
        for query in range(N_QUERIES)
        for model in MODELS
        for judge in JUDGES
    ]


@pytest.mark.parametrize("name", GRADES)
def test_a_file_with_missing_grades_is_read_as_the_file_without_them(tmp_path, name):
    cases = grades()
    found = []
    for label, some in (
        ("with", cases),
        ("without", [one for one in cases if one.score is not None]),
    ):
        folder = tmp_path / label
        folder.mkdir()
        with open_reviews(write_grades(folder, name, some), columns=columns_of(name)) as table:
            found.append(board_and_audit(table))
    assert found[0] == found[1]


def columns_of(name: str) -> str:
    return GRADES[name][0] if "=" in GRADES[name][0] else ""


def write_grades(folder: Path, name: str, cases: Sequence[Grade]) -> list[Path]:
    """Write the grades as one file, or as one for each candidate if the format has one a file."""
    _, file, write, is_single = GRADES[name]
    parts = [[one for one in cases if one.candidate == model] for model in MODELS]
    paths = []
    for i, part in enumerate(parts if is_single else [list(cases)]):
        (folder / str(i)).mkdir()
        paths.append(folder / str(i) / file)
        paths[-1].write_bytes(write(part))
    return paths


@pytest.mark.parametrize("name", [name for name, one in PAIRS.items() if None in one[3]])
def test_a_file_with_games_without_a_winner_is_read_as_the_file_without_them(tmp_path, name):
    _, file, write, winners, _ = PAIRS[name]
    rng = np.random.default_rng(6)
    cases = [
        Pair(query, first, second, judge, winners[rng.integers(0, len(winners))])
        for query in range(N_QUERIES)
        for first, second in (("a", "b"), ("b", "c"), ("c", "a"))
        for judge in JUDGES
    ]
    found = []
    for label, some in (("with", cases), ("without", [one for one in cases if one.winner])):
        path = tmp_path / label / file
        path.parent.mkdir()
        path.write_bytes(write(some))
        with open_reviews([path]) as table:
            found.append(board_and_audit(table))
    assert found[0] == found[1]


def rows() -> list[Row]:
    return [
        {
            "session_id": f"s{one.query:02}",
            "reviewer": one.judge,
            "candidate": one.candidate,
            "score": one.score,
        }
        for one in grades()
    ]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("empty", [None, float("nan")])
def test_a_table_with_empty_scores_is_the_table_without_these_rows(tmp_path, suffix, empty):
    found = []
    for label, some in (
        ("with", rows()),
        ("without", [r for r in rows() if r["score"] is not None]),
    ):
        filled = [{**row, "score": empty if row["score"] is None else row["score"]} for row in some]
        found.append(board_and_audit(stored(tmp_path / f"{label}.{suffix}", filled)))
    assert found[0] == found[1]


def stored(path: Path, some: Sequence[Row]) -> Any:
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    table = pa.Table.from_pylist(list(some))
    if path.suffix == ".arrow":
        return table
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in some).replace("NaN", '"NaN"'))
    else:
        parquet.write_table(table, path)
    return str(path)


def test_every_report_leaves_out_empty_scores():
    known = [row for row in rows() if row["score"] is not None]
    assert other_reports(table_of(rows())) == other_reports(table_of(known))


def test_ballots_with_ranks_keep_answers_below_the_ranked_ones():
    ranked = [
        {"session_id": f"s{i}", "reviewer": "r", "candidate": name, "rank": rank, "score": None}
        for i in range(8)
        for name, rank in (("a", 1.0), ("b", None))
    ]
    board = peerage.board_models(table_of(ranked), since="all")
    assert board.columns["total_wins"][0] == 8
    assert board.columns["share"][0] == 1.0


def test_ballots_with_ranks_do_not_change_what_an_empty_score_on_another_ballot_means():
    base = [{**row, "rank": None} for row in rows() if row["score"] is not None]
    ranked = [
        {"session_id": "t", "reviewer": "r", "candidate": name, "rank": rank, "score": None}
        for name, rank in (("a", 1.0), ("b", 2.0), ("c", None))
    ]
    blank = [{**row, "rank": None} for row in rows() if row["score"] is None]
    assert board_and_audit(table_of(base + ranked)) == board_and_audit(
        table_of(base + ranked + blank)
    )


def test_a_model_that_has_only_empty_scores_is_listed_last_without_votes():
    some = rows()
    more = [{**row, "candidate": "zero", "score": None} for row in some if row["candidate"] == "a"]
    bare, listed = (peerage.board_models(table_of(t), since="all") for t in (some, some + more))
    assert listed.columns["model"] == [*bare.columns["model"], "zero"]
    assert listed.rows[-1]["total_votes"] == 0
    assert listed.rows[-1]["share"] is None
    assert listed.rows[:-1] == bare.rows


def test_an_empty_score_is_not_a_defeat():
    table = [
        {"session_id": f"s{i}", "reviewer": "r", "candidate": name, "score": score}
        for i in range(16)
        for name, score in (("m1", 9.0 if i < 8 else None), ("m2", 5.0))
    ]
    board = peerage.board_models(table_of(table), since="all")
    assert dict(zip(board.columns["model"], board.columns["share"], strict=True)) == {
        "m1": 1.0,
        "m2": 0.0,
    }
    assert dict(zip(board.columns["model"], board.columns["total_wins"], strict=True))["m2"] == 0


def table_of(some: Sequence[Row]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(list(some))
