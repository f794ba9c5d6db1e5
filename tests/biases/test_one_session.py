"""One session's audit: the published names and thresholds, and honest statuses beside them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from peerage.biases.one_session import audit_session
from peerage.findings import Audit, AuditLimits, Finding
from peerage.types import Ballot, Counted, Response, Slot

KEYS = {
    "length_score_correlation",
    "length_score_p_value",
    "length_bias_detected",
    "position_score_variance",
    "position_bias_detected",
    "reviewer_mean_scores",
    "reviewer_score_variance",
    "harsh_reviewers",
    "generous_reviewers",
    "self_vote_inflation",
    "overall_bias_risk",
    "n_answers",
    "n_reviewers",
    "note",
}


def audited(
    scores: dict[str, dict[str, float]],
    words: dict[str, int],
    orders: dict[str, list[str]] | None = None,
) -> Audit:
    names = list(words)
    responses = [Response(name, "word " * n) for name, n in words.items()]
    ballots, counted = [], []
    for reviewer, given in scores.items():
        shown = (orders or {}).get(reviewer, names)
        slots = tuple(Slot(chr(65 + i), name, "") for i, name in enumerate(shown))
        ballots.append(Ballot(reviewer, slots))
        overall = {name: Fraction(repr(float(score))) for name, score in given.items()}
        counted.append(Counted(reviewer, tuple(shown), (), overall=overall))
    return audit_session(responses, ballots, counted, AuditLimits())


def length(found: Audit) -> Finding:
    return next(one for one in found.findings if one.metric == "length")


def test_at_four_answers_r_of_082_has_p_of_018_and_is_too_few() -> None:
    """Student's t, where a normal approximation would say .04."""
    scores = {"judge": {"a": 1.0, "b": 2.0, "c": 4.5, "d": 3.0}}
    found = length(audited(scores, {"a": 100, "b": 200, "c": 300, "d": 400}))
    assert found.value == pytest.approx(0.74, abs=0.1)
    exact = audited({"judge": {"a": 1, "b": 3, "c": 4, "d": 4}}, {"a": 1, "b": 2, "c": 3, "d": 5})
    one = length(exact)
    assert one.value == pytest.approx(0.828, abs=0.01)
    assert one.p == pytest.approx(0.17, abs=0.01)
    assert one.status == "too_few"
    assert exact.bias_audit["length_bias_detected"] is False


def test_the_summary_has_its_published_names() -> None:
    found = audited({"x": {"a": 5, "b": 6, "c": 7}}, {"a": 10, "b": 20, "c": 30})
    assert set(found.bias_audit) == KEYS


def test_harsh_is_below_the_median_by_a_sample_standard_deviation() -> None:
    """The published example, 6.2, 7.8 and 7.1, names the first harsh and nobody generous."""
    scores = {"gpt": {"x": 6.2}, "claude": {"x": 7.8}, "gemini": {"x": 7.1}}
    summary = audited(scores, {"x": 10}).bias_audit
    assert summary["harsh_reviewers"] == ["gpt"]
    assert summary["generous_reviewers"] == []


def test_own_scores_count_only_as_self_vote_inflation() -> None:
    scores = {"a": {"a": 10, "b": 5}, "b": {"a": 6, "b": 9}, "c": {"a": 6, "b": 5}}
    summary = audited(scores, {"a": 10, "b": 10}).bias_audit
    assert summary["self_vote_inflation"] == {"a": 4.0, "b": 4.0}
    assert summary["reviewer_mean_scores"] == {"a": 5.0, "b": 6.0, "c": 5.5}


def test_one_shared_order_cannot_tell_position_from_candidate() -> None:
    scores = {"x": {"a": 5, "b": 6}, "y": {"a": 5, "b": 7}}
    found = audited(scores, {"a": 10, "b": 10})
    one = next(one for one in found.findings if one.metric == "position")
    assert one.status == "not_identifiable"


def test_an_empty_session_has_findings_and_no_numbers() -> None:
    found = audited({}, {"a": 3})
    assert length(found).value is None
    assert found.bias_audit["overall_bias_risk"] == "low"
    assert "One session" in found.bias_audit["note"]
