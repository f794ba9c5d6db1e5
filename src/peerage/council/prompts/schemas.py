"""JSON schemas of the replies, for providers that can hold a model to one.

They keep to what every vendor's strict mode takes: an object at the root, every property
required, no others allowed, null where something may be absent, and no bounds on numbers
or lengths. `bounded` adds limits for grammar engines that run in process, where a small
model would otherwise repeat a label until its tokens run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peerage.council.prompts.fences import heading
from peerage.types import Ballot, Rubric, Slot

Schema = dict[str, Any]

MAX_NOTE_CHARACTERS = 400

LABEL = {"$ref": "#/$defs/label"}
MARK = {"$ref": "#/$defs/mark"}


def review_schema(ballot: Ballot, rubric: Rubric | None, *, bounded: bool = False) -> Schema:
    """The schema of a review of this ballot, by rubric or holistic.

    Reasons come before marks and marks before the ranking, because a model writes in
    this order. Who abstains may leave the marks null and the ranking empty.
    """
    names = [heading(slot.label) for slot in ballot.slots]
    note = _text(bounded)
    defs: dict[str, Schema] = {
        "label": {"type": "string", "enum": names},
        "mark": {"type": "integer", "enum": list(range(1, 11))},
    }
    said: dict[str, Schema]
    if rubric is None:
        said = {
            "notes": _or_null(_object(dict.fromkeys(names, note))),
            "scores": _or_null(_object(dict.fromkeys(names, MARK))),
        }
    else:
        marks = {dimension.name: MARK for dimension in rubric.dimensions}
        defs["evaluation"] = _object({"notes": note, **marks})
        evaluation = {"$ref": "#/$defs/evaluation"}
        said = {"evaluations": _or_null(_object(dict.fromkeys(names, evaluation)))}
    properties = {
        "abstained": {"type": "boolean"},
        "reason": _or_null(note),
        **said,
        "ranking": _ranking(len(names), bounded=bounded),
    }
    return {**_object(properties), "$defs": defs}


def tie_breaker_schema(slots: Sequence[Slot], *, bounded: bool = False) -> Schema:
    """The schema of a chair's ranking of the tied, in which nothing is level."""
    limits = {"minItems": len(slots), "maxItems": len(slots)} if bounded else {}
    ranking = {"type": "array", "items": LABEL, **limits}
    names = [heading(slot.label) for slot in slots]
    return {
        **_object({"reason": _text(bounded), "ranking": ranking}),
        "$defs": {"label": {"type": "string", "enum": names}},
    }


def binary_schema(*, bounded: bool = False) -> Schema:
    """The schema of a decision: reasons, approved or not, and a confidence or null."""
    limits = {"maxItems": 5} if bounded else {}
    return _object(
        {
            "reasons": {"type": "array", "items": _text(bounded), **limits},
            "approved": {"type": "boolean"},
            "confidence": _or_null({"type": "number"}),
        }
    )


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _text(bounded: bool) -> Schema:
    return {"type": "string", "maxLength": MAX_NOTE_CHARACTERS} if bounded else {"type": "string"}


def _ranking(n: int, *, bounded: bool) -> Schema:
    """Labels from best to worst; those in an inner list are tied."""
    limits = {"maxItems": n} if bounded else {}
    tied = {"type": "array", "items": LABEL, **limits}
    return {"type": "array", "items": {"anyOf": [LABEL, tied]}, **limits}
