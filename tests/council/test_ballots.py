"""Sealed verdicts: labels, rankings and marks in every shape, and a flag for what is odd."""

import json
import math
from typing import Any

import pytest

from peerage.council.ballots import read_review, review_of
from peerage.council.counting import count
from peerage.types import Ballot, Review, Slot
from tests.council.replies import PAGE, sealed


def ballot_of(*labels: str, reviewer: str = "judge", round: int = 0) -> Ballot:
    return Ballot(reviewer, tuple(Slot(label, f"model-{label}") for label in labels), round)


BALLOT = ballot_of("A", "B", "C", "D")


def read(verdict: str, ballot: Ballot = BALLOT) -> Review:
    return read_review(sealed(verdict), ballot, PAGE).review


def order(review: Review) -> str:
    """A ranking in short: "A>BC"."""
    return ">".join("".join(tier) for tier in review.ranking)


# -- rankings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        (["A", ["B", "C"], "D"], "A>BC>D"),
        ([["A"], ["B"]], "A>B"),
        (["A", "B = C"], "A>BC"),
        ("A > B > C", "A>B>C"),
        ("Response A > Response B = Response C", "A>BC"),
        ("A>B=C>D", "A>BC>D"),
        ("A, B, C", "A>B>C"),
        (["Response A (the clearest)", "B - wrong", "Response C: long"], "A>B>C"),
        (["A", "A", "Z"], "A>A>z".replace("z", "Z")),
    ],
)
def test_a_ranking_is_read_in_every_shape(ranking: Any, expected: str):
    data = {"ranking": ranking}
    assert order(review_of(data, BALLOT)) == order(read(json.dumps(data))) == expected


def test_unknown_and_repeated_labels_stay_and_are_flagged():
    review = read('{"ranking": ["Z", "A", "Response A", "B", "Y"]}')
    assert order(review) == "Z>A>A>B>Y"
    assert review.flags == ("unknown_label:Z", "repeated_label:A", "unknown_label:Y")
    assert count(BALLOT, review).tiers == (("model-A",), ("model-B",))


@pytest.mark.parametrize(
    ("ranking", "flag"),
    [
        (["A", None], "rank_dropped:null"),
        (["A", True], "rank_dropped:true"),
        (["A"] + ["B"] * 5000, "rank_dropped:2193 items"),
    ],
)
def test_what_is_no_rank_is_dropped_and_flagged(ranking: Any, flag: str):
    review = review_of({"ranking": ranking}, BALLOT)
    assert review.ranking[0] == ("A",)
    assert flag in review.flags


def test_a_rank_beside_the_marks_is_neither_a_mark_nor_a_ranking():
    review = read(
        '{"evaluations": {"A": {"accuracy": 5, "rank": 2}, "B": {"accuracy": 5, "rank": 1}}}'
    )
    assert review.ranking == ()
    assert review.marks == {"A": {"accuracy": 5}, "B": {"accuracy": 5}}


# -- marks and scores --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "value"),
    [
        (9, 9),
        (1, 1),
        (10, 10),
        (8.5, 8.5),
        ("9", 9),
        ("9/10", 9),
        ("9.5 / 10", 9.5),
        ("7 out of 10", 7),
    ],
)
def test_a_mark_may_be_a_number_or_text(mark: Any, value: float):
    review = review_of({"evaluations": {"A": {"accuracy": mark}}}, BALLOT)
    assert review.marks == {"A": {"accuracy": value}}
    assert not review.flags
    assert review_of({"scores": {"A": mark}}, BALLOT).scores == {"A": value}


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ("11", "11"),
        ("0", "0"),
        ("-3", "-3"),
        ("10.01", "10.01"),
        ("true", "true"),
        ("false", "false"),
        ("null", "null"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e999999", "Infinity"),
        ('"great"', "great"),
        ('"9/5"', "9/5"),
        ('"9/100"', "9/100"),
        ('"11"', "11"),
        ('""', ""),
        ("[9]", "a list"),
        ("{}", "null"),
        ("1" + "0" * 200, "a huge number"),
    ],
)
def test_a_mark_outside_the_scale_is_dropped_and_flagged(mark: str, shown: str):
    marks = f'{{"accuracy": {mark}, "clarity": 7}}'
    review = read(f'{{"ranking": ["A"], "evaluations": {{"A": {marks}}}}}')
    assert review.marks == {"A": {"clarity": 7}}
    assert review.flags == (f"mark_dropped:A.accuracy={shown}",)
    if mark != "{}":
        scored = read(f'{{"ranking": ["A"], "scores": {{"A": {mark}}}}}')
        assert scored.scores == {}
        assert scored.flags == (f"score_dropped:A={shown}",)


def test_a_reviewers_own_overall_is_only_claimed():
    review = review_of(
        {
            "evaluations": {
                "A": {"accuracy": 9, "overall": 2},
                "B": {"accuracy": 5, "total": "42"},
                "C": {"accuracy": 5, "score": 37.5},
            }
        },
        BALLOT,
    )
    assert review.claimed == {"A": 2, "B": 42, "C": 37.5}
    assert review.scores == {}
    assert not review.flags


