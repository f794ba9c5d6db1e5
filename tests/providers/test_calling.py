"""Calls: waits, retries, costs and failures of one call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar, get_args

import pytest

from peerage.errors import ConfigError
from peerage.providers import (
    MAX_REPLY_BYTES,
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    providers,
)
from peerage.providers.calling import Caller
from peerage.providers.pacing import MAX_FAILURES_AT_FIRST, RETRIES, RetryPolicy
from peerage.types import Failure, Query, Seat, Usage
from tests.shared.waiting import wait_until

T = TypeVar("T")
AskFor = Callable[..., Call]


@providers.register("scripted")
class Scripted(Provider):
    """A provider that does what its seat's options say, call by call; the last word stays."""

    streams = True

    def __init__(self, seat: Seat) -> None:
        self.script: list[Any] = list(seat.options["script"])
        self.calls: list[Call] = seat.options["calls"]
        self.closed: list[str] = seat.options["closed"]

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        if on_text is not None:
            on_text("a piece")
        self.calls.append(call)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        if step == "hang":
            await asyncio.Event().wait()
        if step in get_args(Kind):
            raise CallError(step, f"told to be {step}")
        if on_text is not None:
            on_text(" and the rest")
        return step if isinstance(step, Reply) else Reply(str(step), Usage(100, 10))

    async def aclose(self) -> None:
        self.closed.append("closed")


@providers.register("scripted-free")
class ScriptedFree(Scripted):
    is_free = True


@providers.register("scripted-whole")
class ScriptedWhole(Scripted):
    streams = False

    async def complete(self, call: Call, _: OnText | None = None) -> Reply:
        return await super().complete(call, None)


@providers.register("scripted-raw")
class ScriptedRaw(Scripted):
    async def complete(self, call: Call, _: OnText | None = None) -> Reply:
        self.calls.append(call)
        given: Reply = self.script[0]
        return given


@providers.register("scripted-shared")
class ScriptedShared(Scripted):
    """One endpoint for all its seats; the script is that of whichever seat calls."""

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        self.script = call.seat.options["script"] = list(call.seat.options["script"])
        return await super().complete(call, on_text)

    @classmethod
    def endpoint(cls, seat: Seat) -> str:
        return seat.provider


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def seat(*script: object, **about: Any) -> Seat:
    options = {"script": script, "calls": [], "closed": []}
    return Seat(**{"name": "s", "provider": "scripted", "options": options, **about})


def call_of(seat: Seat, **about: Any) -> Call:
    return Call(
        seat, **{"stage": "answer", "prompt": "?", "key": "k", "query": Query("?"), **about}
    )


def calls_of(seat: Seat) -> list[Call]:
    return list(seat.options["calls"])


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time can be moved on, so that a limit is over at once."""

    hurried_s = 0.0

    def time(self) -> float:
        return super().time() + self.hurried_s


def run_hurried(work: Callable[[HurriedLoop], Coroutine[Any, Any, T]]) -> T:
    """As `run`, for work that moves the time of its loop."""
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, HurriedLoop)
        return runner.run(watched(work(loop)))


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of some work that has left no task behind."""
    return asyncio.run(watched(work))


async def watched(work: Coroutine[Any, Any, T]) -> T:
    result = await work
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return result


def once(call: Call, **about: Any) -> Reply | Failure:
    async def go() -> Reply | Failure:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep, **about) as caller:
            return await caller.call(call)

    return run(go())


# -- replies and failures ----------------------------------------------------------------------


def test_a_reply_comes_with_its_cost_and_how_long_it_took() -> None:
    reply = once(call_of(seat("yes", price_in=3.0, price_out=15.0)))
    assert reply == Reply("yes", Usage(100, 10, 0.00045), latency_ms=0.0)


def test_a_cost_that_was_reported_stands_against_any_price() -> None:
    reported = Reply("yes", Usage(100, 10, 0.5))
    reply = once(call_of(seat(reported, price_in=3.0, price_out=15.0)))
    assert reply.usage == Usage(100, 10, 0.5)


