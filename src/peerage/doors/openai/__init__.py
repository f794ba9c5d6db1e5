"""The council as an OpenAI model: chat completions, responses, and the list of models."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.problems import RESPONSES, openai_error, status_of
from peerage.doors.openai.deliberation import (
    BallotCast,
    Outcome,
    ProgressLine,
    Step,
    VerdictWords,
    deliberation,
    tokens,
)
from peerage.errors import InputError, NotFoundError, PeerageError, meant, shown
from peerage.reports.sessions import answer_of
from peerage.service import EarlierTurn, SessionRequest
from peerage.tasks import with_pauses
from peerage.types import Seat

MODEL = "council"
ONLY_TEXT = "The council reads text only: leave out images, files and sounds."
BALLOT = "peerage:ballot"  # the kind of an item of a response
BEAT_S = 10.0  # of silence, after which a comment shows that the session is alive
CREATED = 0  # the council was not trained on a day
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
Json = dict[str, Any]


# -- what clients send ---------------------------------------------------------------------------


class Lenient(BaseModel):
    """A request of a client that may send more than is read here, and null for what it leaves."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


class ChatMessage(Lenient):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of the message, which may come in parts."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        texts: list[Any] = [part.get("text") for part in self.content]
        if not all(isinstance(text, str) for text in texts):
            raise InputError("a part of a message is not text.", hint=ONLY_TEXT)
        return "\n".join(texts)


class Plugin(Lenient):
    """A plug-in of OpenRouter's; `fusion` names who answers and who concludes."""

    id: str
    analysis_models: list[str] = Field(default_factory=list)
    model: str | None = None


class CouncilExtras(BaseModel):
    """What can be said of the session itself, under `peerage` in the request."""

    model_config = ConfigDict(extra="forbid")

    category: str = ""
    verdict: Literal["synthesis", "debate", "binary", "tie_breaker", "none"] | None = None
    rubric: str | None = None
    rule: str | None = None
    budget_usd: float | None = Field(default=None, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, body: Any) -> Any:
        for name in body if isinstance(body, dict) else ():
            if name not in cls.model_fields:
                hint = meant(str(name), cls.model_fields)
                raise InputError(f"there is no option {shown(name)}.", place="peerage", hint=hint)
        return body


class CouncilRequest(Lenient):
    """What a chat completion and a response have in common."""

    model: str = Field(examples=[MODEL])
    stream: bool = False
    tools: list[dict[str, Any]] = Field(default_factory=list)
    tool_choice: Any = None
    plugins: list[Plugin] = Field(default_factory=list)
    peerage: CouncilExtras = CouncilExtras()

    def check_text_only(self, format_: Mapping[str, Any] | None) -> None:
        """Refuse a request for anything but text: another format, or calls of tools."""
        if format_ and format_.get("type", "text") != "text":
            hint = "Leave out the response format."
            raise InputError("the council's verdict is text.", hint=hint)
        if self.tool_choice not in (None, "auto", "none"):
            raise InputError("the council calls no tools.", hint="Leave out tool_choice.")

    def session_on(
        self, messages: Sequence[ChatMessage], seats: Sequence[Seat], after: str = ""
    ) -> SessionRequest:
        """The session on the last message of a conversation."""
        turns: list[tuple[Any, str]] = [(message.role, message.text) for message in messages]
        spoken = [turn for turn in turns if turn[0] in ("user", "assistant") and turn[1].strip()]
        if not spoken or spoken[-1][0] != "user":
            if turns and turns[-1][0] == "user":
                raise InputError("the last message is empty.", hint="It is the council's question.")
            raise InputError(
                "the conversation does not end with a question.",
                hint="The last message must be the user's.",
            )
        names, chair = self._panel(seats)
        return SessionRequest(
            query=spoken[-1][1],
            system="\n\n".join(text for role, text in turns if role in ("system", "developer")),
            earlier=tuple(EarlierTurn(role=role, content=text) for role, text in spoken[:-1]),
            after=after,
            seats=tuple(names),
            chair=chair,
            **self.peerage.model_dump(exclude_none=True),
        )

    def _panel(self, seats: Sequence[Seat]) -> tuple[list[str], str | None]:
        """The seats that are asked for, none for all of them, and who is to conclude."""
        names, chair = panel_of(self.model, seats), None
        for plugin in self.plugins:
            if plugin.id == "fusion":
                names = [_seat(name, seats) for name in plugin.analysis_models] or names
                chair = _seat(plugin.model, seats) if plugin.model else None
        if names and chair and chair not in names:
            names.append(chair)
        return names, chair


