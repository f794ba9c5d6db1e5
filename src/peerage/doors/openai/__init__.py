"""The council as an OpenAI model: chat completions, responses, and the list of models."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.problems import RESPONSES, openai_error, status_of
from peerage.doors.openai.deliberation import (
    Outcome,
    ProgressLine,
    Step,
    VerdictWords,
    deliberation,
    outcome_of,
    tokens,
)
from peerage.doors.openai.requests import MODEL, ChatRequest, ResponseRequest, panel_of
from peerage.doors.openai.responses import ResponseStream
from peerage.errors import PeerageError
from peerage.service import Service
from peerage.tasks import finish, with_pauses

BEAT_S = 10.0  # of silence, after which a comment shows that the session is alive
CREATED = 0  # the council was not trained on a day
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
Json = dict[str, Any]


router = APIRouter(prefix="/v1", tags=["openai"], responses=RESPONSES)


@router.get("/models", dependencies=[READ])
async def list_models() -> Json:
    """The models that can be asked for: the council."""
    return {"object": "list", "data": [_model(MODEL)]}


@router.get("/models/{name:path}", dependencies=[READ])
async def read_model(service: Serving, name: str) -> Json:
    """One model; `council/a,b` is a part of the panel."""
    panel_of(name, service.settings.seats)
    return _model(name)


@router.post("/chat/completions", response_model=None, dependencies=[RUN])
async def chat_completions(
    service: Serving, body: ChatRequest, request: Request
) -> Json | StreamingResponse:
    """A chat completion, whole or streamed: the council's verdict on the last message."""
    id_ = await service.start(body.session_request(service.settings.seats))
    created, url = int(time.time()), _session_url(request, id_)
    steps = _steps(service, id_)
    if body.stream:
        pieces = _chunks(f"chatcmpl-{id_}", created, body.model, steps, url)
        return _streamed(pieces, named=False)
    outcome = await outcome_of(steps)
    return _completion(f"chatcmpl-{id_}", created, body.model, outcome, url)


@router.post("/responses", response_model=None, dependencies=[RUN])
async def create_response(
    service: Serving, body: ResponseRequest, request: Request
) -> Json | StreamingResponse:
    """A response, whole or streamed: progress as reasoning, ballots as items, the verdict."""
    id_ = await service.start(body.session_request(service.settings.seats))
    stream = ResponseStream(f"resp_{id_}", int(time.time()), body.model, _session_url(request, id_))
    events = stream.events(_steps(service, id_))
    if body.stream:
        return _streamed(events, named=True)
    last: Json = {}
    async for event in events:
        last = event
    whole: Json = last["response"]
    return whole


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "peerage"}


def _session_url(request: Request, id_: str) -> str:
    """Where a session can be looked at."""
    return f"{request.base_url}sessions/{id_}"


async def _steps(service: Service, id_: str) -> AsyncIterator[Step]:
    """The steps of a session; a client that leaves before the end has it cancelled."""
    ended = False
    try:
        async with aclosing(deliberation(service, id_)) as steps:
            async for step in steps:
                yield step
        ended = True
    except PeerageError:
        ended = True
        raise
    finally:
        if not ended:
            await finish(service.cancel(id_))


def _streamed(events: AsyncIterator[Json], named: bool) -> StreamingResponse:
    return StreamingResponse(
        _lines(events, named), media_type="text/event-stream", headers=STREAM_HEADERS
    )


async def _lines(events: AsyncIterator[Json], named: bool) -> AsyncIterator[str]:
    """Server-sent events, comments in the silence, and an error as the client expects it.

    Only responses have named events: chat clients take a named one for a broken piece.
    """
    try:
        async for event in with_pauses(events, BEAT_S):
            if event is None:
                yield ": deliberating\n\n"
            elif named:
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            else:
                yield f"data: {json.dumps(event)}\n\n"
    except PeerageError as error:
        yield f"data: {json.dumps(openai_error(status_of(error), str(error)))}\n\n"
        return
    if not named:
        yield "data: [DONE]\n\n"


# -- chat completions -----------------------------------------------------------------------------


def _completion(id_: str, created: int, model: str, outcome: Outcome, url: str) -> Json:
    """A chat completion that was not streamed."""
    message = {"role": "assistant", "content": outcome.text, "refusal": None}
    reason = _finish_reason(outcome)
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {
        "id": id_,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": _usage(outcome),
        "peerage": outcome.extras(url),
    }


async def _chunks(
    id_: str, created: int, model: str, steps: AsyncIterator[Step], url: str
) -> AsyncIterator[Json]:
    """The pieces of a streamed one: progress as reasoning, the verdict, then all the rest."""

    def chunk(delta: Json, finish_reason: str | None = None) -> Json:
        choice = {
            "index": 0,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": None,
        }
        return {**head, "choices": [choice]}

    head = {"id": id_, "object": "chat.completion.chunk", "created": created, "model": model}
    yield chunk({"role": "assistant", "content": ""})
    async for step in steps:
        match step:
            case ProgressLine():
                # Clients read one name or the other.
                line = f"{step.text}\n"
                yield chunk({"reasoning_content": line, "reasoning": line})
            case VerdictWords():
                for token in tokens(step.text):
                    yield chunk({"content": token})
            case Outcome():
                yield chunk({}, _finish_reason(step))
                yield {**head, "choices": [], "usage": _usage(step), "peerage": step.extras(url)}


def _finish_reason(outcome: Outcome) -> str:
    return "length" if outcome.is_cut_off else "stop"


def _usage(outcome: Outcome) -> Json:
    """The tokens of all calls of the session."""
    return {
        "prompt_tokens": outcome.tokens_in,
        "completion_tokens": outcome.tokens_out,
        "total_tokens": outcome.tokens_in + outcome.tokens_out,
    }
