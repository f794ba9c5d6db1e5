"""Seasons: a file of prompts is uploaded, previewed, estimated, run, watched and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Annotated, Any, get_args
from urllib.parse import quote

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.config.rubrics import rubric_names
from peerage.config.settings import VerdictKind
from peerage.doors.http.access import READ, RUN, Admin, Runner, Serving, client_of
from peerage.doors.http.season_routes import (
    Host,
    PromptGiven,
    SeasonId,
    add_prompt,
    read_prompts,
    season_document,
)
from peerage.doors.http.uploads import receive_file, suffix_of
from peerage.doors.render.finding_words import audit_headline
from peerage.doors.render.pages import Axis, axis_around
from peerage.doors.render.report_views import strong_findings
from peerage.doors.web.judge_pages import findings_in_words
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import InputError, PeerageError, UsageError
from peerage.hosted_seasons import (
    SeasonHost,
    SeasonOptions,
    SeasonPlan,
    check_deletable,
    find_plan,
    list_plans,
    remove_draft,
    stored_prompts,
)
from peerage.panels import list_panels
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.reports.review_diff import ModelChange, compare_seasons
from peerage.reports.session_options import DeleteOptions
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_ROWS_SHOWN = 5
PIECE = 1_000_000


@router.get("/seasons")
async def seasons(request: Request, service: Serving, host: Host) -> Response:
    """List the seasons, with a form to upload a new one."""
    plans = await service.read(list_plans, service.store)
    listed = [await season_document(service, host, plan) for plan in plans]
    return await page(request, "seasons.html", seasons=listed, preview=None, **_may(request))


@router.post("/seasons")
async def drop(
    request: Request,
    service: Serving,
    host: Host,
    client: Runner,
    file: Annotated[UploadFile, File()],
    name: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Store an uploaded file as the draft of a season, or show the wrong lines."""
    file_name = file.filename or "prompts.jsonl"
    async with receive_file(
        service, pieces_of(file), suffix_of(file_name, file.content_type or "")
    ) as path:
        try:
            preview = await service.read(read_prompts, path)
        except PeerageError as error:
            error.place = error.place.replace(str(path), file_name)
            raise
    if preview.n_problems or not preview.rows:
        plans = await service.read(list_plans, service.store)
        listed = [await season_document(service, host, plan) for plan in plans]
        values = {"seasons": listed, "preview": preview, "file_name": file_name, **_may(request)}
        return await page(request, "seasons.html", code=422, **values)
    options = SeasonOptions(name=name.strip() or file_name.rpartition(".")[0][:100])
    plan = await host.create(preview.rows, options, client.name)
    columns = quote(", ".join(preview.ignored_columns)[:300])
    return RedirectResponse(f"/seasons/{plan.id}?ignored={columns}", 303)


async def pieces_of(file: UploadFile) -> AsyncIterator[bytes]:
    """Yield an uploaded file piece by piece."""
    while piece := await file.read(PIECE):
        yield piece


@router.get("/seasons/running")
async def running(request: Request, service: Serving, host: Host) -> Response:
    """List the seasons that run on this server, for the first page."""
    listed = await running_seasons(service, host)
    return await page(request, "running_seasons.html", running_seasons=listed)


async def running_seasons(service: Service, host: SeasonHost) -> list[dict[str, Any]]:
    """Return the progress of each season that runs on this server."""
    plans = [await service.read(find_plan, service.store, id_) for id_ in list(host.running)]
    return [await season_document(service, host, plan) for plan in plans]


@router.get("/seasons/compare")
async def compare(request: Request, service: Serving, a: str, b: str) -> Response:
    """Compare two seasons."""
    plans = [await service.read(find_plan, service.store, id_) for id_ in (a, b)]
    if not all(plan.season for plan in plans):
        raise InputError("a season that has not started cannot be compared.")
    ids = [plan.season for plan in plans]
    comparison = await service.read(compare_seasons, service.reports, *ids)
    values: dict[str, Any] = {
        "plans": plans,
        "comparison": comparison,
        "axis": _axis_of(comparison.models),
    }
    return await page(request, "season_compare.html", here="/seasons", **values)


def _axis_of(models: Iterable[ModelChange]) -> Axis:
    """Return the axis of the differences of two seasons, with zero on it."""
    ends = [x for one in models for x in (one.difference, one.low, one.high) if x is not None]
    return axis_around([0.0, *ends])


@router.get("/seasons/{id}")
async def one_season(
    request: Request, service: Serving, host: Host, id_: SeasonId, ignored: str = ""
) -> Response:
    """Show a season: its draft, its progress, then its board and audit."""
    plan = await service.read(find_plan, service.store, id_)
    return await _season_page(request, service, host, plan, ignored)


@router.get("/seasons/{id}/status")
async def status(request: Request, service: Serving, host: Host, id_: SeasonId) -> Response:
    """Show the progress of a season, for a page that polls every second."""
    plan = await service.read(find_plan, service.store, id_)
    document = await season_document(service, host, plan)
    return await page(request, "season_status.html", season=document, **_may(request))


@router.get("/seasons/{id}/results")
async def results(request: Request, service: Serving, id_: SeasonId) -> Response:
    """Show the board and the audit of a season."""
    plan = await service.read(find_plan, service.store, id_)
    values = await service.read(_results, service, plan)
    return await page(request, "season_results.html", plan=plan, **values)


