"""Tables that a bench writes into a document, between their markers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DOCUMENTS = Path(__file__).parents[1] / "docs"


def write_table(document: str, name: str, lines: Iterable[str]) -> None:
    """The lines between the markers of that name in a document, and on the terminal."""
    table = list(lines)
    print("\n".join(table), flush=True)
    path = DOCUMENTS / document
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    block = "\n".join([begin, *table, end])
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    text, n = pattern.subn(lambda _: block, path.read_text(encoding="utf-8"))
    if n != 1:
        raise ValueError(f"{document} has {n} tables called {name}")
    path.write_text(text, encoding="utf-8")
