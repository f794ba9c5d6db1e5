"""Money: unknown is not zero, numbers are possible or unknown, a budget is never overshot."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.errors import BudgetError
from peerage.providers.money import (
    FREE,
    MAX_CALL_TOKENS,
    MAX_CALL_USD,
    PICO,
    Budget,
    Price,
    Step,
    checked_usage,
    pico,
    price_of,
    total_usage,
    usd,
)
from peerage.types import Seat, Usage

CENT = PICO // 100

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
def test_an_unknown_price_is_not_free(seat: Seat) -> None:
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


# -- usage -------------------------------------------------------------------------------------

POSSIBLE_COUNTS = st.none() | st.integers(0, MAX_CALL_TOKENS)
POSSIBLE_COSTS = st.none() | st.floats(0, MAX_CALL_USD)
IMPOSSIBLE = (
    st.integers(max_value=-1)
    | st.integers(min_value=MAX_CALL_TOKENS + 1)
    | st.just(10**400)
    | st.sampled_from([float("nan"), float("inf"), 1e300, -0.5, True, False, "7", [], {}])
)


@given(POSSIBLE_COUNTS, POSSIBLE_COUNTS, POSSIBLE_COSTS)
def test_possible_numbers_are_kept(n_in: int | None, n_out: int | None, cost: float | None) -> None:
    assert checked_usage(Usage(n_in, n_out, cost)) == Usage(n_in, n_out, cost)


@given(POSSIBLE_COUNTS, POSSIBLE_COUNTS, POSSIBLE_COSTS, IMPOSSIBLE, st.integers(0, 2))
def test_one_impossible_number_makes_all_of_a_usage_unknown(
    n_in: object, n_out: object, cost: object, impossible: object, place: int
) -> None:
    numbers = [n_in, n_out, cost]
    numbers[place] = impossible
    assert checked_usage(Usage(*numbers)) == Usage()  # type: ignore[arg-type]


@given(st.lists(st.none() | st.floats(0, 100), max_size=30), st.randoms())
def test_the_order_of_a_sum_does_not_matter_and_an_unknown_part_makes_it_unknown(
    costs: list[float | None], shuffle: random.Random
) -> None:
    usages = [Usage(cost_usd=cost) for cost in costs]
    total = total_usage(usages)
    assert (total.cost_usd is None) == (None in costs)
    shuffle.shuffle(usages)
    assert total_usage(usages) == total


def test_a_sum_of_known_costs_is_exact() -> None:
    assert total_usage([Usage(1, 2, 0.1)] * 10) == Usage(10, 20, 1.0)


# -- budgets -----------------------------------------------------------------------------------


def test_without_a_budget_nothing_is_set_aside() -> None:
    budget = Budget()
    assert asyncio.run(budget.reserve(10 * PICO)) == 0
    assert budget.left_usd is None
    assert not budget.is_limited


def test_a_cheaper_call_returns_the_rest_of_its_reservation() -> None:
    async def run() -> float | None:
        budget = Budget(1.0)
        held = await budget.reserve(90 * CENT)
        budget.settle(held, 5 * CENT)
        return budget.left_usd

    assert asyncio.run(run()) == 0.95


def test_an_unknown_cost_counts_as_the_reserved_amount() -> None:
    async def run() -> float | None:
        budget = Budget(1.0)
        held = await budget.reserve(90 * CENT)
        budget.settle(held, None)
        return budget.left_usd

    assert asyncio.run(run()) == 0.1


def test_a_call_that_can_never_fit_is_refused_at_once() -> None:
    with pytest.raises(BudgetError, match="budget") as refused:
        asyncio.run(Budget(1.0).reserve(2 * PICO))
    assert refused.value.exit_code == 4
    assert refused.value.hint


def test_a_call_that_does_not_fit_waits_for_other_calls() -> None:
    async def run() -> int:
        budget = Budget(1.0)
        held = await budget.reserve(80 * CENT)
        waiting = asyncio.create_task(budget.reserve(50 * CENT))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.settle(held, 10 * CENT)
        return await waiting

    assert asyncio.run(run()) == 50 * CENT


def test_a_call_is_refused_once_the_others_left_too_little() -> None:
    async def run() -> None:
        budget = Budget(1.0)
        held = await budget.reserve(80 * CENT)
        waiting = asyncio.create_task(budget.reserve(50 * CENT))
        behind = asyncio.create_task(budget.reserve(20 * CENT))
        await asyncio.sleep(0)
        budget.settle(held, 80 * CENT)
        with pytest.raises(BudgetError):
            await waiting
        assert await behind == 20 * CENT

    asyncio.run(run())


@pytest.mark.parametrize("given_first", [False, True])
def test_a_wait_for_money_that_is_called_off_holds_none(given_first: bool) -> None:
    async def run() -> float | None:
        budget = Budget(1.0)
        held = await budget.reserve(80 * CENT)
        waiting = asyncio.create_task(budget.reserve(50 * CENT))
        await asyncio.sleep(0)
        if given_first:
            budget.settle(held, 0)
            waiting.cancel()
        else:
            waiting.cancel()
            await asyncio.sleep(0)
            budget.settle(held, 0)
        await asyncio.gather(waiting, return_exceptions=True)
        return budget.left_usd

    assert asyncio.run(run()) == 1.0


@given(
    st.lists(st.tuples(st.integers(0, 60), st.none() | st.floats(0, 1)), max_size=40),
    st.integers(1, 100),
)
def test_a_budget_is_never_overshot_however_many_call_at_once(
    calls: list[tuple[int, float | None]], budget_cents: int
) -> None:
    """Every call costs a part of its bound, or an unknown amount up to it."""

    async def run() -> None:
        budget = Budget(budget_cents / 100)
        spent = 0

        async def one(most: int, part: float | None) -> None:
            nonlocal spent
            try:
                held = await budget.reserve(most * CENT)
            except BudgetError:
                return
            await asyncio.sleep(0)
            cost = None if part is None else int(held * part)
            spent += held if cost is None else cost  # the worst that an unknown cost can be
            budget.settle(held, cost)

        await asyncio.gather(*(one(most, part) for most, part in calls))
        assert spent <= pico(budget_cents / 100)
        assert budget.left_usd is not None
        assert budget.left_usd >= 0

    asyncio.run(run())
