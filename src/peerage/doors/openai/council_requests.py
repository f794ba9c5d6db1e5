"""Requests of OpenAI clients, converted to sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from peerage.config import Settings
from peerage.config.settings import MAX_NAME
from peerage.doors.http.problems import UnsupportedError
from peerage.doors.openai.council_models import MODEL, CouncilModels
from peerage.doors.openai.deliberation import WRITTEN_KINDS
from peerage.doors.openai.short_calls import short_call_of
from peerage.errors import InputError, PeerageError, meant, shown
from peerage.messages import IMAGE_PARTS, read_image
from peerage.reports.session_options import ClientOptions, Metadata
from peerage.rules import rules
from peerage.session_requests import EarlierTurn, SessionRequest
from peerage.types import Image

BALLOTS = "peerage.ballots"  # in `include`: send ballots also as items of the response
TEXT_AND_IMAGES = "The council reads text and images: leave out files and sounds."
IMAGE_ALONE = "[an image without a text]"  # stands for a question without words
# Fields that are ignored: the configuration sets them for each seat, and a client cannot.
IGNORED = (
    "frequency_penalty",
    "functions",
    "logit_bias",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "seed",
    "stop",
    "temperature",
    "tools",
    "top_p",
    "verbosity",
)
LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")  # three names of one setting
FORCED_ONE = "Name one function of tools in tool_choice, or omit tool_choice."


class Lenient(BaseModel):
    """A client's request; unknown fields are ignored, and null means omitted."""

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


class CalledTool(Lenient):
    """A call of a tool in a message of the assistant."""

    id: str = ""
    function: CalledFunction = CalledFunction()


class ChatMessage(Lenient):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[CalledTool] = Field(default_factory=list)
    function_call: CalledFunction | None = None
    tool_call_id: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """The text of the message, whose content may be a list of parts, and of its tool calls."""
        calls = [call.function.text for call in self.tool_calls]
        calls += [self.function_call.text] if self.function_call else []
        return "\n".join(filter(None, (_text_of(self.content), *calls)))

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the message; an image that cannot be sent to seats is refused."""
        return images_of(self.content, "messages")


def images_of(content: object, param: str) -> tuple[Image, ...]:
    """Return the images in a list of parts; an image that cannot be sent to seats is refused."""
    parts = content if isinstance(content, list) else []
    try:
        return tuple(
            read_image(part, param)
            for part in parts
            if isinstance(part, Mapping) and part.get("type") in IMAGE_PARTS
        )
    except InputError as error:
        raise UnsupportedError(
            error.message, param=param, code="invalid_value", hint=error.hint
        ) from None


def _text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a content, ignoring images; any other kind of part is refused."""
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[Any] = [
        part.get("text", part.get("refusal") if part.get("type") == "refusal" else None)
        for part in content
        if part.get("type") not in IMAGE_PARTS
    ]
    if not all(isinstance(text, str) for text in texts):
        raise UnsupportedError(
            "a part of a message is not text or an image.", param="messages", hint=TEXT_AND_IMAGES
        )
    return "\n".join(texts)


class SpokenTurn(NamedTuple):
    """One turn of a conversation: who spoke, the text, and its images."""

    role: str
    text: str
    images: tuple[Image, ...] = ()


def spoken_turns(messages: Sequence[ChatMessage]) -> list[SpokenTurn]:
    """Return the turns of user, assistant and tools in a conversation, with their texts.

    The result of a tool is given with the name of the tool.
    """
    name_by_call = {call.id: call.function.name for m in messages for call in m.tool_calls}
    turns = []
    for message in messages:
        text, images = message.text, message.images
        if message.role in ("system", "developer") or not (text.strip() or images):
            continue
        text = text if text.strip() else IMAGE_ALONE
        if message.role in ("tool", "function"):
            name = name_by_call.get(message.tool_call_id) or message.name
            result = f"Result of the tool {name}:\n{text}" if name else text
            turns.append(SpokenTurn("tool", result, images))
        else:
            turns.append(SpokenTurn(message.role, text, images))
    return turns


