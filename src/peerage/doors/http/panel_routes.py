"""HTTP routes for panels: seats kept in the store, models that endpoints list, and trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict, Field

from peerage.config.settings import MAX_LINE, SeatTable
from peerage.doors.http.access import ADMIN, READ, Admin, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.dry_runs import check_seat
from peerage.errors import InputError
from peerage.members import check_seat_names
from peerage.panels import (
    MAX_SEATS,
    NamedPanel,
    check_seat_source,
    endpoints,
    find_panel,
    list_panels,
    remove_panel,
    save_panel,
)
from peerage.providers import CallError
from peerage.providers.calling import Caller
from peerage.providers.openai_compatible import OpenAICompatible
from peerage.service import Service

router = APIRouter(prefix="/api", tags=["panels"], responses=RESPONSES)

PanelName = Annotated[str, Path(max_length=60, description="The name of the panel.")]
SEAT_EXAMPLE = {"name": "sonnet", "model": "anthropic/claude-sonnet-4.5"}


class PanelGiven(BaseModel):
    """The seats of a panel; API keys are given as the names of environment variables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seats: tuple[SeatTable, ...] = Field(max_length=MAX_SEATS)


class EndpointGiven(BaseModel):
    """The address of an endpoint, and the variable of its key; empty: the usual one."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    base_url: str = Field(max_length=MAX_LINE)
    api_key_env: str = Field(default="", max_length=MAX_LINE)


@router.get("/panels", dependencies=[READ])
async def all_panels(service: Serving) -> dict[str, Any]:
    """List the panels: the one in the configuration, which is read-only, and those in the store."""
    panels = await service.read(list_panels, service.store, service.configured)
    return {"panels": [panel.document() for panel in panels]}


@router.put("/panels/{name}")
async def put_panel(
    client: Admin,
    service: Serving,
    name: PanelName,
    given: Annotated[PanelGiven, Body(examples=[{"seats": [SEAT_EXAMPLE]}])],
) -> dict[str, Any]:
    """Store a panel under a name; it replaces a panel with the same name."""
    return (await keep_panel(service, name, given.seats, client.name)).document()


async def keep_panel(
    service: Service, name: str, seats: Sequence[SeatTable], by: str
) -> NamedPanel:
    """Store a panel; if a panel of this name is in use, the new seats answer from now on."""
    at = service.clock()
    await service.read(check_seat_names, service.store, service.configured, seats)
    panel = await service.read(save_panel, service.store, service.configured, name, seats, by, at)
    await service.seat_panel()
    return panel


@router.delete("/panels/{name}", dependencies=[ADMIN])
async def delete_panel(service: Serving, name: PanelName) -> dict[str, Any]:
    """Delete a panel of the store; sessions and seasons that used it stay."""
    await service.read(remove_panel, service.store, name)
    await service.seat_panel()
    return {"deleted": name}


@router.post("/panels/{name}/use")
async def use_panel(client: Admin, service: Serving, name: PanelName) -> dict[str, Any]:
    """Let the seats of this panel answer from now on; running sessions keep theirs."""
    await service.use_panel(name, client.name)
    panel = await service.read(find_panel, service.store, service.configured, name)
    return panel.document()


@router.post("/seats/test", dependencies=[ADMIN])
async def try_seat(
    service: Serving, seat: Annotated[SeatTable, Body(examples=[SEAT_EXAMPLE])]
) -> dict[str, Any]:
    """Ask a seat for one word and a tiny ballot, and report errors. The calls may cost a little."""
    check_seat_source(seat, service.configured)
    caller = Caller()
    try:
        return asdict(await check_seat(caller, seat.seat))
    finally:
        await caller.close()


@router.get("/endpoints", dependencies=[READ])
async def list_endpoints(service: Serving) -> dict[str, Any]:
    """List the base URLs of models: those of the known seats, and of vendors whose key is set."""
    known = await service.read(endpoints, service.store, service.configured)
    return {"endpoints": [{"base_url": url, "api_key_env": name} for url, name in known]}


@router.post("/endpoints/models", dependencies=[ADMIN])
async def list_endpoint_models(
    service: Serving,
    given: Annotated[EndpointGiven, Body(examples=[{"base_url": "https://openrouter.ai/api/v1"}])],
) -> dict[str, Any]:
    """Ask an endpoint which models it offers; it must be one that a panel here may use."""
    known = dict(await service.read(endpoints, service.store, service.configured))
    variable = given.api_key_env or known.get(given.base_url, "")
    seat = SeatTable(name="endpoint", base_url=given.base_url, api_key_env=variable)
    check_seat_source(seat, service.configured)
    OpenAICompatible.check(seat.seat)
    provider = OpenAICompatible(seat.seat)
    try:
        models = await provider.list_models()
    except CallError as error:
        raise InputError(f"{error.kind}: {error.message}.", place=given.base_url) from None
    finally:
        await provider.aclose()
    return {"base_url": given.base_url, "models": models}
