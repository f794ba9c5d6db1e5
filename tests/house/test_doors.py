"""Foreign text has one door: nothing else in the doors writes to a stream or renders text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

DOORS = Path(__file__).parents[2] / "src" / "peerage" / "doors"
THE_DOOR = {"cli/screen.py", "cli/terminal.py"}
WRITERS = {"print", "echo", "secho", "Console", "from_markup", "from_ansi", "get_console", "pprint"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
# Layout only: what they are given is rendered by the terminal as text. Tables are our own.
LAYOUT = {"rich.cells", "rich.columns", "rich.live", "rich.progress", "rich.console"}
NOT_LAYOUT = {"Console", "TextColumn", "Text", "Panel", "Markdown"}


def bypasses(source: str) -> list[str]:
    """What in a module could put text on a terminal past the door."""
    tree = ast.parse(source)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if id(node) not in typing_only and any(_reasons(node))
    ]


def _reasons(node: ast.AST) -> Iterator[bool]:
    if isinstance(node, ast.Call):
        name = node.func
        yield isinstance(name, ast.Name) and name.id in WRITERS
        yield isinstance(name, ast.Attribute) and name.attr in WRITERS - {"print"}
        yield any(keyword.arg in ("markup", "highlight", "emoji") for keyword in node.keywords)
    elif isinstance(node, ast.Attribute):
        yield node.attr in STREAMS and ast.unparse(node.value) == "sys"
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        names = {alias.name for alias in node.names}
        yield module.split(".")[0] == "rich" and (module not in LAYOUT or bool(names & NOT_LAYOUT))
        yield module == "sys" and bool(names & STREAMS)
    elif isinstance(node, ast.Import):
        yield any(alias.name.split(".")[0] == "rich" for alias in node.names)


@pytest.mark.parametrize(
    "path",
    [path for path in DOORS.rglob("*.py") if str(path.relative_to(DOORS)) not in THE_DOOR],
    ids=lambda path: str(path.relative_to(DOORS)),
)
def test_text_goes_through_the_door(path: Path) -> None:
    assert not bypasses(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "import sys\nsys.stderr.write('x')",
        "import sys\nout = sys.stdout",
        "from sys import stdout",
        "from rich.console import Console",
        "from rich.text import Text",
        "from rich.markup import escape",
        "from rich.panel import Panel",
        "from rich.progress import TextColumn",
        "import rich",
        "from rich.table import Table",
        "typer.echo('x')",
        "terminal.print('x', markup=True)",
        "Text.from_markup('x')",
    ],
)
def test_each_way_past_the_door_is_seen(source: str) -> None:
    assert bypasses(source)
