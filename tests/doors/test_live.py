"""Watching a session costs the same whatever is said: counted, not timed."""

import io

import pytest

from peerage.doors.cli.live import FRAMES_PER_SECOND, TAIL_CHARACTERS, LiveView, _tail
from peerage.doors.cli.terminal import Terminal
from peerage.types import Event, Seat


class CountingTerminal(Terminal):
    """A terminal that counts the characters it renders."""

    n_characters = 0

    def render(self, renderable, options=None):
        for segment in super().render(renderable, options):
            self.n_characters += len(segment.text)
            yield segment


def watching(n_seats=4, **how):
    console = CountingTerminal(file=io.StringIO(), width=100, height=40, **how)
    return LiveView(console, [Seat(f"s{i}", "simulated") for i in range(n_seats)])


def piece(text, seat="s0", stage="answer"):
    return Event("id", -1, "piece", 0.0, {"stage": stage, "seat": seat, "text": text})


def dealt(names):
    ballots = [{"reviewer": name, "order": list(names)} for name in names]
    return Event("id", 1, "dealt", 0.0, {"round": 0, "ballots": ballots})


def work_of_a_frame(view):
    before = view.console.n_characters
    view.console.print(view.picture())
    return view.console.n_characters - before


def test_a_piece_of_text_draws_nothing():
    view = watching()
    for i in range(10_000):
        view.see(piece("word ", f"s{i % 4}"))
    assert view.console.n_characters == 0
    assert view.live.auto_refresh
    assert FRAMES_PER_SECOND <= 8


@pytest.mark.parametrize("stage", ["answer", "conclude"])
def test_a_frame_of_long_texts_takes_the_work_of_one_of_short_texts(stage):
    frames = []
    for n in (1_000, 50_000):
        view = watching()
        if stage == "conclude":
            view.see(dealt(["s0", "s1"]))
            view.chair = "s0"
        for i in range(n):
            view.see(piece("word ", f"s{i % 4}", stage))
        frames.append(work_of_a_frame(view))
        assert max(map(len, [*view.tails.values(), view.words])) <= TAIL_CHARACTERS
    assert frames[0] == frames[1]


def test_one_huge_piece_is_kept_to_its_end():
    view = watching()
    view.see(piece("x" * 1_000_000 + "end"))
    assert len(view.tails["s0"]) == TAIL_CHARACTERS
    assert view.tails["s0"].endswith("end")


def test_a_frame_shows_no_more_seats_than_fit():
    few, many = (watching(n) for n in (16, 600))
    assert work_of_a_frame(many) <= 2 * work_of_a_frame(few)
    for view, n in ((few, 26), (many, 300)):
        view.see(dealt([f"s{i}" for i in range(n)]))
    assert work_of_a_frame(many) <= 4 * work_of_a_frame(few)


def test_a_reply_is_read_once_and_only_when_it_is_drawn():
    view = watching(2)
    view.see(dealt(["s0", "s1"]))
    reply = {"reviewer": "s0", "round": 0, "text": '{"ranking": ["Response B", "Response A"]}'}
    view.see(Event("id", 2, "reviewed", 0.0, reply))
    assert view.places == {}
    view.picture()
    read = view.places["s0"]
    view.picture()
    assert view.places["s0"] is read
    assert read == {"s0": "2", "s1": "1"}


def test_the_last_lines_of_a_hostile_text_are_lines_of_text():
    assert _tail("\x1b[2J" + "\x9b" * 5000, 40).replace("\n", "").isprintable()


def test_names_and_states_are_text():
    view = watching(1, force_terminal=True)
    view.seats = ["[/b]\x1b[2J"]
    failed = {"seat": "[/b]\x1b[2J", "kind": "[/b]\x9b", "message": "", "stage": "answer"}
    view.see(Event("id", 1, "failed", 0.0, failed))
    view.console.print(view.picture())
    assert "\x1b[2J" not in view.console.file.getvalue()
