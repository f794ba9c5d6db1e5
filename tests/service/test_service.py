"""The service: sessions as tasks, a bounded queue, watchers, cancellation and shutdown."""

import asyncio

import pytest

from peerage import config
from peerage.council.fold import fold
from peerage.errors import NotFoundError
from peerage.events import NOT_STORED
from peerage.panel import Council
from peerage.service import BusyError, Service, SessionRequest
from peerage.types import Seat


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
        settings = config.changed(config.Settings(), {"lease_s": 0.4, "store": store_url})
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
