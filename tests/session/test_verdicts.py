"""How a session concludes where the panel is split, silent or tied."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.doors.cli.session_commands import exit_code
from peerage.providers import Reply
from peerage.scoring import Scored, score_session
from peerage.types import (
    Ballot,
    Failure,
    NoDecision,
    Query,
    Response,
    Review,
    Score,
    ScoringOptions,
    Seat,
    Session,
    Slot,
)
from peerage.verdicts import VerdictContext, conclude, is_settled


def score(model, rank=1, mean=7.0, wins=1):
    return Score(model, 0.5, rank, 3, wins, "high", 0.5, 1.0, mean_score=mean)


def concluded(kind, replies, scores, chairs, panel=()):
    """The verdict where each seat replies as told (None: it fails), and whom was asked."""
    answers = tuple(Response(one.model, f"{one.model} says so.") for one in scores)
    names = tuple(one.model for one in scores)
    session = Session("s", Query("Why?"), "7", 0, names, answers, scores=tuple(scores))
    asked = []

    async def ask(seat, page):
        asked.append(seat.name)
        reply = replies.get(seat.name)
        if reply is None:
            return Failure(seat.name, "timeout", "no reply")
        return reply if isinstance(reply, Reply) else Reply(reply)

    async def vote(seat, page, schema, read):
        reply = await ask(seat, page)
        code = schema["properties"]["ballot"]["enum"][0]
        return (
            read(reply.text.replace("{", f'{{"ballot": "{code}", ', 1))
            if isinstance(reply, Reply)
            else reply
        )

    scored = Scored(session, (), ScoringOptions(), None)
    seats = tuple(map(Seat, chairs)), tuple(map(Seat, panel))
    return asyncio.run(conclude(VerdictContext(scored, kind, *seats, ask, vote, "s"))), asked


def choice(label):
    return json.dumps({"reason": "it is right", "ranking": [f"Response {label}"]})


def vote(approved):
    return json.dumps({"reasons": ["so it is"], "approved": approved, "confidence": None})


SCORES = [score("a"), score("b", rank=2)]


# -- ties --------------------------------------------------------------------------------------


def test_a_chair_among_the_tied_does_not_break_the_tie_and_the_next_one_does():
    replies = {name: choice("A") for name in "abc"}
    verdict, asked = concluded("tie_breaker", replies, [score("a"), score("b")], chairs="abc")
    assert asked == ["c"]
    assert (verdict.kind, verdict.by) == ("tie_breaker", "c")


def test_where_all_chairs_are_tied_the_higher_mean_mark_decides():
    scores = [score("a", mean=7.0), score("b", mean=8.0)]
    verdict, asked = concluded("tie_breaker", {}, scores, chairs="ab")
    assert asked == []
    assert verdict.text == "b says so."
    assert "all are among the tied" in verdict.note


@pytest.mark.parametrize("reply", [None, "nobody"])
def test_where_no_outside_chair_chooses_the_marks_decide_and_it_is_said(reply):
    scores = [score("a", mean=7.0), score("b", mean=8.0)]
    verdict, _ = concluded("tie_breaker", {"c": reply}, scores, chairs="ac")
    assert verdict.text == "b says so."
    assert "failed: c" in verdict.note


def test_a_tie_that_nothing_breaks_is_told_as_one():
    verdict, _ = concluded("tie_breaker", {}, [score("a"), score("b")], chairs="ab")
    assert verdict.kind == "top_answer"
    assert "tied with b" in verdict.note


# -- a chair's text ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["synthesis", "debate"])
def test_a_text_that_was_cut_off_says_so_beside_who_took_over(kind):
    replies = {"b": Reply("It is so, since", finish_reason="length")}
    verdict, _ = concluded(kind, replies, SCORES, chairs="b")
    assert "cut off" in verdict.note
    verdict, _ = concluded(kind, replies, SCORES, chairs="ab")
    took_over, _, cut_off = verdict.note.rpartition("; ")
    assert took_over.endswith("b took over")
    assert "cut off" in cut_off
    verdict, _ = concluded(kind, {"b": Reply("It is so.", finish_reason="stop")}, SCORES, "b")
    assert verdict.note == ""


# -- binary ------------------------------------------------------------------------------------


def test_who_votes_against_the_majority_dissents_in_its_own_words():
    replies = {"a": vote(True), "b": vote(False), "c": vote(True)}
    verdict, _ = concluded("binary", replies, SCORES, chairs="a", panel="abc")
    assert verdict.approved
    (against,) = verdict.dissent
    assert (against.reviewer, against.distance) == ("b", None)
    assert against.quote == "would reject: so it is"


def test_a_deadlock_is_undecided_since_the_chair_has_voted_already():
    replies = {"a": vote(True), "b": vote(False)}
    verdict, asked = concluded("binary", replies, SCORES, chairs="ab", panel="ab")
    assert asked == ["a", "b"]
    assert (verdict.approved, verdict.confidence) == (None, 0.5)
    assert "undecided" in verdict.note
    assert verdict.text == "a: so it is\nb: so it is"


@pytest.mark.parametrize("approved", [True, False])
def test_a_chair_outside_the_panel_has_one_vote_in_a_deadlock(approved):
    replies = {"a": vote(True), "b": vote(False), "c": vote(approved)}
    verdict, _ = concluded("binary", replies, SCORES, chairs="ac", panel="ab")
    assert (verdict.approved, verdict.by) == (approved, "c")
    assert verdict.note.endswith("with the vote of c, who chairs")


def test_a_chair_whose_vote_could_not_decide_is_not_asked():
    replies = {"a": vote(True), "b": vote(False), "x": vote(True)}
    verdict, asked = concluded("binary", replies, SCORES, chairs="x", panel="abc")
    assert verdict.approved is None
    assert "x" not in asked


@pytest.mark.parametrize("reply", [None, "Well, it depends."])
def test_nobody_who_could_be_read_is_no_rejection(reply):
    verdict, _ = concluded("binary", {"a": reply, "b": reply}, SCORES, chairs="a", panel="ab")
    assert (verdict.approved, verdict.confidence) == (None, None)
    assert "0 approve and 0 reject, of 2" in verdict.note
    assert [one.seat for one in verdict.failed] == ["a", "b"]


@pytest.mark.parametrize("approved", [True, False])
def test_one_vote_and_four_time_outs_decide_nothing_and_the_silent_are_named(approved):
    verdict, _ = concluded("binary", {"c": vote(approved)}, SCORES, chairs="a", panel="abcde")
    assert (verdict.approved, verdict.decision, verdict.confidence) == (None, "undecided", 0.2)
    assert "undecided" in verdict.note
    assert verdict.failed == tuple(NoDecision(name, "timeout") for name in "abde")
    assert all(f"{name} (timeout)" in verdict.note for name in "abde")


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7))
def test_a_side_wins_with_more_than_half_of_the_panel_and_never_with_less(votes):
    """Failed seats are on the panel: what they might have said could not turn the verdict."""
    panel = "abcdefg"[: len(votes)]
    cast = zip(panel, votes, strict=True)
    replies = {name: vote(one) for name, one in cast if one is not None}
    verdict, _ = concluded("binary", replies, SCORES, chairs="a", panel=panel)
    half = len(votes) / 2
    expected = True if votes.count(True) > half else False if votes.count(False) > half else None
    assert verdict.approved is expected
    assert len(verdict.failed) == votes.count(None)


@pytest.mark.parametrize(("approved", "code"), [(True, 0), (False, 1), (None, 3)])
def test_the_exit_code_tells_a_rejection_from_no_decision(approved, code):
    verdict, _ = concluded("binary", {"a": vote(True)}, SCORES, chairs="a", panel="a")
    session = Session("s", Query("?"), verdict=replace(verdict, approved=approved), status="done")
    assert exit_code(session, "binary") == code


@pytest.mark.parametrize(("last", "stops"), [("y", False), ("x", True)])
def test_a_vote_of_an_earlier_round_does_not_stop_the_last_one_early(last, stops):
    """Whoever is still out may say otherwise now; two of three heard settle it, one does not."""
    slots = (Slot("A", "x"), Slot("B", "y"))
    first = {"x": (("A",), ("B",)), "y": (("B",), ("A",))}
    heard = {("r", 0): "x", ("s", 0): "x", ("t", 0): "x", ("r", 1): last, ("s", 1): "x"}
    session = Session(
        "s",
        Query("?"),
        candidates=("x", "y"),
        ballots=tuple(Ballot(name, slots, round_) for name, round_ in heard),
        reviews=tuple(
            Review(name, first[favourite], round=round_)
            for (name, round_), favourite in heard.items()
        ),
    )
    options = ScoringOptions(audit=False)
    assert is_settled(score_session(session, options), options, {"t"}) is stops
