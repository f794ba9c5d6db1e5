"""Folders of judgements on the command line, and what is said about copies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.shared.foreign_files import Grade, lines, write_inspect


def log(model, score):
    return write_inspect([Grade(0, model, "match", score)])


@pytest.fixture
def logs(tmp_path):
    """Two folders with the logs of two models."""
    for folder, best in (("logs", "x"), ("later", "y")):
        (tmp_path / folder / "more").mkdir(parents=True)
        (tmp_path / folder / "x.json").write_bytes(log("x", float(best == "x")))
        (tmp_path / folder / "more" / "y.json").write_bytes(log("y", float(best == "y")))


@pytest.fixture
def copies(tmp_path):
    """A file in which one of two grades comes twice."""
    grade = {"question_id": 1, "judge": ["j", "v1"], "turn": 1, "judgment": "", "tstamp": 1.0}
    records = [{**grade, "model": model, "score": 5} for model in "xyx"]
    (tmp_path / "grades.jsonl").write_bytes(lines(records))


def test_a_folder_is_imported_file_by_file(logs, peerage):
    first = json.loads(peerage("import", "logs", "--json").stdout)["imported"]
    assert [table["name"] for table in first] == [str(Path("more", "y.json")), "x.json"]
    again = json.loads(peerage("import", "logs", "--json").stdout)["imported"]
    assert [table["already"] for table in again] == [True, True]


def test_boards_audits_and_doctor_take_a_folder(logs, at_once):
    board = json.loads(at_once("board", "models", "logs", "--json").stdout)
    assert [row["model"] for row in board["rows"]] == ["x", "y"]
    assert json.loads(at_once("audit", "logs", "--json").stdout)["findings"]
    assert at_once("doctor", "logs").stdout.startswith("logs: 2 files, logs of Inspect")


def test_two_folders_can_be_compared(logs, at_once):
    result = json.loads(at_once("diff", "logs", "later", "--json").stdout)
    assert {row["model"] for row in result["models"]} == {"x", "y"}


def test_a_file_without_judgements_in_a_folder_is_named_and_the_others_are_imported(
    logs, peerage, tmp_path
):
    empty = {**json.loads(log("z", 1.0)), "samples": []}
    (tmp_path / "logs" / "z.json").write_text(json.dumps(empty))
    result = peerage("import", "logs")
    assert result.returncode == 0
    assert re.search(r"z\.json: .*no judgements", result.stderr)
    assert result.stdout.count("imported") == 2


def test_boards_of_files_tell_copies_on_stderr(copies, at_once):
    result = at_once("board", "models", "grades.jsonl", "--json")
    assert json.loads(result.stdout)["board"] == "models"
    assert "copies" in result.stderr


def test_imports_tell_copies(copies, peerage):
    (table,) = json.loads(peerage("import", "grades.jsonl", "--json").stdout)["imported"]
    assert table["n"] == 2
    assert any("copies" in flag for flag in table["flags"])


@pytest.mark.parametrize("command", [("board", "models"), ("audit",)])
def test_boards_and_audits_take_the_map_that_an_error_suggests(peerage, tmp_path, command):
    rows = [f"s{i},x,y,{model},{rank}" for i in range(3) for rank, model in enumerate("ab", 1)]
    (tmp_path / "r.csv").write_text("\n".join(["session_id,judge,rater,candidate,rank", *rows]))
    refused = peerage(*command, "r.csv")
    assert refused.returncode == 2
    _, _, suggested = refused.stderr.partition("such as --map ")
    done = peerage(*command, "r.csv", "--map", suggested.split()[0].rstrip("."), "--json")
    assert done.returncode == 0, done.stderr
    assert peerage(*command, "--map", "rank=rank").returncode == 2
