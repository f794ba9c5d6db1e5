"""The server: HTTP for programs, and the app that every other door is part of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from peerage.doors.http import (
    health_routes,
    metrics,
    people_routes,
    report_routes,
    session_routes,
    transfer_routes,
)
from peerage.doors.http.gate import AccessRules, Gate
from peerage.doors.http.health_routes import PanelCheck
from peerage.doors.http.limits import QueryNames
from peerage.doors.http.metrics import Metrics
from peerage.doors.http.problems import add_problem_handlers
from peerage.doors.http.report_routes import ReportCache
from peerage.doors.http.telemetry import Telemetry
from peerage.doors.http.webhooks import Webhooks, WebhookSettings
from peerage.service import Service

SUMMARY = "Peer review for language models: blind ballots, honest scores, audited reviewers."
ROUTERS: tuple[APIRouter, ...] = (
    health_routes.router,
    metrics.router,
    session_routes.router,
    report_routes.router,
    people_routes.router,
    transfer_routes.router,
)
MIN_GZIP_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Who may come in, and who is told of what happens."""

    rules: AccessRules = field(default_factory=AccessRules)
    webhooks: WebhookSettings | None = None
    telemetry: bool = False


def create_app(service: Service, settings: AppSettings | None = None) -> FastAPI:
    """The app of a service: it goes on with what was cut off, and ends with the service closed."""
    settings = settings or AppSettings()
    telemetry = Telemetry() if settings.telemetry else None
    webhooks = Webhooks(settings.webhooks) if settings.webhooks else None
    service.observers += [one.see for one in (telemetry, webhooks) if one is not None]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.resume()
        try:
            yield
        finally:
            await app.state.report_cache.close()
            await service.close()
            if webhooks is not None:
                await webhooks.close()
            if telemetry is not None:
                await asyncio.to_thread(telemetry.close)

    app = FastAPI(title="Peerage", summary=SUMMARY, version=version("peerage"), lifespan=lifespan)
    app.state.service = service
    app.state.panel_check = PanelCheck()
    app.state.report_cache = ReportCache(service)
    app.state.metrics = Metrics(service)
    add_problem_handlers(app)
    app.add_middleware(QueryNames)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES)
    app.add_middleware(Gate, service=service, rules=settings.rules)
    for router in ROUTERS:
        app.include_router(router)
    return app
