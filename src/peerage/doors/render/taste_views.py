"""Each reviewer's tastes: how far it departs from the others on every model, its own marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from peerage.doors.render.layout import Strip, TableColumn, TextTable
from peerage.doors.render.phrases import NOTHING, signed_figure
from peerage.errors import how_many
from peerage.types import AuditTastes, Departure

MAX_JUDGES = 12  # that are drawn
MAX_MODELS = 16  # of each
BAND = 2.0  # spreads either side of zero that hold 19 of 20 tastes


class JudgeTastes(NamedTuple):
    """One reviewer's departures, the highest first, and what could not be told or is not drawn."""

    reviewer: str
    lines: Sequence[Departure]
    n_left_out: int
    untold: str

    @property
    def own(self) -> Departure | None:
        return next((one for one in self.lines if one.own), None)

    @property
    def others(self) -> list[Departure]:
        return [one for one in self.lines if not one.own]


def tastes_by_judge(tastes: AuditTastes | None, max_lines: int | None = None) -> list[JudgeTastes]:
    """Reviewers of whom a departure is known, by name, with at most so many models each.

    Of many models those stay that depart most, and always a reviewer's own answers.
    """
    by_reviewer: dict[str, list[Departure]] = defaultdict(list)
    for one in () if tastes is None else tastes.departures:
        by_reviewer[one.reviewer].append(one)
    judges = []
    for reviewer, departures in sorted(by_reviewer.items()):
        known = [one for one in departures if one.value is not None]
        known.sort(key=lambda one: (not one.own, -abs(one.value or 0.0)))
        if known:
            lines = sorted(known[:max_lines], key=lambda one: -(one.value or 0.0))
            untold = _untold([one for one in departures if one.value is None])
            judges.append(JudgeTastes(reviewer, lines, len(known) - len(lines), untold))
    return judges


def _untold(departures: Sequence[Departure]) -> str:
    """Return how many models cannot be judged, and why; "" if there are none."""
    if not departures:
        return ""
    reasons = sorted({one.note for one in departures if one.note})
    return f"{how_many(len(departures), 'model')} cannot be told: {'; '.join(reasons)}"


def taste_ends(judges: Sequence[JudgeTastes], spread: float) -> tuple[float, float]:
    """Return a scale around zero that holds the usual tastes, all values and most intervals.

    A very wide interval is cut at its end, because it would squeeze everything else.
    """
    lines = [one for judge in judges for one in judge.lines]
    values = [abs(one.value or 0.0) for one in lines]
    edges = [abs(edge) for one in lines for edge in (one.low, one.high) if edge is not None]
    inner = 1.1 * max([BAND * spread, *values])
    end = min(max([inner, *edges]), 2.0 * inner) or 1.0
    return -end, end


def tastes_key(tastes: AuditTastes, drawn: bool) -> str:
    """Return what the numbers of tastes mean and, if they are drawn, the points."""
    points = "● a model, ◆ the reviewer's own answers. " if drawn else ""
    return (
        f"{points}0 is the others' view of the same answers; 1 is a standard deviation of the "
        f"reviewer's scores, and {spread_words(tastes)}."
    )


def spread_words(tastes: AuditTastes) -> str:
    """Return how much tastes scatter, as part of a sentence."""
    if tastes.spread_status == "assumed":
        return f"tastes are assumed to scatter by {tastes.spread:.2f} (too few pairs to measure)"
    return f"tastes usually scatter by {tastes.spread:.2f}"


def tastes_table(tastes: AuditTastes, judges: Sequence[JudgeTastes]) -> TextTable:
    """Return a line for each reviewer: departures as points on one scale, own answers marked."""
    ends = taste_ends(judges, tastes.spread)
    table = TextTable(
        TableColumn("reviewer", "name"),
        TableColumn(f"{_taste_value(ends[0])} to {_taste_value(ends[1])}", "drawing", use=1),
        TableColumn("own ◆"),
        TableColumn("others"),
        TableColumn("likes most", "name", use=2),
        title="Tastes: how far above or below the others on each model",
    )
    for judge in judges:
        own, others = judge.own, judge.others
        between = (
            f"{_taste_value(others[-1].value)} … {_taste_value(others[0].value)}"
            if others
            else NOTHING
        )
        points = [one.value or 0.0 for one in others]
        strip = Strip(points, None if own is None else own.value, ends)
        most = others[0].candidate if others else NOTHING
        table.add(judge.reviewer, strip, _taste_value(own.value if own else None), between, most)
    return table


def _taste_value(value: float | None) -> str:
    return NOTHING if value is None else signed_figure(value, digits=2)