def test_an_evaluation_without_dimensions_is_a_holistic_score():
    review = review_of({"evaluations": {"A": 8, "B": {"score": 7, "reason": "Fine."}}}, BALLOT)
    assert review.scores == {"A": 8, "B": 7}
    assert review.notes == {"B": "Fine."}
    assert review.marks == {}


@pytest.mark.parametrize(
    "evaluations",
    [
        {"A": {"accuracy": 9, "clarity": 7, "notes": "Fine."}},
        {"A": {"Accuracy": 9, "CLARITY": 7, "Comment": "Fine."}},
        {"A": {"accuracy": {"score": 9}, "clarity": {"mark": "7/10"}, "notes": ["Fine."]}},
        [{"label": "Response A", "accuracy": 9, "clarity": 7, "reasoning": "Fine."}],
    ],
)
@pytest.mark.parametrize("key", ["evaluations", "scores"])
def test_evaluations_are_read_in_every_shape(key: str, evaluations: Any):
    review = review_of({key: evaluations}, BALLOT)
    assert review.marks == {"A": {"accuracy": 9, "clarity": 7}}
    assert review.notes == {"A": "Fine."}
    assert not review.flags


def test_a_reason_beside_a_mark_becomes_a_note_about_it():
    review = review_of(
        {"evaluations": {"A": {"depth of view": {"score": 9, "reason": "ok"}}}}, BALLOT
    )
    assert review.marks == {"A": {"depth_of_view": 9}}
    assert review.notes == {"A": "depth_of_view: ok"}


def test_a_number_under_a_word_for_remarks_is_a_mark_of_that_dimension():
    review = review_of({"evaluations": {"A": {"reasoning": 7, "analysis": "8/10"}}}, BALLOT)
    assert review.marks == {"A": {"reasoning": 7, "analysis": 8}}


def test_labels_the_ballot_does_not_have_are_dropped_from_marks_scores_and_notes():
    review = review_of(
        {
            "ranking": ["A"],
            "evaluations": {"Z": {"accuracy": 9, "overall": 9}, "A": {"accuracy": 8}},
            "scores": {"Y": 3},
            "notes": {"X": "who?"},
        },
        BALLOT,
    )
    assert set(review.marks) == {"A"}
    assert (review.scores, review.notes, review.claimed) == ({}, {}, {})
    assert review.flags == ("unknown_label:Z", "unknown_label:Y", "unknown_label:X")


def test_the_first_of_two_evaluations_of_one_answer_stands():
    review = review_of({"scores": {"A": 9, "Response A": 1}}, BALLOT)
    assert review.scores == {"A": 9}
    assert review.flags == ("repeated_label:A",)


@pytest.mark.parametrize(
    "ranking",
    [
        {"A": 3, "B": 9, "C": 7},
        {"A": 2, "B": 1},
        [["A", 3], ["C", 2], ["B", 1]],
        [{"label": "A", "score": 2}, {"label": "B", "score": 9}],
        [{"label": "A", "rank": 2}, {"label": "B", "rank": 1}],
        [{"label": "A"}, "B"],
    ],
)
def test_a_ranking_that_could_be_read_in_two_ways_is_not_read(ranking: Any):
    review = read(json.dumps({"ranking": ranking, "scores": {"A": 5}}))
    assert review.ranking == ()
    assert review.scores == {"A": 5}
    assert any(flag.startswith("ranking_unclear:") for flag in review.flags)


def test_flags_are_capped():
    review = read(json.dumps({"ranking": ["A", *(f"label {i}" for i in range(200))]}))
    assert len(review.flags) == 50
    assert review.flags[-1] == "…and 151 more"


# -- data that is JSON already -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "empty"),
        ({}, "empty"),
        ([], "no_labels"),
        (7, "not_an_object"),
        (object(), "not_an_object"),
        ("I can't.", "no_labels"),
        ("I can't say whether A, B", "no_labels"),
        ({"abstained": True, "reason": "Tired."}, "Tired."),
        ({"ranking": ["X"]}, "no_labels"),
    ],
)
def test_data_without_a_vote_is_an_abstention(data: object, reason: str):
    review = review_of(data, BALLOT, raw="as it came")
    assert review.abstained == reason
    assert review.raw == "as it came"


@pytest.mark.parametrize("data", [["A", "B"], ("A", "B"), "A > B", "Response A, b"])
def test_a_list_or_a_line_is_taken_for_the_ranking(data: object):
    assert order(review_of(data, BALLOT)) == "A>B"


@pytest.mark.parametrize(
    "data",
    [
        {1: 2, None: 3, ("x",): 4, "ranking": ["A"]},
        {"ranking": ["A"], "scores": {1: 5, None: 6}},
        {"ranking": [["A", [["B"]]], 3, 10**5000]},
        {"scores": {"A": 10**5000, "B": 5}},
        {"evaluations": {"A": {1: 2, None: object(), "accuracy": 5}}},
        {"evaluations": {"A": {"accuracy": 5, "overall": math.nan}}},
        {"scores": {"A": 5}, "notes": ["x", None]},
        {"scores": {"A": 5}, "notes": {"A": {"x": "y"}, "B": 7}},
    ],
)
def test_odd_data_is_read_as_far_as_it_goes(data: Any):
    assert not review_of(data, BALLOT).abstained
