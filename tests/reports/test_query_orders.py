"""The order of a gate's looks: drawn or recorded, else by a hash, and kept from look to look."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerage import Council
from peerage.boards.differences import JudgeView, QueryDifferences, order_digest
from peerage.config import Settings
from peerage.doors.cli.run import draw_order
from peerage.imports.prompt_files import open_prompts
from peerage.reports import Reports
from peerage.reports.gate_files import bar_document
from peerage.reports.options import BarOptions, GateOptions
from peerage.reports.query_orders import (
    BY_HASH,
    BY_PROMPTS,
    BY_SEED,
    SeasonOrder,
    StoredLooks,
    UnfinishedSession,
    order_queries,
    read_season_order,
    short_hash,
)
from peerage.reports.stopping import SeasonWatch, StoppingRule, count_by_query
from peerage.season import Progress
from peerage.stores import open_store
from peerage.types import Seat

N = 60


def differences(values: list[float], categories: list[str] | None = None) -> QueryDifferences:
    """A query a value, each with one session; the session's place is that in the list."""
    n = len(values)
    return QueryDifferences(
        tuple(f"query q{i:03}" for i in range(n)),
        np.array([values]),
        tuple((f"s{i}",) for i in range(n)),
        (JudgeView(0, 0),) * n,
        categories=tuple(categories or ()),
    )


RECORDED = SeasonOrder({f"s{i}": i for i in range(N)})
MIXED = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], N).tolist()


