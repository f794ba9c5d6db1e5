"""Watching a session costs the same whatever is said: counted, not timed."""

import io

import pytest

from peerage.doors.cli.terminal import FRAMES_PER_SECOND, LiveScreen, Terminal
from peerage.doors.render.phrases import progress_line
from peerage.events import Advised, Opened, ScoringRecord, SeatRecord, stored_event
from peerage.types import Event, Query, TypedQuestion
from peerage.view import MAX_LIVE_TEXT, SessionView


class CountingTerminal(Terminal):
    """A terminal that counts the characters it renders."""

    n_characters = 0

    def render(self, renderable, options=None):
        for segment in super().render(renderable, options):
            self.n_characters += len(segment.text)
            yield segment


def watching(n_seats=4, **how):
    console = CountingTerminal(file=io.StringIO(), width=100, height=40, **how)
    return opened(console, [f"s{i}" for i in range(n_seats)])


def opened(console, names, question="Why?", clock=lambda: 0.0):
    """The screen of a session that has just begun."""
    view = SessionView()
    seats = tuple(SeatRecord(name) for name in names)
    how = ScoringRecord(rubric=None, order="balanced")
    view.see(stored_event("id", 0, 0.0, Opened(Query(question), "7", 0, "", seats, law=how)))
    return LiveScreen(console, view, clock)


def piece(text, seat="s0", stage="answer"):
    return Event("id", -1, "piece", 0.0, {"stage": stage, "seat": seat, "text": text})


def dealt(names):
    ballots = [{"reviewer": name, "order": list(names)} for name in names]
    return Event("id", 1, "dealt", 0.0, {"round": 0, "ballots": ballots})


def work_of_a_frame(screen):
    before = screen.console.n_characters
    screen.console.print(screen.picture())
    return screen.console.n_characters - before


def test_a_piece_of_text_draws_nothing():
    screen = watching()
    for i in range(10_000):
        screen.view.see(piece("word ", f"s{i % 4}"))
    assert screen.console.n_characters == 0
    assert screen.live.auto_refresh
    assert FRAMES_PER_SECOND <= 8


@pytest.mark.parametrize("stage", ["answer", "conclude"])
def test_a_frame_of_long_texts_takes_the_work_of_one_of_short_texts(stage):
    frames = []
    for n in (1_000, 50_000):
        screen = watching()
        if stage == "conclude":
            screen.view.see(dealt(["s0", "s1"]))
            screen.view.chair = "s0"
        for i in range(n):
            screen.view.see(piece("word ", f"s{i % 4}", stage))
        frames.append(work_of_a_frame(screen))
        assert max(map(len, screen.view.texts.values())) <= MAX_LIVE_TEXT
    assert frames[1] <= 1.2 * frames[0]


def test_one_huge_piece_is_kept_to_its_end():
    screen = watching()
    screen.view.see(piece("x" * 1_000_000 + "end"))
    assert len(screen.view.texts["s0", "answer"]) == MAX_LIVE_TEXT
    assert screen.view.texts["s0", "answer"].endswith("end")


def test_a_frame_shows_no_more_seats_than_fit():
    few, many = (watching(n) for n in (40, 600))
    assert work_of_a_frame(many) <= 2 * work_of_a_frame(few)
    for screen, n in ((few, 26), (many, 300)):
        screen.view.see(dealt([f"s{i}" for i in range(n)]))
    assert work_of_a_frame(many) <= 4 * work_of_a_frame(few)


def test_a_reply_is_counted_once_and_only_when_it_is_drawn():
    screen = watching(2)
    screen.view.see(dealt(["s0", "s1"]))
    reply = {"reviewer": "s0", "round": 0, "text": '{"ranking": ["Response B", "Response A"]}'}
    screen.view.see(Event("id", 2, "reviewed", 0.0, reply))
    assert screen.view.counts == {}
    frame = shown(screen)
    counted = screen.view.counts["s0", 0]
    assert shown(screen) == frame
    assert screen.view.counts["s0", 0] is counted
    places = {one.candidate: one.place for one in screen.view.review("s0", 0).remarks}
    assert places == {"s0": 2, "s1": 1}


def shown(screen):
    """The lines of the next frame."""
    with screen.console.capture() as drawn:
        screen.console.print(screen.picture())
    return drawn.get().splitlines()


