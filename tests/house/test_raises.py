"""Every raise makes an exception of its own: one that is shared keeps what it has passed through.

A traceback, a cause and a context are written into the instance that is raised. Raised again, by
another thread perhaps, it grows and mixes what belongs to two failures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "peerage"


def faults(text: str) -> Iterator[str]:
    """The raises of a constant (of this module or another) or of an object's attribute."""
    tree = ast.parse(text)
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc
            is_constant = isinstance(raised, ast.Name) and (
                raised.id in assigned or raised.id.isupper()
            )
            is_class = isinstance(raised, ast.Attribute) and raised.attr[0].isupper()
            is_class = is_class and not raised.attr.isupper()  # type: ignore[attr-defined]
            if is_constant or (isinstance(raised, ast.Attribute) and not is_class):
                yield f"line {node.lineno}: raise {ast.unparse(raised)}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_exception_is_raised_that_others_raise_too(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "code",
    [
        "none_yet = ValueError()\ndef f(): raise none_yet",
        "none_yet: ValueError = ValueError()\ndef f(): raise none_yet",
        "from elsewhere import NONE_YET\ndef f(): raise NONE_YET from None",
        "def f(): raise errors.NONE_YET",
        "def f(self): raise self.failure",
    ],
)
def test_a_shared_exception_is_seen(code: str) -> None:
    assert list(faults(code))


@pytest.mark.parametrize(
    "code",
    [
        "def f(): raise ValueError",
        "def f(): raise errors.NotFound",
        "def f(): raise none_yet()",
        "def f(errors):\n  try: g()\n  except ValueError as error: raise error\n  raise errors[0]",
    ],
)
def test_an_exception_of_its_own_is_let_through(code: str) -> None:
    assert not list(faults(code))
