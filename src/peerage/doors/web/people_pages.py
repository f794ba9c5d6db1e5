"""People as reviewers and contributors: blind ballots, the reveal, prompts and opinions on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.doors.http.access import Client, Reviewer, Serving
from peerage.doors.http.people_routes import contribute_items, give_opinions
from peerage.doors.http.session_routes import SessionId
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError, UsageError
from peerage.events import opening_of
from peerage.people import (
    ItemGiven,
    OpinionGiven,
    PersonBallot,
    PersonReview,
    deal_ballot,
    keep_review,
    may_review,
    next_ballot,
    session_of,
)
from peerage.reports.options import ItemBoardOptions
from peerage.reports.page_facts import Agreement, agreements_of, n_judged, reveal, stored_rows
from peerage.scoring import recorded_options
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PLACE, NOTE = "place_", "note_"  # the beginnings of a form's fields, before a label
N_PROMPTS = 50


@router.get("/review")
async def review_next(request: Request, service: Serving, client: Reviewer) -> Response:
    """A ballot that the balanced design deals this person next."""
    ballot = await service.read(next_ballot, service.store, client.name)
    return _ballot_page(request, service, client, ballot)


@router.get("/review/{id}")
async def review_one(
    request: Request, service: Serving, client: Reviewer, session_id: SessionId
) -> Response:
    """A ballot of one session, or the reveal where this person has judged it."""
    id_ = await service.full_id(session_id)
    events = await service.read(service.store.events, id_)
    if not await service.read(may_review, events, client.name):
        return RedirectResponse(f"/review/{id_}/reveal", 303)
    ballot = await service.read(deal_ballot, events, client.name)
    return _ballot_page(request, service, client, ballot)


@router.post("/review")
async def judge(request: Request, service: Serving, client: Reviewer) -> Response:
    """Keep a person's ranking, with the order really shown, and go to the reveal."""
    form = {name: str(value) for name, value in (await request.form()).items()}
    review = review_of_form(form)
    await service.read(keep_review, service.store, client.name, review, time.time)
    return RedirectResponse(f"/review/{session_of(review.ballot)}/reveal", 303)


@router.get("/review/{id}/reveal")
async def show_reveal(
    request: Request, service: Serving, client: Reviewer, session_id: SessionId
) -> Response:
    """Who wrote what, and how far everybody agrees with this person."""
    events = await service.read(service.store.events, await service.full_id(session_id))
    options = recorded_options(service.settings, opening_of(events))
    revealed = await service.read(reveal, events, client.name, options)
    if revealed is None:
        raise NotFoundError("you have not reviewed this session, or cannot.")
    overall, n_sessions = await service.read(_agreements, service, client.name)
    by_name = {one.name: one for one in overall}
    values = {"reveal": revealed, "overall": by_name, "n_sessions": n_sessions}
    return _page(request, "reveal.html", client, **values)


@router.get("/me")
async def own_page(request: Request, service: Serving, client: Reviewer) -> Response:
    """A person's own page: reviews, agreement, and the prompts contributed."""
    agreements, n_sessions = await service.read(_agreements, service, client.name)
    prompts = await service.read(_prompts, service)
    mine = [one for one in prompts if one["contributor"] == client.name]
    values = {"agreements": agreements, "n_sessions": n_sessions, "prompts": mine}
    return _page(request, "person.html", client, **values)


def _page(request: Request, template: str, client: Client, **values: Any) -> Response:
    """A page of the part for people, under the name that they review by."""
    return page(request, template, here="/review", person=client.name, **values)


def _agreements(service: Service, person: str) -> tuple[list[Agreement], int]:
    """How far everybody agrees with a person, and in how many sessions that was seen."""
    stored = stored_rows(service.reports)
    return (agreements_of(stored, person), n_judged(stored, person)) if stored else ([], 0)


# -- prompts ---------------------------------------------------------------------------------------


@router.get("/prompts")
async def prompts(request: Request, service: Serving, client: Reviewer) -> Response:
    """The prompts that people contributed, to be approved or not."""
    listed = await service.read(_prompts, service)
    return _page(request, "prompts.html", client, prompts=listed[:N_PROMPTS])


@router.post("/prompts")
async def contribute(
    request: Request, service: Serving, client: Reviewer, text: Annotated[str, Form(min_length=1)]
) -> Response:
    """Keep a prompt."""
    await contribute_items(request, service, client, ItemGiven(text=text.strip()))
    return RedirectResponse("/prompts", 303)


@router.post("/prompts/opinion")
async def opine(
    request: Request,
    service: Serving,
    client: Reviewer,
    item_id: Annotated[str, Form()],
    opinion: Annotated[float, Form()],
) -> Response:
    """Keep an opinion on a prompt."""
    await give_opinions(request, service, client, OpinionGiven(item_id=item_id, opinion=opinion))
    return RedirectResponse("/prompts", 303)


def _prompts(service: Service) -> list[dict[str, Any]]:
    """The contributed prompts with what people say of them, the fewest opinions first."""
    ranked = {row["item_id"]: row for row in service.reports.board(ItemBoardOptions()).rows}
    prompts = []
    for item in service.reports.items():
        row = ranked.get(item["item_id"], {})
        prompts.append(
            {
                "item_id": item["item_id"],
                "text": item.get("text") or item["item_id"],
                "contributor": item["contributor"] or "",
                "quality": row.get("quality"),
                "n_opinions": row.get("reviews") or 0,
            }
        )
    return sorted(prompts, key=lambda one: (one["n_opinions"], one["item_id"]))


# -- ballots ---------------------------------------------------------------------------------------


def _ballot_page(
    request: Request, service: Service, client: Client, ballot: PersonBallot | None
) -> Response:
    document = ballot.document(service.settings) if ballot else None
    return _page(request, "ballot.html", client, ballot=document)


def review_of_form(form: Mapping[str, str]) -> PersonReview:
    """A person's review from the places and notes of a form."""
    places: dict[int, list[str]] = {}
    for name, value in form.items():
        if name.startswith(PLACE):
            if not value.isdecimal():
                raise UsageError("a place is no number.")
            places.setdefault(int(value), []).append(name.removeprefix(PLACE))
    notes = {name: value.strip() for name, value in form.items() if name.startswith(NOTE)}
    order = [label for label in form.get("order", "").split(",") if label]
    return PersonReview(
        ballot=form.get("ballot", ""),
        order=order or None,
        ranking=[tier if len(tier) > 1 else tier[0] for _, tier in sorted(places.items())],
        notes={name.removeprefix(NOTE): note for name, note in notes.items() if note},
    )
