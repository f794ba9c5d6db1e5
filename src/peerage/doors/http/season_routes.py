"""HTTP routes for seasons: a file of prompts, its preview, a dry run, and the season itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi import Path as PathPart
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from peerage.contributions import MAX_ITEM_CHARACTERS
from peerage.doors.http.access import ADMIN, READ, RUN, Runner, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.http.uploads import BODY, received_body
from peerage.errors import InputError, how_many
from peerage.hosted_seasons import (
    MAX_PROMPTS,
    SeasonHost,
    SeasonOptions,
    SeasonPlan,
    check_deletable,
    find_plan,
    list_plans,
    rejudge_season,
    remove_draft,
)
from peerage.imports.prompt_files import PromptsPreview, preview_prompts
from peerage.reports.review_diff import compare_seasons
from peerage.reports.session_options import JudgeAgainOptions, RejudgeOptions
from peerage.season import SeasonPrompt
from peerage.service import Service
from peerage.types import Query as Question

router = APIRouter(prefix="/api/seasons", tags=["seasons"], responses=RESPONSES)


def get_host(connection: HTTPConnection) -> SeasonHost:
    """Return the seasons of an app."""
    host: SeasonHost = connection.app.state.season_host
    return host


Host = Annotated[SeasonHost, Depends(get_host)]
SeasonId = Annotated[str, PathPart(alias="id", max_length=100, description="A season, by its id.")]
FileName = Annotated[
    str, Query(max_length=300, description="The name of the file; its ending gives the format.")
]


class SeasonQuery(SeasonOptions):
    """The options of a new season in the request's URL, where only short guidelines fit."""

    guidelines: str = Field(
        default="",
        max_length=500,
        description="Guidelines for people who review; send longer ones with PATCH.",
    )


class SeasonName(BaseModel):
    """A name for a season."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=100)


class PromptGiven(BaseModel):
    """A prompt for a season."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    query: str = Field(min_length=1, max_length=MAX_ITEM_CHARACTERS)
    category: str = Field(default="", max_length=200)


def read_prompts(path: Path) -> PromptsPreview:
    """Return the preview of a file of prompts."""
    return preview_prompts(path, MAX_PROMPTS)


def check_preview(preview: PromptsPreview) -> None:
    """Raise InputError if some lines of a file cannot be used."""
    if preview.n_problems:
        lines = "; ".join(f"line {line}: {words}" for line, words in preview.problems)
        raise InputError(
            f"{preview.n_problems} of {how_many(preview.n_rows, 'row')} cannot be used: {lines}",
            hint="Nothing was stored.",
        )


@router.post("/preview", dependencies=[RUN], openapi_extra=BODY)
async def preview_file(service: Serving, request: Request, file: FileName = "") -> dict[str, Any]:
    """Show how a file is read: rows, columns, and errors by line. Nothing is stored."""
    async with received_body(service, request, file) as path:
        return (await service.read(read_prompts, path)).document()


@router.post("", status_code=201, openapi_extra=BODY)
async def create_season(
    client: Runner,
    service: Serving,
    host: Host,
    request: Request,
    options: Annotated[SeasonQuery, Query()],
) -> dict[str, Any]:
    """Store a season with the prompts of a file (JSONL, CSV or Parquet), without starting it."""
    async with received_body(service, request) as path:
        preview = await service.read(read_prompts, path)
    check_preview(preview)
    chosen = SeasonOptions(**options.model_dump())
    plan = await host.create(preview.rows, chosen, client.name)
    return await season_document(service, host, plan)


@router.get("", dependencies=[READ])
async def all_seasons(service: Serving, host: Host) -> dict[str, Any]:
    """List the seasons with their progress, the latest first."""
    plans = await service.read(list_plans, service.store)
    return {"seasons": [await season_document(service, host, plan) for plan in plans]}


@router.get("/{id}", dependencies=[READ])
async def one_season(service: Serving, host: Host, id_: SeasonId) -> dict[str, Any]:
    """Return a season: its options, state, progress, rate, time to go, cost and failures."""
    plan = await service.read(find_plan, service.store, id_)
    return await season_document(service, host, plan)


