"""The columns of numbers on the board of models: heads, meanings, and which show at first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from peerage.boards import Board
from peerage.doors.render.phrases import figure, seconds
from peerage.doors.render.report_views import BOARD_COLUMNS
from peerage.doors.web.templating import dollars, percent
from peerage.reports.page_facts import ModelFacts, WhatIfOptions

# Columns that the page draws in its own way, or leaves to the files.
FACT = "facts."  # the start of the name of a column that is not of the board
DRAWN_APART = {"rank", "model", "share", "share_common", "value", "mean_score_plain"}


class ShownColumn(NamedTuple):
    """A column of numbers: its head, its meaning, the value of a row, and whether it shows."""

    name: str
    head: str
    meaning: str
    value: Callable[[Mapping[str, Any]], Any]
    words: Callable[[Any], str] = figure
    is_shown: bool = True


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
    ShownColumn(
        "appearances",
        "Sessions",
        "Sessions with it as a candidate.",
        itemgetter("appearances"),
        _count,
    ),
    ShownColumn(
        "total_wins",
        "Wins",
        "Ballots that put it alone in first place.",
        itemgetter("total_wins"),
        _count,
    ),
    ShownColumn(
        "mean_score",
        "Mark",
        "The mean mark that reviewers of average harshness would give.",
        itemgetter("mean_score"),
    ),
    ShownColumn(
        "facts.cost_each",
        "Cost each",
        "Cost of one answer, over the latest sessions.",
        _fact("cost_each"),
        _money,
    ),
    ShownColumn(
        "facts.latency_s",
        "Time each",
        "How long one answer takes, over the latest sessions.",
        _fact("latency_s"),
        _seconds,
    ),
    ShownColumn(
        "total_votes", "Votes", "Ballots that rank it.", itemgetter("total_votes"), _count, False
    ),
    ShownColumn(
        "z_score",
        "Calibrated",
        "The mark less each reviewer's mean, in that reviewer's standard deviations, averaged.",
        itemgetter("z_score"),
        figure,
        False,
    ),
    ShownColumn(
        "aggregate_borda",
        "Borda",
        "The share on Borda's scale: share × (candidates − 1).",
        itemgetter("aggregate_borda"),
        figure,
        False,
    ),
    ShownColumn(
        "share_length_controlled",
        "At equal length",
        "The share at the mean length of the session's answers.",
        itemgetter("share_length_controlled"),
        _three,
    ),
    ShownColumn(
        "facts.unread_share",
        "Unparsed",
        "Its replies as a reviewer that gave no vote.",
        _fact("unread_share"),
        percent,
        False,
    ),
    ShownColumn(
        "facts.n_asked_again",
        "Asked again",
        "Its reviews that had to be asked for again.",
        _fact("n_asked_again"),
        _count,
        False,
    ),
    ShownColumn(
        "facts.n_unsealed",
        "Unsealed",
        "Its reviews counted without the code of their ballot.",
        _fact("n_unsealed"),
        _count,
        False,
    ),
    ShownColumn(
        "facts.cut_off_share",
        "Cut off",
        "Its answers that were cut off at the length limit.",
        _fact("cut_off_share"),
        percent,
        False,
    ),
)


def columns_shown(
    board: Board, options: WhatIfOptions, facts: Iterable[ModelFacts], *, is_compared: bool
) -> list[ShownColumn]:
    """Return the columns of numbers of the board, in their order.

    A fact that no model has is not a column; one that is 0 for all is left to the chooser.
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
        value = ShownColumn("value", head, f"The value by {head}.", itemgetter("value"), _three)
        columns.insert(0, value)
    if is_compared:
        words = "The share under these settings, less the share before, in percent points."
        columns.insert(0, ShownColumn("change", "Change", words, itemgetter("change"), _points))
    known = {one.name for one in columns} | DRAWN_APART
    more = [
        ShownColumn(name, column.head.capitalize(), "", itemgetter(name), figure, False)
        for name, column in BOARD_COLUMNS.items()
        if name in board.columns and name not in known
    ]
    return [*columns, *more]
