"""The service: sessions as tasks, a bounded queue, watchers, cancellation and shutdown."""

import asyncio
from dataclasses import replace

import pytest

from peerage import config
from peerage.errors import NotFoundError, UsageError
from peerage.events import NOT_STORED, stored_event
from peerage.panel import Council
from peerage.reports.session_options import SessionOptions
from peerage.service import BusyError, Service, asking_token
from peerage.session_config import opening
from peerage.session_requests import SessionRequest
from peerage.tokens import make_token
from peerage.types import Seat
from peerage.view import fold


@pytest.fixture
def service(tmp_path):
    """Makes a service over a store in a folder of its own."""

    def make(latency_ms=0, **limits):
        options = {"latency_ms": latency_ms}
        seats = [Seat(name, provider="simulated", options=options) for name in "abc"]
        council = Council(store=f"sqlite:///{tmp_path}/s.db", seats=seats, seed=1)
        return Service(council, **limits)

    return make


def go(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def watched(service, id_, after=NOT_STORED):
    return [event async for events in service.watch(id_, after) for event in events]


def stored(events):
    return [event for event in events if event.seq != NOT_STORED]


def test_every_watcher_sees_the_whole_session_also_when_it_is_over(service):
    async def run():
        one = service()
        id_ = await one.start(SessionRequest(query="Why?"))
        first, second = await asyncio.gather(watched(one, id_), watched(one, id_))
        late = await watched(one, id_)
        await one.close()
        return first, second, late

    first, second, late = go(run())
    assert first == second
    assert stored(first) == late
    assert {"asked", "piece"} <= {event.kind for event in first}
    assert fold(late).status == "done"


def test_a_watcher_that_comes_back_sees_what_it_missed_and_nothing_twice(service):
    async def run():
        one = service(latency_ms=20)
        id_ = await one.start(SessionRequest(query="Why?"))
        seen = []
        async for events in one.watch(id_):
            seen += events
            if any(event.kind == "answered" for event in events):
                break
        seen += await watched(one, id_, after=max(event.seq for event in seen))
        await one.close()
        return [event.seq for event in stored(seen)]

    places = go(run())
    assert places == list(range(len(places)))


def test_a_full_queue_refuses_and_says_when_to_come_back(service):
    async def run():
        one = service(latency_ms=50, max_running=1, max_queued=1)
        first = await one.start(SessionRequest(query="One?"))
        second = await one.start(SessionRequest(query="Two?"))
        assert (one.n_running, one.n_queued) == (1, 1)
        with pytest.raises(BusyError) as refused:
            await one.start(SessionRequest(query="Three?"))
        ends = [(await watched(one, id_))[-1].kind for id_ in (first, second)]
        await one.close()
        return refused.value.retry_after_s, ends

    retry_after_s, ends = go(run())
    assert retry_after_s >= 1
    assert ends == ["finished", "finished"]


def test_a_session_that_waits_for_its_turn_tells_at_once_who_is_asked(service):
    async def run():
        one = service(latency_ms=60_000, max_running=1)
        await one.start(SessionRequest(query="One?"))
        waiting = await one.start(SessionRequest(query="Two?"))
        first, *_ = await anext(one.watch(waiting))
        assert (one.n_running, one.n_queued) == (1, 1)
        await one.close(grace_s=0)
        return first

    assert go(run()).kind == "opened"


def test_a_cancelled_session_says_so_in_its_log_and_leaves_no_task(service):
    async def run():
        before = asyncio.all_tasks()
        one = service(latency_ms=60_000)
        id_ = await one.start(SessionRequest(query="Why?"))
        following = asyncio.create_task(watched(one, id_))
        await asyncio.sleep(0)
        assert await one.cancel(id_)
        events = await following
        assert not await one.cancel(id_)
        left = asyncio.all_tasks() - before
        await one.close()
        return fold(stored(events)), left

    session, left = go(run())
    assert session.status == "cancelled"
    assert not left


def test_a_session_cut_off_by_a_shutdown_goes_on_at_the_next_start(service):
    async def run():
        one = service(latency_ms=60_000)
        id_ = await one.start(SessionRequest(query="Why?"))
        await one.close(grace_s=0)
        other = service()
        await other.resume()
        events = await watched(other, id_)
        await other.close()
        return events

    events = stored(go(run()))
    assert [event.seq for event in events] == list(range(len(events)))
    assert fold(events).status == "done"


def test_a_shutdown_waits_for_sessions_that_end_in_time(service):
    async def run():
        one = service(latency_ms=20)
        id_ = await one.start(SessionRequest(query="Why?"))
        await one.close()
        with pytest.raises(BusyError):
            await one.start(SessionRequest(query="Why?"))
        other = service()
        events = await watched(other, id_)
        await other.close()
        return events

    assert go(run())[-1].kind == "finished"


def test_a_session_that_is_not_there_cannot_be_watched(service):
    async def run():
        one = service()
        with pytest.raises(NotFoundError):
            await watched(one, "nobody")
        await one.close()

    go(run())


# -- several servers on one store --------------------------------------------------------------


@pytest.fixture
def elsewhere(store_url):
    """Makes services of several processes, as it were, on one store of each kind."""

    def make(latency_ms=0):
        options = {"latency_ms": latency_ms}
        seats = [Seat(name, provider="simulated", options=options) for name in "abc"]
        settings = config.with_flags(config.Settings(), {"lease_s": 0.4, "store": store_url})
        return Service(Council(settings, seats=seats, seed=1))

    return make


def test_a_session_is_followed_to_its_end_from_another_server(elsewhere):
    async def run():
        one, two = elsewhere(latency_ms=30), elsewhere()
        id_ = await one.start(SessionRequest(query="Why?"))
        there, here = await asyncio.gather(watched(two, id_), watched(one, id_))
        again = await watched(two, id_, after=there[3].seq)
        await one.close()
        await two.close()
        return there, stored(here), again

    there, here, again = go(run())
    assert there == here
    assert again == here[4:]


@pytest.mark.slow
def test_a_session_of_a_server_that_fell_silent_is_taken_over_and_its_late_writes_refused(
    elsewhere,
):
    async def run():
        silent, heir = elsewhere(latency_ms=2_000), elsewhere()
        id_ = await silent.start(SessionRequest(query="Why?"))
        silent.store._writer.let_go(silent._hosted[id_].lease)  # as if it had been stopped
        await heir.resume()
        events = await watched(heir, id_)
        late = stored(await watched(silent, id_))
        await silent.close()
        await heir.close()
        return events, late, heir.n_takeovers

    events, late, n_takeovers = go(run())
    assert n_takeovers == 1
    assert fold(stored(events)).status == "done"
    assert [event.seq for event in late] == list(range(len(late)))
    assert late == stored(events)


# -- the money of tokens -----------------------------------------------------------------------


@pytest.fixture
def paid_service(tmp_path):
    """Makes a service whose seats cost money, and a token with a budget that asks it."""

    def make(latency_ms=0, **token_options):
        options = {"latency_ms": latency_ms}
        seats = [
            Seat(name, provider="simulated", options=options, price_in=10.0, price_out=100.0)
            for name in "abc"
        ]
        council = Council(store=f"sqlite:///{tmp_path}/s.db", seats=seats, seed=1)
        one = Service(council)
        _, token = make_token("Ada", ["run"], 0.0, **token_options)
        one.store.add_token(token)
        asking_token.set(token)
        return one

    return make


def n_calls_out(service):
    caller = service.council.caller
    return sum(caller.channel(seat).limiter.in_flight for seat in service.settings.seats)


def spent_usd(service):
    (token,) = service.store.tokens()
    return token.spent_usd


def test_a_cancelled_session_spends_what_the_calls_that_were_out_may_cost(paid_service):
    async def run():
        one = paid_service(latency_ms=60_000, budget_usd=100.0)
        spent = []
        for _ in range(2):
            id_ = await one.start(SessionRequest(query="Why?", budget_usd=40.0))
            async for events in one.watch(id_):
                if sum(event.kind == "asked" for event in events) == 3:
                    break
            while n_calls_out(one) < 3:  # noqa: ASYNC110 - it has no event for tests
                await asyncio.sleep(0)
            assert await one.cancel(id_)
            spent.append(spent_usd(one))
        await one.close()
        return spent

    first, second = go(run())
    assert 0 < first < 40
    assert second == pytest.approx(2 * first)


def test_a_session_without_a_budget_holds_an_estimate_and_not_all_that_is_left(paid_service):
    async def run():
        one = paid_service(latency_ms=60_000, budget_usd=100.0)
        first = await one.start(SessionRequest(query="Why?"))
        held = spent_usd(one)
        second = await one.start(SessionRequest(query="Why not?"))
        for id_ in (first, second):
            await one.cancel(id_)
        await one.close()
        return held

    assert 0 < go(run()) < 50


def test_the_estimate_that_a_session_holds_is_enough_for_it(paid_service):
    async def run():
        one = paid_service(budget_usd=100.0)
        id_ = await one.start(SessionRequest(query="Why?", rubric="general"))
        async for _ in one.watch(id_):
            pass
        status, spent = one.reports.session(id_).session.status, spent_usd(one)
        await one.close()
        return status, spent

    status, spent = go(run())
    assert status == "done"
    assert 0 < spent < 5


def test_a_session_that_was_cancelled_before_its_turn_costs_nothing(paid_service):
    async def run():
        one = paid_service(latency_ms=60_000, budget_usd=100.0)
        one._turn = asyncio.Semaphore(0)
        id_ = await one.start(SessionRequest(query="Why?", budget_usd=40.0))
        held = spent_usd(one)
        assert await one.cancel(id_)
        left = spent_usd(one)
        await one.close()
        return held, left

    assert go(run()) == (40.0, 0.0)


@pytest.mark.parametrize("n_steps", range(0, 12, 2))
def test_a_start_that_is_cancelled_gives_the_money_back_and_leaves_no_session_running(
    paid_service, n_steps
):
    async def run():
        one = paid_service(latency_ms=60_000, budget_usd=100.0)
        starting = asyncio.create_task(one.start(SessionRequest(query="Why?", budget_usd=40.0)))
        for _ in range(n_steps):
            await asyncio.sleep(0.001)
        starting.cancel()
        await asyncio.wait([starting])
        hosted = {} if starting.cancelled() else dict(one._hosted)
        for id_ in hosted:
            await one.cancel(id_)
        unfinished = one.store.abandoned_sessions("serve")
        spent = spent_usd(one)
        n_left = len(one._hosted)
        await one.close(grace_s=0)
        return spent, n_left, unfinished

    spent, n_left, unfinished = go(run())
    assert (n_left, list(unfinished)) == (0, [])
    assert spent < 40.0


@pytest.mark.parametrize("budget_usd", [1e308, 1e10, -1.0])
def test_a_budget_has_the_bounds_of_the_configuration(service, budget_usd):
    with pytest.raises(UsageError):
        SessionRequest(query="Why?", budget_usd=budget_usd)

    async def ask():
        one = service()
        with pytest.raises(UsageError):
            await one.council.ask("Why?", budget_usd=budget_usd)
        assert one.store.sessions() == []
        await one.close()

    go(ask())


def test_a_session_that_was_stored_with_an_endless_budget_goes_on(service):
    async def run():
        one = service()
        spec, session_config = one.council._new_session("Why?", SessionOptions(budget_usd=1e6), "")
        opened = opening(replace(spec, budget_usd=1e308), session_config)
        one.store.append_all([stored_event(spec.id, 0, 0.0, opened)])
        events = [event async for event in one.council.run(resume=spec.id)]
        await one.close()
        return events

    assert fold(go(run())).status == "done"
