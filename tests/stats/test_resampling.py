"""The bootstrap against drawing clusters one by one, and the same draws everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerage.stats.clusters import quotient
from peerage.stats.resampling import (
    generator,
    gridded,
    random_signs,
)

Floats = NDArray[np.float64]


def ratio(totals: Floats) -> Floats:
    return quotient(totals[:, 0], totals[:, 1])


def rows(n: int, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n).astype(float)
    return np.column_stack([sizes * rng.normal(1, 1, n), sizes])


def test_a_seed_is_its_parts_and_their_borders() -> None:
    def first(*parts: object) -> int:
        return int(generator(*parts).integers(0, 2**62))

    assert first("a", 1) == first("a", "1")
    assert len({first("ab", "c"), first("a", "bc"), first("abc"), first("c", "ab")}) == 4


def test_signs_are_fair() -> None:
    signs = random_signs(generator("signs"), 1001, 999)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.004


def test_whole_numbers_are_on_the_grid_already() -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, (500, 3)).astype(float)
    assert (gridded(counts) == counts).all()
    assert (gridded(np.zeros((3, 2))) == 0).all()
