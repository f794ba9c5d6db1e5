"""What is deleted is left out everywhere and erased nowhere; what is tagged is found again."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from peerage import config
from peerage.curation import delete, plan_deletion, tag
from peerage.errors import InputError, NotFoundError, UsageError
from peerage.imports import take
from peerage.imports.store_folders import export, take_export
from peerage.people import next_ballot, review_queue
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ItemBoardOptions, ModelBoardOptions
from peerage.reports.page_facts import facts_of_models, gate_failures, stored_rows
from peerage.reports.session_options import DeleteOptions, SessionsOptions, TagOptions
from peerage.stores import Store, move, open_store
from tests.small_seasons import hold_season

SCALE = (-1.0, 1.0)
N = 3


def clock() -> float:
    return 1_800_000_000.0


class Shop:
    """A store, and what is read of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store: Store = open_store(url)
        self.reports = Reports(config.load(flags={"store": url}, environ={}))
        vars(self.reports)["store"] = self.store

    def remove(self, **options: Any) -> None:
        plan = plan_deletion(self.store, DeleteOptions(**options))
        delete(self.store, plan, clock, SCALE)

    def board(self) -> list[dict[str, Any]]:
        return self.reports.board(ModelBoardOptions(since="all")).rows

    def ids(self, **options: Any) -> list[str]:
        return [one.id for one in self.reports.sessions(SessionsOptions(**options)).sessions]


@pytest.fixture
def shop(store_url: str) -> Shop:
    """A store with two seasons of three sessions each, by other panels."""
    hold_season(store_url, "abc", season="one", n=N)
    hold_season(store_url, "abd", season="two", n=N)
    return Shop(store_url)


def reviews_file(folder: Path, name: str = "reviews.jsonl", n: int = 4) -> Path:
    rows = [
        {"session_id": f"{name}{i}", "reviewer": "x", "candidate": c, "rank": r, "at": clock()}
        for i in range(n)
        for c, r in (("imported", 1), ("a", 2))
    ]
    file = folder / name
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def test_a_deleted_session_is_left_out_of_everything_and_undo_brings_it_back(shop: Shop) -> None:
    before = shop.board()
    facts, everything = facts_of_models(shop.store), stored_rows(shop.reports)
    assert everything is not None
    first = shop.ids()[0]
    n_events, version = len(shop.store.events(first)), shop.store.version()
    shop.remove(sessions=first[:6])
    assert shop.store.version() != version
    assert first not in shop.ids()
    assert shop.ids(deleted=True) == [first]
    assert sum(row["appearances"] for row in shop.board()) == 3 * (2 * N - 1)
    assert facts_of_models(shop.store)["a"].n_answers == facts["a"].n_answers - 1
    assert all(session != first for session, _ in gate_failures(shop.store))
    rows = stored_rows(shop.reports)
    assert rows is not None
    assert first not in rows.session_ids
    assert shop.reports.audit(AuditOptions()).views["reviews"] == rows.n
    assert next_ballot(shop.store, "eve", session=first) is None
    assert first not in review_queue(shop.store, "ann").ahead
    assert len(shop.store.events(first)) == n_events + 1  # nothing is erased
    assert shop.reports.session(first).deleted
    shop.remove(sessions=first, undo=True)
    assert shop.board() == before
    assert first in shop.ids()
    rows = stored_rows(shop.reports)
    assert rows is not None
    assert set(rows.session_ids) == set(everything.session_ids)


def test_deleting_twice_changes_nothing_more(shop: Shop) -> None:
    first = shop.ids()[0]
    shop.remove(sessions=first)
    n_events, board = len(shop.store.events(first)), shop.board()
    shop.remove(sessions=first)
    assert (len(shop.store.events(first)), shop.board()) == (n_events, board)
    plan = plan_deletion(shop.store, DeleteOptions(sessions=(first,)))
    assert (plan.sessions, plan.n_already) == ((), 1)


