"""Tables of text that fit any terminal, drawings made of characters, and blocks of a session.

On a terminal, numbers are never shortened. A name is shortened only in its middle, and only as far
as all names stay different. If the table still does not fit, whole columns are left out, and a
line below names them. A pipe or a file gets a Markdown table at full width.

A session is shown as a list of blocks: our sentences, texts of models and people, and tables. An
HTML page, a terminal and a pipe all draw the same blocks, so that each shows everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from rich.cells import cell_len, chop_cells

from peerage.doors.render.model_names import fitting_forms, left_off, short_names
from peerage.text import visible
from peerage.types import Message

GAP = "  "
MIN_NAME = 12  # columns of the screen that a name keeps before other columns are left out
MIN_TEXT = 20
MIN_FOLDED = 8  # width of a wrapped name if even the columns that must stay do not fit
HEAD_ROOMS = (18, 12, 8, 5)  # widths for a head that is a name; the first that fits is used
INDENT = "    "  # before the extra lines below a row
MAX_EXCERPT = 600  # characters of an answer that is not shown whole
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
BACKTICKS = re.compile(r"`+")
SPARKS = "▁▂▃▄▅▆▇█"
ASCII = str.maketrans(  # how our drawings are shown where only ASCII is possible
    {
        **dict.fromkeys("█▉▊▋▌▓▇▆", "#"),
        **dict.fromkeys("▍▎▏▒▅▄", "="),
        **dict.fromkeys("░▃▂▁─–−", "-"),
        **dict.fromkeys("“”", '"'),
        "·": ".",
        "●": "o",
        "◆": "X",
        "│": "|",
        "…": "...",
        "±": "+/-",
        "≥": ">=",
        "→": "->",
        "⇄": "<->",
        "✓": "ok",
        "✗": "no",
        "τ": "tau",
    }
)


# -- drawings ----------------------------------------------------------------------------------


def ascii_drawing(text: str) -> str:
    """Return a text with our drawing characters replaced by ASCII."""
    return text if text.isascii() else text.translate(ASCII)


class Interval(NamedTuple):
    """A value drawn as a point on a scale, with its interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    ends: tuple[float, float] = (0.0, 1.0)

    @property
    def widths(self) -> tuple[int, int]:
        return 10, 24

    def draw(self, width: int) -> str:
        """Return the line in `width` characters."""
        start, end = self.ends

        def at(x: float) -> int:
            part = (x - start) / ((end - start) or 1.0)
            return round(max(0.0, min(1.0, part)) * (width - 1))

        cells = ["·"] * width
        if self.low is not None and self.high is not None:
            for i in range(at(self.low), at(self.high) + 1):
                cells[i] = "─"
        cells[at(self.value)] = "●"
        return "".join(cells)


class Sparkline(NamedTuple):
    """Values drawn as blocks of different heights; a missing value is blank."""

    values: Sequence[float | None]
    ends: tuple[float, float] = (0.0, 1.0)

    @property
    def widths(self) -> tuple[int, int]:
        return min(8, len(self.values)), len(self.values)

    def draw(self, width: int) -> str:
        """Return a line of the last `width` values."""
        low, high = self.ends
        tops = len(SPARKS) - 1
        return "".join(
            " " if value is None else SPARKS[round((value - low) / ((high - low) or 1.0) * tops)]
            for value in self.values[-width:]
        )


class Strip(NamedTuple):
    """Values drawn as points on a scale with a zero; one may be marked as the reviewer's own."""

    values: Sequence[float]
    own: float | None
    ends: tuple[float, float]

    @property
    def widths(self) -> tuple[int, int]:
        return 15, 31

    def draw(self, width: int) -> str:
        """Return the line in `width` characters."""
        start, end = self.ends
        cells = ["·"] * width

        def mark(x: float, sign: str) -> None:
            part = (x - start) / ((end - start) or 1.0)
            cells[round(max(0.0, min(1.0, part)) * (width - 1))] = sign

        mark(0.0, "│")
        for value in self.values:
            mark(value, "●")
        if self.own is not None:
            mark(self.own, "◆")
        return "".join(cells)


Drawing = Interval | Sparkline | Strip


# -- tables ------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A text in one style; on a page a place on a ballot also has a colour (`shade`)."""

    text: str
    style: str = ""
    shade: str = ""


