"""Evidence that may be looked at after every observation: exact, free of order, and right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.stats.bets import (
    BETS,
    NEVER,
    EvidenceBar,
    GateVerdict,
    RunningGate,
    decide,
    decide_all,
    expected_queries,
    first_looks,
    interval,
    log_evidence,
    log_evidence_above,
    looks,
    queries_needed,
    total_evidence,
)

DIFFERENCES = st.lists(
    st.floats(-1.0, 1.0, allow_nan=False, allow_subnormal=False), min_size=1, max_size=40
)


def verdict(differences: object, **bar: float | int) -> GateVerdict:
    chosen = EvidenceBar(**bar)  # type: ignore[arg-type]
    evidence = log_evidence(np.array(differences, dtype=float), chosen)
    return decide(first_looks([evidence], chosen)[0])


@given(DIFFERENCES)
def test_the_evidence_is_the_mean_over_bets_of_products(differences: list[float]) -> None:
    d = np.array(differences)
    worse = np.mean([np.prod(1.0 - bet * d) for bet in BETS])
    not_worse = np.mean([np.prod(1.0 + bet * (d + 0.1) / 0.9) for bet in BETS])
    evidence = log_evidence(d, EvidenceBar())
    assert evidence["worse"][-1] == pytest.approx(math.log(worse), abs=1e-9)
    assert evidence["not_worse"][-1] == pytest.approx(math.log(not_worse), abs=1e-9)


@given(DIFFERENCES, st.randoms())
def test_the_total_is_the_same_to_the_bit_in_any_order(differences: list[float], random) -> None:
    shuffled = list(differences)
    random.shuffle(shuffled)
    assert total_evidence(np.array(differences), EvidenceBar()) == total_evidence(
        np.array(shuffled), EvidenceBar()
    )


@given(DIFFERENCES, st.integers(1, 3))
def test_a_swap_of_the_models_swaps_better_and_worse(differences: list[float], copies: int) -> None:
    d = np.array(differences * copies)
    bar = EvidenceBar()
    one, other = (first_looks([log_evidence(x, bar)], bar)[0] for x in (d, -d))
    assert (one["better"], one["not_worse"]) == (other["worse"], other["not_better"])


@given(DIFFERENCES)
def test_the_interval_excludes_zero_exactly_where_a_difference_stands(
    differences: list[float],
) -> None:
    d, bar = np.array(differences * 4), EvidenceBar()
    low, high = interval(d, bar)
    totals = total_evidence(d, bar)
    assert (low > 0.0) == (totals["better"] >= bar.log_bars["better"])
    assert (high < 0.0) == (totals["worse"] >= bar.log_bars["worse"])
    (look,) = looks(d, bar, [len(d)])
    assert look.low <= low + 1e-6
    assert look.high >= high - 1e-6


def test_verdicts_of_plain_cases() -> None:
    assert verdict([-1.0]) == GateVerdict("undecided", None)
    assert verdict([-1.0] * 40).verdict == "worse"
    assert verdict([1.0] * 40).verdict == "better"
    assert verdict([0.0] * 100).verdict == "same"
    assert verdict([0.0] * 10).verdict == "undecided"
    assert verdict([0.05, -0.05] * 100).verdict == "same"
    assert verdict([-0.3] * 5, margin=0.5).verdict in ("undecided", "not_worse")


def test_the_first_verdict_stands_whatever_comes_after() -> None:
    early = verdict([-1.0] * 20)
    assert verdict([-1.0] * 20 + [1.0] * 500) == early


def test_not_worse_comes_before_it_is_known_whether_it_is_better() -> None:
    first = {"better": NEVER, "worse": NEVER, "not_worse": 7, "not_better": NEVER}
    assert decide(first) == GateVerdict("not_worse", 7)
    assert decide({**first, "worse": 9}) == GateVerdict("not_worse", 7)
    assert decide({**first, "worse": 6}) == GateVerdict("worse", 6)
    assert decide({**first, "not_better": 9}) == GateVerdict("same", 9)
    assert decide({**first, "not_better": 9, "better": 8}) == GateVerdict("better", 8)


# -- a fixed suite -------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1))
def test_a_suite_that_was_seen_whole_is_known_exactly(differences: list[float]) -> None:
    bar = EvidenceBar(suite=len(differences))
    d = np.array(differences)
    thirds = round(3 * d.sum())
    evidence = log_evidence(d, bar)
    assert (evidence["better"][-1] == math.inf) == (thirds > 0)
    assert (evidence["worse"][-1] == math.inf) == (thirds < 0)
    assert verdict(differences, suite=len(differences)).verdict != "undecided"


@given(st.lists(st.integers(-7, 7), min_size=3, max_size=60), st.randoms())
def test_rounding_never_decides_on_a_suite_that_is_even(thirds: list[int], random) -> None:
    values = [n / 7 for n in thirds] + [-n / 7 for n in thirds]
    random.shuffle(values)
    evidence = log_evidence(np.array(values), EvidenceBar(suite=len(values)))
    assert np.isfinite(evidence["better"]).all()
    assert np.isfinite(evidence["worse"]).all()
    low, high = interval(np.array(values), EvidenceBar(suite=len(values)))
    assert low == pytest.approx(0.0, abs=1e-6)
    assert high == pytest.approx(0.0, abs=1e-6)


def test_what_is_left_of_a_suite_can_make_a_mean_impossible_before_its_end() -> None:
    evidence = log_evidence_above(np.array([1.0] * 6 + [-1.0] * 4), 0.0, 10)
    assert np.isfinite(evidence[:5]).all()
    assert np.isinf(evidence[5:]).all()


# -- several measures, and how many ---------------------------------------------------------------


def test_of_several_measures_the_strongest_needs_most() -> None:
    strong, weak = np.full(60, -0.9), np.full(60, -0.14)
    bar = EvidenceBar()
    alone = [first_looks([log_evidence(d, bar)], bar)[0]["worse"] for d in (strong, weak)]
    both = [
        one["worse"] for one in first_looks([log_evidence(d, bar) for d in (strong, weak)], bar)
    ]
    assert both[0] > alone[0]  # it needs twice the bar
    assert both[1] == alone[1]  # the last one needs the bar itself


@given(
    st.lists(st.sampled_from([-1.0, -1 / 3, 0.0, 0.1, 1.0]), min_size=1, max_size=20),
    st.integers(1, 6),
    st.booleans(),
)
def test_one_observation_at_a_time_stands_when_all_at_once_do(
    some: list[float], copies: int, has_suite: bool
) -> None:
    path = np.array(some * copies)
    paths = np.stack([path, np.abs(path)])
    bar = EvidenceBar(margin=0.3, suite=len(path) if has_suite else None)
    running = RunningGate(bar, 2)
    for observation in paths.T:
        running.add(observation)
    assert running.first == first_looks([log_evidence(one, bar) for one in paths], bar)


def test_a_verdict_on_several_measures() -> None:
    same, worse = GateVerdict("same", 9), GateVerdict("worse", 5)
    better, open_ = GateVerdict("better", 12), GateVerdict("undecided", None)
    assert decide_all([same, worse, open_]) == worse
    assert decide_all([same, open_]) == open_
    assert decide_all([same, better]) == GateVerdict("better", 12)
    assert decide_all([same, same]) == same
    assert decide_all([better, GateVerdict("not_worse", 3)]) == GateVerdict("not_worse", 12)


def test_how_many_more_are_needed_is_about_right() -> None:
    d = np.clip(np.random.default_rng(1).normal(-0.2, 0.35, 4000), -1.0, 1.0)
    after = verdict(d).after
    assert after is not None
    needed = queries_needed(d[:20], EvidenceBar())
    assert after / 4 < 20 + needed < 4 * after
    assert expected_queries(0.35, 0.1) == 94
    assert queries_needed(np.zeros(1), EvidenceBar()) > 10
    assert queries_needed(np.array([-0.05] * 30), EvidenceBar(suite=31)) == 1


# -- at most α, whenever one looks ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["spread", "all or nothing", "sparse"])
@pytest.mark.parametrize("suite", [None, 300])
def test_equal_models_are_told_apart_in_at_most_five_percent(kind: str, suite: int | None) -> None:
    rng = np.random.default_rng(7)
    draw = {
        "spread": lambda n: np.clip(rng.normal(0.0, 0.35, n), -1.0, 1.0),
        "all or nothing": lambda n: rng.choice([-1.0, 1.0], n),
        "sparse": lambda n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.04, 0.92, 0.04]),
    }[kind]
    n_runs, n_apart = 300, 0
    for _ in range(n_runs):
        half = draw(150)
        d = rng.permutation(np.concatenate([half, -half])) if suite else draw(300)
        bar = EvidenceBar(suite=suite)
        n_apart += decide(first_looks([log_evidence(d, bar)], bar)[0]).verdict in (
            "better",
            "worse",
        )
    assert n_apart <= 0.05 * n_runs + 2.3 * math.sqrt(n_runs * 0.05 * 0.95)