def test_a_season_is_deleted_as_a_whole_and_running_it_again_begins_another(shop: Shop) -> None:
    season = shop.store.seasons()[0]
    shop.remove(seasons=season[:8])
    assert {row["model"] for row in shop.board()} == set("abd")
    assert len(shop.ids()) == N
    hold_season(shop.url, "abc", season="one", n=N)
    assert len(shop.ids()) == 2 * N
    assert {row["model"] for row in shop.board()} == set("abcd")
    shop.remove(seasons=season, undo=True)
    assert len(shop.ids()) == 3 * N
    with pytest.raises(NotFoundError, match="there is no season 'nope'"):
        shop.remove(seasons="nope")


def test_a_board_of_nothing_but_deleted_sessions_is_empty(shop: Shop) -> None:
    for season in shop.store.seasons():
        shop.remove(seasons=season)
    assert shop.board() == []
    assert "no reviews yet" in shop.reports.board(ModelBoardOptions()).hint
    assert shop.ids() == []
    with pytest.raises(InputError, match="no reviews yet"):
        shop.reports.audit(AuditOptions())
    assert facts_of_models(shop.store) == {}


def test_an_import_is_deleted_by_its_number_hash_or_name(shop: Shop, tmp_path: Path) -> None:
    before = shop.board()
    file = reviews_file(tmp_path)
    take(shop.store, file, "reviews", clock)
    with_import = shop.board()
    assert "imported" in {row["model"] for row in with_import}
    (entry,) = shop.store.imports()
    for name in (str(entry.id), entry.hash[:10], entry.name):
        shop.remove(imports=name)
        assert shop.board() == before
        shop.remove(imports=name, undo=True)
        assert shop.board() == with_import
    shop.remove(imports=str(entry.id))
    assert shop.reports.imports().imports == ()
    assert [one.id for one in shop.reports.imports(deleted=True).imports] == [entry.id]
    again = take(shop.store, file, "reviews", clock)
    assert again.already
    assert f"peerage delete --import {entry.id} --undo" in again.flags[0]
    with pytest.raises(NotFoundError, match="no imported table is called 'nope'"):
        shop.remove(imports="nope")


def test_rows_that_came_in_again_keep_a_deleted_table_from_coming_back(
    shop: Shop, tmp_path: Path
) -> None:
    take(shop.store, reviews_file(tmp_path), "reviews", clock)
    shop.remove(imports="reviews.jsonl")
    mended = tmp_path / "mended.jsonl"
    mended.write_text((tmp_path / "reviews.jsonl").read_text() + "\n")
    take(shop.store, mended, "reviews", clock)
    board = shop.board()
    with pytest.raises(InputError, match=r"reviews\.jsonl cannot be restored: .*already"):
        shop.remove(imports="reviews.jsonl", undo=True)
    assert shop.board() == board


