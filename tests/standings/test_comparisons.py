"""Bradley–Terry ratings from comparisons given as strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peerage.engines.duckdb import DuckDB
from peerage.errors import InputError
from peerage.rules.bradley_terry import CENTRE, SCALE, strengths
from peerage.standings.comparisons import board_comparisons, counted


def table(*rows: tuple[str, str, str]) -> dict[str, Any]:
    return {
        name: [row[i] for row in rows] for i, name in enumerate(("model_a", "model_b", "winner"))
    }


def test_comparisons_are_counted_with_ties_as_halves() -> None:
    given = table(("a", "b", "model_a"), ("b", "a", "model_a"), ("a", "b", "tie"))
    models, wins = counted(DuckDB(), given)
    assert models == ("a", "b")
    assert wins.tolist() == [[0.0, 1.5], [1.5, 0.0]]


def test_ratings_are_the_strengths_of_the_counts() -> None:
    rng = np.random.default_rng(0)
    names = np.array(list("abcd"), dtype=object)
    a = rng.integers(0, 4, 2_000)
    b = (a + rng.integers(1, 4, 2_000)) % 4
    winner = np.where(rng.random(2_000) < 1 / (1 + np.exp(0.5 * (a - b))), "model_a", "model_b")
    given = {"model_a": names[a], "model_b": names[b], "winner": winner}
    board = board_comparisons(given)
    _, wins = counted(DuckDB(), given)
    logs = dict(zip("abcd", strengths(wins), strict=True))
    for row in board.rows:
        assert row["rating"] == pytest.approx(CENTRE + SCALE * logs[row["model"]], abs=1e-9)
        assert row["rating_low"] < row["rating"] < row["rating_high"]
    assert [row["model"] for row in board.rows] == ["a", "b", "c", "d"]
    assert board.flags == ()


def test_a_record_without_a_maximum_says_that_a_prior_was_needed() -> None:
    assert board_comparisons(table(("a", "b", "model_a"))).flags == ("weak_prior",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", "b", "a"), "a winner cannot be a"),
        (("a", "a", "tie"), "a is compared with itself"),
    ],
)
def test_what_is_no_comparison_is_refused(row: tuple[str, str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        board_comparisons(table(row))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InputError, match="need the column winner"):
        board_comparisons({"model_a": ["a"], "model_b": ["b"]})
