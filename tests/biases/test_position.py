"""The null of order effects, in closed form, against every deal there is."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from bench._encoded import rows_of
from peerage.biases.position import DealtSpread, dealt_spread, spread_sums
from peerage.reviews.cells import Cells
from peerage.reviews.view import View


def view_of(order: list[list[int]], **more: list[object]) -> View:
    """A session of outsiders; order[r] lists the candidates as reviewer r saw them."""
    rows = [(f"r{r}", f"c{c}", at) for r, shown in enumerate(order) for at, c in enumerate(shown)]
    rng = np.random.default_rng(5)
    columns = {
        "session_id": ["s"] * len(rows),
        "reviewer": [row[0] for row in rows],
        "candidate": [row[1] for row in rows],
        "position": [row[2] for row in rows],
        "score": rng.normal(size=len(rows)),
        **more,
    }
    return View(rows_of(columns))


def test_shuffled_orders_have_the_variance_of_all_their_permutations() -> None:
    view = view_of([[0, 1, 2], [2, 0, 1]])
    g = view.ballot.centred(view.score)
    seen = dealt_spread(spread_sums(view, view.judged.numbers["position"] == 0.0, g))
    by_ballot = [g[:3], g[3:]]
    every = [
        sum(part[i] for part, i in zip(by_ballot, firsts, strict=True))
        for firsts in product(range(3), repeat=2)
    ]
    assert np.mean(every) == pytest.approx(0.0)
    assert seen.variance == pytest.approx(np.var(every))


def test_a_balanced_square_has_the_variance_of_all_its_deals() -> None:
    """Each new draw gives every row of the square another first candidate."""
    n = 4
    order = [[(r + i) % n for i in range(n)] for r in range(n)]
    place = [r for r in range(n) for _ in range(n)]
    view = view_of(order, deal=["d"] * n * n, place=place)
    g = view.ballot.centred(view.score)
    seen = dealt_spread(spread_sums(view, view.judged.numbers["position"] == 0.0, g))
    square = np.zeros((n, n))
    names = list(view.names)
    for value, reviewer, candidate in zip(
        g, view.judged.reviewer, view.judged.candidate, strict=True
    ):
        square[int(names[reviewer][1]), int(names[candidate][1])] = value
    every = [sum(square[i, p[i]] for i in range(n)) for p in permutations(range(n))]
    assert seen.variance == pytest.approx(np.var(every))
    assert seen.dimensions == (n - 1) ** 2


def test_a_p_value_of_few_dimensions_is_that_of_a_correlation() -> None:
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(2_000):
        square = rng.normal(size=(4, 4))
        centred = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
        seen = DealtSpread(float((centred**2).sum()) / 3, 9.0)
        p = seen.p(float(np.trace(centred)))
        alarms += p is not None and p < 0.05
    assert alarms / 2_000 == pytest.approx(0.05, abs=0.015)


def test_nothing_to_deal_again_has_no_p() -> None:
    assert DealtSpread(0.0, 10.0).p(1.0) is None
    assert DealtSpread(1.0, 1.0).p(1.0) is None
    assert DealtSpread(1.0, 1.0).half_width(1.0) is None


def test_a_ballot_that_shows_nobody_first_adds_no_spread() -> None:
    view = view_of([[0, 1], [1, 0]])
    nowhere = np.zeros(4, dtype=bool)
    found = spread_sums(view, nowhere, view.score)
    assert isinstance(found["free"], Cells)
    assert dealt_spread(found).variance == 0.0
