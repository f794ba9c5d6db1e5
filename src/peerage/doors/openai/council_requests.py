"""Requests of OpenAI clients, and the session that each one asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from peerage.doors.http.problems import UnknownNameError, UnsupportedError
from peerage.errors import InputError, meant, shown
from peerage.service import EarlierTurn, SessionRequest
from peerage.types import Seat
from peerage.verdicts import check_schema

MODEL = "council"
WRITTEN_KINDS = ("synthesis", "debate")  # verdicts that a chair writes
BALLOTS = "peerage.ballots"  # in `include`: ballots come as items of a response too
ONLY_TEXT = "The council reads text only: leave out images, files and sounds."


class Lenient(BaseModel):
    """A request of a client that may send more than is read here, and null for what it omits."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


# -- conversations -------------------------------------------------------------------------------


class CalledFunction(Lenient):
    """The name and the arguments of a function that a model called."""

    name: str = ""
    arguments: str | dict[str, Any] = ""

    @property
    def text(self) -> str:
        """The call as a sentence."""
        given = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return f"Called the tool {self.name or '(unnamed)'} with {given or '{}'}"


class ToolCall(Lenient):
    """A call of a tool in a message of the assistant."""

    id: str = ""
    function: CalledFunction = CalledFunction()


class ChatMessage(Lenient):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    function_call: CalledFunction | None = None
    tool_call_id: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """The text of the message, which may come in parts, and the tools it calls."""
        calls = [call.function.text for call in self.tool_calls]
        calls += [self.function_call.text] if self.function_call else []
        return "\n".join(filter(None, (_text_of(self.content), *calls)))


def _text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a content; a part that is not text is refused."""
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[Any] = [
        part.get("text", part.get("refusal") if part.get("type") == "refusal" else None)
        for part in content
    ]
    if not all(isinstance(text, str) for text in texts):
        raise UnsupportedError("a part of a message is not text.", param="messages", hint=ONLY_TEXT)
    return "\n".join(texts)


def spoken_turns(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """Return the turns of user, assistant and tools in a conversation, with their texts.

    A result names the tool that gave it.
    """
    name_by_call = {call.id: call.function.name for m in messages for call in m.tool_calls}
    turns = []
    for message in messages:
        text = message.text
        if not text.strip() or message.role in ("system", "developer"):
            continue
        if message.role in ("tool", "function"):
            name = name_by_call.get(message.tool_call_id) or message.name
            turns.append(("tool", f"Result of the tool {name}:\n{text}" if name else text))
        else:
            turns.append((message.role, text))
    return turns


def question_of(turns: Sequence[tuple[str, str]]) -> tuple[str, list[EarlierTurn]]:
    """Return the question that a conversation ends with, and the turns before it.

    Calls of tools and their results that follow the user's last message are part of the question:
    the council is asked to go on from them. Earlier results reach the seats as the user's turns.
    """
    last = max((i for i, (role, _) in enumerate(turns) if role == "user"), default=-1)
    after = turns[last + 1 :]
    if last < 0 or (after and after[-1][0] != "tool"):
        raise UnsupportedError(
            "the conversation does not end with a question.",
            param="messages",
            code="invalid_value",
            hint="The last message must be the user's, or the result of a tool.",
        )
    question = "\n\n".join(text for _, text in turns[last:])
    earlier = [
        EarlierTurn(role="assistant" if role == "assistant" else "user", content=text)
        for role, text in turns[:last]
    ]
    return question, earlier


# -- what a chat completion and a response have in common ------------------------------------------


class Plugin(Lenient):
    """A plug-in of OpenRouter's; `fusion` names who answers and who concludes."""

    id: str
    analysis_models: list[str] = Field(default_factory=list)
    model: str | None = None


class CouncilExtras(BaseModel):
    """Options of the session itself, under `peerage` in the request."""

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


@dataclass(frozen=True, slots=True)
class JsonWanted:
    """The JSON that a client wants as the reply, and the field of its request that says so."""

    param: str
    schema: Any
    function: str = ""  # the JSON is the arguments of a call of this function
    strict: bool = False


