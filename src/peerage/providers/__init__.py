"""Bytes to and from models, behind one protocol of two methods, one provider a file.

A provider turns a `Call` into a `Reply` or raises `CallError` with a kind; it never
retries and never invents. Waiting, retrying, limits and money are `calling`'s business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from peerage.plugins import Registry
from peerage.types import Ballot, Query, Response, Seat, Usage

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
    "empty",  # null or blank content
    "truncated",  # cut off before its end
    "too_long",  # more than any answer may be, or an endless stream
    "budget",  # would cost more than is left
    "unpriced",  # a budget is set and nobody knows the price
    "cancelled",  # no longer needed, or its stage is over
    "provider",  # anything else a provider's library throws
]
RETRYABLE: frozenset[Kind] = frozenset(
    {"timeout", "connection", "rate_limited", "server_error", "not_json", "empty", "truncated"}
)


@dataclass(frozen=True, slots=True)
class Call:
    """What one seat is asked.

    `key` names the call in its season (seed, session, stage, seat, round), so that seats
    which must be repeatable can be. `ballot`, `responses` and `query` say in nouns what
    the prompt says in words; real models read only the words.
    """

    seat: Seat
    stage: Stage
    prompt: str
    key: str
    query: Query
    schema: Mapping[str, Any] | None = None
    ballot: Ballot | None = None
    responses: Sequence[Response] = ()
    max_tokens: int = 4096
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    text: str
    usage: Usage = field(default_factory=Usage)
    reasoning_words: int | None = None
    latency_ms: float | None = None
    constrained: bool = False  # whether the provider held the text to the schema


class CallError(Exception):
    """A call that failed, with what is needed to decide whether to try again."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s
        self.usage = usage  # a failed call may still have cost something


class Provider(Protocol):
    """One endpoint or engine; seats that share it share its connections or its weights."""

    @property
    def can_constrain(self) -> bool:
        """Whether it can hold a reply to a JSON schema; asked without, it answers free text."""

    async def complete(self, call: Call) -> Reply:
        """The whole reply, or `CallError`."""

    def stream(self, call: Call) -> AsyncIterator[str | Reply]:
        """Pieces of text as they come, and last the whole `Reply`; or `CallError`."""

    async def close(self) -> None:
        """Let go of connections and threads."""


# A provider's factory makes one provider for a seat; `endpoint` tells which seats may share it.
Factory = Callable[[Seat], Provider]

providers: Registry[Factory] = Registry("provider", "peerage.providers")
