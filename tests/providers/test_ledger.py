"""Money: unknown is not zero, sums say when a part is unknown, a budget is never overshot."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.errors import BudgetError
from peerage.providers.ledger import Bill, Ledger, bill
from peerage.providers.prices import PICO, pico
from peerage.types import Usage

CENT = PICO // 100


# -- bills -------------------------------------------------------------------------------------


def test_a_sum_of_known_costs_is_exact() -> None:
    total = bill([Usage(cost_usd=0.1)] * 10)
    assert total.usd == 1.0
    assert total == Bill(10, 0, PICO)


def test_a_sum_with_an_unknown_part_is_unknown_and_says_what_is_certain() -> None:
    total = bill([Usage(cost_usd=0.25), Usage(), Usage(cost_usd=0.5)])
    assert total.usd is None
    assert total.at_least_usd == 0.75
    assert total.n_unknown == 1


def test_nothing_costs_nothing() -> None:
    assert bill([]).usd == 0.0


@given(st.lists(st.none() | st.floats(0, 100), max_size=30), st.randoms())
def test_the_order_of_a_sum_does_not_matter(
    costs: list[float | None], shuffle: random.Random
) -> None:
    usages = [Usage(cost_usd=cost) for cost in costs]
    there = bill(usages)
    shuffle.shuffle(usages)
    assert bill(usages) == there
    assert bill(usages[:7]) + bill(usages[7:]) == there


def test_accounts_are_kept_by_seat_and_by_stage() -> None:
    ledger = Ledger()
    ledger.settle(0, "a", "answer", CENT)
    ledger.settle(0, "a", "review", 2 * CENT)
    ledger.settle(0, "b", "review", None)
    assert ledger.by_seat()["a"].usd == 0.03
    assert ledger.by_seat()["b"].usd is None
    assert ledger.by_stage()["answer"].usd == 0.01
    assert ledger.by_stage()["review"] == Bill(2, 1, 2 * CENT)
    assert ledger.total() == Bill(3, 1, 3 * CENT)


# -- budgets -----------------------------------------------------------------------------------


def test_without_a_budget_nothing_is_set_aside() -> None:
    ledger = Ledger()
    assert asyncio.run(ledger.reserve(10 * PICO)) == 0
    assert ledger.left_usd is None
    assert not ledger.has_budget


def test_what_is_set_aside_comes_back_when_a_call_was_cheaper() -> None:
    async def run() -> float | None:
        ledger = Ledger(1.0)
        held = await ledger.reserve(90 * CENT)
        ledger.settle(held, "a", "answer", 5 * CENT)
        return ledger.left_usd

    assert asyncio.run(run()) == 0.95


def test_a_cost_nobody_knows_uses_up_all_that_was_set_aside() -> None:
    async def run() -> float | None:
        ledger = Ledger(1.0)
        held = await ledger.reserve(90 * CENT)
        ledger.settle(held, "a", "answer", None)
        return ledger.left_usd

    assert asyncio.run(run()) == 0.1


def test_a_call_that_can_never_fit_is_refused_at_once() -> None:
    with pytest.raises(BudgetError, match="budget") as refused:
        asyncio.run(Ledger(1.0).reserve(2 * PICO))
    assert refused.value.exit_code == 4
    assert refused.value.hint


def test_a_call_that_does_not_fit_yet_waits_for_what_others_may_leave() -> None:
    async def run() -> int:
        ledger = Ledger(1.0)
        held = await ledger.reserve(80 * CENT)
        waiting = asyncio.create_task(ledger.reserve(50 * CENT))
        await asyncio.sleep(0)
        assert not waiting.done()
        ledger.settle(held, "a", "answer", 10 * CENT)
        return await waiting

    assert asyncio.run(run()) == 50 * CENT


def test_a_call_is_refused_once_the_others_left_too_little() -> None:
    async def run() -> None:
        ledger = Ledger(1.0)
        held = await ledger.reserve(80 * CENT)
        waiting = asyncio.create_task(ledger.reserve(50 * CENT))
        behind = asyncio.create_task(ledger.reserve(20 * CENT))
        await asyncio.sleep(0)
        ledger.settle(held, "a", "answer", 80 * CENT)
        with pytest.raises(BudgetError):
            await waiting
        assert await behind == 20 * CENT

    asyncio.run(run())


@pytest.mark.parametrize("given_first", [False, True])
def test_a_wait_for_money_that_is_called_off_holds_none(given_first: bool) -> None:
    async def run() -> float | None:
        ledger = Ledger(1.0)
        held = await ledger.reserve(80 * CENT)
        waiting = asyncio.create_task(ledger.reserve(50 * CENT))
        await asyncio.sleep(0)
        if given_first:
            ledger.settle(held, "a", "answer", 0)
            waiting.cancel()
        else:
            waiting.cancel()
            await asyncio.sleep(0)
            ledger.settle(held, "a", "answer", 0)
        await asyncio.gather(waiting, return_exceptions=True)
        return ledger.left_usd

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
        ledger = Ledger(budget_cents / 100)
        spent = refused = 0

        async def one(most: int, part: float | None) -> None:
            nonlocal spent, refused
            try:
                held = await ledger.reserve(most * CENT)
            except BudgetError:
                refused += 1
                return
            await asyncio.sleep(0)
            cost = None if part is None else int(held * part)
            spent += held if cost is None else cost  # the worst that an unknown cost can be
            ledger.settle(held, "a", "answer", cost)

        await asyncio.gather(*(one(most, part) for most, part in calls))
        assert spent <= pico(budget_cents / 100)
        assert ledger.total().n_calls + refused == len(calls)

    asyncio.run(run())
