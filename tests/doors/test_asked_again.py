"""Whoever watches a session sees who is asked again: in the terminal, on a page and in a chat."""

import asyncio
import io

import pytest

from peerage import config
from peerage.doors.cli.terminal import LiveScreen, Terminal
from peerage.doors.render.phrases import progress_line
from peerage.doors.web.session_parts import row_state
from peerage.session import run
from peerage.session_config import SessionSpec
from peerage.types import Query, Seat
from peerage.view import SessionView
from tests.memory_log import MemoryLog
from tests.session.test_second_chance import PART, PROSE, VOTE, Panel
from tests.shared.session_configs import make_config

SEATS = tuple(Seat(name, provider="simulated") for name in "abcd")


@pytest.fixture(params=[PROSE, PART], ids=["prose", "a part of a vote"])
def watched(request):
    """The events of a session up to where b is asked again, and those behind it."""
    settings = make_config(SEATS, verdict="none")

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


def seen(events):
    view = SessionView(config.load(environ={}))
    for event in events:
        view.see(event)
    return view


def state_of_b(view):
    review = next((one for one in view.reviews if one.reviewer == "b"), None)
    return row_state(view, "b", 0, review)


def test_the_terminal_says_so(watched):
    before, _ = watched
    console = Terminal(file=io.StringIO(), width=100, height=40)
    screen = LiveScreen(console, seen(before), lambda: 0.0)
    with console.capture() as shown:
        console.print(screen.picture())
    assert any("b" in line and "asked again" in line for line in shown.get().splitlines())


def test_the_page_says_so_until_the_second_reply_comes(watched):
    before, after = watched
    assert state_of_b(seen(before)) == ("reading", "asked again …")
    stored = [event for event in before if event.seq >= 0]  # of whoever comes now
    assert state_of_b(seen(stored)) == ("reading", "asked again …")
    assert state_of_b(seen([*before, *after])) == ("done", "")


def test_the_progress_of_a_chat_says_so(watched):
    before, _ = watched
    view, said = seen([]), []
    for event in before:
        view.see(event)
        said += [line] if (line := progress_line(view, event)) else []
    assert sum(line.startswith("b is asked again") for line in said) == 1
