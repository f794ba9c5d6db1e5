"""The pytest plug-in: projects with checks, run by pytest, judged by simulated seats.

A simulated seat approves of an answer by the quality that its text states.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.test_docs import FENCE, ROOT

SEAT = '[[seat]]\nname = "{}"\nprovider = "simulated"\nroles = ["review"]\n'
SEATS = "".join(SEAT.format(name) for name in ("able", "baker", "charlie"))
GOOD, BAD = "Use the form (latent quality 99).", "No idea (latent quality -99)."
PROJECT = f"""
def test_a_text(peerage):
    peerage.check("How do I get a refund?", {GOOD!r}, criteria=["It names the form."])

def test_an_application(peerage):
    result = peerage.check("How late are you open?", lambda question: {GOOD!r}, k=3)
    assert (result.pass_at_k, result.pass_all_k) == (1.0, 1.0)

def test_several_criteria(peerage):
    peerage.check("Why?", {GOOD!r}, criteria=["It says why.", "It is kind."])
"""
LIGHT = ("peerage", "peerage.doors", "peerage.doors.pytest_plugin")


@dataclass(frozen=True)
class Run:
    """A run of pytest: its exit code, what it printed, and how many tests had which outcome."""

    code: int
    text: str

    def n(self, outcome: str) -> int:
        found = re.findall(rf"(\d+) {outcome}", self.text.splitlines()[-1])
        return int(found[0]) if found else 0


@pytest.fixture
def project(tmp_path, forks):
    """Runs pytest on these tests, with a panel of simulated seats."""
    hidden = ("PEERAGE_", "PYTEST_")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plug-ins of others are slow
    (tmp_path / "peerage.toml").write_text(SEATS, encoding="utf-8")
    quiet = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    options = ("-q", "-p", "peerage.doors.pytest_plugin", *quiet)

    def run(tests, *more):
        if tests is not None:
            (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
        done = forks.run([*options, *more], cwd=tmp_path, env=environ, program="pytest")
        return Run(done.returncode, done.stdout + done.stderr)

    run.folder = tmp_path
    return run


def n_events(folder: Path) -> int:
    with sqlite3.connect(folder / "peerage.db") as db:
        ((n,),) = db.execute("SELECT count(*) FROM events").fetchall()
    db.close()
    return int(n)


def application(passed: int, n: int) -> str:
    """A test whose application gives so many good answers of n."""
    return f"""
import itertools
def test_it(peerage):
    number = itertools.count(1)
    def answer(question):
        i = next(number)
        return f"{{i}} " + ({GOOD!r} if i <= {passed} else {BAD!r})
    peerage.check("Why?", answer, k={n}, need="none")
"""


def suite(n_good: int, n: int) -> str:
    """A test that asks so many questions, of which so many have a good answer."""
    return f"""
def test_it(peerage):
    for i in range({n}):
        answer = {GOOD!r} if i < {n_good} else {BAD!r}
        peerage.check(f"Question {{i}}?", answer, need="none")
