"""Schemas that hold a reply to its form, and that every vendor takes."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from peerage.council.prompts import (
    binary_schema,
    render_review,
    review_schema,
    tie_breaker_schema,
)
from peerage.types import Ballot, Dimension, Query, Rubric, Slot

TINY = Rubric(
    "tiny",
    {"accuracy": Fraction(2, 3), "clarity": Fraction(1, 3)},
    (Dimension("accuracy", "Is it true?", ()), Dimension("clarity", "Is it clear?", ())),
    (),
)
PAIR = Ballot("m0", (Slot("A", "m0", "a"), Slot("B", "m1", "b")))


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value has the shape of a schema, for the few words our schemas use."""
    if "$ref" in schema:
        return fits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    if "anyOf" in schema:
        return any(fits(value, option, root) for option in schema["anyOf"])
    kind = schema["type"]
    if isinstance(value, dict):
        return kind == "object" and (
            set(value) == set(schema["required"])
            and all(fits(item, schema["properties"][key], root) for key, item in value.items())
        )
    if isinstance(value, list):
        n_min, n_max = schema.get("minItems", 0), schema.get("maxItems", len(value))
        return kind == "array" and (
            n_min <= len(value) <= n_max
            and all(fits(item, schema["items"], root) for item in value)
        )
    kinds = {bool: ["boolean"], int: ["integer", "number"], float: ["number"], str: ["string"]}
    if kind not in kinds.get(type(value), ["null"]):
        return False
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return False
    return value in schema.get("enum", [value])


def parts(schema: Any) -> list[dict[str, Any]]:
    """Every object schema inside a schema."""
    if isinstance(schema, list):
        return [part for item in schema for part in parts(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("type") == "object" else []
    return here + [part for item in schema.values() for part in parts(item)]


CODE = "k3m9q2w7x5ab"
SCHEMAS = {
    "rubric": review_schema(PAIR, TINY, CODE),
    "holistic": review_schema(PAIR, None, CODE),
    "tie_breaker": tie_breaker_schema(PAIR.slots, CODE),
    "binary": binary_schema(CODE),
}
EVALUATION = {"notes": "fine", "accuracy": 9, "clarity": 10}
FITTING: list[tuple[str, dict[str, Any]]] = [
    (
        "rubric",
        {
            "ballot": CODE,
            "abstained": False,
            "reason": None,
            "evaluations": {"Response A": EVALUATION, "Response B": EVALUATION},
            "ranking": ["Response B", "Response A"],
        },
    ),
    (
        "rubric",
        {"ballot": CODE, "abstained": True, "reason": "?", "evaluations": None, "ranking": []},
    ),
    (
        "holistic",
        {
            "ballot": CODE,
            "abstained": False,
            "reason": None,
            "notes": {"Response A": "x", "Response B": "y"},
            "scores": {"Response A": 1, "Response B": 10},
            "ranking": [["Response B", "Response A"]],
        },
    ),
    (
        "tie_breaker",
        {"ballot": CODE, "reason": "it is right", "ranking": ["Response B", "Response A"]},
    ),
    ("binary", {"ballot": CODE, "reasons": ["it leaks"], "approved": False, "confidence": 0.9}),
    ("binary", {"ballot": CODE, "reasons": [], "approved": True, "confidence": None}),
]


@pytest.mark.parametrize(("name", "reply"), FITTING)
def test_a_correct_reply_fits_its_schema(name: str, reply: dict[str, Any]) -> None:
    """As the public page on replies says."""
    assert fits(json.loads(json.dumps(reply)), SCHEMAS[name], SCHEMAS[name])


@pytest.mark.parametrize(("name", "reply"), FITTING)
def test_a_reply_with_a_key_too_few_or_too_many_does_not_fit(
    name: str, reply: dict[str, Any]
) -> None:
    schema = SCHEMAS[name]
    assert not fits({**reply, "extra": 1}, schema, schema)
    for key in reply:
        assert not fits({k: v for k, v in reply.items() if k != key}, schema, schema)


@pytest.mark.parametrize("mark", [0, 11, 7.5, "9", None, True])
def test_a_mark_off_the_scale_or_an_unknown_label_does_not_fit(mark: object) -> None:
    schema, reply = SCHEMAS["rubric"], FITTING[0][1]
    evaluations = {**reply["evaluations"], "Response A": {**EVALUATION, "accuracy": mark}}
    assert not fits({**reply, "evaluations": evaluations}, schema, schema)
    assert not fits({**reply, "ranking": ["Response C"]}, schema, schema)
    assert not fits({**reply, "ballot": "another"}, schema, schema)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_keep_to_what_strict_modes_take(name: str) -> None:
    """An object at the root, all properties required, none other, no bounds."""
    schema = SCHEMAS[name]
    assert schema["type"] == "object"
    for part in parts(schema):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    text = json.dumps(schema)
    assert not any(word in text for word in ("minimum", "maximum", "Items", "Length", "allOf"))


def test_the_schema_of_the_largest_ballot_stays_within_vendors_limits() -> None:
    """At most 1,000 enumerated values, 5,000 properties and 120,000 characters of names."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    labels = [*letters, *(a + b for a in letters for b in letters)]
    largest = Ballot("m", tuple(Slot(name, name.lower(), "x") for name in labels))
    schema = review_schema(largest, TINY, CODE)
    defs = schema["$defs"]
    assert len(defs["label"]["enum"]) + len(defs["mark"]["enum"]) <= 1000
    assert sum(len(part["properties"]) for part in parts(schema)) <= 5000
    assert len(json.dumps(schema)) < 120_000


@pytest.mark.parametrize("used", [None, TINY])
def test_keys_come_in_the_same_order_on_the_page_and_in_the_schema(used: Rubric | None) -> None:
    """A model held to the schema writes what the page has led it to expect."""
    form = render_review(PAIR, Query("?"), used, "c0de", CODE).form
    keys = [key for key in review_schema(PAIR, used, CODE)["properties"] if key != "reason"]
    places = [form.index(f'\n  "{key}":') for key in keys]
    assert places == sorted(places)
