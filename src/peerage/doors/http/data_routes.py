"""HTTP routes of stored data: imports, export, deletions, tags, and the list of actions."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from peerage.curation import delete, plan_deletion, tag
from peerage.doors.http.access import ADMIN, READ, Admin, Runner, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.http.uploads import BODY, received_body
from peerage.imports import ImportPreview, preview, take
from peerage.imports.store_folders import export
from peerage.reports.session_options import DeleteOptions, TagOptions
from peerage.service import Service
from peerage.stores import Store

As = Annotated[
    str | None,
    Query(alias="as", max_length=100, description="The format; by default it is recognised."),
]
FileName = Annotated[str, Query(max_length=300, description="The name of the file.")]
Columns = Annotated[
    str,
    Query(alias="map", max_length=2_000, description="Which column is which: candidate=model,… ."),
]

router = APIRouter(prefix="/api", responses=RESPONSES)
TRANSFER: list[str | Enum] = ["transfer"]
CURATION: list[str | Enum] = ["curation"]


@router.post("/imports", tags=TRANSFER, status_code=201, dependencies=[ADMIN], openapi_extra=BODY)
async def import_file(
    service: Serving,
    request: Request,
    name: As = None,
    file: FileName = "",
    columns: Columns = "",
) -> dict[str, Any]:
    """Import one file, as a whole or not at all. Without `as`, the format is recognised."""
    async with received_body(service, request, file) as path:
        scale = service.settings.community.scale
        into = partial(take, scale=scale, rubrics=service.settings.rubric, columns=columns)
        loaded = await service.read(into, service.store, path, name, time.time)
    return asdict(loaded)


@router.post("/imports/preview", tags=TRANSFER, dependencies=[ADMIN], openapi_extra=BODY)
async def preview_import(
    service: Serving,
    request: Request,
    name: As = None,
    file: FileName = "",
) -> dict[str, Any]:
    """Show what an import of a file would store, or why it is refused. Nothing is stored."""
    async with received_body(service, request, file) as path:
        return asdict(await service.read(preview_file, service, path, name))


def preview_file(service: Service, path: Path, name: str | None) -> ImportPreview:
    """Return the preview of a file in the named format, or in the format that it looks like."""
    scale = service.settings.community.scale
    return preview(service.store, path, name, scale, service.clock())


@router.get(
    "/export",
    tags=TRANSFER,
    dependencies=[READ],
    response_class=FileResponse,
    responses={200: {"content": {"application/zip": {}}, "description": "A ZIP archive."}},
)
async def export_store(service: Serving) -> FileResponse:
    """Return the whole store as a ZIP of JSONL and Parquet; unzip it for `peerage import`."""
    folder = Path(tempfile.mkdtemp(prefix="peerage-"))
    try:
        path = await service.read(_archive, service.store, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    tidy = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(
        path, media_type="application/zip", filename="peerage-export.zip", background=tidy
    )


@router.get("/actions", tags=TRANSFER, dependencies=[ADMIN])
async def list_actions(
    service: Serving, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> dict[str, Any]:
    """List the actions that clients took through this server, the latest first."""
    actions = await service.read(service.store.actions, limit)
    return {"actions": [asdict(action) for action in actions]}


def _archive(store: Store, folder: Path) -> str:
    export(store, folder / "export")
    return shutil.make_archive(str(folder / "peerage-export"), "zip", folder / "export")


# -- deletions and tags --------------------------------------------------------------------------


@router.post("/deletions", tags=CURATION)
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


@router.post("/tags", tags=CURATION)
async def tag_sessions(
    client: Runner,
    service: Serving,
    options: Annotated[TagOptions, Body(examples=[{"sessions": ["3f9a"], "add": ["good"]}])],
) -> dict[str, Any]:
    """Add tags to sessions and remove tags; return the tags of each session."""
    for one in options.sessions:
        await service.check_own_session(one)
    tags_by_id = await service.read(tag, service.store, options, service.clock, client.name)
    return {"tags": tags_by_id}


@router.get("/imports", tags=CURATION, dependencies=[READ])
async def list_imports(
    service: Serving,
    deleted: Annotated[bool, Query(description="List the deleted imports.")] = False,
) -> dict[str, Any]:
    """List the imported tables with their numbers, by which they can be deleted."""

    def read() -> dict[str, Any]:
        return service.reports.imports(deleted=deleted).document()

    return await service.read(read)
