"""Requirements on a board: read with a caret under a mistake, and held against intervals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.config import Settings
from peerage.errors import PeerageError, UsageError
from peerage.reports import InputTables, Reports
from peerage.reports.options import CheckOptions
from peerage.reports.requirements import (
    CheckResult,
    MeasuredValue,
    Requirement,
    RequirementResult,
    judge_requirement,
    parse_requirement,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sonnet >= gpt on coding", ("share", "sonnet", ">=", "gpt", 0.0, "coding")),
        ("share(sonnet) > .5", ("share", "sonnet", ">", "", 0.5, None)),
        ("a-b/c:4o < gpt-4 - 0.05", ("share", "a-b/c:4o", "<", "gpt-4", -0.05, None)),
        ("a<=b+.1", ("share", "a", "<=", "b+.1", 0.0, None)),
        ("a <= b +.1", ("share", "a", "<=", "b", 0.1, None)),
        ("score(a) >= score(b)", ("score", "a", ">=", "b", 0.0, None)),
        ("rank( a ) <= 3", ("rank", "a", "<=", "", 3.0, None)),
        ("\"my model\" > 'the other' on on", ("share", "my model", ">", "the other", 0.0, "on")),
        ("4o-mini > 4o", ("share", "4o-mini", ">", "4o", 0.0, None)),
    ],
)
def test_a_requirement_is_read(text: str, parts: tuple[Any, ...]) -> None:
    assert parse_requirement(text) == Requirement(text, *parts)


@pytest.mark.parametrize(
    ("text", "words", "at"),
    [
        ("a >=", "expected a number or the name of a model.", 5),
        ("a b", "expected one of >=, <=, > and <.", 2),
        ("foo(a) > 3", "there is no measure 'foo'", 0),
        ("a > .5", "a number can only be compared with share(NAME)", 0),
        ("share(a > 2", "expected ')'.", 8),
        ("a == b", "data cannot show that two values are equal", 2),
        ("a > b on", "expected a category after 'on'.", 9),
        ("a > b of c", "expected the end", 6),
        ("a > a", "cannot be compared with itself", 4),
        ('a > "b', "a quotation mark is not closed.", 3),
        ("rank(a) < rank(b)", "compare shares with shares", 10),
        ("", "expected the name of a model", 1),
    ],
)
def test_a_mistake_is_shown_with_a_caret(text: str, words: str, at: int) -> None:
    with pytest.raises(UsageError) as error:
        parse_requirement(text)
    message, echoed, caret, _ = error.value.message.split("\n")
    assert words in message
    assert (echoed, caret) == (text, f"{' ' * at}^")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse_requirement(text)
    except PeerageError:
        return


def test_an_interval_holds_fails_or_leaves_it_open() -> None:
    requirement = parse_requirement("share(a) > .5")
    statuses = [
        judge_requirement(requirement, MeasuredValue(value, low, high)).status
        for value, low, high in (
            (0.7, 0.6, 0.8),
            (0.5, 0.4, 0.6),
            (0.3, 0.2, 0.5),
            (1.0, None, None),
        )
    ]
    assert statuses == ["holds", "undecided", "fails", "undecided"]


def test_one_that_fails_decides_the_exit_code() -> None:
    def ended(*statuses: Any) -> CheckResult:
        return CheckResult(tuple(RequirementResult("", s, None, None, None) for s in statuses))

    assert ended("holds").exit_code() == 0
    assert ended("holds", "fails", "undecided").exit_code("pass") == 1
    open_ = ended("holds", "undecided")
    assert [open_.exit_code(), open_.exit_code("pass"), open_.exit_code("fail")] == [3, 0, 1]


def test_requirements_are_held_against_the_reviews() -> None:
    rows = [
        {
            "session_id": f"s{i}",
            "reviewer": judge,
            "candidate": name,
            "score": score + (i + j) % 3,
            "category": "coding" if i % 2 else "prose",
        }
        for i in range(80)
        for j, judge in enumerate("xyz")
        for name, score in (("sonnet", 7.0), ("gpt", 4.0), ("old", 4.0))
    ]
    require = (
        "sonnet >= gpt on coding",
        "share(sonnet) > .5",
        "gpt > sonnet - .1",
        "rank(sonnet) <= 1",
        "score(sonnet) >= score(gpt) + 1",
        "gpt > old",
    )
    check = Reports(Settings(), InputTables(rows)).check(CheckOptions(require=require))
    statuses = [one.status for one in check.results]
    assert statuses == ["holds", "holds", "fails", "holds", "holds", "undecided"]
    for wrong in ("sonet > gpt", "share(gtp) > 0", "gpt > old on codin", "share(gpt) > 0 on x"):
        with pytest.raises(UsageError):
            Reports(Settings(), InputTables(rows)).check(CheckOptions(require=wrong))
    with pytest.raises(UsageError, match="no requirement was given"):
        Reports(Settings(), InputTables(rows)).check(CheckOptions())
