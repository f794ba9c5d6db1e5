"""Team pages: log in, join by invitation; for admins, people and assignments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.http.access import (
    ADMIN,
    Admin,
    Serving,
    TokenBook,
    begin_login,
    local_path,
)
from peerage.doors.http.oidc import OidcProvider, why_refused
from peerage.doors.http.team_routes import (
    AssignmentGiven,
    InvitationGiven,
    assign_ballots,
    invite,
    revoke_link,
)
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import UsageError
from peerage.hosted_seasons import list_plans
from peerage.links import INVITATION, accept, find_link
from peerage.people import assigned_sessions, judged_sessions
from peerage.service import Service
from peerage.tokens import is_login

router = APIRouter(route_class=PageRoute, include_in_schema=False)


# -- in and out ------------------------------------------------------------------------------------


@router.get("/login")
async def login_page(request: Request, next: str = "") -> Response:
    """Ask for a token, or redirect to the login provider."""
    return await _login(request, next, why_refused(request))


@router.post("/login")
async def log_in(
    request: Request,
    token: Annotated[str, Form(max_length=1_000)] = "",
    next: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """Log in with a token, and continue to the requested page."""
    book: TokenBook = request.app.state.token_book
    client = await book.client(token.strip())
    if client is None or client.token is None:
        return await _login(
            request, next, "Unknown or expired token. Check that you copied all of it."
        )
    return await begin_login(request, client.token, next)


async def _login(request: Request, to: str, wrong: str = "") -> Response:
    oidc: OidcProvider | None = request.app.state.oidc
    return await page(
        request,
        "login.html",
        code=401 if wrong else 200,
        next=local_path(to),
        wrong=wrong,
        oidc=oidc.name if oidc else "",
    )


@router.get("/join/{text}")
async def invitation_page(request: Request, service: Serving, text: str) -> Response:
    """Show an invitation; it is used only when its button is pressed."""
    links = await service.read(service.store.links, INVITATION)
    link = find_link(text, links, service.clock())
    return await page(request, "join.html", code=200 if link else 410, link=link, wrong="", name="")


@router.post("/join/{text}")
async def join(
    request: Request, service: Serving, text: str, name: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    """Use an invitation: create the person's token and log in."""
    links = await service.read(service.store.links, INVITATION)
    link = find_link(text, links, service.clock())
    if link is None:
        return await page(request, "join.html", code=410, link=None, wrong="", name="")
    store, configured = service.store, service.configured
    try:
        token = await service.read(accept, store, configured, link, name, service.clock())
    except UsageError as error:
        wrong = f"{error.message} {error.hint}"
        return await page(request, "join.html", code=422, link=link, wrong=wrong, name=name)
    if token is None:
        return await page(request, "join.html", code=410, link=None, wrong="", name="")
    return await begin_login(request, token)


# -- for admins ------------------------------------------------------------------------------------


@router.get("/team", dependencies=[ADMIN])
async def team(request: Request, service: Serving) -> Response:
    """Show the people, the invitations and the assignments."""
    return await _team_page(request, service)


@router.post("/team/invitations")
async def make_invitation(
    request: Request,
    service: Serving,
    client: Admin,
    role: Annotated[str, Form()],
    name: Annotated[str, Form(max_length=100)] = "",
    days: Annotated[str, Form()] = "",
    uses: Annotated[str, Form()] = "",
) -> Response:
    """Create an invitation, and show its link this one time."""
    values: dict[str, Any] = {"role": role, "name": name}
    values["days"] = number_of(days, "days")
    values["uses"] = None if not uses.strip() else int(number_of(uses, "uses") or 0)
    try:
        given = InvitationGiven(**values)
    except ValueError as error:
        first = error.errors()[0]  # type: ignore[attr-defined]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}.") from None
    made = await invite(client, service, given)
    address = f"{str(request.base_url).rstrip('/')}{made['path']}"
    return await _team_page(request, service, address, given.name or "anyone")


@router.post("/team/links/{id}/revoke", dependencies=[ADMIN])
async def revoke(service: Serving, id: str) -> Response:
    """End an invitation."""
    await revoke_link(service, id)
    return RedirectResponse("/team", 303)


@router.post("/team/people/{id}/revoke")
async def remove_person(service: Serving, client: Admin, id: str) -> Response:
    """Revoke a person's token; their reviews stay."""
    if client.token is not None and client.token.id == id:
        raise UsageError("you cannot remove your own token.", hint="Ask another admin to do it.")
    if not await service.read(service.store.revoke_token, id, service.clock()):
        raise HTTPException(404, "there is no such token.")
    return RedirectResponse("/team", 303)


@router.post("/team/assignments")
async def make_assignment(
    service: Serving,
    client: Admin,
    person: Annotated[str, Form()],
    season: Annotated[str, Form()],
    n: Annotated[str, Form()] = "20",
) -> Response:
    """Assign ballots of a season to a person."""
    count = int(number_of(n, "how many") or 0)
    if not 1 <= count <= 1_000:
        raise UsageError("assign 1 to 1,000 ballots at a time.")
    await assign_ballots(client, service, AssignmentGiven(person=person, season=season, n=count))
    return RedirectResponse("/team", 303)


def number_of(text: str, name: str) -> float | None:
    """Return the number in a field, or None if it is empty."""
    if not text.strip():
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise UsageError(f"{name} is not a number.") from None


async def _team_page(
    request: Request, service: Service, made: str = "", made_for: str = ""
) -> Response:
    values = await service.read(_team, service)
    return await page(
        request,
        "team.html",
        here="/team",
        made=made,
        made_for=made_for,
        now=service.clock(),
        needs_token=request.app.state.access_rules.needs_token,
        **values,
    )


def _team(service: Service) -> dict[str, Any]:
    store = service.store
    judged = judged_sessions(store)
    tokens = [one for one in store.tokens() if not is_login(one) and one.revoked_at is None]
    people = [
        {
            "token": token,
            "n_judged": len(judged.get(token.name, ())),
            "n_assigned": len(assigned_sessions(store, token.name)),
        }
        for token in tokens
    ]
    seasons = [plan for plan in list_plans(store) if plan.season]
    invitations = store.links(INVITATION)[::-1]
    return {"people": people, "seasons": seasons, "invitations": invitations}