def question_of(turns: Sequence[SpokenTurn]) -> tuple[SpokenTurn, list[EarlierTurn]]:
    """Return the question at the end of a conversation, and the turns before it.

    Tool calls and results after the user's last message are part of the question: the council
    continues from them. Earlier results reach the seats as the user's turns.
    """
    last = max((i for i, turn in enumerate(turns) if turn.role == "user"), default=-1)
    after = turns[last + 1 :]
    if last < 0 or (after and after[-1].role != "tool"):
        raise UnsupportedError(
            "the conversation does not end with a question.",
            param="messages",
            code="invalid_value",
            hint="The last message must be the user's, or the result of a tool.",
        )
    text = "\n\n".join(turn.text for turn in turns[last:])
    images = tuple(image for turn in turns[last:] for image in turn.images)
    earlier = [
        EarlierTurn(
            role="assistant" if turn.role == "assistant" else "user",
            content=turn.text,
            images=turn.images,
        )
        for turn in turns[:last]
    ]
    return SpokenTurn("user", text, images), earlier


# -- what a chat completion and a response have in common ------------------------------------------


class Plugin(Lenient):
    """A plug-in as OpenRouter defines it; `fusion` names the seats that answer and conclude."""

    id: str
    analysis_models: list[str] = Field(default_factory=list)
    model: str | None = None


class CouncilExtras(ClientOptions):
    """Session options under `peerage` in the request."""

    category: str = ""

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, body: Any) -> Any:
        for name in body if isinstance(body, dict) else ():
            if name not in cls.model_fields:
                hint = meant(str(name), cls.model_fields)
                message = f"peerage has no option {shown(name)}."
                param, code = f"peerage.{name}"[:MAX_NAME], "unknown_parameter"
                raise UnsupportedError(message, param=param, code=code, hint=hint)
        return body

    @field_validator("rule")
    @classmethod
    def _known_rule(cls, name: str | None) -> str | None:
        try:
            return name if name is None or rules.get(name) else None
        except PeerageError as error:
            raise UnsupportedError(error.message, param="peerage.rule", hint=error.hint) from None


@dataclass(frozen=True, slots=True)
class JsonWanted:
    """The JSON that a client requests as the reply, and the field that requests it."""

    param: str
    schema: Any
    function: str = ""  # the JSON is the arguments of a call of this function
    strict: bool = False


def forced_function(choice: Any, tools: Sequence[Mapping[str, Any]]) -> JsonWanted | None:
    """Return the one function that a client forces the council to call, or None.

    A chat completion has a function's name and parameters one level deeper than a response.
    """
    if choice in (None, "auto", "none"):
        return None
    kinds = [tool.get("function", tool) for tool in tools if tool.get("type") == "function"]
    functions = {str(f.get("name", "")): f for f in kinds if isinstance(f, Mapping)}
    names = _forced_names(choice, list(functions))
    if names is None:
        return None
    if len(names) != 1 or names[0] not in functions:
        message = "the council calls a function only if the request forces exactly one."
        raise UnsupportedError(message, param="tool_choice", hint=FORCED_ONE)
    name, function = names[0], functions[names[0]]
    if not 1 <= len(name) <= MAX_NAME:
        message = f"the name of a function must have 1 to {MAX_NAME} characters."
        raise UnsupportedError(message, param="tools", code="invalid_value")
    schema = function.get("parameters")
    schema = {"type": "object"} if schema is None else schema
    if isinstance(schema, dict) and function.get("description"):
        schema = {"description": function["description"], **schema}
    strict = bool(function.get("strict"))
    return JsonWanted("tools", schema, function=name, strict=strict)


