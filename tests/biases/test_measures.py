"""Fair judges who differ are accused of nothing; planted biases come out at their size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerage.biases.calibration import calibration, without_outliers
from peerage.biases.places import position
from peerage.biases.position import anchoring
from peerage.biases.preferences import family_preference, measure_tastes
from peerage.reviews.deviations import deviation_sums
from peerage.reviews.intervals import Estimate
from peerage.reviews.one_scale import fit_scales
from tests.shared.one_scale import FAIR as FAIR_TRIALS
from tests.shared.one_scale import PANEL, Trial, audited, ranked, reviews_of, trial
from tests.shared.simulated_reviews import Planted, simulated_reviews

FAIR = replace(PANEL, n_sessions=100)


def of(found: list[Estimate], subject: int) -> Estimate:
    return next(one for one in found if one.subject == subject)


# -- fair judges -----------------------------------------------------------------------------------

DIFFERENT = [one for one in FAIR_TRIALS if one.name != "ceilings of one's own"]
AT_100 = [one for one in DIFFERENT if one.season.n_sessions == 100]


@pytest.mark.parametrize("one", AT_100, ids=lambda one: one.name)
def test_fair_judges_who_differ_are_accused_of_nothing(one: Trial) -> None:
    columns = [one.shape(simulated_reviews(one.season, one.planted, seed)) for seed in range(8)]
    accused = [audited(reviews_of(each)).evidence() for each in columns]
    assert sum(map(bool, accused)) <= 2, accused


def test_standard_errors_are_as_wide_as_values_scatter() -> None:
    ratios: dict[str, list[float]] = {}
    for seed in range(12):
        for name, found in trial(FAIR, Planted(), seed, reviews_of).found.items():
            ratios.setdefault(name, []).extend(
                one.value / (one.se_sessions or one.se)
                for one in found
                if one.value is not None and one.se
            )
    largest = ratios.pop("position")  # of several contrasts
    assert 1.0 < np.std(largest) < 1.9
    for name, values in ratios.items():
        assert 0.7 < np.std(values) < 1.35, name


# -- planted biases --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "who"),
    [(reviews_of, "a"), (reviews_of, "c"), (reviews_of, "e"), (ranked, "a"), (ranked, "c")],
)
def test_a_point_for_oneself_among_judges_of_different_spread_is_named(rows, who: str) -> None:
    planted = Planted(self_preference={who: 1.0})
    subject = "abcde".index(who)
    for seed in range(3):
        result = trial(replace(FAIR, n_sessions=200), planted, seed, rows)
        assert ("self_preference", subject) in result.evidence()
        if rows is reviews_of:
            one = of(result.found["self_preference"], subject)
            assert one.value == pytest.approx(1.0, abs=0.45)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("planted", [Planted(position_by={"c": 1.0}), Planted(position=1.0)])
def test_a_point_for_the_first_answer_is_a_point_whatever_the_overlap(overlap, planted) -> None:
    values, covered = [], 0
    for seed in range(12):
        columns = simulated_reviews(replace(FAIR, n_sessions=300, overlap=overlap), planted, seed)
        reviews = reviews_of(columns)
        scales = fit_scales(reviews)
        one = of(position(deviation_sums(reviews, scales), scales), 2)
        assert one.value is not None
        values.append(one.value)
        covered += (one.low or 0.0) <= 1.0 <= (one.high or 0.0)
    assert np.mean(values) == pytest.approx(1.0, abs=0.15)
    assert covered >= 9


def test_a_favour_is_set_aside_before_the_innocent_are_judged() -> None:
    planted = Planted(favours={("c", "a"): 1.5})
    aside, named = 0, []
    for seed in range(8):
        columns = simulated_reviews(replace(FAIR, n_sessions=200), planted, seed)
        result = audited(reviews_of(columns))
        aside += 2 * 5 + 0 in result.scales.aside
        one = of(result.found["pair_departure"], 2 * 5 + 0)
        assert one.value == pytest.approx(1.5, abs=0.5)
        named += [what for what in result.evidence() if what != ("pair_departure", 10)]
    assert aside >= 7
    assert len(named) <= 1


def test_a_taste_for_length_does_not_make_the_others_look_averse_to_it() -> None:
    planted, named = Planted(length_by={"c": 0.4}), []
    for seed in range(8):
        result = trial(replace(FAIR, n_sessions=200), planted, seed, reviews_of)
        assert of(result.found["length_relative"], 2).value == pytest.approx(0.4, abs=0.2)
        named += [what for what in result.evidence() if what[0] == "length_relative"]
    assert named.count(("length_relative", 2)) == 8
    assert len(named) <= 9


@pytest.mark.parametrize("family", ["ab", "abc"])
def test_a_taste_that_a_family_shares_comes_out_at_its_size(family: str) -> None:
    season = replace(FAIR, n_sessions=300, families=dict.fromkeys(family, "one"), spread={})
    planted = Planted(family=dict.fromkeys(family, 0.8))
    reviews = reviews_of(simulated_reviews(season, planted, 3))
    scales = fit_scales(reviews)
    sums = deviation_sums(reviews, scales)
    found = family_preference(sums, scales, measure_tastes(sums, scales))
    members = [one for one in found if one.value is not None]
    assert [one.subject for one in members] == list(range(len(family)))
    assert np.mean([one.value or 0.0 for one in members]) == pytest.approx(0.8, abs=0.25)


def test_a_harsh_reviewer_comes_out_at_its_size_among_judges_of_different_spread() -> None:
    ratios = []
    for seed in range(12):
        planted = Planted(harshness={"c": -1.0})
        reviews = reviews_of(simulated_reviews(FAIR, planted, seed))
        scales = fit_scales(reviews)
        one = of(calibration(deviation_sums(reviews, scales), scales), 2)
        assert one.value is not None
        ratios.append((one.value + 1.0) / (one.se or 1.0))
    assert abs(np.mean(ratios)) < 1.0
    assert 0.5 < np.std(ratios) < 1.6


def test_anchoring_has_its_sign_and_a_shared_order_cannot_show_it() -> None:
    season = replace(FAIR, n_sessions=300, spread={})
    reviews = reviews_of(simulated_reviews(season, Planted(anchoring=-0.3), 1))
    scales = fit_scales(reviews)
    found = anchoring(deviation_sums(reviews, scales), scales)
    assert all((one.high or 0.0) < 0.0 for one in found)
    assert np.mean([one.value or 0.0 for one in found]) == pytest.approx(-0.3, abs=0.15)
    shared = reviews_of(simulated_reviews(replace(season, order="shared"), Planted(), 1))
    scales = fit_scales(shared)
    for metric in (anchoring, position):
        found = metric(deviation_sums(shared, scales), scales)
        assert found
        assert {one.value for one in found} == {None}


# -- ranks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [reviews_of, ranked])
def test_identical_rankings_of_five_peers_give_exactly_nothing(rows) -> None:
    columns = simulated_reviews(replace(FAIR, n_sessions=40), Planted(), 1)
    place = {name: 9.0 - i for i, name in enumerate("abcde")}
    columns["score"] = np.array([place[name] for name in columns["candidate"]])
    result = audited(rows(columns))
    for name, found in result.found.items():
        assert all(one.value is None for one in found), name
    assert result.evidence() == []


def test_three_peers_leave_departures_on_one_candidate_untold() -> None:
    season = replace(FAIR, seats=("a", "b", "c"))
    reviews = reviews_of(simulated_reviews(season, Planted(), 1))
    scales = fit_scales(reviews)
    sums = deviation_sums(reviews, scales)
    tastes = measure_tastes(sums, scales)
    assert {one.value for one in tastes.pairs} == {None}
    assert None not in {one.value for one in tastes.own}
    assert not tastes.known
    ranks = ranked(simulated_reviews(season, Planted(), 1))
    scales = fit_scales(ranks)
    sums = deviation_sums(ranks, scales)
    tastes = measure_tastes(sums, scales)
    assert tastes.own + tastes.pairs == []


def test_answers_far_beyond_the_fitted_ones_are_not_judged() -> None:
    columns = simulated_reviews(replace(FAIR, skill={"a": 6.0}, spread={}), Planted(), 2)
    reviews = reviews_of(columns)
    scales = fit_scales(reviews)
    one = of(measure_tastes(deviation_sums(reviews, scales), scales).own, 0)
    assert one.value is None
    assert "outside the qualities" in one.note


def test_one_harsh_reviewer_of_three_makes_no_other_generous() -> None:
    planted = Planted(harshness={"c": -2.0})
    reviews = reviews_of(
        simulated_reviews(replace(FAIR, seats=("a", "b", "c"), spread={}), planted, 4)
    )
    scales = fit_scales(reviews)
    found = {one.subject: one for one in calibration(deviation_sums(reviews, scales), scales)}
    assert of([*found.values()], 2).value == pytest.approx(-2.0, abs=0.4)
    for who in (0, 1):
        assert abs(found[who].value or 0.0) < 0.3
        assert (found[who].p or 0.0) > 0.01


def test_who_stands_apart_is_left_out_one_at_a_time_and_never_half_of_all() -> None:
    def gaps(*levels: float) -> list[float]:
        k, mean = len(levels), sum(levels) / len(levels)
        given = [
            Estimate(i, (level - mean) * k / (k - 1), None, None, None, 99, 99, 0.05, 90.0)
            for i, level in enumerate(levels)
        ]
        return [round(one.value or 0.0, 6) for one in without_outliers(given)]

    assert gaps(0.0, 0.0, 0.0, -2.0, -1.0) == [0.0, 0.0, 0.0, -2.0, -1.0]
    assert gaps(0.0, 1.0) == [-1.0, 1.0]
    assert gaps(0.0, 0.0, 1.0, 1.0)[0] < 0.0
    assert without_outliers([]) == []
