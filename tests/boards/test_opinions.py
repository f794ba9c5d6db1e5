"""Ranks, intervals and board rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards import Board
from peerage.boards.community import fisher_intervals
from peerage.boards.opinions import rank_values
from peerage.stats.correlations import fisher_interval


def test_equal_scores_share_a_rank_and_are_listed_by_name() -> None:
    third = 1 / 3 + 1e-16
    order, rank = rank_values(np.array([0.1, third, 1 / 3, 2.0]))
    assert order.tolist() == [3, 1, 2, 0]
    assert rank.tolist() == [4, 2, 2, 1]


def test_those_who_are_not_ranked_come_last() -> None:
    order, rank = rank_values(np.array([3.0, 1.0, 2.0]), among=np.array([False, True, True]))
    assert order.tolist() == [2, 1, 0]
    assert rank.tolist() == [0, 2, 1]


@given(st.lists(st.integers(-3, 3), max_size=12))
def test_a_rank_is_one_more_than_the_number_of_better_ones(values: list[int]) -> None:
    _, rank = rank_values(np.array(values, dtype=np.float64))
    assert rank.tolist() == [1 + sum(other > value for other in values) for value in values]


@given(st.floats(-1, 1), st.integers(0, 500))
def test_many_intervals_are_the_one_interval(r: float, n: int) -> None:
    """The same Fisher interval, an array at a time."""
    low, high = fisher_intervals(np.array([r]), np.array([n]))
    one = fisher_interval(r, n)
    if one is None:
        assert np.isnan(low[0])
        assert np.isnan(high[0])
    else:
        assert (low[0], high[0]) == pytest.approx(one, abs=1e-12)


def test_a_row_has_none_where_a_column_has_nan() -> None:
    board = Board("x", {"name": np.array(["a"], dtype=object), "value": np.array([np.nan])})
    assert board.rows == [{"name": "a", "value": None}]
    assert len(board) == 1
    assert Board("x", {}).rows == []
