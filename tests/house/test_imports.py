"""The rooms: every module lives in one, imports point down, and floor 2 is pure."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.file_list import PAGE, page_with_list

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "peerage"

# The front (`import peerage`, `python -m peerage`, and `peerage.plugins` for extensions) stands
# above the doors: it may see every room, and no room may lean on it.
FRONT = "the front"
FRONT_MODULES = ("__main__", "plugins")
FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "arguments",
        "notebooks",
        "findings",
        "types",
        "text",
        "paths",
        "hosts",
        "names",
        "shapes",
        "messages",
        "fingerprints",
        "events",
        "event_facts",
        "bills",
    ),
    ("config", "stats", "registry", "tasks", "embedded"),
    ("reviews",),
    ("council", "rules", "biases", "boards", "labels", "simulate"),
    ("providers", "stores", "engines"),
    (
        "ballot_files",
        "scoring",
        "panel_probabilities",
        "view",
        "reports",
        "structured",
        "verdicts",
        "session_config",
        "session_calls",
        "session",
        "season",
        "dry_runs",
        "seating",
        "panel",
        "answer_checks",
        "panels",
        "opened_store",
        "imports",
        "people",
        "contributions",
        "curation",
        "anchors",
        "rejudging",
        "adjudication",
        "tokens",
        "members",
        "links",
        "session_requests",
        "service",
        "quick",
        "hosted_seasons",
    ),
    ("doors",),
    (FRONT,),
)
FLOOR_BY_ROOM = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
PURE = FLOORS[2] + FLOORS[3]

# On floors 0 and 5 a room may use those listed before it, as events use the types and a season
# uses a session. On every other floor the rooms do not know each other.
STAIR = (*FLOORS[0], *FLOORS[5])

# What a pure room may not reach for, and why.
IMPURE_MODULES = {
    "asyncio": "a loop",
    "anyio": "a loop",
    "concurrent": "a loop",
    "multiprocessing": "a loop",
    "threading": "a loop",
    "time": "a clock",
    "io": "a disk",
    "os": "a disk",
    "pathlib": "a disk",
    "shutil": "a disk",
    "sqlite3": "a disk",
    "subprocess": "a disk",
    "tempfile": "a disk",
    "aiohttp": "a network",
    "http": "a network",
    "httpx": "a network",
    "openai": "a network",
    "psycopg": "a network",
    "socket": "a network",
    "urllib": "a network",
    "duckdb": "an engine",
    "narwhals": "an engine",
    "pyarrow": "an engine",
    "pyspark": "an engine",
}
IMPURE_CALLS = frozenset({"open", "input", "print"})
CLOCKS = frozenset({"now", "today", "utcnow"})

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A file's dotted name, the package's own for an `__init__`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(path: Path) -> ast.AST:
    """A module's syntax tree.

    Python 3.11 gives up on a tree if the collector runs Python code while it is built
    ("AST constructor recursion depth mismatch"), so the collector waits.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


def room_of(module: str) -> str:
    """The room of a dotted name; what is only in the package itself is the front's."""
    parts = module.split(".")
    return FRONT if len(parts) == 1 or parts[1] in FRONT_MODULES else parts[1]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever in the file it stands."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield from (
                (node.lineno, target(source, alias.name))
                for alias in node.names
                if (source, alias.name) != ("peerage", "__version__")  # a fact, not a room
            )


def target(source: str, name: str) -> str:
    """What `from source import name` leads to: a room of that name, or the source itself."""
    return f"peerage.{name}" if source == "peerage" and name in FLOOR_BY_ROOM else source


def ours(imported: str) -> bool:
    return imported.split(".")[0] == "peerage"


def height(room: str) -> tuple[int, int]:
    """How high a room lies; one that has no floor is above all, where nothing may use it."""
    floor = FLOOR_BY_ROOM.get(room, len(FLOORS))
    return floor, STAIR.index(room) if room in STAIR else 0


def upward(path: Path) -> list[str]:
    """The imports of one file that do not point strictly down or stay in their room."""
    room = room_of(name_of(path))
    return [
        f"{path.relative_to(ROOT)}:{line} imports {imported}"
        for line, imported in imports_of(path)
        if ours(imported)
        and room_of(imported) != room
        and height(room_of(imported)) >= height(room)
    ]


def impurities(path: Path) -> Iterator[str]:
    """What in one file awaits, reads a clock or touches a disk."""
    where = path.relative_to(ROOT)
    for line, imported in imports_of(path):
        top = imported.split(".")[0]
        if top in IMPURE_MODULES:
            yield f"{where}:{line} imports {imported}, {IMPURE_MODULES[top]}"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{where}:{node.lineno} is asynchronous"
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in IMPURE_CALLS:
                yield f"{where}:{node.lineno} calls {called.id}"
            elif isinstance(called, ast.Attribute) and called.attr in CLOCKS:
                yield f"{where}:{node.lineno} reads a clock"


