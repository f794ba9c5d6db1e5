"""docs/python.md is true: its code runs, and it names every field of every public type."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import peerage
from peerage.errors import PeerageError

TEXT = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
ERRORS = "## Errors"
TYPES = {
    name: value
    for name in peerage.__all__
    if isinstance(value := getattr(peerage, name), type) and not issubclass(value, Exception)
}
DESCRIBED_BY_METHODS = {"Council", "OpenedStore"}


def first_cells(section: str) -> list[str]:
    """Return the names in the first column of the tables of a section."""
    return re.findall(r"^\| `(\w+)", section, re.MULTILINE)


def section_of(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    _, _, rest = TEXT.partition(f"\n{heading}\n")
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def public_fields(cls: type) -> set[str]:
    """Return the names of a type's fields and properties."""
    names = (
        [field.name for field in dataclasses.fields(cls)]
        if dataclasses.is_dataclass(cls)
        else list(getattr(cls, "_fields", ()))
    )
    properties = [
        name
        for name in dir(cls)
        if not name.startswith("_") and isinstance(getattr(cls, name), property)
    ]
    return {*names, *properties}


@pytest.mark.parametrize("name", sorted(TYPES.keys() - DESCRIBED_BY_METHODS))
def test_every_field_of_a_public_type_is_described_once(name: str) -> None:
    assert sorted(first_cells(section_of(f"### `{name}`"))) == sorted(public_fields(TYPES[name]))


def test_no_section_describes_a_type_that_is_not_public() -> None:
    assert set(re.findall(r"^### `(\w+)`", TEXT, re.MULTILINE)) <= set(TYPES)


def test_every_error_is_described_once() -> None:
    values = (getattr(peerage, name) for name in peerage.__all__)
    errors = [v.__name__ for v in values if isinstance(v, type) and issubclass(v, PeerageError)]
    assert sorted(first_cells(section_of(ERRORS))) == sorted(errors)


def test_every_method_of_an_opened_store_is_described() -> None:
    methods = {name for name in vars(peerage.OpenedStore) if not name.startswith("_")}
    described = re.findall(r"`(\w+)\((?:…|id|id, …)?\)`", section_of("## Read a store"))
    assert set(described) == methods


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102 - our own page
    board, contributors = names["board"], names["contributors"]
    assert isinstance(board, peerage.Board)
    assert isinstance(contributors, peerage.Board)
    assert {row["model"] for row in board.rows} == {"ada", "bob", "cyd"}
    assert [row["contributor"] for row in contributors.rows] == ["eve"]


# -- other pages -------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = {
    page: re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for page in sorted(DOCS.rglob("*.md"))
}
RUN = ("boards.md", "community.md", "messages.md", "rules.md")  # others need servers or a cluster
TABLES = """
import pandas as pd
from tests.shared.reviews import write_reviews, write_votes
from bench.opinions import write_opinions
from pathlib import Path
write_reviews(Path("reviews.parquet"), 500)
write_votes(Path("battles.parquet"), 500)
write_opinions(Path("opinions.parquet"), 2_000)
opinions = pd.read_parquet("opinions.parquet").assign(at="2026-01-31")
opinions.to_parquet("opinions.parquet")
users = pd.DataFrame({"user_id": opinions.reviewer.unique(), "affiliated": False})
users.to_csv("users.csv", index=False)
items = opinions[["item_id", "contributor"]].drop_duplicates("item_id")
items.to_csv("items.csv", index=False)
"""


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks], ids=str)
def test_python_of_a_page_is_python(page: Path) -> None:
    for block in BLOCKS[page]:
        compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_python_of_a_page_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    code = "\n".join([TABLES, *BLOCKS[DOCS / name]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
