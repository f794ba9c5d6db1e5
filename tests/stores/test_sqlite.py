"""The embedded store: threads that read at once, files of others, and a file that is gone."""

import asyncio
import gc
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from peerage.errors import PeerageError
from peerage.stores import StoreError, open_store
from tests.stores.bare_events import opened


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_store_with_a_relative_path_works_on_in_another_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///own.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.append_all([opened("a")])
    with store.snapshot() as read:
        assert read("SELECT session_id FROM events") is not None
    assert store.count_sessions() == 1
    assert store.mirror_folder == tmp_path / "own.db.mirror"
    assert not list((tmp_path / "elsewhere").iterdir())
    asyncio.run(store.close())


def test_a_file_that_is_not_a_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 500)
    with pytest.raises(StoreError, match="not a store"):
        open_store(f"sqlite:///{path}")


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'p.db'}"
    open_store(url)
    db = sqlite3.connect(tmp_path / "p.db")
    db.execute("PRAGMA user_version = 999")
    db.close()
    with pytest.raises(StoreError, match="version 999"):
        open_store(url)


@pytest.mark.parametrize("bad", ["peerage.db", "sqlite:///", "mysql://x"])
def test_an_invalid_store_url_is_refused_with_a_hint(bad):
    with pytest.raises(PeerageError, match=r"store|file|sqlite"):
        open_store(bad)


# -- threads -------------------------------------------------------------------------------------

READERS = """
import asyncio, sys, threading
from peerage.stores import open_store

store = open_store(sys.argv[1])
with store.transaction() as db:
    for i in range(300):
        db.execute(
            "INSERT INTO sessions (id, season, ordinal, query, category, opened_at)"
            " VALUES (?, '', 0, '', '', 0)",
            (f"s{i}",),
        )
        db.execute("INSERT INTO leases VALUES (?, 'serve x', 1, 1.0, 0.0)", (f"s{i}",))

def read():
    for _ in range(500):
        assert len(store.abandoned_sessions("serve")) == 300

threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
asyncio.run(store.close())
print("done")
"""


def test_two_threads_that_read_with_the_time_in_their_query_never_stop_each_other(tmp_path):
    """A process of its own: a deadlock takes the whole interpreter, and only a signal ends it."""
    command = [sys.executable, "-W", "error", "-c", READERS, f"sqlite:///{tmp_path / 'p.db'}"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == (b"done\n", b"")


@pytest.fixture
def store(tmp_path):
    opened = open_store(f"sqlite:///{tmp_path / 'p.db'}")
    yield opened
    asyncio.run(opened.close())


def in_threads(n, work):
    """Run work in so many threads at the same time."""
    ready = threading.Barrier(n)
    faults = []

    def run():
        ready.wait(60)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told by the test
            faults.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def n_descriptors():
    gc.collect()  # the stores of earlier tests
    return len(list(Path("/dev/fd").iterdir()))


def test_connections_of_threads_that_ended_are_closed_with_the_store(tmp_path):
    before = n_descriptors()
    store = open_store(f"sqlite:///{tmp_path / 'p.db'}")
    store.append_all([opened("s")])
    in_threads(40, lambda: store.events("s"))
    after_forty = n_descriptors()
    for _ in range(5):
        in_threads(40, lambda: store.events("s"))
    assert n_descriptors() <= after_forty + 3 * 16  # what is kept is bounded
    asyncio.run(store.close())
    assert n_descriptors() == before
    with pytest.raises(StoreError, match="closed"):
        store.events("s")


def test_threads_that_have_read_leave_no_transaction_open(store):
    """Or the write-ahead log could never be emptied, and would grow for as long as they live."""
    store.append_all([opened("s")])
    in_threads(8, lambda: (store.events("s"), store.abandoned_sessions(), store.version()))
    store.append_all([opened("t")])
    with closing(sqlite3.connect(store.path)) as db:
        (is_busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert is_busy == 0
    assert store.path.with_name("p.db-wal").stat().st_size == 0


def test_the_time_of_the_store_is_the_time_of_the_machine(store):
    before = time.time()
    ((now_s,),) = store.execute("SELECT now_s()")
    assert before - 0.01 <= now_s <= time.time() + 0.01


# -- a file that is gone -------------------------------------------------------------------------


def spoiled(store, how):
    """Take the file of an open store away, or put another in its place."""
    if how == "deleted":
        store.path.unlink()
    else:
        asyncio.run(open_store(f"sqlite:///{store.path}.new").close())
        store.path.with_name("p.db.new").replace(store.path)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_store_without_its_file_refuses_reads_and_writes(store, how):
    store.append_all([opened("s")])
    spoiled(store, how)
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.append_all([opened("t")])
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.events("s")
    with pytest.raises(StoreError, match="deleted or replaced"), store.snapshot():
        pass
    assert store.path.exists() == (how == "replaced")  # no empty one was made in its place


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_no_event_is_called_durable_that_went_to_a_file_that_is_gone(store, how):
    async def scene():
        await store.append(opened("s"))
        spoil = threading.Thread(target=spoiled, args=(store, how))
        spoil.start()
        spoil.join()
        with pytest.raises(StoreError, match="deleted or replaced"):
            await store.append(opened("t"))

    asyncio.run(scene())


def test_a_file_that_goes_in_the_middle_of_a_transaction_is_noticed_at_its_end(store):
    def work():
        with store.transaction() as db:
            db.execute("INSERT INTO seasons VALUES ('z', '7')")
            store.path.unlink()

    with pytest.raises(StoreError, match="deleted or replaced"):
        work()


def test_a_store_whose_file_is_back_goes_on(store):
    store.append_all([opened("s")])
    store.path.rename(store.path.with_name("away.db"))
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.events("s")
    store.path.with_name("away.db").rename(store.path)
    assert len(store.events("s")) == 1


def test_several_may_create_one_store_at_the_same_time(tmp_path):
    together = threading.Barrier(8)

    def create(path: Path) -> None:
        together.wait()
        asyncio.run(open_store(f"sqlite:///{path}").close())

    with ThreadPoolExecutor(8) as threads:
        for number in range(12):
            jobs = [threads.submit(create, tmp_path / f"{number}.db") for _ in range(8)]
            assert [job.exception() for job in jobs] == [None] * 8
