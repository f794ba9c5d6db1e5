"""A person should look at a verdict unless the panel was unanimous."""

from __future__ import annotations

import pytest

from peerage.labels.unanimity import why_a_person
from peerage.types import Placing, Score, Verdict

CHOSEN = Verdict("synthesis", "text")


def score(model: str, rank: int) -> Score:
    return Score(model, 0.5, rank, 2, 1, "high", 0.5, 0.5)


def placing(reviewer: str, *order: str, is_tied: bool = False) -> Placing:
    doubled = {name: 2 * place for place, name in enumerate(order)}
    return Placing(reviewer, len(order), doubled, None if is_tied else order[0])


SCORES = (score("a", 1), score("b", 2))


def test_two_ballots_that_put_the_first_answer_alone_in_front_need_no_person() -> None:
    votes = [placing("x", "a", "b"), placing("y", "a", "b")]
    assert why_a_person(CHOSEN, SCORES, votes, ()) == ""


@pytest.mark.parametrize(
    ("votes", "silent", "words"),
    [
        ([placing("x", "a", "b"), placing("y", "b", "a")], (), "y did not put"),
        ([placing("x", "a", "b"), placing("y", "a", "b", is_tied=True)], (), "y did not put"),
        ([placing("x", "a", "b")], (), "only 1 ballot"),
        ([placing("x", "a", "b"), placing("y", "a", "b")], ("z",), "no vote of z"),
    ],
)
def test_dissent_ties_and_lost_votes_need_a_person(
    votes: list[Placing], silent: tuple[str, ...], words: str
) -> None:
    assert words in why_a_person(CHOSEN, SCORES, votes, silent)


def test_answers_that_share_the_first_place_need_a_person() -> None:
    tied = (score("a", 1), score("b", 1))
    assert "share" in why_a_person(CHOSEN, tied, [placing("x", "a", "b")] * 2, ())


def test_a_yes_or_no_is_unanimous_if_all_votes_are_alike() -> None:
    def reason(approved: bool | None, confidence: float | None) -> str:
        verdict = Verdict("binary", "", confidence=confidence, approved=approved)
        return why_a_person(verdict, (), (), ())

    assert reason(True, 1.0) == reason(False, 1.0) == ""
    assert reason(True, 2 / 3)
    assert "undecided" in reason(None, None)
