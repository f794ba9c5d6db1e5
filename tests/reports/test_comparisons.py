"""Comparisons two by two are reviews like any other, and Bradley–Terry only has to count them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import peerage
from peerage.doors.render.phrases import ranking_line
from peerage.engines import utf8_in
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.errors import InputError
from peerage.imports.files import open_reviews
from peerage.imports.formats import arena
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.checksums import MANY, MAX_BYTES, Utf8Texts
from peerage.reviews.rows import (
    buckets_of,
    buckets_of_numbers,
    buckets_of_queries,
    unit_of,
)

NAMES = ("able", "baker", "charlie", "dog", "easy")


def comparisons(n: int, seed: int = 0, **columns: Any) -> dict[str, list[Any]]:
    """Comparisons of five models that get better by name, one in ten a tie."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, len(NAMES), n)
    b = (a + rng.integers(1, len(NAMES), n)) % len(NAMES)
    won = rng.random(n) < 1.0 / (1.0 + np.exp(0.5 * (b - a)))
    outcome = np.where(rng.random(n) < 0.1, 2, np.where(won, 0, 1))
    return {
        "model_a": [NAMES[i] for i in a],
        "model_b": [NAMES[i] for i in b],
        "winner": [("model_a", "model_b", "tie")[i] for i in outcome],
        **columns,
    }