def forced_function(choice: Any, tools: Sequence[Mapping[str, Any]]) -> JsonWanted | None:
    """Return the one function that a client forces the council to call; None where there is none.

    A chat completion has a function's name and parameters one level deeper than a response.
    """
    if choice in (None, "auto", "none"):
        return None
    kinds = [tool.get("function", tool) for tool in tools if tool.get("type") == "function"]
    functions = {f.get("name", ""): f for f in kinds if isinstance(f, Mapping)}
    names = list(functions)
    if isinstance(choice, Mapping):
        inner = choice.get("function", choice)
        names = [inner.get("name", "")] if isinstance(inner, Mapping) else [""]
    if len(names) != 1 or names[0] not in functions:
        raise UnsupportedError(
            "the council calls one function, and only where the request forces that one.",
            param="tool_choice",
            hint="Name one function of tools in tool_choice, or leave out tool_choice.",
        )
    function = functions[names[0]]
    schema = function.get("parameters") or {"type": "object"}
    if isinstance(schema, dict) and function.get("description"):
        schema = {"description": function["description"], **schema}
    strict = bool(function.get("strict"))
    return JsonWanted("tools", schema, function=names[0], strict=strict)


class CouncilRequest(Lenient):
    """Fields that a chat completion and a response have in common."""

    model: str = Field(examples=[MODEL])
    stream: bool = False
    tools: list[dict[str, Any]] = Field(default_factory=list)
    tool_choice: Any = None
    plugins: list[Plugin] = Field(default_factory=list)
    peerage: CouncilExtras = CouncilExtras()

    def json_wanted(self, format_: Mapping[str, Any] | None, param: str) -> JsonWanted | None:
        """Return the JSON that the reply has to be; None where it is prose."""
        called = forced_function(self.tool_choice, self.tools)
        if called is not None:
            return called
        kind = (format_ or {}).get("type", "text")
        if kind == "text":
            return None
        if kind == "json_object":
            return JsonWanted(param, {"type": "object"})
        if kind != "json_schema" or format_ is None:
            raise UnsupportedError(
                f"there is no format {shown(kind)}.",
                param=param,
                hint="Known: text, json_object, json_schema.",
            )
        # A chat completion has the schema one level deeper than a response.
        inner = format_.get("json_schema", format_)
        inner = inner if isinstance(inner, Mapping) else {}
        strict = bool(inner.get("strict"))
        return JsonWanted(param, inner.get("schema"), strict=strict)

    def _output_fields(self, wanted: JsonWanted) -> dict[str, Any]:
        """Return the fields of a session whose verdict is JSON; refused where it cannot be."""
        if self.peerage.verdict not in (None, *WRITTEN_KINDS):
            raise UnsupportedError(
                f"a verdict of the kind {self.peerage.verdict} cannot be written in a schema.",
                param=wanted.param,
                hint="Leave out peerage.verdict.",
            )
        try:
            check_schema(wanted.schema)
        except InputError as error:
            raise UnsupportedError(
                error.message, param=wanted.param, code="invalid_value", hint=error.hint
            ) from None
        return {
            "output_schema": wanted.schema,
            "output_function": wanted.function,
            "output_strict": wanted.strict,
            "verdict": self.peerage.verdict or WRITTEN_KINDS[0],
        }

    def session_on(
        self,
        messages: Sequence[ChatMessage],
        seats: Sequence[Seat],
        wanted: JsonWanted | None,
        after: str = "",
    ) -> SessionRequest:
        """Return the session on the last message of a conversation."""
        if messages and messages[-1].role == "user" and not messages[-1].text.strip():
            raise UnsupportedError(
                "the last message is empty.",
                param="messages",
                code="invalid_value",
                hint="It is the council's question.",
            )
        question, earlier = question_of(spoken_turns(messages))
        names, chair = self._panel(seats)
        told = [one.text for one in messages if one.role in ("system", "developer")]
        fields = self.peerage.model_dump(exclude_none=True)
        if wanted is not None:
            fields |= self._output_fields(wanted)
        return SessionRequest(
            query=question,
            system="\n\n".join(told),
            earlier=tuple(earlier),
            after=after,
            seats=tuple(names),
            chair=chair,
            **fields,
        )

    def _panel(self, seats: Sequence[Seat]) -> tuple[list[str], str | None]:
        """Return the seats that are asked for, none for all of them, and who is to conclude."""
        names, chair = panel_of(self.model, seats), None
        for plugin in self.plugins:
            if plugin.id == "fusion":
                names = [seat_named(name, seats) for name in plugin.analysis_models] or names
                chair = seat_named(plugin.model, seats) if plugin.model else None
        if names and chair and chair not in names:
            names.append(chair)
        return names, chair


