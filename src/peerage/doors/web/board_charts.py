"""Charts below the board of models: cost and speed against quality, and spend by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich.cells import cell_len

from peerage.doors.render.model_names import clear_names
from peerage.doors.render.pages import Axis, axis_around
from peerage.reports.page_facts import ModelFacts
from peerage.stores import SessionEntry

MAX_POINTS = 60  # in a scatter chart; the names of more would cover each other
MAX_DAYS = 60
MAX_NAME = 18  # characters of a name in a scatter
# Sizes in percent of a phone's chart: the height of a line, the width of a character and of a dot.
LINE, CHARACTER, DOT = 5.5, 2.2, 3.0


class ScatterPoint(NamedTuple):
    """A model in a scatter chart: its price or time, and its share."""

    model: str
    x: float
    y: float
    on_frontier: bool  # no other model is both cheaper (or faster) and better
    side: str = ""  # the side of the dot where its name has room: right, left, or none


class Scatter(NamedTuple):
    """Models by price or time and by share; the frontier begins with the cheapest or fastest."""

    points: Sequence[ScatterPoint]
    across: Axis
    up: Axis
    frontier: Sequence[ScatterPoint]
    short: Mapping[str, str]  # names, short enough for the chart


def scatter(
    rows: Iterable[Mapping[str, Any]], value: Callable[[ModelFacts], float | None]
) -> Scatter | None:
    """Return the ranked models as a chart of a fact against their share.

    The result is None if fewer than two models have both values, or if the fact is 0 for all.
    """
    known = [
        (row["model"], x, row["share"])
        for row in rows
        if row["share"] is not None and (x := value(row["facts"])) is not None
    ][:MAX_POINTS]
    if len(known) < 2 or not any(x for _, x, _ in known):
        return None
    points = [
        ScatterPoint(
            name, x, y, not any((a < x and b >= y) or (a <= x and b > y) for _, a, b in known)
        )
        for name, x, y in known
    ]
    across, up = axis_around([0.0, *(p.x for p in points)]), axis_around(p.y for p in points)
    short = clear_names([name for name, _, _ in known], MAX_NAME)
    points = _place_names(points, across, up, short)
    frontier = sorted((p for p in points if p.on_frontier), key=lambda p: (p.x, p.y))
    return Scatter(points, across, up, frontier, short)


class Box(NamedTuple):
    """A rectangle of a chart, in percent."""

    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def _place_names(
    points: Sequence[ScatterPoint], across: Axis, up: Axis, short: Mapping[str, str]
) -> list[ScatterPoint]:
    """Place the names of the points so that they cover no dot, no other name and no edge.

    Names of models on the frontier are placed first. A name without room is only in the tooltip.
    """
    middles = {point.model: (across.x(point.x), 100 - up.x(point.y)) for point in points}
    dots = {
        model: Box(x - DOT / 2, x + DOT / 2, y - DOT / 2, y + DOT / 2)
        for model, (x, y) in middles.items()
    }
    taken: list[Box] = []
    sides: dict[str, str] = {}
    for point in sorted(points, key=lambda one: not one.on_frontier):
        x, y = middles[point.model]
        width = CHARACTER * cell_len(short[point.model])
        lines = y - LINE / 2, y + LINE / 2
        boxes = {
            "right": Box(x + DOT, x + DOT + width, *lines),
            "left": Box(x - DOT - width, x - DOT, *lines),
        }
        others = [*taken, *(box for model, box in dots.items() if model != point.model)]
        for side, box in boxes.items():
            if box.left >= 0 and box.right <= 100 and not any(map(box.meets, others)):
                taken.append(box)
                sides[point.model] = side
                break
    return [point._replace(side=sides.get(point.model, "")) for point in points]


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
