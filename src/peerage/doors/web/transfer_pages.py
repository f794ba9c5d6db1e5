"""Import judgements made elsewhere: upload a file, preview it, import it, and undo that."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, NamedTuple

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.http.access import ADMIN, Admin, Serving
from peerage.doors.http.data_routes import delete_or_restore, preview_file
from peerage.doors.http.problems import status_of
from peerage.doors.http.uploads import PendingFiles, receive_file, suffix_of
from peerage.doors.web.season_pages import pieces_of
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import PeerageError
from peerage.imports import KINDS, SessionsHereError, take
from peerage.reports.session_options import DeleteOptions
from peerage.service import Service

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/imports", dependencies=[ADMIN]
)

MESSAGES = {  # after an action
    "imported": "The file is imported.",
    "known": "This very file was imported before, and counts already. Nothing changed.",
    "undone_before": "This very file was imported before, and that import was undone. To count it "
    "again, press “Bring it back” in the list below.",
    "undone": "The import is undone: boards and audits leave it out.",
    "restored": "The import counts again.",
}


class Refusal(NamedTuple):
    """A file that could not be imported, and why."""

    file_name: str
    reason: str
    hint: str
    are_deleted: bool  # whether its sessions are in the store, deleted


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
    code = 422 if shown.problem else 200
    return await _page(request, service, code, preview=shown, pending=pending, file_name=name)


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
        result = await service.read(into, service.store, path, kind or None, time.time)
    except PeerageError as error:
        are_deleted = isinstance(error, SessionsHereError) and error.are_deleted
        refused = Refusal(
            name,
            f"{error.place}: {error.message}".removeprefix(": ").replace(str(path), name),
            "" if are_deleted else error.hint,  # the page has a link instead
            are_deleted,
        )
        return await _page(request, service, int(status_of(error)), refused=refused)
    files.drop(pending)
    done = "imported" if not result.already else "undone_before" if result.is_deleted else "known"
    return RedirectResponse(f"/imports?done={done}", 303)


@router.post("/{id}/undo")
async def undo(
    service: Serving, client: Admin, id: str, again: Annotated[str, Form()] = ""
) -> Response:
    """Undo an import, or bring it back."""
    options = DeleteOptions(imports=(id,), undo=bool(again))
    await delete_or_restore(client, service, options)
    return RedirectResponse(f"/imports?done={'restored' if again else 'undone'}", 303)


async def _page(request: Request, service: Service, code: int = 200, **values: object) -> Response:
    listed = await service.read(service.store.imports)
    shown = {"preview": None, "pending": "", "file_name": "", "done": "", "refused": None, **values}
    return await page(
        request,
        "imports.html",
        here="/settings",
        code=code,
        imports=listed[::-1],
        kinds=KINDS,
        messages=MESSAGES,
        **shown,
    )