def level(place: int, n: int) -> str:
    """Return how strongly a place on a ballot is coloured: first place most, the last least."""
    part = 0 if n < 2 else round(4 * (place - 1) / (n - 1))
    return f"level{min(4, part) if place > 1 else 0}"


Content = str | Cell | Drawing | None
Cells = Sequence[Cell]  # the pieces of one line on a screen
Kind = Literal["number", "word", "name", "text", "below", "drawing"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: numbers and words are never shortened, names may be, long text wraps.

    On a terminal, a column "below" is shown in extra lines under its row. Columns with `use` 0 are
    never left out; of the others, the one with the highest `use` is left out first. A drawing is
    shown only on a terminal, and a column with `in_pipe` only in a pipe or file. A head that is a
    name (`named`) may be shortened on a terminal. A page has room for a longer head (`page_head`),
    and says below the table what a column means (`meaning`).
    """

    head: str
    kind: Kind = "number"
    use: int = 0
    in_pipe: bool = False
    named: bool = False
    page_head: str = ""
    meaning: str = ""

    @property
    def head_on_page(self) -> str:
        return self.page_head or self.head


class TextTable:
    """Rows under columns, possibly in sections; `lines` lays them out."""

    def __init__(self, *columns: TableColumn, title: str = "", sections: str = "") -> None:
        self.columns = columns
        self.title = title
        self.sections = sections  # the head of the column with the section, in a pipe
        self.rows: list[tuple[Content, ...]] = []
        self.section_by_row: list[str] = []

    def add(self, *cells: Content, section: str = "") -> None:
        """Add one row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(cells)
        self.section_by_row.append(section)

    def lines(self, width: int, ascii_only: bool = False) -> Iterator[Cells]:
        """Return the table in lines of at most `width` columns."""
        return _Layout(self, width, ascii_only).lines()

    def markdown(self) -> Iterator[str]:
        """Return the lines of a Markdown table with complete cells."""
        columns = [
            (column.head, column.kind == "number", [_text(row[i]) for row in self.rows])
            for i, column in enumerate(self.columns)
            if column.kind != "drawing"
            and (column.kind != "below" or any(_text(row[i]) for row in self.rows))
        ]
        if self.sections and len(set(self.section_by_row)) > 1:
            columns.append((self.sections, False, self.section_by_row))
        filled = []
        for head, right, texts in columns:
            cells = [visible(text).replace("|", "\\|") for text in (head, *texts)]
            width = max(3, *map(cell_len, cells))
            cells.insert(1, "-" * (width - 1) + ":" if right else "-" * width)
            filled.append([_pad(cell, width, right) for cell in cells])
        if self.title:
            yield from (self.title, "")
        yield from (f"| {' | '.join(row)} |" for row in zip(*filled, strict=True))
        yield ""


def _text(content: Content) -> str:
    if isinstance(content, Cell):
        return content.text
    return content if isinstance(content, str) else "–"


def _pad(text: str, width: int, right: bool) -> str:
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


class _Layout:
    """A table on a screen: the columns that are shown, their widths, and the lines."""

    def __init__(self, table: TextTable, width: int, ascii_only: bool) -> None:
        self.table = table
        self.width = width
        self.ascii_only = ascii_only
        self.dots = "~" if ascii_only else "…"
        self.texts = [[self._plain(_text(cell)) for cell in row] for row in table.rows]
        for room in HEAD_ROOMS:
            self.heads = self._heads(room)
            rooms = [self._room(i) for i in range(len(self.heads))]
            self.least, self.natural = [low for low, _ in rooms], [high for _, high in rooms]
            if self._total(self._shown()) <= width:
                break
        self.left_out: list[int] = []
        self.widths = self._widths()
        self.short = {
            i: short_names([row[i] for row in self.texts], width, self.dots)
            for i, width in self.widths.items()
            if table.columns[i].kind == "name"
        }

    def _plain(self, text: str) -> str:
        return ascii_drawing(visible(text)) if self.ascii_only else visible(text)

    def _heads(self, room: int) -> list[str]:
        """Return the heads; names are shortened to about this width."""
        names = [self._plain(column.head) for column in self.table.columns if column.named]
        short = short_names(names, room, self.dots)
        heads = [(self._plain(column.head), column.named) for column in self.table.columns]
        return [short[head] if named else head for head, named in heads]

    def _shown(self) -> list[int]:
        """Return the columns that have content and belong on a terminal."""
        return [
            i
            for i, column in enumerate(self.table.columns)
            if not column.in_pipe
            and column.kind != "below"
            and (not self.texts or any(row[i] for row in self.texts))
        ]

    def _room(self, i: int) -> tuple[int, int]:
        """Return the smallest width of a column, and the width that shows it on one line."""
        kind, head = self.table.columns[i].kind, self.heads[i]
        least, natural = [0, *map(cell_len, head.split())], [cell_len(head)]
        if kind == "drawing":
            drawings = [row[i] for row in self.table.rows]
            rooms = [cell.widths for cell in drawings if isinstance(cell, Drawing)]
            least += (low for low, _ in rooms)
            natural += (high for _, high in rooms)
            return max(least), max(natural)
        cells = [row[i] for row in self.texts]
        natural += map(cell_len, cells)
        if kind == "text":
            least.append(min(max(natural), MIN_TEXT))
        else:
            short = short_names(cells, MIN_NAME, self.dots).values() if kind == "name" else cells
            least += map(cell_len, short)
        return max(least), max(natural)

    def _widths(self) -> dict[int, int]:
        """Return the columns that fit on the screen, with their widths."""
        columns, staying = self.table.columns, self._shown()
        while self._total(staying) > self.width and any(columns[i].use for i in staying):
            out = max(staying, key=lambda i: (columns[i].use, i))
            staying.remove(out)
            if columns[out].kind != "drawing":
                self.left_out.append(out)
        widths = {i: self.least[i] for i in staying}
        spare = self.width - self._total(staying)
        for kind in ("name", "number", "word", "drawing", "text"):
            for i in staying:
                if columns[i].kind == kind and spare > 0:
                    more = min(spare, self._useful(i, widths[i] + spare) - widths[i])
                    widths[i] += more
                    spare -= more
        foldable = [i for i in staying if columns[i].kind in ("name", "text")]
        for i in foldable if spare < 0 else ():
            widths[i] = max(MIN_FOLDED, widths[i] + spare // len(foldable))
        return widths

    def _useful(self, i: int, room: int) -> int:
        """Return the width that a column can use; names may lose their vendor or date to fit."""
        if self.table.columns[i].kind != "name" or self.natural[i] <= room:
            return self.natural[i]
        forms = fitting_forms([row[i] for row in self.texts], room)
        return max(self.least[i], *map(cell_len, forms.values()))

    def _total(self, columns: Sequence[int]) -> int:
        return sum(self.least[i] for i in columns) + len(GAP) * (len(columns) - 1)

    def lines(self) -> Iterator[Cells]:
        """Yield the title, the heads, the rows with their sections, and the list of omissions."""
        if self.table.title:
            yield from ((), (Cell(self.table.title, "bold"),))
        if any(self.heads):
            yield from self._row([Cell(head, "dim") for head in self.heads])
        sections, before = self.table.section_by_row, None
        for cells, texts, section in zip(self.table.rows, self.texts, sections, strict=True):
            if section and section != before and len(set(sections)) > 1:
                yield (Cell(self._plain(f"── {section} ──"), "dim"),)
            before = section
            yield from self._row(list(map(self._cell, range(len(cells)), cells, texts)))
            yield from self._below(texts)
        yield from ((Cell(self._plain(line), "dim"),) for line in self._asides())

    def _below(self, texts: Sequence[str]) -> Iterator[Cells]:
        for column, text in zip(self.table.columns, texts, strict=True):
            if column.kind == "below" and text and not column.in_pipe:
                for line in _fold(text, max(MIN_TEXT, self.width - len(INDENT))):
                    yield (Cell(f"{INDENT}{line}", "dim"),)

    def _cell(self, i: int, content: Content, text: str) -> Cell:
        if isinstance(content, Drawing):
            drawn = content.draw(self.widths[i]) if i in self.widths else ""
            return Cell(self._plain(drawn), "cyan")
        if self.table.columns[i].kind == "drawing":
            return Cell("")
        style = content.style if isinstance(content, Cell) else ""
        return Cell(self.short[i][text] if i in self.short else text, style)

    def _row(self, cells: Sequence[Cell]) -> Iterator[Cells]:
        """Return the lines of a row: several if a text or a head wraps."""
        folded = {i: _fold(cells[i].text, width) for i, width in self.widths.items()}
        for n in range(max(map(len, folded.values()), default=0)):
            line: list[Cell] = []
            for i, width in self.widths.items():
                text = folded[i][n] if n < len(folded[i]) else ""
                right = self.table.columns[i].kind == "number"
                line += (Cell(_pad(text, width, right), cells[i].style), Cell(GAP))
            yield line[:-1]

    def _asides(self) -> Iterator[str]:
        dropped = {words for short in self.short.values() for words in left_off(short)}
        if dropped:
            words = " and ".join(sorted(dropped, key=lambda part: (part == "the date", part)))
            first = words[:1].upper() if words.startswith("the ") else words[:1]
            yield f"{first}{words[1:]} {'is' if len(dropped) == 1 else 'are'} left off the names."
        if self.left_out:
            heads = ", ".join(self.table.columns[i].head for i in sorted(self.left_out))
            yield f"Columns left out to fit the width: {heads}."


def _fold(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` columns, wrapped between words if possible."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
            continue
        if not lines[-1]:
            lines.pop()
        lines += chop_cells(word, width) or [""]
    return lines


# -- blocks ------------------------------------------------------------------------------------


class Screen(Protocol):
    """Where lines and tables are shown: a terminal, a pipe or a file."""

    @property
    def is_terminal(self) -> bool: ...

    def print(self, *objects: Any, style: str | None = None) -> None: ...

    def show_table(self, table: TextTable) -> None: ...

    def show_blocks(self, blocks: Iterable[Block]) -> None: ...


class Heading(NamedTuple):
    """The title of the following blocks."""

    text: str
    is_detail: bool = False  # a page folds the blocks that follow


class Line(NamedTuple):
    """A sentence of ours, with a style for terminals."""

    text: str
    style: str = ""


class Quote(NamedTuple):
    """Markdown by a model or person, with a title; `n_lines` limits it to its first lines."""

    text: str
    title: str
    aside: str = ""
    is_main: bool = False  # the main result, such as the verdict
    n_lines: int | None = None
    messages: tuple[Message, ...] = ()  # pages fold these; the text has a line for each step


class Verbatim(NamedTuple):
    """A text by a model or person, shown character for character."""

    text: str
    title: str


Block = Heading | Line | Quote | Verbatim | TextTable


def blocks_markdown(blocks: Iterable[Block]) -> str:
    """Return the blocks as Markdown with unwrapped lines; texts of models and people are quoted.

    The main text is not quoted. Consecutive sentences of ours become a list.
    """
    text, follows_line = "", False
    for block in blocks:
        is_line = isinstance(block, Line)
        part = "\n".join(_markdown_lines(block)).strip("\n")
        text += (("\n" if is_line and follows_line else "\n\n") if text else "") + part
        follows_line = is_line
    return visible(text, multiline=True)


def _markdown_lines(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"## {visible(block.text)}"
        case Line():
            yield f"- {visible(block.text)}"
        case Quote(is_main=True):
            yield from (f"# {visible(block.title)}", "", block.text)
        case Quote():
            text = block.text if block.n_lines is None else excerpt(block.text, block.n_lines)
            yield from (f"### {visible(block.title)}", "")
            if block.aside:
                yield from (f"*{visible(block.aside)}*", "")
            yield from (f"> {line}".rstrip() for line in text.splitlines())
            if text != block.text:
                yield from ("", "*… shortened; --full shows all*")
        case Verbatim():
            fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(block.text)), default=0))
            yield from (f"*{visible(block.title)}*", "", fence, block.text, fence)
        case TextTable():
            yield from block.markdown()


def excerpt(text: str, n_lines: int) -> str:
    """Return the first lines of a Markdown text; a code block that is open at the cut is closed."""
    lines = text.strip("\n").splitlines()
    start = "\n".join(lines[:n_lines])
    if len(start) > MAX_EXCERPT:
        start = start[:MAX_EXCERPT].rsplit(" ", 1)[0] + " …"
    elif len(lines) <= n_lines:
        return text
    fences = FENCE.findall(start)
    return f"{start}\n{fences[-1]}" if len(fences) % 2 else start
