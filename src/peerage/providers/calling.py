"""Calls with queueing, reserved money, time limits and retries.

A provider returns a reply or raises `CallError`; the caller returns a `Reply` or a `Failure`
and raises nothing. This is the only module with `except Exception`, at the boundary to providers.
All text passes through here, and the seat's key is removed from it.
"""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

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
    decides,
    providers,
)
from peerage.providers.batch_endpoints import BatchEndpoint
from peerage.providers.batches import MAX_TRIES, Batches
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
from peerage.types import Failure, Query, Seat, TypedQuestion, Usage

OVERLOADED = frozenset({"rate_limited", "server_error", "timeout"})
UNCHARGED = frozenset(
    {"unauthorized", "rate_limited", "bad_request", "server_error", "budget", "unpriced"}
)
PING = "Reply with the single word: ready."
READY = TypedQuestion("ready", "predicate", "The text asks for a single word.")
PING_S = 20.0
COMMAND_PING_S = 60.0  # programs take longer to start


@dataclass(frozen=True, slots=True)
class Endpoint:
    """State that all seats of an endpoint share."""

    provider: Provider
    limiter: Limiter | None  # for an endpoint with one limit for all its models
    pause: Pause = field(default_factory=Pause)


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """State that all seats with one model share; other models are not affected by its limits."""

    limiter: Limiter
    breaker: Breaker
    pause: Pause = field(default_factory=Pause)


@dataclass(frozen=True, slots=True)
class SeatChannel:
    """Provider, limits, price and redactor of one seat."""

    seat: Seat
    provider: Provider
    limiter: Limiter  # of this seat
    model: ModelLimits
    endpoint_pause: Pause
    price: Price | None
    redactor: Redactor

    def max_cost(self, call: Call) -> int:
        """Return the most that a call can cost, in picodollars."""
        if self.price is None:
            raise CallError("unpriced", "a budget is set, and the price of this seat is unknown")
        return self.price.call_bound(call)

    def cost(self, usage: Usage) -> int | None:
        """Return the cost of a call in picodollars, or None if it is unknown.

        A cost that the endpoint reports is used. If the seat has prices of its own, the higher of
        the two costs is used.
        """
        if usage == UNSENT:
            return 0
        reported = None if usage.cost_usd is None else pico(usage.cost_usd)
        seat = self.seat
        has_price = (seat.price_in, seat.price_out, seat.price_call) != (None, None, None)
        if self.price is None or (reported is not None and not has_price):
            return reported
        if self.price.is_by_call:
            return max(reported or 0, self.price.cost(0, 0))
        if usage.tokens_in is None or usage.tokens_out is None:
            return reported
        return max(reported or 0, self.price.cost(usage.tokens_in, usage.tokens_out))

    async def ask(self, call: Call, on_text: OnText | None, limit_s: float) -> Reply:
        """Return the provider's reply; raise CallError if it fails or takes too long."""
        stream = RedactedStream(self.redactor, on_text) if on_text is not None else None
        work = self.provider.complete(call, stream.feed if stream else None)
        return await self.check(work, limit_s, stream)

    async def check(
        self, work: Awaitable[Reply], limit_s: float | None, stream: RedactedStream | None = None
    ) -> Reply:
        """Return the reply with the key removed; raise CallError if it fails or is too long."""
        redactor = self.redactor
        try:
            async with asyncio.timeout(limit_s):
                reply = await work
            if len(reply.text) + len(reply.reasoning) > MAX_REPLY_BYTES:
                message = f"the reply is longer than {MAX_REPLY_BYTES} bytes"
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
            raise CallError(  # a new error without `parameter`, which may contain the key
                error.kind,
                redactor.sentence(error.message),
                retry_after_s=error.retry_after_s,
                of_endpoint=error.of_endpoint,
                usage=None if error.usage is None else checked_usage(error.usage),
                status=error.status,
            ) from None
        except TimeoutError as error:
            message = f"no reply in {round(limit_s or 0.0, 2):g} s"
            for note in getattr(error.__cause__, "__notes__", ()):  # added by the provider
                message += f"; {note}"
            raise CallError("timeout", redactor.sentence(message)) from None
        except Exception as error:  # noqa: BLE001 - a provider's error costs only its own reply
            message = redactor.sentence(f"{type(error).__name__}: {error}")
            raise CallError("provider", message) from None