def test_every_module_belongs_to_a_room() -> None:
    homeless = [name_of(path) for path in MODULES if room_of(name_of(path)) not in FLOOR_BY_ROOM]
    assert not homeless, f"no floor is set for {homeless}: see docs/rooms.md"


def test_imports_point_down() -> None:
    wrong = [fault for path in MODULES for fault in upward(path)]
    assert not wrong, "imports go to a lower floor or stay in their room:\n" + "\n".join(wrong)


def test_the_renderer_does_not_know_the_command_line() -> None:
    """The terminal, files, live pages and chat draw by it; a command line is one of them."""
    known = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in MODULES
        if name_of(path).startswith("peerage.doors.render")
        for line, imported in imports_of(path)
        if imported.startswith("peerage.doors.cli")
    ]
    assert not known


def test_floor_2_awaits_nothing_reads_no_clock_and_touches_no_disk() -> None:
    found = [
        fault for path in MODULES if room_of(name_of(path)) in PURE for fault in impurities(path)
    ]
    assert not found, "reviews, council, rules, biases and boards are pure:\n" + "\n".join(found)


def write_module(root: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str) -> Path:
    """A module of a package that is only there for one test."""
    package = root / "src" / "peerage"
    monkeypatch.setitem(globals(), "ROOT", root)
    monkeypatch.setitem(globals(), "PACKAGE", package)
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("file", "line", "faults"),
    [
        ("rules/borda.py", "from peerage.types import Rule", 0),
        ("rules/borda.py", "from peerage.rules import rule", 0),
        ("rules/borda.py", "from . import rule", 0),
        ("rules/borda.py", "from peerage.council import ballots", 1),
        ("rules/borda.py", "from ..council import ballots", 1),
        ("rules/borda.py", "from .. import council", 1),
        ("rules/borda.py", "from peerage import score", 1),
        ("rules/borda.py", "def f():\n    import peerage.doors.cli", 1),
        ("errors.py", "from peerage import types", 1),
        ("config.py", "from peerage import types", 0),
        ("season.py", "from peerage.session import run", 0),
        ("session.py", "from peerage.season import run", 1),
        ("doors/cli.py", "from peerage import scoring", 0),
        ("doors/cli.py", "from peerage.attic import box", 1),
        ("doors/cli.py", "import peerage", 1),
        ("doors/cli.py", "from peerage import __version__", 0),
        ("rules/borda.py", "from peerage.plugins import Rule", 1),
        ("rules/borda.py", "from peerage import plugins", 1),
        ("plugins.py", "from peerage.stores import Store", 0),
        ("__init__.py", "from peerage.scoring import score", 0),
    ],
)
def test_an_import_that_points_up_or_sideways_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, line: str, faults: int
) -> None:
    assert len(upward(write_module(tmp_path, monkeypatch, file, line))) == faults


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("async def f() -> None:\n    await g()", 2),
        ("import time", 1),
        ("from os import environ", 1),
        ("from pathlib import Path", 1),
        ("at = datetime.now(UTC)", 1),
        ("text = open('x').read()", 1),
        ("from importlib import resources", 0),  # what the package itself ships is no disk
        ("from datetime import timedelta", 0),
    ],
)
def test_an_impurity_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, faults: int
) -> None:
    path = write_module(tmp_path, monkeypatch, "rules/borda.py", line)
    assert len(list(impurities(path))) == faults


def test_the_map_names_every_room_on_its_floor() -> None:
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "rooms.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    floor_by_name = {row[1]: int(row[0]) for row in rows if row[0].isdigit()}
    mapped = {re.sub(r"/$|\.py$", "", name): floor for name, floor in floor_by_name.items()}
    assert mapped == {room: floor for room, floor in FLOOR_BY_ROOM.items() if room != FRONT}
    other_form = {
        name: name[:-1] + ".py" if name[-1] == "/" else name[:-3] for name in floor_by_name
    }
    misnamed = [name for name, other in other_form.items() if (PACKAGE / other).exists()]
    assert not misnamed, "a file in one place, a folder in the other"


def test_every_file_that_the_map_names_exists() -> None:
    text = (ROOT / "docs" / "rooms.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w/]+\.py)`", text)) - {"council.py"}  # the map says why not
    paths = [f"/{path.relative_to(PACKAGE.parent)}" for path in PACKAGE.rglob("*.py")]
    missing = [name for name in names if not any(path.endswith(f"/{name}") for path in paths)]
    assert len(names) > 50
    assert not missing


def test_the_map_lists_every_file_with_the_first_sentence_of_its_docstring() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_list(page), "run: python -m tests.shared.file_list"
