"""The list of all files in docs/rooms.md: each module with the first sentence of its docstring.

`python -m tests.shared.file_list` writes it again.
"""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "peerage"
PAGE = ROOT / "docs" / "rooms.md"
BEGIN, END = "<!-- files: begin -->", "<!-- files: end -->"


def file_list() -> str:
    """Return one table of files for each folder of the package, in Markdown."""
    modules = sorted(PACKAGE.rglob("*.py"), key=lambda path: (str(path.parent), path.name))
    tables = []
    for folder, paths in groupby(modules, key=lambda path: path.parent):
        name = "Top level" if folder == PACKAGE else f"`{folder.relative_to(PACKAGE)}/`"
        rows = [f"| `{path.name}` | {first_sentence(path)} |" for path in paths]
        tables.append("\n".join([f"### {name}", "", "| file | what it does |", "|---|---|", *rows]))
    return "\n\n".join(tables)


def first_sentence(path: Path) -> str:
    """Return the first paragraph of a module's docstring on one line, safe in a table."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", r"\|")


def page_with_list(page: str) -> str:
    """Return a page with the list between its two markers replaced."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{file_list()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_list(PAGE.read_text()))
