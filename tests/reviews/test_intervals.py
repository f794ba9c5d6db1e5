"""The grouped leave-one-out interval is the one of `stats`, subject by subject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from peerage.reviews.cells import Cells, join_columns, merge, sort_cells
from peerage.reviews.intervals import (
    centred_correlation,
    estimates,
    mean_of,
)
from peerage.stats.clusters import ratio_interval


def random_cells(seed: int, n_columns: int) -> Cells:
    rng = np.random.default_rng(seed)
    subject = np.repeat(np.arange(4), 12)
    sums = rng.normal(2.0, 1.0, (48, n_columns))
    sums[:, 0] = rng.integers(1, 9, 48)
    return Cells(subject, np.tile(np.arange(12), 4), sums)


@given(seed=st.integers(0, 2**32 - 1))
def test_each_subject_has_the_interval_that_stats_gives_it_alone(seed) -> None:
    cells = random_cells(seed, 2)
    for one in estimates(cells, mean_of):
        rows = cells.sums[cells.subject == one.subject]
        alone = ratio_interval(rows[:, 1], rows[:, 0])
        assert alone is not None
        assert one.value == pytest.approx(alone.value)
        assert one.low == pytest.approx(alone.low, rel=1e-3, abs=1e-4)
        assert one.high == pytest.approx(alone.high, rel=1e-3, abs=1e-4)
        assert (one.n_clusters, one.n) == (12, rows[:, 0].sum())


def test_with_one_value_a_cluster_it_is_the_t_test() -> None:
    values = np.random.default_rng(2).uniform(-0.5, 1, 12)
    cells = Cells(np.zeros(12, int), np.arange(12), np.column_stack([np.ones(12), values]))
    (one,) = estimates(cells, mean_of, null=0.1)
    assert one.p == pytest.approx(scipy_stats.ttest_1samp(values, 0.1).pvalue)


def test_clusters_that_all_say_the_null_have_a_p_of_one() -> None:
    cells = Cells(np.zeros(20, int), np.arange(20), np.tile([3.0, 0.3], (20, 1)))
    (one,) = estimates(cells, mean_of, null=0.1)
    assert one.p == 1.0


def test_a_centred_correlation_from_sums_is_the_correlation() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=30), rng.normal(size=30)
    x, y = x - x.mean(), y - y.mean()
    sums = np.array([[30.0, (x * x).sum(), (y * y).sum(), (x * y).sum()]])
    assert centred_correlation(sums)[0] == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_clusters_that_agree_to_the_last_digit_are_a_sign_test() -> None:
    cells = Cells(np.zeros(8, int), np.arange(8), np.tile([2.0, 1.0], (8, 1)))
    (one,) = estimates(cells, mean_of)
    assert (one.value, one.low, one.high) == (0.5, 0.5, 0.5)
    assert one.p == pytest.approx(2 / 2**8)


def test_one_cluster_has_a_value_and_no_interval() -> None:
    (one,) = estimates(Cells(np.zeros(1, int), np.zeros(1, int), np.array([[2.0, 1.0]])), mean_of)
    assert (one.value, one.low, one.p) == (0.5, None, None)


@given(seed=st.integers(0, 2**32 - 1))
def test_blocks_added_up_are_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subject, cluster = rng.integers(0, 3, 40), rng.integers(0, 5, 40)
    sums = rng.integers(0, 9, (40, 2)).astype(float)
    whole = sort_cells(subject, cluster, sums)
    parts = [sort_cells(subject[i::3], cluster[i::3], sums[i::3]) for i in range(3)]
    added = merge(parts)
    assert (added.subject == whole.subject).all()
    assert (added.cluster == whole.cluster).all()
    assert (added.sums == whole.sums).all()
    assert whole.sums.sum() == sums.sum()


def test_two_tables_beside_each_other_keep_what_either_lacks_as_zero() -> None:
    left = Cells(np.array([0]), np.array([1]), np.array([[1.0]]))
    right = Cells(np.array([0, 2]), np.array([1, 0]), np.array([[5.0], [7.0]]))
    both = join_columns(left, right)
    assert both.subject.tolist() == [0, 2]
    assert both.sums.tolist() == [[1.0, 5.0], [0.0, 7.0]]
