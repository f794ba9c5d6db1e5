"""Schemas and descriptions of tools: plain JSON schemas, with the panel's seats and its costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.types import Tool

from peerage.errors import PeerageError
from peerage.providers.money import usd
from peerage.service import Service

SHORT_QUESTION = "Which of two approaches is better, and why? " * 5
PRICED_TOOLS = ("ask", "verdict")  # calling these costs money
DURATION = "A session takes from a few seconds to a few minutes."


class PanelFacts:
    """A description of a service's panel for agents; the cost of a question is estimated once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._text: str | None = None

    async def read(self) -> tuple[str, tuple[str, ...]]:
        """Return a text on the seats and the cost of a question, and the names of the seats."""
        seats = self._service.settings.seats
        if self._text is None:
            self._text = f"{_panel_text(self._service)} {await self._cost_text()} {DURATION}"
        return self._text, tuple(seat.name for seat in seats)

    async def _cost_text(self) -> str:
        try:
            seats = await self._service.council.estimate(SHORT_QUESTION)
        except PeerageError:  # the panel cannot hold a session; `ask` says why
            return ""
        n_calls = sum(seat.calls.total() for seat in seats)
        calls = f"A short question takes about {n_calls} calls to models"
        if any(seat.price is None and seat.calls for seat in seats):
            return f"{calls}; the price of some is not known."
        about, at_most = (
            usd(sum(getattr(seat, n) for seat in seats)) for n in ("about", "at_most")
        )
        if not at_most:
            return f"{calls}, which are free."
        return f"{calls} and costs about ${about:.2g}, at most ${at_most:.2g}."


def _panel_text(service: Service) -> str:
    names = [
        seat.name if seat.model in ("", seat.name) else f"{seat.name} ({seat.model})"
        for seat in service.settings.seats
    ]
    return f"Seats of the panel: {', '.join(names) or 'none yet'}."


def describe_tools(tools: Sequence[Tool], facts: tuple[str, tuple[str, ...]]) -> list[Tool]:
    """Return tools with plain schemas; tools that cost money also describe the panel."""
    text, seats = facts
    described = []
    for tool in tools:
        schema = plain_schema(tool.input_schema)
        if "seats" in schema["properties"] and seats:
            schema["properties"]["seats"]["items"]["enum"] = list(seats)
        words = " ".join((tool.description or "").split())
        if tool.name in PRICED_TOOLS:
            words = f"{words} {text}"
        changes = {"input_schema": schema, "description": words}
        described.append(tool.model_copy(update=changes))
    return described


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of arguments that strict clients accept.

    References are replaced by the schemas they refer to. An optional argument may be left out, so
    null is removed from its types (the server still accepts null).
    """
    plain: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    plain.setdefault("properties", {})
    return plain | {"additionalProperties": False}


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(one, definitions) for one in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        referred = definitions[node["$ref"].rpartition("/")[2]]
        others = {key: value for key, value in node.items() if key != "$ref"}
        return _plain({**referred, **others}, definitions)
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":  # names of arguments, which may equal JSON Schema keywords
            plain[key] = {name: _plain(one, definitions) for name, one in value.items()}
        elif key == "anyOf":
            kinds = [_plain(one, definitions) for one in value if one != {"type": "null"}]
            plain = _merge_kinds(kinds) | plain
        elif key not in ("$defs", "title") and not (key == "default" and value is None):
            plain[key] = _plain(value, definitions)
    return plain


def _merge_kinds(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several: the only one, one `enum` of all choices, or `anyOf`."""
    if len(kinds) == 1:
        return kinds[0]
    if all(kind.keys() == {"enum", "type"} for kind in kinds):
        choices = [choice for kind in kinds for choice in kind["enum"]]
        return {"type": kinds[0]["type"], "enum": list(dict.fromkeys(choices))}
    return {"anyOf": kinds}
