"""Every cache is bounded: one that is keyed by what comes in says how many entries it keeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CACHING = ("cache(", "functools.cache(", "lru_cache(", "functools.lru_cache(")
# So many entries; or of a function that takes nothing, such as a partial that has it all.
BOUNDED = re.compile(
    r"(functools\.)?(lru_cache\((maxsize=)?\w*\d|lru_cache\(maxsize=N_|cache\(partial\()"
)
PACKAGE = Path(__file__).parents[2] / "src" / "peerage"


def unbounded(tree: ast.AST) -> Iterator[int]:
    """The lines of caches that may grow for as long as the process lives."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [ast.unparse(one).removeprefix("functools.") for one in node.decorator_list]
            if "cache" in names and ast.unparse(node.args):
                yield node.lineno
        elif text.startswith(CACHING) and not BOUNDED.match(text):
            yield node.lineno


def test_no_cache_grows_for_ever() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in unbounded(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


def test_a_cache_without_a_bound_is_found() -> None:
    text = "@cache\ndef a(x): ...\n@lru_cache(maxsize=None)\ndef b(x): ...\nc = cache(say)\n"
    assert len(set(unbounded(ast.parse(text)))) >= 3
    text = "@cache\ndef a(): ...\n@lru_cache(maxsize=8)\ndef b(x): ...\n"
    assert not list(unbounded(ast.parse(text)))
