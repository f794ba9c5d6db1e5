"""What the metrics share, against a plain reading of the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.reviews.cells import group
from peerage.reviews.comparisons import View
from peerage.reviews.rows import N_CLUSTERS, chunks, clusters_among, has_duplicates
from peerage.reviews.votes import shares
from tests.shared.encoded import rows_of

NAMES = "abcd"


def table(seed: int, rounds: bool) -> dict[str, list[object]]:
    """Reviews with gaps: some reviewers miss some answers, rows in any order."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"s{s}", r, c, t, float(rng.integers(1, 11)))
        for s in range(4)
        for r in NAMES
        for c in NAMES
        for t in range(2 if rounds else 1)
        if rng.random() < 0.8
    ]
    rng.shuffle(rows)
    heads = ("session_id", "reviewer", "candidate", "round", "score")
    columns = {head: [row[i] for row in rows] for i, head in enumerate(heads)}
    columns["round"] = [int(x) for x in columns["round"]]
    columns["score"] = [float(x) for x in columns["score"]]
    return columns


@pytest.mark.parametrize("rounds", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
def test_the_others_are_all_but_the_reviewer_and_the_author(rounds: bool, seed: int) -> None:
    columns = table(seed, rounds)
    rows = rows_of(columns)
    view = View(rows)
    heads = ("session_id", "reviewer", "candidate", "score")
    listed = list(zip(*(columns[head] for head in heads), strict=True))
    expected = []
    for s, r, c, _ in listed:
        if r != c:
            others = [v for s2, r2, c2, v in listed if (s2, c2) == (s, c) and r2 not in (r, c)]
            expected.append(sum(others) / len(others) if others else 0.0)
    assert np.where(view.has_others, view.others, 0.0) == pytest.approx(np.array(expected))


@given(seed=st.integers(0, 2**32 - 1))
def test_values_within_a_ballot_sum_to_nothing(seed: int) -> None:
    rows = rows_of(table(seed, True))
    view = View(rows)
    assert view.ballot.sum(view.ballot.centre(view.score)) == pytest.approx(0.0, abs=1e-9)


def test_rows_in_runs_and_rows_in_any_order_group_alike() -> None:
    code = np.array([0, 0, 2, 2, 2, 5])
    values = np.arange(6.0)
    for places in (np.arange(6), np.array([5, 2, 0, 3, 1, 4])):
        groups = group((code[places], 6))
        assert sorted(groups.sum(values[places]).tolist()) == [1.0, 5.0, 9.0]
        assert groups.n == 3
    assert (group((code, 6)).each(np.array([1.0, 2.0, 3.0])) == [1, 1, 2, 2, 2, 3]).all()


def test_huge_codes_are_sorted_instead_of_laid_out() -> None:
    big = np.array([0, 10**9, 10**9, 5])
    groups = group((big, 10**9 + 1), (big, 10**9 + 1), (big, 10**9 + 1))
    assert sorted(groups.count().tolist()) == [1.0, 1.0, 2.0]


def test_chunks_hold_whole_sessions_and_all_rows() -> None:
    rows = rows_of(dict(sorted_table().items()))
    parts = list(chunks(rows, 10))
    assert sum(part.n for part in parts) == rows.n
    assert sum(part.n_sessions for part in parts) == rows.n_sessions
    assert all(set(part.session) == set(range(part.n_sessions)) for part in parts)


def sorted_table() -> dict[str, list[object]]:
    rows = [(f"s{s}", r, c, 1.0) for s in range(6) for r in NAMES for c in NAMES]
    return {
        "session_id": [row[0] for row in rows],
        "reviewer": [row[1] for row in rows],
        "candidate": [row[2] for row in rows],
        "score": [row[3] for row in rows],
    }


def test_many_sessions_fall_into_buckets_by_their_id_alone() -> None:
    ids = [f"session {i}" for i in range(3 * N_CLUSTERS)]
    forth, back = clusters_among(ids, None), clusters_among(ids[::-1], None)
    assert set(forth.tolist()) <= set(range(N_CLUSTERS))
    assert (forth == back[::-1]).all()
    few = clusters_among(ids[:10], tuple(sorted(ids[:10])))
    assert sorted(few.tolist()) == list(range(10))


def test_a_repeat_in_one_round_is_a_duplicate_and_in_two_is_not() -> None:
    columns = {
        "session_id": ["s", "s"],
        "reviewer": ["a", "a"],
        "candidate": ["b", "b"],
        "score": [1.0, 2.0],
    }
    assert has_duplicates(rows_of(columns))
    assert not has_duplicates(rows_of({**columns, "round": [0, 1]}))


def ranked(rows: list[tuple[str, str, float | None]]) -> list[float]:
    columns = {
        "session_id": ["s"] * len(rows),
        "reviewer": [row[0] for row in rows],
        "candidate": [row[1] for row in rows],
        "rank": [np.nan if row[2] is None else row[2] for row in rows],
    }
    return shares(rows_of(columns)).tolist()


def test_shares_count_rivals_beaten_and_leave_the_own_answer_out() -> None:
    """n − 1 − place over n − 1; where the reviewer puts itself changes nothing."""
    first = ranked([("x", "a", 1), ("x", "b", 2), ("x", "c", 3)])
    assert first == [1.0, 0.5, 0.0]
    own_first = ranked([("a", "a", 1), ("a", "b", 2), ("a", "c", 3)])
    own_last = ranked([("a", "a", 3), ("a", "b", 1), ("a", "c", 2)])
    assert own_first[1:] == own_last[1:] == [1.0, 0.0]
    assert (own_first[0], own_last[0]) == (1.0, 0.0)


def test_ties_share_the_mean_of_their_places_and_the_unranked_have_no_share() -> None:
    tied = ranked([("x", "a", 1), ("x", "b", 2), ("x", "c", 2), ("x", "d", 4)])
    assert tied == pytest.approx([1.0, 0.5, 0.5, 0.0])
    partial = ranked([("x", "a", 1), ("x", "b", None), ("x", "c", 2)])
    assert partial[0] == 1.0
    assert np.isnan(partial[1])
    assert np.isnan(ranked([("x", "a", 1)])[0])