@pytest.mark.parametrize("reported", [0.0001, 0.5])
@pytest.mark.parametrize("price", [0.0, 3.0])
def test_the_higher_of_a_reported_cost_and_the_seats_own_price_counts(
    reported: float, price: float
) -> None:
    reply = once(
        call_of(seat(Reply("yes", Usage(100, 10, reported)), price_in=price, price_out=price))
    )
    assert reply.usage is not None
    assert reply.usage.cost_usd == pytest.approx(max(reported, price * 110 / 1e6))


@pytest.mark.parametrize("priced", [{}, {"price_in": 1.0, "price_out": 1.0}])
@pytest.mark.parametrize("cost", [1e300, -1.0, float("nan"), float("inf"), True, "0.5"])
def test_a_usage_that_cannot_be_true_leaves_a_call_unpriced(cost: Any, priced: Any) -> None:
    for usage in (Usage(1, 1, cost), Usage(10**400, 1, 0.5), Usage(-1, 1, 0.5)):
        reply = once(call_of(seat(Reply("yes", usage), **priced)))
        assert isinstance(reply, Reply)
        assert reply.usage == Usage()


@pytest.mark.parametrize("cost", [1e300, float("nan"), -5.0])
def test_impossible_usage_costs_exactly_the_reserved_amount(cost: float) -> None:
    dear = seat(Reply("yes", Usage(1, 1, cost)), price_in=1.0, price_out=1.0)

    async def go() -> list[float | None]:
        left = []
        async with Caller([dear], budget_usd=1.0) as caller:
            for _ in range(3):
                left.append(caller.budget.left_usd)
                await caller.call(call_of(dear))
        return left

    first, second, third = run(go())
    assert first == 1.0
    assert second is not None
    assert third is not None
    assert 1.0 - second == pytest.approx(second - third)
    assert second < 1.0


@pytest.mark.parametrize("reply", [Reply(None), Reply(b"yes"), Reply("yes", None), None, "text"])  # type: ignore[arg-type]
def test_a_provider_that_gives_something_else_than_a_reply_fails_that_call(reply: Any) -> None:
    outcome = once(call_of(seat(reply, provider="scripted-raw")))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "provider"


@pytest.mark.parametrize("place", ["text", "reasoning"])
def test_no_provider_gets_a_reply_without_end_through(place: str) -> None:
    endless = Reply(**{"text": "yes", place: "x" * (MAX_REPLY_BYTES + 1)})
    outcome = once(call_of(seat(endless)))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "too_long"


def test_a_seat_that_its_provider_could_never_serve_is_refused_before_any_call() -> None:
    with pytest.raises(ConfigError, match="no option 'charm'"):
        Caller([seat(name="a"), Seat("b", provider="simulated", options={"charm": 1.0})])


def test_a_provider_needs_only_one_method() -> None:
    class Plain(Provider):
        async def complete(self, call: Call, _: OnText | None = None) -> Reply:
            return Reply(call.prompt)

    made = Plain(Seat("a"))
    assert not made.can_constrain(Seat("a"))
    assert Plain.endpoint(Seat("a")) != Plain.endpoint(Seat("a"))
    assert (made.streams, made.is_free, made.max_concurrency) == (False, False, None)
    assert Plain.check(Seat("a")) is None  # type: ignore[func-returns-value]
    asyncio.run(made.aclose())


def test_a_cost_without_a_price_is_unknown() -> None:
    reply = once(call_of(seat("yes")))
    assert reply.usage == Usage(100, 10, None)


def test_a_free_provider_costs_nothing() -> None:
    reply = once(call_of(seat("yes", provider="scripted-free")))
    assert reply.usage == Usage(100, 10, 0.0)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_failure_is_tried_again_only_where_that_may_help(kind: Kind) -> None:
    failing = seat(kind)
    failure = once(call_of(failing))
    assert isinstance(failure, Failure)
    told = "refused" if kind == "empty" else kind  # who says nothing again and again declines
    assert (failure.seat, failure.kind, failure.stage) == ("s", told, "answer")
    assert f"told to be {kind}" in failure.message
    assert len(calls_of(failing)) == RETRIES.get(kind, 0) + 1


