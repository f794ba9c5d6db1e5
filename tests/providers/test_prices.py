"""Prices: the seat's own, then the table's, then unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.providers.prices import FREE, Price, Step, price_of, usd
from peerage.types import Seat

GPT = Seat("s", model="gpt-4o", base_url="https://api.openai.com/v1")


def test_a_seats_own_price_stands() -> None:
    price = price_of(replace(GPT, price_in=3.0, price_out=15.0))
    assert price is not None
    assert usd(price.cost(1_000_000, 1_000_000)) == 18.0
    assert usd(price.cost(1000, 10)) == 0.00315


def test_a_price_of_zero_is_a_price() -> None:
    assert price_of(replace(GPT, price_in=0.0, price_out=0.0)) == FREE


def test_the_table_knows_models_at_the_endpoints_it_knows() -> None:
    price = price_of(GPT)
    assert price is not None
    assert price.cost(1, 0) > 0
    assert price.cost(0, 1) > price.cost(1, 0)
    assert price == price_of(replace(GPT, base_url=""))


def test_half_a_price_is_completed_by_the_table() -> None:
    listed, half = price_of(GPT), price_of(replace(GPT, price_out=1.0))
    assert listed is not None
    assert half is not None
    assert half.cost(5, 0) == listed.cost(5, 0)
    assert usd(half.cost(0, 1_000_000)) == 1.0


@pytest.mark.parametrize(
    "seat",
    [
        replace(GPT, model="no-such-model"),
        replace(GPT, model=""),
        replace(GPT, base_url="http://127.0.0.1:8000/v1"),
        replace(GPT, base_url="http://127.0.0.1:8000/v1", price_in=1.0),
        replace(GPT, base_url="https://proxy.example.org/v1"),
    ],
)
def test_what_nobody_knows_is_unknown_and_not_free(seat: Seat) -> None:
    assert price_of(seat) is None


def test_a_price_that_rises_with_the_prompt_holds_above_its_step() -> None:
    price = Price((Step(0, 1, 10), Step(200, 2, 20)))
    assert price.cost(200, 1) == 210
    assert price.cost(201, 1) == 422


def test_the_table_keeps_such_steps() -> None:
    price = price_of(
        Seat(
            "s",
            model="gemini-2.5-pro",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
        )
    )
    assert price is not None
    assert len(price.steps) > 1
    assert [step.above for step in price.steps] == sorted(step.above for step in price.steps)


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 50), st.integers(0, 50)), max_size=4),
    st.tuples(st.integers(0, 600), st.integers(0, 600)),
    st.tuples(st.integers(0, 600), st.integers(0, 600)),
)
def test_no_call_costs_more_than_its_bound(
    steps: list[tuple[int, int, int]], most: tuple[int, int], taken: tuple[int, int]
) -> None:
    price = Price((Step(0, 3, 7), *(Step(*step) for step in sorted(steps))))
    tokens_in, tokens_out = (min(a, b) for a, b in zip(most, taken, strict=True))
    assert price.cost(tokens_in, tokens_out) <= price.bound(*most)
