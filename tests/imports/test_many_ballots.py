"""A session of very many ballots: work and memory grow with their number, and progress is told."""

import random
import sys
import tracemalloc

import pytest

import peerage
from peerage.ballot_files import STEP, session_of, sessions_of
from peerage.council import counting
from peerage.council.counting import count, has_vote, place
from peerage.scoring import score_session
from peerage.types import Counted, ScoringOptions

NAMES = ("a", "b", "c", "d")


def ballots(n):
    rng = random.Random(n)
    return [rng.sample(NAMES, len(NAMES)) for _ in range(n)]


def n_calls(function):
    """How many Python functions are called."""
    called = 0

    def watch(_frame, event, _argument):
        nonlocal called
        called += event == "call"

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


def comparisons(n):
    return [{"model_a": "a", "model_b": "b", "winner": "model_a"} for _ in range(n)]


@pytest.mark.parametrize("make", [ballots, comparisons])
def test_the_work_grows_with_the_number_of_ballots(make):
    few, many = make(3_000), make(6_000)
    peerage.score(few[:10])
    once, twice = (n_calls(lambda some=some: peerage.score(some)) for some in (few, many))
    assert twice < 2.2 * once


def test_the_memory_of_a_ballot_does_not_grow_with_the_number_of_draws():
    sessions = session_of(ballots(4_000))
    tracemalloc.start()
    try:
        score_session(sessions, ScoringOptions(audit=False))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / 4_000 < 8 * counting.INTERVAL_DRAWS  # bytes; one float a draw is more


def test_intervals_without_draws_are_as_wide_as_those_with(monkeypatch):
    some = ballots(1_500)
    drawn = peerage.score(some).scores
    monkeypatch.setattr(counting, "MAX_RESAMPLED", 1_000)
    for one, other in zip(drawn, peerage.score(some).scores, strict=True):
        assert (one.model, one.share) == (other.model, other.share)
        assert other.low == pytest.approx(one.low, abs=0.003)
        assert other.high == pytest.approx(one.high, abs=0.003)


@pytest.mark.parametrize("own_votes", ["out", "in", "place_kept"])
@pytest.mark.parametrize(
    "counted",
    [
        Counted("r", ("a", "b"), (("a",), ("b",))),
        Counted("a", ("a", "b"), (("a",), ("b",))),
        Counted("a", ("a", "b", "c"), (("a",),)),
        Counted("a", ("a", "b", "c"), (("a",), ("b",))),
        Counted("r", ("a",), (("a",),)),
        Counted("r", ("a", "b"), ((None,),)),
        Counted("r", ("a", "b"), (), abstained=True),
        Counted("r", ("a", "b"), ()),
    ],
)
def test_a_ballot_has_a_vote_where_it_has_a_placing(counted, own_votes):
    assert has_vote(counted, own_votes, 3) is (place(counted, own_votes, 3) is not None)


@pytest.mark.parametrize("make", [ballots, comparisons])
def test_progress_is_told_while_many_ballots_are_read(make):
    said = []
    sessions_of(make(2 * STEP + 1), step=lambda *words: said.append(words))
    assert [(done, total) for _, done, total in said] == [
        (STEP, 2 * STEP + 1),
        (2 * STEP, 2 * STEP + 1),
    ]


def test_ballots_that_say_the_same_are_read_alike():
    """A reading is kept for the next ballot of the same words, never its reviewer or round."""
    entry = {"parsed_ranking": {"ranking": ["b", "a"], "scores": {"a": 3, "b": 8}}}
    document = {
        "label_to_model": {"Response A": "a", "Response B": "b"},
        "rankings": [
            {"model": "r", **entry},
            {"model": "s", "round": 1, **entry},
            {"model": "t", "label_to_model": {"Response A": "b", "Response B": "a"}, **entry},
        ],
    }
    session = session_of(document)
    assert [(r.reviewer, r.round) for r in session.reviews] == [("r", 0), ("s", 1), ("t", 0)]
    pairs = zip(session.ballots, session.reviews, strict=True)
    assert {count(ballot, review).tiers for ballot, review in pairs} == {(("b",), ("a",))}


@pytest.mark.parametrize("name", ["query", "question", "prompt"])
def test_a_question_may_have_another_name(name):
    document = {name: "Why?", "rankings": [["a", "b"]]}
    assert session_of(document).query.text == "Why?"
