"""The first page, the list of sessions, and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from peerage.config.rubrics import rubric_names
from peerage.config.settings import VerdictKind
from peerage.doors.demo_store import N_SESSIONS
from peerage.doors.http.access import READ, RUN, Serving, client_of
from peerage.doors.http.operations import PanelCheck
from peerage.doors.http.problems import status_of
from peerage.doors.http.season_routes import Host
from peerage.doors.render.model_names import clear_winners
from peerage.doors.web.season_pages import running_seasons
from peerage.doors.web.session_parts import n_answered, n_reviewed
from peerage.doors.web.templating import PageRoute, dollars, has_community, page
from peerage.dry_runs import SessionEstimate
from peerage.errors import PeerageError, how_many
from peerage.hosted_seasons import SeasonHost
from peerage.messages import IMAGE_STARTS, MAX_IMAGE_BYTES, MAX_IMAGES
from peerage.reports.session_options import SessionsOptions
from peerage.reports.sessions import find_sessions, with_status
from peerage.rules import rules
from peerage.service import Service
from peerage.session_requests import SessionRequest
from peerage.stores import SessionEntry, without_password
from peerage.types import MAX_QUERY_CHARACTERS, Seat
from peerage.view import SessionView

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_RECENT = 8
EXAMPLES = (
    "Should a small team use a monorepo or several repositories?",
    "Explain the birthday paradox to a twelve-year-old, with the numbers.",
    "Write a function that merges overlapping intervals, and its tests.",
)
EXAMPLE_PLACES = (  # the reviewers of an invented panel, and the place each gives each answer
    ("Ash", (1, 2, 3, 4)),
    ("Birch", (1, 2, 4, 3)),
    ("Cedar", (1, 3, 2, 4)),
    ("Elm", (2, 3, 4, 1)),
)
NO_SEAT = "Choose at least one seat."
ANY_QUESTION = "?"  # stands for a question that is not written yet
N_LISTED = 50
N_WATCHED = 500  # how many of the latest sessions are searched for running ones
SECTIONS = ("council", "audit", "community", "rubric_by_category")
MAX_VALUE = 200  # how many characters of a setting are shown


@router.get("/")
async def home(
    request: Request, service: Serving, host: Host, query: str = "", after: str = ""
) -> Response:
    """Return a question box, the panel, and the latest questions."""
    return await ask_page(request, service, host, query, after)


async def ask_page(
    request: Request,
    service: Service,
    host: SeasonHost,
    query: str = "",
    after: str = "",
    *,
    chosen: Sequence[str] = (),
    error: PeerageError | None = None,
) -> Response:
    """Return the first page; with an error, the question that was refused and the reason."""
    settings = service.settings
    latest = await service.read(service.store.sessions, None, N_RECENT)
    before = await service.read(service.reports.session, after) if after else None
    request.app.state.has_community = await service.read(has_community, service.store)
    return await page(
        request,
        "ask.html",
        here="/",
        code=int(status_of(error)) if error else 200,
        **await service.read(lines_of, service, latest[::-1]),
        is_empty=not latest,
        running_seasons=await running_seasons(service, host),
        query=query,
        after=before.session if before else None,
        seats=settings.seats,
        chosen=chosen or [seat.name for seat in settings.seats],
        error=error,
        sighted=[seat.name for seat in settings.seats if seat.images],
        image_types=tuple(IMAGE_STARTS),
        max_images=MAX_IMAGES,
        max_image_mb=f"{MAX_IMAGE_BYTES / 1e6:g}",
        council=settings.council,
        rubrics=[*rubric_names(settings), "none"],
        rules=rules.names(),
        max_characters=MAX_QUERY_CHARACTERS,
        about_panel=about_panel(service),
        n_demo=N_SESSIONS,
        examples=EXAMPLES,
        example=EXAMPLE_PLACES,
    )


@router.get("/ask/estimate")
async def estimate(
    request: Request,
    service: Serving,
    query: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
    seats: Annotated[list[str], Query()] = [],  # noqa: B006 - nothing changes it
    verdict: VerdictKind | Literal[""] = "",
) -> Response:
    """Return the approximate cost of a session, in a line."""
    chosen = [seat for seat in service.settings.seats if seat.name in seats]
    names = tuple(seat.name for seat in chosen)
    session_request = SessionRequest.of(
        {"query": query.strip() or ANY_QUESTION, "seats": names, "verdict": verdict or None}
    )
    warning = no_vote_warning(chosen)
    try:
        cost = cost_words(await service.estimate(session_request)) if chosen else NO_SEAT
    except PeerageError as error:  # if there is a warning, it usually says the same
        cost = "" if warning else error.message
    return await page(request, "line.html", line=f"{warning} {cost}".strip())


@router.get("/sessions")
async def sessions(
    request: Request,
    service: Serving,
    search: Annotated[str, Query(max_length=500)] = "",
    category: str = "",
    status: str = "",
    tag: str = "",
    before: str | None = None,
) -> Response:
    """Return the sessions, the latest first."""
    options = SessionsOptions(
        limit=N_LISTED + 1,
        before=before,
        search=search,
        category=category or None,
        status=status or None,
        tag=tag.strip() or None,
    )
    matches = (await service.read(find_sessions, service.store, options))[::-1]
    listed, more = matches[:N_LISTED], matches[N_LISTED:]
    return await page(
        request,
        "sessions.html",
        **await service.read(lines_of, service, listed),
        search=search,
        category=category,
        status=status,
        tag=tag,
        next=listed[-1].id if more else None,
    )


@router.get("/sessions/running")
async def running_sessions(
    request: Request,
    service: Serving,
    ids: Annotated[list[str], Query(alias="id", max_length=N_LISTED)],
) -> Response:
    """Return the current lines of sessions that were running a moment ago."""
    latest = await service.read(service.store.sessions, None, N_WATCHED)
    listed = [one for one in latest if one.id in set(ids)]
    return await page(request, "running_rows.html", **await service.read(lines_of, service, listed))


def lines_of(service: Service, listed: Iterable[SessionEntry]) -> dict[str, Any]:
    """Return the lines of the list: winner, cost, and the progress of sessions that run here."""
    recent, progress = [], {}
    held = service.store.running_sessions()  # includes sessions of seasons, which are not hosted
    for one in listed:
        recent.append(with_status(one))
        if not one.status and service.hosts(one.id):
            progress[one.id] = progress_words(service.view_of(one.id))
        elif not one.status and one.id in held:
            progress[one.id] = "running"
    winners = clear_winners({one.winner for one in recent})
    return {"recent": recent, "progress": progress, "winners": winners}


def progress_words(view: SessionView | None) -> str:
    """Return the progress of a running session in words; before its start, it waits."""
    if view is None:
        return "waits"
    with view.lock:
        counts = {"answers": n_answered, "reviews": n_reviewed}.get(view.stage)
        return f"{view.stage} {counts(view).words}" if counts else "verdict"


def cost_words(estimate: SessionEstimate) -> str:
    """Return the number of calls of a session and their approximate cost, in a line."""
    unknown = sorted(one.seat.name for one in estimate.seats if one.calls and one.price is None)
    total = estimate.cost_usd
    about = "free" if not total and not unknown else f"about {dollars(total)}"
    missing = f", plus the calls to {', '.join(unknown)}, whose price is unknown" if unknown else ""
    return f"{how_many(estimate.n_calls, 'call')}, {about}{missing}."


def no_vote_warning(seats: Iterable[Seat]) -> str:
    """Return a warning if no reviewer has two answers of others to compare, else ""."""
    seats = list(seats)
    authors = {seat.name for seat in seats if "answer" in seat.roles}
    reviewers = [seat.name for seat in seats if "review" in seat.roles]
    if not seats or any(len(authors - {name}) > 1 for name in reviewers):
        return ""
    return (
        "With this choice no vote can count: a reviewer needs two answers of others to compare. "
        "Choose three seats or more."
    )


def _where(seat: Seat) -> str:
    """Return the host of a seat's endpoint, or its provider."""
    return urlsplit(seat.base_url or "").hostname or seat.provider


