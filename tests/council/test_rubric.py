"""The rubric: weights, ceilings, what a missing mark does."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.council.counting import count, overall
from peerage.types import Ballot, Review, Slot

ORIGINAL = config.rubric("original")
GENERAL = config.rubric("general")
BALLOT = Ballot("x", tuple(Slot(name.upper(), name) for name in "abc"))
A = {"accuracy": 9, "completeness": 8, "conciseness": 7, "clarity": 8}
B = {"accuracy": 7, "completeness": 9, "conciseness": 9, "clarity": 8}
C = {"accuracy": 6, "completeness": 6, "conciseness": 5, "clarity": 7}


def test_the_published_example_with_its_arithmetic_put_right():
    assert [float(overall(marks, ORIGINAL)) for marks in (A, B, C)] == [8.15, 8.10, 6.00]


def test_a_well_written_hallucination_is_capped():
    """6.90 by weight, 4.0 by accuracy"""
    lie = {"accuracy": 3, "completeness": 9, "conciseness": 9, "clarity": 9}
    assert sum(ORIGINAL.weights[k] * v for k, v in lie.items()) == Fraction("6.9")
    assert overall(lie, ORIGINAL) == 4


@pytest.mark.parametrize(("accuracy", "cap"), [(4, 4), (4.9, 4), (5, 7), (6.9, 7), (7, 9.3)])
def test_ceilings_begin_where_documented(accuracy, cap):
    marks = {"accuracy": accuracy, **dict.fromkeys(["completeness", "conciseness", "clarity"], 10)}
    by_weight = Fraction(str(accuracy)) * Fraction("0.35") + Fraction("6.5")
    assert overall(marks, ORIGINAL) == min(by_weight, Fraction(str(cap)) if cap < 9 else by_weight)


def test_the_weights_of_the_marked_dimensions_are_rescaled():
    assert overall({"accuracy": 8, "clarity": 10}, ORIGINAL) == Fraction(480, 55)


def test_without_accuracy_there_is_no_rubric_score():
    assert overall({"clarity": 10}, ORIGINAL) is None


def test_the_holistic_score_stands_in_and_is_flagged():
    review = Review("x", marks={"A": A, "B": {"clarity": 9}}, scores={"B": 9})
    reading = count(BALLOT, review, ORIGINAL)
    assert reading.overall == {"a": Fraction("8.15"), "b": 9}
    assert "no_accuracy:B" in reading.flags


def test_the_ranking_follows_the_marks_and_the_reviewer_only_breaks_ties():
    same = dict.fromkeys(GENERAL.weights, 8)
    review = Review("x", (("C",), ("B",), ("A",)), marks={"A": same, "B": same, "C": C})
    reading = count(BALLOT, review, GENERAL)
    assert reading.tiers == (("b",), ("a",), ("c",))
    assert "rank_mark_mismatch" in reading.flags


def test_without_a_rubric_the_ranking_stands_whatever_the_marks():
    review = Review("x", (("C",), ("B",), ("A",)), marks={"A": A, "B": B, "C": C})
    assert count(BALLOT, review).tiers == (("c",), ("b",), ("a",))


def test_a_liar_that_is_ranked_first_does_not_win_by_marks():
    lie = {**dict.fromkeys(GENERAL.weights, 10), "accuracy": 3}
    review = Review("x", (("A",), ("B",), ("C",)), marks={"A": lie, "B": C, "C": C})
    assert count(BALLOT, review, GENERAL).tiers[-1] == ("a",)


def test_a_gated_answer_is_capped_and_last():
    review = Review("x", (("A",), ("B",)), marks={"A": A, "B": C})
    reading = count(BALLOT, review, ORIGINAL, frozenset("a"), Fraction(2))
    assert reading.overall["a"] == 2
    assert reading.tiers == (("b",), ("a",))
    high = count(BALLOT, review, ORIGINAL, frozenset("a"), Fraction(9))
    assert high.tiers == (("b",), ("a",))


@given(st.fixed_dictionaries({name: st.integers(1, 10) for name in GENERAL.weights}))
def test_an_overall_score_lies_between_the_marks_and_under_the_ceiling(marks):
    score = overall(marks, GENERAL)
    assert score <= max(marks.values())
    assert score >= min(*marks.values(), 4)
    assert score <= 4 or marks["accuracy"] >= 5
    assert score <= 7 or marks["accuracy"] >= 7