def test_opinions_that_were_imported_can_be_deleted_too(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "opinions.csv"
    file.write_text("item_id,contributor,reviewer,opinion\np,ann,bob,1\np,ann,cyd,1\np,ann,dan,1\n")
    take(shop.store, file, "opinions", clock)
    assert len(shop.reports.board(ItemBoardOptions())) == 1
    shop.remove(imports="opinions.csv")
    assert len(shop.reports.board(ItemBoardOptions())) == 0


def test_deleting_imported_sessions_deletes_what_the_file_brought(
    shop: Shop, tmp_path: Path
) -> None:
    ballots = {"m1": ["x", "y"], "m2": ["x", "y"]}
    file = tmp_path / "ballots.json"
    file.write_text(json.dumps(ballots))
    take(shop.store, file, "sessions", clock)
    before = set(shop.ids())
    shop.remove(imports="ballots.json")
    assert len(before - set(shop.ids())) == 1
    shop.remove(imports="ballots.json", undo=True)
    assert set(shop.ids()) == before


def test_exports_and_copies_carry_the_marks(shop: Shop, tmp_path: Path) -> None:
    take(shop.store, reviews_file(tmp_path), "reviews", clock)
    first, second = shop.ids()[:2]
    shop.remove(sessions=first, imports="reviews.jsonl")
    tag(shop.store, TagOptions(sessions=(second,), add=("good",)), clock)
    board = shop.board()
    export(shop.store, tmp_path / "export")
    copied = Shop(f"sqlite:///{tmp_path / 'copy.db'}")
    take_export(copied.store, tmp_path / "export")
    moved = Shop(f"sqlite:///{tmp_path / 'moved.db'}")
    move(shop.store, moved.store)
    for other in (copied, moved):
        assert other.board() == board
        assert other.ids(deleted=True) == [first]
        assert other.ids(tag="good") == [second]
        other.remove(sessions=first, imports="reviews.jsonl", undo=True)
        assert "imported" in {row["model"] for row in other.board()}


def test_a_mirror_that_is_lost_or_of_another_process_follows_too(shop: Shop) -> None:
    other = Shop(shop.url)
    other.board()
    shop.remove(sessions=shop.ids()[0])
    board = shop.board()
    assert other.board() == board
    shutil.rmtree(shop.store.mirror_folder)
    assert Shop(shop.url).board() == board


def test_a_running_session_is_not_deleted(shop: Shop) -> None:
    first, second = shop.ids()[:2]

    async def scene() -> None:
        store = open_store(shop.url)
        lease = await store.claim(first, "somebody")
        assert lease is not None
        with pytest.raises(InputError, match=f"1 session is still running: {first}"):
            shop.remove(sessions=(first, second))
        await store.release(lease)
        await store.close()

    asyncio.run(scene())
    assert shop.ids(deleted=True) == []
    shop.remove(sessions=(first, second))
    assert set(shop.ids(deleted=True)) == {first, second}


def test_nothing_named_is_refused(shop: Shop) -> None:
    with pytest.raises(UsageError, match="nothing to delete"):
        shop.remove()


# -- tags and search -----------------------------------------------------------------------------


def test_tags_are_added_removed_and_found_again(shop: Shop) -> None:
    first, second, *_ = shop.ids()
    version = shop.store.version()
    tags = tag(shop.store, TagOptions(sessions=(first, second), add="good,a_b"), clock)  # type: ignore[arg-type]
    assert tags == dict.fromkeys((first, second), ("a_b", "good"))
    assert shop.ids(tag="good") == shop.ids(tag="a_b") == [first, second]
    assert shop.ids(tag="axb") == shop.ids(tag="goo") == shop.ids(tag="%") == []
    tag(shop.store, TagOptions(sessions=(first,), remove=("good",)), clock)
    assert shop.ids(tag="good") == [second]
    assert shop.reports.session_document(first)["tags"] == ["a_b"]
    assert shop.store.version() == version  # no board is made anew for a tag
    n_events = len(shop.store.events(first))
    tag(shop.store, TagOptions(sessions=(first,), add=("a_b",)), clock)
    assert len(shop.store.events(first)) == n_events


@pytest.mark.parametrize("name", ["two words", "x" * 61, "line\nbreak", "\x1b[31m"])
def test_a_tag_is_one_word(shop: Shop, name: str) -> None:
    with pytest.raises(UsageError, match="is not a tag"):
        tag(shop.store, TagOptions(sessions=(shop.ids()[0],), add=(name,)), clock)


def test_a_search_looks_at_questions_ids_tags_and_models(shop: Shop) -> None:
    first, *_, last = shop.ids()
    tag(shop.store, TagOptions(sessions=(last,), add=("Nice",)), clock)
    assert shop.ids(search="QUESTION 1 of") == [shop.ids()[1], shop.ids()[4]]
    assert shop.ids(search="question 1 of two") == [shop.ids()[4]]
    assert shop.ids(search=first[2:12]) == [first]
    assert shop.ids(search="nice") == [last]
    assert shop.ids(search="d-1") == shop.ids()[3:]
    assert shop.ids(search="c-1", limit=2) == shop.ids()[1:3]
    assert shop.ids(search="nothing of the kind") == []
    assert shop.ids(season=shop.store.seasons()[1][:9], status="done") == shop.ids()[3:]
    assert shop.ids(status="unfinished") == []


def test_a_search_goes_through_more_sessions_than_it_reads_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.reports.sessions.SEARCHED_AT_ONCE", 2)
    assert shop.ids(search="c-1") == shop.ids()[:3]
    assert shop.ids(search="c-1", limit=1) == [shop.ids()[2]]
    assert shop.ids(search="question", before=shop.ids()[3]) == shop.ids()[:3]
