"""Models behind one base class: a provider turns a `Call` into a `Reply` or raises `CallError`.

A provider never retries and never invents. Waiting, retrying, limits, money and redaction
are the business of `calling`, so that a provider of somebody else's gets them too.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

from peerage.errors import ConfigError
from peerage.registry import Guard, Registry
from peerage.types import Ballot, Query, Seat, Turn, Usage

Stage = Literal["answer", "review", "conclude"]

Kind = Literal[
    "timeout",  # no reply within the limit
    "connection",  # refused, reset, no such host
    "unauthorized",  # 401, 403, or a key that is not set
    "rate_limited",  # 429
    "server_error",  # 5xx
    "bad_request",  # another 4xx: asking again would not help
    "not_json",  # HTML or another thing where an answer should be
    "bad_encoding",  # bytes that are not the text they claim to be
    "refused",  # the model or its content filter declined, or it says nothing however often asked
    "empty",  # null or blank content; asked again
    "truncated",  # cut off on its way
    "out_of_tokens",  # the limit was reached before anything was said
    "too_long",  # more than any answer may be, or an endless stream
    "budget",  # would cost more than is left
    "unpriced",  # a budget is set and nobody knows the price
    "cancelled",  # no longer needed, or its stage is over
    "skipped",  # not asked: the seat only failed before
    "provider",  # anything else a provider's library throws
]

UNSENT = Usage(0, 0, 0.0)  # of a call that cost nothing
MAX_REPLY_BYTES = 1_000_000  # of any reply, whole or streamed, with its reasoning

# Which councils a question has passed, so that none is asked by itself: a header of every call.
# A server adds who asked it; sessions inherit it from the request that started them.
TRACE_HEADER = "X-Peerage-Council"
THIS_COUNCIL = secrets.token_hex(8)  # of this process
council_trace: ContextVar[str] = ContextVar("council_trace", default=THIS_COUNCIL)

OnText = Callable[[str], None]
OnWait = Callable[[str, float, int], None]  # why, seconds, and the number of the next try
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """What one seat is asked.

    `key` names the call in its season (seed, session, stage, seat, round), so that seats
    which must be repeatable can be. `ballot`, `code` and `query` say in nouns what the prompt
    says in words; real models read only the words.
    """

    seat: Seat
    stage: Stage
    prompt: str
    key: str
    query: Query
    schema: Mapping[str, Any] | None = None
    ballot: Ballot | None = None
    max_tokens: int = 4096
    attempt: int = 0
    deadline_s: float | None = None  # for all tries together; None: the seat's timeout
    may_retry: bool = True  # False: one try, and no waiting for a model that asks for a pause
    code: str = ""  # of the page; a vote counts that begins with it
    follow_up: tuple[Turn, ...] = ()  # its reply that could not be counted, and what was wrong
    strict: bool = True  # False: the schema may hold what strict modes of providers refuse

    @property
    def digest(self) -> bytes:
        """What this try draws from: the same for the same key, and another for another try."""
        text = f"{self.key}|{self.attempt}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    @property
    def messages(self) -> tuple[Turn, ...]:
        """The chat to send: the seat's system text, the prompt, and what was said since.

        Who answers is also told the question's system text, and the conversation before it
        stands between the two. Reviewers and the chair have all that in their prompt.
        """
        answers = self.stage == "answer"
        texts = (self.seat.system, self.query.system if answers else "")
        system = "\n\n".join(filter(None, texts))
        first = (Turn("system", system),) if system else ()
        earlier = self.query.earlier if answers else ()
        return (*first, *earlier, Turn("user", self.prompt), *self.follow_up)

    @property
    def n_bytes(self) -> int:
        """How long all that is sent is: the chat, and the schema that the reply is held to."""
        schema = "" if self.schema is None else json.dumps(self.schema, ensure_ascii=False)
        texts = (schema, *(message.content for message in self.messages))
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the answer, and apart from it what the model thought before it."""

    text: str
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""
    finish_reason: str = ""  # as the endpoint says it; "length": cut off at the token limit
    latency_ms: float | None = None
    constrained: bool = False  # whether the provider held the text to the schema
    n_fences: int = 0  # marks of the prompt's fences that were struck out of it

    @property
    def reasoning_words(self) -> int | None:
        """How many words of reasoning were shown, None if none were."""
        return len(self.reasoning.split()) or None