def about_panel(service: Service) -> str:
    """Return the seats that would answer, in a sentence."""
    seats = service.settings.seats
    if not seats:
        return "No panel is configured yet."
    kinds = sorted({seat.provider for seat in seats})
    n = "One seat" if len(seats) == 1 else f"{len(seats)} seats"
    if kinds == ["local"]:
        return f"{n} share a small model inside this server: it writes fluently and judges badly."
    if kinds == ["simulated"]:
        return f"{n} are simulated: their answers are random texts, not written by a model."
    return f"{n} would answer, at {', '.join(sorted({_where(seat) for seat in seats}))}."


# -- settings ------------------------------------------------------------------------------------


@router.get("/settings")
async def settings(request: Request, service: Serving) -> Response:
    """Return the configuration, and the tokens for clients that may see them."""
    client = client_of(request)
    is_admin = client is not None and "admin" in client.allowed
    return await page(
        request,
        "settings.html",
        store=without_password(service.settings.store),
        notes=service.settings.notes,
        seats=service.settings.seats,
        sections=list(sections(service)),
        answering=None,
        tokens=await service.read(service.store.tokens) if is_admin else None,
    )


@router.post("/settings/health", dependencies=[RUN])
async def health(request: Request, service: Serving) -> Response:
    """Return whether each seat answers; a recent result may be reused."""
    check: PanelCheck = request.app.state.panel_check
    problem = await check.problem_of(service)
    return await page(
        request,
        "seats_table.html",
        seats=service.settings.seats,
        answering=check.answering,
        problem=problem,
    )


def sections(service: Service) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield every table of the configuration as names and values, without models' keys."""
    tree = service.settings.model_dump(include=set(SECTIONS))
    for name in SECTIONS:
        if rows := list(_rows(tree.get(name) or {})):
            yield name, rows


def _rows(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            text = "not set" if value is None else str(value)
            yield f"{prefix}{name}", (text.lower() if isinstance(value, bool) else text)[:MAX_VALUE]
