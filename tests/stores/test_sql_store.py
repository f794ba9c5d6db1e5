"""Every store of SQL: durable, append-only, readable meanwhile."""

import asyncio
import subprocess
import sys

import pytest

from peerage.errors import InputError
from peerage.stores import Import, StoreError, open_store
from peerage.types import Event


def opened(session_id, at=0.0, season="", ordinal=0):
    body = {
        "query": {"text": "q é", "id": "", "category": "c"},
        "seed": "7",
        "ordinal": ordinal,
        "season": season,
        "seats": [],
        "law": {"rubric": None, "order": "balanced"},
    }
    return Event(session_id, 0, "opened", at, body)


def finished(session_id, seq=1):
    return Event(session_id, seq, "finished", 9.0, {"status": "done", "cost_usd": None})


@pytest.fixture
def url(store_url):
    return store_url


def keep(url, *events):
    async def scene():
        store = open_store(url)
        await asyncio.gather(*(store.append(event) for event in events))
        await store.close()

    asyncio.run(scene())


def test_events_are_read_back_in_order(url):
    events = [opened("s"), *(Event("s", i, "x", float(i), {"n": i}) for i in range(1, 50))]
    keep(url, *events)
    assert open_store(url).events("s") == events


def test_a_session_is_listed_with_how_it_ended(url):
    keep(url, opened("s1", 1.0, "z", 0), opened("s2", 2.0, "z", 1), finished("s1"))
    store = open_store(url)
    assert [(row.id, row.status) for row in store.sessions("z")] == [("s1", "done"), ("s2", "")]
    assert [row.id for row in store.sessions(limit=1)] == ["s2"]
    assert store.find("s") == ["s1", "s2"]


def test_a_second_event_at_the_same_place_is_refused_alone(url):
    async def scene():
        store = open_store(url)
        results = await asyncio.gather(
            store.append(opened("s")),
            store.append(Event("s", 0, "again", 0.0, {})),
            store.append(opened("t")),
            return_exceptions=True,
        )
        await store.close()
        return results

    first, second, third = asyncio.run(scene())
    assert (first, third) == (None, None)
    assert isinstance(second, StoreError)
    assert [event.kind for event in open_store(url).events("s")] == ["opened"]


def test_a_season_keeps_the_seed_it_drew_first(url):
    assert open_store(url).season_seed("z", "11") == "11"
    assert open_store(url).season_seed("z", "12") == "11"


def test_a_read_sees_nothing_of_a_transaction_that_has_not_ended(url):
    store = open_store(url)
    before = store.version()

    def parts():
        yield b"x"
        assert (store.imports(), store.version()) == ([], before)
        raise InputError("the file has ended too early.")

    with pytest.raises(InputError):
        store.add_import(Import("reviews", "x", "x", 1, 0.0), parts())
    assert (store.imports(), store.version()) == ([], before)


WRITER = """
import asyncio, sys
from peerage.stores import open_store
from peerage.types import Event
async def main(url, name):
    store = open_store(url)
    for i in range(100):
        await store.append(Event(name, i, "x", 0.0, {}))
    await store.close()
asyncio.run(main(*sys.argv[1:]))
"""


def test_two_processes_write_in_turn_and_a_third_reads_meanwhile(url):
    keep(url, opened("s"))
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, name]) for name in ("one", "two")
    ]
    reader = open_store(url)
    assert reader.events("s")
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(reader.events("one")) == len(reader.events("two")) == 100


CRASH = """
import asyncio, os, sys
from peerage.stores import open_store
from peerage.types import Event
async def main(url):
    store = open_store(url)
    for i in range(20):
        await store.append(Event("s", i, "x", 0.0, {}))
    print("stored", flush=True)
    store.append(Event("s", 20, "x", 0.0, {}))
    os.kill(os.getpid(), 9)
asyncio.run(main(sys.argv[1]))
"""


def test_durable_events_survive_a_kill(url):
    done = subprocess.run([sys.executable, "-c", CRASH, url], capture_output=True, check=False)
    assert done.stdout == b"stored\n"
    assert [event.seq for event in open_store(url).events("s")][:20] == list(range(20))
