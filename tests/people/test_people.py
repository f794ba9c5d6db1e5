"""Opinions and items given one at a time: rows of the store that boards read as one table."""

import asyncio
import subprocess
import sys

import pytest

from peerage.contributions import ItemGiven, OpinionGiven, keep_items, keep_opinions
from peerage.engines.mirror import MANY
from peerage.errors import InputError, PeerageError
from peerage.imports import take
from peerage.imports.store_folders import export, take_export
from peerage.panel import Council
from peerage.people import PersonReview, keep_review, may_review, next_ballot
from peerage.reports import Reports
from peerage.reports.options import ItemBoardOptions, ModelBoardOptions
from peerage.reports.stored_reviews import mirror_of, sync_mirror
from peerage.seating import settings_of
from peerage.stores import open_store
from peerage.types import Seat

SCALE = (-1.0, 1.0)


def opine(store, person, item, opinion=1.0, at=1.0, **more):
    given = OpinionGiven(item_id=item, opinion=opinion, **more)
    return keep_opinions(store, person, [given], SCALE, at)


def reports_of(url):
    return Reports(settings_of(None, {"store": url}))


def board(url):
    return reports_of(url).board(ItemBoardOptions(since="all")).rows


@pytest.mark.slow
def test_opinions_given_one_at_a_time_make_the_board_of_one_table(store_url, tmp_path):
    store = open_store(store_url)
    keep_items(store, "ada", [ItemGiven(item_id=f"p{i}") for i in range(3)], 0.5)
    lines = ["item_id,contributor,reviewer,opinion,at"]
    for i in range(80):
        person, item, opinion = f"r{i % 40}", f"p{i % 3}", -1.0 if i % 7 == 0 else 1.0
        opine(store, person, item, opinion, float(i))
        lines.append(f"{item},ada,{person},{opinion},{i}")
        if i % 4 == 0:
            board(store_url)
    (tmp_path / "o.csv").write_text("\n".join(lines))
    other = f"sqlite:///{tmp_path / 'other.db'}"
    take(open_store(other), tmp_path / "o.csv", "opinions", lambda: 0.0)
    assert board(store_url) == board(other)
    assert len(mirror_of(store, "opinions").segments) <= MANY


def test_the_contributor_of_an_item_cannot_be_changed(store_url, tmp_path):
    store = open_store(store_url)
    keep_items(store, "ada", [ItemGiven(item_id="given")], 1.0)
    (tmp_path / "i.csv").write_text("item_id,contributor\nimported,bea\n")
    take(store, tmp_path / "i.csv", "items", lambda: 0.0)
    assert opine(store, "r", "given") == opine(store, "r", "imported") == 1
    for item in ("given", "imported"):
        with pytest.raises(InputError, match="not to eve"):
            opine(store, "r", item, contributor="eve", at=2.0)
        with pytest.raises(InputError, match="not to eve"):
            keep_items(store, "eve", [ItemGiven(item_id=item)], 3.0)
    (tmp_path / "i2.csv").write_text("item_id,contributor\ngiven,eve\n")
    with pytest.raises(InputError, match="another contributor"):
        take(store, tmp_path / "i2.csv", "items", lambda: 0.0)
    assert {row["item_id"]: row["contributor"] for row in board(store_url)} == {
        "given": "ada",
        "imported": "bea",
    }


@pytest.mark.parametrize(
    ("opinion", "contributor", "wrong"), [(7.0, "ada", "scale"), (1.0, None, "unknown")]
)
def test_opinions_that_boards_cannot_count_are_refused_as_a_whole(
    store_url, opinion, contributor, wrong
):
    store = open_store(store_url)
    good = OpinionGiven(item_id="p", opinion=1, contributor="ada")
    bad = OpinionGiven(item_id="q", opinion=opinion, contributor=contributor)
    with pytest.raises(PeerageError, match=wrong):
        keep_opinions(store, "r", [good, bad], SCALE, 1.0)
    assert store.contributions("opinions") == []


