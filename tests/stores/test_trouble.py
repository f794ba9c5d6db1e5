"""A store in trouble: whoever waits hears of it, in words, and what is well is still served."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from peerage.errors import PeerageError, UnreadableError
from peerage.reports.stored_reviews import stored_reviews
from peerage.stores import StoreError, open_store
from peerage.types import Event
from peerage.view import fold
from tests.shared.store_trouble import as_somebody_without_rights, fill_the_disk, take_rights_away
from tests.stores.bare_events import opened


def note(session_id, seq, body=None):
    return Event(session_id, seq, "x", 0.0, body or {})


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"in": [value]}
    return value


@pytest.fixture
def url(store_url):
    return store_url


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.db"


def results(url, *events, before=None):
    """What each waiter got, in a time that a hanging one would exceed."""

    async def scene():
        store = open_store(url)
        if before:
            before(store)
        kept = [store.append(event) for event in events]
        done = asyncio.gather(*kept, return_exceptions=True)
        found = await asyncio.wait_for(done, 30)
        await asyncio.wait_for(store.close(), 30)
        return found

    return asyncio.run(scene())


WRONG = {
    "a set": note("s", 1, {"at": {1, 2}}),
    "nested": note("s", 1, nested(2_000)),
    "a tuple for a name": note("s", 1, {("a",): 2}),
    "seq is text": note("s", "one"),
    "seq is huge": note("s", 2**70),
    "seq is negative": note("s", -1),
    "id is a number": note(5, 1),
    "at no time": Event("s", 1, "x", float("nan"), {}),
    "at the end of time": Event("s", 1, "x", 1e300, {}),
    "at is text": Event("s", 1, "x", "today", {}),
    "no kind": Event("s", 1, None, 0.0, {}),
    "ordinal is text": opened("s", ordinal="first"),
    "no season": opened("s", season=None),
    "query is text": opened("s", query="q"),
    "query is a list": opened("s", query={"text": ["q"], "category": ""}),
    "no status": Event("s", 1, "finished", 0.0, {}),
    "status is a number": Event("s", 1, "finished", 0.0, {"status": 5}),
}


@pytest.mark.parametrize("event", WRONG.values(), ids=WRONG)
def test_an_event_that_cannot_be_stored_fails_alone(url, event):
    first, wrong, other = results(url, opened("a"), event, opened("b"))
    assert (first, other) == (None, None)
    assert isinstance(wrong, StoreError)
    assert {row.id for row in open_store(url).sessions()} == {"a", "b"}


@pytest.mark.parametrize("event", WRONG.values(), ids=WRONG)
def test_imported_events_are_stored_as_a_whole_or_not_at_all(url, event):
    store = open_store(url)
    with pytest.raises(StoreError):
        store.append_all([opened("a"), event])
    assert store.sessions() == []


def test_imported_events_have_limited_nesting(url):
    store = open_store(url)
    with pytest.raises(StoreError, match="nested"):
        store.append_all([opened("a"), note("a", 1, nested(30))])


def test_after_a_gap_nothing_more_of_that_session_is_kept_until_it_is_mended(url):
    first, bad, later, other, mended, after = results(
        url,
        opened("a"),
        note("a", 1, {"x": {1}}),
        note("a", 2),
        opened("b"),
        note("a", 1),
        note("a", 2),
    )
    assert (first, other, mended, after) == (None,) * 4
    assert isinstance(bad, StoreError)
    assert isinstance(later, StoreError)
    assert [e.seq for e in open_store(url).events("a")] == [0, 1, 2]


def test_two_writers_of_one_session_do_not_mix_their_events(url):
    """The second hears that another was there, and none of its later events comes in between."""

    async def scene():
        one, two = (open_store(url) for _ in range(2))
        await one.append(opened("s"))
        await one.append(note("s", 1, {"by": 1}))
        mixed = [two.append(note("s", seq, {"by": 2})) for seq in (1, 2, 3)]
        refused = await asyncio.gather(*mixed, return_exceptions=True)
        await one.append(note("s", 2, {"by": 1}))
        await one.close()
        await two.close()
        return refused

    refused = asyncio.run(scene())
    assert all(isinstance(error, StoreError) for error in refused)
    assert "another process" in str(refused[0])
    assert "UNIQUE" not in str(refused[0])
    stored = open_store(url).events("s")
    assert [event.body.get("by") for event in stored[1:]] == [1, 1]


def spoil_by_another_file(store):
    for beside in store.path.parent.glob("p.db*"):
        beside.unlink()
    store.path.write_text("no database " * 500)


def spoil_by_a_folder(store):
    for beside in store.path.parent.glob("p.db*"):
        beside.unlink()
    store.path.mkdir()


def spoil_by_removal(store):
    shutil.rmtree(store.path.parent)


@pytest.mark.parametrize("spoil", [spoil_by_another_file, spoil_by_a_folder, spoil_by_removal])
def test_when_the_writer_cannot_start_every_append_fails(path, spoil):
    found = results(
        f"sqlite:///{path}", opened("a"), *(note("a", i) for i in range(1, 200)), before=spoil
    )
    assert len(found) == 200
    assert all(isinstance(error, StoreError) for error in found)


def test_on_a_full_disk_the_error_says_so_and_what_was_stored_stays(tmp_path):
    fill_the_disk(tmp_path)


@pytest.mark.parametrize("text", ["\ud800", "\udcff\udcfe", "a\udfffb"])
def test_invalid_unicode_is_stored_and_found_with_replacement_characters(url, text):
    query = {"text": text, "id": text, "category": text}
    (kept,) = results(url, opened(text, query=query, season=text))
    assert kept is None
    store = open_store(url)
    (listed,) = store.sessions()
    json.dumps([listed.id, listed.query, listed.category], ensure_ascii=False).encode()
    assert store.find(text) == [listed.id]
    (event,) = store.events(text)
    json.dumps(event.body, ensure_ascii=False).encode()


def poison(url, sql, *values):
    with open_store(url).transaction() as db:
        db.execute(sql, values)


POISON = [
    ("UPDATE events SET body = ? WHERE session_id = 'bad'", "{"),
    ("UPDATE events SET body = ? WHERE session_id = 'bad'", "[]"),
    ("UPDATE events SET body = ? WHERE session_id = 'bad'", "[" * 50_000),
    ("UPDATE events SET body = ? WHERE session_id = 'bad'", "{}"),
    ("UPDATE events SET body = ? WHERE session_id = 'bad'", '{"query": 5}'),
    ("UPDATE events SET at = ? WHERE session_id = 'bad'", "yesterday"),
]


@pytest.mark.parametrize(("sql", "value"), POISON)
def test_a_session_that_cannot_be_read_is_named_and_the_rest_is_read(url, sql, value):
    if "postgresql" in url and "at =" in sql:
        return  # its column takes nothing but a time
    results(url, opened("good"), opened("bad"), opened("well"))
    poison(url, sql, value)
    store = open_store(url)
    assert {fold(store.events(name)).id for name in ("good", "well")} == {"good", "well"}
    with pytest.raises(UnreadableError, match="bad"):
        fold(store.events("bad"))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE sessions SET opened_at = 'never' WHERE id = 'bad'",
        "UPDATE sessions SET opened_at = 1e300 WHERE id = 'bad'",
        "UPDATE sessions SET ordinal = 'first' WHERE id = 'bad'",
        "UPDATE sessions SET finished_at = 'then' WHERE id = 'bad'",
    ],
)
def test_a_malformed_line_of_the_list_is_listed_as_such(path, sql):
    results(f"sqlite:///{path}", opened("good"), opened("bad"))
    poison(f"sqlite:///{path}", sql)
    listed = {row.id: row.status for row in open_store(f"sqlite:///{path}").sessions()}
    assert listed == {"good": "", "bad": "unreadable"}


def test_an_unreadable_event_is_an_error_of_its_session_alone(url):
    results(url, opened("good"), opened("bad"))
    poison(url, "UPDATE events SET body = 'x' WHERE session_id = 'bad'")
    store = open_store(url)
    assert store.events("good")
    with pytest.raises(UnreadableError, match="bad"):
        store.events("bad")


def test_boards_leave_unreadable_sessions_out_and_name_them(url):
    def finished(session_id):
        return Event(session_id, 1, "finished", 1.0, {"status": "done", "cost_usd": None})

    def reviewed(session_id):
        ballots = [{"reviewer": "r", "order": ["x", "y"]}]
        yield Event(session_id, 1, "dealt", 0.5, {"round": 0, "ballots": ballots})
        body = {"reviewer": "r", "round": 0, "text": '{"ranking": ["A", "B"]}'}
        yield Event(session_id, 2, "reviewed", 0.6, body)
        yield replace(finished(session_id), seq=3)

    results(
        url,
        opened("good"),
        *reviewed("good"),
        opened("bad"),
        finished("bad"),
        opened("odd"),
        finished("odd"),
    )
    poison(url, "UPDATE events SET body = '{}' WHERE session_id = 'bad' AND seq = 0")
    poison(url, "UPDATE events SET body = replace(body, '[]', '[5]') WHERE session_id = 'odd'")
    segments, flags = stored_reviews(open_store(url), lambda _: None)
    rows = duckdb.read_parquet([str(segment) for segment in segments]).fetchall()
    assert {row[0] for row in rows} == {"good"}
    assert len(rows) == 2
    assert flags == ("sessions_left_out:2: bad, odd",)


# -- where nothing can be written ---------------------------------------------------------------


@pytest.fixture
def shelf():
    """A folder that anybody may look into, and only its owner may change."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_store_in_a_folder_that_cannot_be_written_to_is_read(shelf):
    take_rights_away(shelf)


def test_a_store_that_cannot_be_made_is_refused_with_a_hint(shelf):
    shelf.chmod(0o555)
    with as_somebody_without_rights(), pytest.raises(StoreError, match="permissions"):
        open_store(f"sqlite:///{shelf / 'p.db'}")


@pytest.mark.parametrize("url", ["sqlite:////", "sqlite:///a\0b.db", "sqlite:////proc/p.db"])
def test_a_path_that_is_not_a_file_is_refused(url):
    with pytest.raises(PeerageError):
        open_store(url)
