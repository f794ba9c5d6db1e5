"""HTTP routes for sessions: estimate, start, list, read, follow, cancel, and score again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, HTTPException, Path, Query, Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import StreamingResponse

from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.problems import RESPONSES, status_of
from peerage.errors import InputError, PeerageError
from peerage.events import KIND_BY_TYPE, NOT_STORED, Extended, event_document
from peerage.reports.session_options import ReplayOptions, SessionsOptions
from peerage.reports.sessions import MAX_COMPARED, compare_answers
from peerage.service import FINISHED
from peerage.session_requests import SessionRequest
from peerage.types import Event

MAX_ID_CHARACTERS = 200
EXTENDED = KIND_BY_TYPE[Extended]

router = APIRouter(prefix="/api/sessions", tags=["sessions"], responses=RESPONSES)
SessionId = Annotated[
    str,
    Path(alias="id", max_length=MAX_ID_CHARACTERS, description="A session's id or its beginning."),
]
REQUEST = {
    "a question": {"value": {"query": "Is a tomato a fruit or a vegetable?"}},
    "answers to judge": {
        "value": {
            "query": "What is 2 + 2?",
            "answers": {"first": "4", "second": "5"},
            "verdict": "none",
        }
    },
}


class Accepted(BaseModel):
    """A session that has begun or is queued."""

    id: str


@router.post("", status_code=202, dependencies=[RUN])
async def start_session(
    service: Serving,
    request: Annotated[SessionRequest, Body(openapi_examples=REQUEST)],
    response: Response,
) -> Accepted:
    """Start a session; follow it at the address in `Location`."""
    id_ = await service.start(request)
    response.headers["Location"] = f"/api/sessions/{id_}"
    return Accepted(id=id_)


@router.post("/estimate", dependencies=[RUN])
async def estimate_session(
    service: Serving, request: Annotated[SessionRequest, Body(openapi_examples=REQUEST)]
) -> dict[str, Any]:
    """Return how many calls a session would need, and their cost; no model is called."""
    return (await service.estimate(request)).document()


@router.get("", dependencies=[READ])
async def list_sessions(
    service: Serving, options: Annotated[SessionsOptions, Query()]
) -> dict[str, Any]:
    """List the latest sessions; `next` is the `before` of the next page, or null."""
    listed = await service.read(service.reports.sessions, options)
    document = listed.document()
    full = len(listed.sessions) == options.limit
    document["next"] = listed.sessions[0].id if full else None
    return document


@router.get("/{id}", dependencies=[READ])
async def read_session(service: Serving, session_id: SessionId) -> dict[str, Any]:
    """Return one session in full with its recorded scores, or a running one as far as it is."""
    return await service.read(service.reports.session_document, session_id)


@router.delete("/{id}", status_code=204, dependencies=[RUN])
async def cancel_session(service: Serving, session_id: SessionId) -> None:
    """Cancel a session that runs on this server; its log records that and keeps all replies."""
    id_ = await service.full_id(session_id)
    if not await service.cancel(id_):
        raise HTTPException(409, f"session {id_} does not run on this server.")


@router.get(
    "/{id}/events",
    response_class=StreamingResponse,
    dependencies=[READ],
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."},
        204: {"description": "The session has ended, and the client has seen all events."},
    },
)
async def follow_session(
    service: Serving,
    session_id: SessionId,
    last_event_id: Annotated[
        str | None, Header(description="The `id` of the last event seen.", max_length=20)
    ] = None,
) -> Response:
    """Send the events of a session after the last one seen, and new ones until its end.

    If the session has ended and the client has seen all events, the status is 204, which tells
    browsers not to reconnect.
    """
    id_, place = await service.full_id(session_id), _place(last_event_id)
    if place != NOT_STORED and not service.hosts(id_):
        stored = await service.read(service.store.events, id_)
        turns = [event for event in stored if event.kind in (FINISHED, EXTENDED)]
        if turns and turns[-1].kind == FINISHED and stored[-1].seq <= place:
            return Response(status_code=204)
    events = service.watch(id_, place, HEARTBEAT_S)
    return StreamingResponse(_lines(events), media_type="text/event-stream", headers=HEADERS)


@router.get("/{id}/compare", dependencies=[READ])
async def compare_session_answers(
    service: Serving,
    session_id: SessionId,
    of: Annotated[
        list[str], Query(max_length=MAX_COMPARED, description="Models; by default the best two.")
    ] = [],  # noqa: B006 - nothing changes it
) -> dict[str, Any]:
    """Return two or three answers of a session, each with its rank and every review of it."""
    view = await service.read(service.reports.session, session_id)
    answers = await service.read(compare_answers, view, of)
    return {"session_id": view.id, "answers": [one.document() for one in answers]}


@router.get("/{id}/replay", dependencies=[READ])
async def replay_session(
    service: Serving,
    session_id: SessionId,
    options: Annotated[ReplayOptions, Query()],
) -> dict[str, Any]:
    """Score the same ballots with other options; no model is called."""
    scored = await service.read(service.reports.replay, session_id, options)
    return scored.document()


def _place(last_event_id: str | None) -> int:
    if not last_event_id:
        return NOT_STORED
    if not last_event_id.isdecimal():
        raise InputError("Last-Event-ID is not the id of an event.", hint="Send a whole number.")
    return int(last_event_id)


# -- server-sent events ---------------------------------------------------------------------------

HEARTBEAT_S = 10.0
COMMENT = ": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def _lines(batches: AsyncGenerator[list[Event], None]) -> AsyncIterator[str]:
    """Yield events as they happen, and a comment if none has happened for a while."""
    try:
        async with aclosing(batches):
            async for events in batches:
                yield "".join(map(_message, events)) or COMMENT
    except PeerageError as error:
        document = {"status": int(status_of(error)), "detail": error.message, "hint": error.hint}
        yield f"event: problem\ndata: {json.dumps(document)}\n\n"


def _message(event: Event) -> str:
    """Format one event; events that are not stored have no id, so clients resume correctly."""
    id_ = "" if event.seq == NOT_STORED else f"id: {event.seq}\n"
    return f"{id_}event: {event.kind}\ndata: {to_json(event_document(event)).decode()}\n\n"
