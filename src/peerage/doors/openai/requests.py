"""What OpenAI clients send, read as a request for a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from peerage.errors import InputError, NotFoundError, meant, shown
from peerage.service import EarlierTurn, SessionRequest
from peerage.types import Seat

MODEL = "council"
ONLY_TEXT = "The council reads text only: leave out images, files and sounds."


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
