"""Watching a session: a column per seat, then the grid of reviews; plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from peerage.council import folding
from peerage.council.ballots import parse
from peerage.types import Ballot, Event, Failure, Review, Seat

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINES_SHOWN = 8


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
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _line(event: Event) -> str | None:
    body = event.body
    if event.kind == folding.ANSWERED:
        return f"{body['seat']} answered ({len(body['text'].split())} words)"
    if event.kind == folding.REVIEWED:
        return f"{body['reviewer']} reviewed"
    if event.kind == folding.FAILED:
        return f"{body['seat']} failed to {body['stage']}: {body['kind']}, {body['message']}"
    if event.kind == folding.STOPPED_EARLY:
        return f"the winner cannot change any more; not heard: {', '.join(body['not_heard'])}"
    return None


class LiveView:
    """The session as it unfolds on a terminal."""

    def __init__(self, console: Console, seats: Sequence[Seat]) -> None:
        from rich.live import Live

        self.seats = [seat.name for seat in seats]
        self.texts: dict[str, str] = {}
        self.state: dict[str, str] = {}
        self.ballots: dict[str, Ballot] = {}
        self.reviews: dict[str, Review | None] = {}
        self.chair = ""
        self.words = ""
        self.live = Live(console=console, refresh_per_second=8, transient=True)

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
        body = event.body
        if event.kind == folding.PIECE:
            self._piece(body["stage"], body["seat"], body["text"])
        elif event.kind == folding.ASKED:
            self.state[body["seat"]] = f"{body['stage']} …"
            self.chair = body["seat"] if body["stage"] == "conclude" else self.chair
        elif event.kind == folding.ANSWERED:
            self.texts[body["seat"]] = body["text"]
            self.state[body["seat"]] = f"[green]{len(body['text'].split())} words[/]"
        elif event.kind == folding.FAILED:
            self.state[body["seat"]] = f"[red]{body['kind']}[/]"
            self.reviews.setdefault(body["seat"], None)
        elif event.kind == folding.DEALT:
            self._dealt(event)
        elif event.kind == folding.REVIEWED and body["reviewer"] in self.ballots:
            self.reviews[body["reviewer"]] = parse(body["text"], self.ballots[body["reviewer"]])
        self.live.update(self._picture())

    def _piece(self, stage: str, seat: str, text: str) -> None:
        if stage == "answer":
            self.texts[seat] = self.texts.get(seat, "") + text
        elif stage == "conclude":
            self.words += text

    def _dealt(self, event: Event) -> None:
        from peerage.council.blinding import label
        from peerage.types import Slot

        self.reviews.clear()
        for dealt in event.body["ballots"]:
            slots = tuple(Slot(label(i), name) for i, name in enumerate(dealt["order"]))
            self.ballots[dealt["reviewer"]] = Ballot(dealt["reviewer"], slots)

    def _picture(self) -> RenderableType:
        from rich.console import Group

        if not self.ballots:
            return self._columns()
        parts = [self._grid()]
        if self.chair:
            parts.append(self._chair())
        return Group(*parts)

    def _columns(self) -> RenderableType:
        from rich.columns import Columns
        from rich.panel import Panel
        from rich.text import Text

        width = max(24, self.live.console.width // max(1, len(self.seats)) - 1)
        panels = [
            Panel(
                Text(_tail(self.texts.get(name, ""), width - 4)),
                title=name,
                subtitle=self.state.get(name, "waiting"),
                width=width,
                height=LINES_SHOWN + 2,
            )
            for name in self.seats
        ]
        return Columns(panels)

    def _grid(self) -> RenderableType:
        from rich.table import Table

        candidates = sorted({a for ballot in self.ballots.values() for a in ballot.authors})
        table = Table(title="who puts whom where (own answers do not count)", title_style="dim")
        table.add_column("reviewer")
        for name in candidates:
            table.add_column(name, justify="center")
        for reviewer, ballot in self.ballots.items():
            cells = _places(ballot, self.reviews[reviewer]) if reviewer in self.reviews else {}
            waiting = "·" if reviewer not in self.reviews else "–"
            row = [
                f"[dim]({cells[name]})[/]"
                if name == reviewer and name in cells
                else cells.get(name, waiting)
                for name in candidates
            ]
            table.add_row(reviewer, *row)
        return table

    def _chair(self) -> RenderableType:
        from rich.panel import Panel
        from rich.text import Text

        width = self.live.console.width - 4
        return Panel(Text(_tail(self.words, width)), title=f"{self.chair} concludes", height=10)


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

    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, width) or [""]]
    return "\n".join(lines[-LINES_SHOWN:])


def failure_line(failure: Failure) -> str:
    """A failure as a person reads it."""
    return f"{failure.seat} could not {failure.stage}: {failure.message} ({failure.kind})"
