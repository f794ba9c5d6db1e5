"""HTTP routes for people: blind ballots, opinions, and contributed prompts."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Query, Request
from pydantic import Discriminator, Tag
from starlette.responses import JSONResponse, Response

from peerage.contributions import ItemGiven, OpinionGiven, keep_items, keep_opinions
from peerage.doors.http.access import Client, Reviewer, Serving, TokenBook
from peerage.doors.http.problems import ONE, RESPONSES, SEVERAL
from peerage.people import MAX_ID, AlreadyReviewedError, PersonReview, keep_review, next_ballot

MAX_ROWS = 1_000  # in one request

router = APIRouter(prefix="/api", tags=["people"], responses=RESPONSES)
REVIEW = {
    "a ranking": {
        "value": {
            "ballot": "5f0c1e7a9b2d4c68.1234",
            "order": ["B", "A"],
            "ranking": ["A", "B"],
            "notes": {"B": "Wrong in the second line."},
        }
    }
}
# One row or a list of rows; errors are reported for the form that the body has.
OneOrMany = Discriminator(lambda body: SEVERAL if isinstance(body, list) else ONE)
OpinionsGiven = Annotated[
    Annotated[OpinionGiven, Tag(ONE)] | Annotated[list[OpinionGiven], Tag(SEVERAL)], OneOrMany
]
ItemsGiven = Annotated[
    Annotated[ItemGiven, Tag(ONE)] | Annotated[list[ItemGiven], Tag(SEVERAL)], OneOrMany
]
NO_BALLOT: dict[int | str, dict[str, Any]] = {204: {"description": "No session is left to judge."}}


@router.get("/ballots/next", responses=NO_BALLOT)
async def next_ballot_to_judge(
    service: Serving,
    client: Reviewer,
    category: Annotated[str | None, Query(max_length=MAX_ID)] = None,
    session: Annotated[
        str | None, Query(max_length=MAX_ID, description="Deal a ballot of this session.")
    ] = None,
) -> Response:
    """Return a ballot without names, its answers in random order; 204 if no session is left."""
    id_ = None if session is None else await service.full_id(session)
    ballot = await service.read(next_ballot, service.store, client.name, category, id_)
    if ballot is None and id_ is not None:
        raise HTTPException(409, "you have reviewed this session, or may not review it.")
    if ballot is None:
        return Response(status_code=204)
    return JSONResponse(ballot.document(service.settings))


@router.post("/ballots", status_code=201)
async def judge_ballot(
    service: Serving,
    client: Reviewer,
    review: Annotated[PersonReview, Body(openapi_examples=REVIEW)],
) -> dict[str, Any]:
    """Store a review, with the order in which the answers were shown."""
    try:
        fact = await service.read(keep_review, service.store, client.name, review, service.clock)
    except AlreadyReviewedError as error:
        raise HTTPException(409, error.message) from None
    return {"reviewer": fact.ballot.reviewer, "stored": True}


@router.post("/opinions", status_code=201)
async def give_opinions(
    request: Request,
    service: Serving,
    client: Reviewer,
    opinions: Annotated[
        OpinionsGiven,
        Body(examples=[{"item_id": "p17", "opinion": 1, "contributor": "ann"}]),
    ],
) -> dict[str, Any]:
    """Store opinions on items under the caller's name; the latest opinion on an item counts.

    Only a token of scope `admin` may name the contributor of an unknown item.
    """
    rows = _count_rows(request, client, opinions)
    keep = partial(keep_opinions, may_name_owners="admin" in client.allowed)
    scale = service.settings.community.scale
    n = await service.read(keep, service.store, client.name, rows, scale, service.clock())
    return {"stored": n, "by": client.name}


@router.post("/items", status_code=201)
async def contribute_items(
    request: Request,
    service: Serving,
    client: Reviewer,
    items: Annotated[ItemsGiven, Body(examples=[{"item_id": "p17", "text": "Why is it so?"}])],
) -> dict[str, Any]:
    """Store contributed prompts; a prompt without an id gets a new one."""
    rows = _count_rows(request, client, items)
    ids = await service.read(keep_items, service.store, client.name, rows, service.clock())
    return {"stored": len(ids), "by": client.name, "item_ids": ids}


def _count_rows(request: Request, client: Client, body: Any) -> list[Any]:
    """Return the rows of a request, and count them against the client's limit per minute."""
    rows = body if isinstance(body, list) else [body]
    if not 1 <= len(rows) <= MAX_ROWS:
        raise HTTPException(422, f"send from 1 to {MAX_ROWS} rows at a time.")
    book: TokenBook = request.app.state.token_book
    book.count_rows(client, len(rows))
    return rows