"""


def test_a_second_run_calls_no_model(project) -> None:
    first = project(PROJECT)
    assert first.n("passed") == 3
    assert "5 new verdicts, 0 already stored" in first.text
    n = n_events(project.folder)
    second = project(None)
    assert second.n("passed") == 3
    assert "0 new verdicts, 5 already stored; cost $0.0000" in second.text
    assert n_events(project.folder) == n


def test_a_fresh_run_judges_anew_and_its_verdicts_are_kept(project) -> None:
    project(PROJECT)
    n = n_events(project.folder)
    assert "5 new verdicts" in project(None, "--peerage-fresh").text
    assert n_events(project.folder) == 2 * n
    assert "0 new verdicts, 5 already" in project(None).text


def test_a_renamed_seat_keeps_its_verdicts_and_another_panel_has_none(project) -> None:
    project(PROJECT)
    config = project.folder / "peerage.toml"
    config.write_text(SEATS.replace("able", "zoe"), encoding="utf-8")
    assert "0 new verdicts, 5 already" in project(None).text
    config.write_text(SEATS + SEAT.format("dora"), encoding="utf-8")
    assert "5 new verdicts, 0 already" in project(None).text


def test_a_run_says_pass_rate_and_both_shares_of_repeats(project) -> None:
    said = project(application(2, 3)).text
    assert "pass rate 67% (no interval below 3 questions): 1 question, 3 answers" in said
    assert "pass^3 0% (no interval below 3 questions), pass@3 100%" in said
    assert "pass rate 50% (18–82%): 8 questions, 8 answers" in project(suite(4, 8)).text


def test_an_answer_that_fails_a_criterion_fails_the_test_and_says_which(project) -> None:
    failed = project(
        f'def test_it(peerage):\n    peerage.check("Why?", {BAD!r}, criteria=["It says why."])'
    )
    assert failed.n("failed") == 1
    assert "fails: It says why." in failed.text
    assert re.search(r"session [0-9a-f]{16}", failed.text)
    assert "doors/pytest_checks.py" not in failed.text  # only the user's own line is shown


@pytest.mark.parametrize(
    ("need", "passed", "outcome"),
    [("all", 2, "failed"), ("all", 3, "passed"), ("any", 1, "passed"), ("any", 0, "failed")],
)
def test_all_answers_must_pass_or_any(project, need: str, passed: int, outcome: str) -> None:
    run = project(application(passed, 3).replace('need="none"', f'need="{need}"'))
    assert run.n(outcome) == 1
    if outcome == "failed":
        assert f"{passed} of 3 answers passed" in run.text


def test_an_even_vote_fails_unless_undecided_passes(project) -> None:
    seats = [SEAT.format(name) for name in ("able", "baker")]
    (project.folder / "peerage.toml").write_text("".join(seats), encoding="utf-8")
    # At quality 5 each of the two seats draws its vote; one of these questions divides them.
    tests = """
import pytest
@pytest.mark.parametrize("i", range(12))
def test_it(peerage, i):
    peerage.check(f"Question {i}?", "So so (latent quality 5).")
"""
    strict = project(tests, "--tb=line")
    n = int(re.search(r"(\d+) verdicts? undecided", strict.text)[1])
    lenient = project(None, "--peerage-undecided=pass", "--tb=line")
    n_failed = [run.n("failed") for run in (strict, lenient)]
    assert n
    assert n_failed[0] - n_failed[1] == n
    assert "undecided: It answers the question" in strict.text


def test_an_application_that_fails_counts_as_not_passed_and_its_error_is_shown(project) -> None:
    failed = project(
        f"""
calls = []
def answer(question):
    calls.append(question)
    if len(calls) == 2:
        raise RuntimeError("out of order")
    return {GOOD!r}
def test_it(peerage):
    peerage.check("Why?", answer, k=3, need="any")
"""
    )
    assert failed.n("failed") == 1
    assert "RuntimeError: out of order" in failed.text
    assert "pass rate 67%" in failed.text


def test_an_application_may_be_asynchronous(project) -> None:
    tests = f"""
import asyncio
async def answer(question):
    await asyncio.sleep(0)
    return {GOOD!r}
def test_it(peerage):
    assert peerage.check("Why?", answer, k=2).answers == ({GOOD!r},) * 2
