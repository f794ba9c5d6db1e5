"""The demo: a simulated season with planted faults, and a page that shows which were found."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.demo_store import N_SESSIONS
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.demo_routes import HeldDemo
from peerage.doors.http.publish_routes import read_only
from peerage.doors.render.pages import PageLink
from peerage.doors.render.publishing import Publication, published_page
from peerage.doors.web.judge_pages import finding_bars
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/demo", dependencies=[READ]
)

ALL = Publication("board", people=True, title="The demo")
AROUND = (PageLink("/demo", "← Back to the demo’s guide"), PageLink("/", "Peerage’s first page"))


@router.get("")
async def show_demo(request: Request, service: Serving, demo: HeldDemo) -> Response:
    """Show the demo: a button, its progress, or the planted faults and the findings."""
    results = await service.read(demo.results)
    return page(
        request,
        "demo.html",
        here="/settings",
        demo=demo,
        n_demo=N_SESSIONS,
        results=results,
        bars=finding_bars(results.findings) if results else [],
    )


@router.post("", dependencies=[RUN])
async def start(demo: HeldDemo) -> Response:
    """Start the demo, in its own store."""
    await demo.start()
    return RedirectResponse("/demo", 303)


@router.post("/delete", dependencies=[RUN])
async def delete(demo: HeldDemo) -> Response:
    """Delete the demo and its store."""
    await demo.close()
    return RedirectResponse("/demo", 303)


@router.get("/{path:path}")
async def demo_page(service: Serving, demo: HeldDemo, path: str) -> Response:
    """Show a page of the demo's store: its board, audit or a session."""
    if not demo.is_done or demo.reports is None:
        raise NotFoundError("the demo has not run yet.", hint="Start it on the page /demo.")
    return read_only(await service.read(published_page, demo.reports, ALL, path, AROUND))
