"""Watching a session: a column per seat, then the grid of reviews; plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from peerage.council.ballots import parse
from peerage.doors.cli.screen import write_line
from peerage.events import (
    Answered,
    Asked,
    Dealt,
    Failed,
    Reviewed,
    StoppedEarly,
    TextPiece,
    read_event,
)
from peerage.text import visible
from peerage.types import Ballot, Event, Failure, Review, Seat

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.layout import TextTable

LINES_SHOWN = 8
TAIL_CHARACTERS = 2_000  # of a text; more than its last lines can hold on any screen
MIN_WIDTH = 24  # of a seat's column
MIN_CELL = 5  # columns of the terminal that a candidate takes in the grid
FRAMES_PER_SECOND = 4


class PlainView:
    """One line per thing that happened, on stderr, for logs and pipes."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def see(self, event: Event) -> None:
        line = None if self.quiet else _line(event)
        if line:
            write_line(line, to_stderr=True)


def _line(event: Event) -> str | None:
    match read_event(event):
        case Answered() as fact:
            return f"{fact.seat} answered ({len(fact.text.split())} words)"
        case Reviewed() as fact:
            return f"{fact.reviewer} reviewed"
        case Failed(kind="skipped", message=""):
            return None  # said before
        case Failed() as fact:
            return f"{fact.seat} failed to {fact.stage}: {fact.kind}, {fact.message}"
        case StoppedEarly() as fact:
            return f"the winner cannot change any more; not heard: {', '.join(fact.not_heard)}"
        case _:
            return None


