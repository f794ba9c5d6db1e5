"""`peerage diff`: two files, seasons or stores on the command line, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.reports.test_review_diff import ballot, shuffled


@pytest.fixture
def files(tmp_path):
    for name, rows in (
        ("a", shuffled(range(12), "a")),
        ("b", [{**row, "season": "second"} for row in shuffled(range(4, 16), "b", "xyw")]),
        ("c", [{**row, "candidate": row["candidate"] * 2} for row in shuffled(range(3), "c")]),
    ):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


def test_files_seasons_and_stores_are_compared_alike(files, peerage):
    peerage("import", "a.jsonl", "--store", "sqlite:///one.db")
    peerage("import", "b.jsonl", "--store", "sqlite:///two.db")
    results = [
        json.loads(peerage("diff", *sides, "--json").stdout)
        for sides in (
            ("a.jsonl", "b.jsonl"),
            ("one.db", "sqlite:///two.db"),
            ("a.jsonl", "second", "--store", "sqlite:///two.db"),
        )
    ]
    by_files = results[0]
    for other in results[1:]:
        assert other["models"] == by_files["models"]
        assert other["reviews"] == by_files["reviews"]
    assert by_files["shared_sessions"] == 8


def test_a_terminal_and_a_comment_name_the_reviews_behind_an_exchange(files, at_once):
    for name, n in (("before", 3), ("after", 2)):
        rows = [row for i in range(5) for row in ballot(f"s{i}", "x", "ab" if i < n else "ba")]
        (files / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = at_once("diff", "before.jsonl", "after.jsonl", "--markdown").stdout
    assert shown.startswith("## 2 models have another rank")
    assert "1 pair changed places" in shown
    assert "x in s2 (changed, +0.4000)" in shown


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        (("a.jsonl", "a.jsonl"), "compared with itself"),
        (("a.jsonl", "c.jsonl"), "have no model in common"),
        (("a.jsonl", "march"), "there is no file 'march'"),
        (("a.jsonl", "sqlite:///gone.db"), "no store at this path"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(files, at_once, sides, words):
    result = at_once("diff", *sides)
    assert result.returncode == 2
    assert words in result.stderr
