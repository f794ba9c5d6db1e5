"""Publish a board, a season or a session: create a link, revoke it, or download the pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.http.access import ADMIN, Admin, Serving
from peerage.doors.http.publish_routes import PublicationGiven, publish
from peerage.doors.http.team_routes import revoke_link
from peerage.doors.render.publishing import Kind, check_publication
from peerage.doors.web.team_pages import number_of
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import UsageError
from peerage.links import PUBLISHED
from peerage.service import Service

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/publish", dependencies=[ADMIN]
)


@router.get("")
async def publish_form(
    request: Request, service: Serving, kind: Kind = "board", of: str = ""
) -> Response:
    """Show what is published, and a form for a new link."""
    return await _publish_page(request, service, kind, of)


@router.post("")
async def make_publication(
    request: Request,
    service: Serving,
    client: Admin,
    kind: Annotated[Kind, Form()] = "board",
    of: Annotated[str, Form(max_length=100)] = "",
    days: Annotated[str, Form()] = "",
    people: Annotated[str, Form()] = "",
) -> Response:
    """Create a link, and show it this one time."""
    n_days = number_of(days, "days")
    if n_days is not None and not 0 < n_days <= 3_650:
        raise UsageError("a link can be valid for at most 3,650 days.")
    given = PublicationGiven(kind=kind, of=of, days=n_days, people=bool(people))
    made = await publish(client, service, given)
    address = f"{str(request.base_url).rstrip('/')}{made['path']}"
    return await _publish_page(request, service, kind, of, address)


@router.post("/{id}/revoke")
async def revoke(service: Serving, id: str) -> Response:
    """End a published link."""
    await revoke_link(service, id)
    return RedirectResponse("/publish", 303)


async def _publish_page(
    request: Request, service: Service, kind: Kind, of: str, made: str = ""
) -> Response:
    publication = await service.read(check_publication, service.reports, kind, of, False)
    links = await service.read(service.store.links, PUBLISHED)
    return await page(
        request,
        "publish.html",
        here="/boards/models",
        publication=publication,
        of=of,
        made=made,
        links=links[::-1],
        now=service.clock(),
    )
