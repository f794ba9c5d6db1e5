"""The guard: regressions against mirrored improvements, and a query's own repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerage.boards.differences import JudgeView, QueryDifferences, RepeatView
from peerage.boards.regressions import find_regressions, signs_needed
from peerage.stats.tails import sign_test_p


def queries(
    n_worse: int, n_better: int, n_mild: int = 0, repeats: tuple[RepeatView, ...] = ()
) -> QueryDifferences:
    """Queries with three judges who all prefer the base, the candidate, or neither clearly."""
    values = [-0.5] * n_worse + [0.5] * n_better + [-0.4] * n_mild
    views = [JudgeView(3, 3, 0)] * n_worse + [JudgeView(3, 0, 3)] * n_better
    views += [JudgeView(3, 3, 0)] * n_mild
    n = len(values)
    units = tuple(f"query {i}" for i in range(n))
    return QueryDifferences(units, np.array([values]), (("s",),) * n, tuple(views), repeats=repeats)


@pytest.mark.parametrize(
    ("n_worse", "n_better", "blocks"),
    [(20, 18, False), (20, 5, True), (4, 0, False), (5, 0, True), (0, 9, False), (0, 0, False)],
)
def test_only_more_regressions_than_improvements_block(
    n_worse: int, n_better: int, blocks: bool
) -> None:
    found = find_regressions(queries(n_worse, n_better, n_mild=7))
    assert (len(found.regressions), len(found.improvements)) == (n_worse, n_better)
    assert found.n_checked == n_worse + n_better + 7
    assert found.blocks is blocks


def test_several_candidates_share_the_error_of_the_guard() -> None:
    one = queries(9, 1)  # p .011
    assert find_regressions(one, 4).blocks is True
    assert find_regressions(one, 5).blocks is False
    alone = queries(0, 0, 1, (RepeatView(5, 0, -1.0),))
    assert find_regressions(alone, 2).repeats_needed == 6


def test_two_judges_are_too_few() -> None:
    some = queries(9, 0)
    views = (JudgeView(2, 2, 0),) * 9
    found = find_regressions(QueryDifferences(some.units, some.by_measure, some.sessions, views))
    assert (found.n_checked, found.regressions, found.p, found.blocks) == (0, (), None, False)


def test_repeats_of_one_query_share_the_error_with_those_of_others() -> None:
    assert [signs_needed(0.05 / k) for k in (1, 10, 50)] == [5, 8, 10]
    lost, tied = RepeatView(8, 0, -1.0), RepeatView(4, 4, 0.0)
    found = find_regressions(queries(0, 0, 10, (lost, *[tied] * 9)))
    assert found.repeated_regressions == (0,)
    less = find_regressions(queries(0, 0, 10, (RepeatView(7, 1, -0.75), *[tied] * 9)))
    assert (less.repeats_needed, less.repeated_regressions) == (8, ())
    mild = find_regressions(queries(0, 0, 10, (RepeatView(8, 0, -0.25), *[tied] * 9)))
    assert mild.repeated_regressions == ()


def test_queries_with_too_few_repeats_to_show_anything_are_not_corrected_for() -> None:
    once = [RepeatView(1, 0, -1.0)] * 40
    found = find_regressions(queries(0, 0, 41, (RepeatView(5, 0, -1.0), *once)))
    assert (found.n_repeated, found.most_repeats, found.repeats_needed) == (1, 5, 5)
    assert found.repeated_regressions == (0,)
    none = find_regressions(queries(0, 0, 40, tuple(once)))
    assert (none.n_repeated, none.most_repeats, none.repeats_needed) == (0, 1, 5)


def test_the_two_tests_share_the_error_if_both_can_show_something() -> None:
    repeats = (RepeatView(5, 0, -1.0), *[RepeatView()] * 9)
    assert find_regressions(queries(8, 2)).blocks is False  # p .055
    assert find_regressions(queries(9, 1)).blocks is True  # p .011
    both = find_regressions(queries(9, 1, 0, repeats))
    assert (both.blocks, both.repeated_regressions) == (False, (0,))  # .011 is not within .01
    assert find_regressions(queries(9, 1, 0, (RepeatView(4, 0, -1.0), *repeats[1:]))).blocks
    fifty = (RepeatView(11, 0, -1.0), *[RepeatView(6, 5, 0.0)] * 49)
    assert find_regressions(queries(20, 20, 10, fifty)).repeats_needed == 11
    assert find_regressions(queries(2, 2, 46, fifty)).repeats_needed == 10
    assert find_regressions(queries(8, 2)).p == pytest.approx(56 / 1024)


def test_the_tail_of_a_sign_test_is_exact_also_for_many_signs() -> None:
    assert sign_test_p(0, 0) == sign_test_p(0, 7) == 1.0
    assert sign_test_p(5, 5) == 1 / 32
    many = sum(math.comb(3_000, i) for i in range(1_540, 3_001)) / 2**3_000
    assert sign_test_p(1_540, 3_000) == pytest.approx(many, rel=1e-9)
    with pytest.raises(ValueError, match="4 of 3 signs"):
        sign_test_p(4, 3)
