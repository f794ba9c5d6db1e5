"""Boards as pages: charts that show what there is, and heads that can be read."""

from __future__ import annotations

import re

import pytest

from peerage import board_models
from peerage.doors.render.layout import Heading, Line, Quote, Verbatim
from peerage.doors.render.pages import board_page, environment, with_commands
from peerage.doors.render.phrases import share
from peerage.doors.render.prose import prose_answer


def rows(*days, candidates=("provider/long-name-2026-11", "provider/long-name-2026-12")):
    return [
        {"session_id": day, "reviewer": "judge", "candidate": name, "rank": place + 1.0, "at": day}
        for day in days
        for place, name in enumerate(candidates)
    ]


def weeks_of(page):
    return re.search(r'<div class="weeks">.*?</div>', page, re.DOTALL)


@pytest.mark.parametrize("days", [["2026-11-02"], ["2026-11-02", "2026-11-10", "2026-11-20"]])
def test_a_chart_by_week_has_a_point_for_every_week_and_model(days):
    page = board_page(board_models(rows(*days), since="all", history="week"))
    chart = weeks_of(page)[0]
    assert chart.count("<circle") == 2 * len(days)
    assert all(day[5:8] in chart for day in days)


def test_a_chart_by_week_with_nothing_in_it_is_not_drawn():
    """One candidate alone has no rival: there are weeks, and no share in any of them."""
    alone = rows("2026-11-02", "2026-11-10", candidates=("alone",))
    board = board_models(alone, since="all", history="week")
    assert weeks_of(board_page(board)) is None
    assert "Week by week" not in board_page(board)


def test_every_head_of_a_page_is_one_whole_cell():
    """As many heads as cells in a row, each with its name, and none broken between letters."""
    page = board_page(board_models(rows("2026-11-02"), since="all", compare_rules=True))
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        heads = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", table)
        cells = re.search(r"<tbody>\s*(?:<tr><th.*?</tr>\s*)?<tr>(.*?)</tr>", table, re.DOTALL)[1]
        assert all(heads)
        assert len(heads) == cells.count("<td")
    style = re.search(r"thead th \{[^}]*\}", page)[0]
    assert "white-space: nowrap" in style


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.692, 0.734, "0.713 ± 0.021"), (0.3, 0.72, "0.713 (0.30–0.72)"), (None, None, "0.713")],
)
def test_a_lopsided_interval_shows_both_ends(low, high, words):
    assert share({"share": 0.713, "share_low": low, "share_high": high}) == words


def test_every_kind_of_block_is_drawn():
    blocks = (Heading("Advice"), Line("a line"), Quote("said", "Question"), Verbatim("raw", "as"))
    listed = [(type(block).__name__, block) for block in blocks]
    text = '{% import "parts.html" as parts_of %}{{ parts_of.blocks(listed, prose) }}'
    page = environment().from_string(text).render(listed=listed, prose=prose_answer)
    assert "<h2>Advice</h2>" in page
    assert all(words in page for words in ("a line", "said", "raw"))


def test_a_command_in_a_line_is_code_and_no_markup_passes():
    page = with_commands("<b>`x`</b> `peerage audit` judges many sessions.")
    assert page == "&lt;b&gt;`x`&lt;/b&gt; <code>peerage audit</code> judges many sessions."
