"""Wide tables with a judge's column and people's: recognised by looking, read in any spelling."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import peerage
from peerage.errors import InputError, PeerageError, UsageError
from peerage.imports.files import open_tables
from peerage.imports.formats import UnknownFormatError, recognise
from peerage.imports.formats.wide_labels import find_columns, judgement, kind_of, labels_format

ROW = {
    "id": "q1",
    "input": "Refund?",
    "output": "Yes, in 30 days.",
    "human": "pass",
    "judge": "fail",
}


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def table(n: int, **cells: Sequence[object]) -> list[dict[str, Any]]:
    """Rows with ids; each column's cells are repeated."""
    return [
        {"id": f"q{i}", **{name: values[i % len(values)] for name, values in cells.items()}}
        for i in range(n)
    ]


def read(path: Path, **columns: Sequence[str]) -> list[dict[str, Any]]:
    found = labels_format(**columns) if columns else recognise(path)
    return [dict(row) for row in found.read(path)]  # type: ignore[misc]


def test_a_table_of_one_judge_and_one_person_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path / "one_judge.csv", [{**ROW, "id": f"q{i}"} for i in range(3)])
    assert recognise(path).name == "labels"
    rows = read(path)
    assert [(row["reviewer"], row["score"], row.get("person")) for row in rows[:2]] == [
        ("judge", 0.0, None),
        ("human", 1.0, 1),
    ]
    assert {row["candidate"] for row in rows} == {"application"}
    assert rows[0]["words"] == 4


def test_rows_of_json_lines_are_read_alike(tmp_path: Path) -> None:
    rows = [{**ROW, "id": f"q{i}", "human": True, "judge": 1} for i in range(4)]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert recognise(path).name == "labels"
    assert {row["score"] for row in read(path)} == {1.0}


@pytest.mark.parametrize("word", ["Pass", "YES", "true", "1", "1.0", "✅", "ja", "Oui", "sí", "OK"])
def test_a_pass_in_any_spelling_is_one(word: str) -> None:
    assert judgement(word, "verdicts") == 1.0


@pytest.mark.parametrize("word", ["FAIL", "no.", "False", "0", "❌", "nein", "non", "thumbs down"])
def test_a_fail_in_any_spelling_is_none(word: str) -> None:
    assert judgement(word, "verdicts") == 0.0


def test_a_column_is_verdicts_marks_picks_or_nothing() -> None:
    assert kind_of(["1", "0", "", "1"]) == "verdicts"
    assert kind_of(["1", "2", "5"]) == "marks"
    assert kind_of(["A", "B", "tie"]) == "picks"
    assert kind_of(["Paris is nice", "London too"]) is None
    assert kind_of(["", None]) is None


def test_a_third_value_is_no_label_and_is_told_with_its_number(tmp_path: Path) -> None:
    rows = table(20, human=["pass", "fail", "skip", "pass", "?"], judge=["pass"])
    path = write(tmp_path / "a.csv", rows)
    told = " ".join(labels_format().warn(path))  # type: ignore[misc]
    assert "'skip' 4" in told
    assert "'?' 4" in told
    assert sum(row["reviewer"] == "human" for row in read(path)) == 12


def test_an_id_with_two_answers_is_two_answers_to_one_question(tmp_path: Path) -> None:
    rows = [{**ROW, "output": text} for text in ("one", "two", "one")]
    sessions = [row["session_id"] for row in read(write(tmp_path / "a.csv", rows))]
    assert sessions == ["q1", "q1", "q1 (2)", "q1 (2)", "q1", "q1"]
    assert {row["query_id"] for row in read(tmp_path / "a.csv")} == {"q1"}


def test_answers_to_one_input_are_one_group(tmp_path: Path) -> None:
    rows = [{**ROW, "id": f"q{i}"} for i in range(3)]
    assert {row["query_id"] for row in read(write(tmp_path / "a.csv", rows))} == {"q0"}


def test_an_answer_labelled_twice_with_two_words_gives_no_label(tmp_path: Path) -> None:
    rows = [{**ROW, "id": f"q{i}", "input": f"i{i}"} for i in range(12)]
    rows.append({**rows[0], "human": "fail"})
    path = write(tmp_path / "a.csv", rows)
    (card,) = peerage.audit(peerage.read(path)).against_people
    assert card.n == 11
    assert any("equally often" in warning for warning in card.warnings)