def test_a_second_try_that_goes_well_is_a_reply() -> None:
    failing = seat("server_error", "empty", "yes")
    reply = once(call_of(failing))
    assert isinstance(reply, Reply)
    assert reply.text == "yes"
    assert [call.attempt for call in calls_of(failing)] == [0, 1, 2]


def test_any_exception_of_a_provider_is_a_failure_of_that_call() -> None:
    failure = once(call_of(seat(ZeroDivisionError("division by zero"))))
    assert isinstance(failure, Failure)
    assert failure.kind == "provider"
    assert failure.message == "ZeroDivisionError: division by zero"


def test_a_key_in_an_exception_of_a_provider_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    failing = seat(ValueError("bad header: Bearer sk-secret\nand more"), api_key_env="SOME_KEY")
    failure = once(call_of(failing))
    assert isinstance(failure, Failure)
    assert failure.message == "ValueError: bad header: Bearer [key] and more"


# -- waiting -----------------------------------------------------------------------------------


def slept(*script: object, key: str = "k", **about: Any) -> list[float]:
    async def go() -> list[float]:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            await caller.call(call_of(seat(*script, **about), key=key))
        return time.slept

    return run(go())


def test_waits_double_with_jitter_up_to_the_longest() -> None:
    waits = slept("rate_limited")
    assert len(waits) == RETRIES["rate_limited"]
    for n, wait in enumerate(waits):
        full = min(30.0, 0.5 * 2**n)
        assert full / 2 <= wait <= full


def test_jitter_follows_from_the_key_of_the_call() -> None:
    assert slept("rate_limited") == slept("rate_limited")
    assert slept("rate_limited") != slept("rate_limited", key="another")


def test_a_pause_that_is_asked_for_is_kept() -> None:
    (wait,) = slept(CallError("rate_limited", "busy", retry_after_s=20.0), "yes")
    assert 20.0 <= wait <= 25.0


def test_an_endpoint_that_asks_for_too_much_is_not_waited_for() -> None:
    assert slept(CallError("rate_limited", "busy", retry_after_s=3600.0), "yes") == []


@pytest.mark.parametrize(
    ("of_endpoint", "model", "waits"),
    [(False, "another", False), (False, "one", True), (True, "another", True)],
)
def test_a_pause_holds_for_its_model_and_for_others_only_where_the_server_says_so(
    of_endpoint: bool, model: str, waits: bool
) -> None:
    error = CallError("rate_limited", "busy", retry_after_s=20.0, of_endpoint=of_endpoint)
    busy = seat(error, "yes", name="busy", model="one", provider="scripted-shared")
    other = seat("yes", name="other", model=model, provider="scripted-shared")

    async def go() -> list[float]:
        time = Time()
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 1:  # the busy seat waits; meanwhile the other one calls
                await caller.call(call_of(other))
            time.now += seconds

        async with Caller(clock=time.clock, sleep=sleep) as caller:
            await caller.call(call_of(busy))
        return slept

    own, *others = run(go())
    assert own >= 20.0
    assert others[:1] == ([20.0] if waits else [])


@pytest.mark.parametrize("kind", sorted(RETRIES))
@pytest.mark.parametrize("timeout_s", [0.1, 1.0, 8.0, 60.0])
def test_the_tries_of_a_call_stay_within_the_seats_time_with_their_pauses(
    kind: Kind, timeout_s: float
) -> None:
    waits = slept(kind, timeout_s=timeout_s)
    assert sum(waits) < timeout_s
    assert len(waits) <= RETRIES[kind]


