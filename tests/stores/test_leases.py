"""A session has one writer: the last process that took it; the log takes nobody else's events."""

import asyncio

import pytest

from peerage.stores import Action, SessionTakenError, open_store
from peerage.types import Event
from tests.stores.bare_events import finished, opened

SHORT_S = 2.0  # a stalled machine may take a second for one statement


def note(session_id, seq, by=0):
    return Event(session_id, seq, "x", 0.0, {"by": by})


@pytest.fixture
def url(store_url):
    return store_url


def with_two(url, scene):
    """Run a scene with two stores on one database, as two processes would have them."""

    async def both():
        one, two = open_store(url), open_store(url)
        try:
            return await scene(one, two)
        finally:
            await one.close()
            await two.close()

    return asyncio.run(both())


async def silence(store, lease):
    """What happens to a lease whose process is stopped: nobody extends it."""
    store._writer.let_go(lease)
    await asyncio.sleep(lease.length_s * 1.5)


def test_a_session_is_held_by_one_at_a_time_and_let_go(url):
    async def scene(one, two):
        lease = await one.claim("s", "a")
        assert await two.claim("s", "b") is None
        assert await one.claim("s", "a") is None
        await one.release(lease)
        assert (await two.claim("s", "b")).epoch > lease.epoch

    with_two(url, scene)


def test_a_claim_that_is_called_off_holds_nothing(url):
    async def scene(one, two):
        claiming = asyncio.create_task(one.claim("s", "a"))
        await asyncio.sleep(0)  # it is queued now, and will be done
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        await one.add_action(Action(0.0, "a", "what comes after it in the queue", ""))
        assert await two.claim("s", "b") is not None

    with_two(url, scene)


def test_a_process_that_lost_its_lease_cannot_write(url):
    async def scene(one, two):
        old = await one.claim("s", "a", SHORT_S)
        await old.append(opened("s"))
        assert two.abandoned_sessions() == []
        await silence(one, old)
        assert two.abandoned_sessions() == two.abandoned_sessions("a") == ["s"]
        assert two.abandoned_sessions("b") == []
        new = await two.claim("s", "b")
        late = [old.append(note("s", seq, 1)) for seq in (1, 2)]
        refused = await asyncio.gather(*late, return_exceptions=True)
        assert isinstance(refused[0], SessionTakenError)
        await new.append(note("s", 1, 2))
        with pytest.raises(SessionTakenError):
            await old.append(note("s", 2, 1))
        await new.append(finished("s", 2))
        assert [event.body.get("by") for event in one.events("s", after=0)] == [2, None]
        assert one.abandoned_sessions() == []

    with_two(url, scene)


def test_a_lease_that_ran_out_but_was_not_taken_still_writes(url):
    """A laptop that slept goes on with its own session."""

    async def scene(one, two):
        lease = await one.claim("s", "a", SHORT_S)
        await silence(one, lease)
        await lease.append(opened("s"))
        assert await two.claim("s", "b") is None

    with_two(url, scene)


def test_a_lease_is_extended_while_it_is_held_and_runs_out_when_it_is_dropped(url):
    async def scene(one, two):
        lease = await one.claim("s", "a", SHORT_S)
        await lease.append(opened("s"))
        await asyncio.sleep(SHORT_S * 3)
        assert await two.claim("s", "b") is None
        del lease
        await asyncio.sleep(SHORT_S * 3)
        assert await two.claim("s", "b") is not None

    with_two(url, scene)


def test_a_held_session_accepts_events_of_its_lease_only(url):
    async def scene(one, two):
        lease = await one.claim("s", "a")
        await lease.append(opened("s"))
        with pytest.raises(SessionTakenError):
            await two.append(note("s", 1))
        await one.release(lease)
        await two.append(note("s", 1))
        with pytest.raises(SessionTakenError):
            await lease.append(note("s", 2))

    with_two(url, scene)


def test_one_of_many_claims_gets_the_session(url):
    async def scene(one, two):
        claims = [store.claim(f"s{i}", "x") for i in range(20) for store in (one, two)]
        leases = await asyncio.gather(*claims)
        assert [(a is None) ^ (b is None) for a, b in zip(leases[::2], leases[1::2], strict=True)]
        assert sum(lease is not None for lease in leases) == 20

    with_two(url, scene)
