"""HTTP routes for publishing: read-only links, and the same pages as one archive."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from peerage.doors.http.access import ADMIN, Admin, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.http.report_routes import ReportCache
from peerage.doors.http.team_routes import link_document
from peerage.doors.render.pages import gone_page
from peerage.doors.render.publishing import (
    INDEX,
    Kind,
    Publication,
    check_publication,
    published_page,
    published_pages,
)
from peerage.errors import InputError
from peerage.links import PUBLISHED, find_link, make_link
from peerage.service import Service

router = APIRouter(responses=RESPONSES, tags=["publish"])

READ_ONLY = (
    "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "X-Robots-Tag": "noindex",
    "Cache-Control": "private, no-cache",
}


class PublicationGiven(BaseModel):
    """A request to publish a board, a season or a session for some time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = "board"
    of: str = Field(default="", max_length=100, description="The season or the session.")
    people: bool = Field(default=False, description="Show names of people.")
    days: float | None = Field(default=None, gt=0, le=3_650, description="Days until it ends.")


@router.post("/api/publications", status_code=201)
async def publish(
    client: Admin,
    service: Serving,
    given: Annotated[PublicationGiven, Body(examples=[{"kind": "board", "days": 30}])],
) -> dict[str, Any]:
    """Make a link with which anyone can read the pages; its address is shown only this once."""
    read = check_publication, service.reports, given.kind, given.of, given.people
    publication = await service.read(*read)
    body = asdict(publication)
    text, link = make_link(PUBLISHED, body, client.name, service.clock(), given.days)
    await service.read(service.store.add_link, link)
    return {"path": f"/published/{text}/", **link_document(link)}


@router.get("/api/publications", dependencies=[ADMIN])
async def publications(service: Serving) -> dict[str, Any]:
    """List what is published; `DELETE /api/links/ID` ends a link."""
    links = await service.read(service.store.links, PUBLISHED)
    return {"publications": [link_document(link) for link in links]}


@router.get(
    "/api/publications/bundle",
    dependencies=[ADMIN],
    response_class=Response,
    responses={200: {"content": {"application/zip": {}}, "description": "A ZIP archive."}},
)
async def bundle(
    service: Serving,
    kind: Annotated[Kind, Query()] = "board",
    of: Annotated[str, Query(max_length=100)] = "",
    people: Annotated[bool, Query()] = False,
) -> Response:
    """Return the pages as a ZIP archive of files, for any web server or to open from disk."""
    data = await service.read(_bundle, service, kind, of, people)
    name = {"Content-Disposition": 'attachment; filename="peerage-published.zip"'}
    return Response(data, media_type="application/zip", headers=name)


def _bundle(service: Service, kind: Kind, of: str, people: bool) -> bytes:
    publication = check_publication(service.reports, kind, of, people)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in published_pages(service.reports, publication):
            archive.writestr(path, text)
    return out.getvalue()


@router.get("/published/{text}", include_in_schema=False)
async def with_slash(text: str) -> Response:
    """Redirect to the first page, which links to the others."""
    return RedirectResponse(f"/published/{text}/", 307)


@router.get("/published/{text}/{path:path}", include_in_schema=False)
async def show_published(request: Request, service: Serving, text: str, path: str) -> Response:
    """Show a published page to anyone who has the link."""
    links = await service.read(service.store.links, PUBLISHED)
    link = find_link(text, links, service.clock())
    if link is None:
        return read_only(gone_page(), 410)
    publication = Publication.read(link.body)
    cache: ReportCache = request.app.state.report_cache
    tag = await cache.tag(f"published {link.id} {path}")

    def compute() -> bytes:
        return published_page(service.reports, publication, path or INDEX).encode()

    try:
        html = (await cache.report(tag, compute)).decode()
    except InputError:  # there is no such page, or it was deleted, or has too few reviews
        return read_only(gone_page(), 404)
    return read_only(html)


def read_only(html: str, code: int = 200) -> HTMLResponse:
    """Return a page that browsers let load nothing, with no styles but its own."""
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = {"Content-Security-Policy": READ_ONLY.format(digest=digest)}
    return HTMLResponse(html, code, headers={**HEADERS, **policy})
