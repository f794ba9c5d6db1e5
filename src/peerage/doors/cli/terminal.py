"""The only module that writes tables, colours and running sessions to a terminal.

A string is one line of text, and every control character in it is escaped; `style_text` gives it a
style. Text that reaches the console in another way is checked again when it is rendered, so only
the control codes of rich are written. A running session is drawn a few times a second: a line for
each seat, then the grid of reviews. Outside a terminal it is shown as plain lines.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.text import Text

from peerage.doors.cli.screen import ReaderLeftError, takes_unicode, write_line
from peerage.doors.render.layout import (
    Block,
    Cell,
    Heading,
    Line,
    Quote,
    TableColumn,
    TextTable,
    Verbatim,
    ascii_drawing,
    blocks_markdown,
)
from peerage.doors.render.model_names import short_names
from peerage.doors.render.phrases import progress_line, seconds
from peerage.errors import how_many
from peerage.events import (
    Advised,
    Answered,
    Asked,
    Committed,
    Failed,
    Noted,
    Reviewed,
    Waiting,
    n_words,
    read_event,
)
from peerage.panel import BegunSession
from peerage.text import visible
from peerage.types import Event
from peerage.view import SessionView

if TYPE_CHECKING:
    from rich.align import AlignMethod
    from rich.console import RenderableType
    from rich.markdown import Markdown
    from rich.progress import Progress, ProgressColumn
    from rich.style import Style


INDENT = 2  # columns before the text of an answer


class Terminal(Console):
    """A console on stdout or stderr; control codes in texts have no effect."""

    def __init__(self, *, stderr: bool = False, **console: Any) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False, **console)
        self.ascii_only = not takes_unicode(self.file)
        self.soft_wrap = not self.is_terminal  # lines to a pipe or a file are not wrapped

    def title(self, text: str) -> None:
        """Print a title."""
        self.print(
            Rule(style_text(text, "bold"), align="left") if self.is_terminal else f"## {text}"
        )

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a string as one line of text; see `style_text` and `paragraph` for other forms."""
        layout = {key: how[key] for key in ("style", "justify", "overflow") if key in how}
        return Text(visible(text), **layout)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else self._harmless(segment)

    def _harmless(self, segment: Segment) -> Segment:
        text, style, _ = segment
        text = visible(text, multiline=True)
        if self.ascii_only:
            text = ascii_drawing(text)
        if style is not None and style.link is not None:  # a reader cannot see where it leads
            style = style.update_link(None)
        return Segment(text, style)

    def show_table(self, table: TextTable) -> None:
        """Print a table; in Markdown, after an empty line."""
        if self.is_terminal:
            lines = table_lines(table, self.width, self.ascii_only)
        else:
            lines = [style_text(line) for line in ("", *table.markdown())]
        for line in lines:
            self.print(line)

    def show_blocks(self, blocks: Iterable[Block]) -> None:
        """Print blocks; to a pipe or a file as Markdown."""
        blocks = list(blocks)
        if not self.is_terminal:
            match blocks:
                case [Heading() | Line() as sentence]:
                    text = visible(sentence.text)
                case _:
                    text = blocks_markdown(blocks)
            self.print(paragraph(text), soft_wrap=True)
            return
        before: Block | None = None
        for block in blocks:
            if isinstance(block, Heading) or (isinstance(before, Quote) and not before.is_main):
                self.print()
            self._show_block(block)
            before = block

    def _show_block(self, block: Block) -> None:
        match block:
            case Heading():
                self.print(block.text, style="bold underline")
            case Line():
                self.print(block.text, style=block.style)
            case Quote(is_main=True):
                fits = cell_len(visible(block.title)) <= self.width - 6
                if not fits:  # a name must not be cut
                    self.print(block.title, style="bold")
                title = block.title if fits else ""
                self.print(panel(markdown(block.text), title, title_align="left"))
            case Quote():
                self._show_quote(block)
            case Verbatim():
                self.print(block.title, style="dim")
                self.print(paragraph(block.text), soft_wrap=True)
            case TextTable():
                self.show_table(block)

    def _show_quote(self, quote: Quote) -> None:
        """Print a quotation, or its first lines and how many lines were left out."""
        aside = style_text(f"  {quote.aside}" if quote.aside else "", "dim")
        self.print(join_texts(style_text(quote.title, "bold cyan"), aside))
        body = Padding(markdown(quote.text), (0, 0, 0, INDENT))
        lines = self.render_lines(body, pad=False, new_lines=True)
        while lines and not "".join(piece.text for piece in lines[-1]).strip():
            lines.pop()
        first = lines[: quote.n_lines]
        self.print(Segments(piece for line in first for piece in line), end="")
        if left := len(lines) - len(first):
            more = f"… {how_many(left, 'more line')} (--full shows all)"
            self.print(style_text(" " * INDENT + more, "dim"))

    def progress(self, *columns: ProgressColumn | str, transient: bool = False) -> Progress:
        """Return a progress display; a string is a column that shows fields of a task."""
        from rich.progress import Progress, TextColumn

        drawn = (TextColumn(col, markup=False) if isinstance(col, str) else col for col in columns)
        return Progress(*drawn, console=self, transient=transient)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise ReaderLeftError("")