@dataclass(slots=True)
class Tries:
    """The tries of one call: their channel, their usage so far, and the time left.

    The time limit covers all tries and the pauses between them, but not the wait before the first
    try.
    """

    channel: SeatChannel
    on_wait: OnWait | None
    left_s: float
    breaker: Breaker
    is_probe: bool = False  # let through by the open breaker
    slowest_s: float = 0.0
    lost: list[Usage] = field(default_factory=list)  # of tries without a reply
    n_by_kind: Counter[Kind] = field(default_factory=Counter)


class Caller:
    """Makes the calls of one run. Seats of one endpoint share its connections and limits."""

    def __init__(
        self,
        seats: Iterable[Seat] = (),
        *,
        budget_usd: float | None = None,
        retry_policy: RetryPolicy | None = None,
        place_by_seat: Mapping[str, str] = MappingProxyType({}),
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
        self._batches: Batches | None = None
        seats = tuple(seats)
        _check_each(seats, _check_seat, place_by_seat)
        if budget_usd is not None:
            refuse_unpriced(seats)

    def within(self, budget_usd: float, spent_usd: float = 0.0) -> Caller:
        """Return a copy of this caller with a smaller budget, for a part of the run."""
        part = copy.copy(self)  # connections and limits stay shared
        part.budget = Budget(budget_usd, spent_usd=spent_usd, part_of=self.budget)
        return part

    def in_batches(self, batches: Batches) -> Caller:
        """Return a copy of this caller that sends calls in batches where endpoints support them."""
        part = copy.copy(self)
        part._batches = batches
        return part

    @asynccontextmanager
    async def share(self, least: int, usual: int) -> AsyncIterator[tuple[Caller, BudgetShare]]:
        """Yield a caller for one session, once there is money for the whole session."""
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
        """Load what the seats need, so that their first calls need not wait for it."""
        for seat in seats:
            with suppress(Exception):  # the first call fails with the same error and reports it
                await self.channel(seat).provider.prepare()

    async def close(self) -> None:
        """Close every endpoint; a later call opens it again."""
        endpoints = list(self._endpoints.values())
        for opened in (self._channels, self._models, self._endpoints):
            opened.clear()
        for endpoint in endpoints:
            await endpoint.provider.aclose()

    def can_constrain(self, seat: Seat) -> bool:
        """Return whether to send a schema with a seat's calls, judging by earlier replies."""
        return self.channel(seat).provider.can_constrain(seat)

    def wants_brief(self, seat: Seat) -> bool:
        """Return whether a seat should get the short form of a prompt."""
        return self.channel(seat).provider.wants_brief

    def channel(self, seat: Seat) -> SeatChannel:
        """Return the channel of a seat; open it on first use or if the seat has changed."""
        channel = self._channels.get(seat.name)
        if channel is None or (channel.seat is not seat and channel.seat != seat):
            channel = self._channels[seat.name] = self._open(seat)
        return channel

    def _open(self, seat: Seat) -> SeatChannel:
        kind = providers.get(seat.provider)
        kind.check(seat)
        at_a_time = seat.max_concurrency or kind.usual_concurrency
        key = (seat.provider, kind.endpoint(seat))
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            of_all = None if kind.max_concurrency is None else Limiter(kind.max_concurrency)
            endpoint = self._endpoints[key] = Endpoint(kind(seat), of_all)
        model = self._models.get((key, seat.model))
        if model is None:
            limiter = endpoint.limiter or Limiter(at_a_time)
            breaker = self._breakers.setdefault((key, seat.model), Breaker())
            model = self._models[key, seat.model] = ModelLimits(limiter, breaker)
        elif endpoint.limiter is None:
            model.limiter.widen(at_a_time)
        own, redactor = Limiter(at_a_time), Redactor(secret(key_name(seat)))
        price = price_of(seat)
        return SeatChannel(seat, endpoint.provider, own, model, endpoint.pause, price, redactor)

    # -- a call ------------------------------------------------------------------------------

    async def call(
        self, call: Call, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> Reply | Failure:
        """Return the reply or the failure of a call; pass text to `on_text` as it arrives.

        Only the first try is streamed, because a later try would begin a different text.
        `on_wait` gets the reason and the length of the wait before another try.
        """
        channel = self.channel(call.seat)
        lost: list[Usage] = []
        if self._batches is not None:
            outcome = await self._call_in_batch(self._batches, call, channel, lost)
            if outcome is not None:
                return outcome
        breaker = channel.model.breaker if channel.provider.remote else Breaker()
        refusal = breaker.refusal(self._clock())
        if refusal is not None:
            return Failure(call.seat.name, "skipped", refusal, call.stage)
        limit_s = min(call.seat.timeout_s, call.deadline_s or call.seat.timeout_s)
        tries = Tries(channel, on_wait, limit_s, breaker, is_probe=breaker.is_open, lost=lost)
        if tries.is_probe:
            call = replace(call, may_retry=False)
        try:
            outcome = await self._try_call(call, on_text, tries)
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

    async def _call_in_batch(
        self, batches: Batches, call: Call, channel: SeatChannel, lost: list[Usage]
    ) -> Reply | Failure | None:
        """Return the outcome of a call in a batch, or None if the call should be made by itself."""
        endpoint = channel.provider.batch_endpoint(call.seat)
        if endpoint is None:
            return None
        price = None if channel.price is None else channel.price.scale(endpoint.price_share)
        channel = replace(channel, price=price)
        failure = Failure(call.seat.name, "cancelled", "", call.stage)
        for attempt in range(MAX_TRIES if batches.is_patient else 1):
            try:
                call = replace(call, attempt=attempt)
                reply = await self._attempt_in_batch(batches, endpoint, call, channel)
                return replace(reply, usage=total_usage([*lost, reply.usage]))
            except CallError as error:
                lost.append(error.usage or UNSENT)
                usage = total_usage(lost)
                failure = Failure(call.seat.name, error.kind, error.message, call.stage, usage)
                if error.kind in ("budget", "unpriced"):
                    return failure
        return failure if batches.is_patient else None

    async def _attempt_in_batch(
        self, batches: Batches, endpoint: BatchEndpoint, call: Call, channel: SeatChannel
    ) -> Reply:
        """Make one try in a batch: reserve money, and wait as long as the batch takes."""
        reserved = await self._set_aside(call, channel)
        cost: int | None = None  # if the call is cancelled, its cost is unknown
        try:
            reply = await channel.check(batches.reply(endpoint, call), None)
            cost = channel.cost(reply.usage)
            usage = reply.usage if cost is None else replace(reply.usage, cost_usd=usd(cost))
            return replace(reply, usage=usage)
        except CallError as error:
            usage = error.usage or UNSENT
            cost = channel.cost(usage)
            error.usage = usage if cost is None else replace(usage, cost_usd=usd(cost))
            raise
        finally:
            self.budget.settle(reserved, cost)

    async def _try_call(self, call: Call, on_text: OnText | None, tries: Tries) -> Reply | Failure:
        """Return the reply of the first successful try, or the failure of the last."""
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
        """Wait before a try, and report the wait."""
        if tries.on_wait is not None:
            tries.on_wait(why, wait_s, call.attempt + 1)
        await self._sleep(wait_s)

    async def _attempt(self, call: Call, on_text: OnText | None, tries: Tries) -> Reply:
        """Make one try: reserve money, wait for the seat's and the model's limiter, and call.

        Money is reserved before a slot is taken, so that no call holds a slot while it waits for
        money.
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
            await self._wait_for_pauses(call, tries)
            started, reply = self._clock(), None
            usage = Usage()  # if the call is cancelled, its cost is unknown
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
        """Wait until the most that the call can cost is reserved; return the amount."""
        if not self.budget.is_limited:
            return 0
        try:
            return await self.budget.reserve(channel.max_cost(call))
        except BudgetError as error:
            raise CallError("budget", str(error)) from None

    async def _wait_for_pauses(self, call: Call, tries: Tries) -> None:
        """Wait until the model accepts calls again; raise CallError if that takes too long."""
        if tries.breaker.is_open and not tries.is_probe:  # opened while this call waited
            raise CallError("skipped", tries.breaker.reason)
        for pause in (tries.channel.model.pause, tries.channel.endpoint_pause):
            while (wait_s := pause.until and pause.until - self._clock()) > 0:
                if wait_s >= tries.left_s or not call.may_retry:
                    message = (
                        f"{pause.why}: the endpoint asks for a pause of {round(wait_s, 1):g} s more"
                    )
                    raise CallError("rate_limited", message, retry_after_s=math.inf)
                if call.attempt:
                    tries.left_s -= wait_s
                await self._pause(call, pause.why, wait_s, tries)

    def _note_pause(self, channel: SeatChannel, error: CallError) -> None:
        """Pause the model, or the whole endpoint if the server says so, for the requested time.

        A pause longer than the seat's timeout is ignored: the breaker probes the model instead.
        """
        asked_s = error.retry_after_s
        if asked_s is not None and asked_s < channel.seat.timeout_s:
            pause = channel.endpoint_pause if error.of_endpoint else channel.model.pause
            pause.extend(self._clock() + asked_s, error.why)


# -- checks before any call --------------------------------------------------------------------


def _check_seat(seat: Seat) -> None:
    """Raise ConfigError for a seat that its provider can never serve."""
    provider = providers.get(seat.provider)
    if seat.images and not provider.sees:
        raise ConfigError(
            f"seats of the provider {seat.provider} cannot take images.",
            hint="Remove images = true: the seat is then only told that there is an image.",
        )
    provider.check(seat)


def check_ready(seats: Iterable[Seat]) -> None:
    """Raise one error for all seats that cannot be called now."""
    _check_each(seats, lambda seat: providers.get(seat.provider).check_ready(seat))


def _check_each(
    seats: Iterable[Seat],
    check: Callable[[Seat], None],
    place_by_seat: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check every seat and raise one error with all problems."""
    problems: list[PeerageError] = []
    for seat in seats:
        try:
            check(seat)
        except PeerageError as error:
            place = place_by_seat.get(seat.name) or error.place or f"seat {seat.name}"
            problems.append(ConfigError(error.message, place=place, hint=error.hint))
    if problems:
        raise config_error(problems)


def refuse_unpriced(seats: Iterable[Seat]) -> None:
    """Raise ConfigError for seats without a known price: a budget could not limit them."""
    unpriced = [seat.name for seat in seats if price_of(seat) is None]
    if unpriced:
        raise ConfigError(
            f"budget_usd is set, but the price of {', '.join(unpriced)} is unknown.",
            place="[[seat]]",
            hint="Set price_in and price_out there (0 if it is free), or remove the budget.",
        )


# -- checks of seats ----------------------------------------------------------------------------


def ping_s(seat: Seat) -> float:
    """Return the time limit of a very short question to a seat."""
    return COMMAND_PING_S if seat.provider == "command" else PING_S


async def ping(caller: Caller, seat: Seat) -> Reply | Failure:
    """Return a seat's reply to a very short question; raise TimeoutError if it takes too long."""
    questions = (READY,) if decides(seat) else ()
    key = f"doctor|{seat.name}"
    call = Call(seat, "answer", PING, key, Query(PING), max_tokens=16, questions=questions)
    reply = await asyncio.wait_for(caller.call(call), ping_s(seat))
    if isinstance(reply, Failure) and reply.kind == "out_of_tokens":
        return Reply("")  # it spent its tokens on reasoning: the seat works
    return reply


async def answers(caller: Caller, seat: Seat) -> bool:
    """Return whether a seat answers a very short question."""
    try:
        return isinstance(await ping(caller, seat), Reply)
    except (TimeoutError, PeerageError):
        return False
