"""Whoever watches a session sees who is asked again: in the terminal, on a page and in a chat."""

import asyncio
import io

import pytest
from peerage.doors.web.session_picture import SessionPicture

from peerage import config
from peerage.doors.cli.live import LiveView
from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.phrases import ProgressLines
from peerage.session import SessionConfig, SessionSpec, run
from peerage.types import Query, ScoringOptions, Seat
from tests.memory_log import MemoryLog
from tests.session.test_second_chance import PART, PROSE, VOTE, Panel

SEATS = tuple(Seat(name, provider="simulated") for name in "abcd")


@pytest.fixture(params=[PROSE, PART], ids=["prose", "a part of a vote"])
def watched(request):
    """The events of a session up to where b is asked again, and those behind it."""
    settings = SessionConfig(SEATS, ScoringOptions(), verdict="none")

    async def scene():
        clock = iter(range(10**9))
        session = run(
            SessionSpec("s", Query("Why?"), "7", 0),
            settings,
            Panel("b", request.param, VOTE),
            MemoryLog(),
            clock=lambda: float(next(clock)),
            live=True,
        )
        return [event async for event in session]

    events = asyncio.run(scene())
    at = next(i for i, e in enumerate(events) if e.kind == "asked" and e.body.get("again"))
    return events[: at + 1], events[at + 1 :]


def test_the_terminal_says_so(watched):
    before, _ = watched
    view = LiveView(Terminal(file=io.StringIO(), width=100, height=40), clock=lambda: 0.0)
    for event in before:
        view.see(event)
    with view.console.capture() as shown:
        view.console.print(view.picture())
    assert any("b" in line and "asked again" in line for line in shown.get().splitlines())


def test_the_page_says_so_until_the_second_reply_comes(watched):
    before, after = watched
    picture = SessionPicture.of(before, config.load(environ={}))

    def state():
        return next((row.state, row.note) for row in picture.rows(0) if row.reviewer.name == "b")

    assert state() == ("reading", "asked again …")
    stored = SessionPicture.of([e for e in before if e.seq >= 0], picture.settings)
    assert [row.note for row in stored.rows(0) if row.reviewer.name == "b"] == ["asked again …"]
    for event in after:
        picture.see(event)
    assert state() == ("done", "")


def test_the_progress_of_a_chat_says_so(watched):
    before, _ = watched
    lines = ProgressLines()
    said = [line for event in before if (line := lines.line(event))]
    assert sum(line.startswith("b is asked again") for line in said) == 1
