"""One view of a session: of what is asked, each thing is worked out once."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

import peerage.scoring
import peerage.view
from peerage.config import load
from peerage.doors.cli.terminal import LiveScreen, Terminal
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.phrases import progress_line
from peerage.doors.render.session_views import ask_blocks, session_blocks
from peerage.panel import Council
from peerage.reports.sessions import session_document
from peerage.types import Event, Seat
from peerage.view import SessionView

LOGS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "sessions.jsonl").read_text().splitlines()
]


@pytest.fixture
def worked(monkeypatch):
    """How often each thing is worked out, by what it is."""
    n = Counter()

    def counting(module, name, what):
        function = getattr(module, name)

        def counted(*args, **kwargs):
            n[what(*args)] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    add = SessionView._add

    def counting_add(self, event, fact):
        n["folded", event.seq] += 1
        add(self, event, fact)

    monkeypatch.setattr(SessionView, "_add", counting_add)
    counting(peerage.scoring, "count", lambda ballot, *_: ("counted", ballot.reviewer))
    counting(peerage.view, "review_in", lambda fact, _: ("read", fact.reviewer))
    counting(peerage.view, "score_session", lambda *_: "scored")
    return n


def council(folder, **options):
    seats = [Seat(name, provider="simulated") for name in "abcd"]
    return Council(store=f"sqlite:///{folder}/p.db", seats=seats, seed=3, **options)


def test_of_a_question_each_event_is_folded_and_each_review_counted_and_the_session_scored_once(
    tmp_path, worked
):
    async def asked():
        async with council(tmp_path) as held, held.begun("Why?", live=True) as begun:
            screen = LiveScreen(Terminal(width=80, height=24), begun.view)
            async for _ in begun.events:
                screen.picture()
            return begun.view

    view = asyncio.run(asked())
    for draw in (session_document, lambda one: blocks_markdown(ask_blocks(one)), session_blocks):
        list(draw(view))
    assert view.status == "done"
    assert worked.pop("scored") == 1
    kinds = Counter(kind for kind, _ in worked)
    assert kinds == {"folded": view.last_seq + 1, "read": 4, "counted": 4}
    assert set(worked.values()) == {1}


def test_of_a_stored_session_the_same_holds(tmp_path, worked):
    with council(tmp_path) as held:
        events = held.store.events(held.ask_sync("Why?").id)
    worked.clear()
    view = SessionView.of(events, load(environ={}))
    session_document(view)
    blocks_markdown(session_blocks(view))
    assert worked.pop("scored") == 1
    assert set(worked.values()) == {1}
    assert Counter(kind for kind, _ in worked)["counted"] == 4


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["name"])
def test_a_view_that_is_ahead_says_the_same_of_an_event_as_one_that_is_not(log):
    events = [Event(**event) for event in log["events"]]
    ahead, lines = SessionView.of(events), []
    view = SessionView()
    for event in events:
        view.see(event)
        if event.kind != "answered":  # later seats are among those that answer
            lines.append((progress_line(view, event), progress_line(ahead, event)))
    assert all(one == other for one, other in lines)
    assert any(one for one, _ in lines)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["name"])
def test_a_view_says_after_each_event_what_one_made_anew_says(log):
    """What was computed before an event is forgotten where the event changes it."""
    events = [Event(**event) for event in log["events"]]
    settings = load(environ={})
    view = SessionView(settings)
    for i, event in enumerate(events, 1):
        view.see(event)
        assert session_document(view) == session_document(SessionView.of(events[:i], settings))


def test_the_same_session_can_be_scored_by_other_options_beside(tmp_path):
    with council(tmp_path) as held:
        events = held.store.events(held.ask_sync("Why?").id)
    view = SessionView.of(events, load(environ={}))
    before = view.result
    other = view.under(load(environ={}, flags={"council.rule": "elo"}).scoring_options())
    assert other.result.options.rule == "elo"
    assert view.result is before
    assert view.result.options.rule == "borda"
