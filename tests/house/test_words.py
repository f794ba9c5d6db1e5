"""No file names a place on somebody's machine, and no name leaves open what it stands for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "tests", "bench", "docs", ".ci")

# Homes and work folders; spelt in pieces so that this file does not name one itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:" + "|".join(("home", "Users", "root", "work")) + r")/[\w.-]|"
    r"[A-Z]:\\" + r"Users\\"
)


def written_files() -> Iterator[Path]:
    """Every file people write here; what tools leave behind is not among them."""
    left_behind = (".db", ".git")  # a work tree has a file of the second name
    top = (path for path in ROOT.iterdir() if path.is_file())
    yield from (path for path in top if not path.name.endswith(left_behind))
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def machine_paths(text: str) -> list[str]:
    return [
        f"line {number}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]


def test_no_file_names_a_place_on_a_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in written_files()
        if (lines := machine_paths(path.read_bytes().decode("utf-8", errors="replace")))
    }
    assert not found


@pytest.mark.parametrize("top", ["home", "Users", "root", "work"])
def test_a_machine_path_is_seen_and_an_address_is_not(top: str) -> None:
    assert machine_paths(f"see /{top}/someone/notes.txt")
    assert not machine_paths(f"see https://example.org/{top}/someone and tests/{top}/x")


SAYS_NOTHING = {"found", "said", "kept", "asked"}  # found what? said by whom?


def names_given(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that code gives: to variables, fields, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def test_a_name_says_what_it_stands_for() -> None:
    empty = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in (ROOT / "src").rglob("*.py")
        for line, name in names_given(ast.parse(path.read_text(encoding="utf-8")))
        if name in SAYS_NOTHING
    ]
    assert not empty


def test_names_of_every_kind_are_seen() -> None:
    code = "class Said:\n    kept: int\ndef found(asked): pass\nfor said in (): pass"
    assert {name for _, name in names_given(ast.parse(code))} == {"Said", *SAYS_NOTHING}
