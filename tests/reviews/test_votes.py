"""What a row's place on its ballot is worth, held against the scalar count of a session."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.counting import count, place
from peerage.reviews.cells import dense
from peerage.reviews.rows import Rows
from peerage.reviews.votes import votes
from peerage.types import Ballot, OwnVotes, Review, Slot

NAMES = ("a", "b", "c", "d", "e", "judge")


def rows_of(table: list[tuple[int, str, str, float | None]], score: bool = False) -> Rows:
    """Rows from (session, reviewer, candidate, rank or score)."""
    values = np.array([np.nan if v is None else v for *_, v in table], dtype=np.float64)
    n_sessions = max((session for session, *_ in table), default=-1) + 1
    return Rows(
        names=NAMES,
        n_clusters=n_sessions,
        cluster=np.arange(n_sessions),
        session=np.array([session for session, *_ in table], dtype=np.int64),
        reviewer=np.array([NAMES.index(who) for _, who, _, _ in table], dtype=np.int64),
        candidate=np.array([NAMES.index(whom) for _, _, whom, _ in table], dtype=np.int64),
        numbers={"score" if score else "rank": values},
    )


def cast(table: list[tuple[int, str, str, float | None]], own: OwnVotes, **more: Any) -> Any:
    rows = rows_of(table, **more)
    n = [len({c for s, _, c, _ in table if s == i}) for i in range(rows.n_sessions)]
    return votes(rows, own, np.array(n, dtype=np.int64))


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[int, str, str, float | None]]:
    """Whole sessions with ties, gaps in ranks, unranked rows, and own answers here and there."""
    table: list[tuple[int, str, str, float | None]] = []
    for session in range(draw(st.integers(1, 3))):
        shown = draw(st.lists(st.sampled_from(NAMES[:5]), min_size=1, max_size=5, unique=True))
        for reviewer in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
            ranks = st.none() | st.integers(1, 7).map(float)
            table += [(session, reviewer, name, draw(ranks)) for name in shown]
    return table


def scalar(table: list[tuple[int, str, str, float | None]], own: OwnVotes) -> dict[Any, Fraction]:
    """The share of each (session, reviewer, candidate) that has a vote, by the exact count."""
    found: dict[Any, Fraction] = {}
    for session, reviewer in {(s, r) for s, r, _, _ in table}:
        mine = [(c, rank) for s, r, c, rank in table if (s, r) == (session, reviewer)]
        ballot = Ballot(reviewer, tuple(Slot(c, c) for c, _ in mine))
        ranks = sorted({rank for _, rank in mine if rank is not None})
        tiers = tuple(tuple(c for c, rank in mine if rank == level) for level in ranks)
        n = len({c for s, _, c, _ in table if s == session})
        placing = place(count(ballot, Review(reviewer, tiers)), own, n)
        if placing is not None:
            top = 2 * (placing.n - 1)
            for name, doubled in placing.doubled.items():
                found[session, reviewer, name] = Fraction(top - doubled, top)
    return found


@pytest.mark.parametrize("own", ["out", "in", "place_kept"])
@given(table=tables())
def test_shares_are_those_of_the_exact_count(
    own: OwnVotes, table: list[tuple[int, str, str, float | None]]
) -> None:
    """In arrays: ties, partial ballots, own answers first, last and missing."""
    found = cast(table, own)
    wanted = scalar(table, own)
    got = {
        row[:3]: share
        for row, share, counts in zip(table, found.share, found.counts, strict=True)
        if counts
    }
    assert got.keys() == wanted.keys()
    assert all(got[key] == pytest.approx(float(wanted[key]), abs=1e-15) for key in got)


@given(table=tables())
def test_the_order_of_rows_changes_nothing(
    table: list[tuple[int, str, str, float | None]],
) -> None:
    mixed = table[::-1]
    straight, turned = cast(table, "out"), cast(mixed, "out")
    assert straight.share.tolist() == turned.share.tolist()[::-1]


def test_places_by_counting_are_places_by_sorting() -> None:
    table: list[tuple[int, str, str, float | None]] = [
        (0, "judge", name, rank)
        for name, rank in zip("abcde", (3.0, 1.0, 3.0, None, 9.0), strict=True)
    ]
    fine = [(s, r, c, None if v is None else v + 0.25 * (v > 1)) for s, r, c, v in table]
    whole, halves = cast(table, "out"), cast(fine, "out")
    assert whole.share.tolist() == halves.share.tolist() == [0.625, 1.0, 0.625, 0.0, 0.25]


def test_scores_rank_where_there_is_no_rank() -> None:
    """Equal scores tie, the highest is first, and a tie for first is no one's win."""
    table: list[tuple[int, str, str, float | None]] = [
        (0, "judge", "a", 7.5),
        (0, "judge", "b", 7.5),
        (0, "judge", "c", 2.0),
    ]
    found = cast(table, "out", score=True)
    assert found.share.tolist() == [0.75, 0.75, 0.0]
    assert not found.wins.any()


def test_a_ranking_stands_where_scores_say_otherwise() -> None:
    """On a ballot with any rank, scores do not rank the unranked."""
    rows = rows_of([(0, "judge", "a", 2.0), (0, "judge", "b", 1.0), (0, "judge", "c", None)])
    rows.numbers["score"] = np.array([9.0, 1.0, 10.0])  # type: ignore[index]
    found = votes(rows, "out", np.array([3]))
    assert found.counts.tolist() == [True, True, False]
    assert found.share.tolist() == [0.5, 1.0, 0.0]


def test_a_contestant_has_no_vote_in_a_pair() -> None:
    """With its own answer off the ballot one rival is left, and no one to beat."""
    table: list[tuple[int, str, str, float | None]] = [(0, "a", "a", 1.0), (0, "a", "b", 2.0)]
    assert not cast(table, "out").counts.any()
    assert cast(table, "in").share.tolist() == [1.0, 0.0]


@given(st.lists(st.integers(-3, 10**12), max_size=40))
def test_codes_without_gaps_keep_the_order(keys: list[int]) -> None:
    code, n = dense(np.array(keys, dtype=np.int64))
    place = {key: i for i, key in enumerate(sorted(set(keys)))}
    assert code.tolist() == [place[key] for key in keys]
    assert n == len(place)
