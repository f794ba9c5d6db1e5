"""Ballots for the rules: written by hand as "A>B=C", or drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import strategies as st

from peerage.types import Placing

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")


def place(
    tiers: Sequence[Sequence[str]], n: int, scores: dict[str, Fraction] | None = None
) -> Placing:
    doubled: dict[str, int] = {}
    for tier in tiers:
        doubled |= dict.fromkeys(tier, 2 * len(doubled) + len(tier) - 1)
    first = tiers[0][0] if tiers and len(tiers[0]) == 1 else None
    return Placing("reviewer", n, doubled, first, scores or {})


@pytest.fixture(scope="session")
def read() -> Callable[..., list[Placing]]:
    """Placings of lines such as "A>B=C"; a line "3: A>B" is three ballots."""

    def placings(*lines: str, n: int | None = None) -> list[Placing]:
        found = []
        for line in lines:
            times, _, order = line.rpartition(":")
            tiers = [tier.split("=") for tier in order.strip().split(">")]
            shown = n or sum(map(len, tiers))
            found += [place(tiers, shown)] * int(times or 1)
        return found

    return placings


@st.composite
def _placings(draw: st.DrawFn, names: Sequence[str]) -> Placing:
    """One draw per candidate and column keeps the examples cheap: -1 is unranked, 1 unscored."""
    each = len(names)
    heights = draw(st.lists(st.integers(-1, each - 1), min_size=each, max_size=each))
    halves = draw(st.lists(st.integers(1, 20), min_size=each, max_size=each))
    tiers = [
        [name for name, height in zip(names, heights, strict=True) if height == level]
        for level in sorted(set(heights) - {-1})
    ]
    n = draw(st.integers(max(2, sum(map(len, tiers))), each))
    marks = zip(names, halves, strict=True)
    return place(tiers, n, {name: Fraction(half, 2) for name, half in marks if half > 1})


@st.composite
def _elections(draw: st.DrawFn) -> tuple[list[Placing], tuple[str, ...]]:
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    return draw(st.lists(_placings(names), max_size=7)), names


@pytest.fixture(scope="session")
def elections() -> st.SearchStrategy[tuple[list[Placing], tuple[str, ...]]]:
    """Up to seven ballots on two to six candidates: ties, gaps, empty ballots, stray scores."""
    return _elections()
