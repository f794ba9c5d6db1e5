"""Charts below the board of models: cost and speed against quality, and spend by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from peerage.doors.render.pages import Axis, axis_around
from peerage.reports.page_facts import ModelFacts
from peerage.stores import SessionEntry

MAX_POINTS = 60  # of a scatter; more names would cover each other
MAX_DAYS = 60
NAME_HEIGHT, NAME_WIDTH = 5.5, 45.0  # percent of the chart that a name takes


class ScatterPoint(NamedTuple):
    """A model in a scatter: its price or time, and its share."""

    model: str
    x: float
    y: float
    on_frontier: bool  # no other model is both cheaper (or faster) and better
    is_named: bool = False  # its name has room beside it


class Scatter(NamedTuple):
    """Models by what they take and how they do; the frontier from the cheapest up."""

    points: Sequence[ScatterPoint]
    across: Axis
    up: Axis
    frontier: Sequence[ScatterPoint]


def scatter(
    rows: Iterable[Mapping[str, Any]], value: Callable[[ModelFacts], float | None]
) -> Scatter | None:
    """Return the ranked models by a fact and their share; None where fewer than two have both."""
    known = [
        (row["model"], x, row["share"])
        for row in rows
        if row["share"] is not None and (x := value(row["facts"])) is not None
    ][:MAX_POINTS]
    if len(known) < 2:
        return None
    points = [
        ScatterPoint(
            name, x, y, not any((a < x and b >= y) or (a <= x and b > y) for _, a, b in known)
        )
        for name, x, y in known
    ]
    across, up = axis_around([0.0, *(p.x for p in points)]), axis_around(p.y for p in points)
    points = _with_names(points, across, up)
    frontier = sorted((p for p in points if p.on_frontier), key=lambda p: (p.x, p.y))
    return Scatter(points, across, up, frontier)


def _with_names(points: Sequence[ScatterPoint], across: Axis, up: Axis) -> list[ScatterPoint]:
    """Name the points whose names do not cover each other, those of the frontier first."""
    named: list[ScatterPoint] = []
    for point in sorted(points, key=lambda one: not one.on_frontier):
        near = (
            abs(up.x(point.y) - up.x(one.y)) < NAME_HEIGHT
            and abs(across.x(point.x) - across.x(one.x)) < NAME_WIDTH
            for one in named
        )
        if not any(near):
            named.append(point)
    return [point._replace(is_named=point in named) for point in points]


class DaySpend(NamedTuple):
    """The cost of the sessions of one day (UTC), and the height of its bar in percent."""

    day: str
    usd: float
    n_sessions: int
    percent: float


def spend_by_day(sessions: Iterable[SessionEntry]) -> list[DaySpend]:
    """Return the cost of each day that has sessions, the oldest first."""
    spent: dict[str, list[float]] = defaultdict(list)
    for one in sessions:
        spent[f"{datetime.fromtimestamp(one.opened_at, UTC):%Y-%m-%d}"].append(one.cost_usd or 0.0)
    sums = {day: sum(costs) for day, costs in sorted(spent.items())[-MAX_DAYS:]}
    most = max(sums.values(), default=0.0)
    return [
        DaySpend(day, usd, len(spent[day]), 100 * usd / most if most else 0.0)
        for day, usd in sums.items()
    ]
