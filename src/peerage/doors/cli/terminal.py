"""The one door for text into a terminal: no markup, and nothing that steers the terminal.

A string is a line of text, with every control in it spelt out; style is given by `styled`.
Whatever reaches the console by another way is looked at once more when it is rendered, so
only this library's own control codes are ever written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.text import Text

from peerage.doors.cli.screen import ReaderLeftError, takes_unicode
from peerage.doors.render.layout import (
    Block,
    Heading,
    Line,
    Quote,
    TextTable,
    Verbatim,
    ascii_drawing,
    blocks_markdown,
)
from peerage.errors import how_many
from peerage.text import visible

if TYPE_CHECKING:
    from rich.align import AlignMethod
    from rich.markdown import Markdown
    from rich.progress import Progress, ProgressColumn
    from rich.style import Style

INDENT = 2  # of somebody's answer


class Terminal(Console):
    """A console on stdout or stderr that shows text and never obeys it."""

    def __init__(self, *, stderr: bool = False, **console: Any) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False, **console)
        self.ascii_only = not takes_unicode(self.file)
        self.soft_wrap = not self.is_terminal  # no line of a pipe or a file is broken

    def title(self, text: str) -> None:
        """A line that begins a part of what is shown."""
        self.print(Rule(styled(text, "bold"), align="left") if self.is_terminal else f"## {text}")

    def render_str(self, text: str, **how: Any) -> Text:
        """A string as one line of text; `styled` and `paragraph` are the ways to another."""
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
        if style is not None and style.link is not None:  # where it leads cannot be seen
            style = style.update_link(None)
        return Segment(text, style)

    def show_table(self, table: TextTable) -> None:
        """Print a table where it fits; as Markdown it stands by itself, after an empty line."""
        if self.is_terminal:
            lines = table_lines(table, self.width, self.ascii_only)
        else:
            lines = [styled(line) for line in ("", *table.markdown())]
        for line in lines:
            self.print(line)

    def show_blocks(self, blocks: Iterable[Block]) -> None:
        """Print the blocks of a session; as Markdown for a pipe or a file."""
        if not self.is_terminal:
            self.print(paragraph(blocks_markdown(blocks)), soft_wrap=True)
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
        """Somebody's words, or the first lines of them and how many more there are."""
        aside = styled(f"  {quote.aside}" if quote.aside else "", "dim")
        self.print(joined(styled(quote.title, "bold cyan"), aside))
        body = Padding(markdown(quote.text), (0, 0, 0, INDENT))
        lines = self.render_lines(body, pad=False, new_lines=True)
        while lines and not "".join(piece.text for piece in lines[-1]).strip():
            lines.pop()
        first = lines[: quote.n_lines]
        self.print(Segments(piece for line in first for piece in line), end="")
        if left := len(lines) - len(first):
            more = f"… {how_many(left, 'more line')} (--full shows all)"
            self.print(styled(" " * INDENT + more, "dim"))

    def progress(self, *columns: ProgressColumn | str, transient: bool = False) -> Progress:
        """A display of progress; a string is a column that shows fields of a task as they are."""
        from rich.progress import Progress, TextColumn

        drawn = (TextColumn(col, markup=False) if isinstance(col, str) else col for col in columns)
        return Progress(*drawn, console=self, transient=transient)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise ReaderLeftError("")


def styled(text: str, style: str | Style = "") -> Text:
    """One line of text in a style."""
    return Text(visible(text), style)


def joined(*parts: Text | str) -> Text:
    """Pieces of one line, each in its own style."""
    return Text.assemble(*(styled(part) if isinstance(part, str) else part for part in parts))


def paragraph(text: str) -> Text:
    """Text of several lines."""
    return Text(visible(text, multiline=True))


def markdown(text: str) -> Markdown:
    """Somebody's Markdown, with the address of every link in sight."""
    from rich.markdown import Markdown

    return Markdown(visible(text, multiline=True), hyperlinks=False)


def panel(
    body: RenderableType,
    title: str,
    *,
    title_align: AlignMethod = "center",
    height: int | None = None,
) -> Panel:
    """A box around something, with a title of text."""
    heading = styled(title) if title else None
    return Panel(body, title=heading, title_align=title_align, height=height)


def table_lines(table: TextTable, width: int, ascii_only: bool = False) -> list[Text]:
    """A table in lines of a screen of this width."""
    lines = []
    for cells in table.lines(width, ascii_only):
        line = joined(*(styled(cell.text, cell.style) for cell in cells))
        line.rstrip()
        lines.append(line)
    return lines
