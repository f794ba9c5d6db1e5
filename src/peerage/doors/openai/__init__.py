"""The council as an OpenAI model: chat completions, responses, and the list of models."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.problems import (
    OPENAI_ROUTES,
    RESPONSES,
    UnknownNameError,
    UnsupportedError,
    openai_error,
    openai_fields,
    status_of,
)
from peerage.doors.openai.completions import completion, completion_chunks
from peerage.doors.openai.connected_clients import call_key, unless_gone
from peerage.doors.openai.council_models import MODEL, CouncilModels
from peerage.doors.openai.council_requests import ChatRequest, ResponseRequest
from peerage.doors.openai.deliberation import Outcome, Step, deliberation
from peerage.doors.openai.responses import ResponseStream
from peerage.doors.openai.short_calls import quick_steps
from peerage.doors.running_calls import RunningCalls, WaitedSession
from peerage.errors import NotFoundError, PeerageError, shown
from peerage.service import Service
from peerage.session_requests import SessionRequest
from peerage.tasks import with_pauses

BEAT_S = 10.0  # after this silence, a comment shows that the session is still running
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
CLIENT_GONE = 499  # the status in the log if the client disconnected
Json = dict[str, Any]
T = TypeVar("T")

router = APIRouter(prefix="/v1", tags=["openai"], responses=RESPONSES)


async def _running_calls(request: Request) -> RunningCalls:
    """Return the sessions that this server's clients wait for."""
    calls: RunningCalls = request.app.state.running_calls
    return calls


Calls = Annotated[RunningCalls, Depends(_running_calls)]


@router.get("/models", dependencies=[READ])
async def list_models(service: Serving) -> Json:
    """List the available models."""
    models = await _council_models(service)
    return {"object": "list", "data": models.list_models()}


@router.get("/models/{name:path}", dependencies=[READ])
async def read_model(service: Serving, name: str) -> Json:
    """Return one model; `council/a,b` is the council with only the seats a and b."""
    models = await _council_models(service)
    return models.read(name)


@router.post("/chat/completions", response_model=None, dependencies=[RUN])
async def chat_completions(
    service: Serving, calls: Calls, body: ChatRequest, request: Request
) -> Json | Response:
    """Return the council's verdict on the last message as a chat completion, whole or streamed."""
    call = await _begin(service, calls, body, request)
    head = {"id": f"chatcmpl-{call.id}", "created": int(time.time()), "model": body.model}
    if body.stream:
        chunks = completion_chunks(head, call.steps, body.stream_options.include_usage)
        return _stream_events(call, chunks, is_named=False)
    outcome = await _last(request, call, call.steps)
    return completion(head, outcome) if isinstance(outcome, Outcome) else _gone()


@router.post("/responses", response_model=None, dependencies=[RUN])
async def create_response(
    service: Serving, calls: Calls, body: ResponseRequest, request: Request
) -> Json | Response:
    """Return a response, whole or streamed: progress as reasoning, then the verdict."""
    if body.after:
        await _check_earlier(service, body.after)
    call = await _begin(service, calls, body, request, runs_on=bool(body.background))
    stream = ResponseStream(call.id, int(time.time()), body)
    events = stream.events(call.steps)
    if body.stream:
        return _stream_events(call, events, is_named=True)
    if body.background:
        call.leave()
        return stream.begun()
    last = await _last(request, call, events)
    return _gone() if last is None else last["response"]


@router.get("/responses/{id}", response_model=None, dependencies=[READ])
async def read_response(service: Serving, id: str, request: Request) -> Json:
    """Return a response by its id: finished, failed, or in progress."""
    session_id = await _response_session(service, id)
    view = await service.read(service.reports.session, session_id)
    opened = view.opened
    body = ResponseRequest(
        model=MODEL,
        input=view.query.text,
        instructions=view.query.system or None,
        previous_response_id=f"resp_{opened.after}" if opened and opened.after else None,
        metadata=dict(opened.labels or {}) if opened else {},
    )
    stream = ResponseStream(session_id, int(view.opened_at), body)
    if not view.is_finished:
        return stream.begun()
    try:
        extras = {"url": _session_url(request, session_id)}
        steps = deliberation(service, session_id, extras)
        async with aclosing(stream.events(steps)) as events:
            response: Json = [event async for event in events][-1]["response"]
    except PeerageError as error:
        response = stream.fail_response(_error_of(error)["error"])
    return response


@router.post("/responses/{id}/cancel", response_model=None, dependencies=[RUN])
async def cancel_response(service: Serving, id: str, request: Request) -> Json:
    """End the session of a response that is running in the background."""
    session_id = await _response_session(service, id)
    if not await service.cancel(session_id):
        raise HTTPException(409, f"response {shown(id)} is not running on this server.")
    return await read_response(service, id, request)


