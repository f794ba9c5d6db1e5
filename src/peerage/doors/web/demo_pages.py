"""The demo: a simulated season with planted faults, and a page that shows which were found."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.demo_store import N_SESSIONS, PLANTS, Demo
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.publish_routes import read_only
from peerage.doors.render.publishing import Publication, published_page
from peerage.doors.web.judge_pages import finding_bars
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/demo", dependencies=[READ]
)

ALL = Publication("board", people=True, title="The demo")


class Plant(NamedTuple):
    """A fault of a simulated reviewer: the question, the fault in words, and its metric."""

    question: str
    words: str
    metric: str


PLANTED = {  # by the option of a simulated seat
    "self_bias": Plant(
        "Which judge favours itself?",
        "gives {:g} points too much to its own answers",
        "self_preference",
    ),
    "position_bias": Plant(
        "Which judge favours the answer that it is shown first?",
        "gives {:g} points too much to the answer that it is shown first",
        "position",
    ),
}


@router.get("")
async def show_demo(request: Request, service: Serving) -> Response:
    """Show the demo: a button, its progress, or the planted faults and the findings."""
    demo: Demo = request.app.state.demo
    values: dict[str, Any] = {"facts": None}
    if demo.is_done and demo.reports is not None:
        values["facts"] = await service.read(demo_facts, demo.reports)
    return page(request, "demo.html", here="/settings", demo=demo, n_demo=N_SESSIONS, **values)


@router.post("", dependencies=[RUN])
async def start(request: Request) -> Response:
    """Start the demo, in its own store."""
    await request.app.state.demo.start()
    return RedirectResponse("/demo", 303)


@router.post("/delete", dependencies=[RUN])
async def delete(request: Request) -> Response:
    """Delete the demo and its store."""
    await request.app.state.demo.close()
    return RedirectResponse("/demo", 303)


@router.get("/{path:path}")
async def demo_page(request: Request, service: Serving, path: str) -> Response:
    """Show a page of the demo's store: its board, audit or a session."""
    demo: Demo = request.app.state.demo
    if not demo.is_done or demo.reports is None:
        raise NotFoundError("the demo has not run yet.", hint="Start it on the page /demo.")
    return read_only(await service.read(published_page, demo.reports, ALL, path))


def demo_facts(reports: Reports) -> dict[str, Any]:
    """Return the planted faults, and what the board and the audit found."""
    board = reports.board(ModelBoardOptions(since="all"))
    audit = reports.audit(AuditOptions(since="all"))
    ranked = [row["model"] for row in board.rows]
    truth = sorted(PLANTS, key=lambda name: -PLANTS[name]["quality"])
    bars = finding_bars(audit.findings)
    faults = [
        {
            "question": plant.question,
            "name": name,
            "words": plant.words.format(options[option]),
            "bars": [
                bar
                for bar in bars
                if bar.finding.metric == plant.metric
                and bar.finding.subject == name
                and bar.finding.value is not None
            ],
        }
        for option, plant in PLANTED.items()
        for name, options in PLANTS.items()
        if option in options
    ]
    accused = {
        one.subject for one in audit.findings if one.status == "evidence" and one.subject in PLANTS
    }
    fair = [name for name in PLANTS if not set(PLANTED) & set(PLANTS[name])]
    return {
        "truth": truth,
        "board": ranked,
        "faults": faults,
        "fair": fair,
        "wrongly": sorted(accused & set(fair)),
        "rows": board.rows,
    }