class ChatRequest(CouncilRequest):
    """The body of `POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(
        min_length=1, examples=[[{"role": "user", "content": "Is Python's sort stable?"}]]
    )
    n: int | None = Field(default=None, ge=1)
    response_format: dict[str, Any] | None = None

    def session_request(self, seats: Sequence[Seat]) -> SessionRequest:
        """The session that this asks for; refused where the council cannot do it."""
        if (self.n or 1) > 1:
            raise InputError("a council gives one answer.", hint="Leave out n.")
        self.check_text_only(self.response_format)
        return self.session_on(self.messages, seats)


class TextWanted(Lenient):
    """How the text of a response is to be written."""

    format: dict[str, Any] | None = None


class ResponseRequest(CouncilRequest):
    """The body of `POST /v1/responses`."""

    input: str | list[dict[str, Any]] = Field(examples=["Is Python's sort stable?"])
    instructions: str | None = None
    previous_response_id: str | None = None
    text: TextWanted = TextWanted()
    background: bool | None = None

    def session_request(self, seats: Sequence[Seat]) -> SessionRequest:
        """The session that this asks for; refused where the council cannot do it."""
        if self.background:
            raise InputError(
                "a response is not made in the background.",
                hint="POST /api/sessions starts a session, to be read later.",
            )
        self.check_text_only(self.text.format)
        turns = self.input
        if isinstance(turns, str):
            turns = [{"role": "user", "content": turns}]
        if self.instructions:
            turns = [{"role": "system", "content": self.instructions}, *turns]
        # What a model thought before is no turn.
        spoken = [turn for turn in turns if turn.get("type", "message") == "message"]
        messages = [ChatMessage.model_validate(turn) for turn in spoken]
        after = (self.previous_response_id or "").removeprefix("resp_")
        return self.session_on(messages, seats, after)


def panel_of(model: str, seats: Sequence[Seat]) -> list[str]:
    """The seats that a model's name stands for; none for all of them."""
    council, slash, listed = model.partition("/")
    if council != MODEL:
        raise NotFoundError(
            f"there is no model {shown(model)} here.",
            hint=f"Ask for {MODEL}, or {MODEL}/{','.join(seat.name for seat in seats[:2])}.",
        )
    return [_seat(name.strip(), seats) for name in listed.split(",")] if slash else []


def _seat(name: str, seats: Sequence[Seat]) -> str:
    """The seat of this name or of this model."""
    for seat in seats:
        if name and name in (seat.name, seat.model):
            return seat.name
    known = ", ".join(seat.name for seat in seats)
    raise NotFoundError(f"there is no seat {shown(name)} here.", hint=f"Known: {known}.")


# -- routes --------------------------------------------------------------------------------------

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
    head = {"id": f"chatcmpl-{id_}", "created": int(time.time()), "model": body.model}
    steps, url = deliberation(service, id_), _session_url(request, id_)
    if body.stream:
        return _streamed(_chunks(head, steps, url), named=False)
    return _completion(head, await _last(steps), url)


