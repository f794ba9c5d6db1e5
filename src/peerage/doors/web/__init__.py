"""The web pages, in addition to the HTTP routes: no build step, no requests to other hosts."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from peerage.doors.web import (
    board_pages,
    compare_pages,
    curation_pages,
    demo_pages,
    gate_pages,
    home_pages,
    judge_pages,
    model_pages,
    panel_pages,
    people_pages,
    publish_pages,
    ring_pages,
    season_pages,
    session_pages,
    team_pages,
    transfer_pages,
)
from peerage.doors.web.live_sessions import LiveSessions
from peerage.doors.web.templating import error_page
from peerage.service import Service

PAGES = (
    gate_pages,
    *(home_pages, session_pages, compare_pages, board_pages, model_pages, ring_pages),
    *(judge_pages, people_pages, panel_pages, season_pages, team_pages, curation_pages),
    *(publish_pages, transfer_pages, demo_pages),
)
A_DAY = {"Cache-Control": "public, max-age=86400"}


class OwnFiles(StaticFiles):
    """The static files of the pages, which change only with the installation."""

    def file_response(self, *args: object, **options: object) -> Response:
        response = super().file_response(*args, **options)  # type: ignore[arg-type]
        response.headers.update(A_DAY)
        return response


def add_web_pages(app: FastAPI, service: Service) -> None:
    """Add the pages to the app of a service."""
    app.state.live_sessions = LiveSessions(service)
    app.state.page_of_problem = error_page
    style = Path(str(files("peerage.doors.render").joinpath("templates/style.css")))

    @app.get("/static/style.css", include_in_schema=False)
    def stylesheet() -> Response:
        """Return the stylesheet that these pages and exported pages share."""
        return FileResponse(style, media_type="text/css", headers=A_DAY)

    app.mount("/static", OwnFiles(packages=[("peerage.doors.web", "static")]), name="static")
    for pages in PAGES:
        app.include_router(pages.router)