@pytest.mark.parametrize("asked_s", [0.0, 1.0, 7.5, 7.999, 8.0, 60.0, 1e12])
def test_a_pause_is_waited_for_only_where_it_fits_into_the_time_that_is_left(
    asked_s: float,
) -> None:
    waits = slept(CallError("rate_limited", "busy", retry_after_s=asked_s), "yes", timeout_s=8.0)
    assert len(waits) == (asked_s < 8.0)
    assert all(asked_s <= wait_s < 8.0 for wait_s in waits)


def test_a_quota_that_is_used_up_is_not_asked_again(ask_for: AskFor) -> None:
    failure = once(ask_for("do=429,ok&code=insufficient_quota"))
    assert isinstance(failure, Failure)
    assert failure.kind == "rate_limited"


def test_a_call_without_retries_does_not_wait_for_a_pause() -> None:
    busy = seat(CallError("rate_limited", "busy", retry_after_s=20.0, status=429), "yes")

    async def go() -> list[Reply | Failure]:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            calls = [call_of(busy, may_retry=False)] * 2
            replies = [await caller.call(call) for call in calls]
            assert time.slept == []
            return replies

    _, second = run(go())
    assert isinstance(second, Failure)
    assert re.fullmatch(r"429: .*\b20 s\b.*", second.message)
    assert len(calls_of(busy)) == 1


# -- limits of time ----------------------------------------------------------------------------


def test_a_model_that_hangs_is_given_up_after_the_seats_limit() -> None:
    hanging = seat("hang", timeout_s=0.02)
    failure = once(call_of(hanging))
    assert isinstance(failure, Failure)
    assert failure.kind == "timeout"
    assert "0.02 s" in failure.message
    assert len(calls_of(hanging)) == 1  # which took all the time there was
    assert failure.usage is not None
    assert failure.usage.cost_usd is None  # it may have been charged for


def test_waiting_in_line_does_not_count_against_the_seats_limit() -> None:
    narrow = seat("yes", max_concurrency=1, timeout_s=60.0)

    async def go(loop: HurriedLoop) -> Reply | Failure:
        async with Caller(clock=loop.time) as caller:
            channel = caller.channel(narrow)
            await channel.limiter.acquire()
            in_line = asyncio.create_task(caller.call(call_of(narrow)))
            await asyncio.sleep(0.01)
            assert not calls_of(narrow)
            loop.hurried_s += 2 * narrow.timeout_s
            await asyncio.sleep(0.01)
            channel.limiter.release()
            return await in_line

    assert isinstance(run_hurried(go), Reply)


def test_a_call_that_is_called_off_leaves_nothing_behind() -> None:
    hanging = seat("hang", max_concurrency=1, price_in=1.0, price_out=1.0)

    async def go() -> tuple[int, int]:
        async with Caller([hanging], budget_usd=1.0) as caller:
            left = caller.budget.left_usd
            under_way = asyncio.create_task(caller.call(call_of(hanging)))
            in_line = asyncio.create_task(caller.call(call_of(hanging)))
            await asyncio.to_thread(wait_until, lambda: calls_of(hanging))
            for task in (in_line, under_way):
                task.cancel()
            await asyncio.gather(in_line, under_way, return_exceptions=True)
            channel = caller.channel(hanging)
            assert left is not None
            assert caller.budget.left_usd is not None
            assert caller.budget.left_usd < left
            return channel.limiter.in_flight, channel.model.limiter.in_flight

    assert run(go()) == (0, 0)


# -- streams -----------------------------------------------------------------------------------


def streamed(*script: object, **about: Any) -> tuple[list[str], Reply | Failure]:
    heard: list[str] = []

    async def go() -> Reply | Failure:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            return await caller.call(call_of(seat(*script, **about)), heard.append)

    reply = run(go())
    return heard, reply


def test_text_is_told_as_it_comes() -> None:
    heard, reply = streamed("yes")
    assert heard == ["a piece", " and the rest"]
    assert isinstance(reply, Reply)
    assert reply.text == "yes"


