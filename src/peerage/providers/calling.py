"""One call, with everything around it: a place in line, money set aside, a limit, another try.

A provider says yes or raises `CallError`; here that becomes a `Reply` or a `Failure`, never
an exception. `except Exception` has its one home here, where a provider's reply comes in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, NoReturn

from peerage.errors import BudgetError, ConfigError
from peerage.providers import Call, CallError, Kind, Provider, Reply, providers
from peerage.providers.keys import secret, sentence
from peerage.providers.ledger import Ledger
from peerage.providers.limits import Limiter
from peerage.providers.prices import FREE, Price, pico, price_of, usd
from peerage.types import Failure, Seat, Usage

# How often a kind of failure is worth another try; one that is not here never is. A limit
# that ran out has cost a whole limit's time; a rate limit often counts by the minute.
RETRIES: Mapping[Kind, int] = {
    "rate_limited": 7,
    "server_error": 4,
    "connection": 3,
    "not_json": 2,
    "empty": 2,
    "truncated": 2,
    "timeout": 1,
}
OVERLOADED = frozenset({"rate_limited", "server_error", "timeout"})
UNCHARGED = frozenset(
    {"unauthorized", "rate_limited", "bad_request", "server_error", "budget", "unpriced"}
)
TOKENS_AROUND = 64  # roles and turns, beyond the bytes of what is sent

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before another try."""

    first_s: float = 0.5  # doubles with every try
    longest_s: float = 30.0
    longest_asked_s: float = 120.0  # an endpoint that asks for more is not waited for

    def wait_s(self, key: str, n_failed: int, asked_s: float | None) -> float | None:
        """Seconds until the next try, or None where there should be none.

        The jitter follows from the call's key, so that calls spread and a run repeats.
        """
        digest = hashlib.sha256(f"{key}|{n_failed}".encode("utf-8", "surrogatepass")).digest()
        jitter = int.from_bytes(digest[:8], "big") / 2**64
        if asked_s is None:
            return min(self.longest_s, self.first_s * 2 ** (n_failed - 1)) * (0.5 + jitter / 2)
        if asked_s > self.longest_asked_s:
            return None
        return asked_s + jitter / 4 * max(asked_s, self.first_s)


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one try went, for whoever keeps account."""

    number: int
    kind: Kind | Literal["ok"]
    latency_ms: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """What the calls of one seat go through."""

    seat: Seat
    provider: Provider
    own: Limiter  # the seat's
    shared: Limiter  # the endpoint's
    price: Price | None

    def most(self, call: Call) -> int:
        """The most that a call can cost, in picodollars: no token is shorter than a byte."""
        if self.price is None:
            raise CallError("unpriced", "a budget is set, and nobody knows what this seat charges")
        sent = [call.prompt, self.seat.system]
        if call.schema is not None:
            sent.append(json.dumps(call.schema, ensure_ascii=False))
        n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in sent)
        return self.price.bound(n_bytes + TOKENS_AROUND, call.max_tokens)

    def cost(self, usage: Usage | None) -> int | None:
        """What a call did cost, in picodollars, or None where nobody can tell."""
        if usage is None:
            return None
        if usage.cost_usd is not None:
            return pico(usage.cost_usd)
        if self.price is None or usage.tokens_in is None or usage.tokens_out is None:
            return None
        return self.price.cost(usage.tokens_in, usage.tokens_out)


class Caller:
    """Calls on behalf of one run; seats of one endpoint share its connections and its window."""

    def __init__(
        self,
        seats: Iterable[Seat] = (),
        *,
        budget_usd: float | None = None,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_attempt: Callable[[Call, Attempt], None] | None = None,
    ) -> None:
        self.ledger = Ledger(budget_usd)
        self._patience = patience or Patience()
        self._clock = clock
        self._sleep = sleep
        self._on_attempt = on_attempt
        self._lines: dict[str, _Line] = {}
        self._endpoints: dict[Hashable, tuple[Provider, Limiter]] = {}
        if budget_usd is not None:
            refuse_unpriced(seats)

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of every endpoint; one that is called again is opened anew."""
        endpoints = list(self._endpoints.values())
        self._lines.clear()
        self._endpoints.clear()
        for provider, _ in endpoints:
            await provider.close()

    def can_constrain(self, seat: Seat) -> bool:
        """Whether a seat's replies can be held to a schema, as far as is known now."""
        return self._line(seat).provider.can_constrain

    def window(self, seat: Seat) -> int:
        """How many calls a seat's endpoint takes at once, as far as is known now."""
        return self._line(seat).shared.window

    def _line(self, seat: Seat) -> _Line:
        line = self._lines.get(seat.name)
        if line is None or (line.seat is not seat and line.seat != seat):
            line = self._lines[seat.name] = self._open(seat)
        return line

    def _open(self, seat: Seat) -> _Line:
        factory = providers.get(seat.provider)
        sharing = getattr(factory, "endpoint", None)  # a provider without one is the seat's own
        key = (seat.provider, sharing(seat) if sharing else (seat.name, id(seat)))
        if key in self._endpoints:
            provider, shared = self._endpoints[key]
            shared.widen(seat.max_concurrency)
        else:
            provider, shared = factory(seat), Limiter(seat.max_concurrency)
            self._endpoints[key] = provider, shared
        return _Line(seat, provider, Limiter(seat.max_concurrency), shared, _price(seat))

    # -- a call ------------------------------------------------------------------------------

    async def call(
        self,
        call: Call,
        on_text: OnText | None = None,
        *,
        on_restart: Callable[[], None] | None = None,
        deadline: float | None = None,
    ) -> Reply | Failure:
        """The reply, or why there is none; with `on_text`, the text also as it comes.

        A second try writes another text: it is told only to those who take a restart.
        The deadline is a time of this caller's clock, and covers waits and tries together.
        """
        if deadline is None:
            return await self._call(call, on_text, on_restart, None)
        try:
            async with asyncio.timeout(deadline - self._clock()):
                return await self._call(call, on_text, on_restart, deadline)
        except TimeoutError:
            message = "no reply before the deadline"
            return Failure(call.seat.name, "timeout", message, call.stage, Usage())

    async def _call(
        self,
        call: Call,
        on_text: OnText | None,
        on_restart: Callable[[], None] | None,
        deadline: float | None,
    ) -> Reply | Failure:
        line = self._line(call.seat)
        lost: list[Usage] = []
        n_by_kind: Counter[Kind] = Counter()
        while True:
            try:
                reply = await self._attempt(call, line, on_text)
            except CallError as error:
                n_by_kind[error.kind] += 1
                lost.append(_usage(line, error))
                wait_s = self._wait_s(call, error, n_by_kind, deadline)
                if wait_s is None:
                    return self._failure(call, error, lost)
            else:
                return reply if not lost else replace(reply, usage=_together([*lost, reply.usage]))
            if on_text is not None:
                if on_restart is None:
                    on_text = None
                else:
                    on_restart()
            await self._sleep(wait_s)
            call = replace(call, attempt=call.attempt + 1)

    def _wait_s(
        self, call: Call, error: CallError, n_by_kind: Counter[Kind], deadline: float | None
    ) -> float | None:
        """Seconds until another try, or None if there is none: not for this kind, or no time."""
        if n_by_kind[error.kind] > RETRIES.get(error.kind, 0):
            return None
        wait_s = self._patience.wait_s(call.key, n_by_kind.total(), error.retry_after_s)
        if wait_s is None or (deadline is not None and self._clock() + wait_s >= deadline):
            return None
        return wait_s

    def _failure(self, call: Call, error: CallError, lost: list[Usage]) -> Failure:
        key = secret(call.seat.api_key_env)
        tries = f" (after {len(lost)} tries)" if len(lost) > 1 else ""
        message = sentence(error.message, key) + tries
        return Failure(call.seat.name, error.kind, message, call.stage, _together(lost))

    # -- an attempt --------------------------------------------------------------------------

    async def _attempt(self, call: Call, line: _Line, on_text: OnText | None) -> Reply:
        """One try, with a place in both lines and with the money for it."""
        await line.own.acquire()
        try:
            era = await self._enter(line.shared)
        except BaseException:
            line.own.release()
            raise
        started, settled = self._clock(), False
        held = 0
        try:
            if self.ledger.has_budget:
                held = await self._reserve(call, line)
            reply = await _ask(line.provider, call, on_text)
            latency_ms = (self._clock() - started) * 1000
            ...
        finally:
            ...
