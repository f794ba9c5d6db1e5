"""The order of answers: balanced, the same everywhere, labels from A to ZZ."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.council.blinding import (
    deal,
    deal_order,
    label,
    label_index,
    lone_ordinal,
    square_row,
)
from peerage.errors import InputError
from peerage.types import Response

sizes = st.integers(1, 40)


def names(n):
    return [f"m{i:03}" for i in range(n)]


@given(sizes)
def test_every_candidate_stands_once_in_every_row_and_position(n):
    rows = [square_row(n, i) for i in range(n)]
    assert all(sorted(row) == list(range(n)) for row in rows)
    assert all(len(set(column)) == n for column in zip(*rows, strict=True))


@pytest.mark.parametrize("n", [2, 4, 6, 10, 26])
def test_with_an_even_number_each_candidate_follows_each_other_once(n):
    """Williams' square"""
    pairs = Counter(
        pair for i in range(n) for pair in zip(square_row(n, i), square_row(n, i)[1:], strict=False)
    )
    assert len(pairs) == n * (n - 1)
    assert set(pairs.values()) == {1}


@given(sizes, st.integers(0, 10**9), st.text(max_size=5))
def test_any_n_reviewers_in_a_row_balance_every_position_exactly(n, ordinal, seed):
    orders = [deal_order(names(n), ordinal + i, seed) for i in range(n)]
    assert all(len(set(column)) == n for column in zip(*orders, strict=True))


@settings(max_examples=settings.default.max_examples * 2 // 5)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 4))
def test_a_season_of_whole_cycles_balances_every_reviewer_on_its_own(n, n_reviewers, cycles):
    """Across sessions, per reviewer"""
    for reviewer in range(n_reviewers):
        counts = Counter(
            (position, author)
            for ordinal in range(n * cycles)
            for position, author in enumerate(deal_order(names(n), ordinal + reviewer, "7"))
        )
        assert set(counts.values()) == {cycles}


@settings(max_examples=settings.default.max_examples * 3 // 5)
@given(st.integers(2, 9), st.integers(1, 12), st.integers(1, 25))
def test_positions_differ_by_no_more_than_the_rows_used(n, n_reviewers, n_sessions):
    """What the numbers do not allow is bounded by the rows left over"""
    rows = Counter((o + r) % n for o in range(n_sessions) for r in range(n_reviewers))
    used = [rows[i] for i in range(n)]
    counts = Counter(
        (position, author)
        for ordinal in range(n_sessions)
        for reviewer in range(n_reviewers)
        for position, author in enumerate(deal_order(names(n), ordinal + reviewer, "s"))
    )
    cells = [counts[p, a] for p in range(n) for a in names(n)]
    assert max(cells) - min(cells) <= max(used) - min(used)


def test_the_same_seed_gives_these_orders_on_every_machine():
    """Written down once, and never to change"""
    assert deal_order(["a", "b", "c", "d"], 0, "7") == GOLDEN_7[0]
    assert deal_order(["d", "c", "b", "a"], 1, "7") == GOLDEN_7[1]
    assert deal_order(["a", "b", "c", "d"], 0, "7", order="shuffle") == GOLDEN_7[2]
    assert deal_order(["a", "b", "c", "d"], 5, "7", order="shared") == GOLDEN_7[3]
    assert lone_ordinal("one") == 1989329837


GOLDEN_7 = [tuple("badc"), tuple("acbd"), tuple("acbd"), tuple("dcab")]


def test_orders_change_with_seed_round_and_candidates():
    base = [deal_order(names(6), i, "1") for i in range(6)]
    assert [deal_order(names(6), i, "2") for i in range(6)] != base
    assert [deal_order(names(6), i, "1", round=1) for i in range(6)] != base


def test_a_shared_order_is_the_same_for_all_reviewers():
    orders = {deal_order(names(5), i, "1", order="shared") for i in range(5)}
    assert len(orders) == 1


def test_shuffled_orders_differ_between_reviewers():
    orders = {deal_order(names(6), i, "1", order="shuffle") for i in range(20)}
    assert len(orders) > 10


@given(st.integers(0, 701))
def test_a_label_and_its_index_are_each_others_inverse(i):
    assert label_index(label(i)) == i


def test_labels_run_from_a_to_zz_and_no_further():
    assert [label(0), label(25), label(26), label(27), label(701)] == ["A", "Z", "AA", "AB", "ZZ"]
    with pytest.raises(InputError, match="702"):
        label(702)
    assert label_index("red") is None
    assert label_index("") is None


def test_a_slot_index_is_the_position_its_reviewer_saw():
    responses = [Response(name, f"text of {name}") for name in names(4)]
    ballots = deal(responses, ["r0", "r1"], "7", ordinal=3)
    assert ballots[1].authors == deal_order(names(4), 4, "7")
    assert [slot.label for slot in ballots[0].slots] == ["A", "B", "C", "D"]
    assert ballots[0].slots[2].text == f"text of {ballots[0].slots[2].author}"


def test_the_largest_ballot_can_be_dealt():
    assert len(set(deal_order(names(702), 5, "7"))) == 702
