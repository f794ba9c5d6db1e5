"""The server: HTTP for programs, and the app that every other door is part of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from peerage.doors.http import health_routes, session_routes
from peerage.doors.http.health_routes import PanelCheck
from peerage.doors.http.limits import QueryNames
from peerage.doors.http.problems import add_problem_handlers
from peerage.service import Service

SUMMARY = "Peer review for language models: blind ballots, honest scores, audited reviewers."
ROUTERS: tuple[APIRouter, ...] = (health_routes.router, session_routes.router)
MIN_GZIP_BYTES = 1_000


def create_app(service: Service) -> FastAPI:
    """The app of a service: it goes on with what was cut off, and ends with the service closed."""
    from peerage.doors.web import add_web_pages  # its routes stand on the modules beside this one

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.resume()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(title="Peerage", summary=SUMMARY, version=version("peerage"), lifespan=lifespan)
    app.state.service = service
    app.state.panel_check = PanelCheck()
    add_problem_handlers(app)
    app.add_middleware(QueryNames)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES)
    for router in ROUTERS:
        app.include_router(router)
    add_web_pages(app, service)
    return app
