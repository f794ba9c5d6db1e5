"""The server: HTTP for programs, and the app that every other door is part of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from peerage.doors import openai
from peerage.doors.http import health_routes, session_routes
from peerage.doors.http.health_routes import PanelCheck
from peerage.doors.http.limits import QueryNames
from peerage.doors.http.problems import add_problem_handlers
from peerage.service import Service

if TYPE_CHECKING:
    from peerage.doors.mcp import McpEndpoint

SUMMARY = "Peer review for language models: blind ballots, honest scores, audited reviewers."
ROUTERS: tuple[APIRouter, ...] = (health_routes.router, session_routes.router, openai.router)
MIN_GZIP_BYTES = 1_000


def create_app(service: Service) -> FastAPI:
    """The app of a service: it goes on with what was cut off, and ends with the service closed."""
    from peerage.doors.web import add_web_pages  # its routes stand on the modules beside this one

    mcp = _mcp_endpoint(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(service.close)
            if mcp is not None:
                await stack.enter_async_context(mcp.server.session_manager.run())
            await service.resume()
            yield

    app = FastAPI(title="Peerage", summary=SUMMARY, version=version("peerage"), lifespan=lifespan)
    app.state.service = service
    app.state.panel_check = PanelCheck()
    add_problem_handlers(app)
    app.add_middleware(QueryNames)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES)
    for router in ROUTERS:
        app.include_router(router)
    add_web_pages(app, service)
    if mcp is not None:
        app.router.routes.append(Route("/mcp", endpoint=mcp))
    return app


def _mcp_endpoint(service: Service) -> McpEndpoint | None:
    """The MCP server of a service, where the extra that it needs is installed."""
    try:
        from peerage.doors.mcp import create_server, http_endpoint
    except ModuleNotFoundError:
        return None
    return http_endpoint(create_server(service))
