"""Code on pages: measured languages, a process with a limit, and a limit for each page."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name

from peerage.doors.render import highlighting
from peerage.doors.render.highlight_worker import WINDOW, lexer_of, pieces_of
from peerage.doors.render.highlighting import (
    LANGUAGES,
    MAX_BLOCK,
    Highlighter,
    close_highlighter,
    highlight_code,
)
from peerage.doors.render.page_work import MAX_CODE, one_page
from peerage.doors.render.prose import prose
from tests.growth import cpu_s, is_linear

LEXERS = sorted({get_lexer_by_name(name).aliases[0] for name in LANGUAGES})
SIZES = (MAX_BLOCK // 4, MAX_BLOCK)
# Starts and units of texts that are hard for lexers: blank lines, open comments, brackets.
HARD = (
    *(("", unit) for unit in ("\n", " \n", "((", '"\\', "/*", "a ")),
    *(("a ", "\r"), ("<?php ", "/*"), ("<", "_"), ("<script>", "a?"), ("'", "{{")),
)
ORDINARY = "def mean(values):\n    return sum(values) / len(values)  # 1.5\n" * 100


@pytest.fixture(autouse=True)
def closed():
    """No process of another test runs, and none stays."""
    close_highlighter()
    yield
    close_highlighter()


def hostile_text(start: str, unit: str, size: int = MAX_BLOCK) -> str:
    return (start + unit * size)[:size]


@pytest.mark.parametrize("name", LEXERS)
def test_no_rule_of_a_lexer_looks_further_than_its_window(name):
    """Counted and not timed: a rule that is tried at one place sees no character beyond it."""
    rules = [one for state in getattr(lexer_of(name), "_tokens", {}).values() for one in state]
    assert rules or name == "json"  # its lexer goes through the text once, without rules
    found = [match("a" * (2 * WINDOW), 0) for match, *_ in rules]
    assert all(one is None or one.end() <= WINDOW for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEXERS)
def test_every_lexer_is_linear_in_hostile_text(name):
    def work(text):
        pieces_of(text, name)

    lexer_of(name)
    ordinary_s = min(cpu_s(lambda text: pieces_of(text, "python"), ORDINARY) for _ in range(3))
    for start, unit in HARD:
        text = hostile_text(start, unit)
        if cpu_s(work, text) * len(ORDINARY) > 8 * ordinary_s * len(text):  # else it is quick
            assert is_linear(work, start, unit, SIZES), (start, unit)


def test_ordinary_code_is_highlighted_and_kept():
    html = prose("```c\nint main(void) { return 0; } /* end */\n```")
    assert '<span class="hl-keyword">return</span>' in html
    assert '<span class="hl-comment">/* end */</span>' in html
    first = highlighting._highlighter.pid
    assert first is not None
    close_highlighter()
    assert prose("```c\nint main(void) { return 0; } /* end */\n```") == html
    assert highlighting._highlighter.pid is None  # it was kept, so no process was started


@pytest.mark.parametrize("text", ["No code.", "```\na\n```", "```nosuchlanguage\na\n```", "`a`"])
def test_a_page_without_code_of_a_known_language_starts_no_process(text):
    prose(text)
    assert highlighting._highlighter.pid is None


def test_a_page_has_so_many_highlighted_characters_and_no_more():
    block = "a = 1  # one\n" * (MAX_CODE * 2 // 5 // 13)
    with one_page():
        shown = [prose(f"```python\n{number}\n{block}\n```") for number in range(5)]
    assert [("hl-comment" in html) for html in shown] == [True, True, False, False, False]
    assert "hl-comment" in prose(f"```python\n9\n{block}\n```")  # of another page


def test_a_block_that_takes_too_long_is_plain_and_so_is_the_rest_of_its_page():
    highlighter = Highlighter()
    code = hostile_text("", "\n")
    block = highlighter.highlight(code, "java", limit_s=0.001)
    assert block.html is None
    assert block.took_s == 0.001
    assert highlighter.pid is None  # it was killed
    after = highlighter.highlight("int x = 1;", "java", limit_s=10.0)
    assert after.html is not None
    highlighter.close()


def test_a_process_that_was_killed_costs_one_block_its_colours():
    highlighter = Highlighter()
    assert highlighter.highlight("x = 1", "python", 10.0).html is not None
    assert highlighter.pid is not None
    os.kill(highlighter.pid, 9)
    shown = [highlighter.highlight(f"x = {n}  # a", "python", 10.0).html for n in range(3)]
    assert shown[-1] is not None
    highlighter.close()


def test_the_process_gets_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    highlight_code("x = 1", "python")
    assert highlighting._highlighter.pid is not None
    environ = Path(f"/proc/{highlighting._highlighter.pid}/environ")
    if environ.exists():
        assert b"sk-0123456789abcdef" not in environ.read_bytes()


def test_the_process_ends_with_the_one_that_started_it():
    script = (
        "from peerage.doors.render import highlighting as h\n"
        "print(h.highlight_code('x = 1  # a', 'python'))\n"
        "print(h._highlighter.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    html, pid = done.stdout.splitlines()
    assert "hl-comment" in html
    assert not Path(f"/proc/{pid}").exists()


def test_all_characters_of_code_are_kept():
    rng = random.Random(7)
    for name in ("python", "c", "html", "json", "bash"):
        code = "".join(rng.choice("ab \n\"'/*#<>{}()=&;\\") for _ in range(2_000))
        assert "".join(text for _, text in pieces_of(code, name)) == code
