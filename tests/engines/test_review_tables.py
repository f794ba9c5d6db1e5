"""What is wrong with a reviews table is said by name, with its rows."""

from __future__ import annotations

from typing import Any

import pytest

from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews, refuse_duplicates
from peerage.errors import InputError
from peerage.reports.from_tables import audit, board_models
from peerage.reviews.rows import take_census

GOOD: dict[str, list[Any]] = {
    "session_id": ["s", "s", "t"],
    "reviewer": ["a", "b", "a"],
    "candidate": ["c", "c", "c"],
    "score": [1.0, 2.0, 3.0],
}


def look(**changes: Any) -> Any:
    table = {name: values for name, values in {**GOOD, **changes}.items() if values is not None}
    return read_reviews(DuckDB(), table)


def test_a_good_table_is_counted() -> None:
    found = look()
    assert (found.n_rows, found.n_scores, found.n_ranks, found.not_finite) == (3, 3, 0, 0)


def test_a_missing_column_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"needs the column reviewer.*session_id, candidate"):
        look(reviewer=None)
    with pytest.raises(InputError, match="`rank` or a `score`"):
        look(score=None)


def test_an_empty_name_is_refused_with_its_row() -> None:
    with pytest.raises(InputError, match=r"`reviewer` is empty in 1 row.*row 2: session_id s"):
        look(reviewer=["a", None, "a"])


def test_a_score_that_is_a_word_is_refused_with_its_row() -> None:
    with pytest.raises(InputError, match=r"not a number.*row 2: score 'good'"):
        look(score=["1", "good", "3"])


def test_scores_written_as_text_are_numbers() -> None:
    assert look(score=["1", "2.5", None]).n_scores == 2


def test_a_rank_below_one_and_a_negative_position_are_refused() -> None:
    with pytest.raises(InputError, match=r"`rank` is below 1.*row 1"):
        look(rank=[0, 1, 2])
    with pytest.raises(InputError, match=r"`position` is below 0.*row 3"):
        look(position=[0, 1, -1])


def test_only_the_first_ten_rows_are_shown() -> None:
    n = 25
    table = {
        "session_id": [f"s{i}" for i in range(n)],
        "reviewer": [None] * n,
        "candidate": ["c"] * n,
        "score": [1.0] * n,
    }
    with pytest.raises(InputError) as refused:
        read_reviews(DuckDB(), {**table, "reviewer": ["x", *[None] * (n - 1)]})
    assert str(refused.value).count("row ") == 10


def test_nan_and_infinity_are_no_scores_and_are_counted() -> None:
    found = look(score=[float("inf"), 2.0, 3.0])
    assert found.n_scores == 2
    assert found.not_finite == 1


@pytest.mark.parametrize("number", [1e308, -1e308, 1.1e9])
@pytest.mark.parametrize("column", ["score", "mark_accuracy", "round", "correct"])
def test_a_number_that_no_board_can_add_up_is_refused_with_its_row(
    column: str, number: float
) -> None:
    with pytest.raises(InputError) as refused:
        look(**{column: [1.0, number, 3.0]})
    assert f"`{column}` is out of range in 1 row." in str(refused.value)
    assert "row 2: session_id s, reviewer b, candidate c" in str(refused.value)


@pytest.mark.parametrize("column", ["words", "position", "place", "truncated"])
def test_an_infinite_number_beside_the_judgements_is_refused(column: str) -> None:
    with pytest.raises(InputError, match=f"`{column}` is out of range"):
        look(**{column: [1.0, float("inf"), 3.0]})


def test_an_infinite_score_is_no_example_of_one_out_of_range() -> None:
    with pytest.raises(InputError) as refused:
        look(score=[float("inf"), 1e10, 3.0])
    assert "row 1" not in str(refused.value)
    assert "row 2" in str(refused.value)


@pytest.mark.parametrize("at", [1e30, -1e308, float("inf")])
def test_a_time_that_is_in_no_calendar_is_refused(at: float) -> None:
    comparison = {"model_a": ["a"], "model_b": ["b"], "winner": ["model_a"], "at": [at]}
    for table in ({**GOOD, "at": [1.7e9, at, 1.7e9]}, comparison):
        with pytest.raises(InputError, match="`at` is out of range"):
            read_reviews(DuckDB(), table)


def test_a_time_that_is_no_number_is_no_time() -> None:
    assert look(at=[1.7e9, float("nan"), 1.6e9]).latest == 1.7e9


def test_a_review_said_twice_is_refused_with_its_names() -> None:
    engine = DuckDB()
    found = read_reviews(engine, {**GOOD, "session_id": ["s", "s", "s"]})
    with pytest.raises(InputError, match=r"twice in one round.*session_id s, reviewer a"):
        refuse_duplicates(engine, found.frame, found.columns)
    fine = read_reviews(engine, {**GOOD, "session_id": ["s", "s", "s"], "round": [0, 0, 1]})
    refuse_duplicates(engine, fine.frame, fine.columns)


@pytest.mark.parametrize("family", [["x", "x", "x"], ["u", "v", "u"]])
def test_a_family_may_be_the_candidates_or_the_reviewers(family: list[str]) -> None:
    engine = DuckDB()
    found = read_reviews(engine, {**GOOD, "family": family})
    (census,) = found.load().map(take_census)
    assert census.family_by_name is not None
    assert set(census.family_by_name.values()) == set(family)


def test_a_family_of_neither_is_refused_by_an_audit_and_no_matter_to_a_board() -> None:
    table = {**GOOD, "family": ["x", "y", "z"]}
    with pytest.raises(InputError, match="several families"):
        audit(table)
    assert len(board_models(table)) == 1


def test_names_of_numbers_are_texts_like_any_other() -> None:
    found = look(session_id=[1, 1, 2])
    assert found.n_rows == 3


def test_a_column_that_holds_nothing_is_as_good_as_missing() -> None:
    found = look(words=[None, None, None], family=[None, None, None], rank=[None, None, None])
    assert found.columns == ("session_id", "reviewer", "candidate", "rank", "score")
