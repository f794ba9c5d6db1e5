"""Every command's help: examples that exist, complete choices, and no flag without a word."""

import re
import shlex

import pytest
from cyclopts import App

from peerage.doors.cli import app

OPTION = re.compile(r"^  (--[\w-]+|-\w)")


def commands(parent=app, names=()):
    """The path of every command, those of other commands included."""
    for name in parent:
        if name.startswith("-"):
            continue
        one = parent[name]
        yield (*names, name)
        if isinstance(one, App):
            yield from commands(one, (*names, name))


PATHS = sorted(set(commands()))


PAGES = {}


@pytest.fixture
def page(at_once):
    def of(*path):
        if path not in PAGES:
            PAGES[path] = at_once(*path, "--help").stdout
        return PAGES[path]

    return of


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_has_examples_and_describes_every_option(page, path):
    text = page(*path)
    assert "\nExamples:\n  " in text
    for line in text.splitlines():
        if OPTION.match(line):
            _, _, meaning = line.strip().partition("  ")
            words = meaning.partition("Default:")[0].strip()
            assert words, line
            assert "CHOICE" not in line or "One of " in line, line


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_examples_use_options_and_commands_that_exist(page, path):
    shown = page(*path).partition("\nExamples:\n")[2].partition("\n\n")[0]
    for line in shown.splitlines():
        words = shlex.split(line.partition("peerage ")[2].partition("&&")[0])
        named = next(p for p in sorted(PATHS, key=len, reverse=True) if tuple(words[: len(p)]) == p)
        assert named[: len(path)] == path, line
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[\w-]+", page(*named))) | {"--help"}, line


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zsh", "fish"))]
)
def test_the_shells_complete_commands_and_choices(shell):
    script = app.generate_completion(shell=shell)
    assert all(word in script for word in ("board", "contributors", "tie_breaker"))


@pytest.mark.parametrize(
    ("shell", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", None)]
)
def test_installing_completion_names_every_file_it_changes(peerage, tmp_path, shell, startup):
    """In a home of its own: what is there afterwards is what was named, and no more."""
    home = tmp_path / "home"
    home.mkdir()
    for name in (".bashrc", ".zshrc"):
        (home / name).write_text("# mine\n")
    variables = {"SHELL": f"/bin/{shell}", "HOME": str(home), "ZSH": "", "ZSH_CUSTOM": ""}

    def contents():
        return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}

    before = contents()
    first = peerage("--install-completion", **variables)
    assert first.returncode == 0, first.stderr
    changed = {path for path, content in contents().items() if before.get(path) != content}
    assert len(changed) == (2 if startup else 1)
    assert all(path in first.stdout for path in changed)
    again = peerage("--install-completion", **variables)
    assert "added" not in again.stdout


def test_a_shell_that_is_not_known_is_said(peerage):
    done = peerage("--install-completion", SHELL="")
    assert done.returncode == 2
    assert "your shell could not be detected" in done.stderr
