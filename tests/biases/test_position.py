"""The null of order effects, in closed form, against every deal there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from peerage import audit
from peerage.biases.many_sessions import plan
from peerage.biases.places import contrasts_of
from peerage.biases.position import (
    dealt_spread,
    places_present,
    position_of_all,
    spread_sums,
    sums,
)
from peerage.findings import Audit, AuditLimits
from peerage.reviews.comparisons import LAST, View
from peerage.reviews.flags import FROM_ONE
from tests.shared.calibration import audit_of
from tests.shared.encoded import audit_rows, rows_of
from tests.shared.one_scale import PANEL, Trial, as_ranks, value_of
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

THREE, FOUR = [0, 1, LAST], [0, 1, 2, LAST]


def audit_columns(columns: dict[str, np.ndarray]) -> Audit:
    return audit_rows(rows_of(columns), plan(tuple(columns), value_of(columns)), AuditLimits())


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


def every_statistic(
    values: list[np.ndarray], deals: list[tuple[tuple[int, ...], ...]]
) -> np.ndarray:
    """Deals by places: the sum of what stands at each place, over the ballots."""
    return np.array(
        [
            [
                sum(part[order[p]] for part, order in zip(values, deal, strict=True))
                for p in range(n)
            ]
            for deal in deals
            for n in [len(deal[0])]
        ]
    )


def test_shuffled_orders_have_the_covariance_of_all_their_permutations() -> None:
    view = view_of([[0, 1, 2], [2, 0, 1]])
    g = view.ballot.centre(view.score)
    seen = dealt_spread(spread_sums(view, g, places_present(view))).variance[np.ix_(THREE, THREE)]
    every = every_statistic([g[:3], g[3:]], list(product(permutations(range(3)), repeat=2)))
    np.testing.assert_allclose(every.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(seen, np.cov(every.T, bias=True), atol=1e-12)


def test_a_balanced_square_has_the_covariance_of_all_its_deals() -> None:
    """Each new draw permutes the rows and the symbols of the square."""
    n = 4
    order = [[(r + i) % n for i in range(n)] for r in range(n)]
    place = [r for r in range(n) for _ in range(n)]
    view = view_of(order, deal=["d"] * n * n, place=place)
    g = view.ballot.centre(view.centred)
    seen = dealt_spread(spread_sums(view, g, places_present(view)))
    square = np.zeros((n, n))
    names = list(view.names)
    for value, reviewer, candidate in zip(
        g, view.judged.reviewer, view.judged.candidate, strict=True
    ):
        square[int(names[reviewer][1]), int(names[candidate][1])] = value
    every = every_statistic(
        list(square),
        [
            tuple(tuple(symbols[order[rows[r]][p]] for p in range(n)) for r in range(n))
            for symbols in permutations(range(n))
            for rows in permutations(range(n))
        ],
    )
    found = seen.variance[np.ix_(FOUR, FOUR)]
    np.testing.assert_allclose(found, np.cov(every.T, bias=True), atol=1e-12)
    assert seen.dimensions == (n - 1) ** 2


def test_fair_small_squares_are_accused_as_often_as_stated() -> None:
    rng = np.random.default_rng(11)
    alarms = 0
    order = [[(r + i) % 4 for i in range(4)] for r in range(4)]
    place = [r for r in range(4) for _ in range(4)]
    for _ in range(300):
        score = rng.normal(size=16).tolist()
        one = position_of_all(sums(view_of(order, deal=["d"] * 16, place=place, score=score)))
        alarms += one.p is not None and one.p < 0.05
    assert alarms / 300 == pytest.approx(0.05, abs=0.03)


def test_nothing_to_deal_again_has_no_p() -> None:
    view = view_of([[0], [0]])
    assert dealt_spread(spread_sums(view, view.score, places_present(view))).variance.sum() == 0.0
    assert position_of_all(sums(view)).p is None


# -- curves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "names"), [(2, 1), (3, 3), (5, 6)])
def test_contrasts_ignore_a_level_and_see_a_point_at_its_place(n: int, names: int) -> None:
    contrasts = contrasts_of([*range(n - 1), LAST])
    assert len(contrasts.names) == names
    np.testing.assert_allclose(contrasts.weights.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diag(contrasts.weights), 1.0)


ENGINES = [
    "duckdb",
    pytest.param("spark", marks=[pytest.mark.needs("java", "spark"), pytest.mark.slow]),
]
PLANTED = {0: "first place", 1: "second place", 2: "third place", -1: "last place"}


@pytest.mark.parametrize("place", PLANTED)
@pytest.mark.parametrize("order", ["shuffle", "balanced"])
@pytest.mark.parametrize("who", ["all", "b"])
def test_a_point_for_any_place_is_named_with_that_place(place: int, order: str, who: str) -> None:
    planted = Planted(position=1.0, place=place)
    if who != "all":
        planted = Planted(position_by={who: 1.0}, place=place)
    found = audit_of(Trial("", replace(PANEL, order=order), planted), 1).findings
    [named] = [one for one in found if (one.metric, one.subject) == ("position", who)]
    assert named.status == "evidence"
    assert named.note.startswith(PLANTED[place])
    assert named.value == pytest.approx(1.0, abs=0.35)
    accused = {o.subject for o in found if o.metric == "position" and o.status == "evidence"}
    assert who == "all" or accused == {who}


@pytest.mark.parametrize("seats", ["ab", "abc", "abcde"])
def test_on_ranks_a_place_is_worth_the_share_of_rivals_that_it_gains(seats: str) -> None:
    season = replace(PANEL, seats=tuple(seats), outsiders=("x", "y", "z"), n_sessions=600)
    columns = as_ranks(simulated_reviews(season, Planted(position_by={"x": 1.5}), 3))
    [found] = [
        one
        for one in audit_columns(columns).findings
        if (one.metric, one.subject) == ("position", "x")
    ]
    rank = columns["rank"].astype(float).reshape(-1, len(seats))
    beaten = (rank[:, :, None] < rank[:, None, :]) + 0.5 * (rank[:, :, None] == rank[:, None, :])
    share = (beaten.sum(axis=2) - 0.5).ravel() / (len(seats) - 1)
    mine, first = columns["reviewer"] == "x", columns["position"] == 0
    gained = share[mine & first].mean() - share[mine & ~first].mean()
    assert found.value == pytest.approx(gained, abs=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low < gained < found.high


@pytest.mark.parametrize("engine", ENGINES)
def test_positions_may_count_from_1(engine: str) -> None:
    columns = simulated_reviews(replace(PANEL, n_sessions=30), Planted(position=1.0), 2)
    later = {**columns, "position": columns["position"] + 1}
    first, second = (audit(pa.table(one).to_pylist(), engine=engine) for one in (columns, later))
    assert second.findings == first.findings
    assert FROM_ONE in second.views["flags"]
    assert FROM_ONE not in first.views.get("flags", ())


def test_what_stands_in_the_middle_is_told_from_both_ends() -> None:
    season = replace(PANEL, n_sessions=300)
    columns = simulated_reviews(season, Planted(), 2)
    inside = np.isin(columns["position"], (1, 2, 3))
    raw = columns["score"].astype(float) - 1.0 * inside
    [found] = [
        one
        for one in audit_columns({**columns, "score": raw}).findings
        if (one.metric, one.subject) == ("position", "all")
    ]
    assert found.status == "evidence"
    assert found.note.startswith("middle places")
    assert found.value == pytest.approx(-1.0, abs=0.2)


def test_an_answer_shown_last_is_last_on_short_and_on_long_ballots() -> None:
    short, long = view_of([[0, 1, 2]]), view_of([list(range(12))])
    assert short.place.tolist() == [0, 1, LAST]
    assert sorted(long.place.tolist()) == [*range(8), 8, 8, 8, LAST]


@pytest.mark.parametrize(
    ("season", "kept", "reason"),
    [
        (SimulatedSeason(n_sessions=40, order="shared"), "", "all reviewers saw each answer at"),
        (SimulatedSeason(n_sessions=40, overlap=0.0), "", "no answer was judged by two reviewers"),
        (SimulatedSeason(n_sessions=40), "a", "no answer was judged by two reviewers"),
    ],
)
def test_a_position_that_cannot_be_measured_has_the_true_reason(
    season: SimulatedSeason, kept: str, reason: str
) -> None:
    columns = simulated_reviews(season, Planted(), 1)
    rows = np.isin(columns["reviewer"], [kept] if kept else list(season.seats))
    found = audit({name: values[rows] for name, values in columns.items()}).findings
    (one,) = (one for one in found if one.metric == "position")
    assert one.status == "not_identifiable"
    assert one.note.startswith(reason)
