"""What a token costs, in whole picodollars so that sums are exact in any order.

A seat's own prices stand first, then the table of `genai-prices`; what neither knows is
unknown, which is not free. Prices that rise with the length of the prompt are kept as steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from peerage.types import Seat

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

PICO = 10**12  # picodollars in a dollar
PER_TOKEN = 10**6  # a dollar per million tokens is a million picodollars per token


def pico(usd: float) -> int:
    return round(usd * PICO)


def usd(pico: int) -> float:
    return pico / PICO


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
    """A seat's price, or None where nobody knows it; half a price is completed by the table."""
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
            provider_api_url=base_url or "https://api.openai.com/v1",
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
