"""What a season would take: how many calls of whom, and about what cost, with nobody called.

The sessions are run as they would be, by the one orchestrator, from what is stored and into
nothing. Replies are drawn; what they would cost follows from the pages that were to be sent, from
how long such replies usually are, and at most from the tokens that a reply may have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from peerage.providers import Call, OnText, OnWait, Reply, providers
from peerage.providers.money import Price, price_of, usd
from peerage.providers.simulated import SimulatedProvider
from peerage.season import Progress, Season, SeasonRows, run_season
from peerage.stores import Lease, Store
from peerage.types import Event, Seat, Usage

BYTES_PER_TOKEN = 4
TOKENS_AROUND = 16  # roles and turns of one call
ANSWER_WORDS = 300
REPLY_TOKENS = {"answer": 400, "review": 60, "conclude": 500}  # as a rule
TOKENS_PER_ANSWER = 90  # of a review, for each answer on the ballot
CONCURRENCY = 64


@dataclass(slots=True)
class SeatEstimate:
    """What would be asked of one seat; costs are in picodollars, None where no price is known."""

    seat: Seat
    price: Price | None
    calls: Counter[str] = field(default_factory=Counter)  # by stage
    tokens_in: int = 0
    tokens_out: int = 0
    about: int = 0
    at_most: int = 0

    def add(self, call: Call, n_open: int) -> None:
        """Count a call; so many of the answers that it shows are not known yet."""
        tokens_in = call.n_bytes // BYTES_PER_TOKEN + TOKENS_AROUND
        n_shown = len(call.ballot.slots) if call.ballot else 0
        usual = REPLY_TOKENS[call.stage] + TOKENS_PER_ANSWER * n_shown
        tokens_out = min(usual, call.max_tokens)
        self.calls[call.stage] += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if self.price is not None:
            longest = tokens_in + n_open * max(0, call.max_tokens - REPLY_TOKENS["answer"])
            self.about += self.price.cost(tokens_in, tokens_out)
            self.at_most += self.price.bound(longest, max(tokens_out, call.max_tokens))

    def document(self) -> dict[str, Any]:
        """The estimate as plain JSON values."""
        priced = self.price is not None
        return {
            "seat": self.seat.name,
            "calls": self.calls.total(),
            **{stage: self.calls[stage] for stage in REPLY_TOKENS},
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost_usd": usd(self.about) if priced else None,
            "at_most_usd": usd(self.at_most) if priced else None,
        }


class Estimator:
    """Stands in for whoever calls models: counts what would be sent, and draws a reply."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        self.by_seat = {seat.name: SeatEstimate(seat, price_of(seat)) for seat in seats}

    def can_constrain(self, seat: Seat) -> bool:
        return providers.get(seat.provider).constrains

    def wants_brief(self, seat: Seat) -> bool:
        return providers.get(seat.provider).wants_brief

    async def call(
        self,
        call: Call,
        on_text: OnText | None = None,  # noqa: ARG002 - as whoever calls models
        on_wait: OnWait | None = None,  # noqa: ARG002
    ) -> Reply:
        shown = call.ballot.slots if call.ballot else ()
        n_open = sum(" (latent quality " in (slot.text or "") for slot in shown)
        self.by_seat[call.seat.name].add(call, n_open)
        drawn = replace(call.seat, provider="simulated", options={"words": ANSWER_WORDS})
        reply = await SimulatedProvider(drawn).complete(replace(call, seat=drawn))
        return replace(reply, usage=Usage())


class _Unwritten:
    """A store that is read, and takes everything without keeping it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:  # noqa: ARG002
        return _done()

    async def claim(self, session_id: str, owner: str, length_s: float) -> Lease:
        return Lease(cast("Store", self), session_id, owner, 0, length_s)

    def release(self, lease: Lease) -> asyncio.Future[None]:  # noqa: ARG002
        return _done()

    async def changed(self, session_id: str, timeout_s: float) -> None: ...


def _done() -> asyncio.Future[None]:
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


@dataclass(frozen=True, slots=True)
class SeasonEstimate:
    """What a season would still take, by seat."""

    progress: Progress
    seats: tuple[SeatEstimate, ...]

    @property
    def n_calls(self) -> int:
        return sum(seat.calls.total() for seat in self.seats)

    @property
    def n_unpriced(self) -> int:
        return sum(seat.calls.total() for seat in self.seats if seat.price is None)

    @property
    def cost_usd(self) -> float:
        return usd(sum(seat.about for seat in self.seats))

    @property
    def at_most_usd(self) -> float:
        return usd(sum(seat.at_most for seat in self.seats))

    def document(self) -> dict[str, Any]:
        """The estimate as plain JSON values."""
        progress = self.progress
        return {
            "dry_run": True,
            "sessions": progress.total,
            "finished": progress.reused,
            "to_extend": progress.extended,
            "calls": self.n_calls,
            "cost_usd": self.cost_usd,
            "at_most_usd": self.at_most_usd,
            "unpriced_calls": self.n_unpriced,
            "spent_usd": progress.earlier_cost_usd,
            "seats": [seat.document() for seat in self.seats],
            "unreadable": dict(progress.unreadable),
        }


async def estimate_season(
    season: Season, prompts: SeasonRows, store: Store, seats: Iterable[Seat]
) -> SeasonEstimate:
    """What the sessions of a season that are not finished, or not whole, would take."""
    estimator, progress = Estimator(seats), Progress(prompts.n)
    await run_season(
        season,
        prompts,
        estimator,
        cast("Store", _Unwritten(store)),
        concurrency=CONCURRENCY,
        clock=lambda: 0.0,
        progress=progress,
    )
    return SeasonEstimate(progress, tuple(estimator.by_seat.values()))