@router.post("/seasons/{id}", dependencies=[RUN])
async def change(request: Request, service: Serving, host: Host, id_: SeasonId) -> Response:
    """Store the options of the form; then estimate the cost, start the season, or do neither."""
    form = {key: str(value) for key, value in (await request.form()).items()}
    plan = await service.read(find_plan, service.store, id_)
    try:
        plan = await host.change(id_, options_of_form(form, plan))
        if form.get("then") == "start":
            plan = await host.start(id_)
        elif form.get("then") == "estimate":
            estimate = await host.estimate(id_)
            return await _season_page(request, service, host, plan, estimate=estimate)
    except PeerageError as error:
        return await _season_page(request, service, host, plan, error=error)
    return RedirectResponse(f"/seasons/{plan.id}", 303)


@router.post("/seasons/{id}/go", dependencies=[RUN])
async def go_on(host: Host, id_: SeasonId) -> Response:
    """Continue a season."""
    plan = await host.start(id_)
    return RedirectResponse(f"/seasons/{plan.id}", 303)


@router.post("/seasons/{id}/pause", dependencies=[RUN])
async def pause(host: Host, id_: SeasonId) -> Response:
    """Pause a season: running sessions are finished, and no more are started."""
    plan = await host.pause(id_)
    return RedirectResponse(f"/seasons/{plan.id}", 303)


@router.post("/seasons/{id}/name")
async def rename(
    host: Host, client: Runner, id_: SeasonId, name: Annotated[str, Form(max_length=100)]
) -> Response:
    """Give a season another name."""
    await host.rename(id_, name.strip(), client.name)
    return RedirectResponse(f"/seasons/{id_}", 303)


@router.post("/seasons/{id}/delete")
async def delete_season(
    request: Request, service: Serving, host: Host, client: Admin, id_: SeasonId
) -> Response:
    """Delete a season. A draft is erased; a season with sessions can be restored."""
    from peerage.doors.http.data_routes import delete_or_restore
    from peerage.doors.web.curation_pages import after_deletion

    plan = await service.read(check_deletable, service.store, host, id_)
    if not await service.read(remove_draft, service.store, plan):
        done = await delete_or_restore(client, service, DeleteOptions(seasons=(plan.season,)))
        return await after_deletion(request, done, f"/deleted?season={plan.season}")
    return RedirectResponse("/seasons", 303)


@router.post("/prompts/{item_id}/season", dependencies=[RUN])
async def put_prompt_into_season(
    service: Serving, host: Host, item_id: str, season: Annotated[str, Form()]
) -> Response:
    """Put a contributed prompt into a season."""
    items = await service.read(service.reports.items)
    text = next((one.get("text") for one in items if one["item_id"] == item_id), None)
    if not text:
        raise UsageError("this prompt has no text.")
    await add_prompt(service, host, season, PromptGiven(query=text))
    return RedirectResponse(f"/seasons/{season}", 303)


def options_of_form(form: dict[str, str], plan: SeasonPlan) -> SeasonOptions:
    """Return the options in a form; a missing field keeps its value."""
    values: dict[str, Any] = plan.options.model_dump(exclude_defaults=True)
    for name in ("name", "panel", "rubric", "verdict", "guidelines"):
        if name in form:
            values[name] = form[name].replace("\r\n", "\n").strip()
    for name in ("rubric", "verdict"):
        if not values.get(name):
            values.pop(name, None)
    if "batch" in form:
        values["batch"] = form["batch"] == "yes"
    for name, number in (("budget_usd", float), ("concurrency", int), ("repeats", int)):
        if name not in form:
            continue
        values.pop(name, None)
        if text := form[name].strip():
            try:
                values[name] = number(text)
            except ValueError:
                raise UsageError(f"{name.replace('_', ' ')} is not a number.") from None
    return SeasonOptions(**values)


async def _season_page(
    request: Request,
    service: Service,
    host: SeasonHost,
    plan: SeasonPlan,
    ignored: str = "",
    *,
    estimate: dict[str, Any] | None = None,
    error: PeerageError | None = None,
) -> Response:
    document = await season_document(service, host, plan)
    rows = []
    if plan.state == "draft":
        rows = list(await service.read(stored_prompts, service.store, plan))
    others = [
        one
        for one in await service.read(list_plans, service.store)
        if one.id != plan.id and one.season
    ]
    return await page(
        request,
        "season.html",
        here="/seasons",
        code=422 if error else 200,
        plan=plan,
        season=document,
        rows=rows[:N_ROWS_SHOWN],
        n_with_answers=sum(row.answers is not None for row in rows),
        categories=sorted({row.category for row in rows if row.category}),
        ignored=ignored,
        panels=await service.read(list_panels, service.store, service.configured),
        rubrics=[*rubric_names(service.settings), "none"],
        verdicts=get_args(VerdictKind),
        council=service.settings.council,
        estimate=estimate,
        error=error,
        others=others,
        **_may(request),
    )


def _results(service: Service, plan: SeasonPlan) -> dict[str, Any]:
    """Return the board of a season and the findings of its audit, or None if there are none."""
    if not plan.season:
        return {"board": None, "verdict": "", "findings": []}
    try:
        board = service.reports.board(ModelBoardOptions(season=plan.season, since="all"))
        audit = service.reports.audit(AuditOptions(season=plan.season, since="all"))
    except InputError:
        return {"board": None, "verdict": "", "findings": []}
    findings = findings_in_words(replace(audit, findings=tuple(strong_findings(audit))))
    return {"board": board, "verdict": audit_headline(audit), "findings": findings}


def _may(request: Request) -> dict[str, Any]:
    client = client_of(request)
    allowed = client.allowed if client else frozenset()
    return {"may_run": "run" in allowed, "is_admin": "admin" in allowed}
