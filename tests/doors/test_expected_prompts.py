"""Prompts that say which answers are correct: stored, shown, and used by reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from peerage.errors import InputError
from peerage.imports.prompt_files import open_prompts, read_row, row_document


def rows_of(tmp_path: Path, *records: dict[str, Any]) -> list[Any]:
    file = tmp_path / "p.jsonl"
    file.write_text("\n".join(map(json.dumps, records)))
    return list(open_prompts(file))


ANSWERS = {"a": "Yes.", "b": "No."}


@pytest.mark.parametrize(
    ("more", "expected", "correct"),
    [
        ({}, (), None),
        ({"expected": "4"}, ("4",), None),
        ({"expected": 4}, ("4",), None),
        ({"expected": ["2", "3"]}, ("2", "3"), None),
        ({"expected": '["2", "3"]'}, ("2", "3"), None),
        ({"correct": "4"}, ("4",), None),
        ({"correct": ["b"], "answers": ANSWERS}, (), ("b",)),
        ({"correct": [], "answers": ANSWERS}, (), ()),
        ({"correct": "no", "answers": ANSWERS}, ("no",), None),
        ({"correct": ["b"], "expected": "no", "answers": ANSWERS}, ("no",), ("b",)),
    ],
)
def test_a_prompt_says_what_is_correct_and_is_read_back_the_same(
    tmp_path: Path, more: dict[str, Any], expected: Any, correct: Any
) -> None:
    (row,) = rows_of(tmp_path, {"query": "Is it?", **more})
    assert (row.expected, row.correct) == (expected, correct)
    assert read_row(json.loads(json.dumps(row_document(row)))) == row


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"expected": {"a": 1}}, '"expected" must be a text or a list of texts'),
        ({"expected": ["4", " "]}, '"expected" contains an empty string'),
        ({"correct": ["b", "c"], "answers": ANSWERS}, "names 'c', which has no answer in this row"),
        ({"correct": "4", "expected": "4"}, 'either "expected" or "correct"'),
    ],
)
def test_a_wrong_one_is_refused_with_its_row(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match="row 1") as error:
        rows_of(tmp_path, {"query": "Is it?", **more})
    assert words in error.value.message


def test_expected_answers_are_stored_shown_and_decide_checks(
    peerage: Any, panel: Any, tmp_path: Path
) -> None:
    panel([{"name": name, "provider": "simulated"} for name in ("x", "y", "z")], verdict="none")
    right = [i % 8 != 0 for i in range(24)]
    lines = [
        {
            "query": f"{i} + 1?",
            "expected": str(i + 1),
            "answers": {"good": f"Answer: {i + 1 if yes else 99}", "bad": "It is 99."},
        }
        for i, yes in enumerate(right)
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    season = json.loads(peerage("run", "p.jsonl", "--json").stdout)["season"]
    listed = json.loads(peerage("sessions", "--json").stdout)["sessions"]
    document = json.loads(peerage("show", listed[0]["id"], "--json").stdout)
    assert document["query"]["expected"]
    assert document["correct"]["bad"] == 0.0
    assert "Expected answer:" in peerage("show", listed[0]["id"]).stdout
    good, compared = "correct(good) > 0.6", "correct(good) > correct(bad)"
    done = peerage("check", "--require", good, "--require", compared, "--season", season, "--json")
    results = json.loads(done.stdout)["requirements"]
    assert [one["status"] for one in results] == ["holds", "holds"]
    assert results[0]["value"] == pytest.approx(21 / 24)
    gate = ("gate", "--base", "good", "--candidate", "bad", "--metric", "correct", "--quiet")
    assert peerage(*gate).returncode == 1
    board = json.loads(peerage("board", "models", "--people", "--json").stdout)
    assert board["people"]["people"] == ["(decisions)"]
