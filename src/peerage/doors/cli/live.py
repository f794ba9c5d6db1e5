"""Watching a session: a line a seat, then the grid of reviews; plain lines elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.live import Live

from peerage.council.blinding import label
from peerage.council.counting import count, places
from peerage.council.fold import review_in
from peerage.doors.cli.screen import write_line
from peerage.doors.cli.terminal import Terminal, panel, paragraph, styled, table_lines
from peerage.doors.render.layout import Cell, TableColumn, TextTable, short_names
from peerage.doors.render.phrases import ProgressLines, seconds
from peerage.errors import how_many
from peerage.events import (
    Answered,
    Asked,
    Dealt,
    Failed,
    Noted,
    Opened,
    Reviewed,
    TextPiece,
    Waiting,
    read_event,
)
from peerage.text import visible
from peerage.types import Ballot, Event, Rubric, Slot

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

LINES_SHOWN = 4  # of each answer as it comes, where there is room
CHAIR_LINES = 8
TAIL_CHARACTERS = 2_000  # of a text; more than its last lines can hold on any screen
MAX_CANDIDATES = 40  # in the grid
NAME_ROOM = 28  # columns of the screen for a seat's name
QUESTION_LINES = 2
FRAMES_PER_SECOND = 4
DOING = {"answer": "answering", "review": "reviewing", "conclude": "concluding"}


class PlainView:
    """Writes a line for each event to stderr, for logs and pipes; quiet: for failures alone."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.lines = ProgressLines(max_characters=None)

    def see(self, event: Event) -> None:
        line = self.lines.line(event)
        if line and (not self.quiet or isinstance(read_event(event), Failed)):
            write_line(line, to_stderr=True)


@dataclass(slots=True)
class SeatState:
    """What a seat is doing: in words, in a style, and since when it is waited for, if it is."""

    words: str = "not asked yet"
    style: str = "dim"
    since: float | None = None
    tail: str = ""  # the end of its answer


