"""The repository speaks of itself alone: no file of it names a place on somebody's machine."""

from __future__ import annotations

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
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix != ".db")
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
