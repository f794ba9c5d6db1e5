"""The demo: a simulated season with planted faults, and a page that shows which were found."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.cli.demo import N_SESSIONS, PLANTS
from peerage.doors.demo_store import Demo
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.publish_routes import read_only
from peerage.doors.render.phrases import finding_value
from peerage.doors.render.publishing import Publication, published_page
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/demo", dependencies=[READ]
)

ALL = Publication("board", people=True, title="The demo")
PLANTED = {  # what is wrong with a reviewer, in words; by the option of its seat
    "position_bias": "gives {:g} points too much to the answer that it is shown first",
    "self_bias": "gives {:g} points too much to its own answers",
}
METRICS = {"position_bias": "position", "self_bias": "self_preference"}


@router.get("")
async def show_demo(request: Request, service: Serving) -> Response:
    """Show the demo: a button, its progress, or the planted faults and the findings."""
    demo: Demo = request.app.state.demo
    values: dict[str, Any] = {"facts": None}
    if demo.is_done and demo.reports is not None:
        values["facts"] = await service.read(demo_facts, demo.reports)
    return page(request, "demo.html", here="/", demo=demo, n_demo=N_SESSIONS, **values)


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
    faults = []
    for name, options in PLANTS.items():
        for option, words in PLANTED.items():
            if option in options:
                metric = METRICS[option]
                findings = [
                    one
                    for one in audit.findings
                    if one.metric.startswith(metric) and one.subject == name
                ]
                faults.append(
                    {
                        "name": name,
                        "words": words.format(options[option]),
                        "found": [(one, finding_value(one)) for one in findings],
                    }
                )
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
