"""Two sets of reviews compared: differences that are sums of parts, and the reviews behind them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peerage
from peerage.errors import PeerageError

Rows = list[dict[str, Any]]


def ballot(session: str, reviewer: str, order: str, **more: Any) -> Rows:
    """A reviewer's ballot, the best first."""
    row = {"session_id": session, "reviewer": reviewer, **more}
    return [{**row, "candidate": name, "rank": place} for place, name in enumerate(order, 1)]


def shuffled(sessions: range, seed: str, reviewers: str = "xyz") -> Rows:
    rows: Rows = []
    for i in sessions:
        for reviewer in reviewers:
            order = list("abcd")
            random.Random(f"{seed}{i}{reviewer}").shuffle(order)
            rows += ballot(f"s{i}", reviewer, "".join(order))
    return rows


orders = st.permutations("abc").map("".join)
seasons = st.dictionaries(
    st.tuples(st.sampled_from(["s1", "s2", "s3", "s4"]), st.sampled_from("xy")), orders, min_size=1
)


@settings(max_examples=20, deadline=None)
@given(seasons, seasons)
def test_the_parts_of_reviews_add_up_to_the_difference_of_the_boards(first, second):
    a, b = (
        [row for (session, who), order in one.items() for row in ballot(session, who, order)]
        for one in (first, second)
    )
    diff = peerage.diff(a, b)
    shares = [
        {row["model"]: row["share"] for row in peerage.board_models(one, since="all").rows}
        for one in (a, b)
    ]
    for one in diff.models:
        plain = one.plain_difference
        assert plain == pytest.approx(shares[1][one.model] - shares[0][one.model])
        assert (one.share_a, one.share_b) == (shares[0][one.model], shares[1][one.model])
        if one.paired:
            assert sum(one.parts.values()) == pytest.approx(plain, abs=1e-9)
            assert sum(part.part for part in one.reviews) == pytest.approx(plain, abs=1e-9)


def test_the_other_way_round_every_difference_changes_its_sign():
    a, b = shuffled(range(20), "a"), shuffled(range(5, 30), "b", "xyw")
    there, back = peerage.diff(a, b), peerage.diff(b, a)
    opposite = {one.model: one for one in back.models}
    for one in there.models:
        other = opposite[one.model]
        assert other.difference == pytest.approx(-one.difference)
        assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert there.reviews["added"] == back.reviews["removed"]


def test_one_changed_review_is_named_for_the_places_that_it_moved():
    a = [row for i in range(5) for row in ballot(f"s{i}", "x", "ab" if i < 3 else "ba")]
    b = [row for i in range(5) for row in ballot(f"s{i}", "x", "ab" if i < 2 else "ba")]
    diff = peerage.diff(a, b)
    (pair,) = diff.exchanges
    assert (pair.up, pair.down, pair.n_sessions) == ("b", "a", 1)
    (part,) = pair.reviews
    assert (part.session, part.reviewer, part.kind) == ("s2", "x", "changed")
    assert part.part == pytest.approx(pair.gap_b - pair.gap_a)
    assert dict(diff.reviews) == {"removed": 0, "changed": 2, "added": 0, "same": 8}
    (session,) = diff.sessions
    assert (session.winner_a, session.winner_b) == ("a", "b")


def test_sessions_with_other_ids_are_paired_by_their_query():
    a = [row for i in range(6) for row in ballot(f"a{i}", "x", "abc", query_id=f"q{i}")]
    b = [row for i in range(6) for row in ballot(f"b{i}", "x", "bac", query_id=f"q{i}")]
    diff = peerage.diff(a, b)
    assert (diff.n_shared, diff.reviews["changed"], diff.reviews["same"]) == (6, 12, 6)


def test_two_queries_that_only_one_side_asked_give_no_parts():
    a = [row for i in range(4) for row in ballot(f"a{i}", "x", "abc")]
    b = [row for i in range(4) for row in ballot(f"b{i}", "x", "bac")]
    diff = peerage.diff(a, b)
    assert diff.n_shared == 0
    assert all(not one.paired and not one.parts for one in diff.models)
    assert {one.model: one.difference for one in diff.models} == {"a": -0.5, "b": 0.5, "c": 0.0}


def test_the_same_reviews_do_not_differ():
    diff = peerage.diff(shuffled(range(6), "a"), shuffled(range(6), "a"))
    assert {one.difference for one in diff.models} == {0.0}
    assert not diff.exchanges
    assert not any(one.moved for one in diff.models)
    assert not sum(diff.reviews[kind] for kind in ("added", "removed", "changed"))


def test_sets_without_a_model_in_common_are_refused():
    with pytest.raises(PeerageError, match="have no model in common"):
        peerage.diff(ballot("s", "x", "ab"), ballot("s", "x", "cd"))


def test_a_shift_beyond_chance_is_told_and_a_change_of_nothing_is_not():
    a = shuffled(range(80), "a")
    better = [row for i in range(60) for who in "xyz" for row in ballot(f"s{i}", who, "dabc")]
    better += [row for row in a if int(row["session_id"][1:]) >= 60]
    moved = {one.model: one.moved for one in peerage.diff(a, better).models}
    assert moved["d"]
    noise = peerage.diff(a, shuffled(range(80), "b"))
    assert sum(one.moved for one in noise.models) <= 1
