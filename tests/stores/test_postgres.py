"""The store on PostgreSQL: what a server can do to it, and what it refuses in words."""

import asyncio
import subprocess
import sys
import threading

import psycopg
import pytest

from peerage.errors import PeerageError, install_command
from peerage.stores import StoreError, open_store, without_password
from peerage.stores.sqlite import SqliteStore
from peerage.types import Event
from tests.shared.postgres_server import PASSWORD, PostgresServer
from tests.stores.bare_events import finished, opened

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
def url(postgres_server):
    return postgres_server.new_database()


def note(session_id, seq):
    return Event(session_id, seq, "x", 0.0, {"n": seq})


def administrator(url):
    return psycopg.connect(url, autocommit=True, options="-c search_path=peerage")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda url: url.replace("%401@", "2@"), "refuses this user or password"),
        (lambda url: url.rpartition("/")[0] + "/nowhere", "database does not exist"),
        (lambda url: url.replace("127.0.0.1:", "127.0.0.1:x"), "not the URL"),
        (lambda _: f"postgresql://u:{PASSWORD}@127.0.0.1:1/d", "not the URL"),
        (lambda url: url.rpartition(":")[0] + ":1/d", "no server answers"),
        (lambda _: "postgresql://nobody.invalid/d?password=open/sesame", "no host"),
        (lambda url: f"{url}?{PASSWORD}=1", "not the URL"),
    ],
)
def test_a_wrong_url_is_refused_in_words_without_its_password(url, change, words):
    with pytest.raises(StoreError, match=words) as refused:
        open_store(change(url))
    assert "open" not in str(refused.value)
    assert "sesame" not in str(refused.value)
    assert refused.value.hint
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p@ss/w@h:1/d", "postgresql://u@h:1/d"),
        ("postgresql://h/d?user=u&password=p&sslmode=x", "postgresql://h/d?user=u&password=…&sslmode=x"),
        ("postgres//u:p@h/d", "postgres//u@h/d"),
        ("u:p@h", "u@h"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("postgresql:///d", "postgresql:///d"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_password(url, shown):
    assert without_password(url) == shown


def test_without_the_driver_the_hint_says_how_to_install_it(url):
    code = (
        "import sys; sys.modules['psycopg'] = None; from peerage.stores import open_store\n"
        "try: open_store('postgresql://h/d')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MissingExtraError" in done.stdout
    assert install_command("postgres") in done.stdout


def test_a_newer_store_and_the_schema_of_another_program_are_refused(url, postgres_server):
    open_store(url)
    with administrator(url) as db:
        db.execute("UPDATE meta SET version = 999")
    with pytest.raises(StoreError, match="version 999"):
        open_store(url)
    theirs = postgres_server.new_database()
    with administrator(theirs) as db:
        db.execute("CREATE SCHEMA peerage")
        db.execute("CREATE TABLE meteors (x INT)")
    with pytest.raises(StoreError, match="another program"):
        open_store(theirs)


def test_tables_of_others_in_the_same_database_are_left_alone(url):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE events (theirs INT)")
    assert open_store(url).sessions() == []


def test_many_processes_may_open_a_new_database_at_once(url):
    failures = []

    def open_it():
        try:
            open_store(url)
        except PeerageError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert open_store(url).season_seed("z", "1") == "1"


def test_a_user_without_rights_is_told_so(url):
    with administrator(url) as db:
        db.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    try:
        guest = url.replace("postgres:open%2Fsesame%401@", "guest:guest@")
        with pytest.raises(StoreError, match="lacks a permission"):
            open_store(guest)
    finally:
        with administrator(url) as db:
            db.execute("DROP ROLE guest")


def test_local_files_are_in_a_folder_of_the_database(url, postgres_server, tmp_path):
    one, same, other = (
        open_store(where, tmp_path) for where in (url, url, postgres_server.new_database())
    )
    assert one.mirror_folder == same.mirror_folder
    assert one.mirror_folder != other.mirror_folder
    assert one.mirror_folder.parent == tmp_path


@pytest.mark.slow
def test_after_a_restart_of_the_server_reads_and_appends_go_on():
    server = PostgresServer("fsync = off")

    async def scene():
        store = open_store(server.new_database())
        lease = await store.claim("s", "a")
        await lease.append(opened("s"))
        store.events("s")
        restart = asyncio.to_thread(server.control, "restart", "--mode", "immediate")
        restarting = asyncio.create_task(restart)
        for seq in range(1, 60):
            await lease.append(note("s", seq))
            await asyncio.sleep(0.01)
        await restarting
        events = await asyncio.to_thread(store.events, "s")
        assert store.season_seed("z", "1") == "1"
        await store.close()
        return events

    try:
        events = asyncio.run(asyncio.wait_for(scene(), 60))
        assert [event.seq for event in events] == list(range(60))
    finally:
        server.close()


class Cutter:
    """A wire to the server that is cut when it has committed, before its answer gets through."""

    def __init__(self, port):
        self.port, self.armed, self.n_cut = port, False, 0

    async def serve(self, reader, writer):
        theirs, ours = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self.forward(reader, ours), self.back(theirs, writer))

    async def forward(self, source, target):
        while data := await source.read(65_536):
            self.committing = self.armed and b"COMMIT" in data
            target.write(data)
        target.close()

    async def back(self, source, target):
        while data := await source.read(65_536):
            if self.committing:
                self.armed = self.committing = False
                self.n_cut += 1
                break
            target.write(data)
        target.close()


def test_an_append_whose_answer_was_lost_is_found_and_not_sent_again(url, postgres_server):
    async def scene():
        wire = Cutter(postgres_server.port)
        proxy = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        there = url.replace(f":{postgres_server.port}/", f":{port}/")
        store = await asyncio.to_thread(open_store, there)
        lease = await store.claim("s", "a")
        await lease.append(opened("s"))
        for seq in range(1, 4):
            wire.armed = True
            await lease.append(note("s", seq))
        wire.armed = True
        await store.append(opened("without a lease"))
        wire.armed = True
        assert (await store.claim("t", "a")).epoch
        await store.close()
        proxy.close()
        return wire.n_cut

    assert asyncio.run(asyncio.wait_for(scene(), 60)) == 5
    store = open_store(url)
    assert [event.seq for event in store.events("s")] == [0, 1, 2, 3]
    assert len(store.events("without a lease")) == 1


def test_sessions_are_numbered_as_they_appear_to_finish(url):
    """Who reads up to a row never misses one that is committed later."""
    seen: list[int] = []

    async def scene():
        stores = [open_store(url) for _ in range(3)]
        reader = open_store(url)

        async def write(store, name):
            for i in range(20):
                lease = await store.claim(f"{name}{i}", "x")
                await lease.append(opened(f"{name}{i}"))
                await lease.append(finished(f"{name}{i}", 1))

        async def read():
            while len(seen) < 60:
                rows = await asyncio.to_thread(reader.reviewed_after, seen[-1] if seen else 0, 7)
                seen.extend(row for row, _, _ in rows)
                await asyncio.sleep(0)

        await asyncio.gather(
            read(), *(write(one, name) for name, one in zip("abc", stores, strict=True))
        )
        for store in (*stores, reader):
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert len(set(seen)) == 60


def test_a_watcher_is_woken_by_events_of_another_process(url):
    async def scene():
        one, two = open_store(url), open_store(url)
        await one.append(opened("s"))
        await two.wait_for_change("s", 2.0)  # until it listens
        for seq in range(1, 4):
            waiting = asyncio.create_task(two.wait_for_change("s", 600))
            other = asyncio.create_task(two.wait_for_change("t", 600))
            await asyncio.sleep(0.01)
            await one.append(note("s", seq))
            await asyncio.wait_for(waiting, 30)
            assert [event.seq for event in two.events("s", after=seq - 1)] == [seq]
            assert not other.done()
            other.cancel()
        await one.close()
        await two.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_both_kinds_of_store_have_the_same_methods():
    from peerage.stores.postgres import PostgresStore

    public = [{n for n in dir(kind) if n[0] != "_"} for kind in (SqliteStore, PostgresStore)]
    assert public[0] == public[1]


@pytest.mark.slow
def test_a_store_whose_server_is_gone_is_closed_without_a_long_wait(monkeypatch):
    monkeypatch.setattr("peerage.stores.postgres.LEAVING_S", 0.1)
    server = PostgresServer("fsync = off")

    async def scene():
        store = open_store(server.new_database())
        await store.append(opened("s"))
        await asyncio.to_thread(server.close)
        lost = store.append(note("s", 1))
        await asyncio.wait_for(store.close(), 30)
        with pytest.raises(StoreError, match=r"no server answers|connection was lost"):
            await lost

    asyncio.run(scene())


def test_a_process_stopped_in_a_transaction_loses_its_locks_and_repeats_it(url, monkeypatch):
    monkeypatch.setattr("peerage.stores.postgres.MAX_IDLE_MS", 100)
    writer, other = open_store(url)._connect_writer(), open_store(url)._connect_writer()
    attempts = []

    def work(db, again):
        db.execute("SELECT in_turn()")
        attempts.append(again)
        if not again:
            assert other.run(lambda db, _: db.execute("SELECT in_turn()").fetchall())
        return db.execute("SELECT 7").fetchone()[0]

    assert writer.run(work) == 7
    assert attempts == [False, True]
    writer.close()
    other.close()