def style_text(text: str, style: str | Style = "") -> Text:
    """Return one line of text in a style."""
    return Text(visible(text), style)


def join_texts(*parts: Text | str) -> Text:
    """Return one line made of pieces with their own styles."""
    return Text.assemble(*(style_text(part) if isinstance(part, str) else part for part in parts))


def paragraph(text: str) -> Text:
    """Return a text of several lines."""
    return Text(visible(text, multiline=True))


def markdown(text: str) -> Markdown:
    """Return Markdown of a model or person for printing, with the address of every link visible."""
    from rich.markdown import Markdown

    return Markdown(visible(text, multiline=True), hyperlinks=False)


def panel(
    body: RenderableType,
    title: str,
    *,
    title_align: AlignMethod = "center",
    height: int | None = None,
) -> Panel:
    """Return a box around something, with a title."""
    heading = style_text(title) if title else None
    return Panel(body, title=heading, title_align=title_align, height=height)


def table_lines(table: TextTable, width: int, ascii_only: bool = False) -> list[Text]:
    """Return a table as lines for a screen of this width."""
    lines = []
    for cells in table.lines(width, ascii_only):
        line = join_texts(*(style_text(cell.text, cell.style) for cell in cells))
        line.rstrip()
        lines.append(line)
    return lines


# -- a running session ---------------------------------------------------------------------------

LINES_SHOWN = 4  # of each answer while it is written, if there is room
CHAIR_LINES = 8
TAIL_CHARACTERS = 2_000  # of the end of a text: more than its last lines on any screen
MAX_CANDIDATES = 40  # columns of the grid
NAME_ROOM = 28  # columns of the screen for a seat's name
QUESTION_LINES = 2
FRAMES_PER_SECOND = 4
DOING = {
    "answer": "answering",
    "commit": "answering briefly",
    "review": "reviewing",
    "conclude": "concluding",
}


