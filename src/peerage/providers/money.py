"""Costs of calls, and a budget that is never exceeded. Sums are exact, in picodollars.

Prices come from the seat, or else from the table of `genai-prices`. A price in neither place is
unknown, which does not mean free. A price that rises with the length of the prompt has steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from peerage.config import OPENAI_URL
from peerage.errors import BudgetError
from peerage.providers import Call, providers
from peerage.providers.pacing import WaitingLine
from peerage.types import MAX_NUMBER, Seat, Usage

if TYPE_CHECKING:
    from genai_prices.types import TieredPrices

PICO = 10**12  # picodollars in a dollar
PER_TOKEN = 10**6  # a dollar per million tokens is a million picodollars per token
TOKENS_AROUND = 64  # for roles and turns, in addition to the bytes of the text
MAX_CALL_TOKENS = 10**9  # a report of more tokens is wrong
MAX_CALL_USD = 10_000.0

# Dollars per million tokens, by the number of prompt tokens above which they apply.
PriceByStart: TypeAlias = Mapping[int, float | Decimal]


def pico(usd: float) -> int:
    return round(usd * PICO)


def usd(pico: int) -> float:
    return pico / PICO


def checked_usage(usage: Usage) -> Usage:
    """Return the reported usage, or unknown usage if one of its numbers is impossible."""
    counts = [count for count in (usage.tokens_in, usage.tokens_out) if count is not None]
    if any(type(count) is not int or not 0 <= count <= MAX_CALL_TOKENS for count in counts):
        return Usage()
    cost = usage.cost_usd
    if cost is None:
        return usage
    if type(cost) not in (int, float) or not 0 <= cost <= MAX_CALL_USD:  # excludes booleans
        return Usage()
    return Usage(usage.tokens_in, usage.tokens_out, float(cost))


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Add up the usage of several calls; a sum is unknown if one part is unknown."""
    calls = list(usages)

    def total(amounts: list[int | None]) -> int | None:
        return None if None in amounts else sum(filter(None, amounts))

    cost = total([None if call.cost_usd is None else pico(call.cost_usd) for call in calls])
    return Usage(
        total([call.tokens_in for call in calls]),
        total([call.tokens_out for call in calls]),
        None if cost is None else usd(cost),
    )


