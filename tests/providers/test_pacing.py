"""Places in line: in order, never more than allowed, fewer when an endpoint strains.

An endpoint that only fails is left alone, and probed again after a while.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.providers.pacing import (
    FIRST_PAUSE_S,
    MAX_FAILURES,
    MAX_FAILURES_AT_FIRST,
    OUT_OF_REACH,
    PAUSE_PER_WAIT,
    Breaker,
    Limiter,
)


def test_no_more_are_in_flight_than_the_window_allows() -> None:
    async def run() -> int:
        limiter, most = Limiter(3), 0

        async def work() -> None:
            nonlocal most
            await limiter.acquire()
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)
            limiter.succeed()

        await asyncio.gather(*(work() for _ in range(50)))
        assert limiter.in_flight == 0
        return most

    assert asyncio.run(run()) == 3


def test_places_are_given_in_the_order_of_asking() -> None:
    async def run() -> list[int]:
        limiter, order = Limiter(1), []

        async def work(i: int) -> None:
            await limiter.acquire()
            order.append(i)
            await asyncio.sleep(0)
            limiter.release()

        await asyncio.gather(*(work(i) for i in range(10)))
        return order

    assert asyncio.run(run()) == list(range(10))


def test_strain_shrinks_the_window_and_never_closes_it() -> None:
    async def run() -> list[int]:
        limiter, windows = Limiter(16), []
        for _ in range(8):
            limiter.strain(await limiter.acquire())
            windows.append(limiter.window)
        return windows

    assert asyncio.run(run()) == [11, 7, 5, 3, 2, 1, 1, 1]


def test_a_burst_of_refusals_counts_once() -> None:
    async def run() -> int:
        limiter = Limiter(16)
        eras = [await limiter.acquire() for _ in range(16)]
        for era in eras:
            limiter.strain(era)
        return limiter.window

    assert asyncio.run(run()) == 11


def test_a_full_window_grows_by_one_for_a_window_of_good_replies() -> None:
    async def run() -> tuple[int, int]:
        limiter = Limiter(16)
        for _ in range(4):
            limiter.strain(await limiter.acquire())
        assert limiter.window == 3
        grown = []
        for _ in range(40):
            for _ in range(limiter.window):
                await limiter.acquire()
            for _ in range(limiter.in_flight):
                limiter.succeed()
            grown.append(limiter.window)
        return grown[0], grown[-1]

    first, last = asyncio.run(run())
    assert first in (3, 4)
    assert last > 8


def test_a_window_that_is_not_used_does_not_grow() -> None:
    async def run() -> int:
        limiter = Limiter(16)
        limiter.strain(await limiter.acquire())
        for _ in range(100):
            await limiter.acquire()
            limiter.succeed()
        return limiter.window

    assert asyncio.run(run()) == 11


def test_another_seat_widens_a_window_that_is_well() -> None:
    async def run() -> tuple[int, int]:
        well, strained = Limiter(4), Limiter(4)
        strained.strain(await strained.acquire())
        for limiter in (well, strained):
            limiter.widen(4)
        return well.window, strained.window

    assert asyncio.run(run()) == (8, 2)


def test_widening_lets_those_in_line_go() -> None:
    async def run() -> int:
        limiter = Limiter(1)
        await limiter.acquire()
        waiting = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        limiter.widen(1)
        await waiting
        return limiter.in_flight

    assert asyncio.run(run()) == 2


@pytest.mark.parametrize("given_first", [False, True])
def test_a_cancelled_wait_takes_no_place(given_first: bool) -> None:
    """Even when the place is given in the very moment in which the wait is called off."""

    async def run() -> tuple[int, int]:
        limiter = Limiter(1)
        await limiter.acquire()
        waiting = asyncio.create_task(limiter.acquire())
        behind = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        if given_first:
            limiter.release()
            waiting.cancel()
        else:
            waiting.cancel()
            await asyncio.sleep(0)
            limiter.release()
        await behind
        return limiter.in_flight, len(limiter._queue)

    assert asyncio.run(run()) == (1, 0)


@given(st.lists(st.sampled_from(["start", "good", "strain", "cancel"]), max_size=200))
def test_no_request_is_lost_and_the_window_stays_in_bounds(steps: list[str]) -> None:
    async def run() -> None:
        limiter = Limiter(5)
        asked: list[asyncio.Task[int]] = []
        for step in steps:
            held = [task for task in asked if task.done()]
            waiting = [task for task in asked if not task.done()]
            if step == "start":
                asked.append(asyncio.create_task(limiter.acquire()))
            elif step == "cancel" and waiting:
                waiting[-1].cancel()
                asked.remove(waiting[-1])
            elif held and step == "good":
                limiter.succeed()
                asked.remove(held[0])
            elif held and step == "strain":
                limiter.strain(held[0].result())
                asked.remove(held[0])
            for _ in range(3):
                await asyncio.sleep(0)
            n_held = sum(task.done() for task in asked)
            assert 1 <= limiter.window <= 5
            assert limiter.in_flight == n_held
            assert n_held == len(asked) or n_held >= limiter.window
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(run())


# -- the breaker ------------------------------------------------------------------------------


def broken(now: float = 0.0, *, took_s: float = 0.0) -> Breaker:
    breaker = Breaker()
    breaker.succeed()
    for _ in range(MAX_FAILURES):
        assert breaker.refusal(now) is None
        breaker.fail("timeout", "no reply", now, took_s=took_s)
    return breaker


def test_a_few_failures_in_a_row_open_it_and_the_reason_is_kept() -> None:
    assert "no reply" in str(broken().refusal(0.0))


@pytest.mark.parametrize("kind", sorted(OUT_OF_REACH))
def test_a_model_that_has_never_replied_is_left_alone_after_fewer_failures(kind: str) -> None:
    breaker = Breaker()
    for _ in range(MAX_FAILURES_AT_FIRST):
        assert breaker.refusal(0.0) is None
        breaker.fail(kind, "dead", 0.0)
    assert "dead" in str(breaker.refusal(0.0))


def test_after_a_pause_one_call_is_the_probe_and_a_success_closes_it() -> None:
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    assert breaker.refusal(FIRST_PAUSE_S) is not None
    breaker.succeed()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.fail("timeout", "once more", FIRST_PAUSE_S)
    assert breaker.refusal(FIRST_PAUSE_S) is None


def test_a_probe_that_fails_doubles_the_pause() -> None:
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.fail("connection", "refused", FIRST_PAUSE_S, probed=True)
    assert breaker.refusal(2.9 * FIRST_PAUSE_S) is not None
    assert breaker.refusal(3 * FIRST_PAUSE_S) is None


def test_a_model_that_is_slow_to_fail_is_left_alone_for_longer() -> None:
    breaker = broken(took_s=8.0)
    assert breaker.refusal(PAUSE_PER_WAIT * 8.0 - 0.1) is not None
    assert breaker.refusal(PAUSE_PER_WAIT * 8.0) is None


def test_a_call_from_before_the_pause_is_not_taken_for_the_probe() -> None:
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.fail("timeout", "from before", FIRST_PAUSE_S)
    breaker.give_up(probed=False)
    assert breaker.refusal(FIRST_PAUSE_S) is not None  # the probe is still under way


def test_a_probe_that_is_called_off_leaves_room_for_another() -> None:
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.give_up(probed=True)
    assert breaker.refusal(FIRST_PAUSE_S) is None


def test_failures_that_are_not_the_endpoints_fault_are_ignored() -> None:
    breaker = Breaker()
    for kind in ("refused", "bad_request", "budget", "out_of_tokens") * MAX_FAILURES:
        breaker.fail(kind, "", 0.0)
    assert breaker.refusal(0.0) is None


def test_a_success_in_between_begins_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(3 * MAX_FAILURES):
        breaker.fail("timeout", "", 0.0)
        breaker.succeed()
    assert breaker.refusal(0.0) is None
