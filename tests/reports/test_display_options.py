"""Options that only add something to show leave every other byte of a board as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

import peerage
from peerage.boards import Board
from tests.reports.test_common_rivals import season
from tests.reports.test_comparisons import comparisons

SHOWN: dict[str, tuple[dict[str, Any], str]] = {  # the options, and the note that they add
    "matrix": ({"matrix": True}, "matrix"),
    "rules": ({"compare_rules": True}, "rules"),
    "fragility": ({"fragility": True}, "fragility"),
    "history": ({"history": "week"}, "history"),
}
DAY_S = 86_400.0


def votes(n: int, n_per_query: int) -> dict[str, list[Any]]:
    queries = [None if i % 5 == 0 else f"q{i // n_per_query}" for i in range(n)]
    return comparisons(n, query_id=queries, at=[i * 40 * DAY_S / n for i in range(n)])


TABLES: dict[str, Any] = {
    "300 comparisons": votes(300, 1),
    "3,000 comparisons of distinct queries": votes(3_000, 1),
    "3,000 comparisons, three of each query": votes(3_000, 3),
    "3,000 comparisons without queries": comparisons(3_000, at=[float(i) for i in range(3_000)]),
    "late models": [{**row, "at": float(i)} for i, row in enumerate(season(60))],
}


def without(board: Board, note: str = "") -> str:
    notes = {name: value for name, value in board.notes.items() if name != note}
    return json.dumps([board.columns, notes, board.flags, board.parameters])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("rule", ["borda", "bradley_terry", "mean_rank"])
def test_what_a_board_shows_besides_changes_no_other_byte(table: str, rule: str) -> None:
    bare = peerage.board_models(TABLES[table], since="all", rule=rule)
    for options, note in SHOWN.values():
        board = peerage.board_models(TABLES[table], since="all", rule=rule, **options)
        assert board.notes[note]
        assert without(board, note) == without(bare), note
