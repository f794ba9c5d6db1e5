"""The configuration as it was read, without secrets, and whether the seats answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, RUN, Serving, client_of
from peerage.doors.http.operations import PanelCheck
from peerage.doors.web.templating import PageRoute, page
from peerage.service import Service
from peerage.stores import without_password

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

SECTIONS = ("council", "audit", "community", "rubric_by_category")
MAX_VALUE = 200  # characters


@router.get("/settings")
async def settings(request: Request, service: Serving) -> Response:
    """The configuration as it was read, and the tokens for whoever may see them."""
    is_admin = "admin" in client_of(request).allowed
    return page(
        request,
        "settings.html",
        store=without_password(service.settings.store),
        notes=service.settings.notes,
        seats=service.settings.seats,
        sections=list(sections(service)),
        answering=None,
        tokens=await service.read(service.store.tokens) if is_admin else None,
    )


@router.get("/settings/health", dependencies=[RUN])
async def health(request: Request, service: Serving) -> Response:
    """Whether each seat answers, asked now or a moment ago."""
    check: PanelCheck = request.app.state.panel_check
    problem = await check.problem_of(service)
    return page(
        request,
        "seats_table.html",
        seats=service.settings.seats,
        answering=check.answering,
        problem=problem,
    )


def sections(service: Service) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Every table of the configuration as names and values; keys of models are never in it."""
    tree = service.settings.model_dump(include=set(SECTIONS))
    for name in SECTIONS:
        rows = list(_rows(tree.get(name) or {}))
        if rows:
            yield name, rows


def _rows(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            words = {None: "not set", True: "true", False: "false"}
            shown = words[value] if value is None or isinstance(value, bool) else str(value)
            yield f"{prefix}{name}", shown[:MAX_VALUE]
