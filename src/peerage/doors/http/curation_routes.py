"""HTTP routes to delete and restore sessions, seasons and imports, and to tag sessions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query

from peerage.curation import delete, plan_deletion, tag
from peerage.doors.http.access import READ, Admin, Runner, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.reports.options import DeleteOptions, TagOptions

router = APIRouter(prefix="/api", tags=["curation"], responses=RESPONSES)


@router.post("/deletions")
async def delete_or_restore(
    client: Admin,
    service: Serving,
    options: Annotated[DeleteOptions, Body(examples=[{"sessions": ["3f9a"], "undo": False}])],
) -> dict[str, Any]:
    """Leave sessions, seasons or imports out of boards, audits and lists; `undo` brings them back.

    Nothing is erased. To cancel a running session, use `DELETE /api/sessions/{id}`.
    """
    plan = await service.read(plan_deletion, service.store, options)
    scale, by = service.settings.community.scale, client.name
    await service.read(delete, service.store, plan, service.clock, scale, by)
    return plan.document()


@router.post("/tags")
async def tag_sessions(
    client: Runner,
    service: Serving,
    options: Annotated[TagOptions, Body(examples=[{"sessions": ["3f9a"], "add": ["good"]}])],
) -> dict[str, Any]:
    """Add tags to sessions and remove tags; return the tags of each session."""
    tags_by_id = await service.read(tag, service.store, options, service.clock, client.name)
    return {"tags": tags_by_id}


@router.get("/imports", dependencies=[READ])
async def list_imports(
    service: Serving,
    deleted: Annotated[bool, Query(description="List the deleted imports.")] = False,
) -> dict[str, Any]:
    """List the imported tables with the numbers that a deletion takes."""

    def read() -> dict[str, Any]:
        return service.reports.imports(deleted=deleted).document()

    return await service.read(read)
