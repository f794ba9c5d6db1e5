"""Folders of files, and judgements that come again: counted once, as rounds, or refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

import peerage
from peerage.errors import InputError
from peerage.imports.diagnosis import diagnose
from peerage.imports.files import files_in, open_reviews
from peerage.imports.store_folders import export
from peerage.stores import open_store
from tests.shared.foreign_files import Grade, lines, write_inspect

SINGLE = {"question_id": 1, "judge": ["j", "v1"], "model": "x", "turn": 1, "judgment": "…"}


def log(model: str, score: float = 0.5, query: int = 0) -> bytes:
    return write_inspect([Grade(query, model, "match", score)])


def grade(score: float, tstamp: float, **other: Any) -> dict[str, Any]:
    return {**SINGLE, "score": score, "tstamp": tstamp, **other}


@pytest.fixture
def logs(tmp_path):
    """A folder with the logs of two models, one of them in a subfolder."""
    folder = tmp_path / "logs"
    (folder / "more").mkdir(parents=True)
    (folder / "x.json").write_bytes(log("x", 1.0))
    (folder / "more" / "y.json").write_bytes(log("y", 0.0))
    return folder


def test_a_folder_is_read_as_all_files_in_it(logs):
    rows = peerage.read(logs).to_pylist()
    assert {(row["candidate"], row["score"]) for row in rows} == {("x", 1.0), ("y", 0.0)}
    diagnosis = diagnose(logs)
    assert (diagnosis.n_files, diagnosis.n_candidates, diagnosis.boards) == (2, 2, {"models": ""})
    with open_reviews([logs]) as tables:
        board = peerage.board_models(tables, since="all")
    assert [row["model"] for row in board.rows] == ["x", "y"]


def test_two_formats_in_a_folder_are_listed_and_one_can_be_chosen(logs):
    (logs / "grades.jsonl").write_bytes(lines([grade(5, 1.0)]))
    with pytest.raises(InputError) as error:
        peerage.read(logs)
    for part in ("2 formats", "mt-bench (grades.jsonl)", "inspect (more/y.json, x.json)", "--as"):
        assert part in str(error.value)
    assert peerage.read(logs, format="inspect").num_rows == 2
    (left_out,) = diagnose(logs, "mt-bench").oddities
    assert "x.json" in left_out


def test_files_of_a_folder_without_a_known_format_are_named(logs):
    (logs / "settings.json").write_text('{"theme": "dark"}')
    (logs / ".hidden.json").write_text("{}")
    (logs / "notes.txt").write_text("notes")
    told: list[str] = []
    with open_reviews([logs], note=told.append):
        pass
    (sentence,) = told
    assert sentence.endswith("they have another format: settings.json.")


def test_a_copy_of_a_file_in_a_folder_is_named_and_not_read(logs):
    (logs / "z.json").write_bytes(log("x", 1.0))
    assert peerage.read(logs).num_rows == 2
    (sentence,) = diagnose(logs).oddities
    assert sentence.endswith("they are copies: z.json.")


def test_a_folder_without_judgements_is_refused_with_what_it_has(tmp_path):
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    with pytest.raises(InputError, match=r"no files of a known format.* It has settings\.json"):
        files_in(tmp_path)


def test_a_damaged_file_of_a_folder_is_refused(logs):
    (logs / "z.eval").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(InputError, match=r"z\.eval: this archive is damaged"):
        peerage.read(logs)


def test_a_log_without_scores_does_not_keep_the_others_from_being_read(logs):
    empty = json.loads(log("z"))
    (logs / "z.json").write_text(json.dumps({**empty, "samples": []}))
    assert re.search(r"z\.json: .*no judgements", str(diagnose(logs)))
    assert diagnose(logs).n_candidates == 2


# -- judgements that come again -------------------------------------------------------------------


def test_a_copy_of_a_judgement_counts_once_and_is_told(tmp_path):
    path = tmp_path / "grades.jsonl"
    path.write_bytes(lines([grade(5, 1.0), grade(7, 2.0, model="y"), grade(5, 1.0)]))
    assert peerage.read(path).num_rows == 2
    (copies,) = (one for one in diagnose(path).oddities if "copies" in one)
    assert ": 1." in copies


def test_another_value_or_time_is_a_further_round_and_is_told(tmp_path):
    path = tmp_path / "grades.jsonl"
    path.write_bytes(lines([grade(5, 1.0), grade(7, 2.0), grade(7, 3.0), grade(7, 2.0)]))
    rows = peerage.read(path).to_pylist()
    assert sorted((row["round"] or 0, row["score"]) for row in rows) == [(0, 5), (1, 7), (2, 7)]
    told = " ".join(diagnose(path).oddities)
    assert "another value or time: 2." in told
    assert "value and time): 1." in told


def test_copies_and_rounds_are_found_across_the_files_of_a_folder(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines([grade(5, 1.0), grade(6, 2.0, model="y")]))
    (tmp_path / "b.jsonl").write_bytes(lines([grade(5, 1.0)]))
    (tmp_path / "c.jsonl").write_bytes(lines([grade(9, 3.0)]))
    rows = peerage.read(tmp_path).to_pylist()
    assert sorted((row["candidate"], row["round"] or 0, row["score"]) for row in rows) == [
        ("x", 0, 5),
        ("x", 1, 9),
        ("y", 0, 6),
    ]


def test_a_model_against_itself_is_an_abstention(tmp_path):
    path = tmp_path / "annotations.json"
    common = {"instruction": "q", "annotator": "j", "preference": 1.0, "generator_1": "x"}
    pairs = [{**common, "generator_2": other} for other in ("x", "y")]
    path.write_text(json.dumps(pairs))
    rows = peerage.read(path).to_pylist()
    assert [(row["candidate"], row["rank"]) for row in rows] == [("x", None), ("x", 1), ("y", 2)]


# -- folders that are written ---------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from peerage.imports.store_folders import export
from peerage.stores import open_store
store = open_store(sys.argv[1])
store.imports = lambda: os._exit(9)
export(store, Path(sys.argv[2]))
"""


def test_an_export_that_was_killed_leaves_nothing_that_the_next_one_refuses(tmp_path):
    address, target = f"sqlite:///{tmp_path}/s.db", tmp_path / "out"
    command = [sys.executable, "-c", KILLED, address, str(target)]
    assert subprocess.run(command, check=False).returncode == 9
    assert not target.exists()
    assert export(open_store(address), target) == {"sessions": 0, "imports": 0}
    assert (target / "export.json").exists()
