"""An audit of any reviews table: windows, subjects, dimensions, and JSON without a NaN."""

from __future__ import annotations

import json

import numpy as np
import pytest

from peerage.engines.duckdb import DuckDB
from peerage.errors import InputError, UsageError
from peerage.reports.from_tables import audit
from peerage.reviews.columns import span_s
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

KEYS = ["metric", "subject", "value", "low", "high", "p", "q", "n", "n_min", "status", "note"]
KEYS += ["mde", "n_needed", "edge"]
SEASON = SimulatedSeason(n_sessions=60)


def reviews(planted: Planted = Planted()) -> dict[str, np.ndarray]:  # noqa: B008
    return simulated_reviews(SEASON, planted, 4)


def test_a_document_has_the_public_shape_and_no_nan() -> None:
    document = audit(reviews()).document()
    json.dumps(document, allow_nan=False)
    assert all(list(row) == KEYS for row in document["findings"])
    assert {row["subject"] for row in document["findings"] if row["metric"] == "agreement"} == set(
        "abcde"
    )


def test_the_same_table_gives_the_same_bytes_again_and_in_blocks() -> None:
    table = reviews(Planted(harshness={"a": -1.0}))
    once, again = (json.dumps(audit(table).document()) for _ in range(2))
    assert once == again
    assert json.dumps(audit(table, engine=DuckDB(200)).document()) == once


def test_one_reviewer_alone_is_shown_with_the_same_q_values() -> None:
    table = reviews(Planted(harshness={"a": -1.0}))
    whole, one = audit(table), audit(table, reviewer="a")
    assert {f.subject.split(">")[0] for f in one.findings} == {"a"}
    assert set(one.findings) <= set(whole.findings)
    with pytest.raises(UsageError, match="there is no reviewer 'zed'"):
        audit(table, reviewer="zed")


def test_a_window_counts_back_from_the_latest_review() -> None:
    table = reviews()
    everything, recent = audit(table), audit(table, since="2w")
    assert 0 < recent.views["rows"] < everything.views["rows"]
    without_times = {name: values for name, values in table.items() if name != "at"}
    assert audit(without_times, since="2w").views["rows"] == everything.views["rows"]


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("all", None)])
def test_spans_are_read(text: str, seconds: float | None) -> None:
    assert span_s(text) == seconds


def test_a_span_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="not a span of time"):
        span_s("yesterday")


def test_a_dimension_is_audited_in_place_of_the_score() -> None:
    table = reviews()
    harsh = np.where(table["reviewer"] == "b", -2.0, 0.0)
    table["mark_clarity"] = table["score"].astype(float) + harsh
    found = audit(table, dimension="clarity")
    assert ("calibration", "b") in {
        (f.metric, f.subject) for f in found.findings if f.status == "evidence"
    }
    with pytest.raises(UsageError, match="no review has a mark for 'wit'"):
        audit(table, dimension="wit")


def test_agreement_is_reported_by_dimension_beside_the_score() -> None:
    table = reviews()
    rng = np.random.default_rng(1)
    table["mark_accuracy"] = table["score"].astype(float)
    table["mark_wit"] = rng.integers(1, 11, len(table["score"])).astype(float)
    found = audit(table)
    note = next(f.note for f in found.findings if f.metric == "agreement")
    assert "accuracy +0." in note
    assert "wit" in note


def test_ranks_stand_in_where_most_of_them_have_no_score() -> None:
    table = reviews()
    score = table["score"].astype(float)
    table["rank"] = np.concatenate(
        [1.0 + (part[None, :] > part[:, None]).sum(axis=1) for part in score.reshape(-1, 5)]
    )
    assert audit(table).views["score"] == "score"
    for kept, value in ((2, "score"), (3, "share")):  # every second one, every third one
        sparse = np.where(np.arange(len(score)) % kept == 0, score, np.nan)
        assert audit({**table, "score": sparse}).views["score"] == value


def test_duplicates_are_refused_by_name() -> None:
    table = reviews()
    twice = {name: np.concatenate([values, values[:1]]) for name, values in table.items()}
    with pytest.raises(InputError, match="twice in one round"):
        audit(twice)


def test_nan_and_infinity_are_left_out_and_said() -> None:
    table = reviews()
    score = table["score"].astype(float)
    score[3], score[8] = np.inf, -np.inf
    found = audit({**table, "score": score})
    assert found.views["not_finite"] == 2
    json.dumps(found.document(), allow_nan=False)


def test_an_empty_table_has_findings_that_say_so() -> None:
    empty = {name: values[:0] for name, values in reviews().items()}
    found = audit(empty)
    assert {f.status for f in found.findings} == {"not_identifiable"}
    assert "no reviews" in found.findings[0].note
