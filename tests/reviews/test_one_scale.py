"""Levels and scales: the same from sums as from rows, found again, and never invented."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.biases.agreement import agreement
from peerage.biases.calibration import calibration
from peerage.biases.preferences import measure_tastes
from peerage.reviews.cells import merge_tables
from peerage.reviews.comparisons import ScoredRows
from peerage.reviews.deviations import deviation_sums
from peerage.reviews.one_scale import (
    PANEL,
    panel_sums,
    scales_of_panel,
    scales_of_rows,
)
from tests.shared.one_scale import SPREADS, fit_scales, ranked, reviews_of
from tests.shared.simulated_reviews import Column, Planted, SimulatedSeason, simulated_reviews

FAIR = SimulatedSeason(n_sessions=150, spread=SPREADS, quality_sd=1.0)


def season(seed: int = 1, planted: Planted | None = None, **changes: object) -> dict[str, Column]:
    return simulated_reviews(replace(FAIR, **changes), planted or Planted(), seed)  # type: ignore[arg-type]


def blocks(reviews: ScoredRows, n: int) -> list[ScoredRows]:
    """Whole sessions apart, with codes that count from zero in each part."""
    bounds = np.linspace(0, reviews.n_clusters, n + 1).astype(int)
    parts = []
    for low, high in pairwise(bounds):
        at = np.flatnonzero((reviews.cluster >= low) & (reviews.cluster < high))
        changed = {
            name: None if column is None else column[at]
            for name in ("reviewer", "candidate", "cluster", "score", "own", "place", "length")
            for column in [getattr(reviews, name)]
        }
        codes = {
            name: np.unique(getattr(reviews, name)[at], return_inverse=True)[1]
            for name in ("answer", "ballot")
        }
        more = {
            name: column[at]
            for name in ("week", "rival", "rival_place", "rivals")
            if (column := getattr(reviews, name)) is not None
        }
        parts.append(replace(reviews, **changed, **codes, **more))
    return parts


@pytest.mark.parametrize("rows", [reviews_of, ranked])
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_sums_by_pattern_of_judges_fit_what_sweeps_over_rows_fit(rows, missing) -> None:
    reviews = rows(season(missing=missing))
    panel, swept = fit_scales(reviews), scales_of_rows(reviews, sweeps=PANEL)
    assert panel.converged
    assert swept.converged
    np.testing.assert_allclose(panel.scale, swept.scale, atol=1e-9)
    np.testing.assert_allclose(panel.level, swept.level, atol=1e-9)
    np.testing.assert_allclose(panel.scale_se, swept.scale_se, atol=1e-9)


@pytest.mark.parametrize("rows", [reviews_of, ranked])
def test_sums_of_blocks_add_up_to_the_sums_of_all(rows) -> None:
    reviews = rows(season(missing=0.3, repeats=0.0))
    parts = blocks(reviews, 3)
    sums = [panel_sums(part) for part in parts]
    assert None not in sums
    total = sums[0] + sums[1] + sums[2]  # type: ignore[operator]
    scales = scales_of_panel(total)
    np.testing.assert_allclose(scales.scale, fit_scales(reviews).scale, atol=1e-9)
    whole = deviation_sums(reviews, scales)
    added = merge_tables([deviation_sums(part, scales) for part in parts])
    assert whole.keys() == added.keys()
    for name, one in whole.items():
        np.testing.assert_array_equal(one.subject, added[name].subject)
        np.testing.assert_array_equal(one.cluster, added[name].cluster)
        np.testing.assert_allclose(one.sums, added[name].sums, atol=1e-8)


def test_levels_and_scales_are_found_again_with_their_uncertainty() -> None:
    truth = np.array(list(SPREADS.values()))
    truth = truth / truth.mean()
    off = []
    for seed in range(12):
        planted = Planted(harshness={"c": -1.5})
        scales = fit_scales(reviews_of(season(seed, planted)))
        off.append((scales.scale - truth) / scales.scale_se)
        assert scales.status == ("estimated",) * 5
        assert scales.level[2] == pytest.approx(4.5, abs=0.4)
    assert np.sqrt(np.mean(np.square(off))) < 1.8  # rounding and clipping add a little


@settings(max_examples=settings.default.max_examples // 5)
@given(shift=st.floats(-50, 50), who=st.integers(0, 4))
def test_a_reviewer_who_adds_a_constant_to_every_score_moves_nobody(shift: float, who: int) -> None:
    reviews = reviews_of(season())
    moved = replace(reviews, score=reviews.score + shift * (reviews.reviewer == who))
    before, after = fit_scales(reviews), fit_scales(moved)
    np.testing.assert_allclose(before.scale, after.scale, atol=1e-6)
    was, now = (
        measure_tastes(deviation_sums(r, s), s).own for r, s in ((reviews, before), (moved, after))
    )
    for one, other in zip(was, now, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-6)


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_all_scores_times_a_factor_give_all_values_times_it(factor: float) -> None:
    reviews = reviews_of(season())
    times = replace(reviews, score=reviews.score * factor)
    was, now = (
        measure_tastes(deviation_sums(r, s), s).pairs
        for r, s in ((reviews, fit_scales(reviews)), (times, fit_scales(times)))
    )
    for one, other in zip(was, now, strict=True):
        assert other.value == pytest.approx(factor * (one.value or 0.0), abs=1e-6)
        assert other.unit == pytest.approx(factor * one.unit)


# -- what cannot be told ---------------------------------------------------------------------------


def test_a_contrarian_is_named_and_changes_nothing_for_the_others() -> None:
    columns = season()
    without = columns["score"].copy()
    turned = np.where(columns["reviewer"] == "b", 12.0 - without, without)
    silent = np.where(columns["reviewer"] == "b", 7.0, without)
    found = []
    for score in (turned, silent):
        reviews = reviews_of({**columns, "score": score})
        scales = fit_scales(reviews)
        found.append((scales, deviation_sums(reviews, scales)))
    (contrary, sums), (constant, quiet) = found
    assert contrary.status[1] == "contrarian"
    assert contrary.scale[1] < -0.3
    named = {one.subject: one for one in agreement(sums, contrary)}
    assert named[1].note == "contrarian"
    assert (named[1].high or 0.0) < 0.0
    assert constant.status[1] == "constant"
    assert np.isnan(constant.scale[1])
    others = [0, 2, 3, 4]
    np.testing.assert_allclose(contrary.scale[others], constant.scale[others], atol=1e-6)
    for one, other in zip(
        measure_tastes(sums, contrary).own, measure_tastes(quiet, constant).own, strict=True
    ):
        if one.subject != 1:
            assert one.value == pytest.approx(other.value, abs=1e-6)
        else:
            assert other.value is None


def test_constant_reviewers_have_a_status_and_no_number() -> None:
    columns = season()
    for rows in (reviews_of, ranked):
        reviews = rows({**columns, "score": np.full(len(columns["score"]), 7.0)})
        scales = fit_scales(reviews)
        assert set(scales.status) == {"constant"}
        assert np.isnan(scales.scale).all()
        assert np.isnan(scales.level).all()
        assert measure_tastes(deviation_sums(reviews, scales), scales).own == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"seats": ("a", "b")}, {"alone"}),
        ({"seats": ("a", "b", "c")}, {"assumed"}),
        ({"outsiders": ("y", "z")}, {"alone", "assumed"}),
        ({"n_sessions": 1}, {"assumed"}),
    ],
)
def test_a_scale_that_cannot_be_estimated_says_so(changes, status) -> None:
    scales = fit_scales(reviews_of(season(**changes)))
    assert set(scales.status) == status
    known = np.isfinite(scales.scale)
    np.testing.assert_allclose(scales.scale[known], 1.0)
    assert (scales.scale_se[known] >= 0.49).all()


def test_one_shared_answer_gives_a_reason_and_no_number() -> None:
    reviews = reviews_of(season())
    shared = reviews.answer == reviews.answer[~reviews.own][0]
    mine = (reviews.reviewer == 0) & ~reviews.own
    at = np.flatnonzero((shared & ~reviews.own) | mine)
    columns = ("answer", "reviewer", "candidate", "cluster", "score", "own", "ballot", "place")
    few = replace(
        reviews, **{name: getattr(reviews, name)[at] for name in columns}, length=None, week=None
    )
    scales = fit_scales(few)
    found = calibration(deviation_sums(few, scales), scales)
    assert found
    assert all(one.value is None and one.note for one in found)


def test_no_rows_give_nothing() -> None:
    none = np.zeros(0, dtype=np.int64)
    empty = ScoredRows(3, 0, none, none, none, none, none * 1.0, none > 0)
    scales = fit_scales(empty)
    assert set(scales.status) == {"alone"}
    assert measure_tastes(deviation_sums(empty, scales), scales).pairs == []


def test_a_crowd_with_sparse_overlap_is_fitted_over_its_rows() -> None:
    rng = np.random.default_rng(5)
    n, per, items = 400, 60, 3000
    reviewer = np.repeat(np.arange(n), per)
    item = np.concatenate([rng.choice(items, per, replace=False) for _ in range(n)])
    scale, level = rng.uniform(0.45, 1.7, n), rng.normal(6.0, 1.0, n)
    quality = rng.normal(size=items)[item]
    score = level[reviewer] + scale[reviewer] * (quality + 0.5 * rng.normal(size=len(item)))
    candidate = n + item % 7
    own = np.zeros(len(item), dtype=bool)
    crowd = ScoredRows(n + 7, items, item, reviewer, candidate, item, score, own)
    assert panel_sums(crowd) is None
    scales = fit_scales(crowd)
    assert scales.converged
    assert np.corrcoef(scales.scale[:n], scale)[0, 1] > 0.9
    assert np.corrcoef(scales.level[:n], level)[0, 1] > 0.95
    off = (scales.scale[:n] - scale / scale.mean()) / scales.scale_se[:n]
    assert 0.7 < off.std() < 1.3
