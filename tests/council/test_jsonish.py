"""JSON as models write it: every slip that is forgiven, by name, and every way to stop."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.jsonish import MAX_DEPTH, Broken, Reader, RepeatedKeys, Whole, read_strict


def read(text: str, start: int = 0) -> Whole | Broken:
    return Reader(text).read(start)


def whole(text: str) -> Whole:
    got = read(text)
    assert isinstance(got, Whole)
    return got


def broken(text: str) -> Broken:
    got = read(text)
    assert isinstance(got, Broken)
    return got


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=12,
)
# A bare key is looked for after every brace, so keys here are what keys are.
keys = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)


@given(st.dictionaries(keys, values, min_size=1, max_size=5), st.sampled_from([None, 1]))
def test_plain_json_is_read_as_it_is_without_a_repair(data: dict[str, Any], indent: int | None):
    text = json.dumps(data, indent=indent)
    assert read_strict(text, 0) == Whole(data, len(text))


simple = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.from_regex(r"[a-z ]{0,12}", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), simple, min_size=1))
def test_the_tolerant_reader_agrees_with_the_strict_one_on_plain_json(data: dict[str, Any]):
    text = json.dumps(data)
    assert read(text) == Whole(data, len(text))


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), simple, min_size=1))
def test_a_python_literal_reads_like_json(data: dict[str, Any]):
    assert whole(repr(data)).value == data


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": [1, 2,], "b": 3,}', {"a": [1, 2], "b": 3}, "trailing_comma"),
        ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, "extra_comma"),
        ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}, "missing_comma"),
        ('{"a": ["x" "y"]}', {"a": ["x", "y"]}, "missing_comma"),
        ("{'a': 'x'}", {"a": "x"}, "single_quotes"),
        ("{'a': 'don't'}", {"a": "don't"}, "single_quotes+unescaped_quotes"),
        ("{“a”: “x”}", {"a": "x"}, "smart_quotes"),
        ("{“a”: ‘it’s’}", {"a": "it’s"}, "smart_quotes+unescaped_quotes"),
        ("{`a`: `x`}", {"a": "x"}, "backticks"),
        (
            "{a: 1, my-key: 2, Response A: 3}",
            {"a": 1, "my-key": 2, "Response A": 3},
            "unquoted_keys",
        ),
        ('{"a": [A, B]}', {"a": ["A", "B"]}, "unquoted_values"),
        ('{"a": 9/10, "b": 9 / 10}', {"a": "9/10", "b": "9 / 10"}, "unquoted_values"),
        ('{"a": True, "b": None}', {"a": True, "b": None}, "python_literals"),
        ('{"a": 1 // one\n}', {"a": 1}, "comments"),
        ('{/* x */ "a": /* y */ 1 # z\n}', {"a": 1}, "comments"),
        ('{"a": "x\ny"}', {"a": "x\ny"}, "raw_newlines"),
        (r'{"a": "\(x\)"}', {"a": r"\(x\)"}, "stray_backslashes"),
        ('{"a": "the "best" one"}', {"a": 'the "best" one'}, "unescaped_quotes"),
        (r'{"a": "\u00e9\n\"\/", "b": "\ud83d\ude00"}', {"a": 'é\n"/', "b": "😀"}, ""),
        (r'{"a": "\ud83d"}', {"a": "\ud83d"}, ""),
        ('{"a": .5, "b": +1, "c": -2e1}', {"a": 0.5, "b": 1, "c": -20.0}, ""),
        ("{}", {}, ""),
    ],
)
def test_each_slip_is_forgiven_and_named(text: str, value: dict[str, Any], repairs: str):
    got = whole(text)
    assert (got.value, "+".join(got.repairs), got.end) == (value, repairs, len(text))


def test_numbers_of_any_size_are_read():
    got = whole('{"a": 1e999999, "b": %s, "c": NaN, "d": -Infinity}' % ("9" * 10_000)).value
    assert got["a"] == got["b"] == math.inf
    assert math.isnan(got["c"])
    assert got["d"] == -math.inf
    assert read_strict('{"a": %s}' % ("9" * 10_000), 0) is None


def test_a_repeated_key_keeps_the_last_value_and_is_told_by_both_readers():
    text = '{"a": 1, "b": 2, "a": 3}'
    for got in (read_strict(text, 0), read(text)):
        assert isinstance(got, Whole)
        assert isinstance(got.value, RepeatedKeys)
        assert got.value == {"a": 3, "b": 2}
        assert got.value.repeated == ("a",)


@pytest.mark.parametrize("text", ["{", "{a b c}", "{{", '{"a" 1}', "{1, 2}", "{#", "{/*", '{"a'])
def test_a_brace_in_prose_is_no_object_at_all(text: str):
    assert broken(text) == Broken({}, 1)


def test_a_cut_object_gives_what_it_had_said_in_full():
    got = broken('{"ranking": ["A", "B"], "notes": {"A": "it is')
    assert got.value == {"ranking": ["A", "B"]}
    assert got.open_key == "notes"
    assert len(got.open_braces) == 2


def test_a_string_that_never_ends_is_looked_into_again():
    """What it swallowed may be the verdict."""
    text = '{"a": "never closed\n\n{"b": 1}'
    got = broken(text)
    assert got.resume <= text.index('{"b"')


@pytest.mark.parametrize("opener", ['{"a":', '{"a":['])
def test_nesting_is_bounded(opener: str):
    got = broken(opener * 1000)
    assert 0 < len(got.open_braces) <= MAX_DEPTH


@pytest.mark.parametrize(
    "text",
    [
        '{"a": }',
        '{"a": 1]',
        '{"a": [1}',
        '{"a": and so on {',
        '{"a":: 1}',
        '{"a": 1 /* no end',
        '{"a": ,}',
        '{"a": "b" c}',
        '{"a": \ud800"}',
    ],
)
def test_what_is_beyond_repair_stops_where_it_is(text: str):
    got = broken(text)
    assert 0 < got.resume <= len(text)


@given(st.text(alphabet="{}[]\",:'/*#\\ \nab1“”‘’`-.eu0\ud800", max_size=60))
def test_any_text_is_read_or_stops_inside_it(tail: str):
    text = "{" + tail
    got = read(text)
    assert 0 < (got.end if isinstance(got, Whole) else got.resume) <= len(text)


@given(st.text(alphabet='{}[]",:\\ ab1', max_size=40))
def test_what_the_strict_reader_takes_the_tolerant_one_takes_alike(tail: str):
    strict = read_strict("{" + tail, 0)
    if strict is not None and strict.value and all(strict.value):
        got = read("{" + tail)
        assert isinstance(got, Whole)
        assert got.end == strict.end
