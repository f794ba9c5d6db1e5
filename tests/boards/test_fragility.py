"""How few queries carry a board: exactly, as trying every subset finds."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage import board_models
from peerage.boards.fragility import QuerySums, influence_flip
from peerage.errors import PeerageError

SHARES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0])


def lead(values: Any, weights: Any, inside: list[int]) -> float | None:
    """The first model's mean less the second's over some queries; None where one is not there."""
    tops, bottoms = values[inside].sum(axis=0), weights[inside].sum(axis=0)
    if (bottoms <= 0.0).any():
        return None
    return float(tops[0] / bottoms[0] - tops[1] / bottoms[1])


def fewest_by_trying(values: Any, weights: Any) -> int | None:
    n = len(values)
    for k in range(n):
        for removed in combinations(range(n), k):
            rest = lead(values, weights, [i for i in range(n) if i not in removed])
            if rest is not None and rest < -1e-9:
                return k
    return None


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=9))
def test_a_board_without_absences_is_exact(pairs: list[tuple[float, float]]) -> None:
    values = np.array(pairs)
    if values[:, 0].sum() < values[:, 1].sum():
        values = values[:, ::-1]
    sums = QuerySums(values, np.ones_like(values))
    flip, expected = sums.flip(0, 1), fewest_by_trying(values, np.ones_like(values))
    assert (flip and flip.n) == expected
    if flip is not None:
        assert flip.exact
        rest = [i for i in range(len(values)) if i not in flip.queries]
        assert (lead(values, np.ones_like(values), rest) or 0.0) < 0.0


PRESENCE = st.sampled_from([(1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SHARES, SHARES, PRESENCE), min_size=2, max_size=9))
def test_a_board_with_absences_is_exact_where_it_says_so(rows: list[Any]) -> None:
    weights = np.array([row[2] for row in rows])
    values = np.array([row[:2] for row in rows]) * weights
    if (weights.sum(axis=0) <= 0.0).any() or (lead(values, weights, [*range(len(rows))]) or 0) < 0:
        return
    flip, expected = QuerySums(values, weights).flip(0, 1), fewest_by_trying(values, weights)
    if flip is None:
        assert expected is None or expected > 0
    else:
        assert expected is not None
        assert flip.n == expected if flip.exact else flip.n >= expected


def reviews(gaps: list[float], judges: str = "xyz", more: tuple[str, ...] = ()) -> list[Any]:
    return [
        {"session_id": f"s{i:03}", "reviewer": judge, "candidate": name, "score": score}
        for i, gap in enumerate(gaps)
        for judge in judges
        for name, score in (("a", 5.0 + gap), ("b", 5.0), *((one, 1.0) for one in more))
    ]


@pytest.mark.parametrize("rule", ["borda", "mean_rank", "hybrid", "bradley_terry"])
@pytest.mark.parametrize("n_extra", [1, 4, 9])
def test_a_planted_number_of_queries_is_found(rule: str, n_extra: int) -> None:
    gaps = [1.0] * (10 + n_extra) + [-1.0] * 10
    board = board_models(reviews(gaps), since="all", rule=rule, fragility=True)
    found = board.notes["fragility"]
    assert (found["first"]["model"], found["first"]["overtaken_by"]) == ("a", "b")
    assert found["first"]["queries"] == n_extra + 1
    assert found["queries"] == len(gaps)
    assert len(found["first"]["without"]) == n_extra + 1
    assert [row["queries"] for row in found["neighbours"]] == [n_extra + 1]


def test_repeats_of_a_query_go_together() -> None:
    rows = [
        {**row, "query_id": f"q{int(row['session_id'][1:]) // 5}"} for row in reviews([1.0] * 15)
    ]
    rows += [
        {**row, "session_id": f"t{row['session_id']}", "query_id": f"r{row['session_id']}"}
        for row in reviews([-1.0] * 8)
    ]
    found = board_models(rows, since="all", fragility=True).notes["fragility"]
    assert (found["first"]["queries"], found["queries"]) == (2, 11)


def test_a_model_that_wins_everywhere_cannot_be_overtaken() -> None:
    found = board_models(reviews([1.0] * 12), since="all", fragility=True).notes["fragility"]
    assert found["first"] is None
    assert found["neighbours"] == [{"above": "a", "below": "b", "queries": None, "exact": None}]


def test_the_judge_whose_absence_moves_most_is_that_of_boards_without_each() -> None:
    rng = np.random.default_rng(4)
    rows = [
        {"session_id": f"s{i}", "reviewer": j, "candidate": c, "score": float(rng.normal())}
        for i in range(30)
        for j in "wxyz"
        for c in "abcd"
    ]
    judge = board_models(rows, since="all", fragility=True).notes["fragility"]["judge"]
    shares = {r["model"]: r["share"] for r in board_models(rows, since="all").rows}
    moves = {}
    for name in "wxyz":  # all ballots rank all models, so plain shares are those on common cells
        left = board_models(rows, since="all", without=name).rows
        moves[name] = max((abs(r["share"] - shares[r["model"]]), r["model"]) for r in left)
    expected = max(moves, key=lambda name: moves[name][0])
    assert (judge["reviewer"], judge["model"]) == (expected, moves[expected][1])
    assert abs(judge["moved"]) == pytest.approx(moves[expected][0])


def test_more_than_a_thousand_queries_are_counted_one_by_one() -> None:
    gaps = [1.0] * 1010 + [-1.0] * 1000
    found = board_models(reviews(gaps, "x"), since="all", fragility=True).notes["fragility"]
    assert (found["queries"], found["first"]["queries"], found["first"]["exact"]) == (
        2010,
        11,
        True,
    )


def test_what_has_no_fragility_is_refused() -> None:
    for options in ({"rule": "elo"}, {"by_category": True}):
        with pytest.raises(PeerageError, match="is not available"):
            board_models(reviews([1.0] * 4), fragility=True, **options)


def test_an_influence_step_is_corrected_by_fitting_again() -> None:
    pulls = np.array([3.0, 2.0, 1.0, -1.0])
    flip = influence_flip(2.5, pulls, lambda inside: float(pulls[inside].sum()) - 1.5)
    assert flip is not None
    assert flip.queries == (0, 1)
    assert influence_flip(9.0, pulls) is None


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["borda", "mean_rank", "hybrid"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_smaller_set_of_queries_changes_the_first_place_of_a_board(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        {
            "session_id": f"s{i}",
            "reviewer": judge,
            "candidate": name,
            "score": float(np.clip(np.rint(6.0 + lift + 2.0 * rng.normal()), 1, 10)),
        }
        for i in range(7)
        for judge in "xy"
        for name, lift in (("a", 1.0), ("b", 0.3), ("c", -1.0))
    ]

    def first_without(queries: set[str]) -> str:
        rest = [row for row in rows if row["session_id"] not in queries]
        return str(board_models(rest, since="all", rule=rule).rows[0]["model"])

    first = board_models(rows, since="all", rule=rule, fragility=True).notes["fragility"]["first"]
    assert first["exact"]
    removed = {unit.removeprefix("session ") for unit in first["without"]}
    assert len(removed) == first["queries"]
    assert first_without(removed) == first["overtaken_by"]
    sessions = [f"s{i}" for i in range(7)]
    for some in combinations(sessions, first["queries"] - 1):
        assert first_without(set(some)) == first["model"]