# -- prices -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """The prices of tokens for prompts above a certain number of tokens."""

    above: int
    token_in: int  # picodollars
    token_out: int


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of tokens, in steps by the length of the prompt, and the price of the call itself."""

    steps: tuple[Step, ...]
    call: int = 0  # picodollars, in addition to the tokens

    @property
    def is_by_call(self) -> bool:
        """Return whether tokens are free, so that the cost is known without counting them."""
        return not any(step.token_in or step.token_out for step in self.steps)

    def scale(self, share: float) -> Price:
        """Return these prices multiplied by a share, such as the share charged for a batch."""
        steps = (
            Step(one.above, round(one.token_in * share), round(one.token_out * share))
            for one in self.steps
        )
        return Price(tuple(steps), round(self.call * share))

    def cost(self, tokens_in: int, tokens_out: int) -> int:
        """Return the cost of a call in picodollars, without discounts for cached prompts."""
        return self._costs(tokens_in, tokens_out)[-1]

    def bound(self, tokens_in: int, tokens_out: int) -> int:
        """Return the most that a call with at most this many tokens can cost."""
        return max(self._costs(tokens_in, tokens_out))

    def call_bound(self, call: Call) -> int:
        """Return the most that a call can cost; a token has at least one byte."""
        n_tokens = call.n_bytes + TOKENS_AROUND * len(call.messages)
        return self.bound(n_tokens, call.max_tokens)

    def _costs(self, tokens_in: int, tokens_out: int) -> list[int]:
        """Return the cost of the tokens at the prices of each step that the prompt reaches."""
        reached = [self.steps[0], *(step for step in self.steps[1:] if step.above < tokens_in)]
        return [
            self.call + tokens_in * step.token_in + tokens_out * step.token_out for step in reached
        ]


FREE = Price((Step(0, 0, 0),))


def price_of(seat: Seat) -> Price | None:
    """Return a seat's price, or None if it is unknown.

    If the seat sets only one of the prices of input and output, the other comes from the table. A
    seat of a free provider is free, unless it has a price. If a seat has only a price per call, its
    tokens are free.
    """
    own = (seat.price_in, seat.price_out)
    per_call = pico(seat.price_call or 0.0)
    if own == (None, None) and seat.price_call is not None:
        return Price(FREE.steps, per_call)
    if own == (None, None) and providers.get(seat.provider).is_free:
        return FREE
    listed = _listed_prices(seat.model, seat.base_url) if None in own else ({}, {})
    if listed is None:
        return None
    sides = [
        by_start if price is None else {0: price}
        for price, by_start in zip(own, listed, strict=True)
    ]

    def at(side: PriceByStart, start: int) -> int:
        return round(side[max(above for above in side if above <= start)] * PER_TOKEN)

    starts = sorted({start for side in sides for start in side})
    steps = tuple(Step(start, *(at(side, start) for side in sides)) for start in starts)
    return Price(steps, per_call)


@lru_cache(maxsize=1024)
def _listed_prices(model: str, base_url: str) -> tuple[PriceByStart, PriceByStart] | None:
    """Return the table's prices of a model's input and output, or None if one is missing.

    An unknown endpoint may charge anything for a model with a known name, so its price is
    unknown. Without an endpoint the model is OpenAI's.
    """
    if not model:
        return None
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=0, output_tokens=0)
    try:
        price = calc_price(usage, model, provider_api_url=base_url or OPENAI_URL).model_price
    except LookupError:
        return None
    token_in, token_out = getattr(price, "input_mtok", None), getattr(price, "output_mtok", None)
    if token_in is None or token_out is None:
        return None
    return _by_start(token_in), _by_start(token_out)


def _by_start(side: Decimal | TieredPrices) -> PriceByStart:
    if isinstance(side, Decimal):
        return {0: side}
    return {0: side.base, **{tier.start: tier.price for tier in side.tiers}}


# -- the budget -------------------------------------------------------------------------------


class Budget(WaitingLine):
    """The money of one run, in picodollars. Before a call, the most it can cost is reserved.

    Afterwards the actual cost replaces the reserved amount; if the cost is unknown, the
    reserved amount counts as spent. Without a limit nothing is counted. A budget may be a part of
    another, whose money it spends too. Sessions may share a budget: money that earlier
    sessions are expected to need is kept for them.
    """

    def __init__(
        self,
        limit_usd: float | None = None,
        *,
        spent_usd: float = 0.0,
        part_of: Budget | None = None,
    ) -> None:
        super().__init__()
        self._limit = None if limit_usd is None else pico(min(limit_usd, MAX_NUMBER))
        self._spent = pico(spent_usd)  # known costs, and reserved amounts of unknown ones
        self._whole = part_of
        self._kept_by_session: dict[
            int, int
        ] = {}  # by the number of the session that shares the budget
        self._n_shares = 0

    @property
    def is_limited(self) -> bool:
        return self._limit is not None or (self._whole is not None and self._whole.is_limited)

    @property
    def left_usd(self) -> float | None:
        """Return the amount that can still be reserved, or None without a limit."""
        return None if self._limit is None else usd(self._free())

    @property
    def spent_usd(self) -> float:
        """Return the cost of all calls; an unknown cost counts as the reserved amount."""
        return usd(self._spent)

    @property
    def _unspent(self) -> int:
        return (self._limit or 0) - self._spent

    def _free(self, number: int = 0) -> int:
        for_earlier = sum(
            amount for other, amount in self._kept_by_session.items() if other < number
        )
        return self._unspent - self.in_flight - for_earlier

    def _refusal(self, amount: int) -> BudgetError | None:
        """Return an error if an amount can never be reserved, or None if waiting may help."""
        if amount <= self._unspent:
            return None
        return BudgetError(
            f"a call may cost up to ${usd(amount):.4f}, "
            f"and ${usd(self._unspent):.4f} of the budget is left.",
            hint="Raise budget_usd, or use cheaper seats.",
        )

    async def reserve(self, most: int, number: int = 0) -> int:
        """Wait, then reserve the most a call can cost; return the reserved amount."""
        reserved = 0
        if self._limit is not None:
            await self.take(most, number)
            reserved = most
        if self._whole is None:
            return reserved
        try:
            return max(reserved, await self._whole.reserve(most))
        except BaseException:
            self.give_back(reserved)
            raise

    def settle(self, reserved: int, cost: int | None, number: int = 0) -> None:
        """Release a reserved amount and count the cost of the call; None means unknown."""
        if self._limit is not None:
            counted = reserved if cost is None else cost
            self._spent += counted
            if number in self._kept_by_session:
                self._kept_by_session[number] = max(0, self._kept_by_session[number] - counted)
            self.give_back(reserved)
        if self._whole is not None:
            self._whole.settle(reserved, cost)

    async def share(self, least: int, usual: int) -> BudgetShare:
        """Wait until there is money for one more session, and keep it for that session.

        The amount is the usual cost of a session, or all unspent money if that is less. If the
        unspent money does not cover the least cost, `BudgetError` is raised before the session
        begins.
        """
        self._n_shares += 1
        number = self._n_shares
        while True:
            if least > self._unspent:
                error = BudgetError(
                    f"the next session may cost ${usd(least):.4f}, "
                    f"and ${usd(self._unspent):.4f} of the budget is left.",
                    hint="Raise budget_usd, or use cheaper seats.",
                )
                error.needs_usd = usd(least)
                raise error
            amount = min(usual, self._unspent)
            with suppress(BudgetError):  # less is left now, so try a smaller amount
                await self.take(amount, number)
                break
        self.in_flight -= amount
        self._kept_by_session[number] = amount
        return BudgetShare(self, number)

    def end_share(self, number: int) -> None:
        """Release the money that is still kept for a session."""
        self._kept_by_session.pop(number, None)
        self._admit()


class BudgetShare(Budget):
    """The part of a budget kept for one session, which may also spend money kept for none."""

    def __init__(self, whole: Budget, number: int) -> None:
        super().__init__(part_of=whole)
        self._shared, self._number = whole, number
        self.spent = 0  # picodollars

    async def reserve(self, most: int, _: int = 0) -> int:
        return await self._shared.reserve(most, self._number)

    def settle(self, reserved: int, cost: int | None, _: int = 0) -> None:
        self.spent += reserved if cost is None else cost
        self._shared.settle(reserved, cost, self._number)

    def close(self) -> None:
        self._shared.end_share(self._number)
