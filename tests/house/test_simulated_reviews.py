"""Simulated seasons hold what they promise: shape, balance, repeats, and the same again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews


def test_the_same_seed_is_the_same_season() -> None:
    once, again = (simulated_reviews(SimulatedSeason(text=True), Planted(), 3) for _ in range(2))
    assert all((once[name] == again[name]).all() for name in once)
    other = simulated_reviews(SimulatedSeason(), Planted(), 4)
    assert (once["score"] != other["score"]).any()


def test_every_reviewer_sees_every_answer_once_in_some_place() -> None:
    for order in ("shuffle", "balanced", "shared"):
        table = simulated_reviews(SimulatedSeason(n_sessions=10, order=order), Planted(), 1)
        assert (np.sort(table["position"].reshape(50, 5), axis=1) == np.arange(5)).all()


def test_balanced_orders_put_everyone_everywhere_equally() -> None:
    table = simulated_reviews(SimulatedSeason(n_sessions=10, order="balanced"), Planted(), 1)
    first = table["candidate"][table["position"] == 0]
    assert set(np.unique(first, return_counts=True)[1]) == {10}


def test_a_repeated_query_has_the_same_answers() -> None:
    table = simulated_reviews(SimulatedSeason(n_sessions=50, repeats=0.5), Planted(), 1)
    words = {}
    for query, candidate, n in zip(
        table["query_id"], table["candidate"], table["words"], strict=True
    ):
        assert words.setdefault((query, candidate), n) == n
    assert len(set(table["query_id"])) < 45


def test_scores_are_marks_from_one_to_ten() -> None:
    table = simulated_reviews(SimulatedSeason(), Planted(harshness={"a": -9.0}), 1)
    assert table["score"].min() == 1.0
    assert table["score"].max() <= 10.0
    assert (table["score"] == np.rint(table["score"].astype(float))).all()


def test_own_votes_can_be_left_out() -> None:
    table = simulated_reviews(SimulatedSeason(n_sessions=3, own_votes=False), Planted(), 1)
    assert (table["reviewer"] != table["candidate"]).all()
    assert len(table["score"]) == 3 * 20


def test_lengths_follow_quality_only_when_asked() -> None:
    def r(planted: Planted) -> float:
        table = simulated_reviews(SimulatedSeason(n_sessions=400), planted, 1)
        return float(np.corrcoef(table["words"].astype(float), table["score"].astype(float))[0, 1])

    assert r(Planted()) == pytest.approx(0.0, abs=0.05)
    assert r(Planted(length_of_quality=0.7)) > 0.3


def test_fair_judges_differ_as_they_were_told_to() -> None:
    season = SimulatedSeason(
        n_sessions=300, spread={"a": 0.4}, skill={"c": 1.5}, wordiness={"d": 2.0}
    )
    table = simulated_reviews(season, Planted(), 2)
    score, words = table["score"].astype(float), table["words"].astype(float)
    sd = {name: score[table["reviewer"] == name].std() for name in "abcde"}
    assert sd["a"] < 0.6 * min(sd[name] for name in "bcde")
    mean = {name: score[table["candidate"] == name].mean() for name in "abcde"}
    assert mean["c"] > 1.0 + max(mean[name] for name in "abde")
    length = {name: words[table["candidate"] == name].mean() for name in "abcde"}
    assert length["d"] > 1.5 * max(length[name] for name in "abce")


def test_outsiders_review_in_place_of_the_seats() -> None:
    table = simulated_reviews(SimulatedSeason(n_sessions=5, outsiders=("x", "y")), Planted(), 1)
    assert set(table["reviewer"]) == {"x", "y"}
    assert set(table["candidate"]) == set("abcde")
    assert len(table["score"]) == 5 * 2 * 5
    assert sorted(table["position"][:5]) == [0, 1, 2, 3, 4]


def test_a_late_entrant_is_neither_shown_nor_asked_before() -> None:
    table = simulated_reviews(SimulatedSeason(n_sessions=10, late={"c": 0.5}), Planted(), 1)
    early = table["session_id"] < "s000005"
    assert "c" not in {*table["reviewer"][early], *table["candidate"][early]}
    assert "c" in table["reviewer"][~early]
    assert set(table["position"][early]) == {0, 1, 2, 3}


def test_overlap_is_the_share_of_sessions_that_more_than_one_reviews() -> None:
    table = simulated_reviews(
        SimulatedSeason(n_sessions=400, overlap=0.25, missing=0.1), Planted(), 1
    )
    reviewers = [set(table["reviewer"][table["session_id"] == s]) for s in set(table["session_id"])]
    shared = sum(len(names) > 1 for names in reviewers) / 400
    assert 0.15 < shared < 0.35
