"""The rule marks: what it corrects, what it refuses, and that its two computations agree."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import peerage
from peerage.errors import UsageError
from peerage.reviews.rows import Rows
from peerage.reviews.spread_marks import session_marks
from peerage.rules.marks import marks
from peerage.types import Placing

NAMES = ("a", "b", "c", "d", "j", "k", "l")
REVIEWERS, ANSWERS = (0, 4, 5, 6), (0, 1, 2, 3)  # a judges too, but never itself


def ballot(reviewer: str, **scores: float) -> Placing:
    exact = {name: Fraction(score) for name, score in scores.items()}
    return Placing(reviewer, len(scores), dict.fromkeys(scores, 0), None, exact)


def test_a_reviewer_that_exaggerates_counts_no_more_than_a_careful_one():
    """The mean marks of a and b are equal."""
    wide = ballot("j", a=4, b=10, c=1)
    careful = [ballot(name, a=9, b=6, c=3) for name in ("k", "l")]
    values = marks([wide, *careful], "abc")
    assert max(values, key=values.__getitem__) == "a"


def test_without_any_difference_all_answers_tie():
    assert marks([ballot("j", a=7, b=7), ballot("k", a=3, b=3)], "ab") == {"a": 0.0, "b": 0.0}


def test_a_harsh_reviewer_who_saw_only_the_best_answers_does_not_pull_them_down():
    """Values and levels of ballots are fitted together where a ballot lacks answers of others."""
    complete = [ballot(name, a=9, b=8, c=3, d=2) for name in ("j", "k")]
    values = marks([*complete, ballot("l", a=3, b=2)], "abcd")
    assert sorted(values, key=values.__getitem__) == ["d", "c", "b", "a"]


@given(data=st.data())
def test_the_values_of_rows_are_those_of_ballots(data):
    """A board of one session is that session, whatever its ballots lack."""
    cells = [
        (reviewer, answer, data.draw(st.integers(1, 10)))
        for reviewer in REVIEWERS
        for answer in ANSWERS
        if reviewer != answer and data.draw(st.integers(0, 9)) > 0
    ]
    assume(cells)
    reviewer, answer, mark = (np.array(column) for column in zip(*cells, strict=True))
    rows = Rows(
        NAMES,
        1,
        np.zeros(1, dtype=np.int64),
        np.zeros(len(cells), dtype=np.int64),
        reviewer,
        answer,
        {"score": mark.astype(np.float64)},
    )
    found = session_marks(rows, np.ones(len(cells), dtype=bool))
    placings = [
        ballot(NAMES[one], **{NAMES[a]: m for r, a, m in cells if r == one})
        for one in sorted({r for r, _, _ in cells})
    ]
    wanted = marks(placings, NAMES)
    by_name = dict(zip(found.candidate.tolist(), found.value.tolist(), strict=True))
    assert {NAMES[code]: value for code, value in by_name.items()} == pytest.approx(wanted)


SESSION = {
    "responses": [{"model": name, "response": "text"} for name in "abc"],
    "label_to_model": {f"Response {label}": name for label, name in zip("ABC", "abc", strict=True)},
    "rankings": [
        {
            "model": "j",
            "parsed_ranking": {
                "ranking": ["Response A", "Response B", "Response C"],
                "scores": {"Response A": 9, "Response B": 7, "Response C": 2},
            },
        },
        {"model": "k", "parsed_ranking": {"ranking": ["Response B", "Response A", "Response C"]}},
    ],
}


def test_ballots_without_marks_are_refused_by_the_names_of_their_reviewers():
    with pytest.raises(UsageError, match=r"these reviewers have none: k\."):
        peerage.score(SESSION, rule="marks")
    rows = [
        {
            "session_id": s,
            "reviewer": r,
            "candidate": c,
            "rank": i,
            "score": 9 - i if r == "j" else None,
        }
        for s in ("s", "t")
        for r in ("j", "k")
        for i, c in enumerate("abc", 1)
        for score in [9 - i if r == "j" else None]
    ]
    with pytest.raises(UsageError, match=r"these reviewers have none: k\."):
        peerage.board_models(rows, since="all", rule="marks")


def test_a_ballot_without_marks_in_a_session_is_left_out_and_flagged():
    session = peerage.score(SESSION).session
    from peerage.scoring import score_session

    scored = score_session(session, replace(peerage.score(SESSION).options, rule="marks"))
    assert "not_marked:k" in scored.session.flags
    assert [score.model for score in scored.scores] == ["a", "b", "c"]
    assert json.dumps(scored.document()["scores"])


def test_a_board_standardises_by_the_spread_of_all_sessions():
    """A reviewer that uses two points in most sessions is not trusted with nine in one."""
    rows = [
        {
            "session_id": f"s{s}",
            "reviewer": r,
            "candidate": c,
            "score": 5 + (c == "a") - (c == "b") * (r == "j"),
        }
        for s in range(20)
        for r in "jkl"
        for c, score in (("a", 6), ("b", 4 if r == "j" else 5), ("c", 5))
    ]
    board = peerage.board_models(rows, since="all", rule="marks")
    assert [row["model"] for row in board.rows] == ["a", "c", "b"]
    assert all(row["value_low"] <= row["value"] <= row["value_high"] for row in board.rows)
