"""One call with everything around it: a place in line, money set aside, a limit, another try.

A provider gives a reply or raises `CallError`; here that becomes a `Reply` or a `Failure`,
never an exception. `except Exception` has its one home here, where a provider's reply comes
in, and no text gets past that point before the seat's key is struck out of it.
"""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from peerage.config import key_name, secret
from peerage.errors import BudgetError, ConfigError, PeerageError, config_error
from peerage.providers import (
    MAX_REPLY_BYTES,
    UNSENT,
    Call,
    CallError,
    Kind,
    OnText,
    OnWait,
    Provider,
    Reply,
    providers,
)
from peerage.providers.money import (
    Budget,
    BudgetShare,
    Price,
    checked_usage,
    pico,
    price_of,
    total_usage,
    usd,
)
from peerage.providers.pacing import Breaker, Limiter, Pause, RetryPolicy
from peerage.providers.redaction import RedactedStream, Redactor
from peerage.types import Failure, Query, Seat, Usage

OVERLOADED = frozenset({"rate_limited", "server_error", "timeout"})
UNCHARGED = frozenset(
    {"unauthorized", "rate_limited", "bad_request", "server_error", "budget", "unpriced"}
)
PING = "Reply with the single word: ready."
PING_S = 20.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What all seats of an endpoint share."""

    provider: Provider
    limiter: Limiter | None  # where it takes only so many calls of all its models together
    pause: Pause = field(default_factory=Pause)


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What all seats of one model at an endpoint share: one model's limit holds back no other."""

    limiter: Limiter
    breaker: Breaker
    pause: Pause = field(default_factory=Pause)


@dataclass(frozen=True, slots=True)
class SeatChannel:
    """What the calls of one seat go through."""

    seat: Seat
    provider: Provider
    limiter: Limiter  # the seat's own
    model: ModelLimits
    endpoint_pause: Pause
    price: Price | None
    redactor: Redactor

    def max_cost(self, call: Call) -> int:
        """The most that a call can cost, in picodollars."""
        if self.price is None:
            raise CallError("unpriced", "a budget is set, and nobody knows what this seat charges")
        return self.price.call_bound(call)

    def cost(self, usage: Usage) -> int | None:
        """What a call did cost, in picodollars, or None where nobody can tell.

        What the endpoint reports stands, but not below the price that the seat itself names.
        """
        reported = None if usage.cost_usd is None else pico(usage.cost_usd)
        if reported is not None and self.seat.price_in is None and self.seat.price_out is None:
            return reported
        if self.price is None or usage.tokens_in is None or usage.tokens_out is None:
            return reported
        return max(reported or 0, self.price.cost(usage.tokens_in, usage.tokens_out))

    async def ask(self, call: Call, on_text: OnText | None, limit_s: float) -> Reply:
        """The provider's reply within the limit; whatever else comes is a `CallError`."""
        redactor = self.redactor
        stream = RedactedStream(redactor, on_text) if on_text is not None else None
        try:
            async with asyncio.timeout(limit_s):
                reply = await self.provider.complete(call, stream.feed if stream else None)
            if len(reply.text) + len(reply.reasoning) > MAX_REPLY_BYTES:
                message = "the reply is longer than any may be"
                raise CallError("too_long", message, usage=reply.usage)
            if stream is not None:
                if not self.provider.streams:
                    stream.feed(reply.text)
                stream.end()
            return replace(
                reply,
                text=redactor.redact(reply.text),
                reasoning=redactor.redact(reply.reasoning),
                finish_reason=redactor.sentence(reply.finish_reason),
                usage=checked_usage(reply.usage),
            )
        except CallError as error:
            raise CallError(  # a new one, without the blamed parameter: that is not redacted
                error.kind,
                redactor.sentence(error.message),
                retry_after_s=error.retry_after_s,
                of_endpoint=error.of_endpoint,
                usage=None if error.usage is None else checked_usage(error.usage),
                status=error.status,
            ) from None
        except TimeoutError:
            raise CallError("timeout", f"no reply in {round(limit_s, 2):g} s") from None
        except Exception as error:  # noqa: BLE001 - one reply may cost no more than itself
            message = redactor.sentence(f"{type(error).__name__}: {error}")
            raise CallError("provider", message) from None


