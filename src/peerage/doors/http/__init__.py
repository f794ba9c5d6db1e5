"""The server: HTTP for programs, and the app that contains all other routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from peerage.doors.demo_store import Demo
from peerage.doors.http import (
    access,
    adjudication_routes,
    data_routes,
    demo_routes,
    oidc,
    operations,
    panel_routes,
    people_routes,
    publish_routes,
    report_routes,
    season_routes,
    session_routes,
    team_routes,
)
from peerage.doors.http.access import TokenBook
from peerage.doors.http.gate import (
    AccessRules,
    BodyLimits,
    HeadAsGet,
    PreflightGate,
    QueryNames,
    RequestGate,
)
from peerage.doors.http.operations import Metrics, PanelCheck, StoreCheck
from peerage.doors.http.origins import let_pages_read
from peerage.doors.http.problems import add_problem_handlers
from peerage.doors.http.reply_models import openapi_document, operation_id
from peerage.doors.http.report_routes import ReportCache
from peerage.doors.http.telemetry import Telemetry, TraceParents
from peerage.doors.http.uploads import PendingFiles
from peerage.doors.http.webhooks import Webhooks, WebhookSettings
from peerage.doors.render.highlighting import close_highlighter
from peerage.doors.running_calls import RunningCalls
from peerage.hosted_seasons import SeasonHost
from peerage.service import Service

if TYPE_CHECKING:
    from mcp.server import MCPServer

SUMMARY = "Peer review for language models: blind ballots, honest scores, audited reviewers."
ROUTERS: tuple[APIRouter, ...] = (
    operations.router,
    access.router,
    session_routes.router,
    report_routes.router,
    people_routes.router,
    data_routes.router,
    adjudication_routes.router,
    panel_routes.router,
    season_routes.router,
    team_routes.router,
    publish_routes.router,
    demo_routes.router,
    oidc.router,
)
MIN_GZIP_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Access rules, webhooks, telemetry and limits of an app."""

    rules: AccessRules = field(default_factory=AccessRules)
    webhooks: WebhookSettings | None = None
    telemetry: bool = False
    body_limits: BodyLimits = field(default_factory=BodyLimits)
    public_url: str = ""  # the URL with which links to this server begin


def create_app(service: Service, settings: AppSettings | None = None) -> FastAPI:
    """Create the app of a service; it resumes interrupted sessions, and in the end closes it."""
    # Imported here, because these modules import this package.
    from peerage.doors.openai import router as openai_router
    from peerage.doors.openai.decision_routes import router as decision_router
    from peerage.doors.web import add_web_pages

    settings = settings or AppSettings()
    telemetry = Telemetry(service.settings.seats) if settings.telemetry else None
    webhooks = None
    if settings.webhooks:
        webhooks = Webhooks(settings.webhooks, service, public_url=settings.public_url)
    service.observers += [one.see for one in (telemetry, webhooks) if one is not None]
    calls = RunningCalls(service)
    mcp = _mcp_endpoint(service, calls)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if telemetry is not None:
                stack.push_async_callback(asyncio.to_thread, telemetry.close)
            stack.push_async_callback(asyncio.to_thread, close_highlighter)
            stack.push_async_callback(service.close)
            if webhooks is not None:
                webhooks.start()
                stack.push_async_callback(webhooks.close)
            stack.push_async_callback(service.drain)
            stack.push_async_callback(app.state.store_check.close)
            stack.push_async_callback(app.state.report_cache.close)
            stack.push_async_callback(app.state.running_calls.close)
            if mcp is not None:
                await stack.enter_async_context(mcp.server.session_manager.run())
            stack.push_async_callback(app.state.season_host.close)
            stack.push_async_callback(app.state.demo.close)
            stack.callback(app.state.pending_files.close)
            await service.resume()
            await app.state.season_host.resume()
            yield

    app = FastAPI(
        title="Peerage",
        summary=SUMMARY,
        version=version("peerage"),
        lifespan=lifespan,
        docs_url=None,  # the usual pages load scripts from other hosts
        redoc_url=None,
        generate_unique_id_function=operation_id,
    )
    document = cache(partial(openapi_document, app, needs_token=settings.rules.needs_token))
    app.openapi = document  # type: ignore[method-assign]
    app.add_api_route("/docs", lambda: document(), include_in_schema=False)
    app.state.service = service
    app.state.season_host = SeasonHost(service)
    app.state.pending_files = PendingFiles()
    app.state.demo = Demo()
    app.state.panel_check = PanelCheck()
    app.state.store_check = StoreCheck()
    app.state.report_cache = ReportCache(service)
    app.state.metrics = Metrics(service)
    app.state.running_calls = calls
    add_problem_handlers(app)
    app.add_middleware(QueryNames)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES)
    app.state.access_rules = settings.rules
    app.add_middleware(HeadAsGet)
    app.state.oidc = None
    if service.configured.oidc.issuer:
        app.state.oidc = oidc.OidcProvider(service.configured.oidc)
        app.state.oidc.check()
    book = app.state.token_book = TokenBook(service)
    app.add_middleware(
        RequestGate,
        service=service,
        rules=settings.rules,
        book=book,
        body_limits=settings.body_limits,
    )
    let_pages_read(app, sorted(settings.rules.origins))
    if settings.rules.origins:
        app.add_middleware(PreflightGate, rules=settings.rules)
    if telemetry is not None:
        app.add_middleware(TraceParents)
    for router in (*ROUTERS, openai_router, decision_router):
        app.include_router(router)
    add_web_pages(app, service)
    if mcp is not None:
        app.router.routes.append(Route("/mcp", endpoint=mcp))
    return app


class McpEndpoint:
    """An ASGI app that passes requests on to an MCP server if the client may run sessions."""

    def __init__(self, server: MCPServer) -> None:
        from mcp.server.transport_security import TransportSecuritySettings

        self.server = server
        # The app checks hosts and origins itself.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        server.streamable_http_app(transport_security=security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await access.require_scope("run")(HTTPConnection(scope))
        await self.server.session_manager.handle_request(scope, receive, send)


def _mcp_endpoint(service: Service, calls: RunningCalls) -> McpEndpoint | None:
    """Return the MCP server of a service, or None if its extra is not installed."""
    try:
        from peerage.doors.mcp import create_server
    except ModuleNotFoundError:
        return None
    return McpEndpoint(create_server(service, calls))