def test_a_recorded_order_is_used_if_it_goes_with_nothing() -> None:
    some = differences(MIXED, ["a", "b", "c"] * (N // 3))
    order = order_queries([some], RECORDED)
    assert (order.words, order.units, order.flags) == (BY_PROMPTS, some.units, ())


@pytest.mark.parametrize(
    ("values", "categories", "words"),
    [
        (MIXED, ["a"] * 30 + ["b"] * 30, "goes with the categories of its queries (p 0.005)"),
        ([-1.0] * 30 + [1.0] * 30, None, "goes with their outcomes (p 0.005)"),
    ],
)
def test_an_order_that_goes_with_categories_or_outcomes_is_not_used_and_named(
    values: list[float], categories: list[str] | None, words: str
) -> None:
    some = differences(values, categories)
    order = order_queries([some], RECORDED)
    assert order.words == BY_HASH
    assert order.units == tuple(sorted(some.units, key=order_digest))
    assert words in order.flags[0]


def test_queries_that_were_looked_at_stay_in_front() -> None:
    first, grown = differences(MIXED[:40]), differences(MIXED)
    before = order_queries([first])
    after = order_queries([grown], earlier=[short_hash(unit) for unit in before.units])
    assert after.units[:40] == before.units
    assert after.words == f"{BY_HASH}, after the 40 queries looked at before"
    assert set(after.units) == set(grown.units)


def waiting(*places: int) -> tuple[UnfinishedSession, ...]:
    return tuple(UnfinishedSession(f"s{i}", f"query q{i:03}", "a") for i in places)


def drawn(unfinished: tuple[UnfinishedSession, ...] = ()) -> SeasonOrder:
    keys = {f"s{i}": (0.0, bytes([N - i])) for i in range(N)}
    return replace(RECORDED, is_drawn=True, key_by_session=keys, unfinished=unfinished)


def test_looks_in_a_drawn_order_wait_for_the_first_unfinished_session() -> None:
    some = differences(MIXED)
    assert order_queries([some], drawn()).units == some.units[::-1]
    order = order_queries([some], drawn(waiting(9, 4)))
    assert order.units == some.units[:9:-1]
    assert "10 finished queries wait for session s9" in order.flags[0]
    other = order_queries([some], drawn(waiting(9)), on="b")  # of another category
    assert other.units == some.units[::-1]
    none = order_queries([some], drawn(waiting(N - 1)))
    assert (none.units, len(none.flags)) == ((), 1)


def test_looks_in_a_recorded_order_or_by_the_hash_wait_too() -> None:
    some = differences(MIXED)
    order = order_queries([some], replace(RECORDED, unfinished=waiting(50)))
    assert (order.words, order.units) == (BY_PROMPTS, some.units[:50])
    sorted_ = differences([-1.0] * 30 + [1.0] * 30)
    hashed = sorted(sorted_.units, key=order_digest)
    n, place = next((n, at) for n, u in enumerate(hashed) if (at := sorted_.units.index(u)) > 50)
    order = order_queries([sorted_], replace(RECORDED, unfinished=waiting(place)))
    assert (order.words, order.units) == (BY_HASH, tuple(hashed[:n]))
    earlier = [short_hash(hashed[n])]  # it was looked at before seats joined it
    again = order_queries([some], replace(RECORDED, unfinished=waiting(place)), earlier=earlier)
    assert again.units[0] == hashed[n]
    assert set(again.units) == set(some.units)


def test_the_looks_of_a_store_are_kept_by_what_is_compared(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 's.db'}", None)
    looks = StoredLooks(store, {"since": "all"})
    bar = bar_document(BarOptions(base="a", candidate="b"))
    assert looks.earlier(bar) == ()
    assert looks.keep(bar, ["query 2", "query 1"])
    assert looks.keep(bar, ["query 1", "query 2", "query 3"])
    kept = tuple(map(short_hash, ["query 2", "query 1", "query 3"]))
    assert looks.earlier(bar) == kept
    assert looks.earlier({**bar, "margin": 0.2}) == kept  # the order does not depend on it
    assert looks.earlier({**bar, "candidate": "c"}) == ()
    assert StoredLooks(store, {"since": "7d"}).earlier(bar) == ()
    asyncio.run(store.close())


# -- seasons ---------------------------------------------------------------------------------------

SEATS = [
    Seat(name, provider="simulated", options={"quality": one, "spread": 0.7}, roles=("answer",))
    for name, one in {"old": 7.0, "new": 6.6, "third": 6.0}.items()
] + [Seat(name, provider="simulated", roles=("review",)) for name in "xyz"]


def run_season(folder: Path, rows: list[dict[str, Any]], *, until: str = "") -> tuple[str, str]:
    """Run the prompts of a file, with or without a rule; return the store and the season's id."""
    file, store = folder / "prompts.jsonl", f"sqlite:///{folder / 'season.db'}"
    file.write_text("\n".join(map(json.dumps, rows)))

    async def hold() -> str:
        async with Council(store=store, seats=SEATS, seed=3, verdict="none") as council:
            season, prompts = council.season("one"), open_prompts(file)
            if until:
                counts = count_by_query(row.query_id for row in prompts)
                rule = StoppingRule(until, BarOptions(base="old", candidate="new"))
                watch = SeasonWatch(rule, counts, lambda _: None)
                prompts, season = draw_order(council.store, season, prompts, watch)
            progress = Progress(prompts.n)
            await council.run_season(season, prompts, concurrency=4, progress=progress)
            return season.id

    return store, asyncio.run(hold())


def questions(n: int, **more: Any) -> list[dict[str, Any]]:
    return [{"query": f"question {i}", **more} for i in range(n)]


def gate_of(store: str, season: str) -> Any:
    reports = Reports(Settings(store=store))
    try:
        return reports.gate(GateOptions(base="old", candidate="new", season=season))
    finally:
        asyncio.run(reports.store.close())


def test_a_season_sorted_by_category_says_so_and_goes_by_the_hash(tmp_path: Path) -> None:
    rows = [*questions(8, category="code"), *questions(16, category="text")[8:]]
    result = gate_of(*run_season(tmp_path, rows))
    assert result.order == BY_HASH
    assert any("goes with the categories" in flag for flag in result.flags)


def test_an_order_drawn_from_the_seed_is_in_the_log_and_grows_at_its_end(tmp_path: Path) -> None:
    store, season = run_season(tmp_path, questions(5), until="top:2")
    first = gate_of(store, season)
    assert first.order == BY_SEED
    opened = open_store(store, None)
    order = read_season_order(opened, season)
    places = order.place_by_session
    assert sorted(places, key=places.__getitem__) == sorted(
        places, key=order.key_by_session.__getitem__
    )
    assert (order.is_drawn, order.n_repeats, order.next_batch) == (True, 1, 1)
    asyncio.run(opened.close())
    run_season(tmp_path, questions(9), until="top:2")
    later = gate_of(store, season)
    assert later.order == BY_SEED
    assert (first.n_queries, later.n_queries) == (5, 9)
    looks = [{look.n: look.mean for look in one.measures[0].looks} for one in (first, later)]
    assert looks[0] == {n: mean for n, mean in looks[1].items() if n <= 5}


def test_a_gate_that_is_asked_again_when_a_store_grew_keeps_its_looks(tmp_path: Path) -> None:
    store, season = run_season(tmp_path, questions(5))
    first = gate_of(store, season)
    assert first.keeps_looks
    run_season(tmp_path, questions(9))
    later = gate_of(store, season)
    looks = [{look.n: look.mean for look in one.measures[0].looks} for one in (first, later)]
    assert looks[0] == {n: mean for n, mean in looks[1].items() if n <= 5}
    assert "after the 5 queries looked at before" in later.order
