"""The documents are true: their commands exist or run, their links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.forked import Forks

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)[^)]*\)|!\[[^\]]*\]\(([^)\s]+)[^)]*\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
SHELL = {"sh", "bash", "shell", "console"}

# Commands that are pure and quick, so what the README shows is really run.
RUN_FOR_REAL = {"score"}


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command in a document's shell blocks that is ours to answer for."""
    for language, block in FENCE.findall(text):
        if language in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                yield from ours(shlex.split(line.removeprefix("$ "), comments=True))


def ours(words: list[str]) -> Iterator[list[str]]:
    """Each `peerage …` or `./dev …` of a line: after assignments, up to a pipe or redirection."""
    command: list[str] = []
    for word in [*words, "|"]:
        if re.fullmatch(r"[|&;]+|\d?[<>]+.*", word):
            if command and (command[0] == "./dev" or Path(command[0]).name == "peerage"):
                yield [Path(command[0]).name, *command[1:]]
            command = []
        elif command or not re.match(r"\w+=", word):
            command.append(word)


Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def peerage(forks: Forks) -> Run:
    """Runs `peerage` at the root of the project; the same words once."""
    return cache(lambda *words: forks.run(words, cwd=ROOT, env=os.environ))


def help_of(peerage: Run, *command: str) -> str:
    """What a command of peerage says of itself, empty where there is no such command."""
    done = peerage(*command, "--help")
    return str(done.stdout) if done.returncode == 0 else ""


@cache
def dev_commands() -> frozenset[str]:
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run([shell, ROOT / "dev", "help"], capture_output=True, text=True, check=True)
    return frozenset(re.findall(r"^  (\w+)", done.stdout, re.MULTILINE))


def fault(peerage: Run, words: list[str]) -> str:
    """What is wrong with one command of a document; empty where nothing is."""
    program, *rest = words
    name = next((word for word in rest if not word.startswith("-")), "")
    if program == "dev":
        return "" if not rest or name in dev_commands() else f"./dev has no command {name!r}"
    words = [word for word in rest if not word.startswith("-")]
    page = help_of(peerage, *words[: 2 if name in ("board", "token") else 1])
    if not page:
        return f"peerage has no command {name!r}"
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    unknown = [option for option in sorted(options) if option not in page + help_of(peerage)]
    if unknown:
        return f"peerage {name} has no {', '.join(unknown)}"
    if name in RUN_FOR_REAL and "-" not in rest:
        done = peerage(*rest)
        return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"
    return ""


def slugs(text: str) -> set[str]:
    """The anchors a document's headings get: lower case, no punctuation, hyphens for spaces."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(FENCE.sub("", text))
    }


def dead_links(path: Path) -> list[str]:
    """The relative links of a document that lead to no file, or to no heading of it."""
    dead = []
    for plain, image in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        link = plain or image
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        goal = path.parent / file if file else path
        if not goal.exists() or (
            anchor
            and goal.suffix == ".md"
            and anchor not in slugs(goal.read_text(encoding="utf-8"))
        ):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_a_document_shows_exists(peerage: Run, path: Path) -> None:
    faults = {
        shlex.join(words): wrong
        for words in commands(path.read_text(encoding="utf-8"))
        if (wrong := fault(peerage, words))
    }
    assert not faults


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    assert not dead_links(path)


def test_commands_are_found_behind_prompts_assignments_and_pipes() -> None:
    text = (
        "```sh\n$ PEERAGE_X=1 .venv/bin/peerage score \\\n  a.json --json | head # look\n"
        "cd x && ./dev test --all\nls > dev\n```\n```toml\npeerage = 1\n```\n"
    )
    assert list(commands(text)) == [
        ["peerage", "score", "a.json", "--json"],
        ["dev", "test", "--all"],
    ]


def test_a_command_that_does_not_exist_is_a_fault(peerage: Run) -> None:
    assert fault(peerage, ["dev", "dance"]) == "./dev has no command 'dance'"
    assert fault(peerage, ["peerage", "dance"]) == "peerage has no command 'dance'"
    assert (
        fault(peerage, ["peerage", "score", "x.json", "--dance"]) == "peerage score has no --dance"
    )


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, it is\n[a](page.md) [b](#a-title-it-is) [c](gone.md) [d](page.md#gone) "
        "[e](https://example.org/x) ![f](gone.svg)",
        encoding="utf-8",
    )
    assert dead_links(page) == ["gone.md", "page.md#gone", "gone.svg"]


# -- panels in examples --------------------------------------------------------------------------

SEATS_OPTION = re.compile(r"--seats[ =]([\w.-]+(?:,[\w.-]+)*)")
EXAMPLES = [
    *(path for path in DOCUMENTS if path.name != "CHANGELOG.md"),
    *sorted((ROOT / "src/peerage/doors").rglob("*.py")),
]


def seat_tables(text: str) -> Iterator[list[str]]:
    """The [[seat]] tables of each block of TOML in a document."""
    for language, block in FENCE.findall(text):
        if language == "toml" and "[[seat]]" in block:
            yield block.split("[[seat]]")[1:]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_example_shows_two_seats_that_can_only_review_each_other(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = [names.split(",") for names in SEATS_OPTION.findall(text)]
    assert all(len(names) != 2 for names in named), named
    for tables in seat_tables(text) if path.suffix == ".md" else ():
        pairs = [table for table in tables if "roles" not in table or '"answer"' in table]
        assert not (len(pairs) == len(tables) == 2), text


def test_every_decision_has_a_number_of_its_own_that_its_title_repeats() -> None:
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(note.name[:4]) for note in notes]
    assert numbers == list(range(1, len(notes) + 1))
    assert [int(note.read_text().split(".")[0].removeprefix("# ")) for note in notes] == numbers
