"""What calls cost, and a budget that is never overshot; in picodollars, so that sums are exact.

A seat's own prices stand first, then the table of `genai-prices`; what neither knows is
unknown, which is not free. Prices that rise with the length of the prompt are kept as steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from peerage.config import OPENAI_URL
from peerage.errors import BudgetError
from peerage.providers import providers
from peerage.providers.pacing import WaitingLine
from peerage.types import Seat, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

PICO = 10**12  # picodollars in a dollar
PER_TOKEN = 10**6  # a dollar per million tokens is a million picodollars per token
MAX_CALL_TOKENS = 10**9  # what is reported beyond these is a mistake or a lie
MAX_CALL_USD = 10_000.0


def pico(usd: float) -> int:
    return round(usd * PICO)


def usd(pico: int) -> float:
    return pico / PICO


def checked_usage(usage: Usage) -> Usage:
    """Usage as it was reported, or all unknown where one of its numbers cannot be true."""
    counts = [count for count in (usage.tokens_in, usage.tokens_out) if count is not None]
    if any(type(count) is not int or not 0 <= count <= MAX_CALL_TOKENS for count in counts):
        return Usage()
    cost = usage.cost_usd
    if cost is None:
        return usage
    if type(cost) not in (int, float) or not 0 <= cost <= MAX_CALL_USD:  # true is no amount
        return Usage()
    return Usage(usage.tokens_in, usage.tokens_out, float(cost))


def total_usage(usages: Iterable[Usage]) -> Usage:
    """What several calls took together, in any order; unknown where it is unknown of one."""
    each = list(usages)

    def total(parts: list[int | None]) -> int | None:
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    cost = total([None if one.cost_usd is None else pico(one.cost_usd) for one in each])
    return Usage(
        total([one.tokens_in for one in each]),
        total([one.tokens_out for one in each]),
        None if cost is None else usd(cost),
    )


# -- prices -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """Prices of tokens that hold where the prompt has more than so many of them."""

    above: int
    token_in: int  # picodollars
    token_out: int


@dataclass(frozen=True, slots=True)
class Price:
    """What tokens cost, by steps that begin at 0 and rise."""

    steps: tuple[Step, ...]

    def cost(self, tokens_in: int, tokens_out: int) -> int:
        """Picodollars for a call; caches that make a prompt cheaper are not known here."""
        step = self.steps[0]
        for higher in self.steps[1:]:
            if tokens_in > higher.above:
                step = higher
        return tokens_in * step.token_in + tokens_out * step.token_out

    def bound(self, tokens_in: int, tokens_out: int) -> int:
        """The most that a call of at most so many tokens can cost."""
        reached = [self.steps[0], *(step for step in self.steps[1:] if step.above < tokens_in)]
        return max(tokens_in * s.token_in + tokens_out * s.token_out for s in reached)


FREE = Price((Step(0, 0, 0),))


def price_of(seat: Seat) -> Price | None:
    """A seat's price, or None where nobody knows it; half a price is completed by the table.

    Where its provider is free so is the seat, unless it names a price.
    """
    if seat.price_in is None and seat.price_out is None and providers.get(seat.provider).is_free:
        return FREE
    if seat.price_in is not None and seat.price_out is not None:
        return Price((Step(0, _per_token(seat.price_in), _per_token(seat.price_out)),))
    listed = _listed(seat.model, seat.base_url)
    if listed is None:
        return None
    return Price(
        tuple(
            Step(
                step.above,
                step.token_in if seat.price_in is None else _per_token(seat.price_in),
                step.token_out if seat.price_out is None else _per_token(seat.price_out),
            )
            for step in listed.steps
        )
    )


def _per_token(usd_per_million: float | Decimal) -> int:
    return round(usd_per_million * PER_TOKEN)


@cache
def _listed(model: str, base_url: str) -> Price | None:
    """The table's price for a model at an endpoint it knows.

    An endpoint that it does not know may charge anything for a model of a known name, so
    there is no answer. With no endpoint given the model is OpenAI's.
    """
    if not model:
        return None
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(
            Usage(input_tokens=0, output_tokens=0),
            model,
            provider_api_url=base_url or OPENAI_URL,
        )
    except LookupError:
        return None
    return _steps(found.model_price)


def _steps(listed: ModelPrice) -> Price | None:
    """A listed price as steps; a list that leaves one side out says nothing of it."""
    token_in, token_out = getattr(listed, "input_mtok", None), getattr(listed, "output_mtok", None)
    if token_in is None or token_out is None:
        return None
    tables = [_by_start(token_in), _by_start(token_out)]
    starts = sorted({start for table in tables for start in table})

    def at(table: dict[int, Decimal], start: int) -> int:
        return _per_token(table[max(s for s in table if s <= start)])

    return Price(tuple(Step(start, *(at(table, start) for table in tables)) for start in starts))


def _by_start(side: Decimal | TieredPrices) -> dict[int, Decimal]:
    """A price by the number of prompt tokens above which it holds."""
    if isinstance(side, Decimal):
        return {0: side}
    return {0: side.base, **{tier.start: tier.price for tier in side.tiers}}


# -- the budget -------------------------------------------------------------------------------


class Budget(WaitingLine):
    """The money of one run, in picodollars: before a call the most it can cost is set aside.

    Afterwards what it did cost takes the place of that; where nobody knows, the whole of
    what was set aside stays gone. Without a limit nothing is counted. A budget may be a part of
    another, whose money it spends too.
    """

    def __init__(
        self,
        limit_usd: float | None = None,
        *,
        spent_usd: float = 0.0,
        part_of: Budget | None = None,
    ) -> None:
        super().__init__()
        self._limit = None if limit_usd is None else pico(limit_usd)
        self._spent = pico(spent_usd)  # what is known, and what was set aside for the rest
        self._whole = part_of

    @property
    def is_limited(self) -> bool:
        return self._limit is not None or (self._whole is not None and self._whole.is_limited)

    @property
    def left_usd(self) -> float | None:
        """What may still be set aside, or None without a limit."""
        return None if self._limit is None else usd(self._free())

    def _free(self) -> int:
        return (self._limit or 0) - self._spent - self.in_flight

    def _refusal(self, amount: int) -> BudgetError | None:
        """What others have set aside may be more than they need: it is waited for."""
        left = (self._limit or 0) - self._spent
        if amount <= left:
            return None
        most = f"${usd(amount):.4f}"
        return BudgetError(
            f"a call may cost up to {most}, and ${usd(left):.4f} of the budget is left.",
            hint="Raise budget_usd, or take cheaper seats.",
        )

    async def reserve(self, most: int) -> int:
        """Set the most a call can cost aside, once it is its turn; how much was set aside."""
        held = 0
        if self._limit is not None:
            await self.take(most)
            held = most
        if self._whole is None:
            return held
        try:
            return max(held, await self._whole.reserve(most))
        except BaseException:
            self.give_back(held)
            raise

    def settle(self, held: int, cost: int | None) -> None:
        """Let go of what was set aside, and count what the call cost, None if nobody knows."""
        if self._limit is not None:
            self._spent += held if cost is None else cost
            self.give_back(held)
        if self._whole is not None:
            self._whole.settle(held, cost)
