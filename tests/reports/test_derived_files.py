"""Files made from the log: one that is damaged, torn or gone is made again, and never believed."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from peerage.engines.duckdb import DuckDB
from peerage.engines.mirror import Mirror
from peerage.imports import take
from peerage.imports.store_folders import export, take_export
from peerage.reports.options import ModelBoardOptions
from peerage.reports.stored_reviews import mirror_of
from peerage.stores import Import, open_store
from peerage.stores.sqlite import SqliteStore
from tests.shared.store_trouble import (
    boards,
    check_damage,
    cut,
    derived,
    filled_store,
    flip,
    mirror_folder,
    opinion,
    remove,
    reports_of,
    reviews,
    take_sessions,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return filled_store(tmp_path)


def test_a_damaged_file_is_made_again_with_a_line_in_the_log(url: str) -> None:
    assert check_damage(url, [flip, cut], 1)


@pytest.mark.slow
def test_no_bit_cut_or_gap_in_any_derived_file_changes_a_board(url: str) -> None:
    check_damage(url, [flip, cut, remove], 4)


def test_a_damaged_part_of_a_large_table_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = tmp_path / "whole.parquet"
    engine = DuckDB(folders=[tmp_path])
    engine.open(reviews(tmp_path, "first")).to_native().write_parquet(str(whole))
    mirror = Mirror(tmp_path / "mirror")

    def files() -> list[Path]:
        return mirror.keep_table("reviews-0", lambda: [whole.read_bytes()], part_rows=50)

    first = files()
    bytes_before = [file.read_bytes() for file in first]
    assert len(first) > 2
    flip(first[1], random.Random(7))
    assert files() == first
    assert [file.read_bytes() for file in first] == bytes_before
    assert caplog.text.count("made again from the log") == 1


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A test in which no file has to be made again."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("quiet")
def test_a_sound_mirror_is_not_written_again(url: str) -> None:
    boards(url)
    before = {path: path.stat().st_mtime_ns for path in derived(url)}
    boards(url)
    assert {path: path.stat().st_mtime_ns for path in derived(url)} == before


def test_rows_that_have_the_numbers_of_lost_ones_are_not_hidden(url: str, tmp_path: Path) -> None:
    """A store that was restored from a copy numbers its next rows as the lost ones were."""
    boards(url)
    path = tmp_path / "p.db"
    shutil.copy(path, tmp_path / "copy.db")
    store = open_store(url)
    take_sessions(store, tmp_path, "lost1", "lost2")
    store.add_contributions([opinion(20)])
    asyncio.run(store.close())
    boards(url)
    (tmp_path / "copy.db").replace(path)
    store = open_store(url)
    take_sessions(store, tmp_path, "new1", "new2", "new3")
    store.add_contributions([opinion(31)])
    asyncio.run(store.close())
    found = boards(url)
    shutil.rmtree(mirror_folder(url))
    assert found == boards(url)
    assert json.loads(found)[0]["sessions"] == 2 + 30 + 3


def test_a_session_that_is_written_again_is_never_missing_between(url: str, tmp_path: Path) -> None:
    """A reader has the list of before or that of after: nothing is taken from a file in use."""
    boards(url)
    before = mirror_of(open_store(url))
    files = {path: path.read_bytes() for path in before.segments}
    mirror = mirror_of(open_store(url))
    with mirror.lock():
        mirror.write([], mirror.synced_to, again={"s1"})
    assert {path: path.read_bytes() for path in before.segments} == files
    assert set(mirror.segments).isdisjoint(files)


def test_a_board_amid_an_import_is_the_board_before_it(store_url: str, tmp_path: Path) -> None:
    """What a transaction has not committed is neither seen nor mirrored."""
    elsewhere = open_store(f"sqlite:///{tmp_path / 'other.db'}")
    for name in ("first", "second"):
        take(elsewhere, reviews(tmp_path, name), "reviews", lambda: 7.0)
    first, second = elsewhere.imports()
    store, reports = open_store(store_url), reports_of(store_url)
    vars(reports)["store"] = store

    def board() -> Any:
        return reports.board(ModelBoardOptions(since="all")).document()

    def parts(entry: Import) -> Iterator[bytes]:
        data, seen = b"".join(elsewhere.import_parts(entry.id)), board()
        yield data[:100]
        assert board() == seen
        yield data[100:]
        assert board() == seen

    store.add_import(first, parts(first))
    before = board()
    store.add_import(second, parts(second))
    assert (before["sessions"], board()["sessions"]) == (30, 60)
    asyncio.run(store.close())


class Interrupted(SqliteStore):
    """A store into which something comes while its list of imports is asked for."""

    def __init__(self, path: Path, interruptions: list[Callable[[], object]]) -> None:
        super().__init__(path)
        self.interruptions = interruptions

    def imports(self) -> list[Import]:
        while self.interruptions:
            self.interruptions.pop()()
        return super().imports()


def test_what_comes_in_together_is_on_a_board_together(url: str, tmp_path: Path) -> None:
    """An export brings sessions and a table in one transaction, amid the reading of both."""
    other = open_store(f"sqlite:///{tmp_path / 'other.db'}")
    take_sessions(other, tmp_path, "t1", "t2", "t3")
    take(other, reviews(tmp_path, "second"), "reviews", lambda: 7.0)
    export(other, tmp_path / "out")
    boards(url)
    interruptions: list[Callable[[], object]] = []
    store = Interrupted(tmp_path / "p.db", interruptions)
    interruptions.append(lambda: take_export(open_store(url), tmp_path / "out"))
    reports = reports_of(url)
    vars(reports)["store"] = store
    board = reports.board(ModelBoardOptions(since="all")).document()
    assert board["sessions"] == 2 + 30 + 3 + 30
    asyncio.run(store.close())