def unpivoted(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The same as a person would write it by hand as reviews."""
    rows = []
    for i, (a, b, winner) in enumerate(
        zip(table["model_a"], table["model_b"], table["winner"], strict=True)
    ):
        rows.append((f"s{i:05}", a, 2 if winner == "model_b" else 1))
        rows.append((f"s{i:05}", b, 2 if winner == "model_a" else 1))
    session, candidate, rank = zip(*rows, strict=True)
    judge = ["judge"] * len(rows)
    return {
        "session_id": list(session),
        "reviewer": judge,
        "candidate": list(candidate),
        "rank": list(rank),
    }


@pytest.mark.parametrize("rule", ["borda", "bradley_terry", "elo", "copeland"])
def test_a_few_comparisons_have_the_board_of_their_reviews(rule: str) -> None:
    table = comparisons(300)
    ours = peerage.board_models(table, rule=rule, since="all")
    plain = peerage.board_models(unpivoted(table), rule=rule, since="all")
    for one, other in zip(ours.rows, plain.rows, strict=True):
        assert one == {
            k: pytest.approx(v, abs=1e-8) if isinstance(v, float) else v for k, v in other.items()
        }
    assert ours.notes == plain.notes


@pytest.mark.parametrize("rule", ["borda", "bradley_terry"])
def test_intervals_of_many_comparisons_are_those_of_their_reviews_grouped_otherwise(
    rule: str,
) -> None:
    table = comparisons(20_000)
    ours = peerage.board_models(table, rule=rule, since="all")
    plain = peerage.board_models(unpivoted(table), rule=rule, since="all")
    value = "value" if rule == "bradley_terry" else "share"
    for one, other in zip(ours.rows, plain.rows, strict=True):  # 1,024 groups, by other names
        assert one[value] == pytest.approx(other[value], abs=1e-9)
        reach, reach_there = (r[f"{value}_high"] - r[value] for r in (one, other))
        assert reach == pytest.approx(reach_there, rel=0.15)
    assert ours.notes == plain.notes


def test_comparisons_without_a_query_are_counted_and_named_above_the_table() -> None:
    table = comparisons(40)
    some = [None if i < 15 else f"q{i // 2}" for i in range(40)]
    for query, n in ((None, 40), (some, 15), ([f"q{i}" for i in range(40)], 0)):
        board = peerage.board_models({**table, **({"query_id": query} if query else {})})
        assert board.parameters.get("comparisons_without_query", 0) == n
        assert (f"{n} comparisons do not name a query" in ranking_line(board)) == (n > 0)


def test_the_window_and_the_category_choose_comparisons() -> None:
    n = 4_000
    old = [i < 2_000 for i in range(n)]
    more = {
        "at": [0.0 if one else 1e9 for one in old],
        "category": ["code" if i % 4 else "prose" for i in range(n)],
        "query_id": [f"q{i}" for i in range(n)],
    }
    table = comparisons(n, **more)
    late = {name: values[2_000:] for name, values in table.items()}
    code = {name: [v for v, c in zip(x, table["category"], strict=True) if c == "code"]
            for name, x in table.items()}  # fmt: skip
    by_rule = {"rule": "bradley_terry"}
    recent = peerage.board_models(table, since="30d", **by_rule)
    assert recent.rows == peerage.board_models(late, since="all", **by_rule).rows
    chosen = peerage.board_models(table, since="all", category="code", **by_rule)
    assert chosen.rows == peerage.board_models(code, since="all", **by_rule).rows


def test_a_model_that_judges_its_own_comparison_has_no_vote_in_it() -> None:
    table = comparisons(3_000)
    own = [a if i % 3 == 0 else "someone" for i, a in enumerate(table["model_a"])]
    fair = {k: [v for i, v in enumerate(x) if i % 3] for k, x in table.items()}
    ours = peerage.board_models({**table, "judge": own}, rule="bradley_terry", since="all")
    plain = peerage.board_models(fair, rule="bradley_terry", since="all")
    value = {row["model"]: row["value"] for row in plain.rows}
    assert {row["model"]: row["value"] for row in ours.rows} == pytest.approx(value, abs=1e-6)


BAD = {
    "`winner` cannot be nobody": {"winner": "nobody"},
    "compared with themselves: able": {"model_a": "able", "model_b": "able"},
    "`model_a` or `model_b` is empty": {"model_b": None},
    "no `reviewer`": {"reviewer": None},
}


@pytest.mark.parametrize("said", BAD)
def test_a_bad_comparison_is_refused(said: str) -> None:
    good = {"model_a": "able", "model_b": "baker", "winner": "tie", "reviewer": "ann"}
    with pytest.raises(InputError, match=said):
        peerage.board_models([good, {**good, **BAD[said]}], rule="bradley_terry", since="all")


def test_comparisons_without_a_winner_are_refused() -> None:
    with pytest.raises(InputError, match="need the column winner"):
        peerage.board_models([{"model_a": "able", "model_b": "baker"}])


def test_no_comparisons_make_an_empty_board() -> None:
    nothing: dict[str, list[str]] = {"model_a": [], "model_b": [], "winner": []}
    assert peerage.board_models(nothing, rule="bradley_terry").rows == []


@pytest.mark.parametrize("n", [300, 3_000])
@pytest.mark.parametrize(
    "options",
    [
        {"since": "all"},
        {"since": "all", "own_votes": "in", "rule": "mean_rank"},
        {"since": "30d", "as_of": "1970-03-01"},
        {"since": "all", "category": "code", "matrix": True},
    ],
)
def test_counting_votes_alone_gives_the_board_of_their_reviews(
    n: int, options: dict[str, Any]
) -> None:
    table = comparisons(n)
    rng = np.random.default_rng(n)
    judges = [a if i % 5 == 0 else f"judge-{i % 7}" for i, a in enumerate(table["model_a"])]
    more = {
        "judge": judges,
        "query_id": [None if i % 4 == 0 else f"é{i // 2}" for i in range(n)],
        "at": (rng.random(n) * 80 * 86_400).tolist(),
        "category": ["code" if i % 3 else "prose" for i in range(n)],
    }
    read = read_reviews(DuckDB(), {**table, **more})
    chosen = ModelBoardOptions.of(options)
    counted = BoardReviews(read, chosen)
    assert counted.pair_votes is not None
    ours = build_model_board(counted)
    plain = build_model_board(BoardReviews(replace(read, comparisons=None), chosen))
    assert ours.rows == plain.rows
    assert ours.notes == plain.notes
    assert ours.flags == plain.flags


def test_sessions_by_number_are_in_the_buckets_of_their_ids() -> None:
    buckets = buckets_of_numbers("comparison ", 2_345, 20)
    ids = [unit_of(f"comparison {i:020}", None) for i in range(1, 2_346)]
    assert buckets.tolist() == buckets_of(ids).tolist()


def utf8(texts: Sequence[str]) -> Utf8Texts:
    table = pa.table({"text": pa.chunked_array([texts[:3], texts[3:]], pa.string())})
    return utf8_in(table, "text")[0]


@pytest.mark.parametrize("n_bytes", [0, 1, 2, 7, 32, MAX_BYTES, MAX_BYTES + 1])
def test_queries_are_in_the_buckets_of_their_units(n_bytes: int) -> None:
    rng = np.random.default_rng(n_bytes)
    letters = np.array(list("abcdefé "))
    long = ["".join(rng.choice(letters, n_bytes)) for _ in range(2 * MANY)]
    queries = [*long[:9], "q", "é", "", "longer than some", *long[9:]]
    expected = buckets_of([unit_of("", one) for one in queries]).tolist()
    assert buckets_of_queries(utf8(queries)).tolist() == expected
    assert buckets_of_queries(utf8(queries).take(np.arange(0, 9))).tolist() == expected[:9]


AWKWARD = {
    "plain": {},
    "no ids": {"question_id": None},
    "no times": {"tstamp": None},
    "no judges": {"judge": None},
    "ids with blanks around them": {"question_id": [f"q{i} " for i in range(2_000)]},
    "names with blanks around them": {"model_a": ["able ", "able"] * 1_000},
    "times in milliseconds": {"tstamp": [1.7e12 + i for i in range(2_000)]},
    "some gaps": {
        "question_id": [None if i % 3 else f"é{i}" for i in range(2_000)],
        "tstamp": [None if i % 5 else 1.7e9 for i in range(2_000)],
    },
    "winners by name": {"winner": ["zebra", "tie"] * 1_000},
    "numbers as ids": {"question_id": list(range(2_000))},
    "two columns of categories": {"category": ["code", None] * 1_000},
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_a_file_that_is_loaded_at_once_has_the_board_of_its_copy(kind: str, tmp_path: Path) -> None:
    n = 2_000
    columns = {
        "question_id": [f"{i * 7919:032x}" for i in range(n)],
        "model_a": ["able", "baker"] * (n // 2),
        "model_b": ["zebra"] * n,
        "winner": ["model_a", "model_b", "tie", "tie (bothbad)"] * (n // 4),
        "judge": [f"judge-{i % 9}" if i % 7 else "zebra" for i in range(n)],
        "language": ["English"] * n,
        "tstamp": [1.7e9 + i for i in range(n)],
    }
    columns = {k: v for k, v in {**columns, **AWKWARD[kind]}.items() if v is not None}
    file = tmp_path / "votes.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=700)
    with open_reviews([file]) as loaded:
        ours = peerage.board_models(loaded, since="all")
    plain = peerage.board_models(arena.write(file, tmp_path / "copy"), since="all")
    assert ours.rows == plain.rows
    assert ours.notes == plain.notes
    assert ours.flags == plain.flags
