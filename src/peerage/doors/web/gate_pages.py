"""The gate: the verdict on a candidate and its base, with the running interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.render.gate_views import (
    MEASURES,
    N_SESSIONS,
    chart_ends,
    error_rates,
    reasons,
    shown_tables,
    verdict_sentence,
)
from peerage.doors.web.templating import PageRoute, kept_page
from peerage.errors import PeerageError, how_many
from peerage.reports.gate_results import GateResult, GateResults, MeasureResult
from peerage.reports.options import GateOptions
from peerage.reports.page_facts import questions_of, stored_rows
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

METRICS = (
    ("share", "rivals beaten"),
    ("mark", "mean mark"),
    ("dimension", "marks by dimension"),
    ("correct", "correct answers"),
)
BADGES = {"better": "good", "same": "good", "not_worse": "good", "undecided": ""}
N_TICKS = 5


@router.get("/gate")
async def gate(
    request: Request,
    service: Serving,
    base: str = "",
    candidate: str = "",
    metric: str = "share",
    margin: str = "0.1",
    season: str = "",
    on: str = "",
) -> Response:
    """Show the form, and the verdict if two models are named."""
    form = {"base": base, "candidate": candidate, "metric": metric, "margin": margin}
    form |= {"season": season, "on": on}

    def make() -> dict[str, Any]:
        return {"address": "", "form": form, **_form_choices(service), **_verdict(service, form)}

    return await kept_page(request, "gate.html", "/boards/models", make)


def _form_choices(service: Service) -> dict[str, Any]:
    """Return the choices of the form's fields."""
    rows = stored_rows(service.reports)
    if rows is None:
        return {"models": [], "categories": [], "seasons": [], "metrics": METRICS}
    return {
        "models": [rows.names[code] for code in np.unique(rows.candidate).tolist()],
        "categories": rows.labels_there("category"),
        "seasons": rows.labels_there("season"),
        "metrics": METRICS,
    }


def _verdict(service: Service, form: dict[str, str]) -> dict[str, Any]:
    """Return the verdict with its evidence, or the reason why there is none."""
    if not (form["base"] and form["candidate"]):
        return {"result": None, "problem": ""}
    try:
        chosen = {**form, "season": form["season"] or None, "on": form["on"] or None}
        result = service.reports.gate(GateOptions.of(chosen))
    except PeerageError as error:
        return {"result": None, "problem": f"{error.message} {error.hint}".strip()}
    if isinstance(result, GateResults):
        several = "Name one candidate. Several are compared by peerage gate, or /api/gate."
        return {"result": None, "problem": several}
    margin = float(result.bar["margin"])
    return {
        "result": result,
        "problem": "",
        "badge": "bad" if result.fails else BADGES[result.decision.verdict],
        "sentence": _without_verdict(verdict_sentence(result)),
        "reasons": [*reasons(result), error_rates(result)],
        "charts": [running_interval(one, margin) for one in result.measures],
        "tables": [
            (title[:1].upper() + title[1:], some)
            for title, some in shown_tables(result, all_clear=True)
        ],
        "questions": _questions(service, result),
    }


def _without_verdict(sentence: str) -> str:
    """Return a sentence without its verdict, which is shown as a badge."""
    rest = sentence.removeprefix("Undecided: ")
    return rest[:1].upper() + rest[1:] if rest != sentence else sentence


def _questions(service: Service, result: GateResult) -> dict[str, str]:
    """Return the questions of these sessions, by session."""
    shown = (query for _, some in shown_tables(result, all_clear=True) for query in some)
    ids = {one for query in shown for one in query.sessions[:N_SESSIONS]}
    return questions_of(service.store, sorted(ids))


# -- the chart -------------------------------------------------------------------------------------


class RunningInterval(NamedTuple):
    """The interval at some of the looks, as points in percent of the chart's width and height."""

    title: str
    summary: str  # of the chart, for screen readers
    band: Sequence[tuple[float, float]]  # outline: the upper ends, then the lower ones in reverse
    means: Sequence[tuple[float, float]]
    heights: Sequence[tuple[str, float]]  # the labels of the vertical axis
    margins: tuple[float, float]
    ticks: Sequence[tuple[int, float]]  # the numbers of queries on the horizontal axis
    decided_at: float | None


def running_interval(one: MeasureResult, margin: float) -> RunningInterval:
    """Return a measure's looks as a chart; wide intervals of the first looks may be cut off."""
    reach = chart_ends(one.looks, margin)
    last = one.looks[-1]

    def x(n: int) -> float:
        return round(100 * (n - 1) / max(last.n - 1, 1), 2) if last.n > 1 else 50.0

    def y(value: float) -> float:
        return round(50 - 50 * max(-1.0, min(1.0, value / reach)), 2)

    upper = [(x(look.n), y(look.high)) for look in one.looks]
    lower = [(x(look.n), y(look.low)) for look in one.looks]
    steps = np.unique(np.linspace(1, last.n, min(N_TICKS, last.n)).round().astype(int)).tolist()
    after = one.decision.after
    return RunningInterval(
        MEASURES.get(one.measure, one.measure),
        f"After {how_many(last.n, 'query', 'queries')} the difference is {one.difference:+.3f}, "
        f"from {one.low:+.3f} to {one.high:+.3f}.",
        [*upper, *reversed(lower)],
        [(x(look.n), y(look.mean)) for look in one.looks],
        [(f"{value:+g}" if value else "0", y(value)) for value in (reach, 0.0, -reach)],
        (y(margin), y(-margin)),
        [(n, x(n)) for n in steps],
        None if after is None else x(after),
    )
