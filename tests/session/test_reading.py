"""Replies are made valid, read once, when they come in, and kept within bounds."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.council.ballots import read_review
from peerage.council.prompts import Page
from peerage.council.readings import bounded_reading
from peerage.events import deal_event
from peerage.providers import Reply
from peerage.session_config import SessionSpec
from peerage.shapes import to_json
from peerage.tasks import INLINE_CHARACTERS, read_aside
from peerage.text import valid_text, valid_values
from peerage.types import Ballot, Event, Failure, Query, Seat, Slot
from peerage.view import fold
from tests.shared.session_configs import make_config

BALLOT = Ballot("r", tuple(Slot(label, f"m{label}", "text") for label in "ABC"))
CODE = "k3m9q2w7x5ab"


def sealed(verdict):
    return json.dumps({"ballot": CODE, **verdict})


def parse(text, ballot):
    return read_review(text, ballot, Page("", CODE)).review


@given(st.text(st.characters()) | st.text(st.characters(categories=["Cs", "L"])))
def test_valid_text_can_be_written_and_is_changed_only_where_it_could_not(text):
    valid = valid_text(text)
    valid.encode("utf-8")
    assert len(valid) == len(text)
    assert all(a == b or (0xD800 <= ord(b) <= 0xDFFF) for a, b in zip(valid, text, strict=True))


texts = st.text(st.characters(categories=["Cs", "L"]), max_size=5)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_valid_values_can_be_written_as_json(value):
    json.dumps(valid_values(value), ensure_ascii=False).encode("utf-8")


marks = st.dictionaries(st.sampled_from(["accuracy", "clarity", "style"]), st.integers(1, 10))
verdicts = st.fixed_dictionaries(
    {},
    optional={
        "ranking": st.lists(st.sampled_from(["Response A", "B", "Response C", "Q"]), max_size=6),
        "evaluations": st.dictionaries(st.sampled_from(["Response A", "B"]), marks),
        "scores": st.dictionaries(st.sampled_from(["A", "B", "C"]), st.integers(0, 12)),
        "notes": st.dictionaries(st.sampled_from(["A", "B"]), st.text(max_size=20)),
    },
)


@given(verdicts.map(sealed) | st.text(max_size=60))
def test_a_review_read_from_the_log_is_the_review_that_was_read(text):
    text = valid_text(text)
    review = parse(text, BALLOT)
    body = {"reviewer": "r", "round": 0, "text": text}
    ballots = to_json(deal_event([BALLOT], 0))
    kept = json.loads(json.dumps({**body, "review": to_json(bounded_reading(review))}))
    events = [
        Event("s", 0, "dealt", 0.0, ballots),
        Event("s", 1, "reviewed", 0.0, kept),
    ]
    assert fold(events).reviews == (review,)


def test_a_review_of_a_log_without_readings_is_read_on_folding():
    body = {"reviewer": "r", "round": 0, "text": '{"ranking": ["B", "A", "C"]}'}
    events = [
        Event("s", 0, "dealt", 0.0, to_json(deal_event([BALLOT], 0))),
        Event("s", 1, "reviewed", 0.0, body),
    ]
    assert fold(events).reviews[0].ranking == (("B",), ("A",), ("C",))


def test_a_stored_reading_stands_whatever_the_text_says():
    reading = {**to_json(bounded_reading(parse(sealed({"ranking": ["A"]}), BALLOT)))}
    reading["ranking"] = [["C"]]
    body = {"reviewer": "r", "round": 0, "text": '{"ranking": ["A"]}', "review": reading}
    events = [
        Event("s", 0, "dealt", 0.0, to_json(deal_event([BALLOT], 0))),
        Event("s", 1, "reviewed", 0.0, body),
    ]
    assert fold(events).reviews[0].ranking == (("C",),)


@pytest.mark.parametrize("n", [1_000, 20_000])
def test_what_a_reviewer_invents_takes_bounded_room_and_no_room_of_the_rubric(n):
    invented = {f"dimension{i}": 5 for i in range(n)}
    verdict = {
        "evaluations": {
            f"Response {label}": {**invented, "x" * 5_000: 4, "accuracy": 9} for label in "ABC"
        },
        "ranking": ["Response A"] * n + [f"Z{i}" * 500 for i in range(n // 10)],
        "notes": {"A": "so " * n},
    }
    review = parse(sealed(verdict), BALLOT)
    body = to_json(bounded_reading(review, ["accuracy"]))
    assert len(json.dumps(body)) < 300_000
    assert all(marks["accuracy"] == 9 for marks in body["marks"].values())
    if body["marks"] != review.marks:
        assert "too_many_dimensions" in body["flags"]


def test_a_long_text_is_read_beside_the_loop():
    """The loop turns while a long text is read, and a short one is read in its place."""

    async def turned_during(n_characters, within_s):
        turned = threading.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        return await read_aside(lambda: turned.wait(within_s), n_characters)

    assert not asyncio.run(turned_during(INLINE_CHARACTERS, 0))
    assert asyncio.run(turned_during(INLINE_CHARACTERS + 1, 60))


class Hostile:
    """A panel whose every word holds half a surrogate pair."""

    def can_constrain(self, _):
        return False

    def wants_brief(self, _):
        return False

    async def call(self, call, on_text=None, *_):  # noqa: ARG002
        if call.seat.name.startswith("c"):
            return Failure(call.seat.name, "server_error", "no \ud800", call.stage)
        if call.ballot is None:
            return Reply("words \udfff")
        marks = {"accuracy": 7, "\ud800": 3, 'a"b': 2}
        evaluations = {f"Response {slot.label}": marks for slot in call.ballot.slots}
        return Reply(json.dumps({"evaluations": evaluations}) + "\ud800")


def test_no_half_of_a_pair_gets_into_a_session_from_anywhere(held):
    seats = tuple(Seat(f"{name}\udc80", family="\ud800") for name in "abc")
    events = asyncio.run(
        held(
            make_config(seats),
            Hostile(),
            id="s\udcff",
            query=Query("q\ud800", "i\ud800", "c\ud800"),
            season="z\ud800",
        )
    )
    for event in events:
        json.dumps([event.session_id, event.body], ensure_ascii=False).encode("utf-8")
    session = fold(events)
    assert session.status == "done"
    assert {r.model for r in session.responses} == {"a\ufffd", "b\ufffd"}


def test_given_answers_are_made_valid_too():
    spec = SessionSpec("s", Query("q"), "7", 0, answers={"m\ud800": "t\udc00", "n": "u"})
    assert spec.answers == {"m\ufffd": "t\ufffd", "n": "u"}


def test_a_replys_text_is_read_once_however_often_the_session_is_folded(session_config, held):
    events = asyncio.run(held(session_config(rubric=config.rubric("general"))))
    reviewed = [event for event in events if event.kind == "reviewed"]
    assert reviewed
    unreadable = [
        replace(event, body={**event.body, "text": "unreadable now"})
        if event.kind == "reviewed"
        else event
        for event in events
    ]
    assert [r.ranking for r in fold(unreadable).reviews] == [
        r.ranking for r in fold(events).reviews
    ]
