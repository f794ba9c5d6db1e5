"""Nothing that is printed on a terminal can steer it, by whatever way it comes."""

import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group

from peerage.doors.cli.terminal import (
    Terminal,
    join_texts,
    markdown,
    panel,
    paragraph,
    style_text,
    table_lines,
)
from peerage.doors.render.layout import Cell, TableColumn, TextTable

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    "[/b]",
    "[bold]x",
    "[link=http://e]x[/link]",
    ":smiley:",
    "\x1b[2J\x1b]52;c;aGk=\x07",
    "\x9b2J",
    "\x1b]8;;http://e\x07x",
    "a\rb\bc",
    "\u202eabc",
    "\ud800",
    "&#27;[2J",
    "&#x9b;2J",
    "[x](http://e.example/\x1b[2J)",
    "![x](http://e.example)",
    "```\n\x1b[2J\n```",
    "one\ntwo",
)
WAYS = {
    "a string": lambda text: text,
    "a styled line": lambda text: style_text(text, "red"),
    "a joined line": lambda text: join_texts("x ", style_text(text, "red"), text),
    "a paragraph": paragraph,
    "Markdown": markdown,
    "a panel": lambda text: panel(text, text),
    "a table": lambda text: _table(text),
}


def _table(text):
    kinds = ("number", "word", "name", "text")
    table = TextTable(*(TableColumn(text, kind) for kind in kinds), title=text, sections=text)
    table.add(*(Cell(text, "red") for _ in kinds), section=text)
    table.add(*(text for _ in kinds), section="another")
    return Group(*table_lines(table, 200))


def printed(renderable, **how):
    out = io.StringIO()
    Terminal(file=out, width=200, **how).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_only_colours_of_our_own_are_written(way, text):
    plain = COLOURS.sub("", printed(WAYS[way](text), force_terminal=True, color_system="256"))
    assert plain.replace("\n", "").isprintable()


@given(st.text(), st.sampled_from(sorted(WAYS)))
def test_any_text_can_be_printed(text, way):
    shown = printed(WAYS[way](text)).translate({ord("\n"): None, ord("\t"): None})
    kinds = set(map(unicodedata.category, shown))
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("text", ["[/b]", "[bold]x[/]", ":smiley:", "[link=http://e]x[/link]"])
def test_markup_of_others_is_shown_and_not_obeyed(text):
    assert printed(text).strip() == text


def test_a_line_cannot_begin_another():
    assert printed("name\nsession 1 · cost $0").count("\n") == 1


def test_a_link_shows_where_it_leads():
    shown = printed(markdown("[bank](http://evil.example)"), force_terminal=True)
    assert "evil.example" in shown
    assert "\x1b]8" not in shown


def test_a_terminal_of_ascii_gets_ascii_drawings():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    Terminal(file=out, width=80).print("███ ─●─ … é")
    assert raw.getvalue() == b"### -o- ... \\xe9\n"
