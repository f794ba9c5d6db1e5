"""Boards, audits and rings over HTTP: the command line's JSON, under its options and an ETag."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.reports.options import (
    AuditOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)
from peerage.service import Service
from peerage.tasks import end
from peerage.text import json_text
from peerage.types import Documented

router = APIRouter(prefix="/api", tags=["reports"], responses=RESPONSES, dependencies=[READ])

MAX_KEPT_BYTES = 64_000_000
MAX_AT_ONCE = 2  # reports that are computed; the others wait


Make = Callable[[Any], Documented]


class ReportCache:
    """Reports as they were sent last, each under a tag of the store's state and its options.

    The tag is known without computing anything; a report that several ask for is computed once.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings.model_dump_json()
        self._salt = hashlib.sha256(f"{version('peerage')} {settings}".encode()).hexdigest()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._turn = asyncio.Semaphore(MAX_AT_ONCE)

    async def tag(self, name: str, options: BaseModel) -> str:
        """The ETag of a report as it would be now."""
        state = await self.service.read(self.service.store.version)
        text = f"{self._salt} {state} {name} {options.model_dump_json()}"
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'

    async def report(self, tag: str, make: Make, options: BaseModel) -> bytes:
        """The JSON of a report, from the last time if nothing has changed since."""
        if tag in self._kept:
            self._kept.move_to_end(tag)
            return self._kept[tag]
        if tag not in self._making:
            task = self._making[tag] = asyncio.create_task(self._make(tag, make, options))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._making[tag])

    async def _make(self, tag: str, make: Make, options: BaseModel) -> bytes:
        def compute() -> bytes:
            return json_text(make(options).document()).encode()

        try:
            async with self._turn:
                made = await self.service.read(compute)
        finally:
            del self._making[tag]
        self._kept[tag] = made
        while sum(map(len, self._kept.values())) > MAX_KEPT_BYTES and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return made

    async def close(self) -> None:
        await end(self._making.values())


async def _answer(request: Request, name: str, make: Make, options: BaseModel) -> Response:
    """A report, or that the client's copy is still good."""
    cache: ReportCache = request.app.state.report_cache
    tag = await cache.tag(name, options)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [one.strip().removeprefix("W/") for one in _known_tags(request).split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    body = await cache.report(tag, make, options)
    return Response(body, media_type="application/json", headers=headers)


def _known_tags(request: Request) -> str:
    return request.headers.get("if-none-match", "")


@router.get("/boards/models")
async def board_of_models(
    request: Request, service: Serving, options: Annotated[ModelBoardOptions, Query()]
) -> Response:
    """Models, the best first, with intervals, rank ranges and tiers."""
    return await _answer(request, "models", service.reports.board, options)


@router.get("/boards/contributors")
async def board_of_contributors(
    request: Request, service: Serving, options: Annotated[ContributorBoardOptions, Query()]
) -> Response:
    """Those who contribute items, by the quality of what they contribute."""
    return await _answer(request, "contributors", service.reports.board, options)


@router.get("/boards/reviewers")
async def board_of_reviewers(
    request: Request, service: Serving, options: Annotated[ReviewerBoardOptions, Query()]
) -> Response:
    """Those who give opinions, by how well they agree with the others."""
    return await _answer(request, "reviewers", service.reports.board, options)


@router.get("/boards/items")
async def board_of_items(
    request: Request, service: Serving, options: Annotated[ItemBoardOptions, Query()]
) -> Response:
    """Items by the opinions on them."""
    return await _answer(request, "items", service.reports.board, options)


@router.get("/audit")
async def audit_of_reviewers(
    request: Request, service: Serving, options: Annotated[AuditOptions, Query()]
) -> Response:
    """The audit of the reviewers of many sessions."""
    return await _answer(request, "audit", service.reports.audit, options)


@router.get("/rings")
async def voting_rings(
    request: Request, service: Serving, options: Annotated[RingsOptions, Query()]
) -> Response:
    """Voting rings among the opinions, with the evidence."""
    return await _answer(request, "rings", service.reports.rings, options)
