"""A hostile text costs a page no more than a bounded multiple of plain text, whatever its marks."""

from __future__ import annotations

import pytest

from peerage.doors.render.page_work import one_page
from peerage.doors.render.prose import AS_WRITTEN, prose
from peerage.doors.web.compare_pages import marked_differences
from tests.growth import cpu_s

SIZE = 1_000_000
MOST = 25  # times the work of as many characters of plain text; measured: 6 for control characters
PLAIN = "The quick brown fox jumps over the lazy dog.\n\n"
MARKS = (
    *("*_", "**a_b* ", "1. a\n", "+ a\n\n", "> a\nb\n", "- ", "[a\n", "`a ", "``a` ", "\r", "\0"),
    *("\u202e", "&amp;", "<!--", "\\", "# a\n", "a\n=\n", "```\n", "| a | b |\n", "$a$ ", "\\(a"),
    *("$$" + "&" * 900 + "$$ ", "```java\n" + "\n" * 900 + "\n```\n", "|a" * 9 + "\n", "    a\n"),
)


def render(text):
    with one_page():
        prose(text)


@pytest.fixture(scope="module")
def plain_s():
    return min(cpu_s(render, (PLAIN * SIZE)[:SIZE]) for _ in range(2))


@pytest.mark.parametrize("unit", MARKS)
def test_a_megabyte_of_marks_costs_a_bounded_multiple_of_plain_text(plain_s, unit):
    text = (unit * (SIZE // len(unit) + 1))[:SIZE]
    assert min(cpu_s(render, text) for _ in range(2)) < MOST * plain_s


def test_a_short_text_that_is_a_huge_table_is_no_table(plain_s):
    n = 2_000
    table = "|a" * n + "\n" + "|-" * n + "\n" + "|\n" * n
    assert "<table>" not in prose(table)
    assert cpu_s(render, table * 40) < MOST * plain_s
    assert "<table>" in prose("|a|b|\n|-|-|\n" + "|1|2|\n" * 300)


def test_a_text_with_too_many_marks_is_shown_as_it_was_written():
    shown = prose("*_" * 100_000 + "<b>")
    assert AS_WRITTEN in shown
    assert "*_*_" in shown
    assert "&lt;b&gt;" in shown


def test_the_texts_of_a_page_share_one_budget():
    text = "*_" * 25_000
    with one_page():
        assert [AS_WRITTEN in prose(text) for _ in range(3)] == [False, True, True]
    assert AS_WRITTEN not in prose(text)


def test_later_formulas_of_a_page_are_code():
    with one_page():
        shown = prose("$x$ " * 2_000)
    assert 500 < shown.count("<math") < 2_000
    assert shown.count("<math") + shown.count("<code>") == 2_000


@pytest.mark.parametrize("words", [("a ", "a a "), ("a b ", "a a b "), ("a b c ", "c b a ")])
def test_a_comparison_of_repeated_words_ends_after_a_bounded_number_of_steps(plain_s, words):
    one, other = ("<p>" + word * 1_300 + "</p>" for word in words)
    assert cpu_s(lambda html: marked_differences(html, other), one) < MOST * plain_s


def test_differences_of_ordinary_answers_are_marked():
    marked = marked_differences("<p>the dog sleeps</p>", "<p>the cat sleeps</p>")
    assert "<mark>dog </mark>" in marked
