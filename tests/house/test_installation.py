"""The README's commands work, and a hint for an extra names a command that works here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

import peerage
from peerage.errors import command_for

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    [shlex.split(line, comments=True) for line in block.splitlines() if line.strip()]
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
]
COPIED = ("src", "pyproject.toml", "README.md", "LICENSE")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'peerage[server]'"),
        ('{"url": "file:///a/clone", "dir_info": {}}', "pip install '/a/clone[server]'"),
        (
            '{"url": "file:///a%20b/c", "dir_info": {"editable": true}}',
            "pip install --editable '/a b/c[server]'",
        ),
        (
            '{"url": "https://host/p.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
            "pip install 'peerage[server] @ git+https://host/p.git'",
        ),
        (
            '{"url": "https://host/p.whl", "archive_info": {}}',
            "pip install 'peerage[server] @ https://host/p.whl'",
        ),
    ],
)
def test_a_hint_says_what_works_for_how_the_package_was_installed(origin, command):
    assert command_for("server", origin) == command


def test_in_an_environment_that_dev_made_dev_adds_the_extra():
    origin = '{"url": "file:///a/clone", "dir_info": {"editable": true}}'
    assert command_for("server", origin, is_made_by_dev=True) == "/a/clone/dev setup server"


def test_no_text_of_the_program_or_its_documents_installs_from_an_index_that_has_it_not():
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    found = [
        str(path.relative_to(ROOT))
        for path in texts
        if path.name not in ("errors.py", "CHANGELOG.md")
        and re.search(r"pip install '?peerage", path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_readme_leads_with_what_works_in_a_clone():
    assert BLOCKS[0] == [["./dev", "demo"], ["./dev", "test"]]
    assert BLOCKS[1][0] == ["pip", "install", "."]
    assert (ROOT / "dev").stat().st_mode & 0o111


def block_of(language):
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return block


def test_the_panel_of_the_readme_is_five_lines_that_are_read_as_three_seats(tmp_path):
    toml = block_of("toml")
    (tmp_path / "peerage.toml").write_text(toml, encoding="utf-8")
    council = peerage.Council.from_config(tmp_path / "peerage.toml")
    assert [seat.name for seat in council.settings.seat] == ["sonnet", "gpt", "llama"]
    assert len(toml.splitlines()) == 5


def test_the_python_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seats = "".join(f'[[seat]]\nname = "{n}"\nprovider = "simulated"\n' for n in "abc")
    (tmp_path / "peerage.toml").write_text(seats, encoding="utf-8")
    code = block_of("python")
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own document
    verdict, *board = capsys.readouterr().out.strip().rsplit("\n", 3)
    assert verdict
    assert {line.split()[1] for line in board} == set("abc")
    assert len([line for line in code.splitlines() if line]) <= 5


def test_the_readme_is_read_in_a_minute_and_its_picture_is_small():
    """A minute is about 450 words in sentences, commands and tables."""
    assert len(README.split()) <= 750
    picture = ROOT / "docs" / "session-live.svg"
    assert f"({picture.relative_to(ROOT)})" in README
    assert picture.stat().st_size < 300_000


@pytest.mark.slow
def test_whoever_follows_the_readme_in_an_empty_environment_gets_where_it_says(tmp_path):
    """Installs a copy of the sources into a new environment and runs the README's commands."""
    clone, bin_ = tmp_path / "clone", tmp_path / "env" / "bin"
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        clone.mkdir(exist_ok=True)
        copy(ROOT / name, clone / name)
    venv.create(tmp_path / "env", with_pip=True)
    network = {k: v for k, v in os.environ.items() if k.upper().startswith(("PIP_", "SSL_"))}
    network |= {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    environ = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", **network}

    def run(words, stdin=""):
        program = shutil.which(words[0], path=environ["PATH"])
        assert program, words
        return subprocess.run(
            [program, *words[1:]],
            cwd=clone,
            env=environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=1_800,
        )

    install, init, doctor, ask = BLOCKS[1]
    done = run(install)
    assert done.returncode == 0, done.stderr
    assert run(init).returncode == 0
    assert (clone / "peerage.toml").exists()
    assert "Traceback" not in run(doctor).stderr
    asked = run(ask)
    assert asked.returncode == 2  # no key, no server and no local model here: a fix is named
    assert "Traceback" not in asked.stderr
    assert "pip install xllamacpp" in asked.stderr
    (echo, rankings, *_), *_ = BLOCKS[2]
    assert echo == "echo"
    scored = run(["peerage", "score", "-"], rankings)
    assert scored.returncode == 0
    assert "heron" in scored.stdout
    hint = run(["peerage", "serve"])
    assert hint.returncode == 2
    command = re.search(r"pip install .*", hint.stderr)
    assert command, hint.stderr
    added = run(shlex.split(command[0]))
    assert added.returncode == 0, added.stderr
    help_ = run(["peerage", "serve", "--help"])
    assert help_.returncode == 0
    code = "import fastapi, uvicorn; import peerage; print(peerage.score([['a', 'b']]))"
    assert "'a' first" in run(["python", "-c", code]).stdout
