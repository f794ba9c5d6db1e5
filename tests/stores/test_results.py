"""Who won a session and what it cost are in the list of sessions, also in that of an old store."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from peerage.config import load
from peerage.errors import UnreadableError
from peerage.reports import Reports
from peerage.reports.session_options import SessionsOptions
from peerage.stores import open_store
from peerage.types import Event
from peerage.view import SessionView
from tests.shared.crashes import downgrade

LINES = (Path(__file__).parents[1] / "golden" / "sessions.jsonl").read_text().splitlines()
LOGS = {log["name"]: log["events"] for log in map(json.loads, LINES)}
PRICED = {"tokens_in": 3, "tokens_out": 2, "cost_usd": 0.1}
UNPRICED = {"tokens_in": 3, "tokens_out": 2, "cost_usd": None}


def events_of(name, usage=None):
    """A golden log under its own id; with a usage, as if every answer had taken that."""
    events = []
    for event in LOGS[name]:
        taken = {"usage": usage} if usage and event["kind"] == "answered" else {}
        events.append(Event(**{**event, "session_id": name, "body": event["body"] | taken}))
    return events


@pytest.fixture
def logs():
    made = {name: events_of(name) for name in LOGS}
    made["synthesis"] = events_of("synthesis", PRICED)
    made["no quorum"] = events_of("no quorum", UNPRICED)
    made["grown"] = events_of("grown", PRICED)[:-3]  # as far as it has come
    return made


def results(store):
    return {
        one.id: (one.status, one.winner, one.cost_usd, one.unpriced_calls)
        for one in store.sessions(deleted=None)
    }


def expected(logs):
    made = {}
    for name, events in logs.items():
        session = SessionView.of(events).session
        best = [one.model for one in session.scores if one.rank == 1 and one.votes]
        bill = session.cost_usd, session.unpriced_calls
        made[name] = (session.status, ", ".join(best), *bill)
    return made


def test_the_list_has_the_winner_and_the_cost_that_the_log_adds_up_to(store_url, logs):
    store = open_store(store_url)
    for events in logs.values():
        store.append_all(events)
    assert results(store) == expected(logs)
    assert results(store)["synthesis"][:3] == ("done", "b", pytest.approx(0.3))
    assert results(store)["no quorum"][3] == 1
    assert results(store)["grown"][0] == ""


def test_a_store_of_the_version_before_is_filled_in_when_it_is_opened(store_url, logs):
    store = open_store(store_url)
    for events in logs.values():
        store.append_all(events)
    asyncio.run(store.close())
    downgrade(store_url)
    assert results(open_store(store_url)) == expected(logs)


def test_an_old_event_that_is_unreadable_is_passed_over(tmp_path, logs):
    url = f"sqlite:///{tmp_path}/p.db"
    store = open_store(url)
    store.append_all(logs["synthesis"])
    asyncio.run(store.close())
    with sqlite3.connect(tmp_path / "p.db") as db:
        for body in ("{}", "no JSON"):
            kind = "answered" if body == "{}" else "reviewed"
            db.execute("UPDATE events SET body = ? WHERE kind = ?", (body, kind))
    db.close()
    downgrade(url)
    store = open_store(url)
    assert results(store)["synthesis"][1] == "b"
    with pytest.raises(UnreadableError):
        SessionView.of(store.events("synthesis"))


def test_a_list_of_sessions_reads_no_log(tmp_path, logs, monkeypatch):
    url = f"sqlite:///{tmp_path}/p.db"
    store = open_store(url)
    for events in logs.values():
        store.append_all(events)

    def refuse(*_):
        raise AssertionError("a log is read")

    monkeypatch.setattr("peerage.stores.Store.events", refuse)
    reports = Reports(load(environ={}, flags={"store": url}))
    listed = reports.sessions(SessionsOptions(limit=100)).sessions
    assert {one.id for one in listed} == logs.keys()
    assert {one.status for one in listed} >= {"done", "no_quorum", "unfinished"}
