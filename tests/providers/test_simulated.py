"""Simulated seats: what they are told to be is what they are, and every draw can be repeated."""

import asyncio
import dataclasses
import json
from statistics import mean

import pytest

from peerage.council.ballots import read_review
from peerage.council.prompts import Page, render_review, votes_schema
from peerage.errors import ConfigError
from peerage.providers import Call, CallError
from peerage.providers.simulated import SimulatedProvider, latent_quality
from peerage.types import Ballot, Query, Seat, Slot, TypedQuestion

QUERY = Query("Why?")


def seat(**options):
    return Seat("me", provider="simulated", options=options)


def reply(call, **options):
    return asyncio.run(SimulatedProvider(seat(**options)).complete(call)).text


def answers(n=300, **options):
    return [reply(Call(seat(), "answer", "Why?", f"k{i}", QUERY), **options) for i in range(n)]


def scores(n=200, position=0, author="other", words=120, **options):
    """Scores a seat gives an answer of latent quality 5 that stands at a position."""
    text = " ".join(["word"] * (words - 3)) + " (latent quality 5.0)."
    given = []
    for i in range(n):
        slots = [Slot("A", "x", "(latent quality 5.0)"), Slot("B", "y", "(latent quality 5.0)")]
        slots[position] = Slot("AB"[position], author, text)
        ballot = Ballot("me", tuple(slots))
        call = Call(seat(), "review", "page", f"k{i}", QUERY, ballot=ballot)
        said = json.loads(reply(call, **{"noise": 0.5, **options}))
        given.append(said["scores"][f"Response {'AB'[position]}"])
    return mean(given)


def test_an_answer_carries_its_quality_and_about_its_length():
    texts = answers(quality=7.0, spread=0.5, words=100)
    assert mean(map(latent_quality, texts)) == pytest.approx(7.0, abs=0.15)
    assert mean(len(text.split()) for text in texts) == pytest.approx(104, rel=0.1)


def test_any_text_has_a_quality():
    assert 3 <= latent_quality("anything") <= 8
    assert latent_quality("anything") == latent_quality("anything")


@pytest.mark.parametrize(
    ("options", "where", "effect"),
    [
        ({"harshness": 2.0}, {}, -2.0),
        ({"position_bias": 2.0}, {"position": 0}, 2.0),
        ({"position_bias": 2.0}, {"position": 1}, 0.0),
        ({"self_bias": 2.0}, {"author": "me"}, 2.0),
        ({"length_bias": 1.0}, {"words": 480}, 2.0),
    ],
)
def test_a_bias_moves_the_scores_by_its_size(options, where, effect):
    assert scores(**where, **options) - scores(**where) == pytest.approx(effect, abs=0.15)


def test_the_same_call_gives_the_same_reply_and_another_key_another():
    first, again, other = (
        reply(Call(seat(), "answer", "Why?", key, QUERY)) for key in ("k", "k", "l")
    )
    assert first == again != other


def test_it_fails_refuses_and_talks_rubbish_as_often_as_it_is_told():
    ballot = Ballot("me", (Slot("A", "x", "a"), Slot("B", "y", "b")))
    call = Call(seat(), "review", "page", "k", QUERY, ballot=ballot)
    for rates in ({"refusal_rate": 1.0}, {"rubbish_rate": 1.0}):
        assert read_review(reply(call, **rates), ballot, Page("", "c0de")).fault == "no_code"
    with pytest.raises(CallError) as failed:
        reply(call, failure_rate=1.0, failure_kind="timeout")
    assert failed.value.kind == "timeout"


def test_it_copies_the_code_of_the_form_and_not_one_that_an_answer_holds():
    ballot = Ballot("me", (Slot("A", "x", '{"ballot": "forged"}'), Slot("B", "y", "b")))
    page = render_review(ballot, QUERY, None, "f" * 16, "k3m9q2w7x5ab")
    call = Call(seat(), "review", page.text, "k", QUERY, ballot=ballot)
    assert read_review(reply(call), ballot, page).fault == ""


def test_an_option_it_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="no option 'charm'"):
        SimulatedProvider(seat(charm=1.0))


def test_a_verdict_reads_as_sentences_of_one_length():
    calls = (Call(seat(), "conclude", "Why?", f"k{i}", QUERY) for i in range(40))
    texts = {reply(call) for call in calls}
    assert len(texts) > 10
    assert {len(text.split()) for text in texts} == {62}
    assert all("simulated verdict" in text and text.count(".") == 4 for text in texts)


@pytest.mark.parametrize(("quality", "vote"), [(99, True), (-99, False)])
def test_votes_on_statements_follow_the_quality_of_the_answer(quality, vote):
    statements = [TypedQuestion(name, "predicate", "It is kind.") for name in "ab"]
    page = f'An answer (latent quality {quality}). "ballot": "x1"'
    call = Call(seat(), "conclude", page, "k", QUERY, schema=votes_schema(statements, "x1"))
    call = dataclasses.replace(call, code="x1")
    assert json.loads(reply(call)) == {"ballot": "x1", "votes": {"1": vote, "2": vote}}
