"""Panels: named lists of seats, which can be added, tried and changed without a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.config.settings import MAX_LINE, SeatTable
from peerage.doors.http.access import ADMIN, READ, Admin, Serving, client_of
from peerage.doors.http.panel_routes import (
    EndpointGiven,
    PanelName,
    delete_panel,
    keep_panel,
    list_endpoint_models,
    try_seat,
)
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import ConfigError, PeerageError, UsageError
from peerage.panels import FROM_FILES, NamedPanel, endpoints, find_panel, list_panels
from peerage.providers import providers
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

ROLES = ("answer", "review", "chair")
NUMBERS = {  # form fields that are numbers, and whether each is a whole number
    **dict.fromkeys(("temperature", "timeout_s", "price_in", "price_out"), False),
    **dict.fromkeys(("max_tokens", "max_tokens_review", "max_concurrency"), True),
}
TEXTS = ("name", "provider", "model", "family", "base_url", "api_key_env", "system")


@router.get("/panels")
async def panels(request: Request, service: Serving) -> Response:
    """List the panels."""
    listed = await service.read(list_panels, service.store, service.configured)
    return await page(request, "panels.html", here="/settings", panels=listed, **_may(request))


@router.post("/panels")
async def create(
    service: Serving, client: Admin, name: Annotated[str, Form()], like: Annotated[str, Form()] = ""
) -> Response:
    """Create a panel, empty or with the seats of another one."""
    known = await service.read(list_panels, service.store, service.configured)
    if any(panel.name == name.strip() for panel in known):
        raise UsageError(
            f"the panel {name.strip()!r} already exists.", hint="Open it to change it."
        )
    seats = next((panel.seats for panel in known if panel.name == like), ())
    panel = await keep_panel(service, name, seats, client.name)
    return RedirectResponse(_address(panel.name), 303)


@router.post("/panels/models", dependencies=[ADMIN])
async def models(
    request: Request,
    service: Serving,
    base_url: Annotated[str, Form(max_length=MAX_LINE)] = "",
    api_key_env: Annotated[str, Form(max_length=MAX_LINE)] = "",
    n: Annotated[int, Form()] = 0,
) -> Response:
    """List the models of an endpoint, as choices for the form."""
    names: list[str] = []
    problem = ""
    if base_url.strip():
        try:
            given = EndpointGiven(base_url=base_url, api_key_env=api_key_env)
            listed = await list_endpoint_models(service, given)
            names = listed["models"]
        except PeerageError as error:
            problem = f"{error.message} {error.hint}".strip()
    return await page(
        request, "model_choices.html", models=names, problem=problem, base_url=base_url, n=n
    )


@router.get("/panels/{name}")
async def one_panel(request: Request, service: Serving, name: PanelName) -> Response:
    """Show a panel with a form for each seat."""
    panel = await service.read(find_panel, service.store, service.configured, name)
    return await _panel_page(request, service, panel)


@router.post("/panels/{name}/seats")
async def change_seat(
    request: Request, service: Serving, client: Admin, name: PanelName
) -> Response:
    """Add a seat, or change the one that the field `before` names."""
    panel = await service.read(find_panel, service.store, service.configured, name)
    form = {key: str(value) for key, value in (await request.form()).multi_items()}
    roles = [str(role) for role in (await request.form()).getlist("roles")]
    before = form.get("before", "")
    try:
        seat = seat_of_form(form, roles, panel, before)
        seats = [seat if one.name == before else one for one in panel.seats]
        seats += [] if before in {one.name for one in panel.seats} else [seat]
        await keep_panel(service, name, seats, client.name)
    except PeerageError as error:
        return await _panel_page(request, service, panel, form, error)
    return RedirectResponse(f"{_address(name)}#seats", 303)


@router.post("/panels/{name}/remove")
async def remove_seat(
    service: Serving, client: Admin, name: PanelName, seat: Annotated[str, Form()]
) -> Response:
    """Remove a seat from a panel."""
    panel = await service.read(find_panel, service.store, service.configured, name)
    seats = [one for one in panel.seats if one.name != seat]
    await keep_panel(service, name, seats, client.name)
    return RedirectResponse(f"{_address(name)}#seats", 303)


@router.post("/panels/{name}/test", dependencies=[ADMIN])
async def test_seat(
    request: Request, service: Serving, name: PanelName, seat: Annotated[str, Form()]
) -> Response:
    """Try one seat, and show why it fails."""
    panel = await service.read(find_panel, service.store, service.configured, name)
    chosen = next((one for one in panel.seats if one.name == seat), None)
    if chosen is None:
        raise UsageError("this panel has no such seat.")
    try:
        result = await try_seat(service, chosen)
    except PeerageError as error:
        result = {"ok": False, "finding": error.message, "fix": error.hint}
    return await page(request, "seat_trial.html", result=result)


@router.post("/panels/{name}/use")
async def use(service: Serving, client: Admin, name: PanelName) -> Response:
    """Use this panel for questions from now on."""
    await service.use_panel(name, client.name)
    return RedirectResponse("/panels", 303)


@router.post("/panels/{name}/delete", dependencies=[ADMIN])
async def delete(service: Serving, name: PanelName) -> Response:
    """Delete a panel of the store."""
    await delete_panel(service, name)
    return RedirectResponse("/panels", 303)


def seat_of_form(
    form: Mapping[str, str], roles: list[str], panel: NamedPanel, before: str
) -> SeatTable:
    """Return the seat that a form describes; empty fields have their defaults."""
    stored = next((one for one in panel.seats if one.name == before), None)
    values: dict[str, Any] = stored.model_dump(exclude_defaults=True) if stored else {}
    values = {key: value for key, value in values.items() if key not in (*TEXTS, *NUMBERS)}
    values |= {key: form[key].strip() for key in TEXTS if form.get(key, "").strip()}
    values["roles"] = tuple(role for role in ROLES if role in roles)
    values["images"] = form.get("images") == "yes"
    values.setdefault("name", form.get("model", "").rpartition("/")[2].strip())
    for key, is_whole in NUMBERS.items():
        if text := form.get(key, "").strip():
            values[key] = _number(key, text, is_whole)
    try:
        return SeatTable(**values)
    except ValueError as error:
        first = error.errors()[0]  # type: ignore[attr-defined]
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}.", place="the seat") from None


def _number(name: str, text: str, is_whole: bool) -> float:
    try:
        return int(text) if is_whole else float(text.replace(",", "."))
    except ValueError:
        words = name.replace("_", " ")
        raise ConfigError(f"{words} is not a number.", place="the seat") from None


async def _panel_page(
    request: Request,
    service: Service,
    panel: NamedPanel,
    form: Mapping[str, str] | None = None,
    error: PeerageError | None = None,
) -> Response:
    known = await service.read(endpoints, service.store, service.configured)
    return await page(
        request,
        "panel.html",
        here="/settings",
        code=422 if error else 200,
        panel=panel,
        address=_address(panel.name),
        endpoints=known,
        providers=[name for name in providers.names() if name not in FROM_FILES],
        all_roles=ROLES,
        blank={"roles": None, "images": False}
        | {name: (form or {}).get(name) for name in (*TEXTS, *NUMBERS)},
        error=error,
        **_may(request),
    )


def _address(name: str) -> str:
    return f"/panels/{quote(name, safe='')}"


def _may(request: Request) -> dict[str, bool]:
    client = client_of(request)
    return {"is_admin": client is not None and "admin" in client.allowed}