def _forced_names(choice: Any, known: list[str]) -> list[str] | None:
    """Return the functions of which a client requires a call of one, or None if it does not."""
    if choice == "required":
        return known
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if kind == "function":
        return [str(_inner(choice, "function").get("name", ""))]
    if kind == "allowed_tools":
        allowed = _inner(choice, "allowed_tools")
        tools = allowed.get("tools")
        tools = [one for one in tools if isinstance(one, Mapping)] if tools else []
        names = [str(_inner(tool, "function").get("name", "")) for tool in tools]
        return names if allowed.get("mode") == "required" else None
    raise UnsupportedError(
        "unknown tool_choice.",
        param="tool_choice",
        hint="Known: auto, none, required, and one function by name.",
    )


def _inner(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name, or the outer one if it has the same fields itself."""
    inner = outer.get(name, outer)
    return inner if isinstance(inner, Mapping) else {}


class CouncilRequest(Lenient):
    """The fields that a chat completion and a response have in common."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(examples=[MODEL])
    stream: bool = False
    tools: list[dict[str, Any]] = Field(default_factory=list)
    tool_choice: Any = None
    plugins: list[Plugin] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    peerage: CouncilExtras = CouncilExtras()

    def list_ignored(self, *, is_quick: bool) -> list[str]:
        """Return the settings of the request that have no effect."""
        used = set(LIMITS) if is_quick else set()
        if forced_function(self.tool_choice, self.tools) is not None:
            used.add("tools")
        return [name for name in IGNORED if self._field(name) and name not in used]

    @property
    def max_reply_tokens(self) -> int | None:
        """The number of tokens that the client allows for the reply, or None."""
        limits = [self._field(name) for name in LIMITS]
        return next((one for one in limits if type(one) is int and one > 0), None)

    def is_quick(self, session: SessionRequest, models: CouncilModels, settings: Settings) -> bool:
        """Return whether one seat answers: the model's name says so, or it is a short call.

        A request with session options is never a short call.
        """
        if models.choice(self.model).is_quick:
            return True
        recognises = settings.server.short_calls == "quick" and self.peerage == CouncilExtras()
        return recognises and bool(short_call_of([("user", session.query)]))

    def _field(self, name: str) -> Any:
        return getattr(self, name, None)

    def _check_supported(self) -> None:
        """Raise an error for a requested feature that the council does not have."""
        wants_sound = self._field("audio") or "audio" in (self._field("modalities") or ())
        refused = {
            "logprobs": self._field("logprobs") is True,
            "top_logprobs": bool(self._field("top_logprobs")),
            "modalities": bool(wants_sound),
            "function_call": self._field("function_call") not in (None, "auto", "none"),
        }
        hint_by_name = {
            "function_call": "Send tools and tool_choice.",
            "modalities": TEXT_AND_IMAGES,
        }
        for name in (name for name, is_asked in refused.items() if is_asked):
            raise UnsupportedError(
                f"{name} is not supported.",
                param=name,
                code="unsupported_parameter",
                hint=hint_by_name.get(name, f"Omit {name}."),
            )

    def json_wanted(self, format_: Mapping[str, Any] | None, param: str) -> JsonWanted | None:
        """Return the JSON format of the reply; None for prose."""
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
                f"unknown format {shown(kind)}.",
                param=param,
                hint="Known: text, json_object, json_schema.",
            )
        # A chat completion has the schema one level deeper than a response.
        inner = format_.get("json_schema", format_)
        inner = inner if isinstance(inner, Mapping) else {}
        strict = bool(inner.get("strict"))
        return JsonWanted(param, inner.get("schema"), strict=strict)

    def _output_fields(self, wanted: JsonWanted, verdict: str | None) -> dict[str, Any]:
        """Return the fields of a session with a JSON verdict; raise an error for other kinds."""
        if verdict not in (None, *WRITTEN_KINDS):
            raise UnsupportedError(
                f"a {verdict} verdict cannot follow a JSON schema.",
                param=wanted.param,
                hint="Omit peerage.verdict.",
            )
        if not isinstance(wanted.schema, dict):
            raise UnsupportedError(
                "a JSON schema must be an object.", param=wanted.param, code="invalid_value"
            )
        return {
            "output_schema": wanted.schema,
            "output_function": wanted.function,
            "output_strict": wanted.strict,
            "verdict": verdict or WRITTEN_KINDS[0],
        }

    def session_on(
        self,
        messages: Sequence[ChatMessage],
        models: CouncilModels,
        wanted: JsonWanted | None,
        after: str = "",
    ) -> SessionRequest:
        """Return the session on the last message of a conversation."""
        last = messages[-1] if messages else None
        if last and last.role == "user" and not (last.text.strip() or last.images):
            raise UnsupportedError(
                "the last message is empty.",
                param="messages",
                code="invalid_value",
                hint="The last message is the question to the council.",
            )
        question, earlier = question_of(spoken_turns(messages))
        self._check_supported()
        choice = models.choice(self.model)
        names, chair = self._panel(choice.seats, models)
        told = [one.text for one in messages if one.role in ("system", "developer")]
        fields = {"verdict": choice.verdict, **self.peerage.model_dump(exclude_none=True)}
        if wanted is not None:
            fields |= self._output_fields(wanted, fields["verdict"])
        request = _session_request(
            query=question.text,
            images=question.images,
            system="\n\n".join(told),
            earlier=tuple(earlier),
            after=after,
            seats=names,
            chair=chair,
            metadata=self.metadata,
            **fields,
        )
        _check_schema(request, wanted)
        return request

    def _panel(
        self, seats: tuple[str, ...], models: CouncilModels
    ) -> tuple[tuple[str, ...], str | None]:
        """Return the requested seats (empty for all), and the chair."""
        names, chair = seats, None
        for plugin in self.plugins:
            if plugin.id == "fusion":
                names = tuple(map(models.seat_named, plugin.analysis_models)) or names
                chair = models.seat_named(plugin.model) if plugin.model else None
        if names and chair and chair not in names:
            names = (*names, chair)
        return names, chair


