"""People as reviewers and contributors: blind ballots, the reveal, prompts and opinions on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.contributions import ItemGiven, OpinionGiven
from peerage.doors.http.access import Client, Reviewer, Serving
from peerage.doors.http.people_routes import contribute_items, give_opinions
from peerage.doors.http.session_routes import SessionId
from peerage.doors.web.templating import PageRoute, image_response, page
from peerage.errors import NotFoundError, UsageError
from peerage.event_facts import opening_of, people_reviews
from peerage.events import read_events
from peerage.hosted_seasons import SeasonPlan, find_plan, list_plans
from peerage.people import (
    PersonBallot,
    PersonReview,
    ReviewQueue,
    consistency,
    deal_ballot,
    has_seen_reveal,
    keep_review,
    may_review,
    next_ballot,
    note_reveal,
    review_queue,
    session_of,
    withdraw_review,
)
from peerage.reports.options import ItemBoardOptions
from peerage.reports.page_facts import (
    Agreement,
    Reveal,
    agreements_of,
    n_judged,
    reveal,
    stored_rows,
)
from peerage.scoring import recorded_options
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PLACE, NOTE, MARK = "place_", "note_", "mark_"  # prefixes of form fields, before a label
N_PROMPTS = 50


@router.get("/review")
async def review_next(
    request: Request,
    service: Serving,
    client: Reviewer,
    season: Annotated[str, Query(max_length=100)] = "",
    after: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show the next ballot of this person's queue, of one season or of all."""
    plan = await service.read(find_plan, service.store, season) if season else None
    values = await service.read(_next_in_queue, service, client.name, plan, after)
    return await _ballot_page(request, service, client, season=season, **values)


def _next_in_queue(
    service: Service, person: str, plan: SeasonPlan | None, after: str
) -> dict[str, Any]:
    """Return the next ballot, its position in the queue, and the previous review."""
    store = service.store
    of_season = plan.season if plan else None
    repeats = plan.options.repeats if plan else 0
    ballot = next_ballot(store, person, season=of_season, repeats=repeats)
    queue = review_queue(store, person, season=of_season)
    if plan is None and ballot is not None and ballot.opened.season:
        plan = next((one for one in list_plans(store) if one.season == ballot.opened.season), None)
    before = None
    if after and person in people_reviews(read_events(store.events(after))):
        before = {"id": after, "may_undo": not has_seen_reveal(store, person, after)}
    guidelines = plan.options.guidelines if plan else ""
    repeats = plan.options.repeats if plan else 0
    return {"ballot": ballot, "queue": queue, "before": before, "guidelines": guidelines,
            "repeats": repeats}  # fmt: skip


@router.get("/review/{id}/images/{number}")
async def review_image(
    service: Serving, _: Reviewer, session_id: SessionId, number: int
) -> Response:
    """Return an image of the question on a ballot, by its number from 1."""
    events = await service.read(service.store.events, await service.full_id(session_id))
    return image_response(opening_of(events).query, number)


@router.get("/review/{id}")
async def review_one(
    request: Request, service: Serving, client: Reviewer, session_id: SessionId
) -> Response:
    """Return a ballot of one session, or the reveal if this person has judged it."""
    id_ = await service.full_id(session_id)
    events = await service.read(service.store.events, id_)
    if not await service.read(may_review, events, client.name):
        return RedirectResponse(f"/review/{id_}/reveal", 303)
    ballot = await service.read(deal_ballot, events, client.name)
    return await _ballot_page(request, service, client, ballot)


@router.post("/review")
async def judge(request: Request, service: Serving, client: Reviewer) -> Response:
    """Store a person's ranking with the order that was shown, and go to the next ballot.

    A ballot in the order in which the answers were shown needs a confirmation.
    """
    form = {name: str(value) for name, value in (await request.form()).items()}
    if not form.get("ballot"):
        raise UsageError("the form has no ballot.", hint="Open /review in a browser.")
    review = review_of_form(form)
    if is_untouched(form, review) and not form.get("confirmed"):
        return await _page(request, "ballot_confirm.html", client, form=form)
    await service.read(keep_review, service.store, client.name, review, time.time)
    season = quote(form.get("season", ""))
    return RedirectResponse(f"/review?after={session_of(review.ballot)}&season={season}", 303)


def is_untouched(form: Mapping[str, str], review: PersonReview) -> bool:
    """Return whether a ballot only repeats the order in which the answers were shown."""
    order = [label for label in form.get("order", "").split(",") if label]
    remarks = review.notes or review.marks or review.abstained
    return bool(order) and not remarks and list(review.ranking) == order