class LiveScreen:
    """The running session on a terminal.

    A timer draws a few frames a second, each from the last characters of each text and as many
    seats as fit on the screen, so the cost of a frame does not depend on the length of the texts.
    """

    def __init__(
        self, console: Terminal, view: SessionView, clock: Callable[[], float] = time.time
    ) -> None:
        self.console = console
        self.view = view
        self.clock = clock
        self.started = clock()
        self.live = Live(
            console=console,
            get_renderable=self.picture,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    # -- what is drawn -------------------------------------------------------------------------

    def picture(self) -> RenderableType:
        """Return the current frame."""
        with self.view.lock:
            lines: list[RenderableType] = [*self._head()]
            if self.view.ballots:
                table = self.grid_so_far(max(1, self.console.height - QUESTION_LINES - 6))
                width = self.console.width
                for line in table_lines(table, width, self.console.ascii_only):
                    lines += line.wrap(self.console, width)
            else:
                lines += self._answers()
            if self.view.chair and not self.view.query.questions:
                lines += self._chair(self.console.height - len(lines) - 2)
        # The last line is empty: a terminal echoes ^C there, and it is erased with the frame.
        return Group(*lines[: self.console.height - 2], style_text(""))

    def _head(self) -> list[Text]:
        """Return the question, the progress, the elapsed time, and the seats still running."""
        width = self.console.width
        question = _wrap_tail(self.view.query.text[:TAIL_CHARACTERS], width)
        if len(question) > QUESTION_LINES:
            last = question[QUESTION_LINES - 1]
            question[QUESTION_LINES - 1 :] = [last[: width - 1] + "…"]
        n, n_seats = len(self.view.asked_at), len(self.view.heard)
        what = f"waiting for {n} of {n_seats}" if n else "working"
        progress = f"{seconds(self.clock() - self.started)} · {what}"
        return [*(style_text(line, "bold") for line in question), style_text(progress, "dim")]

    def _answers(self) -> list[Text]:
        """Return a line for each seat, and the last lines of its answer if there is room."""
        rows, width = self.console.height - QUESTION_LINES - 3, self.console.width
        names = list(self.view.heard)[: max(1, rows)]
        short = short_names([visible(name) for name in names], NAME_ROOM)
        room = max(map(cell_len, short.values()), default=0)
        below = min(LINES_SHOWN, max(0, rows // max(1, len(names)) - 1))
        texts = {response.model: response.final for response in self.view.responses}
        lines: list[Text] = []
        for name in names:
            (words, style), form = self._doing(name), short[visible(name)]
            row = f"{form}{' ' * (room - cell_len(form))}  {words}"
            lines += [style_text(part, style) for part in _wrap_tail(row, width)[:1]]
            text = self.view.texts.get((name, "answer")) or texts.get(name, "")
            tail = [line for line in _wrap_tail(text, width - 4) if line.strip()]
            lines += [style_text(f"    {line}", "dim") for line in tail[-below:] if below]
        if left := len(self.view.heard) - len(names):
            lines.append(style_text(f"… and {how_many(left, 'more seat')}", "dim"))
        return lines

    def _doing(self, name: str) -> tuple[str, str]:
        """Return the activity of a seat, in words and a style."""
        took = self.view.took_s.get(name)
        ended = "" if took is None else f", {seconds(took)}"
        match self.view.heard.get(name):
            case Asked() as fact:
                doing = "voting" if self.view.query.questions else DOING.get(fact.stage, fact.stage)
                words = "asked again" if fact.again else doing
                return f"{words}, {seconds(self.clock() - self.view.asked_at[name])}", ""
            case Waiting() as fact:
                return f"{fact.why}, waiting {fact.wait_s:.2g} s, try {fact.attempt}", "yellow"
            case Answered() as fact:
                return f"✓ {how_many(n_words(fact), 'word')}{ended}", "green"
            case Committed():
                return f"✓ its own answer{ended}", "green"
            case Failed() as fact:
                return f"✗ {fact.kind}{ended}", "red"
            case Reviewed():
                return f"✓ reviewed{ended}", "green"
            case Advised() as fact:
                voted = self.view.query.questions or self.view.asked_for == "binary"
                return f"✓ {'voted' if voted else 'concluded'}{ended}", "green"
            case _:
                return "not asked yet", "dim"

    def grid_so_far(self, n_reviewers: int) -> TextTable:
        """Return each reviewer's activity, and how it ranks the candidates."""
        candidates = self.view.session.candidates[:MAX_CANDIDATES]
        table = TextTable(
            TableColumn("reviewer", "name"),
            TableColumn("", "word"),
            *(TableColumn(name, use=i + 1, named=True) for i, name in enumerate(candidates)),
        )
        last_round = dict(self.view.ballots.keys())
        for reviewer in list(last_round)[:n_reviewers]:
            review = self.view.review(reviewer, last_round[reviewer])
            remarks = review.remark_by_candidate if review and review.is_in else {}
            places = [remarks[name].place if name in remarks else None for name in candidates]
            cells = [
                Cell("·", "dim")
                if place is None
                else Cell(f"({place})" if name == reviewer else str(place))
                for name, place in zip(candidates, places, strict=True)
            ]
            table.add(reviewer, Cell(*self._doing(reviewer)), *cells)
        return table

    def _chair(self, room: int) -> list[RenderableType]:
        height, chair = min(CHAIR_LINES, room), self.view.chair
        if height < 3:
            return []
        words_so_far = self.view.texts.get((chair, "conclude"), "")
        words = "\n".join(_wrap_tail(words_so_far, self.console.width - 4)[2 - height :])
        return [panel(paragraph(words), f"{chair} concludes", height=height)]


async def watch(begun: BegunSession, console: Terminal | None, quiet: bool = False) -> None:
    """Run a session and show it: as frames if there is a console, or else one line per event."""
    view = begun.view
    with LiveScreen(console, view).live if console is not None else nullcontext():
        for event in begun.history:
            tell(view, event, console, quiet)
        async for event in begun.events:
            tell(view, event, console, quiet)


def tell(view: SessionView, event: Event, console: Terminal | None, quiet: bool) -> None:
    """Write an event: as a note above the frames or, without frames, a line on stderr.

    With `quiet` only failures are written.
    """
    fact = read_event(event)
    if console is not None and isinstance(fact, Noted):
        console.print(fact.text)
    if console is not None or (quiet and not isinstance(fact, Failed)):
        return
    if line := progress_line(view, event, max_characters=None):
        write_line(line, to_stderr=True)


def _wrap_tail(text: str, width: int) -> list[str]:
    """Return a text in lines that fit; of a long text, only its end."""
    parts = visible(text[-TAIL_CHARACTERS:], multiline=True).splitlines()
    return [line for part in parts for line in textwrap.wrap(part, max(1, width)) or [""]]