class LiveView:
    """The session as it unfolds on a terminal.

    `see` only takes note of an event. A timer draws a few frames a second, each from the last
    characters of each text and from as many seats as fit on the screen, so what a frame costs
    does not depend on how much was said.
    """

    def __init__(
        self,
        console: Terminal,
        rubric: Rubric | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console
        self.seats: dict[str, SeatState] = defaultdict(SeatState)
        self.question = ""
        self.rubric = rubric
        self.clock = clock
        self.started = clock()
        self.ballots: dict[str, Ballot] = {}
        self.replies: dict[str, Reviewed] = {}
        self.places: dict[str, dict[str, int]] = {}  # of each reviewer's reply, counted once
        self.chair = ""
        self.words = ""
        self._noting = Lock()
        self.live = Live(
            console=console,
            get_renderable=self.picture,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    # -- what happens --------------------------------------------------------------------------

    def see(self, event: Event) -> None:
        """Take note of an event; the next frame shows it."""
        with self._noting:
            self._note(event)

    def _note(self, event: Event) -> None:
        match read_event(event):
            case Opened() as fact:
                self.seats.update((seat.name, SeatState()) for seat in fact.seats)
                self.question = fact.query.text[:TAIL_CHARACTERS]
            case Noted() as fact:
                self.console.print(fact.text)
            case TextPiece(stage="answer") as fact:
                self._tail(fact.seat, self.seats[fact.seat].tail + fact.text[-TAIL_CHARACTERS:])
            case TextPiece(stage="conclude") as fact:
                self.words = (self.words + fact.text[-TAIL_CHARACTERS:])[-TAIL_CHARACTERS:]
            case Asked() as fact:
                doing = "asked again" if fact.again else DOING.get(fact.stage, fact.stage)
                self._state(fact.seat, doing, "", self.clock())
                self.chair = fact.seat if fact.stage == "conclude" else self.chair
            case Waiting() as fact:
                words = f"{fact.why}, waiting {fact.wait_s:.2g} s, try {fact.attempt}"
                self._state(fact.seat, words, "yellow", self.seats[fact.seat].since)
            case Answered() as fact:
                words = how_many(len(fact.text.split()), "word")
                self._state(fact.seat, f"✓ {words}{self._took(fact.seat)}", "green")
                self._tail(fact.seat, fact.text)
            case Failed() as fact:
                self._state(fact.seat, f"✗ {fact.kind}{self._took(fact.seat)}", "red")
            case Dealt() as fact:
                self.replies.clear()
                self.places.clear()
                for dealt in fact.ballots:
                    slots = tuple(Slot(label(i), name) for i, name in enumerate(dealt.order))
                    self.ballots[dealt.reviewer] = Ballot(dealt.reviewer, slots)
            case Reviewed() as fact if fact.reviewer in self.ballots:
                self._state(fact.reviewer, f"✓ reviewed{self._took(fact.reviewer)}", "green")
                self.replies[fact.reviewer] = fact

    def _state(self, seat: str, words: str, style: str, since: float | None = None) -> None:
        state = self.seats[seat]
        state.words, state.style, state.since = words, style, since

    def _took(self, seat: str) -> str:
        """How long a seat was waited for, where it was."""
        since = self.seats[seat].since
        return "" if since is None else f", {seconds(self.clock() - since)}"

    def _tail(self, seat: str, text: str) -> None:
        self.seats[seat].tail = text[-TAIL_CHARACTERS:]

    # -- what is drawn -------------------------------------------------------------------------

    def picture(self) -> RenderableType:
        """The frame to draw now."""
        with self._noting:
            unread = [
                (self.ballots[name], fact)
                for name, fact in self.replies.items()
                if name not in self.places
            ]
        # Counting a review may take a moment, and nobody's call should wait for it.
        new_places = {
            ballot.reviewer: places(count(ballot, review_in(fact, ballot), self.rubric))
            for ballot, fact in unread
        }
        with self._noting:
            self.places |= new_places
            lines: list[RenderableType] = [*self._head()]
            if self.ballots:
                table = self.grid_so_far(max(1, self.console.height - QUESTION_LINES - 6))
                lines += table_lines(table, self.console.width, self.console.ascii_only)
            else:
                lines += self._answers()
            lines += self._chair(self.console.height - len(lines) - 2) if self.chair else []
        # The last line is empty: a terminal that echoes ^C does it there, and all is erased.
        return Group(*lines[: self.console.height - 2], styled(""))

    def _head(self) -> list[Text]:
        """The question, how far it has come, how long it has taken, and who is waited for."""
        width = self.console.width
        question = _wrapped(self.question, width)
        if len(question) > QUESTION_LINES:
            last = question[QUESTION_LINES - 1]
            question[QUESTION_LINES - 1 :] = [last[: width - 1] + "…"]
        waited_for = [name for name, state in self.seats.items() if state.since is not None]
        what = f"waiting for {len(waited_for)} of {len(self.seats)}" if waited_for else "working"
        progress = f"{seconds(self.clock() - self.started)} · {what}"
        return [*(styled(line, "bold") for line in question), styled(progress, "dim")]

    def _answers(self) -> list[Text]:
        """A line for each seat, and the last lines of its answer where there is room."""
        rows, width = self.console.height - QUESTION_LINES - 3, self.console.width
        names = list(self.seats)[: max(1, rows)]
        short = short_names([visible(name) for name in names], NAME_ROOM)
        room = max(map(cell_len, short.values()), default=0)
        below = min(LINES_SHOWN, max(0, rows // max(1, len(names)) - 1))
        lines: list[Text] = []
        for name in names:
            state, form = self.seats[name], short[visible(name)]
            row = f"{form}{' ' * (room - cell_len(form))}  {self._doing(state)}"
            lines += [styled(part, state.style) for part in _wrapped(row, width)[:1]]
            tail = [line for line in _wrapped(state.tail, width - 4) if line.strip()]
            lines += [styled(f"    {line}", "dim") for line in tail[-below:] if below]
        if left := len(self.seats) - len(names):
            lines.append(styled(f"… and {how_many(left, 'more seat')}", "dim"))
        return lines

    def _doing(self, state: SeatState) -> str:
        if state.since is None or state.style == "yellow":
            return state.words
        return f"{state.words}, {seconds(self.clock() - state.since)}"

    def grid_so_far(self, n_reviewers: int) -> TextTable:
        """What each reviewer is doing, and which candidate it has put where."""
        authors = {author for ballot in self.ballots.values() for author in ballot.authors}
        candidates = sorted(authors)[:MAX_CANDIDATES]
        table = TextTable(
            TableColumn("reviewer", "name"),
            TableColumn("", "word"),
            *(TableColumn(name, use=i + 1, named=True) for i, name in enumerate(candidates)),
        )
        for reviewer in list(self.ballots)[:n_reviewers]:
            state, place_of = self.seats[reviewer], self.places.get(reviewer, {})
            cells = [
                Cell("·", "dim")
                if name not in place_of
                else Cell(f"({place_of[name]})" if name == reviewer else str(place_of[name]))
                for name in candidates
            ]
            table.add(reviewer, Cell(self._doing(state), state.style), *cells)
        return table

    def _chair(self, room: int) -> list[RenderableType]:
        height = min(CHAIR_LINES, room)
        if height < 3:
            return []
        words = "\n".join(_wrapped(self.words, self.console.width - 4)[2 - height :])
        return [panel(paragraph(words), f"{self.chair} concludes", height=height)]


async def watch(view: LiveView | PlainView, run: AsyncIterator[Event], events: list[Event]) -> None:
    """Show a session as it goes; what is stored of it is added to the events."""
    with view.live if isinstance(view, LiveView) else nullcontext():
        async for event in run:
            view.see(event)
            events += [event] if event.seq >= 0 else []


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines that fit, from its last characters where it is long."""
    parts = visible(text[-TAIL_CHARACTERS:], multiline=True).splitlines()
    return [line for part in parts for line in textwrap.wrap(part, max(1, width)) or [""]]
