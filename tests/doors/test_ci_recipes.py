"""The recipes of `docs/ci` do what they promise: the script itself is run, with its exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doors.test_gate_command import write_reviews
from tests.house.test_docs import ours

RECIPES = Path(__file__).parents[2] / "docs" / "ci"
SHELL = shutil.which("sh") or "sh"


def run_script(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the docs in a folder."""
    return run_in_shell(folder, str(RECIPES / "gate.sh"), *arguments, **variables)


def run_in_shell(
    folder: Path, *words: str, shell: str = SHELL, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a shell in a folder, with `peerage` in its path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PEERAGE_", "GITHUB_"))}
    return subprocess.run(
        [shell, *words],
        cwd=folder,
        env={**environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as a user of its own; return what it prints."""
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command = [shutil.which("git") or "git", *own, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def bar(at_once: Any, tmp_path: Path) -> Path:
    """The bar that was registered for `new` against `old`."""
    reviews = write_reviews(tmp_path / "few.csv", [1.0, 1.0])
    words = ("--reviews", reviews, "--base", "old", "--candidate", "new", "--prereg", "bar.json")
    at_once("gate", *words)
    return tmp_path / "bar.json"


UNDECIDED = "Undecided: the reviews so far do not show whether new is worse"


@pytest.mark.slow
@pytest.mark.usefixtures("bar")
@pytest.mark.parametrize(
    ("gaps", "arguments", "variables", "code", "verdict"),
    [
        ([0.0] * 60, ["new"], {}, 0, "new is the same as old within ±0.1."),
        ([-1.0] * 60, ["new"], {}, 1, "new is worse than old."),
        ([1.0] * 60, ["odl"], {}, 2, "The gate could not decide."),
        ([1.0, 1.0], ["new"], {"UNDECIDED": ""}, 3, UNDECIDED),
        ([1.0, 1.0], ["new"], {"UNDECIDED": "pass"}, 0, UNDECIDED),
        ([1.0, 1.0], ["new"], {}, 1, UNDECIDED),
        ([1.0] * 60 + [-2.0], ["new"], {}, 0, "new is better than old."),
        (
            [-1.0] * 7,
            ["new", "--guard"],
            {},
            1,
            f"{UNDECIDED} than old, but the guard blocks it: 7 clear regressions against "
            "0 clear improvements.",
        ),
    ],
)
def test_the_script_ends_with_the_code_of_the_verdict_and_writes_the_comment(
    tmp_path: Path,
    gaps: list[float],
    arguments: list[str],
    variables: dict[str, str],
    code: int,
    verdict: str,
) -> None:
    reviews = write_reviews(tmp_path / "my reviews.csv", gaps)
    done = run_script(tmp_path, *arguments, REVIEWS=str(reviews), BASE="old", **variables)
    assert (done.returncode, done.stdout[: len(verdict)]) == (code, verdict)
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith(f"## {verdict}")
    assert ("the bar differs from the registered one" in comment) == (code == 2)


@pytest.mark.slow
@pytest.mark.usefixtures("bar")
def test_no_name_of_a_candidate_and_no_output_without_a_verdict_passes_the_gate(
    tmp_path: Path,
) -> None:
    """A name is no option of the command and no word of the shell; help is no verdict."""
    reviews = write_reviews(tmp_path / "reviews.csv", [1.0] * 60)
    files = sorted(path.name for path in tmp_path.iterdir())
    for words in (["-h"], ["$(touch owned);`touch owned`"], ["x\n## y"], ["new", "--help"]):
        done = run_script(tmp_path, *words, REVIEWS=str(reviews), BASE="old")
        assert (done.returncode, done.stdout) == (2, "The gate could not decide.\n")
    assert run_script(tmp_path, "new", REVIEWS="-h", BASE="-h").returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, "comment.md"])


def test_without_a_registered_bar_or_a_baseline_the_gate_fails(tmp_path: Path) -> None:
    done = run_script(tmp_path, "new")
    assert done.returncode == 2
    comment = (tmp_path / "comment.md").read_text()
    for name in ("bar.json", "baseline.json"):
        assert f"{name} is missing: register it, and commit it" in comment
        assert not (tmp_path / name).exists()
    assert run_script(tmp_path).returncode == 2


@pytest.mark.slow
def test_the_bar_and_the_baseline_are_those_of_the_base_branch(
    at_once: Any, bar: Path, tmp_path: Path
) -> None:
    reviews = write_reviews(tmp_path / "reviews.csv", [-1.0] * 60)
    save = ("--base", "old", "--save-baseline", "baseline.json")
    at_once("gate", "--reviews", reviews, *save)
    git(tmp_path, "init", "--initial-branch", "main")
    git(tmp_path, "add", "bar.json", "baseline.json")
    git(tmp_path, "commit", "--message", "base")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    on_pull_request = {"GITHUB_BASE_REF": "main", "REVIEWS": str(reviews)}
    done = run_script(tmp_path, "new", GITHUB_STEP_SUMMARY="summary.md", **on_pull_request)
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "summary.md").read_text() == (tmp_path / "comment.md").read_text()
    # the change lowers the bar, and brings a baseline that it beats
    at_once("gate", "--reviews", reviews, "--base", "new", "--save-baseline", "baseline.json")
    bar.write_text("{}")
    assert run_script(tmp_path, "new", **on_pull_request).returncode == 1
    moved = run_script(tmp_path, "new", "--margin", "0.3", **on_pull_request)
    assert moved.returncode == 2
    assert "margin was 0.1, now it is 0.3" in (tmp_path / "comment.md").read_text()
    missing = run_script(tmp_path, "new", BAR="other.json", **on_pull_request)
    assert missing.returncode == 2
    assert "other.json is missing at origin/main" in (tmp_path / "comment.md").read_text()


def test_the_hooks_of_the_pre_commit_recipe_run_as_they_are_written(
    at_once: Any, tmp_path: Path
) -> None:
    reviews = write_reviews(tmp_path / "reviews.csv", [1.0] * 60)
    text = Path(reviews).read_text().replace(",new,", ",candidate,")
    Path(reviews).write_text(text)
    base = ("--base", "old", "--save-baseline", "baseline.json")
    at_once("gate", "--reviews", reviews, *base)
    config = yaml.safe_load((RECIPES / "pre-commit-config.yaml").read_text())
    for hook in config["repos"][0]["hooks"]:
        program, *words = shlex.split(hook["entry"])
        assert program == "peerage"
        done = at_once(*words)
        assert (hook["id"], done.returncode) == (hook["id"], 0), done.stderr


def workflow(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((RECIPES / name).read_text(encoding="utf-8"))
    return document


def test_the_workflow_is_yaml_whose_commands_are_ours_and_whose_decision_is_the_script() -> None:
    steps = [one["run"] for one in workflow("github-workflow.yml")["jobs"]["gate"]["steps"]
             if "run" in one]  # fmt: skip
    assert [step.split()[:2] for step in steps if step.startswith("sh ")] == [["sh", "gate.sh"]]
    own = [words for step in steps if "<<" not in step for words in ours(shlex.split(step))]
    assert [words[1] for words in own] == ["run"]


def test_the_workflow_gives_a_pull_request_no_key_and_no_right() -> None:
    """It runs the base branch's files; the key is there for one step; only text is posted."""
    gate = workflow("github-workflow.yml")
    assert gate["permissions"] == {"contents": "read"}
    steps = gate["jobs"]["gate"]["steps"]
    checkout = steps[0]["with"]
    assert checkout == {"ref": "${{ github.event.pull_request.base.sha }}"}
    with_key = [step for step in steps if "secrets." in str(step)]
    assert [step["run"].split()[:2] for step in with_key] == [["peerage", "run"]]
    assert "--config peerage.toml" in with_key[0]["run"]
    assert "secrets." not in str({**gate["jobs"]["gate"], "steps": ()})
    comment = workflow("comment-workflow.yml")
    job = comment["jobs"]["comment"]
    assert comment[True] == {"workflow_run": {"workflows": ["gate"], "types": ["completed"]}}
    assert job["continue-on-error"] is True
    assert "secrets." not in str(comment)
    assert not any("checkout" in step.get("uses", "") for step in job["steps"])
    for step in (*steps, *job["steps"]):  # what others write reaches a shell as a variable only
        assert "${{" not in step.get("run", "")


@pytest.mark.slow
def test_the_workflow_judges_the_request_s_answers_to_the_base_branch_s_prompts(
    tmp_path: Path,
) -> None:
    (take,) = [
        step["run"]
        for step in workflow("github-workflow.yml")["jobs"]["gate"]["steps"]
        if "answers.jsonl" in step.get("run", "")
    ]
    prompts = [{"id": f"q{i}", "query": f"Why {i}?", "answers": {"old": "so"}} for i in range(2)]
    answers = [{"id": f"q{i}", "answer": f"new {i}"} for i in range(2)]
    lines = "".join(json.dumps(one) + "\n" for one in prompts)
    origin, base = tmp_path / "origin", tmp_path / "base"
    origin.mkdir()
    git(origin, "init", "--initial-branch", "main")
    (origin / "prompts.jsonl").write_text(lines)
    git(origin, "add", ".")
    git(origin, "commit", "--message", "base")
    git(tmp_path, "clone", str(origin), str(base))
    git(origin, "checkout", "-b", "request")
    hostile = json.dumps({"id": "q0", "query": "Which is new?", "answers": {"old": "bad"}})
    (origin / "prompts.jsonl").write_text(hostile)
    (origin / "peerage.toml").write_text('store = "postgresql://evil.test/x"')

    def judged(text: str) -> subprocess.CompletedProcess[str]:
        (origin / "answers.jsonl").write_text(text)
        git(origin, "add", ".")
        git(origin, "commit", "--message", "request")
        return run_in_shell(base, "-euc", take, HEAD=git(origin, "rev-parse", "HEAD"))

    done = judged("".join(json.dumps(one) + "\n" for one in answers))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (base / "judged.jsonl").read_text().splitlines()]
    assert rows == [
        {**prompt, "answers": {"old": "so", "candidate": answer["answer"]}}
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    assert not (base / "peerage.toml").exists()
    few = judged(json.dumps(answers[0]))
    assert few.returncode != 0
    assert "answers.jsonl has no answer to q1" in few.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("bar")
@pytest.mark.parametrize(("gap", "code"), [(0.0, 0), (-1.0, 1)])
def test_the_action_ends_with_the_code_of_the_verdict(
    tmp_path: Path, gap: float, code: int
) -> None:
    action = yaml.safe_load((RECIPES.parents[1] / "action.yml").read_text(encoding="utf-8"))
    reviews = write_reviews(tmp_path / "my reviews.csv", [gap] * 60)
    given = {"candidate": "new", "base": "old", "reviews": reviews, "options": "--quiet"}

    def decide(**given: Any) -> subprocess.CompletedProcess[str]:
        inputs = {
            name: given.get(name, about.get("default")) for name, about in action["inputs"].items()
        }
        step = action["runs"]["steps"][-1]
        assert set(step["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in inputs}
        variables = {
            variable: str(inputs[value.split(".")[1].split()[0]])
            for variable, value in step["env"].items()
        }
        variables["GITHUB_ACTION_PATH"] = str(RECIPES.parents[1])
        variables["GITHUB_STEP_SUMMARY"] = str(tmp_path / "summary.md")
        shell = shutil.which(step["shell"]) or ""
        return run_in_shell(tmp_path, "-c", step["run"], shell=shell, **variables)

    done = decide(**given)
    assert done.returncode == code, done.stderr
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.splitlines()[0] == f"## {done.stdout.strip()}"
    for hostile in ({"candidate": "-h"}, {"options": "--help"}):
        assert decide(**{**given, **hostile}).returncode == 2