class LiveView:
    """The session as it unfolds on a terminal.

    `see` only takes note of an event. A timer draws a few frames a second, each from the last
    characters of each text and from as many seats as fit on the screen, so what a frame costs
    does not depend on how much was said.
    """

    def __init__(self, console: Terminal, seats: Sequence[Seat]) -> None:
        from rich.live import Live

        self.console = console
        self.seats = [seat.name for seat in seats]
        self.tails: dict[str, str] = {}
        self.state: dict[str, Text] = {}
        self.ballots: dict[str, Ballot] = {}
        self.replies: dict[str, str | None] = {}  # what a reviewer wrote; None: it failed
        self.places: dict[str, dict[str, str]] = {}  # read from its reply, once
        self.chair = ""
        self.words = ""
        self._noting = Lock()
        self.live = Live(
            console=console,
            get_renderable=self.picture,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        self.live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.__exit__(kind, error, trace)

    def see(self, event: Event) -> None:
        """Take note of an event; the next frame shows it."""
        with self._noting:
            self._note(event)

    def _note(self, event: Event) -> None:
        from peerage.doors.cli.terminal import styled

        match read_event(event):
            case TextPiece() as fact:
                self._piece(fact.stage, fact.seat, fact.text)
            case Asked() as fact:
                self.state[fact.seat] = styled(f"{fact.stage} …")
                self.chair = fact.seat if fact.stage == "conclude" else self.chair
            case Answered() as fact:
                self.tails[fact.seat] = fact.text[-TAIL_CHARACTERS:]
                self.state[fact.seat] = styled(f"{len(fact.text.split())} words", "green")
            case Failed() as fact:
                self.state[fact.seat] = styled(fact.kind, "red")
                self.replies.setdefault(fact.seat, None)
            case Dealt() as fact:
                self._dealt(fact)
            case Reviewed() as fact if fact.reviewer in self.ballots:
                self.replies[fact.reviewer] = fact.text

    def _piece(self, stage: str, seat: str, text: str) -> None:
        if stage == "answer":
            self.tails[seat] = _extended(self.tails.get(seat, ""), text)
        elif stage == "conclude":
            self.words = _extended(self.words, text)

    def _dealt(self, fact: Dealt) -> None:
        from peerage.council.blinding import label
        from peerage.types import Slot

        self.replies.clear()
        self.places.clear()
        for dealt in fact.ballots:
            slots = tuple(Slot(label(i), name) for i, name in enumerate(dealt.order))
            self.ballots[dealt.reviewer] = Ballot(dealt.reviewer, slots)

    def picture(self) -> RenderableType:
        """The frame to draw now."""
        from rich.console import Group

        with self._noting:
            if not self.ballots:
                return self._columns()
            unread = [
                (self.ballots[name], text)
                for name, text in self.replies.items()
                if text is not None and name not in self.places and name in self.ballots
            ]
        # Reading a reply may take a moment, and nobody's call should wait for it.
        read = {ballot.reviewer: _places(ballot, parse(text, ballot)) for ballot, text in unread}
        with self._noting:
            self.places |= read
            parts = [self._grid()]
            if self.chair:
                parts.append(self._chair())
        return Group(*parts)

    def _columns(self) -> RenderableType:
        from rich.columns import Columns

        from peerage.doors.cli.terminal import panel, paragraph, styled

        across = max(1, min(len(self.seats), self.console.width // MIN_WIDTH))
        down = max(1, self.console.height // (LINES_SHOWN + 2))
        width = max(MIN_WIDTH, self.console.width // across - 1)
        panels: list[RenderableType] = [
            panel(
                paragraph(_tail(self.tails.get(name, ""), width - 4)),
                name,
                subtitle=self.state.get(name, styled("waiting")),
                width=width,
                height=LINES_SHOWN + 2,
            )
            for name in self.seats[: across * down]
        ]
        return Columns(panels)

    def _grid(self) -> RenderableType:
        from rich.console import Group

        authors = sorted({a for ballot in self.ballots.values() for a in ballot.authors})
        candidates = authors[: max(1, self.console.width // MIN_CELL - 1)]
        reviewers = list(self.ballots)[: max(1, self.console.height)]
        table = places_table(reviewers, candidates, self.places, self.replies)
        return Group(*table.lines(self.console.width, self.console.ascii_only))

    def _chair(self) -> RenderableType:
        from peerage.doors.cli.terminal import panel, paragraph

        words = paragraph(_tail(self.words, self.console.width - 4))
        return panel(words, f"{self.chair} concludes", height=10)


def places_table(
    reviewers: Sequence[str],
    candidates: Sequence[str],
    places: Mapping[str, Mapping[str, str]],
    replied: Collection[str],
) -> TextTable:
    """Which reviewer puts which candidate where; a dot stands for who has not replied yet."""
    from peerage.doors.render.layout import Cell, TableColumn, TextTable, short_names

    heads = short_names(candidates, MIN_CELL)
    table = TextTable(
        TableColumn("reviewer", "name"),
        *(TableColumn(heads[name], use=number) for number, name in enumerate(candidates)),
        title="who puts whom where (own answers do not count)",
    )
    for reviewer in reviewers:
        mine = places.get(reviewer, {})
        waiting = "–" if reviewer in replied else "·"
        cells = [
            Cell(f"({mine[name]})", "dim")
            if name == reviewer and name in mine
            else mine.get(name, waiting)
            for name in candidates
        ]
        table.add(reviewer, *cells)
    return table


def _extended(tail: str, text: str) -> str:
    """The last characters of a text that grows by a piece."""
    return (tail + text[-TAIL_CHARACTERS:])[-TAIL_CHARACTERS:]


def _places(ballot: Ballot, review: Review | None) -> dict[str, str]:
    if review is None or review.abstained:
        return {}
    author = ballot.author_by_label
    return {
        author[name]: str(i + 1)
        for i, tier in enumerate(review.ranking)
        for name in tier
        if name in author
    }


def _tail(text: str, width: int) -> str:
    """The last lines of a text, as they would wrap."""
    import textwrap

    parts = visible(text[-TAIL_CHARACTERS:], multiline=True).splitlines()[-LINES_SHOWN:]
    lines = [line for part in parts for line in textwrap.wrap(part, width) or [""]]
    return "\n".join(lines[-LINES_SHOWN:])


def failure_line(failure: Failure) -> str:
    """A failure as a person reads it."""
    return f"{failure.seat} could not {failure.stage}: {failure.message} ({failure.kind})"