def panel_of(model: str, seats: Sequence[Seat]) -> list[str]:
    """Return the seats that a model's name stands for; none for all of them."""
    council, slash, listed = model.partition("/")
    if council != MODEL:
        raise UnknownNameError(
            f"there is no model {shown(model)} here.",
            param="model",
            code="model_not_found",
            hint=f"Ask for {MODEL}, or {MODEL}/{','.join(seat.name for seat in seats[:3])}.",
        )
    return [seat_named(name.strip(), seats) for name in listed.split(",")] if slash else []


def seat_named(name: str, seats: Sequence[Seat]) -> str:
    """Return the seat of this name or of this model."""
    for seat in seats:
        if name and name in (seat.name, seat.model):
            return seat.name
    raise UnknownNameError(
        f"there is no seat {shown(name)} here.",
        param="model",
        code="model_not_found",
        hint=f"Known: {', '.join(seat.name for seat in seats)}.",
    )


# -- the two kinds of requests ---------------------------------------------------------------------


class StreamOptions(Lenient):
    """Options of a streamed chat completion."""

    include_usage: bool = False


class ChatRequest(CouncilRequest):
    """The body of `POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(
        min_length=1, examples=[[{"role": "user", "content": "Is Python's sort stable?"}]]
    )
    n: int | None = Field(default=None, ge=1)
    response_format: dict[str, Any] | None = None
    stream_options: StreamOptions = StreamOptions()

    def session_request(self, seats: Sequence[Seat]) -> SessionRequest:
        """Return the session that this asks for; refused where the council cannot do it."""
        if (self.n or 1) > 1:
            raise UnsupportedError("a council gives one answer.", param="n", hint="Leave out n.")
        wanted = self.json_wanted(self.response_format, "response_format")
        return self.session_on(self.messages, seats, wanted)


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
    include: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    conversation: Any = None

    @property
    def after(self) -> str:
        """The session of the response that this one follows."""
        return (self.previous_response_id or "").removeprefix("resp_")

    def session_request(self, seats: Sequence[Seat]) -> SessionRequest:
        """Return the session that this asks for; refused where the council cannot do it."""
        if self.conversation is not None:
            raise UnsupportedError(
                "conversations are not kept here.",
                param="conversation",
                code="unsupported_parameter",
                hint="Send previous_response_id, or the earlier messages in input.",
            )
        wanted = self.json_wanted(self.text.format, "text.format")
        turns = self.input
        if isinstance(turns, str):
            turns = [{"role": "user", "content": turns}]
        if self.instructions:
            turns = [{"role": "system", "content": self.instructions}, *turns]
        messages = [message for turn in turns if (message := _message_of(turn)) is not None]
        return self.session_on(messages, seats, wanted, self.after)


def _message_of(item: Mapping[str, Any]) -> ChatMessage | None:
    """Return an input item as a message; None for a model's reasoning, which seats are not sent."""
    kind = item.get("type", "message")
    match kind:
        case "message":
            return ChatMessage.model_validate(item)
        case "function_call":
            call = {"id": item.get("call_id") or "", "function": item}
            return ChatMessage.model_validate({"role": "assistant", "tool_calls": [call]})
        case "function_call_output":
            output = item.get("output")
            content = output if isinstance(output, str | list) else json.dumps(output)
            tool = {"role": "tool", "content": content, "tool_call_id": item.get("call_id")}
            return ChatMessage.model_validate(tool)
        case "reasoning":
            return None
    raise UnsupportedError(
        f"an input item of type {shown(kind)} cannot be read here.",
        param="input",
        hint="Known: message, function_call, function_call_output, reasoning.",
    )
