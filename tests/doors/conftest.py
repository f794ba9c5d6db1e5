"""The command line as a process, and a model server on loopback in another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peerage.doors.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def peerage(tmp_path, forks):
    """Runs `peerage` in a folder of its own, with no key in its environment."""
    keys = ("API_KEY", "PEERAGE_", "LLM_COUNCIL_")
    environ = {k: v for k, v in os.environ.items() if not any(part in k for part in keys)}

    def run(*arguments, stdin=None, **variables):
        return forks.run(arguments, cwd=tmp_path, env={**environ, **variables}, text=stdin)

    run.environ = environ
    return run


@pytest.fixture
def started(tmp_path, peerage):
    """Starts `peerage` as a process of its own, which does not outlive the test."""
    processes = []

    def start(*arguments, stderr=subprocess.PIPE):
        process = subprocess.Popen(
            [sys.executable, "-m", "peerage", *map(str, arguments)],
            cwd=tmp_path,
            env=peerage.environ,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def at_once(tmp_path, monkeypatch, capsys):
    """Runs `peerage` in this process, which is quicker: for commands that open no store."""
    for name in [name for name in os.environ if name.startswith(("PEERAGE_", "LLM_COUNCIL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["peerage", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(sys.argv, left.value.code, said.out, said.err)

    return run


@pytest.fixture
def mock_server():
    """Starts a mock model server with the faults it is told; gives its address."""
    started = []

    def start(*flags):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.shared.mock_server", "--port", "0", *map(str, flags)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        said = json.loads(process.stdout.readline())
        return said.get("base_url") or said["url"]

    yield start
    for process in started:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def panel(tmp_path):
    """Writes a peerage.toml with these seats."""

    def write(seats, **council):
        lines = ["[council]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in council.items()]
        for seat in seats:
            lines += ["[[seat]]", *(f"{key} = {_toml(value)}" for key, value in seat.items())]
        (tmp_path / "peerage.toml").write_text("\n".join(lines) + "\n")

    return write


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)
