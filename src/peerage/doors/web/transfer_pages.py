"""Import judgements made elsewhere: upload a file, preview it, import it, and undo that."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.http.access import ADMIN, Admin, Serving
from peerage.doors.http.data_routes import delete_or_restore, preview_file
from peerage.doors.http.uploads import PendingFiles, receive_file, suffix_of
from peerage.doors.web.season_pages import pieces_of
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import PeerageError
from peerage.imports import KINDS, take
from peerage.reports.session_options import DeleteOptions
from peerage.service import Service

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/imports", dependencies=[ADMIN]
)


@router.get("")
async def imports(request: Request, service: Serving, done: str = "") -> Response:
    """List the imported tables, with a form for uploading a file."""
    return await _page(request, service, done=done)


@router.post("")
async def drop(
    request: Request,
    service: Serving,
    file: Annotated[UploadFile, File()],
    kind: Annotated[str, Form(alias="as")] = "",
) -> Response:
    """Show what an uploaded file contains; nothing is imported yet."""
    name = (file.filename or "upload")[-100:]
    files: PendingFiles = request.app.state.pending_files
    suffix = suffix_of(name, file.content_type or "")
    async with receive_file(service, pieces_of(file), suffix) as path:
        chosen = kind if kind in KINDS else None
        shown = await service.read(preview_file, service, path, chosen)
        pending = "" if shown.problem else await service.read(files.keep, path, name)
    return await _page(request, service, preview=shown, pending=pending, file_name=name)


@router.post("/{pending}/store")
async def store_import(
    request: Request,
    service: Serving,
    pending: str,
    kind: Annotated[str, Form(alias="as", max_length=60)] = "",
) -> Response:
    """Import a file that was previewed."""
    files: PendingFiles = request.app.state.pending_files
    path, name = files.find(pending)
    settings = service.settings
    into = partial(take, scale=settings.community.scale, rubrics=settings.rubric, listed_as=name)
    try:
        await service.read(into, service.store, path, kind or None, time.time)
    except PeerageError as error:
        error.place = error.place.replace(str(path), name)
        error.message = error.message.replace(str(path), name)
        raise
    files.drop(pending)
    return RedirectResponse("/imports?done=imported", 303)


@router.post("/{id}/undo")
async def undo(
    service: Serving, client: Admin, id: str, again: Annotated[str, Form()] = ""
) -> Response:
    """Undo an import, or bring it back."""
    options = DeleteOptions(imports=(id,), undo=bool(again))
    await delete_or_restore(client, service, options)
    return RedirectResponse(f"/imports?done={'restored' if again else 'undone'}", 303)


async def _page(request: Request, service: Service, **values: object) -> Response:
    listed = await service.read(service.store.imports)
    shown = {"preview": None, "pending": "", "file_name": "", "done": "", **values}
    code = 422 if getattr(shown["preview"], "problem", "") else 200
    return page(
        request,
        "imports.html",
        here="/settings",
        code=code,
        imports=listed[::-1],
        kinds=KINDS,
        **shown,
    )
