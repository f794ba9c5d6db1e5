"""Model providers. A provider turns a `Call` into a `Reply` or raises `CallError`.

A provider never retries and never invents a reply. `calling` handles waiting, retries, limits,
money and redaction, so third-party providers get them too.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from peerage.errors import ConfigError, meant
from peerage.messages import query_for
from peerage.providers.typed_answers import MAX_QUESTIONS
from peerage.registry import Guard, Registry
from peerage.types import Ballot, Query, Seat, Turn, TypedQuestion, Usage

if TYPE_CHECKING:
    from peerage.providers.batch_endpoints import BatchEndpoint

Stage = Literal["answer", "commit", "review", "conclude"]

Kind = Literal[
    "timeout",  # no reply within the limit
    "connection",  # refused, reset, no such host
    "unauthorized",  # 401, 403, or a key that is not set
    "rate_limited",  # 429
    "server_error",  # 5xx
    "bad_request",  # another 4xx: another try would not help
    "not_json",  # HTML or other content instead of an answer
    "bad_probabilities",  # not numbers from 0 to 1, or their sum is not 1
    "missing_answer",  # a typed question has no answer, or an answer of another type
    "bad_encoding",  # the reply is not in the encoding that it declares
    "refused",  # the model or its content filter declined, or every try was empty
    "empty",  # null or blank content; tried again
    "truncated",  # cut off in transit
    "out_of_tokens",  # the token limit was reached before any text
    "too_long",  # longer than a reply may be, or an endless stream
    "budget",  # the call may cost more than is left of the budget
    "unpriced",  # a budget is set and the price is unknown
    "cancelled",  # the call is no longer needed, or its stage is over
    "skipped",  # not called, because earlier calls of the seat failed
    "provider",  # any other error of a provider's library
]

UNSENT = Usage(0, 0, 0.0)  # the usage of a call that cost nothing
IMAGE_TOKENS = 6_000  # assumed for an image before the call; vendors count up to 5,000
MAX_REPLY_BYTES = 1_000_000  # limit of any reply, complete or streamed, with its reasoning

# Every call has a header that lists the councils it has passed, so that a council does not call
# itself. A server adds its caller's list; sessions inherit it from the request that started them.
TRACE_HEADER = "X-Peerage-Council"
THIS_COUNCIL = secrets.token_hex(8)  # identifies this process
council_trace: ContextVar[str] = ContextVar("council_trace", default=THIS_COUNCIL)

OnText = Callable[[str], None]
OnWait = Callable[[str, float, int], None]  # reason, seconds, number of the next try
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A request to one seat.

    `key` identifies the call in its season (seed, session, stage, seat, round) and seeds
    repeatable providers. `ballot`, `code` and `query` repeat parts of the prompt as data; real
    models read only the prompt.
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
    may_retry: bool = True  # False: one try, and no wait for a model that asks for a pause
    code: str = ""  # the code of the prompt, with which a vote must begin
    follow_up: tuple[Turn, ...] = ()  # a reply that could not be counted, and what was wrong
    strict: bool = True  # False: the schema may use features that providers' strict modes refuse
    questions: tuple[TypedQuestion, ...] = ()  # about the prompt, for a decision model

    @property
    def digest(self) -> bytes:
        """Return random bytes for this try, the same for the same key and attempt."""
        text = f"{self.key}|{self.attempt}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    @property
    def messages(self) -> tuple[Turn, ...]:
        """Return the chat to send: the seat's system text, the prompt, and any follow-up.

        An answering seat also gets the question's system text and the earlier conversation.
        Reviewers and the chair have both texts in their prompt, and the images after it. A seat
        that cannot see gets no images.
        """
        answers = self.stage in ("answer", "commit")
        texts = (self.seat.system, self.query.system if answers else "")
        system = "\n\n".join(filter(None, texts))
        first = (Turn("system", system),) if system else ()
        query = query_for(self.seat, self.query)
        earlier, images = (query.earlier, query.images) if answers else ((), query.all_images)
        return (*first, *earlier, Turn("user", self.prompt, images), *self.follow_up)

    @property
    def n_bytes(self) -> int:
        """Return the size of everything that is sent: the chat, the schema and the questions.

        The questions are sent in parts, and the chat is sent with each part. An image counts as
        `IMAGE_TOKENS` bytes.
        """
        schema = "" if self.schema is None else json.dumps(self.schema, ensure_ascii=False)
        messages = self.messages
        n_chat = sum(map(_n_bytes, (schema, *(message.content for message in messages))))
        n_chat += IMAGE_TOKENS * sum(len(message.images) for message in messages)
        n_questions = sum(
            _n_bytes(one.name + one.instructions)
            + sum(_n_bytes(option.value + option.description) + 40 for option in one.options)
            + 80
            for one in self.questions
        )
        return n_chat * max(1, -(-len(self.questions) // MAX_QUESTIONS)) + n_questions


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a call: the answer, and separately the model's reasoning."""

    text: str
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""
    finish_reason: str = ""  # as the endpoint reports it; "length": cut off at the token limit
    latency_ms: float | None = None
    constrained: bool = False  # whether the provider enforced the schema
    n_fences: int = 0  # fence marks of the prompt that were removed from the text
    model: str = ""  # the id of the model that replied, if the endpoint reports it
    by_probability: bool = False  # a vote made from the model's probabilities, not written by it

    @property
    def reasoning_words(self) -> int | None:
        """Return the number of words of reasoning, or None without reasoning."""
        return len(self.reasoning.split()) or None