@router.post("/review/{id}/undo")
async def undo(
    service: Serving,
    client: Reviewer,
    session_id: SessionId,
    season: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Withdraw a review, before its reveal, and show the ballot again."""
    id_ = await service.full_id(session_id)
    await service.read(withdraw_review, service.store, client.name, id_, time.time)
    return RedirectResponse(f"/review/{id_}?season={quote(season)}", 303)


@router.get("/review/{id}/reveal")
async def show_reveal(
    request: Request, service: Serving, client: Reviewer, session_id: SessionId
) -> Response:
    """Return the authors of the answers, and each reviewer's agreement with this person.

    Until the person has asked for it, the page only asks whether to show it.
    """
    revealed = await _reveal(service, client, session_id)
    id_ = revealed.session.id
    if not await service.read(has_seen_reveal, service.store, client.name, id_):
        return await _page(request, "reveal_ask.html", client, id=id_)
    overall, n_sessions = await service.read(_agreements, service, client.name)
    by_name = {one.name: one for one in overall}
    values = {"reveal": revealed, "overall": by_name, "n_sessions": n_sessions}
    return await _page(request, "reveal.html", client, **values)


@router.post("/review/{id}/reveal")
async def ask_for_reveal(service: Serving, client: Reviewer, session_id: SessionId) -> Response:
    """Note that the person sees the authors, after which the review stands, and show them."""
    id_ = (await _reveal(service, client, session_id)).session.id
    await service.read(note_reveal, service.store, client.name, id_, time.time())
    return RedirectResponse(f"/review/{id_}/reveal", 303)


async def _reveal(service: Service, client: Client, session_id: str) -> Reveal:
    """Return the authors of a session's answers; raise an error before the person's review."""
    events = await service.read(service.store.events, await service.full_id(session_id))
    options = recorded_options(service.settings, opening_of(events))
    revealed = await service.read(reveal, events, client.name, options)
    if revealed is None:
        raise NotFoundError("you have not reviewed this session, or may not review it.")
    return revealed


@router.get("/me")
async def own_page(request: Request, service: Serving, client: Reviewer) -> Response:
    """Return a person's own page: reviews, agreement, and the prompts contributed."""
    agreements, n_sessions = await service.read(_agreements, service, client.name)
    prompts = await service.read(_prompts, service)
    mine = [one for one in prompts if one["contributor"] == client.name]
    same = await service.read(consistency, service.store, client.name)
    values = {"agreements": agreements, "n_sessions": n_sessions, "prompts": mine, "same": same}
    return await _page(request, "person.html", client, **values)


async def _page(request: Request, template: str, client: Client, **values: Any) -> Response:
    """Return a page for people, with the name under which they review."""
    return await page(request, template, here="/review", person=client.name, **values)


def _agreements(service: Service, person: str) -> tuple[list[Agreement], int]:
    """Return each reviewer's agreement with a person, and the number of sessions."""
    stored = stored_rows(service.reports)
    return (agreements_of(stored, person), n_judged(stored, person)) if stored else ([], 0)


# -- prompts ---------------------------------------------------------------------------------------


@router.get("/prompts")
async def prompts(request: Request, service: Serving, client: Reviewer) -> Response:
    """Return the prompts that people contributed, for approval."""
    listed = await service.read(_prompts, service)
    plans = await service.read(list_plans, service.store) if "run" in client.allowed else []
    seasons = [plan for plan in plans if plan.by]  # those whose prompts are in the store
    return await _page(request, "prompts.html", client, prompts=listed[:N_PROMPTS], seasons=seasons)


@router.post("/prompts")
async def contribute(
    request: Request, service: Serving, client: Reviewer, text: Annotated[str, Form(min_length=1)]
) -> Response:
    """Store a prompt."""
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
    """Store an opinion on a prompt."""
    await give_opinions(request, service, client, OpinionGiven(item_id=item_id, opinion=opinion))
    return RedirectResponse("/prompts", 303)


def _prompts(service: Service) -> list[dict[str, Any]]:
    """Return the contributed prompts with their opinions, fewest opinions first."""
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


async def _ballot_page(
    request: Request,
    service: Service,
    client: Client,
    ballot: PersonBallot | None,
    queue: ReviewQueue | None = None,
    before: Mapping[str, Any] | None = None,
    guidelines: str = "",
    repeats: int = 0,
    season: str = "",
) -> Response:
    document = ballot.document(service.settings) if ballot else None
    values: dict[str, Any] = {
        "queue": queue,
        "before": before,
        "guidelines": guidelines,
        "repeats": repeats,
    }
    if ballot is not None:
        values["response_by_label"] = ballot.response_by_label
        values["images"] = ballot.session.query.all_images
        values["image_address"] = f"/review/{ballot.session.id}/images/"
    return await _page(request, "ballot.html", client, ballot=document, season=season, **values)


def review_of_form(form: Mapping[str, str]) -> PersonReview:
    """Return a person's review from the places and notes of a form."""
    places: dict[int, list[str]] = {}
    for name, value in form.items():
        if name.startswith(PLACE):
            if not value.isdecimal():
                raise UsageError("a place must be a number.")
            places.setdefault(int(value), []).append(name.removeprefix(PLACE))
    if skipped := form.get("skip", "").strip():
        why = form.get("why", "").strip()
        return PersonReview(ballot=form.get("ballot", ""), abstained=why or skipped)
    notes = {name: value.strip() for name, value in form.items() if name.startswith(NOTE)}
    order = [label for label in form.get("order", "").split(",") if label]
    return PersonReview(
        ballot=form.get("ballot", ""),
        order=order or None,
        ranking=[tier if len(tier) > 1 else tier[0] for _, tier in sorted(places.items())],
        marks=_marks_of_form(form),
        notes={name.removeprefix(NOTE): note for name, note in notes.items() if note},
    )


def _marks_of_form(form: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the marks in a form, by label and dimension; empty fields are left out."""
    marks: dict[str, dict[str, float]] = {}
    for name, value in form.items():
        if name.startswith(MARK) and value.strip():
            label, _, dimension = name.removeprefix(MARK).partition("_")
            try:
                marks.setdefault(label, {})[dimension] = float(value)
            except ValueError:
                raise UsageError("a mark must be a number.") from None
    return marks