@router.patch("/{id}", dependencies=[RUN])
async def change_season(
    service: Serving,
    host: Host,
    id_: SeasonId,
    options: Annotated[SeasonOptions, Body(examples=[{"budget_usd": 5.0}])],
) -> dict[str, Any]:
    """Change the options of a season; panel, rubric and verdict are fixed once it has started."""
    return await season_document(service, host, await host.change(id_, options))


@router.get("/{id}/estimate", dependencies=[RUN])
async def estimate(host: Host, id_: SeasonId) -> dict[str, Any]:
    """Return how many calls the rest of the season needs, and their price; no model is called."""
    return await host.estimate(id_)


@router.get("/{id}/rejudging", dependencies=[READ])
async def rejudging(service: Serving, id_: SeasonId) -> dict[str, Any]:
    """Return how models and judges shifted under other judges, from their reviews so far."""
    return (await rejudge_season(service, RejudgeOptions(season=id_))).document()


@router.post("/{id}/rejudging", dependencies=[RUN])
async def rejudge(
    service: Serving,
    id_: SeasonId,
    body: Annotated[JudgeAgainOptions, Body(examples=[{"judges": ["sonnet"], "dry_run": True}])],
) -> dict[str, Any]:
    """Let other judges review the stored answers of a season; responds when all have done so.

    Every review is stored when it arrives: after a lost connection, the same request continues and
    pays for no review twice. With `dry_run` it returns the number of calls and their cost.
    """
    options = RejudgeOptions(season=id_, **body.model_dump())
    return (await rejudge_season(service, options)).document()


@router.post("/{id}/start", dependencies=[RUN])
async def start(service: Serving, host: Host, id_: SeasonId) -> dict[str, Any]:
    """Start a season, or continue it."""
    return await season_document(service, host, await host.start(id_))


@router.post("/{id}/pause", dependencies=[RUN])
async def pause(service: Serving, host: Host, id_: SeasonId) -> dict[str, Any]:
    """Pause a season: no more sessions begin, and running ones are completed."""
    return await season_document(service, host, await host.pause(id_))


@router.post("/{id}/prompts", status_code=201, dependencies=[RUN])
async def add_prompt(
    service: Serving,
    host: Host,
    id_: SeasonId,
    given: Annotated[PromptGiven, Body(examples=[{"query": "Why is the sky blue?"}])],
) -> dict[str, Any]:
    """Add a prompt to a season that is not running."""
    own_id = Question(given.query).own_id
    row = SeasonPrompt(f"added-{own_id}", given.query, given.category, query_id=own_id)
    return await season_document(service, host, await host.add_prompt(id_, row))


@router.post("/{id}/name")
async def rename(
    client: Runner,
    service: Serving,
    host: Host,
    id_: SeasonId,
    given: Annotated[SeasonName, Body(examples=[{"name": "March"}])],
) -> dict[str, Any]:
    """Give a season another name."""
    plan = await host.rename(id_, given.name.strip(), client.name)
    return await season_document(service, host, plan)


@router.delete("/{id}", dependencies=[ADMIN])
async def delete_draft(service: Serving, host: Host, id_: SeasonId) -> dict[str, Any]:
    """Delete a season that never ran; use `POST /api/deletions` for a season with sessions."""
    plan = await service.read(check_deletable, service.store, host, id_)
    if not await service.read(remove_draft, service.store, plan):
        raise InputError(
            "this season has sessions.",
            hint="Delete it with POST /api/deletions, which can be undone.",
        )
    return {"deleted": plan.id}


@router.get("/{id}/compare", dependencies=[READ])
async def compare(
    service: Serving,
    id_: SeasonId,
    other: Annotated[str, Query(alias="with", max_length=100, description="Another season.")],
) -> dict[str, Any]:
    """Compare a season with another: models that moved, with intervals, and changed sessions."""
    plans = [await service.read(find_plan, service.store, one) for one in (id_, other)]
    seasons = [plan.season for plan in plans]
    comparison = await service.read(compare_seasons, service.reports, *seasons)
    return comparison.document()


async def season_document(service: Service, host: SeasonHost, plan: SeasonPlan) -> dict[str, Any]:
    """Return a season and its progress as JSON."""
    entries = []
    if plan.season:
        entries = await service.read(service.store.sessions, plan.season)
    return {
        **{key: value for key, value in asdict(plan).items() if key not in ("options", "state")},
        "name": plan.name,
        "options": plan.options.model_dump(),
        **host.status(plan, entries),
    }
