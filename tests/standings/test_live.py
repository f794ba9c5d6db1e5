"""A board from running sums is the board of the rows, whatever came and in whatever order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerage.boards import Board
from peerage.convening import Council, law_then, settings_of
from peerage.engines.duckdb import DuckDB
from peerage.engines.mirror import MANY, Mirror
from peerage.importing import take
from peerage.scoring import Law
from peerage.standings import board_models
from peerage.standings.live import board_of_store, refresh
from peerage.standings.running import files_in, loaded
from peerage.standings.terms import Terms
from peerage.stores import Store, open_store
from peerage.tables import reviews_in

DAY_S = 86_400.0
ENGINE = DuckDB()
NOW = time.time() - 10.0  # sessions held by a test come later
CONFIG = """
[council]
seed = 7
[[seat]]
name = "able"
provider = "simulated"
[[seat]]
name = "baker"
provider = "simulated"
[[seat]]
name = "charlie"
provider = "simulated"
"""
TERMS = [
    Terms(since="all"),
    Terms(),
    Terms(since="12h"),
    Terms(since="37.5d", rule="hybrid", own_votes="in"),
    Terms(since="5d", matrix=True, interval="two-way"),
    Terms(since="all", rule="bradley_terry"),
    Terms(since="8d", history="week", compare_rules=True),
]


@pytest.fixture
def council(tmp_path: Path) -> Path:
    file = tmp_path / "peerage.toml"
    file.write_text(f'store = "sqlite:///{tmp_path}/peerage.db"\n{CONFIG}')
    return file


def law_for(recorded: Mapping[str, Any]) -> Law:
    return law_then(settings_of(None, {}), recorded)


def store_of(config: Path) -> Store:
    return open_store(settings_of(config, {}).store)


def held(config: Path, n: int = 1) -> None:
    async def scene() -> None:
        async with Council.from_config(config) as sitting:
            for i in range(n):
                await sitting.ask(f"Which is number {i}?")

    asyncio.run(scene())


def reviews(folder: Path, name: str, models: str, n: int = 40, days: float = 50.0) -> Path:
    """A CSV of sessions spread evenly over the last days."""
    rng = np.random.default_rng(len(name) + n)
    lines = ["session_id,reviewer,candidate,rank,score,at"]
    for i in range(n):
        at = NOW - days * DAY_S * (1.0 - i / n)
        for reviewer in models:
            order = rng.permutation(len(models))
            lines += [
                f"{name}-{i},{reviewer},{models[c]},{r + 1},{9 - r},{at}"
                for r, c in enumerate(order)
            ]
    file = folder / f"{name}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def imported(store: Store, file: Path) -> None:
    take(store, file, "reviews", lambda: NOW)


def live(store: Store, terms: Terms) -> Board:
    return board_of_store(store, law_for, terms, ENGINE, few_rows=0)


def scratch(store: Store, terms: Terms, monkeypatch: pytest.MonkeyPatch) -> Board:
    """The board of all rows, by sums of products as a large table's is."""
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    return board_models([str(path) for path in reviews_in(store, law_for)], terms)


def same(one: Board, other: Board) -> bool:
    return _near(one.document(), other.document())


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: f"{terms.since} {terms.rule}")
def test_running_sums_give_the_board_of_the_rows(
    council: Path, tmp_path: Path, terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(council)
    imported(store, reviews(tmp_path, "first", "abcd"))
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    assert same(live(store, terms), scratch(store, terms, monkeypatch))
    imported(store, reviews(tmp_path, "older", "cdef", days=400.0))  # periods grow longer
    held(council, 2)
    store = store_of(council)
    board = live(store, terms)
    assert same(board, scratch(store, terms, monkeypatch))
    assert "able" in board.columns["model"]


def test_what_was_added_up_is_not_read_again(
    council: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    store = store_of(council)
    imported(store, reviews(tmp_path, "first", "abcd"))
    board = live(store, Terms(since="all"))
    for path in Mirror(store.mirror_folder).folder.glob("reviews-*.parquet"):
        path.write_bytes(b"no longer Parquet")
    assert same(live(store, Terms(since="all")), board)


def test_sums_that_do_not_fit_the_store_are_made_anew(
    council: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    store = store_of(council)
    imported(store, reviews(tmp_path, "first", "abcd"))
    board = live(store, Terms())
    (file,) = files_in(store.mirror_folder)
    file.write_bytes(b"half a file")
    assert same(live(store, Terms()), board)
    (file,) = files_in(store.mirror_folder)
    assert loaded(file).facts.n_rows == 40 * 16


def test_a_session_in_two_files_is_one_session(
    council: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(council)
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    lines = reviews(tmp_path, "whole", "abcd").read_text().splitlines()
    for name, who in (("one", "ab"), ("two", "cd")):
        rows = [line for line in lines[1:] if line.split(",")[1] in who]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *rows]) + "\n")
        imported(store, tmp_path / f"{name}.csv")
    board = live(store, Terms())
    assert board.notes["sessions"] == scratch(store, Terms(), monkeypatch).notes["sessions"]
    assert same(board, scratch(store, Terms(), monkeypatch))


def test_a_session_whose_reviews_took_days_is_in_the_window_as_a_whole(
    council: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(council)
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    lines = reviews(tmp_path, "slow", "abcd").read_text().splitlines()
    rows = [line.rsplit(",", 1) for line in lines[1:]]
    late = [f"{head},{float(at) - (i % 4) * DAY_S}" for i, (head, at) in enumerate(rows)]
    (tmp_path / "slow.csv").write_text("\n".join([lines[0], *late]) + "\n")
    imported(store, tmp_path / "slow.csv")
    terms = Terms(since="9.5d")
    assert same(live(store, terms), scratch(store, terms, monkeypatch))


def test_storing_a_session_may_bring_the_sums_up_to_date(
    council: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    store = store_of(council)
    refresh(store, law_for, ENGINE)
    assert files_in(store.mirror_folder) == []  # no board has asked for any
    imported(store, reviews(tmp_path, "first", "abcd"))
    live(store, Terms())
    held(council)
    store = store_of(council)
    refresh(store, law_for, ENGINE)
    (file,) = files_in(store.mirror_folder)
    assert "able" in loaded(file).facts.models


def test_many_small_segments_are_joined_and_nothing_is_lost(
    council: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.standings.table.FEW_ROWS", 0)
    for _ in range(MANY + 2):
        held(council)
        board = live(store_of(council), Terms())
    store = store_of(council)
    assert len(Mirror(store.mirror_folder).segments) < MANY
    assert board.notes["sessions"] == MANY + 2
    assert same(board, scratch(store, Terms(), monkeypatch))


def test_an_empty_store_has_an_empty_board(council: Path) -> None:
    board = live(store_of(council), Terms())
    assert board.rows == []
    assert "model" in board.columns
