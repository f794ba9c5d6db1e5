"""Panels and sets of reviews compared on the pairs of answers that both judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peerage
from peerage.boards.common_cells import (
    MIN_CLUSTERS,
    PairCells,
    compare_results,
    compare_sets,
    pair_cells,
)
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.reviews.rows import Rows

MODELS = ("a", "b", "c", "d", "e")
Table = list[dict[str, Any]]


def season(
    n: int,
    seed: int = 1,
    noise: float = 0.0,
    present: float = 0.8,
    reviews: float = 0.8,
    likes: tuple[str, str, float] = ("", "", 0.0),
) -> Table:
    """Peers of unequal skill; models and reviews are missing at random."""
    rng, rows = np.random.default_rng(seed), Table()
    for session in range(n):
        quality = dict(zip(MODELS, rng.normal(size=5) + 0.4 * np.arange(5), strict=True))
        there = [name for name in MODELS if rng.random() < present]
        for judge in MODELS:
            if rng.random() > reviews:
                continue
            seen = {name: quality[name] + noise * rng.normal() for name in there if name != judge}
            if judge == likes[0] and likes[1] in seen:
                seen[likes[1]] += likes[2]
            row = {"session_id": f"s{session:03}", "reviewer": judge}
            order = sorted(seen, key=lambda name: -seen[name])
            rows += [{**row, "candidate": m, "rank": float(k)} for k, m in enumerate(order, 1)]
    return rows


def rows_of(table: Table) -> Rows:
    (rows,) = read_reviews(DuckDB(), pa.Table.from_pylist(table)).load().settle().map(lambda r: r)
    return rows


def by(cells: PairCells, judges: Sequence[str]) -> Any:
    return cells.results(np.array([name in judges for name in cells.judges]))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sets(st.sampled_from(MODELS), min_size=1),
    st.sets(st.sampled_from(MODELS), min_size=1),
    st.sampled_from([0.5, 0.8, 1.0]),
)
def test_any_two_panels_of_identical_judges_give_exactly_no_change(seed, first, second, present):
    table = season(25, seed, present=present, reviews=present)
    cells = pair_cells(rows_of(table))
    panels = compare_results(cells, by(cells, sorted(first)), by(cells, sorted(second)))
    a, b = ([row for row in table if row["reviewer"] in some] for some in (first, second))
    changes = [panels.change]
    if _ranked(a) & _ranked(b):
        changes.append(np.array([one.difference or 0.0 for one in peerage.diff(a, b).models]))
    for change in changes:
        assert set(change[np.isfinite(change)].tolist()) <= {0.0}


def _ranked(table: Table) -> set[str]:
    board = peerage.board_models(pa.Table.from_pylist(table), since="all") if table else ()
    return {row["model"] for row in (board.rows if table else ()) if row["rank"] is not None}


def test_reports_find_nothing_in_identical_judges():
    table = pa.Table.from_pylist(season(60, present=0.6))
    for missing in ("a", "b"):
        fragility = peerage.board_models(table, since="all", fragility=True).notes["fragility"]
        assert fragility["judge"]["moved"] == 0.0, missing
    advice = peerage.advise(table, since="all", within=0.001)
    assert {one.moves for one in advice.judges} == {0.0}
    assert {one.rmse for one in advice.panels if np.isfinite(one.rmse)} == {0.0}
    assert advice.cheapest is not None
    assert advice.cheapest.bound == 0.0


def test_a_judge_who_likes_a_model_is_the_one_whose_absence_changes_it():
    table = pa.Table.from_pylist(season(60, noise=0.1, likes=("d", "a", 3.0)))
    judge = peerage.board_models(table, since="all", fragility=True).notes["fragility"]["judge"]
    assert (judge["reviewer"], judge["model"]) == ("d", "a")
    assert judge["moved"] < -0.02


def test_a_panel_that_likes_a_model_moves_it_beyond_chance():
    own = season(80, seed=3, noise=0.5)
    new = season(80, seed=3, noise=0.5)
    for row in new:
        row["reviewer"] = f"new {row['reviewer']}"
    liked = [{**row, "rank": 0.5 if row["candidate"] == "a" else row["rank"] + 1} for row in new]
    moved = {
        one.model: one
        for one in peerage.diff(own, [{**r, "rank": r["rank"] + 0.5} for r in liked]).models
    }
    assert moved["a"].moved
    assert moved["a"].difference > 0.2


def test_fewer_than_ten_queries_have_a_change_without_an_interval():
    for n, known in ((MIN_CLUSTERS - 1, False), (MIN_CLUSTERS, True)):
        cells = pair_cells(rows_of(season(n, noise=0.7, present=1.0, reviews=1.0)))
        change = compare_results(cells, by(cells, "abc"), by(cells, "cde"))
        assert np.isfinite(change.change).all()
        assert np.isfinite(change.low).all() == known


def test_cells_that_do_not_connect_all_models_cannot_be_compared():
    apart = [
        {"session_id": f"s{i}", "reviewer": "r", "candidate": name, "rank": rank}
        for i in range(12)
        for name, rank in (("a", 1.0), ("b", 2.0))
        if i % 2
    ] + [
        {"session_id": f"s{i}", "reviewer": "r", "candidate": name, "rank": rank}
        for i in range(0, 12, 2)
        for name, rank in (("c", 1.0), ("d", 2.0))
    ]
    changes = peerage.diff(apart, apart).models
    assert {(one.difference, one.low) for one in changes} == {(None, None)}


def test_sets_without_a_common_query_are_compared_on_the_pairs_of_models_in_both():
    first, second = (
        pair_cells(rows_of(season(60, seed, present=1.0, reviews=1.0))) for seed in (1, 2)
    )
    renamed = [
        {**row, "session_id": f"t{row['session_id']}"}
        for row in season(60, 2, present=1.0, reviews=1.0)
    ]
    change = compare_sets(first, pair_cells(rows_of(renamed)))
    assert np.isfinite(change.change).all()
    assert not change.moved.any()
    assert change.n_queries.tolist() == [120] * len(MODELS)
    paired = compare_sets(first, second)
    assert paired.n_queries.tolist() == [60] * len(MODELS)


@pytest.mark.slow
def test_intervals_of_a_change_between_equal_panels_hold_zero_in_95_percent():
    n, n_right, n_named = 200, 0, 0
    for seed in range(n):
        cells = pair_cells(rows_of(season(20, seed, noise=0.7, present=0.8)))
        change = compare_results(cells, by(cells, "abc"), by(cells, "cde"))
        n_named += bool(change.moved.any())
        n_right += int((~change.moved).sum())
    assert n_right / (n * len(MODELS)) >= 0.93
    assert n_named / n <= 0.05 + 0.03


def test_two_way_intervals_of_identical_judges_are_those_over_sessions():
    table = pa.Table.from_pylist(season(60, present=1.0, reviews=1.0))
    plain, both = (
        peerage.board_models(table, since="all", interval=one) for one in ("sessions", "two-way")
    )
    for one, other in zip(plain.rows, both.rows, strict=True):
        assert other["share_high"] - other["share"] == pytest.approx(
            one["share_high"] - one["share"], rel=0.02
        )


def test_a_gate_compares_two_models_on_the_rivals_that_both_met():
    ranked = {"x": "bacd", "y": "ba", "z": "acd"}
    table = [
        {"session_id": f"s{i}", "reviewer": judge, "candidate": name, "rank": float(place)}
        for i in range(30)
        for judge, order in ranked.items()
        for place, name in enumerate(order, 1)
    ]
    result = peerage.gate(pa.Table.from_pylist(table), since="all", base="a", candidate="b")
    assert result.measures[0].difference == pytest.approx(1 / 3)  # plain shares: 1 and 5 / 9


def test_a_gate_of_complete_ballots_compares_plain_shares():
    table = season(40, noise=0.5, present=1.0, reviews=1.0)
    board = peerage.board_models(pa.Table.from_pylist(table), since="all")
    share = dict(zip(board.columns["model"], board.columns["share"], strict=True))
    result = peerage.gate(pa.Table.from_pylist(table), since="all", base="a", candidate="b")
    assert result.measures[0].difference == pytest.approx(share["b"] - share["a"], abs=1e-9)
