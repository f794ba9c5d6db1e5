"""From a table's sums to the board and what it shows beside."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from peerage.boards import Board
from peerage.boards.model_sums import R_VOTES, Plan, Sums, one_slice
from peerage.boards.models import COLUMNS, MIN_REVIEWERS, length_controlled, rows_of
from peerage.errors import UsageError
from peerage.standings.other_rules import compared, matrix, valued
from peerage.standings.table import Table
from peerage.standings.terms import iso

POINT = ("model", "share", "share_low", "share_high", "appearances")
MAX_WEEKS = 520
WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05


def made(table: Table) -> Board:
    """The board of a table; an empty table gives an empty board."""
    asked = table.asked
    if not table.models:
        return _board(table, {name: [] for name in COLUMNS}, {}, {})
    notes: dict[str, Any] = {}
    plan = table.plan()
    if asked.reputation == "peer":
        plan, notes["reviewer_weights"] = table.weighed(plan)
    sums = table.sums(plan)
    whole = one_slice(sums, None)
    two_way = asked.interval == "two-way"
    if two_way:
        _refuse_small_panel(whole)
    if asked.by_category:
        columns = _by_category(table, sums, two_way)
    else:
        value = valued(table, plan, whole)
        columns = rows_of(whole, table.models, asked.rule, two_way=two_way, valued=value)
    notes |= {"sessions": int(whole.n_sessions[0]), "reviews": int(whole.n_rows[0])}
    if asked.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if asked.matrix:
        notes["matrix"] = matrix(table, whole, list(dict.fromkeys(columns["model"])))
    if asked.compare_rules:
        notes["rules"] = compared(table, plan, whole)
    if asked.history:
        notes["history"] = _history(table, plan)
    return _board(table, columns, notes, _flags(table, whole))


def _board(
    table: Table, columns: dict[str, list[Any]], notes: dict[str, Any], flags: dict[str, int]
) -> Board:
    said = tuple(f"{name}:{n}" for name, n in flags.items() if n)
    return Board(
        "models",
        columns,
        table.parameters(),
        said + table.flags,
        {"rule": table.asked.rule, **notes},
    )


def _refuse_small_panel(sums: Sums) -> None:
    cells = sums.pulls
    assert cells is not None  # noqa: S101 — the plan asks for it
    voted = cells.key[cells.sums[:, R_VOTES] > 0.0]
    n = len(np.unique(voted // sums.by_model.shape[1]))
    if n < MIN_REVIEWERS:
        raise UsageError(
            f"{n} reviewers are too few to speak for others; two-way needs {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )


def _flags(table: Table, sums: Sums) -> dict[str, int]:
    return {
        "sessions_with_one_candidate": int(sums.n_odd[0]),
        "sessions_without_a_weight": sums.n_unweighted,
        "sessions_of_several_categories": sums.mixed,
        "reviews_in_the_future": table.n_after(datetime.now(UTC).timestamp()),
    }


def _by_category(table: Table, sums: Sums, two_way: bool) -> dict[str, list[Any]]:
    """The rows of every category's own board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": [], **{name: [] for name in COLUMNS}}
    for at, name in enumerate(table.categories):
        part = rows_of(one_slice(sums, at), table.models, table.asked.rule, two_way=two_way)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(table: Table, plan: Plan) -> list[dict[str, Any]]:
    """Each week's own shares with their intervals, the oldest week first; weeks begin on Monday."""
    first = table.first_s()
    if first is None or table.latest is None:
        return []
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, table.latest))
    week = max(week, last - MAX_WEEKS + 1)
    weekly = replace(
        plan,
        n_slices=last - week + 1,
        periods=(week * WEEK_S + MONDAY_S, WEEK_S),
        by_category=False,
        pairs=False,
        lengths=False,
        scores=False,
        pulls=False,
        places=False,
    )
    sums = table.sums(weekly)
    points: list[dict[str, Any]] = []
    for at in range(weekly.n_slices):
        part = rows_of(one_slice(sums, at), table.models, "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        points += [
            {"week": start, **dict(zip(POINT, row, strict=True))}
            for row in zip(*(part[name] for name in POINT), strict=True)
        ]
    return points