@dataclass(slots=True)
class Tries:
    """The tries of one call: where they go, what they took so far, and the time left to them.

    All tries and the pauses between them count; waits before the first and in line do not.
    """

    channel: SeatChannel
    on_wait: OnWait | None
    left_s: float
    breaker: Breaker
    is_probe: bool = False  # let through by the open breaker
    slowest_s: float = 0.0
    lost: list[Usage] = field(default_factory=list)  # by tries that gave no reply
    n_by_kind: Counter[Kind] = field(default_factory=Counter)


class Caller:
    """Calls on behalf of one run; seats of one endpoint share its connections and its window."""

    def __init__(
        self,
        seats: Iterable[Seat] = (),
        *,
        budget_usd: float | None = None,
        retry_policy: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.budget = Budget(budget_usd)
        self._retry_policy = retry_policy or RetryPolicy()
        self._clock = clock
        self._sleep = sleep
        self._channels: dict[str, SeatChannel] = {}
        self._endpoints: dict[Hashable, Endpoint] = {}
        self._models: dict[Hashable, ModelLimits] = {}
        self._breakers: dict[Hashable, Breaker] = {}
        seats = tuple(seats)
        _check_each(seats, lambda seat: providers.get(seat.provider).check(seat))
        if budget_usd is not None:
            refuse_unpriced(seats)

    def within(self, budget_usd: float, spent_usd: float = 0.0) -> Caller:
        """The same caller for a part of the run that may spend no more than this of its budget."""
        part = copy.copy(self)  # the connections and limits stay shared
        part.budget = Budget(budget_usd, spent_usd=spent_usd, part_of=self.budget)
        return part

    @asynccontextmanager
    async def share(self, least: int, usual: int) -> AsyncIterator[tuple[Caller, BudgetShare]]:
        """The same caller for one session, once there is money for all of it; see `Budget`."""
        share = await self.budget.share(least, usual)
        part = copy.copy(self)
        part.budget = share
        try:
            yield part, share
        finally:
            share.close()

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def prepare(self, seats: Iterable[Seat]) -> None:
        """Load what the first calls of seats would wait for."""
        for seat in seats:
            with suppress(Exception):  # whatever is wrong, the first call fails by it and tells
                await self.channel(seat).provider.prepare()

    async def close(self) -> None:
        """Let go of every endpoint; one that is called again is opened anew."""
        endpoints = list(self._endpoints.values())
        for opened in (self._channels, self._models, self._endpoints):
            opened.clear()
        for endpoint in endpoints:
            await endpoint.provider.aclose()

    def can_constrain(self, seat: Seat) -> bool:
        """Whether a seat's replies can be held to a schema, as far as is known now."""
        return self.channel(seat).provider.can_constrain(seat)

    def wants_brief(self, seat: Seat) -> bool:
        """Whether a seat is to get the short form of a page, where there is one."""
        return self.channel(seat).provider.wants_brief

    def channel(self, seat: Seat) -> SeatChannel:
        """The channel of a seat, opened when first needed or when the seat has changed."""
        channel = self._channels.get(seat.name)
        if channel is None or (channel.seat is not seat and channel.seat != seat):
            channel = self._channels[seat.name] = self._open(seat)
        return channel

    def _open(self, seat: Seat) -> SeatChannel:
        kind = providers.get(seat.provider)
        kind.check(seat)
        key = (seat.provider, kind.endpoint(seat))
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            of_all = None if kind.max_concurrency is None else Limiter(kind.max_concurrency)
            endpoint = self._endpoints[key] = Endpoint(kind(seat), of_all)
        model = self._models.get((key, seat.model))
        if model is None:
            limiter = endpoint.limiter or Limiter(seat.max_concurrency)
            breaker = self._breakers.setdefault((key, seat.model), Breaker())
            model = self._models[key, seat.model] = ModelLimits(limiter, breaker)
        elif endpoint.limiter is None:
            model.limiter.widen(seat.max_concurrency)
        own, redactor = Limiter(seat.max_concurrency), Redactor(secret(key_name(seat)))
        price = price_of(seat)
        return SeatChannel(seat, endpoint.provider, own, model, endpoint.pause, price, redactor)

    # -- a call ------------------------------------------------------------------------------

    async def call(
        self, call: Call, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> Reply | Failure:
        """Give the reply, or why there is none; with `on_text`, tell the text also as it comes.

        Only the first try is told: another writes another text, after half of the first.
        `on_wait` is told why and how long another try is waited for.
        """
        channel = self.channel(call.seat)
        breaker = channel.model.breaker if channel.provider.remote else Breaker()
        refusal = breaker.refusal(self._clock())
        if refusal is not None:
            return Failure(call.seat.name, "skipped", refusal, call.stage)
        limit_s = min(call.seat.timeout_s, call.deadline_s or call.seat.timeout_s)
        tries = Tries(channel, on_wait, limit_s, breaker, is_probe=breaker.is_open)
        if tries.is_probe:
            call = replace(call, may_retry=False)
        try:
            outcome = await self._tried(call, on_text, tries)
        except BaseException:
            breaker.give_up(probed=tries.is_probe)
            raise
        if isinstance(outcome, Reply):
            breaker.succeed()
        else:
            breaker.fail(
                outcome.kind,
                outcome.message,
                self._clock(),
                took_s=tries.slowest_s,
                probed=tries.is_probe,
            )
        return outcome

    async def _tried(self, call: Call, on_text: OnText | None, tries: Tries) -> Reply | Failure:
        """The reply of the first try that gives one, or the failure of the last."""
        while True:
            try:
                reply = await self._attempt(call, on_text, tries)
                if not tries.lost:
                    return reply
                return replace(reply, usage=total_usage([*tries.lost, reply.usage]))
            except CallError as error:
                tries.n_by_kind[error.kind] += 1
                wait_s, why = None, error.why
                if call.may_retry:
                    wait_s = self._retry_policy.wait_s(
                        call.key, error, tries.n_by_kind, tries.left_s
                    )
                if wait_s is None:
                    n = len(tries.lost)
                    message = error.message + (f" (after {n} tries)" if n > 1 else "")
                    kind = "refused" if error.kind == "empty" else error.kind
                    usage = total_usage(tries.lost)
                    return Failure(call.seat.name, kind, message, call.stage, usage)
            on_text = None
            call = replace(call, attempt=call.attempt + 1)
            tries.left_s -= wait_s
            await self._pause(call, why, wait_s, tries)

    async def _pause(self, call: Call, why: str, wait_s: float, tries: Tries) -> None:
        """Wait before a try, and tell whoever watches."""
        if tries.on_wait is not None:
            tries.on_wait(why, wait_s, call.attempt + 1)
        await self._sleep(wait_s)

    async def _attempt(self, call: Call, on_text: OnText | None, tries: Tries) -> Reply:
        """One try: the money, a place in the seat's line and in its model's, and the reply.

        Who has a place has the money, so that nobody waits for money that is kept for a call
        that waits for that place.
        """
        channel = tries.channel
        own, shared = channel.limiter, channel.model.limiter
        with ExitStack() as held:
            reserved = await self._set_aside(call, channel)
            cost: int | None = 0
            held.callback(lambda: self.budget.settle(reserved, cost))
            await own.acquire()
            held.callback(own.release)
            era = await shared.acquire()
            leave: Callable[[], None] = shared.release
            held.callback(lambda: leave())
            await self._cleared(call, tries)
            started, reply = self._clock(), None
            usage = Usage()  # called off: what the endpoint will charge for it nobody knows
            try:
                reply = await channel.ask(call, on_text, tries.left_s)
                usage, leave = reply.usage, shared.succeed
            except CallError as error:
                took_s = self._clock() - started
                tries.left_s -= took_s
                tries.slowest_s = max(tries.slowest_s, took_s)
                usage = error.usage or (UNSENT if error.kind in UNCHARGED else Usage())
                if error.kind in OVERLOADED:
                    leave = partial(shared.strain, era)
                    self._note_pause(channel, error)
                raise
            finally:
                cost = channel.cost(usage)
                usage = usage if cost is None else replace(usage, cost_usd=usd(cost))
                if reply is None:
                    tries.lost.append(usage)
            return replace(reply, usage=usage, latency_ms=(self._clock() - started) * 1000)

    async def _set_aside(self, call: Call, channel: SeatChannel) -> int:
        """Wait until the most that the call can cost is set aside; how much it is."""
        if not self.budget.is_limited:
            return 0
        try:
            return await self.budget.reserve(channel.max_cost(call))
        except BudgetError as error:
            raise CallError("budget", str(error)) from None

    async def _cleared(self, call: Call, tries: Tries) -> None:
        """Wait until the model takes calls again; a `CallError` where that takes too long."""
        if tries.breaker.is_open and not tries.is_probe:  # since this call stood in line
            raise CallError("skipped", tries.breaker.reason)
        for pause in (tries.channel.model.pause, tries.channel.endpoint_pause):
            while (wait_s := pause.until and pause.until - self._clock()) > 0:
                if wait_s >= tries.left_s or not call.may_retry:
                    message = f"{pause.why}: it asks for a pause of {round(wait_s, 1):g} s more"
                    raise CallError("rate_limited", message, retry_after_s=math.inf)
                if call.attempt:
                    tries.left_s -= wait_s
                await self._pause(call, pause.why, wait_s, tries)

    def _note_pause(self, channel: SeatChannel, error: CallError) -> None:
        """Hold back the model, or where the server says so its endpoint, as long as is asked for.

        A pause that no call of the seat could wait for is not kept: the breaker probes.
        """
        asked_s = error.retry_after_s
        if asked_s is not None and asked_s < channel.seat.timeout_s:
            pause = channel.endpoint_pause if error.of_endpoint else channel.model.pause
            pause.extend(self._clock() + asked_s, error.why)


# -- before any call ---------------------------------------------------------------------------


def check_ready(seats: Iterable[Seat]) -> None:
    """Refuse seats that could not be called now, all of them in one error, before any call."""
    _check_each(seats, lambda seat: providers.get(seat.provider).check_ready(seat))


def _check_each(seats: Iterable[Seat], check: Callable[[Seat], None]) -> None:
    """Check every seat; what is wrong with any of them is one error."""
    problems: list[PeerageError] = []
    for seat in seats:
        try:
            check(seat)
        except PeerageError as error:
            place = error.place or f"seat {seat.name}"
            problems.append(ConfigError(error.message, place=place, hint=error.hint))
    if problems:
        raise config_error(problems)


def refuse_unpriced(seats: Iterable[Seat]) -> None:
    """Refuse seats under a budget whose price nobody knows: they could not be held to it."""
    unpriced = [seat.name for seat in seats if price_of(seat) is None]
    if unpriced:
        raise ConfigError(
            f"budget_usd is set, and nobody knows what {', '.join(unpriced)} would cost.",
            place="[[seat]]",
            hint="Set price_in and price_out there (0 where it is free), or take the budget away.",
        )


# -- is anybody there ---------------------------------------------------------------------------


async def ping(caller: Caller, seat: Seat) -> Reply | Failure:
    """A seat's reply to the shortest question there is; TimeoutError if none comes in time."""
    call = Call(seat, "answer", PING, f"doctor|{seat.name}", Query(PING), max_tokens=16)
    reply = await asyncio.wait_for(caller.call(call), PING_S)
    if isinstance(reply, Failure) and reply.kind == "out_of_tokens":
        return Reply("")  # it thinks before it speaks, so it is there
    return reply


async def answers(caller: Caller, seat: Seat) -> bool:
    """Whether a seat replies when it is asked."""
    try:
        return isinstance(await ping(caller, seat), Reply)
    except (TimeoutError, PeerageError):
        return False