"""
    assert project(tests).n("passed") == 1


def test_seats_that_all_fail_give_no_verdict_and_are_asked_again(project) -> None:
    config = project.folder / "peerage.toml"
    options = "[seat.options]\nfailure_rate = 1.0\nfailure_kind = 'refused'\n"
    config.write_text(SEAT.format("able") + options, encoding="utf-8")
    tests = f'def test_it(peerage):\n    peerage.check("Why?", {GOOD!r}, need="none")'
    for _ in range(2):
        failed = project(tests)
        assert failed.n("failed") == 1
        assert "no judge voted: able (refused)" in failed.text
        assert "1 answer without a verdict, left out" in failed.text
    with sqlite3.connect(project.folder / "peerage.db") as db:
        assert db.execute("SELECT count(*) FROM sessions").fetchall() == [(2,)]
    db.close()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('"", "x"', "the question must be a text"),
        ('"Why?", ""', "the answer is empty"),
        ('"Why?", 3', "the answer must be a text, or a function"),
        ('"Why?", "x", k=3', "a fixed answer has no repeats"),
        ('"Why?", str, k=0', "k must be a number from 1 to 100"),
        ('"Why?", lambda q: None', "the application returned"),
        ('"Why?", "x", criteria=[]', "there are 0 criteria"),
        ('"Why?", "x", criteria=["a"] * 2', "two criteria are the same"),
        ('"Why?", "x", criteria=list(map(str, range(300)))', "there are 300 criteria"),
        ('"Why?", "x", criteria=["a", 1]', "criterion 2 is not a text"),
        ('"Why?", "x", need="most"', "need must be one of all, any, none"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(project, call: str, words: str) -> None:
    failed = project(f"def test_it(peerage):\n    peerage.check({call})", "--tb=short")
    assert failed.n("failed") == 1
    assert words in failed.text
    assert "pass rate" not in failed.text


def test_a_folder_without_seats_says_how_to_get_some(project, monkeypatch) -> None:
    (project.folder / "peerage.toml").write_text('[[seat]]\nname = "a"\n', encoding="utf-8")
    failed = project(f'def test_it(peerage):\n    peerage.check("Why?", {GOOD!r})', "--tb=short")
    assert failed.n("failed") == 1
    assert "peerage: " in failed.text
    assert "Traceback" not in failed.text


def test_a_test_may_change_its_folder(project) -> None:
    tests = f"""
