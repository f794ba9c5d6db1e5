"""Replies are held to a schema in bounded time, whatever the schema is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.errors import InputError
from peerage.structured import check_schema, read_structured

AGE = check_schema(
    {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
)
TREE = check_schema(
    {
        "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "$ref": "#/$defs/node",
    }
)


def schema_of(value):
    """A schema that this value follows, with every keyword that can be made from it."""
    match value:
        case dict():
            parts = {name: schema_of(inner) for name, inner in value.items()}
            bounds = {"minProperties": len(value), "maxProperties": len(value)}
            return {
                "type": "object",
                "properties": parts,
                "required": list(value),
                "additionalProperties": False,
                **bounds,
            }
        case list():
            bounds = {"minItems": len(value), "maxItems": len(value)}
            return {"type": "array", "items": {"anyOf": [*map(schema_of, value), {}]}, **bounds}
        case str():
            return {"type": ["string", "null"], "minLength": len(value), "enum": [value, None]}
        case bool() | None:
            return {"const": value, "not": {"type": "object"}}
    return {"type": "number", "minimum": value, "maximum": value, "allOf": [{"const": value}]}


def values_and_schemas():
    """JSON values, each with a schema that it follows."""
    leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~$", max_size=3)
    values = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("ab/~$", max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
    return values.map(lambda value: (value, schema_of(value)))


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
        '{"$ref": "#"}',  # as stored by an older version; it is refused today
        '{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}',
    ],
)
def test_a_schema_that_never_ends_is_given_up(schema):
    assert "endlessly" in read_structured("{}", schema).detail


def test_a_pattern_that_would_take_hours_is_not_run():
    schema = check_schema({"type": "string", "pattern": "(a+)+$"})
    assert read_structured(json.dumps("a" * 5_000 + "!"), schema).text


def test_a_reference_that_leads_nowhere_is_refused():
    with pytest.raises(InputError, match="which it does not contain"):
        check_schema({"$ref": "#/$defs/missing"})


def test_a_reference_to_another_place_is_refused():
    with pytest.raises(InputError, match="outside the schema"):
        check_schema({"$ref": "file:///etc/passwd"})


NODE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": []},
        {"type": "string", "enum": [1, 2]},
        {"type": "object", "not": {"type": "object"}},
        {"not": {}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        NODE,
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "object", "required": ["a"], "additionalProperties": False},
    ],
)
def test_a_schema_that_no_value_can_follow_is_refused(schema):
    with pytest.raises(InputError, match="no JSON value can follow"):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {**NODE, "type": ["object", "null"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"required": ["a"], "additionalProperties": False},  # a number follows it
        {"type": "integer", "enum": [2.0]},
        {"type": "array", "minItems": 1, "prefixItems": [{}], "items": False},
        {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "string"}}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}},
    ],
)
def test_a_schema_that_some_value_follows_is_taken(schema):
    assert json.loads(check_schema(schema)) == schema


@given(values_and_schemas())
def test_what_a_value_follows_is_never_refused(pair):
    value, schema = pair
    assert read_structured(json.dumps(value), check_schema(schema)).fault == ""
