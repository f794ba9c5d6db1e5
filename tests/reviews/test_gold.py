"""People's judgements in one place: decisions count as a person wherever people do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import peerage
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.reviews.gold import DECISIONS, people_in, spread_correctness, with_decisions
from peerage.reviews.rows import Rows


def write_decided(file: Path, n: int, n_decided: int, *, on_one_row: bool = False) -> Path:
    """Three models; judges favour the worst one; people decided on the first queries' answers."""
    rng = random.Random(7)
    right = {"x": 0.8, "y": 0.5, "z": 0.2}
    lines = ["session_id,reviewer,candidate,score,words,reasoning_words,correct"]
    for i in range(n):
        is_right = {name: rng.random() < chance for name, chance in right.items()}
        words = {name: rng.randint(50, 200) for name in right}
        for judge in ("j1", "j2"):
            for name, yes in is_right.items():
                score = 5 + 2 * yes + (2 if name == "z" else 0) + rng.gauss(0, 0.5)
                says = i < n_decided and not (on_one_row and judge == "j2")
                correct = int(yes) if says else ""
                lines.append(f"s{i},{judge},{name},{score},{words[name]},{words[name]},{correct}")
    file.write_text("\n".join(lines))
    return file


def load(file: Path) -> Rows:
    (rows,) = read_reviews(DuckDB(), file).load().settle().map(lambda rows: rows)
    return rows


def test_decisions_correct_a_board_like_the_ballots_of_people(tmp_path: Path) -> None:
    board = peerage.board_models(write_decided(tmp_path / "t.csv", 200, 80), people=())
    assert board.notes["people"]["people"] == [DECISIONS]
    assert board.notes["people"]["queries_with_people"] == 80
    row = {one["model"]: one for one in board.rows}
    assert row["z"]["judges"] > row["z"]["people"] + 0.2
    assert abs(row["z"]["corrected"] - row["z"]["people"]) < 0.1
    assert row["x"]["people"] > row["y"]["people"] > row["z"]["people"]
    plain = peerage.board_models(tmp_path / "t.csv")
    assert [one["share"] for one in plain.rows] == [one["share"] for one in board.rows]


def test_an_audit_measures_judges_against_decisions(tmp_path: Path) -> None:
    audit = peerage.audit(write_decided(tmp_path / "t.csv", 200, 80), people=())
    assert {"j1>z", "j2>z"} <= {one.subject for one in audit.findings if one.status == "evidence"}
    assert audit.views["judged_beside"] == [DECISIONS]
    assert not any(DECISIONS in one.subject for one in audit.findings)


@pytest.mark.parametrize("metric", ["length", "reasoning_length", "effective_votes"])
def test_correctness_on_one_row_of_an_answer_counts_for_the_answer(
    tmp_path: Path, metric: str
) -> None:
    every = peerage.audit(write_decided(tmp_path / "a.csv", 60, 60))
    one_row = peerage.audit(write_decided(tmp_path / "b.csv", 60, 60, on_one_row=True))
    values = [
        [(one.subject, one.value, one.note) for one in audit.findings if one.metric == metric]
        for audit in (every, one_row)
    ]
    assert values[0] == values[1] != []


def test_people_who_contradict_each_other_are_averaged_and_corrected_scores_are_not_correctness(
    tmp_path: Path,
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        "session_id,reviewer,candidate,score,correct\n"
        "s,a,x,1,1\ns,b,x,2,0\ns,a,y,2,\ns,b,y,1,1\ns,a,z,3,7\ns,b,z,3,\n"
    )
    rows = spread_correctness(load(file))
    by_name = {
        rows.names[c]: v for c, v in zip(rows.candidate, rows.number("correct"), strict=True)
    }
    assert (by_name["x"], by_name["y"]) == (0.5, 1.0)
    assert by_name["z"] != by_name["z"]  # not a number: a corrected score says nothing of it
    decided = with_decisions(load(file))
    assert people_in(decided) == {DECISIONS}
    own = decided.reviewer == decided.code(DECISIONS)
    assert {decided.names[c] for c in decided.candidate[own]} == {"x", "y"}
    assert decided.n_sessions == 1


def test_a_table_without_decisions_is_the_same_object(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("session_id,reviewer,candidate,score,correct\ns,a,x,1,\ns,a,y,2,\n")
    rows = load(file)
    assert with_decisions(rows) is rows