def test_several_judges_and_people_are_read_with_their_reasons(tmp_path: Path) -> None:
    cells = {"human_1": ["pass"], "human_2": ["fail"], "gpt": ["yes"], "claude": ["no"]}
    rows = table(3, model=["m1", "m2"], gpt_reason=["it is short"], **cells)
    found = read(write(tmp_path / "a.csv", rows))
    first = [row for row in found if row["session_id"] == "q0"]
    assert [row["reviewer"] for row in first] == ["gpt", "claude", "human_1", "human_2"]
    assert (first[0]["reason"], first[1].get("reason")) == ("it is short", None)
    assert {row["candidate"] for row in found} == {"m1", "m2"}


def test_picks_become_ranks_of_two_answers(tmp_path: Path) -> None:
    rows = table(3, human=["A", "B", "tie"], judge=["A"], model_a=["x"], model_b=["y"])
    found = read(write(tmp_path / "a.csv", rows))
    ranks = [(row["candidate"], row["rank"]) for row in found if row["reviewer"] == "human"]
    assert ranks == [("x", 1.0), ("y", 2.0), ("x", 2.0), ("y", 1.0), ("x", 1.0), ("y", 1.0)]


def test_unclear_columns_are_guessed_and_the_guess_can_be_copied(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(10, alice=["pass", "fail"], scorer=["pass"]))
    with pytest.raises(UnknownFormatError) as error:
        recognise(path)
    assert "peerage audit a.csv --judge scorer --people alice" in error.value.hint
    columns = find_columns(path, ["scorer"], ["alice"])
    assert (columns.judges, columns.people) == (("scorer",), ("alice",))


def test_a_column_that_is_not_there_or_has_no_labels_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [ROW])
    with pytest.raises(UsageError, match="no column"):
        find_columns(path, ["jugde"], ["human"])
    with pytest.raises(InputError, match="neither pass or fail"):
        find_columns(path, ["output"], ["human"])


def test_tables_of_reviews_and_of_comparisons_are_not_taken_for_labels(tmp_path: Path) -> None:
    reviews = [{"session_id": "s", "reviewer": "judge", "candidate": "m", "score": 1, "person": 0}]
    assert recognise(write(tmp_path / "r.csv", reviews)).name == "reviews"


def test_no_table_of_labels_ends_in_a_traceback(tmp_path: Path) -> None:
    odd: list[list[dict[str, Any]]] = [
        table(1, human=["pass"], judge=["pass"]),
        table(3, human=["pass"], judge=["fail"]),
        table(200, human=["1", *[""] * 39], judge=["1", "0"]),
        table(30, human=["5", "1"], judge=["9999999999", "1e300"]),
        table(30, human=["pass", "fail"], judge=["5", "1", "3"]),
        table(30, human=["3"], judge=["3"]),
    ]
    for i, rows in enumerate(odd):
        path = write(tmp_path / f"{i}.csv", rows)
        try:
            with open_tables([path]) as files:
                assert files
            audit = peerage.audit(peerage.read(path))
        except PeerageError:
            continue
        json.dumps(audit.document(), allow_nan=False)


def test_a_column_named_for_a_fault_says_fail_with_yes(tmp_path: Path) -> None:
    rows = table(4, human_toxic=["yes", "no"], judge_toxic=[1, 0])
    path = write(tmp_path / "a.csv", rows)
    assert [row["score"] for row in read(path)] == [0.0, 0.0, 1.0, 1.0] * 2
    told = " ".join(labels_format().warn(path))  # type: ignore[misc]
    assert "human_toxic: yes, true and 1 are read as fail" in told


def test_a_few_labels_far_below_the_first_rows_are_found(tmp_path: Path) -> None:
    labels = [""] * 2_000 + ["pass", "fail"] * 20
    path = write(tmp_path / "a.csv", table(2_040, human=labels, judge=["pass"]))
    assert recognise(path).name == "labels"
    assert sum(row["reviewer"] == "human" for row in read(path)) == 40


def test_a_table_without_labels_leads_to_labelling_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(5, output=["an answer"], judge=["pass"]))
    with pytest.raises(UnknownFormatError) as error:
        recognise(path)
    assert "peerage label a.csv" in error.value.hint


def test_marks_and_passes_are_not_compared_as_one_scale(tmp_path: Path) -> None:
    rows = table(80, human=["pass", "fail"], judge=[5, 2, 4, 1])
    audit = peerage.audit(peerage.read(write(tmp_path / "a.csv", rows)))
    assert not [one for one in audit.findings if one.subject.startswith("human")]
    assert any("another scale" in flag for flag in audit.views["flags"])
