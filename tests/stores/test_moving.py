"""A store is copied whole, both ways, or not at all; the old one is only read."""

import asyncio
import sqlite3

import pytest

from peerage.errors import PeerageError
from peerage.stores import AccessToken, Action, Import, StoreError, move, open_store
from peerage.stores.schema import TABLES
from peerage.types import Event

N = 30


def events_of(i):
    body = {
        "query": {"text": f"q{i} é\0", "id": "", "category": ""},
        "seed": "7",
        "ordinal": i,
        "season": "z",
        "seats": [],
        "law": {"rubric": None, "order": "balanced"},
    }
    yield Event(f"s{i}", 0, "opened", i / 7, body)
    yield Event(f"s{i}", 1, "x", i / 3, {"text": "\0 é \U0001f600", "n": 0.1 + i})
    if i % 3:
        yield Event(f"s{i}", 2, "finished", 9.0, {"status": "done", "cost_usd": None})


async def fill(url):
    store = open_store(url)
    for i in range(N):
        lease = await store.claim(f"s{i}", "serve")
        await asyncio.gather(*(lease.append(event) for event in events_of(i)))
        await store.release(lease)
    store.season_seed("z", "11")
    store.add_import(Import("reviews", "ab", "file.csv", 3, 1.5), [b"\0\1", b"\xff" * 1_000])
    store.add_token(AccessToken("t", "Ada", ("read",), "00", 1.5, None, 3.0))
    await store.add_action(Action(1.0, "Ada", "did", "this"))
    await store.close()


def contents(store):
    return (
        store.sessions(),
        [store.events(f"s{i}") for i in range(N)],
        [(one, list(store.import_parts(one.id))) for one in store.imports()],
        store.abandoned_sessions("serve"),
        store.season_seed("z", "12"),
        store.reviewed_after(0, N),
        store.tokens(),
        store.actions(9),
    )


def other_url(store_url, request, tmp_path):
    if store_url.startswith("sqlite"):
        return request.getfixturevalue("postgres_server").new_database()
    return f"sqlite:///{tmp_path / 'other.db'}"


@pytest.mark.needs("postgres")
def test_a_store_is_the_same_after_a_move_there_and_goes_on_from_it(store_url, request, tmp_path):
    asyncio.run(fill(store_url))
    target = other_url(store_url, request, tmp_path)
    moved = move(open_store(store_url), open_store(target))
    assert (moved["sessions"], moved["seasons"], moved["imports"]) == (N, 1, 1)
    assert contents(open_store(target)) == contents(open_store(store_url))

    async def go_on():
        store = open_store(target)
        lease = await store.claim("s0", "serve")
        assert lease.epoch > 1
        await lease.append(Event("s0", 2, "x", 0.0, {}))
        store.add_import(Import("reviews", "cd", "file.csv", 3, 1.5), [b"x"])
        await store.close()

    asyncio.run(go_on())


@pytest.mark.needs("postgres")
def test_a_store_that_is_not_empty_or_in_use_is_not_moved(store_url, request, tmp_path):
    target = other_url(store_url, request, tmp_path)
    open_store(target).season_seed("theirs", "1")
    with pytest.raises(StoreError, match="not empty"):
        move(open_store(store_url), open_store(target))

    async def hold():
        store = open_store(store_url)
        lease = await store.claim("s", "ask")
        empty = f"sqlite:///{tmp_path / 'empty.db'}"
        with pytest.raises(StoreError, match="running"):
            await asyncio.to_thread(move, open_store(store_url), open_store(empty))
        await store.release(lease)
        await store.close()

    asyncio.run(hold())


def test_a_move_that_is_cut_off_leaves_the_new_store_empty(store_url, tmp_path):
    asyncio.run(fill(store_url))
    target = f"sqlite:///{tmp_path / 'new.db'}"
    for last in ("copying events", "copying leases", "comparing"):

        def cut(step, last=last):
            if step == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            move(open_store(store_url), open_store(target), cut)
        assert open_store(target).sessions() == []
    assert move(open_store(store_url), open_store(target))["sessions"] == N


def test_a_write_during_a_move_stops_the_move(store_url, tmp_path):
    asyncio.run(fill(store_url))
    target = f"sqlite:///{tmp_path / 'new.db'}"

    def write(step):
        if step == "comparing":
            open_store(store_url).append_all([Event("late", 0, "x", 0.0, {})])

    with pytest.raises(PeerageError, match="changed during the copy"):
        move(open_store(store_url), open_store(target), write)
    assert open_store(target).sessions() == []


def test_every_table_of_a_store_is_moved(tmp_path):
    open_store(f"sqlite:///{tmp_path / 'p.db'}")
    db = sqlite3.connect(tmp_path / "p.db")
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    db.close()
    assert {table for table in tables if not table.startswith("sqlite_")} == set(TABLES)
