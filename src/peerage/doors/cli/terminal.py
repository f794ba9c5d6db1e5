"""The one door for text into a terminal: no markup, and nothing that steers the terminal.

A string is a line of text, with every control in it spelt out; style is given by `styled`.
Whatever reaches the console by another way is looked at once more when it is rendered, so
only this library's own control codes are ever written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import TextColumn
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.text import Text

from peerage.doors.cli.screen import ReaderLeftError, takes_unicode
from peerage.text import visible

if TYPE_CHECKING:
    from rich.align import AlignMethod
    from rich.style import Style

# What our drawings become where only ASCII can be shown.
ASCII = str.maketrans(
    {
        **dict.fromkeys("█▉▊▋▌▓▇▆", "#"),
        **dict.fromkeys("▍▎▏▒▅▄", "="),
        **dict.fromkeys("░▃▂▁", "-"),
        "─": "-",
        "·": ".",
        "●": "o",
        "…": "...",
        "–": "-",
        "−": "-",
        "±": "+/-",
        "≥": ">=",
        "“": '"',
        "”": '"',
        "→": "->",
        "⇄": "<->",
        "✓": "ok",
        "✗": "no",
        "τ": "tau",
    }
)


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

    def print_first_lines(self, text: Markdown, n: int | None, indent: int) -> int:
        """Print the first lines of somebody's Markdown, or all; how many lines are left."""
        body = Padding(text, (0, 0, 0, indent))
        lines = self.render_lines(body, pad=False, new_lines=True)
        while lines and not "".join(piece.text for piece in lines[-1]).strip():
            lines.pop()
        shown = lines if n is None else lines[:n]
        self.print(Segments(piece for line in shown for piece in line), end="")
        return len(lines) - len(shown)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise ReaderLeftError("")


def ascii_drawing(text: str) -> str:
    """A text with ASCII for the characters that we draw with."""
    return text if text.isascii() else text.translate(ASCII)


def cell_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return cell_len(text)


def chopped(text: str, width: int) -> list[str]:
    """A text in pieces of at most `width` columns each; at least one."""
    return chop_cells(text, width) or [""]


def styled(text: str, style: str | Style = "") -> Text:
    """One line of text in a style."""
    return Text(visible(text), style)


def joined(*parts: Text | str) -> Text:
    """Pieces of one line, each in its own style."""
    return Text.assemble(*(styled(part) if isinstance(part, str) else part for part in parts))


def paragraph(text: str, style: str = "") -> Text:
    """Text of several lines in a style."""
    return Text(visible(text, multiline=True), style)


def markdown(text: str) -> Markdown:
    """Somebody's Markdown, with the address of every link in sight."""
    return Markdown(visible(text, multiline=True), hyperlinks=False)


def panel(
    body: RenderableType,
    title: Text | str,
    *,
    subtitle: Text | str = "",
    title_align: AlignMethod = "center",
    width: int | None = None,
    height: int | None = None,
) -> Panel:
    """A box around something, with a title and perhaps a subtitle of text."""
    return Panel(
        body,
        title=joined(title) if title else None,
        title_align=title_align,
        subtitle=joined(subtitle) if subtitle else None,
        width=width,
        height=height,
    )


def text_column(template: str) -> TextColumn:
    """A column of a progress bar that shows a field as it is."""
    return TextColumn(template, markup=False)
