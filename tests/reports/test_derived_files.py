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
from peerage.imports import export, take, take_export
from peerage.reports import Reports
from peerage.reports.options import ItemBoardOptions, ModelBoardOptions
from peerage.reports.stored_reviews import mirror_of
from peerage.seating import settings_of
from peerage.stores import Contribution, Import, Store, open_store
from peerage.stores.sqlite import SqliteStore

CANDIDATES = "abc"


def reports_of(url: str) -> Reports:
    return Reports(settings_of(None, {"store": url}))


def ballots(*names: str) -> list[dict[str, Any]]:
    """Sessions of three answers and one reviewer, as a ballots file has them."""
    labels = {f"Response {name.upper()}": name for name in CANDIDATES}
    order = sorted(labels, reverse=True)
    ranking = {"ranking": order}
    return [
        {
            "session_id": name,
            "query": "Q",
            "responses": [{"model": model, "response": model * (i + 1)} for model in CANDIDATES],
            "label_to_model": labels,
            "rankings": [{"model": "r", "parsed_ranking": ranking}],
        }
        for i, name in enumerate(names)
    ]


def take_sessions(store: Store, folder: Path, *names: str) -> None:
    file = folder / f"{'-'.join(names)}.json"
    file.write_text(json.dumps(ballots(*names)))
    take(store, file, "sessions", lambda: 7.0)


def reviews(folder: Path, name: str, n_sessions: int = 30) -> Path:
    """A CSV of reviews by two reviewers."""
    rng = random.Random(name)
    lines = ["session_id,reviewer,candidate,rank,at"]
    for i in range(n_sessions):
        for reviewer in "uv":
            order = rng.sample(CANDIDATES, len(CANDIDATES))
            lines += [f"{name}{i},{reviewer},{c},{r},{i}" for r, c in enumerate(order, 1)]
    file = folder / f"{name}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def opinion(i: int) -> Contribution:
    return Contribution("opinions", f"i{i % 3}", "ann", float(i), f"r{i}", (-1.0) ** i)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with sessions, contributions and imported tables."""
    url = f"sqlite:///{tmp_path / 'p.db'}"
    store = open_store(url)
    take_sessions(store, tmp_path, "s1", "s2")
    take(store, reviews(tmp_path, "first"), "reviews", lambda: 7.0)
    (tmp_path / "o.csv").write_text("item_id,contributor,reviewer,opinion,at\nj,ben,r1,1,1\n")
    take(store, tmp_path / "o.csv", "opinions", lambda: 7.0)
    store.add_contributions([*map(opinion, range(9)), Contribution("items", "i0", "ann", 1.0)])
    asyncio.run(store.close())
    return url


def boards(url: str) -> str:
    reports = reports_of(url)
    options = ModelBoardOptions(since="all"), ItemBoardOptions(since="all")
    documents = [reports.board(one).document() for one in options]
    asyncio.run(reports.store.close())
    return json.dumps(documents)


def mirror_folder(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///") + ".mirror")


def derived(url: str) -> list[Path]:
    """Every file that was made from the log."""
    files = [path for path in mirror_folder(url).rglob("*") if path.is_file()]
    return sorted(path for path in files if path.name != "lock")


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def remove(path: Path, _: random.Random) -> None:
    path.unlink()


def check_damage(url: str, damages: Any, n_times: int, caplog: pytest.LogCaptureFixture) -> None:
    right, rng = boards(url), random.Random(7)
    names = [path.name for path in derived(url)]
    assert {Path(name).suffix for name in names} == {".parquet", ".json"}
    for damage in damages:
        for name in names:
            for _ in range(n_times):
                caplog.clear()
                damage(mirror_folder(url) / name, rng)
                assert boards(url) == right, (damage.__name__, name)
                if damage is not remove:
                    assert "made again from the log" in caplog.text, (damage.__name__, name)
    assert [path.name for path in derived(url)] == names


def test_a_damaged_file_is_made_again_with_a_line_in_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_damage(url, [flip, cut], 1, caplog)


@pytest.mark.slow
def test_no_bit_cut_or_gap_in_any_derived_file_changes_a_board(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_damage(url, [flip, cut, remove], 10, caplog)


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
