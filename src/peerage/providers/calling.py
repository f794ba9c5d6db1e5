"""One call with what belongs around it: the seat's provider, its time limit, another try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from peerage.providers import RETRYABLE, Call, CallError, Provider, Reply, providers
from peerage.types import Failure, Seat

MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.5


class Caller:
    """Places calls for the seats of one run."""

    def __init__(self, seats: Sequence[Seat], budget_usd: float | None = None) -> None:
        self.seats = seats
        self.budget_usd = budget_usd
        self._providers: dict[str, Provider] = {}

    def _provider(self, seat: Seat) -> Provider:
        if seat.name not in self._providers:
            self._providers[seat.name] = providers.get(seat.provider)(seat)
        return self._providers[seat.name]

    def can_constrain(self, seat: Seat) -> bool:
        return self._provider(seat).can_constrain

    async def call(
        self, call: Call, on_text: Callable[[str], None] | None = None
    ) -> Reply | Failure:
        provider = self._provider(call.seat)
        for attempt in range(MAX_ATTEMPTS):
            try:
                async with asyncio.timeout(call.seat.timeout_s):
                    return await self._once(provider, replace(call, attempt=attempt), on_text)
            except TimeoutError:
                error = CallError("timeout", f"no reply in {call.seat.timeout_s:g} s")
            except CallError as failed:
                error = failed
            if error.kind not in RETRYABLE:
                break
            await asyncio.sleep(error.retry_after_s or FIRST_WAIT_S * 2**attempt)
        return Failure(call.seat.name, error.kind, error.message, call.stage, error.usage)

    async def _once(
        self, provider: Provider, call: Call, on_text: Callable[[str], None] | None
    ) -> Reply:
        if on_text is None:
            return await provider.complete(call)
        async for piece in provider.stream(call):
            if isinstance(piece, Reply):
                return piece
            on_text(piece)
        raise CallError("truncated", "the stream ended without its reply")

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
