"""Every table that `./dev bench` or `./dev prove` writes into a document has one place there."""

from __future__ import annotations

import ast
from pathlib import Path

from prove.__main__ import names

ROOT = Path(__file__).parents[2]


def written_tables() -> list[tuple[str, str]]:
    """The document and the name of each table that a bench writes."""
    files = [file for room in ("bench", "prove") for file in (ROOT / room).glob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        (ast.literal_eval(call.args[0]), ast.literal_eval(call.args[1]))
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "write_table"
        and isinstance(call.args[1], ast.Constant)
    ] + [("proofs.md", name) for name in names()]


def test_every_table_of_the_bench_has_one_place_with_rows_in_it() -> None:
    tables = written_tables()
    assert len(tables) > 10
    for document, name in tables:
        text = (ROOT / "docs" / document).read_text(encoding="utf-8")
        assert text.count(f"<!-- {name}: begin -->") == 1, (document, name)
        _, _, rest = text.partition(f"<!-- {name}: begin -->\n")
        table, end, _ = rest.partition(f"<!-- {name}: end -->")
        assert end, (document, name)
        assert len(table.splitlines()) >= 3, (document, name)