def test_only_the_first_text_is_told() -> None:
    heard, _ = streamed("server_error", "yes")
    assert heard == ["a piece"]


def test_a_provider_without_streaming_passes_on_its_whole_text() -> None:
    heard, reply = streamed("yes", provider="scripted-whole")
    assert isinstance(reply, Reply)
    assert heard == [reply.text]


# -- endpoints ---------------------------------------------------------------------------------


def test_seats_of_one_model_share_connections_and_a_window(ask_for: AskFor) -> None:
    a, b = ask_for(name="a", max_concurrency=3), ask_for(name="b", max_concurrency=5)

    async def go() -> tuple[bool, int]:
        async with Caller() as caller:
            assert all(
                isinstance(reply, Reply)
                for reply in await asyncio.gather(caller.call(a), caller.call(b))
            )
            same = caller.channel(a.seat).provider is caller.channel(b.seat).provider
            return same, caller.channel(a.seat).model.limiter.window

    assert run(go()) == (True, 8)


def test_a_provider_that_does_not_say_how_to_share_is_a_seats_own() -> None:
    a, b = seat("yes", name="a"), seat("yes", name="b")

    async def go() -> bool:
        async with Caller() as caller:
            await caller.call(call_of(a))
            await caller.call(call_of(b))
            return caller.channel(a).provider is caller.channel(b).provider

    assert run(go()) is False
    assert a.options["closed"] == b.options["closed"] == ["closed"]


def test_a_seat_has_no_more_calls_under_way_than_it_allows(ask_for: AskFor) -> None:
    few = ask_for("latency_ms=5", name="few", max_concurrency=2)
    many = ask_for("latency_ms=5", name="many", max_concurrency=8)

    async def go() -> int:
        most = 0
        async with Caller() as caller:

            async def watched(call: Call) -> None:
                nonlocal most
                await caller.call(call)
                most = max(most, caller.channel(few.seat).limiter.in_flight)

            await asyncio.gather(*(watched(call) for call in [few, many] * 20))
        return most

    assert run(go()) <= 2


def test_a_model_that_is_overloaded_gets_fewer_calls_at_once() -> None:
    failing = seat(*["rate_limited"] * 3, "yes", max_concurrency=16)

    async def go() -> int:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            await caller.call(call_of(failing))
            return caller.channel(failing).model.limiter.window

    assert run(go()) == 5


# -- money -------------------------------------------------------------------------------------


def test_a_seat_without_a_price_is_refused_under_a_budget_before_the_first_call() -> None:
    with pytest.raises(ConfigError, match="price of dear is unknown") as refused:
        Caller([seat("yes", name="dear"), seat("yes", price_in=1.0, price_out=1.0)], budget_usd=1.0)
    assert "dear" in refused.value.message
    assert "price_in" in refused.value.hint


def test_a_later_seat_without_a_price_is_not_called_under_a_budget() -> None:
    unpriced = seat("yes")
    failure = once(call_of(unpriced), budget_usd=1.0)
    assert isinstance(failure, Failure)
    assert failure.kind == "unpriced"
    assert calls_of(unpriced) == []


def test_a_free_provider_may_run_under_any_budget() -> None:
    free = seat("yes", provider="scripted-free")
    assert isinstance(once(call_of(free), seats=[free], budget_usd=0.0), Reply)


def test_a_call_that_may_cost_more_than_is_left_is_not_made() -> None:
    dear = seat("yes", price_in=1000.0, price_out=1000.0)
    failure = once(call_of(dear), budget_usd=1.0)
    assert isinstance(failure, Failure)
    assert failure.kind == "budget"
    assert failure.usage == Usage(0, 0, 0.0)
    assert calls_of(dear) == []


