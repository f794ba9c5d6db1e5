"""`peerage gate` for scripts: exit codes, the comment, baselines and registered bars."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from peerage.boards.differences import order_digest


def write_reviews(path: Path, gaps: list[float]) -> str:
    """Write a session a gap: three judges, the candidate above or below the base by it."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["session_id", "reviewer", "candidate", "score", "query_id"])
        for i, gap in enumerate(gaps):
            for judge in "xyz":
                for name, score in (("old", 5.0), ("new", 5.0 + gap), ("other", 5.0)):
                    table.writerow([f"s{i:04}", judge, name, score, f"q{i:04}"])
    return str(path)


SIDES = ("--base", "old", "--candidate", "new")


@pytest.mark.parametrize(
    ("gaps", "options", "code"),
    [
        ([0.0] * 60, (), 0),
        ([1.0] * 60, (), 0),
        ([-1.0] * 60, (), 1),
        ([1.0, -1.0], (), 3),
        ([1.0, -1.0], ("--undecided", "pass"), 0),
        ([1.0, -1.0], ("--undecided", "fail"), 1),
        ([-1.0] * 60, ("--undecided", "pass"), 1),
        ([1.0] * 60 + [-2.0], ("--guard",), 0),
        ([-1.0] * 7, ("--guard", "--undecided", "pass"), 1),
        ([0.0] * 60, ("--margin", "2"), 2),
    ],
)
def test_the_exit_code_says_how_it_went(
    at_once: Any, tmp_path: Path, gaps: list[float], options: tuple[str, ...], code: int
) -> None:
    reviews = write_reviews(tmp_path / "r.csv", gaps)
    assert at_once("gate", "--reviews", reviews, *SIDES, *options).returncode == code


def test_the_comment_begins_with_the_verdict_and_has_the_chart(
    at_once: Any, tmp_path: Path
) -> None:
    reviews = write_reviews(tmp_path / "r.csv", [-1.0, 1.0, -1.0] * 80)
    comment = at_once("gate", "--reviews", reviews, *SIDES, "--markdown").stdout
    assert comment.startswith("## new is worse than old.")
    assert "the interval over time" in comment
    assert "●" in comment
    assert comment.count("\n| q0") == 10  # five for each side
    assert max(map(len, comment.split("```")[1].splitlines())) <= 70


def test_a_loss_its_size_and_the_margin_are_three_statements(at_once: Any, tmp_path: Path) -> None:
    """The first 60 looks are losses, the later ones are wins: the verdict stays, the size moves."""
    looks = sorted(range(160), key=lambda i: order_digest(f"query q{i:04}"))
    gaps = [1.0] * 160
    for i in looks[:60]:
        gaps[i] = -1.0
    gate = ("gate", "--reviews", write_reviews(tmp_path / "r.csv", gaps), *SIDES, "--markdown")
    done = at_once(*gate)
    verdict, _, size, decided, loss, reaches, *_ = done.stdout.splitlines()
    assert done.returncode == 1
    assert verdict == "## new is worse than old."
    assert size.startswith("- Difference in share of rivals beaten: +0.188 (")
    assert decided.endswith(
        "of 160 queries. Later queries make the size more exact; they do not reopen it."
    )
    assert loss.startswith("- That there is a loss was shown; it is smaller than the margin of 0.1")
    assert reaches.startswith("- The interval of all queries reaches +0.")
    large = write_reviews(tmp_path / "large.csv", [-1.0] * 60)
    words = at_once("gate", "--reviews", large, *SIDES).stdout
    assert "That there is a loss was shown; it is larger than the margin of 0.1." in words


