"""Reviewers whose tastes are stronger than others' are fair, and so are those who like a style."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from peerage.biases.taste_spread import TasteScatter, UsualDeparture
from peerage.findings import Finding
from peerage.stats.tails import trigamma
from tests.shared.calibration import accusations, audit_of
from tests.shared.fair_judges import (
    DRAWN,
    EIGHT,
    OWN_STRENGTHS,
    VOCABULARIES,
    panel,
    with_tastes,
)
from tests.shared.one_scale import KIN, WORDY, Trial
from tests.shared.simulated_reviews import Planted

N_TRIALS = 10
MOST_ACCUSED = 3  # with a rate of 5%, more happen to one kind in a thousand
THREE = Trial("three peers", replace(DRAWN, seats=("a", "b", "c")), also=("calibration",))


def scatter(strengths: list[float], seed: int, n_models: int = 12) -> TasteScatter:
    """The departures of reviewers of these strengths of taste, without noise."""
    rng = np.random.default_rng(seed)
    return TasteScatter(
        [
            UsualDeparture(reviewer, candidate, float((strength * rng.normal()) ** 2), 0.0)
            for reviewer, strength in enumerate(strengths)
            for candidate in range(n_models)
        ]
    )


def test_trigamma_has_its_known_values() -> None:
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6.0, abs=1e-10)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2.0, abs=1e-10)
    assert trigamma(50.0) == pytest.approx(1 / 50 + 1 / 5000 + 1 / 750_000, abs=1e-9)


def test_a_reviewer_with_stronger_tastes_has_a_wider_spread_and_no_one_a_narrower_one() -> None:
    tastes = scatter([0.2] * 7 + [0.8], 1)
    spreads = [tastes.for_own_answers(reviewer).sd for reviewer in range(8)]
    assert spreads[7] > 2.0 * max(spreads[:7])
    assert min(spreads) >= tastes.all.sd
    assert min(tastes.for_pair(7, model).sd for model in range(12)) > 2.0 * tastes.all.sd


def test_where_reviewers_are_alike_the_pool_stays() -> None:
    alike = [scatter([0.2] * 8, seed) for seed in range(20)]
    kept = [one for one in alike if one.for_own_answers(0) == one.all]
    assert len(kept) >= 12
    assert all(one.prior_df > 5.0 for one in alike)


@pytest.mark.parametrize("n", range(3))
def test_a_panel_of_twelve_with_a_few_strong_tastes_is_not_accused(n: int) -> None:
    """With one spread for all, 42 of 72 such audits accused a reviewer."""
    twelve = [trial for trial in OWN_STRENGTHS if trial.name.startswith("12 peers")]
    assert accusations(twelve[n], n) == set()


@pytest.mark.slow
@pytest.mark.parametrize("trial", [*OWN_STRENGTHS, *VOCABULARIES], ids=lambda one: one.name)
def test_judges_of_different_strengths_are_rarely_accused(trial: Trial) -> None:
    """The table of docs/audit.md has 60 audits of each kind, of which at most 6 accuse anybody."""
    assert sum(bool(accusations(trial, seed)) for seed in range(N_TRIALS)) <= MOST_ACCUSED


@pytest.mark.parametrize("seed", range(4))
def test_a_taste_for_a_model_that_writes_alike_is_no_preference_for_a_style(seed: int) -> None:
    """Centred by reviewer alone, three of four such audits accused somebody."""
    assert "style" not in accusations(VOCABULARIES[0], seed)


def test_tastes_of_three_peers_are_not_taken_for_harshness() -> None:
    """A quarter of such audits called somebody harsh or generous."""
    fair = [bool(accusations(with_tastes(THREE, 0.3), seed)) for seed in range(20)]
    assert sum(fair) <= 1
    harsh = replace(THREE, season=replace(THREE.season, spreads=None))
    harsh = replace(harsh, planted=Planted(harshness={"c": -1.5}))
    found = [one for one in audit_of(harsh, 1).findings if one.metric == "calibration"]
    assert {one.subject for one in found if one.status == "evidence"} == {"c"}
    assert all("so its tastes look like its level" in one.note for one in found)


@pytest.mark.parametrize("c_words", [0.0, 2.0])
def test_a_length_lover_is_not_also_named_for_pairs_itself_and_its_family(c_words: float) -> None:
    """Before, ten of twelve such audits named it for one of these."""
    wordy = {**WORDY, "c": c_words, "f": 0.5, "g": -0.5}
    season = replace(EIGHT, wordiness=wordy, families={"c": "one", "a": "one"}, tastes=0.1)
    found = audit_of(Trial("lover", season, Planted(length_by={"c": 1.0})), 1).findings
    named = {(one.metric, one.subject.partition(">")[0]) for one in found if _is_evidence(one)}
    assert named == {("length_relative", "c")}
    (one,) = (one for one in found if (one.metric, one.subject) == ("length_relative", "c"))
    assert "points per standard deviation of log words (here 1.5 times as long)" in one.note


def _is_evidence(one: Finding) -> bool:
    return one.status == "evidence"


def test_a_preference_for_a_family_as_large_as_its_smallest_effect_is_mostly_found() -> None:
    season = replace(EIGHT, n_sessions=100, tastes=0.1, families=KIN)
    found = n = 0
    for seed in range(8):
        (fair,) = of_family(Trial("fair", season), seed)
        if fair.mde is not None:
            (one,) = of_family(Trial("kin", season, Planted(family={"a": fair.mde})), seed)
            found, n = found + (one.status == "evidence"), n + 1
    assert found >= 0.7 * n


def of_family(trial: Trial, seed: int) -> list[Finding]:
    return [
        one
        for one in audit_of(trial, seed).findings
        if (one.metric, one.subject) == ("family_preference", "a")
    ]


def test_a_pair_whose_model_is_far_from_the_others_is_at_most_an_indicator() -> None:
    season = replace(panel(8, 200), skill=dict(zip("abcdefgh", [3.0, *[0.0] * 7], strict=True)))
    trial = Trial("one far model", season, Planted(favours={("b", "a"): -1.5}))
    (one,) = (one for one in audit_of(trial, 1).findings if one.subject == "b>a")
    assert one.status in ("indicator", "inconclusive", "not_identifiable")
