"""Each reviewer's tastes: by model, how far its scores depart from those of the other reviewers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from peerage.doors.render.layout import Strip, TableColumn, TextTable
from peerage.doors.render.phrases import NOTHING, signed_figure
from peerage.errors import how_many
from peerage.findings import AuditTastes, Departure

MAX_JUDGES = 12  # reviewers in a chart
MAX_MODELS = 16  # models of each reviewer
BAND = 2.0  # 19 of 20 tastes lie within this many spreads on either side of zero


class JudgeTastes(NamedTuple):
    """One reviewer's departures, highest first; how many are not drawn, and which are unknown."""

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
    """Return reviewers with a known departure, by name, with at most `max_lines` models each.

    If there are more models, the largest departures and that of its own answers are kept.
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
    """Return how many models cannot be measured, and why; "" if there are none."""
    if not departures:
        return ""
    reasons = sorted({one.note for one in departures if one.note})
    return f"{how_many(len(departures), 'model')} cannot be measured: {'; '.join(reasons)}"


def taste_ends(judges: Sequence[JudgeTastes], spread: float) -> tuple[float, float]:
    """Return a scale around zero that fits the usual tastes, all values and most intervals.

    A very wide interval is clipped, because it would compress everything else.
    """
    lines = [one for judge in judges for one in judge.lines]
    values = [abs(one.value or 0.0) for one in lines]
    edges = [abs(edge) for one in lines for edge in (one.low, one.high) if edge is not None]
    inner = 1.1 * max([BAND * spread, *values])
    end = min(max([inner, *edges]), 2.0 * inner) or 1.0
    return -end, end


def tastes_key(tastes: AuditTastes, drawn: bool) -> str:
    """Return a legend for tastes: what the numbers and the points mean."""
    points = "● a model, ◆ the reviewer's own answers. " if drawn else ""
    return (
        f"{points}0 is the mean of the other reviewers on the same answers; 1 is one standard "
        f"deviation of the reviewer's scores, and {spread_words(tastes)}."
    )


def spread_words(tastes: AuditTastes) -> str:
    """Return the spread of tastes, as part of a sentence."""
    if tastes.spread_status == "assumed":
        return (
            f"the spread of tastes is assumed to be {tastes.spread:.2f} (too few pairs to measure)"
        )
    return f"the usual spread of tastes is {tastes.spread:.2f}"


def tastes_table(tastes: AuditTastes, judges: Sequence[JudgeTastes]) -> TextTable:
    """Return a row per reviewer: departures as points on one scale, own answers marked."""
    ends = taste_ends(judges, tastes.spread)
    table = TextTable(
        TableColumn("reviewer", "name"),
        TableColumn(f"{_taste_value(ends[0])} to {_taste_value(ends[1])}", "drawing", use=1),
        TableColumn("own ◆"),
        TableColumn("others"),
        TableColumn("likes most", "name", use=2),
        title="Tastes: how far each reviewer scores a model above or below the others",
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
