"""`./dev` and CI: tables that must agree, and answers that need no set-up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELL = shutil.which("sh") or "sh"


def dev(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SHELL, ROOT / "dev", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
    )


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_scripts_are_executable_and_parse(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    shell = "bash" if "bash" in path.read_text(encoding="utf-8").splitlines()[0] else SHELL
    subprocess.run([shutil.which(shell) or shell, "-n", path], check=True)


def test_help_answers_from_any_directory_and_lists_every_command(tmp_path: Path) -> None:
    done = dev("help", cwd=tmp_path)
    script = (ROOT / "dev").read_text(encoding="utf-8")
    handled = set(re.findall(r"^([a-z]+)\)$", script, re.MULTILINE)) | {"help"}
    assert set(re.findall(r"^  ([a-z]+) ", done.stdout, re.MULTILINE)) == handled


def test_an_unknown_command_is_exit_2_and_shows_the_help() -> None:
    done = dev("dance")
    assert done.returncode == 2
    assert "usage: ./dev" in done.stderr
    assert "no command 'dance'" in done.stderr


def test_the_extras_of_dev_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    assert extras == {
        "local",
        "server",
        "mcp",
        "postgres",
        "spark",
        "frames",
        "plots",
        "telemetry",
        "signing",
        "all",
    }
    script = (ROOT / "dev").read_text(encoding="utf-8")
    listed = re.search(r"^every_extra='(.*)'$", script, re.MULTILINE)
    assert listed
    assert {*listed[1].split(), "all"} == extras


def test_ci_can_get_every_need_that_a_test_may_have() -> None:
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    needs = set(re.findall(r'^    "(\w+)": Need\(', conftest, re.MULTILINE))
    table = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    rows = set(re.findall(r"^(\w+) *\|", table, re.MULTILINE))
    assert needs
    assert needs <= rows


UV = """#!/bin/sh
case $1 in
venv) mkdir -p "$PWD/.venv/bin" && ln -sf "$(command -v python3)" "$PWD/.venv/bin/python" ;;
pip) echo "$@" >>"$PWD/asked" && [ ! -e "$PWD/fails" ] ;;
esac
"""


def test_asking_for_an_extra_keeps_those_that_were_asked_for_before(tmp_path: Path) -> None:
    """Also where an installation in between was interrupted."""
    shutil.copy(ROOT / "dev", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV, encoding="utf-8")
    uv.chmod(0o755)

    def installed(*extras: str) -> str:
        environment = {**os.environ, "PATH": f"{uv.parent}:{os.environ['PATH']}"}
        command = [SHELL, tmp_path / "dev", "setup", *extras]
        subprocess.run(command, capture_output=True, check=False, env=environment)
        asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
        return asked[-1]

    assert ".[frames,server]" in installed("frames", "server")
    (tmp_path / "fails").touch()
    assert ".[frames,server,mcp]" in installed("mcp")
    (tmp_path / "fails").unlink()
    assert ".[frames,server,mcp]" in installed("server")
    (tmp_path / "asked").write_text("nothing\n", encoding="utf-8")
    assert installed("server", "mcp") == "nothing"