def test_it(peerage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peerage.check("Why?", {GOOD!r})
    monkeypatch.undo()
    peerage.check("How?", {GOOD!r})
"""
    assert project(tests).n("passed") == 1
    assert (project.folder / "peerage.db").is_file()


def test_the_project_of_the_page_prints_what_the_page_shows(project) -> None:
    blocks = FENCE.findall((ROOT / "docs" / "pytest.md").read_text(encoding="utf-8"))
    (panel,) = (text for language, text in blocks if language == "toml")
    (summary,) = (text for language, text in blocks if language == "text")
    (tests,) = (text for _, text in blocks if text.startswith("import itertools"))
    (project.folder / "peerage.toml").write_text(panel, encoding="utf-8")
    first = project(tests)
    assert first.n("passed") == 3
    assert summary in first.text
    assert "0 new verdicts, 5 already stored" in project(None).text


# -- suites in files -----------------------------------------------------------------------------

SUITE = f"""
import pytest
@pytest.mark.peerage_suite("questions.FORMAT")
def test_it(peerage, case):
    peerage.check(case.question, {BAD!r}, case.criteria)
"""
JSONL = """
{"id": "refund", "query": "How do I get a refund?", "criteria": ["It names the form."]}
{"id": "hours", "query": "How late are you open?"}
"""
CSV = 'id,query,criteria\na,Why?,"[""It says why."", ""It is kind.""]"\nb,How?,It is short.\n'


@pytest.mark.parametrize(
    ("format", "text", "cases"),
    [
        ("jsonl", JSONL, {"refund": ["It names the form."], "hours": ["It answers the question"]}),
        ("csv", CSV, {"a": ["It says why.", "It is kind."], "b": ["It is short."]}),
    ],
)
def test_a_suite_is_a_test_for_each_prompt_of_a_file(project, format, text, cases) -> None:
    (project.folder / f"questions.{format}").write_text(text, encoding="utf-8")
    run = project(SUITE.replace("FORMAT", format), "--tb=short")
    assert run.n("failed") == len(cases)
    for id_, criteria in cases.items():
        (told,) = (part for part in run.text.split("_ test_it[")[1:] if part.startswith(id_))
        assert all(f"fails: {criterion}" in told for criterion in criteria)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "questions.jsonl: "),
        ("{}", "questions.jsonl: "),
        ('{"query": "Why?", "criteria": [1]}', "criterion 1 is not a text"),
        ('{"query": "Why?", "criteria": "[1"}', "are not a JSON list"),
    ],
)
def test_a_suite_that_cannot_be_read_is_refused_in_words(project, text, words) -> None:
    if text is not None:
        (project.folder / "questions.jsonl").write_text(text, encoding="utf-8")
    run = project(SUITE.replace("FORMAT", "jsonl"))
    assert run.code == pytest.ExitCode.INTERRUPTED
    assert words in run.text
    assert "Traceback" not in run.text


# -- the gate ------------------------------------------------------------------------------------


def test_a_run_is_compared_with_the_saved_baseline(project) -> None:
    saved = project(suite(40, 40), "--peerage-save-base=base.json")
    assert "The baseline is saved in base.json." in saved.text
    document = json.loads((project.folder / "base.json").read_text(encoding="utf-8"))
    assert document["kind"] == "peerage baseline"
    assert len(document["queries"]) == 40
    worse = project(suite(8, 40), "--peerage-base=base.json")
    assert worse.n("passed") == 1
    assert worse.code == pytest.ExitCode.TESTS_FAILED
    assert "gate: this run is worse than the baseline." in worse.text
    assert "difference in pass rate -0.800" in worse.text


@pytest.mark.parametrize(("undecided", "code"), [("fail", 1), ("pass", 0)])
def test_an_undecided_gate_fails_the_run_unless_undecided_passes(project, undecided, code) -> None:
    project(suite(3, 3), "--peerage-save-base=base.json")
    run = project(suite(4, 4), "--peerage-base=base.json", f"--peerage-undecided={undecided}")
    assert run.code == code
    assert "gate: Undecided" in run.text
    assert "note: 1 question not in the baseline" in run.text


def test_a_baseline_by_other_judges_is_refused(project) -> None:
    project(suite(3, 3), "--peerage-save-base=base.json")
    (project.folder / "peerage.toml").write_text(SEATS + SEAT.format("dora"), encoding="utf-8")
    refused = project(None, "--peerage-base=base.json", "--peerage-undecided=pass")
    assert refused.code == pytest.ExitCode.TESTS_FAILED
    assert "the judges have changed since the baseline was saved" in refused.text


def test_a_run_without_a_check_fails_against_a_baseline(project) -> None:
    project(suite(3, 3), "--peerage-save-base=base.json")
    nothing = project("def test_it(): pass", "--peerage-base=base.json")
    assert nothing.code == pytest.ExitCode.TESTS_FAILED
    assert "no check of this run has a verdict" in nothing.text


@pytest.mark.parametrize("text", [None, "{}", "[1]", "\x00"])
def test_a_file_that_is_no_baseline_is_refused(project, text: str | None) -> None:
    if text is not None:
        (project.folder / "base.json").write_text(text, encoding="utf-8")
    refused = project(suite(1, 1), "--peerage-base=base.json")
    assert refused.code != pytest.ExitCode.OK
    said = refused.text
    assert "is not a baseline" in said or "there is no file base.json" in said


# -- processes -----------------------------------------------------------------------------------


def test_a_run_without_the_fixture_imports_nothing_of_peerage(tmp_path: Path) -> None:
    tests = f"""
import sys
def test_it():
    assert {{name for name in sys.modules if name.split(".")[0] == "peerage"}} <= {set(LIGHT)}
    assert "peerage.doors.pytest_plugin" in sys.modules
"""
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "peerage" not in done.stdout


@pytest.mark.slow
def test_workers_of_xdist_share_one_store_and_one_summary(tmp_path: Path) -> None:
    (tmp_path / "peerage.toml").write_text(SEATS, encoding="utf-8")
    tests = f"""
import pytest
@pytest.mark.parametrize("i", range(12))
def test_it(peerage, i):
    peerage.check("One question for all?", {GOOD!r})
    peerage.check(f"Question {{i}}?", lambda question: {GOOD!r}, k=2)
"""
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")

    def run(*options: str) -> str:
        plugin = ("-p", "peerage.doors.pytest_plugin", "-p", "no:cacheprovider")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugin, *options],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # those of others are slow
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "25 new verdicts, 11 already stored" in run("-p", "xdist", "-n2")
    n = n_events(tmp_path)
    assert "0 new verdicts, 36 already stored" in run()
    assert n_events(tmp_path) == n
