"""The recipes of `docs/ci` do what they promise: the script itself is run, with its exit codes."""

from __future__ import annotations

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gaps", "arguments", "variables", "code", "verdict"),
    [
        ([0.0] * 60, ["new"], {}, 0, "new is the same as old within ±0.1."),
        ([-1.0] * 60, ["new"], {}, 1, "new is worse than old."),
        ([1.0] * 60, ["odl"], {}, 2, "The gate could not decide."),
        (
            [1.0, 1.0],
            ["new"],
            {"UNDECIDED": ""},
            3,
            "Undecided: the reviews so far do not show whether new is worse",
        ),
        (
            [1.0, 1.0],
            ["new"],
            {},
            0,
            "Undecided: the reviews so far do not show whether new is worse",
        ),
        (
            [1.0] * 60 + [-2.0],
            ["new"],
            {},
            1,
            "new is better than old, but the guard blocks it: 1 query is clearly worse.",
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
    reviews = write_reviews(tmp_path / "reviews.csv", gaps)
    done = run_script(tmp_path, *arguments, "--reviews", reviews, BASE="old", **variables)
    assert (done.returncode, done.stdout[: len(verdict)]) == (code, verdict)
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith(f"## {verdict}")
    assert ("there is no model 'odl' in these reviews" in comment) == (code == 2)
    assert not (tmp_path / "comment.md.errors").exists()


@pytest.mark.slow
def test_the_script_holds_a_candidate_against_a_committed_baseline_and_a_registered_bar(
    at_once: Any, tmp_path: Path
) -> None:
    reviews = write_reviews(tmp_path / "reviews.csv", [-1.0] * 60)
    at_once("gate", "--reviews", reviews, "--base", "old", "--save-baseline", "baseline.json")
    done = run_script(tmp_path, "new", "--reviews", reviews, GITHUB_STEP_SUMMARY="summary.md")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "summary.md").read_text() == (tmp_path / "comment.md").read_text()
    comment = (tmp_path / "comment.md").read_text()
    assert "bar.json is new" in done.stderr
    assert "bar.json was not there" in comment  # nobody committed it
    assert "Guard: not possible here." in comment  # a baseline has no ballots
    again = run_script(tmp_path, "new", "--reviews", reviews)
    assert again.returncode == 1
    assert "was not there" not in (tmp_path / "comment.md").read_text()
    moved = run_script(tmp_path, "new", "--reviews", reviews, "--margin", "0.3")
    assert moved.returncode == 2
    assert "margin was 0.1, now it is 0.3" in (tmp_path / "comment.md").read_text()
    assert run_script(tmp_path).returncode == 2


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


def test_the_workflow_is_yaml_whose_commands_are_ours_and_whose_decision_is_the_script() -> None:
    workflow = yaml.safe_load((RECIPES / "github-workflow.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    assert [step.split()[:2] for step in steps if step.startswith("sh ")] == [["sh", "gate.sh"]]
    own = [words for step in steps for words in ours(shlex.split(step))]
    assert [words[1] for words in own] == ["run"]


@pytest.mark.slow
@pytest.mark.parametrize(("gap", "code"), [(0.0, 0), (-1.0, 1)])
def test_the_action_ends_with_the_code_of_the_verdict(
    tmp_path: Path, gap: float, code: int
) -> None:
    action = yaml.safe_load((RECIPES.parents[1] / "action.yml").read_text(encoding="utf-8"))
    reviews = write_reviews(tmp_path / "my reviews.csv", [gap] * 60)
    given = {"candidate": "new", "base": "old", "reviews": reviews, "options": "--quiet"}
    inputs = {
        name: given.get(name, about.get("default")) for name, about in action["inputs"].items()
    }
    install, decide = action["runs"]["steps"][1:]
    assert install["run"] == 'pip install --quiet "$GITHUB_ACTION_PATH"'
    assert set(decide["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in inputs}
    variables = {name.upper(): value for name, value in inputs.items()}
    assert set(variables) == set(decide["env"])
    summary = tmp_path / "summary.md"
    variables["GITHUB_STEP_SUMMARY"] = str(summary)
    shell = shutil.which(decide["shell"]) or ""
    done = run_in_shell(tmp_path, "-c", decide["run"], shell=shell, **variables)
    assert done.returncode == code, done.stderr
    assert summary.read_text(encoding="utf-8") == done.stdout
