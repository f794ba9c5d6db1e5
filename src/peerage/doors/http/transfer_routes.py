"""HTTP routes to import files, to export the whole store, and to list actions."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from peerage.doors.http.access import ADMIN, READ, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.http.uploads import BODY, received_body
from peerage.imports import ImportPreview, export, preview, take
from peerage.service import Service
from peerage.stores import Store

Kind = Literal["reviews", "opinions", "items", "users", "sessions"]

router = APIRouter(prefix="/api", tags=["transfer"], responses=RESPONSES)


@router.post("/imports", status_code=201, dependencies=[ADMIN], openapi_extra=BODY)
async def import_file(
    service: Serving,
    request: Request,
    kind: Annotated[Kind, Query(alias="as", description="The kind of table in the file.")],
) -> dict[str, Any]:
    """Import one file, as a whole or not at all; its content type gives the format."""
    async with received_body(service, request) as path:
        scale = service.settings.community.scale
        into = partial(take, scale=scale, rubrics=service.settings.rubric)
        loaded = await service.read(into, service.store, path, kind, time.time)
    return asdict(loaded)


@router.post("/imports/preview", dependencies=[ADMIN], openapi_extra=BODY)
async def preview_import(
    service: Serving,
    request: Request,
    kind: Annotated[Kind | None, Query(alias="as", description="The kind of table.")] = None,
    file: Annotated[str, Query(max_length=300, description="The name of the file.")] = "",
) -> dict[str, Any]:
    """Show what an import of a file would store, or why it is refused. Nothing is stored."""
    async with received_body(service, request, file) as path:
        return asdict(await service.read(preview_file, service, path, kind))


def preview_file(service: Service, path: Path, kind: str | None) -> ImportPreview:
    """Return the preview of a file; without a kind, of the format that it looks like."""
    scale = service.settings.community.scale
    return preview(service.store, path, kind, scale, service.clock())


@router.get(
    "/export",
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


@router.get("/actions", dependencies=[ADMIN])
async def list_actions(
    service: Serving, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> dict[str, Any]:
    """List the actions through this server, the latest first."""
    actions = await service.read(service.store.actions, limit)
    return {"actions": [asdict(action) for action in actions]}


def _archive(store: Store, folder: Path) -> str:
    export(store, folder / "export")
    return shutil.make_archive(str(folder / "peerage-export"), "zip", folder / "export")