# -- calls that are answered -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """The steps that answer a request, and a function to call when its client leaves."""

    id: str
    steps: AsyncGenerator[Step, None]
    leave: Callable[..., None]


async def _begin(
    service: Service,
    calls: RunningCalls,
    body: ChatRequest | ResponseRequest,
    request: Request,
    *,
    runs_on: bool = False,
) -> AnsweredCall:
    """Start the session for a request, join the session of the call it repeats, or ask one seat."""
    models = await _council_models(service)
    session = body.session_request(models)
    is_quick = body.is_quick(session, models, service.settings)
    extras = Json(ignored=body.list_ignored(is_quick=is_quick))
    if is_quick:
        if runs_on:
            raise UnsupportedError("a quick call cannot run in the background.", param="background")
        steps = quick_steps(service, session, body.max_reply_tokens, extras)
        return AnsweredCall(secrets.token_hex(8), steps, _leave_nothing)
    waited = await _join_session(service, calls, session, request, runs_on)
    extras["url"] = _session_url(request, waited.id)
    steps = deliberation(service, waited.id, extras)
    return AnsweredCall(waited.id, steps, partial(calls.leave, waited))


def _leave_nothing(*, at_once: bool = False) -> None:
    """Do nothing: a call of one seat ends with its steps."""


async def _join_session(
    service: Service,
    calls: RunningCalls,
    session: SessionRequest,
    request: Request,
    runs_on: bool,
) -> WaitedSession:
    """Start a session for a request, or return the running session of the call it repeats."""
    call = await call_key(request)
    if calls.is_reused(call):
        raise UnsupportedError(
            "this Idempotency-Key was sent with another request.",
            param="Idempotency-Key",
            code="idempotency_key_reused",
            hint="Send a new key with a new request.",
        )
    return await calls.join(call, partial(service.start, session), runs_on=runs_on)


async def _last(request: Request, call: AnsweredCall, pieces: AsyncGenerator[T, None]) -> T | None:
    """Return the last piece, which contains the complete reply, or None if the client has gone."""

    async def to_the_end() -> T:
        async with aclosing(pieces):
            return [piece async for piece in pieces][-1]

    try:
        return await unless_gone(request, to_the_end())
    finally:
        call.leave()


async def _council_models(service: Service) -> CouncilModels:
    return CouncilModels(service.settings.seats, await service.panels())


async def _response_session(service: Service, id_: str) -> str:
    """Return the session id of a response."""
    try:
        return await service.full_id(id_.removeprefix("resp_"))
    except NotFoundError:
        raise UnknownNameError(
            f"there is no response {shown(id_)}.", param="response_id", code="not_found"
        ) from None


async def _check_earlier(service: Service, session_id: str) -> None:
    try:
        await service.full_id(session_id)
    except NotFoundError:
        raise UnknownNameError(
            f"there is no response {shown(f'resp_{session_id}')}.",
            param="previous_response_id",
            code="previous_response_not_found",
        ) from None


def _gone() -> Response:
    """Return a response for a client that disconnected; only the log shows its status."""
    return Response(status_code=CLIENT_GONE)


def _session_url(request: Request, session_id: str) -> str:
    """Return the address of a session's page."""
    return f"{request.base_url}sessions/{session_id}"


# -- streams ---------------------------------------------------------------------------------------


def _stream_events(
    call: AnsweredCall, events: AsyncGenerator[Json, None], *, is_named: bool
) -> StreamingResponse:
    """Return a stream of events; a client that closes it ends the session at once."""

    async def lines() -> AsyncIterator[str]:
        try:
            async with aclosing(_lines(events, is_named)) as texts:
                async for text in texts:
                    yield text
        finally:
            call.leave(at_once=True)

    return StreamingResponse(lines(), media_type="text/event-stream", headers=STREAM_HEADERS)


async def _lines(events: AsyncIterator[Json], is_named: bool) -> AsyncGenerator[str, None]:
    """Yield server-sent events, comments during silence, and any error in the client's format.

    Only responses have named events: chat clients treat a named event as an error.
    """
    try:
        async for event in with_pauses(events, BEAT_S):
            if event is None:
                yield ": deliberating\n\n"
            elif is_named:
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            else:
                yield f"data: {json.dumps(event)}\n\n"
    except PeerageError as error:
        yield f"data: {json.dumps(_error_of(error))}\n\n"
        return
    if not is_named:
        yield "data: [DONE]\n\n"


def _error_of(error: PeerageError) -> Json:
    return openai_error(status_of(error, OPENAI_ROUTES), str(error), **openai_fields(error))
