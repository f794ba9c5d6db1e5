"""Replies are held to a schema in bounded time, whatever the schema is."""

import json

import pytest

from peerage.errors import InputError
from peerage.verdicts import check_schema, read_structured

AGE = check_schema(
    {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
)
TREE = check_schema(
    {
        "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "$ref": "#/$defs/node",
    }
)


def doubled(n):
    """A schema in which each part refers twice to the next: 2^n checks."""
    parts = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(n)}
    return check_schema({"$defs": {**parts, f"d{n}": {}}, "$ref": "#/$defs/d0"})


@pytest.mark.parametrize(
    "reply",
    ['{"age": 3}', '```json\n{"age": 3}\n```', '<think>{"age": "x"}</think>\n{"age": 3}'],
)
def test_the_value_of_a_reply_is_found(reply):
    assert json.loads(read_structured(reply, AGE).text) == {"age": 3}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("three", "not JSON"),
        ('{"age": "three"}', "is not of type 'integer' (at age)"),
        ("{}", "'age' is a required property"),
        ('{"age": NaN}', "not a JSON number"),
        ('{"age": 3} and more', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_reply_that_does_not_follow_its_schema_says_why(reply, words):
    reading = read_structured(reply, AGE)
    assert (reading.fault, reading.text) == ("not_in_schema", "")
    assert words in reading.detail


def test_a_reply_that_was_cut_off_is_not_read():
    assert read_structured('{"age": 3}', AGE, is_cut=True).fault == "cut_off"


def test_a_schema_may_refer_to_itself():
    assert read_structured("[[], [[]]]", TREE).text == "[[], [[]]]"


@pytest.mark.parametrize(
    "schema",
    [
        doubled(40),
        check_schema({"$ref": "#"}),
        check_schema({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ],
)
def test_a_schema_that_never_ends_is_given_up(schema):
    assert "without end" in read_structured("{}", schema).detail


def test_a_pattern_that_would_take_hours_is_not_run():
    schema = check_schema({"type": "string", "pattern": "(a+)+$"})
    assert read_structured(json.dumps("a" * 5_000 + "!"), schema).text


def test_a_reference_that_leads_nowhere_is_a_fault_of_the_reply():
    schema = check_schema({"$ref": "#/$defs/missing"})
    assert "does not hold" in read_structured("{}", schema).detail


def test_a_reference_to_another_place_is_refused():
    with pytest.raises(InputError, match="not a part of it"):
        check_schema({"$ref": "file:///etc/passwd"})