@dataclass(eq=False)
class CallError(Exception):
    """A call that failed, with what is needed to decide whether to try again."""

    kind: Kind
    message: str
    _: KW_ONLY
    retry_after_s: float | None = None  # infinite where another try can never help
    of_endpoint: bool = False  # the pause is asked for all models there, not for this one
    usage: Usage | None = None  # a failed call may still have cost something
    status: int | None = None  # of HTTP, where there was one
    parameter: str = ""  # of the request, that an endpoint blames

    def __str__(self) -> str:
        return self.message

    @property
    def why(self) -> str:
        """The failure in a word or two: the HTTP status, or its kind."""
        return str(self.status) if self.status else self.kind.replace("_", " ")


class Provider(ABC):
    """One endpoint or engine; only `complete` must be written, the rest has defaults."""

    constrains: ClassVar[bool] = False  # whether it can hold a reply to a JSON schema
    streams: ClassVar[bool] = False  # whether `complete` tells pieces of text as they come
    wants_brief: ClassVar[bool] = False  # reads so slowly that a short page is the better one
    is_free: ClassVar[bool] = False  # costs nothing, unless its seat names a price
    remote: ClassVar[bool] = True  # False: made in this process, so that nothing can be down
    max_concurrency: ClassVar[int | None] = None  # of all its seats together; None: their sum

    def __init__(self, seat: Seat) -> None:  # noqa: B027 - optional, as the next ones
        """Make the provider of a seat, without connecting or loading anything yet."""

    @classmethod  # noqa: B027
    def check(cls, seat: Seat) -> None:
        """Raise `ConfigError` for a seat that this provider could never serve."""

    @classmethod  # noqa: B027
    def check_ready(cls, seat: Seat) -> None:
        """Raise `ConfigError` for a seat that cannot be served now: its key is not set."""

    @classmethod
    def endpoint(cls, seat: Seat) -> Hashable:  # noqa: ARG003
        """What seats must have in common to share one provider; by default they share none."""
        return object()

    def can_constrain(self, seat: Seat) -> bool:  # noqa: ARG002
        """Whether to send a seat's calls with a schema, by what is known of its model so far."""
        return self.constrains

    async def prepare(self) -> None:  # noqa: B027
        """Load what the first call would have to wait for."""

    @abstractmethod
    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Give the whole reply, or raise `CallError`; tell pieces if asked to and able to.

        It may be cancelled at any time, and must then let go of what it holds.
        """

    async def aclose(self) -> None:  # noqa: B027
        """Let go of connections, memory and threads; a later call opens them again."""


def _provider_class(plugin: object, _: Guard[Any]) -> type[Provider]:
    """A provider of somebody else's; what it raises, `calling` turns into a failure."""
    if not (isinstance(plugin, type) and issubclass(plugin, Provider)):
        raise TypeError(f"{getattr(plugin, '__name__', plugin)} is no subclass of Provider")
    return plugin


providers: Registry[type[Provider]] = Registry("provider", "peerage.providers", _provider_class)


def seat_options(options: type[T], seat: Seat) -> T:
    """A seat's `options` as a dataclass; `ConfigError` for a name or a type that it has not.

    Every field of the dataclass has a default, whose type is the one asked for.
    """
    default_by_name = {entry.name: entry.default for entry in fields(options)}  # type: ignore[arg-type]
    place = f"seat {seat.name}"
    for name, value in seat.options.items():
        if name not in default_by_name:
            message = f"a {seat.provider} seat has no option {name!r}."
            raise ConfigError(message, place=place, hint=f"Known: {', '.join(default_by_name)}.")
        kind = type(default_by_name[name])
        types, words = OPTION_TYPES[kind]
        if type(value) not in types or (kind is int and value < 0):
            raise ConfigError(f"{name} must be {words}.", place=place)
    return options(**seat.options)


OPTION_TYPES: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    int: ((int,), "a whole number, not below 0"),
    float: ((int, float), "a number"),
}