def test_contributions_are_exported_and_imported_once(store_url, tmp_path):
    store = open_store(store_url)
    keep_items(store, "ada", [ItemGiven(item_id="p", text="Why? \0", category="x")], 1.0)
    opine(store, "r", "p")
    export(store, tmp_path / "out")
    other = open_store(f"sqlite:///{tmp_path / 'other.db'}")
    for _ in range(2):
        take_export(other, tmp_path / "out")
        for kind in ("items", "opinions"):
            kept, given = other.contributions(kind), store.contributions(kind)
            assert [one for _, one in kept] == [one for _, one in given]


CRASH = """
import os, sys
from peerage.contributions import OpinionGiven, keep_opinions
from peerage.stores import open_store
store = open_store(sys.argv[1])
for i in range(20):
    given = OpinionGiven(item_id=f"p{i}", opinion=1, contributor="ada")
    keep_opinions(store, "r", [given], (-1, 1), 1.0)
print("stored", flush=True)
os.kill(os.getpid(), 9)
"""


def test_an_opinion_that_was_taken_survives_a_kill(store_url):
    done = subprocess.run(
        [sys.executable, "-c", CRASH, store_url], capture_output=True, check=False
    )
    assert done.stdout == b"stored\n"
    assert len(board(store_url)) == len(open_store(store_url).contributions("opinions")) == 20


def test_a_judged_session_is_in_one_file_of_the_mirror_and_boards_are_as_from_scratch(
    store_url, tmp_path
):
    async def hold():
        seats = [Seat(name, provider="simulated") for name in ("ann", "bob", "cyd")]
        async with Council(store=store_url, seats=seats, seed=1) as council:
            for i in range(3):
                await council.ask(f"Which is number {i}?")

    asyncio.run(hold())
    store, reports = open_store(store_url), reports_of(store_url)
    for person in ("Ada", "Bea"):
        reports.board(ModelBoardOptions(since="all"))
        ballot = next_ballot(store, person)
        said = PersonReview(ballot=ballot.id, ranking=list(ballot.labels))
        keep_review(store, person, said, lambda: 2e9)
    options = ModelBoardOptions(since="all")
    found = reports.board(options)
    mirror = sync_mirror(store, lambda _: None)
    held = [set(_sessions(file)) for file in mirror.segments]
    assert sum(map(len, held)) == len(set().union(*held)) == 3
    store.mirror_folder = tmp_path / "anew"
    fresh = reports_of(store_url)
    vars(fresh)["store"] = store
    assert fresh.board(options).rows == found.rows
    assert sum(row["total_votes"] for row in found.rows) == 3 * 6 + 2 * 3


def test_a_running_session_deals_no_ballots_to_people(tmp_path):
    async def hold():
        seats = [Seat(name, provider="simulated") for name in ("ann", "bob", "cyd")]
        async with Council(store=f"sqlite:///{tmp_path}/s.db", seats=seats, seed=1) as council:
            return (await council.ask("Which?")).id

    id_ = asyncio.run(hold())
    events = open_store(f"sqlite:///{tmp_path}/s.db").events(id_)
    assert may_review(events, "Ada")
    assert not may_review([event for event in events if event.kind != "finished"], "Ada")


def test_a_blind_ballot_does_not_show_the_quality_of_a_simulated_answer(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"

    async def hold():
        seats = [Seat(name, provider="simulated") for name in ("ann", "bob", "cyd")]
        async with Council(store=url, seats=seats, seed=1) as council:
            return await council.ask("Which?")

    answers = {one.text for one in asyncio.run(hold()).responses}
    ballot = next_ballot(open_store(url), "Ada").document(settings_of(None, {"store": url}))
    on_ballot = [one["text"] for one in ballot["responses"]]
    assert all("latent quality" in text for text in answers)
    assert not any("latent" in text or "(" in text for text in on_ballot)
    assert {text.removesuffix(".") for text in on_ballot} == {
        text.partition(" (latent")[0] for text in answers
    }


def _sessions(file):
    from peerage.engines.duckdb import DuckDB

    engine = DuckDB()
    engine.admit(str(file))
    return engine.arrays(engine.open(str(file)).select("session_id"))["session_id"].tolist()
