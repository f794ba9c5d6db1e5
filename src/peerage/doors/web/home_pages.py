"""The first page and the list of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from peerage.config.rubrics import rubric_names
from peerage.doors.http.access import READ, Serving
from peerage.doors.web.page_route import PageRoute
from peerage.doors.web.templating import money, page
from peerage.errors import PeerageError
from peerage.events import Finished, Tallied, billed_calls, read_event, read_events
from peerage.reports.options import SessionsOptions
from peerage.reports.sessions import bill_of
from peerage.rules import rules
from peerage.service import Service
from peerage.stores import Listing, Store
from peerage.stores.prompt_files import MAX_QUERY_CHARACTERS

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_RECENT = 8
N_LISTED = 50
N_SEARCHED = 5_000  # of the latest sessions, in which a search looks


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A line of the list."""

    id: str
    query: str
    category: str
    status: str
    opened_at: float
    winner: str
    cost: str
    is_running: bool


@router.get("/")
async def home(request: Request, service: Serving, query: str = "", after: str = "") -> Response:
    """A question box, the panel, and what was asked lately."""
    settings = service.settings
    listed = await service.read(service.reports.sessions, SessionsOptions(limit=N_RECENT))
    recent = await service.read(lines, service, list(reversed(listed.sessions)))
    before = await service.read(service.reports.session, after) if after else None
    return page(
        request,
        "ask.html",
        is_empty=not recent,
        recent=recent,
        query=query,
        after=before.session if before else None,
        seats=settings.seats,
        council=settings.council,
        rubrics=[*rubric_names(settings), "none"],
        rules=rules.names(),
        max_characters=MAX_QUERY_CHARACTERS,
        about_panel=about_panel(service),
        n_demo=120,
    )


@router.get("/sessions")
async def sessions(
    request: Request,
    service: Serving,
    search: Annotated[str, Query(max_length=500)] = "",
    category: str = "",
    status: str = "",
    before: str | None = None,
) -> Response:
    """The sessions, the latest first."""
    found = await service.read(_found, service, search, category, status, before)
    shown, more = found[:N_LISTED], found[N_LISTED:]
    recent = await service.read(lines, service, shown)
    return page(
        request,
        "sessions.html",
        recent=recent,
        search=search,
        category=category,
        status=status,
        next=shown[-1].id if more else None,
    )


def _found(
    service: Service, search: str, category: str, status: str, before: str | None
) -> list[Listing]:
    """The latest sessions that fit, one more than a page holds where there are more."""
    filtered = bool(search or category or status)
    limit = N_SEARCHED if filtered else N_LISTED + 1
    listed = service.reports.sessions(SessionsOptions(limit=limit, before=before)).sessions
    words = search.casefold()
    fitting = (
        one
        for one in reversed(listed)
        if (not words or words in one.query.casefold() or one.id.startswith(words))
        and (not category or one.category == category)
        and (not status or (one.status or "unfinished") == status)
    )
    return [one for one, _ in zip(fitting, range(N_LISTED + 1), strict=False)]


def lines(service: Service, listed: Sequence[Listing]) -> list[ListedSession]:
    """Lines of the list, with who won and what it cost."""
    return [_line(service.store, one, service.hosts(one.id)) for one in listed]


def _line(store: Store, one: Listing, is_running: bool) -> ListedSession:
    winner, cost = "", ""
    try:
        events = store.events(one.id)
        facts = [fact for event in events if (fact := read_event(event)) is not None]
        tallied = next((fact for fact in facts if isinstance(fact, Tallied)), None)
        winner = ", ".join(s.model for s in tallied.scores if s.rank == 1) if tallied else ""
        cost = money(bill_of(billed_calls(facts)))
    except PeerageError:
        cost = "unreadable"
    return ListedSession(
        one.id, one.query, one.category, one.status, one.opened_at, winner, cost, is_running
    )


def about_panel(service: Service) -> str:
    """Who would answer, in a sentence."""
    seats = service.settings.seats
    kinds = sorted({seat.provider for seat in seats})
    n = "One seat" if len(seats) == 1 else f"{len(seats)} seats"
    if kinds == ["local"]:
        return f"{n} share a small model inside this server: it writes fluently and judges badly."
    if kinds == ["simulated"]:
        return f"{n} are simulated: their answers are drawn, not written by a model."
    return f"{n} would answer, by {', '.join(kinds)}."