@dataclass(eq=False)
class CallError(Exception):
    """A failed call, with the information needed to decide about another try."""

    kind: Kind
    message: str
    _: KW_ONLY
    retry_after_s: float | None = None  # infinite if another try can never help
    of_endpoint: bool = False  # the pause applies to all models of the endpoint
    usage: Usage | None = None  # a failed call may still cost something
    status: int | None = None  # the HTTP status, if there was one
    parameter: str = ""  # the request parameter that the endpoint rejects

    def __str__(self) -> str:
        return self.message

    @property
    def why(self) -> str:
        """Return the failure in a word or two: the HTTP status, or the kind."""
        return str(self.status) if self.status else self.kind.replace("_", " ")


class Provider(ABC):
    """One endpoint or engine. A subclass must define `complete`; the rest has defaults."""

    constrains: ClassVar[bool] = False  # whether it can make a reply follow a JSON schema
    streams: ClassVar[bool] = False  # whether `complete` passes on pieces of text as they arrive
    wants_brief: ClassVar[bool] = False  # whether it reads slowly and should get a short prompt
    decides: ClassVar[bool] = False  # a decision model: it answers `questions`, and writes nothing
    sees: ClassVar[bool] = False  # whether it can send the images of `Call.messages`
    is_free: ClassVar[bool] = False  # costs nothing, unless its seat has a price
    remote: ClassVar[bool] = True  # False: runs in this process, so it cannot be unreachable
    max_concurrency: ClassVar[int | None] = None  # for all its seats together; None: their sum
    usual_concurrency: ClassVar[int] = 16  # for a seat without max_concurrency

    def __init__(self, seat: Seat) -> None:  # noqa: B027 - optional, like the next methods
        """Create the provider of a seat, without connecting or loading anything."""

    @classmethod  # noqa: B027
    def check(cls, seat: Seat) -> None:
        """Raise `ConfigError` for a seat that this provider can never serve."""

    @classmethod  # noqa: B027
    def check_ready(cls, seat: Seat) -> None:
        """Raise `ConfigError` for a seat that cannot be served now, for example without a key."""

    @classmethod
    def endpoint(cls, seat: Seat) -> Hashable:  # noqa: ARG003
        """Return a key: seats with equal keys share one provider. By default, no seats do."""
        return object()

    def can_constrain(self, seat: Seat) -> bool:  # noqa: ARG002
        """Return whether to send a schema with a seat's calls, judging by earlier replies."""
        return self.constrains

    def batch_endpoint(self, seat: Seat) -> BatchEndpoint | None:  # noqa: ARG002
        """Return the endpoint that takes calls of a seat in batches, or None if there is none."""
        return None

    async def prepare(self) -> None:  # noqa: B027
        """Load what the provider needs, so that the first call need not wait for it."""

    @abstractmethod
    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Return the complete reply or raise `CallError`; pass pieces to `on_text` if possible.

        The call may be cancelled at any time and must then release its resources.
        """

    async def aclose(self) -> None:  # noqa: B027
        """Release connections, memory and threads; a later call opens them again."""


def _provider_class(plugin: object, _: Guard[Any]) -> type[Provider]:
    """Check the provider of a plug-in; `calling` turns its exceptions into failures."""
    if not (isinstance(plugin, type) and issubclass(plugin, Provider)):
        raise TypeError(f"{getattr(plugin, '__name__', plugin)} is not a subclass of Provider")
    return plugin


providers: Registry[type[Provider]] = Registry("provider", "peerage.providers", _provider_class)


def decides(seat: Seat) -> bool:
    """Return whether a seat is a decision model, which answers only with probabilities."""
    return providers.get(seat.provider).decides


def seat_options(options: type[T], seat: Seat) -> T:
    """Return a seat's `options` as a dataclass; raise `ConfigError` for a wrong name or type.

    Every field of the dataclass has a default, which determines the expected type.
    """
    default_by_name = {entry.name: entry.default for entry in fields(options)}  # type: ignore[arg-type]
    place = f"seat {seat.name}"
    for name, value in seat.options.items():
        if name not in default_by_name:
            message = f"a {seat.provider} seat has no option {name!r}."
            raise ConfigError(message, place=place, hint=meant(name, default_by_name))
        kind = type(default_by_name[name])
        types, words = OPTION_TYPES[kind]
        if type(value) not in types or (kind is int and value < 0):
            raise ConfigError(f"the option {name} must be {words}.", place=place)
    return options(**seat.options)


OPTION_TYPES: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    int: ((int,), "a whole number that is not negative"),
    float: ((int, float), "a number"),
}
