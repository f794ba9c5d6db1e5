"""What is shown of a session as blocks, and the blocks as Markdown.

Words of ours, words of others, tables: a page of HTML, a terminal and a pipe all draw the
same blocks, so that none of them leaves out what another shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from peerage.doors.render.layout import TextTable
from peerage.text import visible

MAX_EXCERPT = 600  # characters of an answer that is not shown whole
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Heading:
    """What the blocks after it are about."""

    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of ours; the style is for terminals."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """Markdown that somebody else wrote, under a title; only its first lines where it says so."""

    text: str
    title: str
    aside: str = ""
    is_main: bool = False  # the one that the reader came for
    n_lines: int | None = None


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text of others, character for character."""

    text: str
    title: str


Block = Heading | Line | Quote | Verbatim | TextTable


# -- as Markdown ---------------------------------------------------------------------------------


def blocks_markdown(blocks: Iterable[Block]) -> str:
    """The blocks as Markdown: no line is broken, and words of others are quoted but for the main.

    Lines of ours that follow each other make a list.
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
                yield from ("", "*… cut; --full shows all*")
        case Verbatim():
            fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(block.text)), default=0))
            yield from (f"*{visible(block.title)}*", "", fence, block.text, fence)
        case TextTable():
            yield from block.markdown()


def excerpt(text: str, n_lines: int) -> str:
    """The first lines of a Markdown text, with a block of code that is open at the cut closed."""
    lines = text.strip("\n").splitlines()
    kept = "\n".join(lines[:n_lines])
    if len(kept) > MAX_EXCERPT:
        kept = kept[:MAX_EXCERPT].rsplit(" ", 1)[0] + " …"
    elif len(lines) <= n_lines:
        return text
    fences = FENCE.findall(kept)
    return f"{kept}\n{fences[-1]}" if len(fences) % 2 else kept
