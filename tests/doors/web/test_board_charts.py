"""Charts and words of the boards: names that cover nothing, round numbers, plain sentences."""

from hypothesis import given
from hypothesis import strategies as st

from peerage.boards import Board
from peerage.doors.render.pages import axis_around
from peerage.doors.render.phrases import board_options, seconds
from peerage.doors.web.board_charts import CHARACTER, DOT, LINE, Box, scatter
from peerage.doors.web.judge_pages import finding_bars
from peerage.findings import Audit, Finding

VALUES = st.floats(0.001, 100.0)
POINTS = st.lists(st.tuples(VALUES, st.floats(0.0, 1.0)), min_size=2, max_size=30)


def chart_of(points):
    names = [f"vendor/model-{i}-with-a-long-name-2026-01-02" for i in range(len(points))]
    rows = [
        {"model": name, "share": y, "facts": x} for name, (x, y) in zip(names, points, strict=True)
    ]
    return scatter(rows, lambda fact: fact)


@given(POINTS)
def test_names_in_a_scatter_cover_no_name_and_leave_no_edge(points):
    chart = chart_of(points)
    boxes = []
    for one in chart.points:
        if one.side:
            x, y = chart.across.x(one.x), 100 - chart.up.x(one.y)
            width = CHARACTER * len(chart.short[one.model])
            left = x + DOT if one.side == "right" else x - DOT - width
            boxes.append(Box(left, left + width, y - LINE / 2, y + LINE / 2))
    assert boxes
    assert all(box.left >= 0 and box.right <= 100 for box in boxes)
    assert not any(a.meets(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_scatter_whose_costs_are_all_zero_is_not_drawn():
    assert chart_of([(0.0, 0.4), (0.0, 0.6)]) is None


@given(st.floats(0.0, 0.8), st.floats(0.04, 0.2))
def test_an_axis_of_shares_counts_in_whole_percents(low, width):
    ticks = axis_around([low, low + width]).ticks
    assert len(ticks) >= 3
    assert all(abs(100 * tick - round(100 * tick)) < 1e-9 for tick in ticks)


def test_a_board_says_how_it_was_counted_in_sentences():
    parameters = {"since": "30d", "as_of": None, "own_votes": "out", "interval": "sessions"}
    notes = {"sessions": 60, "reviews": 7260, "rule": "borda"}
    words = board_options(Board("models", {}, parameters, notes=notes))
    assert words == (
        "Counted from 60 sessions with 7,260 reviews, by the rule borda (the share of rivals beaten"
        " on a ballot, averaged). A reviewer's vote on its own answer is left out."
    )


def test_times_below_a_tenth_of_a_second_are_in_milliseconds():
    assert [seconds(s) for s in (0.0, 0.0002, 0.004, 0.4, 12, 185)] == [
        *("0 ms", "< 1 ms", "4 ms", "0.4 s", "12 s", "3 min 5 s")
    ]


def test_findings_from_too_few_reviews_do_not_stretch_the_scale():
    told = Finding("position", "a", 0.5, 0.3, 0.7, 0.001, 60, 20, "evidence")
    few = Finding("position", "b", 1.0, -80.0, 82.0, None, 2, 20, "too_few")
    first, second = finding_bars(Audit((told, few)))
    assert first.axis.x(0.7) > 90.0
    assert second.axis.x(82.0) == 100.0