@router.post("/responses", response_model=None, dependencies=[RUN])
async def create_response(
    service: Serving, body: ResponseRequest, request: Request
) -> Json | StreamingResponse:
    """A response, whole or streamed: progress as reasoning, ballots as items, the verdict."""
    id_ = await service.start(body.session_request(service.settings.seats))
    stream = ResponseStream(f"resp_{id_}", int(time.time()), body.model, _session_url(request, id_))
    events = stream.events(deliberation(service, id_))
    return _streamed(events, named=True) if body.stream else (await _last(events))["response"]


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "peerage"}


def _session_url(request: Request, id_: str) -> str:
    """Where a session can be looked at."""
    return f"{request.base_url}sessions/{id_}"


async def _last(pieces: AsyncGenerator[Any, None]) -> Any:
    """The last of some pieces, in which all the others are; a client that leaves ends them."""
    async with aclosing(pieces):
        return [piece async for piece in pieces][-1]


def _streamed(events: AsyncGenerator[Json, None], named: bool) -> StreamingResponse:
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


def _completion(head: Json, outcome: Outcome, url: str) -> Json:
    """A chat completion that was not streamed."""
    message = {"role": "assistant", "content": answer_of(outcome.session), "refusal": None}
    choice = _choice(outcome, message=message)
    return {**head, "object": "chat.completion", "choices": [choice], **_beside(outcome, url)}


async def _chunks(
    head: Json, steps: AsyncGenerator[Step, None], url: str
) -> AsyncGenerator[Json, None]:
    """The pieces of a streamed one: progress as reasoning, the verdict, then all the rest."""
    head = {**head, "object": "chat.completion.chunk"}
    yield {**head, "choices": [_choice(delta={"role": "assistant", "content": ""})]}
    async with aclosing(steps):
        async for step in steps:
            match step:
                case ProgressLine():
                    # Clients read one name or the other.
                    line = f"{step.text}\n"
                    delta = {"reasoning_content": line, "reasoning": line}
                    yield {**head, "choices": [_choice(delta=delta)]}
                case VerdictWords():
                    for token in tokens(step.text):
                        yield {**head, "choices": [_choice(delta={"content": token})]}
                case Outcome():
                    yield {**head, "choices": [_choice(step, delta={})]}
                    yield {**head, "choices": [], **_beside(step, url)}


def _choice(outcome: Outcome | None = None, **content: Json) -> Json:
    """The one choice of a reply, with why it ended if it has."""
    reason = None if outcome is None else "length" if outcome.is_cut_off else "stop"
    return {"index": 0, **content, "finish_reason": reason, "logprobs": None}


def _beside(outcome: Outcome, url: str) -> Json:
    """The tokens of all calls of the session, and what else there is to say of it."""
    n_in, n_out = outcome.tokens
    usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
    return {"usage": usage, "peerage": outcome.extras(url)}


# -- responses ------------------------------------------------------------------------------------


# The protocol's names for an item with one part of text, by the item's type: the events of the
# part and of its text, the item's list of parts, and the part without its text.
TEXT_ITEMS: Mapping[str, tuple[str, str, str, Json]] = {
    "reasoning": (
        "response.reasoning_summary_part",
        "response.reasoning_summary_text",
        "summary",
        {"type": "summary_text"},
    ),
    "message": (
        "response.content_part",
        "response.output_text",
        "content",
        {"type": "output_text", "annotations": [], "logprobs": []},
    ),
}


