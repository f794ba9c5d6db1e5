"""People over HTTP: blind ballots to judge, opinions, and prompts that they contribute."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from peerage.doors.http.access import Client, Reviewer, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.imports import Taken, take
from peerage.people import (
    AlreadyReviewedError,
    PersonReview,
    deal_ballot,
    keep_review,
    may_review,
    next_ballot,
)
from peerage.service import Service

MAX_ID = 500
MAX_ROWS = 1_000  # of one request

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
NO_BALLOT: dict[int | str, dict[str, Any]] = {204: {"description": "There is nothing to judge."}}


class Contribution(BaseModel):
    """Something of a person's that the community boards count; other columns are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: str | None = Field(default=None, max_length=MAX_ID)


class OpinionGiven(Contribution):
    """A person's opinion of an item."""

    item_id: str = Field(min_length=1, max_length=MAX_ID, examples=["p17"])
    opinion: float = Field(allow_inf_nan=False, description="On the configured scale, as ±1.")
    contributor: str | None = Field(
        default=None, max_length=MAX_ID, description="Whose the item is, where no item says so."
    )


class ItemGiven(Contribution):
    """A prompt that a person contributes."""

    item_id: str | None = Field(default=None, min_length=1, max_length=MAX_ID)
    text: str | None = Field(default=None, max_length=100_000, description="The prompt itself.")


@router.get("/ballots/next", responses=NO_BALLOT)
async def next_ballot_to_judge(
    service: Serving,
    client: Reviewer,
    category: Annotated[str | None, Query(max_length=MAX_ID)] = None,
    session: Annotated[
        str | None, Query(max_length=MAX_ID, description="A ballot of this session.")
    ] = None,
) -> Response:
    """A ballot in an order of its own, without names; nothing where all is judged."""
    if session is not None:
        events = await service.read(service.store.events, await service.full_id(session))
        if not may_review(events, client.name):
            raise HTTPException(409, "you cannot review this session (again).")
        ballot = deal_ballot(events)
    else:
        found = await service.read(next_ballot, service.store, client.name, category)
        if found is None:
            return Response(status_code=204)
        ballot = found
    return JSONResponse(ballot.document(service.settings))


@router.post("/ballots", status_code=201)
async def judge_ballot(
    service: Serving,
    client: Reviewer,
    said: Annotated[PersonReview, Body(openapi_examples=REVIEW)],
) -> dict[str, Any]:
    """Keep a review, with the order in which the answers were really shown."""
    try:
        fact = await service.read(keep_review, service.store, client.name, said, time.time)
    except AlreadyReviewedError as error:
        raise HTTPException(409, error.message) from None
    return {"reviewer": fact.ballot.reviewer, "stored": True}


@router.post("/opinions", status_code=201)
async def give_opinions(
    service: Serving,
    client: Reviewer,
    opinions: Annotated[
        OpinionGiven | list[OpinionGiven],
        Body(examples=[{"item_id": "p17", "opinion": 1, "contributor": "ann"}]),
    ],
) -> dict[str, Any]:
    """Keep opinions on items, under the name of whoever gives them; the last one stands."""
    rows = [one.model_dump(exclude_none=True) for one in _listed(opinions)]
    return await _kept(
        service, client, "opinions", [{**row, "reviewer": client.name} for row in rows]
    )


@router.post("/items", status_code=201)
async def contribute_items(
    service: Serving,
    client: Reviewer,
    items: Annotated[
        ItemGiven | list[ItemGiven], Body(examples=[{"item_id": "p17", "text": "Why is it so?"}])
    ],
) -> dict[str, Any]:
    """Keep prompts that a person contributes; one without an id is given one."""
    rows = [
        {"item_id": secrets.token_hex(8), **one.model_dump(exclude_none=True)}
        for one in _listed(items)
    ]
    kept = await _kept(
        service, client, "items", [{**row, "contributor": client.name} for row in rows]
    )
    return {**kept, "item_ids": [row["item_id"] for row in rows]}


def _listed(given: Any) -> list[Any]:
    rows = given if isinstance(given, list) else [given]
    if not 1 <= len(rows) <= MAX_ROWS:
        raise HTTPException(422, f"from 1 to {MAX_ROWS} at a time.")
    return rows


async def _kept(
    service: Service, client: Client, kind: str, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Store rows as a table that came in now, with all that an import checks."""
    now = time.time()

    def store_rows() -> Taken:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{kind} by {secrets.token_hex(4)}.jsonl"
            lines = [json.dumps({**row, "at": now}) for row in rows]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return take(service.store, path, kind, lambda: now, service.settings.community.scale)

    taken = await service.read(store_rows)
    return {"stored": taken.n, "by": client.name}
