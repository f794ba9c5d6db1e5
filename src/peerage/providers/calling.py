"""One call, with everything around it: a place in line, money set aside, a limit, another try.

A provider says yes or raises `CallError`; here that becomes a `Reply` or a `Failure`, never
an exception. `except Exception` has its one home here, where a provider's reply comes in.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

from peerage.config import secret
from peerage.errors import BudgetError, ConfigError
from peerage.providers import Call, CallError, Kind, Provider, Reply, providers
from peerage.providers.keys import sentence
from peerage.providers.ledger import Ledger, bill
from peerage.providers.limits import Limiter
from peerage.providers.patience import RETRIES, Patience
from peerage.providers.prices import FREE, Price, pico, price_of, usd
from peerage.types import Failure, Seat, Usage

OVERLOADED = frozenset({"rate_limited", "server_error", "timeout"})
UNCHARGED = frozenset(
    {"unauthorized", "rate_limited", "bad_request", "server_error", "budget", "unpriced"}
)
TOKENS_AROUND = 64  # roles and turns, beyond the bytes of what is sent

NOTHING = Usage(0, 0, 0.0)

OnText = Callable[[str], None]


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

    def cost(self, usage: Usage) -> int | None:
        """What a call did cost, in picodollars, or None where nobody can tell."""
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
        most = getattr(factory, "max_concurrency", None)  # of an engine that serves one at a time
        if key in self._endpoints:
            provider, shared = self._endpoints[key]
            if most is None:
                shared.widen(seat.max_concurrency)
        else:
            provider, shared = factory(seat), Limiter(most or seat.max_concurrency)
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
        lost: list[Usage] = []  # by tries that gave no reply
        if deadline is None:
            return await self._call(call, on_text, on_restart, None, lost)
        try:
            async with asyncio.timeout(deadline - self._clock()):
                return await self._call(call, on_text, on_restart, deadline, lost)
        except TimeoutError:
            error = CallError("timeout", "no reply before the deadline")
            return self._failure(call, error, lost)

    async def _call(
        self,
        call: Call,
        on_text: OnText | None,
        on_restart: Callable[[], None] | None,
        deadline: float | None,
        lost: list[Usage],
    ) -> Reply | Failure:
        line = self._line(call.seat)
        n_by_kind: Counter[Kind] = Counter()
        while True:
            try:
                reply = await self._attempt(call, line, on_text, lost)
                return reply if not lost else replace(reply, usage=_sum([*lost, reply.usage]))
            except CallError as error:
                n_by_kind[error.kind] += 1
                wait_s = self._wait_s(call, error, n_by_kind, deadline)
                if wait_s is None:
                    return self._failure(call, error, lost)
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
        message = sentence(error.message, secret(call.seat.api_key_env))
        if len(lost) > 1:
            message += f" (after {len(lost)} tries)"
        return Failure(call.seat.name, error.kind, message, call.stage, _sum(lost))

    # -- one try -----------------------------------------------------------------------------

    async def _attempt(
        self, call: Call, line: _Line, on_text: OnText | None, lost: list[Usage]
    ) -> Reply:
        era, held = await self._enter(call, line)
        seat, stage, started = call.seat.name, call.stage, self._clock()
        try:
            reply = await _ask(line.provider, call, on_text)
        except CallError as error:
            usage = error.usage or (NOTHING if error.kind in UNCHARGED else Usage())
            cost = line.cost(usage)
            self.ledger.settle(held, seat, stage, cost)
            lost.append(_with_cost(usage, cost))
            self._leave(line, era, error)
            self._note(call, error.kind, started, error.message)
            raise
        except BaseException:  # called off: what the endpoint will charge for it nobody knows
            self.ledger.settle(held, seat, stage, None)
            lost.append(Usage())
            line.shared.release()
            line.own.release()
            raise
        cost = line.cost(reply.usage)
        self.ledger.settle(held, seat, stage, cost)
        line.shared.succeed()
        line.own.release()
        latency_ms = self._note(call, "ok", started)
        return replace(reply, usage=_with_cost(reply.usage, cost), latency_ms=latency_ms)

    async def _enter(self, call: Call, line: _Line) -> tuple[int, int]:
        """A place in the seat's line and in its endpoint's, and the money, or nothing at all.

        Gives the era of the place and what was set aside. Who holds money has a place, so
        those who wait for money here wait only for calls that are under way.
        """
        own, shared = line.own, line.shared
        await own.acquire()
        try:
            era = await shared.acquire()
            try:
                while (wait_s := shared.resume_at and shared.resume_at - self._clock()) > 0:
                    await self._sleep(wait_s)
                held = await self._reserve(call, line) if self.ledger.has_budget else 0
            except BaseException:
                shared.release()
                raise
        except BaseException:
            own.release()
            raise
        return era, held

    async def _reserve(self, call: Call, line: _Line) -> int:
        try:
            return await self.ledger.reserve(line.most(call))
        except BudgetError as error:
            raise CallError("budget", str(error)) from None

    def _leave(self, line: _Line, era: int, error: CallError) -> None:
        """Hand both places back; an endpoint that has too much to do gets less from all."""
        asked_s = error.retry_after_s
        if error.kind not in OVERLOADED:
            line.shared.release()
        else:
            if asked_s is not None and asked_s <= self._patience.longest_asked_s:
                line.shared.resume_at = max(line.shared.resume_at, self._clock() + asked_s)
            line.shared.strain(era)
        line.own.release()

    def _note(
        self, call: Call, kind: Kind | Literal["ok"], started: float, message: str = ""
    ) -> float:
        latency_ms = (self._clock() - started) * 1000
        if self._on_attempt is not None:
            message = sentence(message, secret(call.seat.api_key_env))
            self._on_attempt(call, Attempt(call.attempt, kind, latency_ms, message))
        return latency_ms


# -- the boundary -----------------------------------------------------------------------------


async def _ask(provider: Provider, call: Call, on_text: OnText | None) -> Reply:
    """A provider's reply within the seat's limit; whatever else comes of it is a `CallError`."""
    try:
        async with asyncio.timeout(call.seat.timeout_s):
            if on_text is None:
                return await provider.complete(call)
            return await _streamed(provider.stream(call), on_text)
    except CallError:
        raise
    except TimeoutError:
        raise CallError("timeout", f"no reply in {call.seat.timeout_s:g} s") from None
    except Exception as error:  # noqa: BLE001 - one reply may cost no more than itself
        raise CallError("provider", f"{type(error).__name__}: {error}") from None


async def _streamed(pieces: AsyncIterator[str | Reply], on_text: OnText) -> Reply:
    try:
        async for piece in pieces:
            if isinstance(piece, Reply):
                return piece
            on_text(piece)
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise CallError("truncated", "the stream ended without a reply")


# -- money ------------------------------------------------------------------------------------


def refuse_unpriced(seats: Iterable[Seat]) -> None:
    """Refuse seats under a budget whose price nobody knows: they could not be held to it."""
    unpriced = [seat.name for seat in seats if _price(seat) is None]
    if unpriced:
        raise ConfigError(
            f"budget_usd is set, and nobody knows what {', '.join(unpriced)} would cost.",
            place="[[seat]]",
            hint="Set price_in and price_out there (0 where it is free), or take the budget away.",
        )


def _price(seat: Seat) -> Price | None:
    """A seat's price; where its provider is free so is the seat, unless it names one."""
    free = getattr(providers.get(seat.provider), "free", False)
    named = seat.price_in is not None or seat.price_out is not None
    return FREE if free and not named else price_of(seat)


def _with_cost(usage: Usage, cost: int | None) -> Usage:
    if cost is None or usage.cost_usd is not None:
        return usage
    return Usage(usage.tokens_in, usage.tokens_out, usd(cost))


def _sum(usages: list[Usage]) -> Usage:
    """What several tries took together; unknown where it is unknown of one of them."""

    def total(parts: list[int | None]) -> int | None:
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    return Usage(
        total([usage.tokens_in for usage in usages]),
        total([usage.tokens_out for usage in usages]),
        bill(usages).usd,
    )
