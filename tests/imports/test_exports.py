"""The whole store out and back: the same, row by row."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from peerage import Council
from peerage.errors import InputError, UsageError
from peerage.imports import take
from peerage.imports.store_folders import export, take_export
from peerage.imports.table_files import write_reviews
from peerage.stores import StoreError
from tests.stored_boards import files_of_store

SEATS = "".join(f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in "abc")
TABLES = (
    "SELECT session_id, seq, kind, at, body FROM events ORDER BY 1, 2",
    "SELECT * FROM sessions ORDER BY id",
    "SELECT * FROM seasons ORDER BY id",
    "SELECT * FROM imports ORDER BY id",
    "SELECT * FROM import_parts ORDER BY import_id, part",
)


def rows(path):
    db = sqlite3.connect(path)
    found = [db.execute(query).fetchall() for query in TABLES]
    db.close()
    return found


async def hold(tmp_path):
    """Two sessions, one of them of a season with a seed of its own."""
    (tmp_path / "peerage.toml").write_text(SEATS)
    flags = {"store": f"sqlite:///{tmp_path / 'peerage.db'}"}
    async with Council.from_config(tmp_path / "peerage.toml", flags) as council:
        await council.ask("Why? \u0000")
        season = council.season("spring")
        from peerage.session import run
        from peerage.session_config import SessionSpec
        from peerage.types import Query

        spec = SessionSpec("one", Query("How?"), season.seed, 0, season.id)
        async for _ in run(
            spec, council.session_config(""), council.caller, council.store, clock=lambda: 5.0
        ):
            pass


@pytest.fixture
def full(opened, tmp_path):
    """A store with sessions, a season, reviews, opinions and a ballots file."""
    asyncio.run(hold(tmp_path))
    store = opened()
    (tmp_path / "r.csv").write_text(
        "session_id,reviewer,candidate,score\n"
        + "".join(f"s{i},x,{c},{i}\n" for i in range(9) for c in "ab")
    )
    (tmp_path / "o.csv").write_text(
        "item_id,contributor,reviewer,opinion\n"
        + "".join(f"i{i % 4},p,r{i},1\n" for i in range(20))
    )
    ballot = {"query": "Q", "responses": [{"model": m, "response": m} for m in "ab"]}
    ballot |= {"label_to_model": {"Response A": "a", "Response B": "b"}}
    ballot |= {
        "rankings": [{"model": "c", "parsed_ranking": {"ranking": ["Response B", "Response A"]}}]
    }
    (tmp_path / "b.json").write_text(json.dumps([ballot]))
    for name, kind in (("r.csv", "reviews"), ("o.csv", "opinions"), ("b.json", "sessions")):
        take(store, tmp_path / name, kind, lambda: 7.0)
    return store


def test_an_export_comes_back_as_the_same_store_row_by_row(full, opened, tmp_path):
    assert export(full, tmp_path / "out") == {"sessions": 3, "imports": 3}
    taken = take_export(opened("other"), tmp_path / "out")
    assert [(one.n, one.unit, one.already) for one in taken] == [
        (3, "sessions", False),
        (18, "rows", False),
        (20, "rows", False),
        (1, "sessions", False),
    ]
    before, after = rows(tmp_path / "peerage.db"), rows(tmp_path / "other.db")
    assert after == before
    assert all(before)
    assert all(one.already for one in take_export(opened("other"), tmp_path / "out"))
    assert rows(tmp_path / "other.db") == before


def test_the_files_of_an_export_come_only_once(full, opened, tmp_path):
    export(full, tmp_path / "out")
    other = opened("other")
    take_export(other, tmp_path / "out")
    for name, kind in (("r.csv", "reviews"), ("o.csv", "opinions"), ("b.json", "sessions")):
        assert take(other, tmp_path / name, kind, lambda: 9.0).already


def test_an_export_that_lacks_a_part_or_contradicts_the_store_changes_nothing(
    full, opened, tmp_path
):
    export(full, tmp_path / "out")
    (table,) = (tmp_path / "out").glob("opinions-*.parquet")
    other = opened("other")
    (tmp_path / "same.csv").write_text((tmp_path / "r.csv").read_text() + "s99,x,a,1\n")
    take(other, tmp_path / "same.csv", "reviews", lambda: 9.0)
    before = rows(tmp_path / "other.db")
    with pytest.raises(InputError, match="in the store already"):
        take_export(other, tmp_path / "out")
    table.unlink()
    third = opened("third")
    with pytest.raises(InputError, match="a table of the export is missing"):
        take_export(third, tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(InputError, match="not an export"):
        take_export(third, tmp_path)
    assert rows(tmp_path / "other.db") == before
    assert third.imports() == [] == third.sessions()


def refusing(path):
    """A connection to a store that takes no imports until it is told to."""
    db = sqlite3.connect(path)
    db.execute("CREATE TRIGGER full BEFORE INSERT ON imports BEGIN SELECT RAISE(FAIL, 'full'); END")
    return closing(db)


def test_an_import_of_sessions_that_is_cut_off_leaves_nothing_and_can_be_tried_again(
    full, opened, tmp_path
):
    other = opened("other")
    with refusing(tmp_path / "other.db") as db:
        with pytest.raises(StoreError):
            take(other, tmp_path / "b.json", "sessions", lambda: 9.0)
        assert other.sessions() == [] == other.imports()
        db.execute("DROP TRIGGER full")
    assert take(other, tmp_path / "b.json", "sessions", lambda: 9.0).n == 1


def test_an_import_of_an_export_that_is_cut_off_leaves_nothing_and_can_be_tried_again(
    full, opened, tmp_path
):
    export(full, tmp_path / "out")
    other = opened("other")
    with refusing(tmp_path / "other.db") as db:
        before = rows(tmp_path / "other.db")
        with pytest.raises(StoreError):
            take_export(other, tmp_path / "out")
        assert rows(tmp_path / "other.db") == before
        db.execute("DROP TRIGGER full")
    take_export(other, tmp_path / "out")
    assert len(other.imports()) == 3


def test_ten_wrong_sessions_are_named_and_none_is_taken(store, tmp_path):
    (tmp_path / "b.jsonl").write_text('{"query": 5}\n' * 14)
    with pytest.raises(InputError, match=r"line 1: .*line 10: "):
        take(store, tmp_path / "b.jsonl", "sessions", lambda: 9.0)
    assert store.sessions() == []


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_the_table_of_reviews_is_imported_again_with_every_row(full, opened, tmp_path, suffix):
    files = files_of_store(full, lambda _: None)
    table = tmp_path / f"reviews{suffix}"
    n = write_reviews(files, suffix, table)
    assert n == 2 * 9 + 2 * 9 + 2  # an imported table, two sessions held here, and a ballots file
    again = opened("again.db")
    assert take(again, table, "reviews", lambda: 9.0).n == n


@pytest.mark.parametrize("inside", ["new", "new/deeper", "there"])
def test_an_export_that_cannot_be_written_leaves_nothing(full, tmp_path, monkeypatch, inside):
    (tmp_path / "there").mkdir()
    before = sorted(tmp_path.rglob("*"))

    def refused(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(full), "imports", refused)
    with pytest.raises(UsageError, match=r"cannot be written: Permission denied\."):
        export(full, tmp_path / inside)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("place", ["file/new", "file", "/proc/new"])
def test_an_export_to_where_no_folder_can_be_is_refused(full, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        export(full, tmp_path / place)