class TextItem:
    """An item of a response whose text is told in pieces, between its opening and its close."""

    def __init__(self, output: list[Json], item: Json, event: Callable[..., Json]) -> None:
        self.output, self.item, self.event = output, item, event
        self.index = len(output)
        output.append(item)
        self.part_event, self.text_event, self.parts, self.part = TEXT_ITEMS[item["type"]]
        self.at = {"item_id": item["id"], "output_index": self.index, f"{self.parts}_index": 0}
        self.beside: Json = {"logprobs": []} if "logprobs" in self.part else {}  # a piece of text
        self.pieces: list[str] = []

    def open(self) -> list[Json]:
        part = {**self.part, "text": ""}
        return [
            self.event("response.output_item.added", output_index=self.index, item=self.item),
            self.event(f"{self.part_event}.added", **self.at, part=part),
        ]

    def say(self, piece: str) -> Json:
        self.pieces.append(piece)
        return self.event(f"{self.text_event}.delta", **self.at, delta=piece, **self.beside)

    def close(self, status: str | None) -> list[Json]:
        text = "".join(self.pieces)
        part = {**self.part, "text": text}
        item = self.output[self.index] = {**self.item, "status": status, self.parts: [part]}
        return [
            self.event(f"{self.text_event}.done", **self.at, text=text, **self.beside),
            self.event(f"{self.part_event}.done", **self.at, part=part),
            self.event("response.output_item.done", output_index=self.index, item=item),
        ]


class ResponseStream:
    """Turns the steps of a session into the events of a streamed response.

    The progress is one reasoning item, each ballot an item of our own, and the verdict a message:
    a client is told of each item and part before any piece of it.
    """

    def __init__(self, id_: str, created: int, model: str, url: str) -> None:
        self.head = {"id": id_, "object": "response", "created_at": created, "model": model}
        self.url = url
        self._suffix = id_.removeprefix("resp_")
        self._n_events = 0
        self.output: list[Json] = []
        reasoning: Json = {"id": f"rs_{self._suffix}", "type": "reasoning"}
        reasoning |= {"summary": [], "status": None}
        self._progress = TextItem(self.output, reasoning, self._event)
        self._message: TextItem | None = None

    async def events(self, steps: AsyncGenerator[Step, None]) -> AsyncGenerator[Json, None]:
        """Every event, from created to completed, or incomplete where the text was cut off."""
        begun = self._response("in_progress", [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        for event in self._progress.open():
            yield event
        async with aclosing(steps):
            async for step in steps:
                for event in self._step(step):
                    yield event

    def _step(self, step: Step) -> list[Json]:
        if isinstance(step, ProgressLine):
            return [self._progress.say(f"{step.text}\n")] if self._message is None else []
        if isinstance(step, BallotCast):
            return self._ballot(step)
        opened = []
        if self._message is None:
            item: Json = {"id": f"msg_{self._suffix}", "type": "message", "role": "assistant"}
            item |= {"status": "in_progress", "content": []}
            self._message = TextItem(self.output, item, self._event)
            opened = [*self._progress.close(None), *self._message.open()]
        if isinstance(step, VerdictWords):
            return [*opened, *map(self._message.say, tokens(step.text))]
        status = "incomplete" if step.is_cut_off else "completed"
        closed = self._message.close(status)
        return [*opened, *closed, self._ended(status, step)]

    def _ballot(self, step: BallotCast) -> list[Json]:
        index = len(self.output)
        item = {
            "id": f"pb_{self._suffix}_{index}",
            "type": BALLOT,
            "status": "completed",
            "reviewer": step.reviewer,
            "ranking": step.ranking,
            "abstained": step.abstained,
        }
        self.output.append(item)
        kinds = ("response.output_item.added", "response.output_item.done")
        return [self._event(kind, output_index=index, item=item) for kind in kinds]

    def _ended(self, status: str, outcome: Outcome) -> Json:
        n_in, n_out = outcome.tokens
        usage = {
            "input_tokens": n_in,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": n_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": n_in + n_out,
        }
        response = self._response(status, self.output)
        response |= {"usage": usage, "peerage": outcome.extras(self.url)}
        if outcome.is_cut_off:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return self._event(f"response.{status}", response=response)

    def _response(self, status: str, output: list[Json]) -> Json:
        """The response as it stands."""
        return {
            **self.head,
            "status": status,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "usage": None,
        }

    def _event(self, kind: str, **body: Any) -> Json:
        self._n_events += 1
        return {"type": kind, "sequence_number": self._n_events - 1, **body}
