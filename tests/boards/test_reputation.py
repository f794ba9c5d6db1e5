"""Iterative filtering settles on one fixed point; Dawid–Skene stands beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.opinions import Community, eligible
from peerage.boards.reputation import CLOSE, dawid_skene, iterate


def names(stem: str, n: int) -> np.ndarray:
    return np.array([f"{stem}{i:03d}" for i in range(n)], dtype=object)


def random_community(seed: int, scale: tuple[float, ...] = (-1.0, 1.0)) -> Community:
    rng = np.random.default_rng(seed)
    n_people, n_items, n = 8, 12, 80
    return eligible(
        Community(
            names("u", n_people),
            names("i", n_items),
            rng.integers(0, n_people, n_items),
            rng.integers(0, n_items, n),
            rng.integers(0, n_people, n),
            rng.integers(0, len(scale), n).astype(np.int8),
            scale,
        )
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([(-1.0, 1.0), (-1.0, 0.0, 1.0, 2.0)]))
def test_the_weights_are_a_fixed_point(seed: int, scale: tuple[float, ...]) -> None:
    """q, d and w = 1 − k·d from each other, to 1e-9."""
    community = random_community(seed, scale)
    found = iterate(community)
    k = 0.99 / (scale[-1] - scale[0]) ** 2
    w, x = found.weight, community.value
    for person in range(community.n_people):
        rows = np.flatnonzero(community.reviewer == person)
        if not len(rows):
            assert w[person] == 1.0
            continue
        apart = []
        for row in rows:
            same = community.item == community.item[row]
            pull = w[community.reviewer[same]]
            apart.append((x[row] - (pull * x[same]).sum() / pull.sum()) ** 2)
        assert w[person] == pytest.approx(1 - k * np.mean(apart), abs=10 * CLOSE)
    assert found.iterations >= 1


def test_a_reviewer_further_from_the_others_weighs_less() -> None:
    item = np.repeat(np.arange(20), 5)
    reviewer = np.tile(np.arange(5), 20)
    truth = np.tile([0, 1], 10)[item]
    level = np.where(reviewer == 4, 1 - truth, truth).astype(np.int8)
    author = np.full(20, 5)
    crowd = Community(names("u", 6), names("i", 20), author, item, reviewer, level)
    weight = iterate(crowd).weight
    assert weight[4] < 0.3 < weight[0]
    assert np.allclose(weight[:4], weight[0])


def test_dawid_and_skene_read_a_contrarian_the_right_way_round() -> None:
    """It models errors, so a steady liar informs it."""
    rng = np.random.default_rng(3)
    item = np.repeat(np.arange(60), 6)
    reviewer = np.tile(np.arange(6), 60)
    truth = rng.integers(0, 2, 60)
    right = rng.random(len(item)) < np.array([0.9, 0.9, 0.9, 0.9, 0.6, 0.02])[reviewer]
    level = np.where(right, truth[item], 1 - truth[item]).astype(np.int8)
    crowd = Community(names("u", 7), names("i", 61), np.full(61, 6), item, reviewer, level)
    found = dawid_skene(crowd)
    assert found.accuracy[5] < 0.1 < 0.8 < found.accuracy[0]
    assert np.isnan(found.accuracy[6])
    assert np.isnan(found.quality[60])
    assert ((found.quality[:60] > 0) == (truth == 1)).mean() > 0.95


def test_an_empty_community_converges_at_once() -> None:
    empty = Community(
        names("u", 2), names("i", 1), np.array([0]), *(np.zeros(0, dtype=np.int32),) * 3
    )
    assert iterate(empty).weight.tolist() == [1.0, 1.0]
    assert np.isnan(dawid_skene(empty).quality).all()
