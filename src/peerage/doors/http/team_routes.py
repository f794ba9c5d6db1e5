"""HTTP routes for a team: invitations, published links, and assignments of ballots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from peerage.doors.http.access import ADMIN, Admin, Reviewer, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.errors import NotFoundError
from peerage.hosted_seasons import find_plan
from peerage.links import INVITATION, Role, invitation, make_link
from peerage.people import (
    MAX_ID,
    Consistency,
    assign,
    assigned_sessions,
    consistency,
    review_queue,
)
from peerage.service import Service
from peerage.stores import Link, full_id

router = APIRouter(prefix="/api", tags=["team"], responses=RESPONSES)

MAX_ASSIGNED = 1_000


class InvitationGiven(BaseModel):
    """An invitation to this server."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    role: Role = Field(description="reviewer, reader, member (run and review) or admin.")
    name: str = Field(default="", max_length=100, description="For one person; empty: for anyone.")
    days: float | None = Field(default=7.0, gt=0, le=3_650, description="Days until it ends.")
    uses: int | None = Field(default=1, ge=1, le=1_000, description="How many may join with it.")


class AssignmentGiven(BaseModel):
    """Ballots for one person."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    person: str = Field(min_length=1, max_length=MAX_ID)
    season: str = Field(default="", max_length=100, description="Take sessions of this season.")
    n: int = Field(default=20, ge=1, le=MAX_ASSIGNED, description="How many to take of the season.")
    sessions: tuple[str, ...] = Field(default=(), max_length=MAX_ASSIGNED)


@router.post("/invitations", status_code=201)
async def invite(
    client: Admin,
    service: Serving,
    given: Annotated[InvitationGiven, Body(examples=[{"role": "reviewer", "days": 7}])],
) -> dict[str, Any]:
    """Make an invitation; the address of its page is shown only this once."""
    read = invitation, service.store, service.configured, given.role, given.name
    body = await service.read(*read)
    text, link = make_link(INVITATION, body, client.name, service.clock(), given.days, given.uses)
    await service.read(service.store.add_link, link)
    return {"path": f"/join/{text}", **link_document(link)}


@router.get("/invitations", dependencies=[ADMIN])
async def invitations(service: Serving) -> dict[str, Any]:
    """List the invitations, without their secrets."""
    links = await service.read(service.store.links, INVITATION)
    return {"invitations": [link_document(link) for link in links]}


@router.delete("/links/{id}", dependencies=[ADMIN])
async def revoke_link(service: Serving, id: str) -> dict[str, Any]:
    """End an invitation or a published link."""
    if not await service.read(service.store.revoke_link, id, service.clock()):
        raise NotFoundError("there is no such link, or it has ended.")
    return {"revoked": id}


@router.post("/assignments", status_code=201)
async def assign_ballots(
    client: Admin,
    service: Serving,
    given: Annotated[
        AssignmentGiven, Body(examples=[{"person": "ann", "season": "3f9a", "n": 20}])
    ],
) -> dict[str, Any]:
    """Put sessions into a person's queue: those named, or those of a season with fewest reviews."""
    ids = await service.read(_assign, service, given, client.name)
    return {"person": given.person, "sessions": list(ids)}


def _assign(service: Service, given: AssignmentGiven, by: str) -> tuple[str, ...]:
    store = service.store
    ids = [full_id(store, prefix) for prefix in given.sessions]
    if given.season:
        season = find_plan(store, given.season).season
        known = set(assigned_sessions(store, given.person))
        queue = review_queue(store, given.person, season=season, assigned=False)
        ids += [id_ for id_ in queue.ahead if id_ not in known][: given.n]
    return assign(store, given.person, ids, by, service.clock())


@router.get("/queue")
async def own_queue(service: Serving, client: Reviewer, season: str = "") -> dict[str, Any]:
    """Return how many ballots the caller has judged and has left.

    `repeated` says how consistent the caller was on ballots that were judged twice.
    """
    plan = await service.read(find_plan, service.store, season) if season else None
    read = review_queue, service.store, client.name, None, plan.season if plan else None
    queue = await service.read(*read)
    same: Consistency = await service.read(consistency, service.store, client.name)
    return {
        "done": len(queue.done),
        "ahead": len(queue.ahead),
        "total": queue.n,
        "assigned": queue.is_assigned,
        "guidelines": plan.options.guidelines if plan else "",
        "repeated": asdict(same),
    }


def link_document(link: Link) -> dict[str, Any]:
    """Return a link as JSON, without its hash."""
    return {name: value for name, value in asdict(link).items() if name != "hash"}