def said(kind, at=0.0, **body):
    return Event("id", -1 if kind in ("asked", "piece", "waiting") else 1, kind, at, body)


def test_the_last_lines_of_a_hostile_text_are_lines_of_text():
    screen = watching()
    screen.view.see(piece("\x1b[2J" + "\x9b" * 5000))
    assert "".join(shown(screen)).isprintable()


@pytest.mark.parametrize("stage", ["answer", "review", "conclude"])
def test_ten_seats_fit_twenty_four_lines(stage):
    """The question, every seat and what it does, and the chair's words, whatever they say."""
    console = Terminal(file=io.StringIO(), width=80, height=24, force_terminal=True, no_color=True)
    names = [f"vendor/model-{i}" for i in range(10)]
    screen = opened(console, names, "Why? " * 100)
    for name in names:
        screen.view.see(said("asked", seat=name, stage="answer"))
        screen.view.see(piece("word " * 500, name))
    if stage != "answer":
        screen.view.see(dealt(names))
        for name in names:
            screen.view.see(said("asked", seat=name, stage="review"))
    if stage == "conclude":
        screen.view.see(said("asked", seat=names[0], stage="conclude"))
        screen.view.see(piece("and so it is " * 500, names[0], "conclude"))
    lines = shown(screen)
    assert len(lines) <= 23
    assert "Why?" in lines[0]
    assert all(any(f"model-{i}" in line for line in lines) for i in range(10))
    assert ("and so it is" in "\n".join(lines)) == (stage == "conclude")


def test_a_seat_that_is_waited_for_says_since_when_and_why():
    now = [0.0]
    console = Terminal(file=io.StringIO(), width=80, height=24)
    screen = opened(console, "ab", clock=lambda: now[0])
    screen.view.see(said("asked", seat="a", stage="answer"))
    screen.view.see(said("asked", seat="b", stage="answer"))
    screen.view.see(said("answered", 4.0, seat="b", text="one two"))
    now[0] = 12.0
    lines = shown(screen)
    assert lines[:2] == ["Why?", "12 s · waiting for 1 of 2"]
    assert "a  answering, 12 s" in lines
    assert "b  ✓ 2 words, 4.0 s" in lines
    screen.view.see(said("waiting", seat="a", stage="answer", why="429", wait_s=2.0, attempt=3))
    assert "a  429, waiting 2 s, try 3" in shown(screen)


def test_names_and_states_are_text():
    screen = watching(1, force_terminal=True)
    failed = {"seat": "[/b]\x1b[2J", "kind": "[/b]\x9b", "message": "", "stage": "answer"}
    screen.view.see(Event("id", 1, "failed", 0.0, failed))
    screen.console.print(screen.picture())
    assert "\x1b[2J" not in screen.console.file.getvalue()


def test_a_seat_that_voted_on_a_decision_says_so_and_shows_no_json():
    console = CountingTerminal(file=io.StringIO(), width=80, height=24)
    question = TypedQuestion("urgent", "predicate", "It is urgent.")
    seats = tuple(SeatRecord(name, roles=("review",)) for name in ("luna", "jev"))
    how = ScoringRecord(rubric=None, order="balanced")
    view = SessionView()
    begin = Opened(Query("Help!", questions=(question,)), "7", 0, "", seats, law=how)
    vote = Advised("luna", '{"answers": []}', votes={"urgent": (0.7, 0.3)})
    events = [
        stored_event("id", 0, 0.0, begin),
        Event("id", -1, "asked", 1.0, {"stage": "conclude", "seat": "luna"}),
        Event("id", -1, "asked", 1.0, {"stage": "conclude", "seat": "jev"}),
        piece(vote.text, "luna", "conclude"),
        stored_event("id", 1, 2.0, vote),
    ]
    lines = []
    for event in events:
        view.see(event)
        lines.append(progress_line(view, event))
    console.print(LiveScreen(console, view, lambda: 3.0).picture())
    shown = console.file.getvalue()
    assert "luna  ✓ voted, 1.0 s" in shown
    assert "jev   voting, 2.0 s" in shown
    assert "{" not in shown
    assert list(filter(None, lines)) == ["asking luna, jev", "luna voted (1 of 2)"]