def test_a_budget_holds_however_many_call_at_once() -> None:
    priced = seat("yes", price_in=10.0, price_out=10.0, max_concurrency=50)
    bound = 10e-6 * (64 + 1 + 100)

    async def go() -> tuple[float, int, int]:
        async with Caller([priced], budget_usd=10 * bound) as caller:
            calls = (caller.call(call_of(priced, max_tokens=100)) for _ in range(50))
            replies = await asyncio.gather(*calls)
            spent = sum(reply.usage.cost_usd or 0.0 for reply in replies if reply.usage)
            refused = [r for r in replies if isinstance(r, Failure)]
            assert {failure.kind for failure in refused} <= {"budget"}
            return spent, len(replies) - len(refused), len(refused)

    spent, n_made, n_refused = run(go())
    assert spent <= 10 * bound
    assert n_made > 10  # what the first did not use was there for others
    assert n_refused > 0


def test_tries_that_cost_nothing_and_tries_of_unknown_cost_are_told_apart() -> None:
    prices = {"price_in": 3.0, "price_out": 15.0}
    busy = once(call_of(seat("rate_limited", "yes", **prices)))
    assert busy.usage == Usage(100, 10, 0.00045)
    lost = once(call_of(seat("truncated", "yes", **prices)))
    assert lost.usage == Usage(None, None, None)
    known = CallError("empty", "nothing", usage=Usage(100, 0))
    told = once(call_of(seat(known, "yes", **prices)))
    assert told.usage == Usage(200, 10, 0.00075)


# -- against a real server ---------------------------------------------------------------------

BEHAVIOURS: dict[str, Kind] = {
    "do=401": "unauthorized",
    "do=429": "rate_limited",
    "do=429&retry_after=1": "rate_limited",
    "do=500": "server_error",
    "do=html": "not_json",
    "do=null": "refused",
    "do=truncated": "truncated",
    "do=cut_json": "truncated",
    "do=latin1": "bad_encoding",
    "do=endless": "too_long",
    "do=reset": "connection",
    "do=hang": "timeout",
    "do=drip": "timeout",
}


