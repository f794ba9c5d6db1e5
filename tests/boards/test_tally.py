"""C1, C3, C4 and C9 as sums: over blocks of whole items they add up to the community's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.opinions import STRIDE, Coefficients, Community
from peerage.boards.reviewers import alignment
from peerage.boards.tally import Tally, Terms, tally

DAY = 86_400.0
TERMS = (
    Terms(Coefficients()),
    Terms(Coefficients(), literal=True),
    Terms(Coefficients(), half_life_days=3.0, as_of=9 * DAY),
    Terms(Coefficients(min_reviews_for_quality=5), since_s=6 * DAY, as_of=9 * DAY),
)


def crowd(seed: int, n: int, scale: tuple[float, ...] = (-1.0, 0.0, 2.0)) -> Community:
    """People who review their own items and repeat themselves."""
    rng = np.random.default_rng(seed)
    n_people, n_items = 9, 14
    return Community(
        np.array([f"u{i}" for i in range(n_people)], dtype=object),
        np.array([f"i{i:02d}" for i in range(n_items)], dtype=object),
        rng.integers(0, n_people, n_items),
        rng.integers(0, n_items, n),
        rng.integers(0, n_people, n),
        rng.integers(0, len(scale), n).astype(np.int8),
        scale,
        at=rng.integers(0, 10, n) * DAY,
    )


def arrays(made: Tally) -> list[np.ndarray]:
    items, voices = made.items, made.voices
    counts = np.array([made.n, made.n_own, made.n_superseded])
    return [items.n, items.weight, items.total, voices.sides, voices.ys, voices.yys, counts]


@given(st.integers(0, 2**32 - 1), st.sampled_from(TERMS), st.integers(0, 200), st.integers(1, 5))
def test_the_sums_of_blocks_of_whole_items_are_those_of_the_community(
    seed: int, terms: Terms, n: int, n_blocks: int
) -> None:
    """C3, C4."""
    community = crowd(seed, n)
    block = np.random.default_rng(seed + 1).integers(0, n_blocks, community.n_items)
    parts = [
        arrays(tally(community.kept(block[community.item] == one), terms))
        for one in range(n_blocks)
    ]
    whole = arrays(tally(community, terms))
    for name, (part, total) in enumerate(zip(zip(*parts, strict=True), whole, strict=True)):
        assert np.sum(part, axis=0) == pytest.approx(total, abs=1e-9), name


def test_many_opinions_are_worked_on_some_at_a_time_with_the_same_result() -> None:
    """C4: the correlation of a community that takes several strides, from its definition."""
    rng = np.random.default_rng(3)
    n_items, n_people = (STRIDE * 2) // 8, 20
    item = np.repeat(np.arange(n_items), 10)
    reviewer = np.argsort(rng.random((n_items, n_people - 1)), axis=1)[:, :10].ravel()
    level = rng.integers(0, 2, len(item)).astype(np.int8)
    people, items = np.empty(n_people, dtype=object), np.empty(n_items, dtype=object)
    author = np.full(n_items, n_people - 1)
    community = Community(people, items, author, item, reviewer, level)
    made = tally(community, Terms(Coefficients()))
    assert (community.n > 2 * STRIDE, made.n) == (True, community.n)
    found = alignment(community, made.items, None, Coefficients()).r
    x = level * 2.0 - 1.0
    y = (np.repeat(x.reshape(-1, 10).sum(axis=1), 10) - x) / 9.0
    wanted = [np.corrcoef(x[reviewer == one], y[reviewer == one])[0, 1] for one in range(3)]
    assert found[:3] == pytest.approx(wanted, abs=1e-12)