def _session_request(**fields: Any) -> SessionRequest:
    """Return a session; an error names the messages, since other fields are checked before."""
    try:
        return SessionRequest(**fields)
    except InputError as error:
        raise UnsupportedError(
            error.message, param="messages", code="invalid_value", hint=error.hint
        ) from None


def _check_schema(request: SessionRequest, wanted: JsonWanted | None) -> None:
    """Check the schema of a session; an error names the field of the request."""
    try:
        _ = request.output
    except InputError as error:
        param = wanted.param if wanted is not None else ""
        raise UnsupportedError(
            error.message, param=param, code="invalid_value", hint=error.hint
        ) from None


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

    def session_request(self, models: CouncilModels) -> SessionRequest:
        """Return the session for this request; raise an error if the council cannot run it."""
        if (self.n or 1) > 1:
            raise UnsupportedError(
                "the council gives one answer per request, so n must be 1.",
                param="n",
                hint="Omit n.",
            )
        wanted = self.json_wanted(self.response_format, "response_format")
        return self.session_on(self.messages, models, wanted)


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
    conversation: Any = None

    @property
    def after(self) -> str:
        """The session of the response that this one follows."""
        return (self.previous_response_id or "").removeprefix("resp_")

    def session_request(self, models: CouncilModels) -> SessionRequest:
        """Return the session for this request; raise an error if the council cannot run it."""
        if self.conversation is not None:
            raise UnsupportedError(
                "conversations are not stored here.",
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
        return self.session_on(messages, models, wanted, self.after)


def _message_of(item: Mapping[str, Any]) -> ChatMessage | None:
    """Return an input item as a message; None for reasoning, which seats do not get."""
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
        f"an input item of type {shown(kind)} is not supported.",
        param="input",
        hint="Known: message, function_call, function_call_output, reasoning.",
    )
