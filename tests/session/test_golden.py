"""Logs of every kind of event, as an earlier version wrote them, fold to the same sessions."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.config import load
from peerage.errors import UnreadableError
from peerage.events import KIND_BY_TYPE, STORED_KINDS, read_event
from peerage.reports.session_options import ReplayOptions
from peerage.reports.sessions import replay_session
from peerage.reports.stored_reviews import review_rows
from peerage.shapes import to_json
from peerage.types import Event, ScoringOptions
from peerage.view import SessionView, fold

LOGS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "sessions.jsonl").read_text().splitlines()
]


EVENTS = [Event(**event) for log in LOGS for event in log["events"]]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["name"])
def test_a_stored_log_folds_to_the_session_it_was(log):
    session = fold(Event(**event) for event in log["events"])
    folded = json.loads(json.dumps(asdict(session)))
    assert without_later_fields(folded, log["session"]) == log["session"]


def without_later_fields(value, golden):
    """A value without members that the golden one has not; those must say nothing."""
    if isinstance(value, dict) and isinstance(golden, dict):
        assert not any(member for name, member in value.items() if name not in golden)
        return {n: without_later_fields(value[n], golden[n]) for n in value if n in golden}
    if isinstance(value, list) and isinstance(golden, list):
        assert not any(value[len(golden) :])
        return [without_later_fields(*pair) for pair in zip(value, golden, strict=False)]
    return value


def test_every_kind_is_in_the_golden_logs():
    assert {event.kind for event in EVENTS} == set(STORED_KINDS)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["name"])
def test_a_stored_body_is_read_and_written_as_it_was(log):
    """Also the order of its members; an imported one spells out more, and says the same."""
    for event in (Event(**event) for event in log["events"]):
        fact = read_event(event)
        written = to_json(fact)
        assert KIND_BY_TYPE[type(fact)] == event.kind
        assert read_event(replace(event, body=written)) == fact
        if log["name"] != "imported":
            assert json.dumps(written) == json.dumps(event.body)


paths = st.lists(st.integers(0, 40), max_size=4)
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats()
junk = leaves | st.lists(leaves, max_size=2) | st.dictionaries(st.text(max_size=3), leaves)


def spoilt(value, path, other):
    """The value with another at the end of a path into it."""
    if not path or not isinstance(value, dict | list) or not value:
        return other
    if isinstance(value, list):
        i = path[0] % len(value)
        return [spoilt(v, path[1:], other) if j == i else v for j, v in enumerate(value)]
    name = list(value)[path[0] % len(value)]
    return {key: spoilt(v, path[1:], other) if key == name else v for key, v in value.items()}


@settings(max_examples=3 * settings.default.max_examples)
@given(st.sampled_from(LOGS), st.integers(0, 100), paths, junk)
def test_a_log_of_any_other_shape_is_a_session_or_unreadable(log, i, path, other):
    """Never another error, also not when the session is scored again."""
    events = [Event(**event) for event in log["events"]]
    event = events[i % len(events)]
    body = spoilt(dict(event.body), path, other)
    if not isinstance(body, dict):
        body = {}
    events[i % len(events)] = replace(event, body=body)
    try:
        view = SessionView.of(events, scoring=ScoringOptions())
        list(review_rows(events, None))
    except UnreadableError:
        return
    assert view.result.session.id == view.id


def test_a_replay_of_a_log_without_codes_uses_the_readings_that_are_stored():
    log = next(log for log in LOGS if log["name"] == "replies without a code")
    scored = replay_session(
        SessionView.of(Event(**event) for event in log["events"]),
        load(environ={}),
        ReplayOptions(),
    )
    said = {review.reviewer: review.ranking for review in scored.session.reviews}
    stored = {r["reviewer"]: r["ranking"] for r in log["session"]["reviews"]}
    assert json.loads(json.dumps(said)) == stored
    assert sum(bool(ranking) for ranking in said.values()) == 3