def write_candidates(path: Path) -> str:
    """Write 80 sessions with two candidates: `bad` loses to the base, `same` equals it."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["session_id", "reviewer", "candidate", "score", "query_id"])
        for i in range(80):
            for judge in "xyz":
                for name, score in (("old", 5.0), ("bad", 4.0), ("same", 5.0)):
                    table.writerow([f"s{i:04}", judge, name, score, f"q{i:04}"])
    return str(path)


def test_several_candidates_have_a_verdict_each_the_worst_first(
    at_once: Any, tmp_path: Path
) -> None:
    reviews = write_candidates(tmp_path / "r.csv")
    base = ("gate", "--base", "old")
    several = at_once(*base, "--candidate", "same", "--candidate", "bad", reviews, "--quiet")
    assert several.returncode == 1
    assert several.stdout.splitlines()[0] == "## bad is worse than old."
    by_comma = at_once(*base, "--candidate", "same,bad", "--json", reviews)
    document = json.loads(by_comma.stdout)
    assert by_comma.returncode == 1
    assert [one["candidate"] for one in document["candidates"]] == ["same", "bad"]
    assert [one["verdict"] for one in document["candidates"]] == ["same", "worse"]
    assert document["candidates"][0]["bar"]["candidate"] == ["bad", "same"]
    comment = at_once(*base, "--candidate", "same,bad", "--markdown", reviews).stdout
    heads = [line for line in comment.splitlines() if line.startswith("## ")]
    assert heads == [
        "## bad is worse than old.",
        "## same is the same as old within ±0.1.",
        "## bad against old",
        "## same against old",
    ]
    assert "95% interval for all 2 candidates" in comment
    alone = at_once(*base, "--candidate", "same", reviews)  # a file may follow the name
    assert alone.returncode == 0
    twice = at_once(*base, "--candidate", "same,same", reviews)
    assert (twice.returncode, "the candidate 'same' is given twice." in twice.stderr) == (2, True)


def test_the_json_is_one_document_and_the_same_again(at_once: Any, tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "r.csv", [-1.0, 1.0] * 20)
    first, second = (at_once("gate", "--reviews", reviews, *SIDES, "--json") for _ in range(2))
    document = json.loads(first.stdout)
    assert first.stdout == second.stdout
    assert document["verdict"] == "undecided"
    assert document["queries_needed"] > 0
    assert document["measures"][0]["looks"][-1]["n"] == 40


def test_a_baseline_is_written_and_compared_with(at_once: Any, tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "r.csv", [-1.0] * 60)
    file = str(tmp_path / "baseline.json")
    assert (
        at_once("gate", "--reviews", reviews, "--base", "old", "--save-baseline", file).returncode
        == 0
    )
    done = at_once("gate", "--reviews", reviews, "--candidate", "new", "--against", file, "--quiet")
    assert done.returncode == 1
    assert "new is worse than old." in done.stdout


def test_a_registered_bar_cannot_be_moved(at_once: Any, tmp_path: Path) -> None:
    reviews, bar = write_reviews(tmp_path / "r.csv", [0.0] * 60), str(tmp_path / "bar.json")
    gate = ("gate", "--reviews", reviews, *SIDES, "--prereg", bar)
    assert at_once(*gate).returncode == 0
    written = Path(bar).read_text()
    assert at_once(*gate).returncode == 0
    moved = at_once(*gate, "--margin", "0.3")
    assert moved.returncode == 2
    assert "margin was 0.1, now it is 0.3" in moved.stderr
    assert Path(bar).read_text() == written


def test_a_store_without_reviews_is_said(at_once: Any) -> None:
    done = at_once("gate", *SIDES)
    assert done.returncode == 2
    assert "the store has no reviews yet" in done.stderr


PANEL = """
[council]
verdict = "none"
rubric = false
"""


def write_panel(folder: Path, **quality: float) -> None:
    """Write a panel of simulated seats, each with its quality."""
    seats = [
        f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n[seat.options]\nquality = {value}\n'
        for name, value in quality.items()
    ]
    (folder / "peerage.toml").write_text(PANEL + "".join(seats))
    rows = [json.dumps({"id": f"p{i}", "query": f"Question {i}?"}) for i in range(120)]
    (folder / "prompts.jsonl").write_text("\n".join(rows))


def test_a_season_stops_when_it_knows_and_its_log_keeps_the_bar(
    peerage: Any, tmp_path: Path
) -> None:
    write_panel(tmp_path, old=9.0, new=4.0, x=6.0, y=6.0)
    until = ("--until", "decided", *SIDES, "--prereg", "bar.json", "--concurrency", "4")
    done = peerage("run", "prompts.jsonl", *until, "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert summary["known"] == "new against old: worse"
    assert summary["finished"] < 120
    gate = peerage("gate", *SIDES, "--season", summary["season"], "--json")
    document = json.loads(gate.stdout)
    assert gate.returncode == 1
    assert document["order"] == "drawn from the season's seed, as its log has it"
    assert document["registered"] == document["bar_hash"]
    assert document["bar_hash"] == json.loads((tmp_path / "bar.json").read_text())["hash"]
    wrong = peerage(
        "run", "prompts.jsonl", "--until", "decided", "--base", "odl", "--candidate", "new"
    )
    assert wrong.returncode == 2
    assert "Did you mean 'old'?" in wrong.stderr
    endless = peerage("run", "prompts.jsonl", "--until", "top:4")
    assert endless.returncode == 2
    assert "--until top:4 would never stop: 4 models answer." in endless.stderr
