"""Boards as tables: every column with its heads and its meaning, and the cells of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from peerage.boards import Board
from peerage.doors.render.layout import Cell, Content, Interval, TableColumn, TextTable
from peerage.doors.render.phrases import figure, rank_groups, ranks, share, signed_figure

BAND_STYLES = {"excellent": "green", "good": "cyan", "fair": "yellow", "poor": "red"}

Row = Mapping[str, Any]
Rows = Sequence[Row]

# Every column that a board can have, in the order in which they are shown.
BOARD_COLUMNS = {
    "rank": TableColumn("rank"),
    "item_id": TableColumn("item", "name"),
    "model": TableColumn("model", "name"),
    "same_text": TableColumn(
        "same text",
        meaning="How often the model's commonest answer occurs, if it answers too many questions.",
    ),
    "contributor": TableColumn("contributor", "name"),
    "reviewer": TableColumn("reviewer", "name"),
    "share_common": TableColumn(
        "common rivals beaten",
        meaning="Rivals beaten, estimated as if all models had met the same rivals equally often.",
    ),
    "share": TableColumn(
        "rivals beaten",
        meaning="Share of the other answers on a ballot that are ranked below it, averaged over "
        "ballots, then over sessions, with its 95% interval.",
    ),
    "pearson": TableColumn(
        "pearson, 95%",
        page_head="correlation, 95%",
        meaning="How well the person's opinions follow the mean opinion of the others: 1 always, "
        "0 no better than chance, below 0 against it.",
    ),
    "value": TableColumn("value", meaning="The value of the chosen rule, which decides the rank."),
    "aggregate_borda": TableColumn(
        "borda", use=4, meaning="The share on Borda's scale: share × (candidates − 1)."
    ),
    "mean_score": TableColumn(
        "score",
        use=6,
        meaning="Mean score, as reviewers of average harshness would give it.",
    ),
    "mean_score_plain": TableColumn(
        "plain score",
        use=9,
        meaning="Mean score as given, without a correction for harsh and generous reviewers.",
    ),
    "z_score": TableColumn(
        "z",
        use=8,
        page_head="z (calibrated)",
        meaning="Score minus the mean of each reviewer, in that reviewer's standard deviations: 0 "
        "is average, above 0 is better.",
    ),
    "share_length_controlled": TableColumn(
        "at equal length",
        use=1,
        meaning="Share that the model would have at the mean length of the session's answers.",
    ),
    "total_wins": TableColumn(
        "wins", use=7, meaning="Number of ballots with this model alone in first place."
    ),
    "total_votes": TableColumn("votes", use=2, meaning="Number of ballots that rank this model."),
    "appearances": TableColumn(
        "sessions", use=3, meaning="Number of sessions with this model as a candidate."
    ),
    "total_score": TableColumn("total", meaning="Quality plus bonus."),
    "quality_score": TableColumn(
        "quality", use=1, meaning="Sum of the qualities of the person's items."
    ),
    "affiliation_bonus": TableColumn(
        "bonus", use=2, meaning="Points for people with an affiliation, given once."
    ),
    "items": TableColumn("items", use=5, meaning="Number of items that the person contributed."),
    "items_scored": TableColumn(
        "scored", use=4, meaning="Number of these items with enough reviews for a quality."
    ),
    "reviews_received": TableColumn(
        "reviews", use=3, meaning="Number of opinions on the person's items."
    ),
    "band": TableColumn(
        "band", "word", use=1, meaning="Excellent from .7, good from .3, fair from 0, poor below."
    ),
    "agreement": TableColumn(
        "agrees", use=3, meaning="Share of items on which the others lean to the same side."
    ),
    "qualifying": TableColumn(
        "items", use=2, meaning="Number of items with enough opinions of others to compare with."
    ),
    "quality": TableColumn("quality", meaning="Weighted mean opinion of its reviewers."),
    "reviews": TableColumn("reviews", use=6, meaning="Number of reviewers."),
    "weight": TableColumn(
        "weight", use=7, meaning="How much a test with this item counts on a board of models."
    ),
    "reputation": TableColumn(
        "weight", use=7, meaning="How much the person's opinions count: more, the closer to others."
    ),
    "dawid_skene": TableColumn(
        "D–S",
        use=8,
        page_head="Dawid–Skene",
        meaning="How often the person is right by Dawid and Skene's model, to compare.",
    ),
}
RANK_RANGE = "The rank, and in parentheses the ranks that the data allows (95%, for all together)."
DRAWN = {  # columns that are drawn, and the prefix of the names of their interval ends
    "share_common": "share_common_",
    "share": "share_",
    "pearson": "",
    "quality": "",
}


def board_table(board: Board, rows: Rows) -> TextTable:
    """Return the table of a board; those that may be first come first."""
    hidden = {"reputation"} if board.parameters["reputation"] == "fixed" else set()  # 1 for all
    names = [name for name in BOARD_COLUMNS if name in board.columns and name not in hidden]
    head_of = dict(BOARD_COLUMNS)
    if "rank_low" in board.columns:
        head_of["rank"] = replace(head_of["rank"], page_head="rank (range)", meaning=RANK_RANGE)
    ends = scale_ends(board)
    drawing = TableColumn(f"{ends[0]:g} to {ends[1]:g}", "drawing", use=5)
    drawn = set(DRAWN) - ({"share"} if "share_common" in names else set())
    columns = [[head_of[name], *([drawing] if name in drawn else [])] for name in names]
    table = TextTable(*chain.from_iterable(columns), sections="note")
    for label, group in rank_groups(rows):
        for row in group:
            cells = (_board_cells(name, row, ends, name in drawn) for name in names)
            table.add(*chain.from_iterable(cells), section=label)
    return table


def _board_cells(name: str, row: Row, ends: tuple[float, float], is_drawn: bool) -> list[Content]:
    """Return the cell of a column, and its drawing if it has one."""
    cell = _board_cell(name, row)
    if not is_drawn:
        return [cell]
    if row[name] is None or row.get("status") == "undefined":
        return [cell, None]
    low, high = (row.get(f"{DRAWN[name]}{end}") for end in ("low", "high"))
    return [cell, Interval(row[name], low, high, ends)]


def scale_ends(board: Board) -> tuple[float, float]:
    """Return the ends of the scale of a board's main value."""
    if board.board == "items":
        return float(board.parameters["scale"][0]), float(board.parameters["scale"][-1])
    return (-1.0, 1.0) if board.board == "reviewers" else (0.0, 1.0)


def _board_cell(name: str, row: Row) -> Content:
    value = row[name]
    if name == "rank" and "rank_low" in row:
        return ranks(row)
    if name in ("share", "share_common"):
        return share(row, name)
    if name == "band" and value is not None:
        return Cell(value, BAND_STYLES[value])
    if name != "pearson" or value is None:
        return figure(value)
    if row["status"] == "undefined":
        return Cell("undefined 0.00", "dim")
    return signed_figure(value, row["low"], row["high"], digits=2)


def rows_by_category(board: Board) -> list[tuple[str, list[Row]]]:
    """Return the rows of a board in parts with titles: by category, or all without a title."""
    rows: dict[str, list[Row]] = {}
    for row in board.rows:
        rows.setdefault(row.get("category", ""), []).append(row)
    has_titles = "category" in board.columns
    return [(name or "no category" if has_titles else "", part) for name, part in rows.items()]
