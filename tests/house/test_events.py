"""The JSON of an event is spelt in one place: nothing else reads or writes a body by its keys."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "peerage"
HOMES = ("events.py", "stores/schema.py")  # the store writes bodies whole


def spelt_bodies(source: str) -> list[int]:
    """The lines that look into an event's body, or build an event of a spelt kind."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        looks_in = isinstance(node, ast.Attribute) and node.attr == "body"
        is_event = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Event"
        compares = isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute)
        kind = compares and node.left.attr == "kind" and _is_event_name(node.left.value)
        spelt = kind and any(isinstance(one, ast.Constant) for one in node.comparators)
        if (looks_in and _is_event_name(node.value)) or is_event or spelt:
            lines.append(node.lineno)
    return sorted(lines)


def _is_event_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("event", "events", "stored")


def test_no_module_but_events_spells_a_body() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in HOMES
        and (lines := spelt_bodies(path.read_text(encoding="utf-8")))
    }
    assert not found, f"use the typed events of peerage.events: {found}"


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ('event.body["seat"]', 1),
        ('Event("s", 0, "opened", 0.0, {})', 1),
        ('event.kind == "opened"', 1),
        ("event.kind in STORED_KINDS", 0),
        ("answer.body", 0),
        ("read_event(event)", 0),
    ],
)
def test_a_spelt_body_is_seen(source: str, n: int) -> None:
    assert len(spelt_bodies(source)) == n