@pytest.mark.parametrize("on_text", [None, lambda _: None], ids=["whole", "stream"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_each_bad_behaviour_is_one_failure_of_its_kind(
    ask_for: AskFor, behaviour: str, on_text: Callable[[str], None] | None
) -> None:
    call = ask_for(behaviour, timeout_s=0.3 if BEHAVIOURS[behaviour] == "timeout" else 60.0)

    async def go() -> Reply | Failure:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            return await caller.call(call, on_text)

    failure = run(go())
    assert isinstance(failure, Failure)
    assert failure.kind == BEHAVIOURS[behaviour]


def test_every_call_that_does_not_hang_gets_through_a_flaky_server(flaky_mock: Any) -> None:
    flaky = Seat("s", model="m", base_url=flaky_mock.base_url, timeout_s=600.0, max_concurrency=32)

    async def go(loop: HurriedLoop) -> list[Reply | Failure]:
        policy = RetryPolicy(first_s=0.01)
        async with Caller(retry_policy=policy, clock=loop.time) as caller:
            calls = [call_of(flaky, prompt=f"question {i}", key=f"k{i}") for i in range(200)]
            tasks = [asyncio.create_task(caller.call(call)) for call in calls]

            def only_the_hanging_are_left() -> bool:
                n_left = sum(not task.done() for task in tasks)
                return n_left == flaky_mock.stats()["n_by_fault"].get("hang", 0)

            await asyncio.to_thread(wait_until, only_the_hanging_are_left)
            loop.hurried_s += flaky.timeout_s
            return list(await asyncio.gather(*tasks))

    replies = run_hurried(go)
    hung = [reply for reply in replies if isinstance(reply, Failure)]
    stats = flaky_mock.stats()
    assert {failure.kind for failure in hung} == {"timeout"}
    assert len(hung) == stats["n_by_fault"]["hang"]
    assert stats["n_by_fault"]["ok"] == 200 - len(hung)
    assert set(stats["n_by_fault"]) == {"ok", "429", "500", "hang"}
    assert stats["n_answered_again"] == 0
    assert stats["max_in_flight"] <= 32


def test_a_changed_seat_of_the_same_name_is_opened_anew() -> None:
    first, second = seat("one"), seat("two")

    async def go() -> list[str]:
        async with Caller() as caller:
            replies = [await caller.call(call_of(s)) for s in (first, second, first)]
            return [reply.text for reply in replies if isinstance(reply, Reply)]

    assert run(go()) == ["one", "two", "one"]


def test_a_closed_caller_opens_its_endpoints_again() -> None:
    again = seat("yes")

    async def go() -> Reply | Failure:
        caller = Caller()
        await caller.call(call_of(again))
        await caller.close()
        reply = await caller.call(replace(call_of(again), key="k2"))
        await caller.close()
        return reply

    assert isinstance(run(go()), Reply)
    assert again.options["closed"] == ["closed", "closed"]


# -- dead and slow seats ------------------------------------------------------------------------


def test_an_endpoint_that_only_fails_is_not_called_any_more() -> None:
    dead = seat("unauthorized")

    async def go() -> list[Reply | Failure]:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            return [await caller.call(call_of(dead)) for _ in range(MAX_FAILURES_AT_FIRST + 2)]

    kinds = [reply.kind for reply in run(go()) if isinstance(reply, Failure)]
    assert kinds == ["unauthorized"] * MAX_FAILURES_AT_FIRST + ["skipped"] * 2
    assert len(calls_of(dead)) == MAX_FAILURES_AT_FIRST


def test_a_call_in_line_for_a_model_that_turns_out_dead_is_not_sent() -> None:
    dead = seat("unauthorized", max_concurrency=1)

    async def go() -> list[Reply | Failure]:
        async with Caller() as caller:
            return list(await asyncio.gather(*(caller.call(call_of(dead)) for _ in range(20))))

    kinds = [reply.kind for reply in run(go()) if isinstance(reply, Failure)]
    assert kinds == ["unauthorized"] * MAX_FAILURES_AT_FIRST + ["skipped"] * 18
    assert len(calls_of(dead)) == MAX_FAILURES_AT_FIRST


def test_a_deadline_bounds_all_tries_together() -> None:
    hanging = seat("hang", timeout_s=60.0)

    async def go() -> Reply | Failure:
        async with Caller() as caller:
            return await caller.call(call_of(hanging, deadline_s=0.1))

    failure = run(go())
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.message) == ("timeout", "no reply in 0.1 s")
    assert len(calls_of(hanging)) == 1


def test_a_call_without_retries_is_made_once() -> None:
    failing = seat("server_error")
    assert isinstance(once(call_of(failing, may_retry=False)), Failure)
    assert len(calls_of(failing)) == 1


def test_it_is_told_why_and_how_long_another_try_is_waited_for(ask_for: AskFor) -> None:
    told: list[tuple[str, float, int]] = []

    async def go() -> Reply | Failure:
        time = Time()
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            return await caller.call(
                ask_for("do=429,429,ok&retry_after=2"), None, lambda *about: told.append(about)
            )

    assert isinstance(run(go()), Reply)
    assert [(why, attempt) for why, _, attempt in told] == [("429", 2), ("429", 3)]
    assert all(2 <= wait_s < 3 for _, wait_s, _ in told)


def test_a_wait_caused_by_another_seat_has_a_reason(ask_for: AskFor) -> None:
    told: list[tuple[str, float, int]] = []

    async def go() -> Reply | Failure:
        time = Time()
        slow = ask_for("do=429,ok&retry_after=2")
        other = replace(slow, seat=replace(slow.seat, name="other"), key="other")
        async with Caller(clock=time.clock, sleep=time.sleep) as caller:
            first = asyncio.create_task(caller.call(replace(slow, may_retry=False)))
            assert isinstance(await first, Failure)
            return await caller.call(other, None, lambda *about: told.append(about))

    assert isinstance(run(go()), Reply)
    assert told == [("429", 2.0, 1)]
