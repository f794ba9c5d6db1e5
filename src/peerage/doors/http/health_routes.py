"""Whether the server is alive, and whether its panel answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from peerage.doors.cli.setup_commands import answers
from peerage.doors.http.access import Serving
from peerage.doors.http.problems import problem
from peerage.service import Service
from peerage.tasks import together

READY_FOR_S = 60.0  # a check is good for so long

router = APIRouter(tags=["operations"])


@dataclass(slots=True)
class PanelCheck:
    """Which seats answered when they were last asked; asked again when that is old."""

    at: float = float("-inf")
    answering: dict[str, bool] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def problem_of(self, service: Service) -> str:
        """Why no session could be held now; nothing where one could."""
        if service.closing:
            return "the server is shutting down."
        async with self.turn:
            if time.monotonic() - self.at > READY_FOR_S:
                await self._ask(service)
        settings = service.settings
        answering = [seat for seat in settings.seats_that("answer") if self.answering[seat.name]]
        if len(answering) < settings.quorum:
            return f"{len(answering)} of {settings.quorum} seats that a session needs answer."
        chair = settings.chair
        if chair is not None and not self.answering[chair.name]:
            return f"the chair {chair.name} does not answer."
        return ""

    async def _ask(self, service: Service) -> None:
        seats, caller = service.settings.seats, service.council.caller
        found = await service.call(together(answers(caller, seat) for seat in seats))
        self.answering = {seat.name: ok for seat, ok in zip(seats, found, strict=True)}
        self.at = time.monotonic()


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Whether the server runs; always quick."""
    return {"status": "ok"}


@router.get("/readyz")
async def ready(service: Serving, request: Request) -> Response:
    """Whether the chair and a quorum of seats answer; asked at most once a minute."""
    check: PanelCheck = request.app.state.panel_check
    wrong = await check.problem_of(service)
    if wrong:
        return problem(503, wrong, {"Retry-After": str(int(READY_FOR_S))})
    return JSONResponse({"status": "ready", "seats": check.answering})
