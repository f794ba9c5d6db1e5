"""Answers held against expected ones: correct, not correct, or not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.expected import is_correct


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("4", "4", 1.0),
        ("**4.**", "4", 1.0),
        ("2 + 2 = 4", "4", 1.0),
        ("Let me think.\n\nAnswer: 4", "4", 1.0),
        ("The answer is 4.", "4.0", 1.0),
        ("It may look like 4.\nFinal answer: 5", "4", 0.0),
        ("So $\\boxed{1{,}000}$", "1000", 0.0),
        ("So \\boxed{1,000}", "1000", 1.0),
        ("The sum is 14 and no more.", "4", 0.0),
        ("I counted 4 of them.", "4", None),
        ("There are 1,000 of them, I think.", "1000", 1.0),
        ("The value is 3.14 in all.", "3.1", 0.0),
        ("The capital of France is Paris.", "paris", 1.0),
        ("The capital of France is Lyon.", "Paris", 0.0),
        ("Parisians live there.", "Paris", 0.0),
        ("B) because it is so", "B", 1.0),
        ("(c) for sure", "B", 0.0),
        ("I would say that B is best", "B", None),
        ("Answer: B) it is so", "b", 1.0),
        ("Something else", "word " * 30, None),
        ("word " * 30, "word " * 30, 1.0),
        ("yes", "", None),
    ],
)
def test_the_final_answer_decides(answer: str, expected: str, value: float | None) -> None:
    assert is_correct(answer, [expected]) == value


def test_one_of_several_expected_answers_is_enough() -> None:
    assert is_correct("It is New York.", ["NYC", "New York"]) == 1.0
    assert is_correct("It is Boston.", ["NYC", "New York"]) == 0.0


@given(st.text(min_size=1, max_size=40), st.text(max_size=200))
def test_an_answer_is_itself_and_any_text_has_a_value(expected: str, answer: str) -> None:
    assert is_correct(answer, [expected]) in (0.0, 1.0, None)
    assert is_correct(expected, [expected]) in (1.0, None)
