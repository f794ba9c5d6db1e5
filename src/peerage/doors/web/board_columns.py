"""The number columns on the board of models: heads, meanings, and which are shown at first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from peerage.boards import Board
from peerage.doors.render.board_tables import BOARD_COLUMNS
from peerage.doors.render.phrases import figure, seconds
from peerage.doors.web.templating import dollars, percent
from peerage.reports.page_facts import ModelFacts, WhatIfOptions

FACT = "facts."  # the prefix of columns that come from `ModelFacts`, not from the board
# Columns that the page shows in another form, or only in its files.
DRAWN_APART = {"rank", "model", "share", "share_common", "value", "mean_score_plain"}


class ShownColumn(NamedTuple):
    """A column of numbers: head, meaning, value of a row, format, and whether it is shown."""

    name: str
    head: str
    meaning: str
    value: Callable[[Mapping[str, Any]], Any]
    words: Callable[[Any], str] = figure
    is_shown: bool = True


def _of_board(
    name: str, head: str, words: Callable[[Any], str] = figure, is_shown: bool = True
) -> ShownColumn:
    """Return a column of the board itself, with the meaning that tables on pages give it."""
    meaning = BOARD_COLUMNS[name].meaning
    return ShownColumn(name, head, meaning, itemgetter(name), words, is_shown)


def _three(value: float | None) -> str:
    return figure(value, 3)


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "–" if value is None else dollars(value)


def _seconds(value: float | None) -> str:
    return "–" if value is None else seconds(value)


def _fact(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: getattr(row["facts"], name)


COLUMNS = (
    _of_board("appearances", "Sessions", _count),
    _of_board("total_wins", "Wins", _count),
    _of_board("mean_score", "Score"),
    ShownColumn(
        "facts.cost_each",
        "Cost each",
        "Cost of one answer, in the latest sessions.",
        _fact("cost_each"),
        _money,
    ),
    ShownColumn(
        "facts.latency_s",
        "Time each",
        "Duration of one answer, in the latest sessions.",
        _fact("latency_s"),
        _seconds,
    ),
    _of_board("total_votes", "Votes", _count, is_shown=False),
    _of_board("z_score", "Calibrated", is_shown=False),
    _of_board("aggregate_borda", "Borda", is_shown=False),
    _of_board("share_length_controlled", "At equal length", _three),
    ShownColumn(
        "facts.unread_share",
        "Unparsed",
        "Share of its replies as a reviewer without a vote.",
        _fact("unread_share"),
        percent,
        False,
    ),
    ShownColumn(
        "facts.n_asked_again",
        "Asked again",
        "Share of its reviews that were requested again.",
        _fact("n_asked_again"),
        _count,
        False,
    ),
    ShownColumn(
        "facts.n_unsealed",
        "Unsealed",
        "Share of its reviews counted without their ballot's code.",
        _fact("n_unsealed"),
        _count,
        False,
    ),
    ShownColumn(
        "facts.cut_off_share",
        "Cut off",
        "Share of its answers cut off at the length limit.",
        _fact("cut_off_share"),
        percent,
        False,
    ),
)


def columns_shown(
    board: Board, options: WhatIfOptions, facts: Iterable[ModelFacts], *, is_compared: bool
) -> list[ShownColumn]:
    """Return the number columns of the board, in order.

    A fact that is unknown for all models gets no column. A fact that is 0 for all models is hidden
    at first.
    """
    known_facts = list(facts)
    told = {
        one.name: {getattr(fact, one.name.removeprefix(FACT)) for fact in known_facts} - {None}
        for one in COLUMNS
        if one.name.startswith(FACT)
    }
    columns = [
        one._replace(is_shown=one.is_shown and any(told.get(one.name, [True])))
        for one in COLUMNS
        if one.name in board.columns or told.get(one.name)
    ]
    if options.rule != "borda":
        head = options.rule.replace("_", " ")
        value = ShownColumn("value", head, f"By the rule {head}.", itemgetter("value"), _three)
        columns.insert(0, value)
    if is_compared:
        words = "Share under these settings minus the share before, in percentage points."
        columns.insert(0, ShownColumn("change", "Change", words, itemgetter("change"), _points))
    known = {one.name for one in columns} | DRAWN_APART
    more = [
        _of_board(name, column.head_on_page.capitalize(), is_shown=False)
        for name, column in BOARD_COLUMNS.items()
        if name in board.columns and name not in known
    ]
    return [*columns, *more]
