"""One session's audit: indicators, honestly labelled as such.

With four or five answers almost nothing can be shown. So every number comes with its n
and the n it would take, and the summary under the seed's names (`bias_audit`) stands
beside findings that say "too few" where that is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum, sqrt
from typing import Any

from peerage.stats import benjamini_hochberg, correlation, correlation_p, fisher_interval
from peerage.types import Audit, Ballot, Counted, Finding, Response, Status

EXTREME_R = 0.9  # what even a single session may point at
EVIDENCE_P = 0.05
RISKS = ((0, "low"), (2, "medium"))  # factors at most -> risk; more is high


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The seed's thresholds and the numbers below which a figure is only an indicator."""

    length_correlation: float = 0.3
    position_variance: float = 0.5
    healthy_length: float = 0.2
    min_answers: int = 10
    min_ballots: int = 20
    min_reviews: int = 50
    min_own: int = 20


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores by reviewer and candidate; own ones are kept apart, because they are a subject."""

    by_reviewer: Mapping[str, Mapping[str, float]]
    own: Mapping[str, float]

    def of(self, candidate: str) -> list[float]:
        """What the others scored one candidate."""
        return [scores[candidate] for scores in self.by_reviewer.values() if candidate in scores]


def audit_session(
    responses: Sequence[Response],
    ballots: Sequence[Ballot],
    counted: Sequence[Counted],
    limits: SessionLimits,
) -> Audit:
    """The seed's summary and our findings for one session; never a change to its scores."""
    scores = _scores(counted)
    length = _length(responses, scores if scores.by_reviewer else _shares(counted), limits)
    means = {name: _mean(given.values()) for name, given in scores.by_reviewer.items() if given}
    harsh, generous = _outliers(means)
    variance = _position_variance(ballots, scores)
    inflation = _self_inflation(scores)
    findings = [
        length,
        _position(ballots, variance, limits),
        *_calibration(scores, means, harsh, generous, limits),
        *_self_preference(inflation, limits),
    ]
    qs = benjamini_hochberg([finding.p for finding in findings])
    findings = [
        finding if q is None else replace(finding, q=q)
        for finding, q in zip(findings, qs, strict=True)
    ]
    detected = length.value is not None and (
        abs(length.value) > limits.length_correlation
        and length.p is not None
        and length.p < EVIDENCE_P
    )
    by_position = None if variance is None else variance > limits.position_variance
    factors = sum([detected, bool(by_position), bool(harsh), bool(generous)])
    summary: dict[str, Any] = {
        "length_score_correlation": _rounded(length.value, 3),
        "length_score_p_value": _rounded(length.p, 4),
        "length_bias_detected": None if length.value is None else detected,
        "position_score_variance": _rounded(variance, 3),
        "position_bias_detected": by_position,
        "reviewer_mean_scores": {name: round(mean, 2) for name, mean in means.items()},
        "reviewer_score_variance": {
            name: round(sqrt(_variance(given.values())), 2)
            for name, given in scores.by_reviewer.items()
            if given
        },
        "harsh_reviewers": harsh,
        "generous_reviewers": generous,
        "self_vote_inflation": {name: round(by, 2) for name, by in inflation.items()},
        "overall_bias_risk": next((risk for most, risk in RISKS if factors <= most), "high"),
    }
    return Audit(tuple(findings), summary)


# -- the parts --------------------------------------------------------------------------------


def _scores(counted: Sequence[Counted]) -> _Scores:
    """What each reviewer scored, gated answers left out: their cap is ours, not a judgement."""
    by_reviewer: dict[str, dict[str, float]] = {}
    own: dict[str, float] = {}
    for ballot in counted:
        given = {
            name: score.numerator / score.denominator
            for name, score in ballot.overall.items()
            if name not in ballot.gated
        }
        if ballot.reviewer in given:
            own[ballot.reviewer] = given.pop(ballot.reviewer)
        if given:
            by_reviewer[ballot.reviewer] = given
    return _Scores(by_reviewer, own)


def _shares(counted: Sequence[Counted]) -> _Scores:
    """Where nobody gave a score, the share of rivals beaten stands in for one."""
    by_reviewer: dict[str, dict[str, float]] = {}
    for ballot in counted:
        names = [name for tier in ballot.tiers for name in tier if name != ballot.reviewer]
        rivals = len(set(ballot.shown) - {ballot.reviewer}) - 1
        if rivals < 1:
            continue
        place = 0
        given: dict[str, float] = {}
        for tier in ballot.tiers:
            members = [name for name in tier if name in names]
            middle = Fraction(2 * place + len(members) - 1, 2)
            given |= {name: float((rivals - middle) / rivals) for name in members}
            place += len(members)
        if given:
            by_reviewer[ballot.reviewer] = given
    return _Scores(by_reviewer, {})


def _length(responses: Sequence[Response], scores: _Scores, limits: SessionLimits) -> Finding:
    pairs = [
        (response.words, _mean(given))
        for response in responses
        if response.text and (given := scores.of(response.model))
    ]
    n = len(pairs)
    r = correlation([words for words, _ in pairs], [mean for _, mean in pairs])
    if r is None:
        note = "no correlation: fewer than three answers, or lengths or scores all alike"
        return _finding("length", "all", None, None, None, n, limits.min_answers, "too_few", note)
    p = correlation_p(r, n)
    interval = fisher_interval(r, n)
    status: Status
    if n < limits.min_answers:
        status = "indicator" if abs(r) > EXTREME_R else "too_few"
    elif p is not None and p < EVIDENCE_P and abs(r) > limits.healthy_length:
        status = "evidence"
    elif interval and max(abs(interval[0]), abs(interval[1])) <= limits.healthy_length:
        status = "clear"
    else:
        status = "inconclusive"
    note = "longer answers may also be better ones: one session cannot tell"
    return _finding("length", "all", r, interval, p, n, limits.min_answers, status, note)


def _position_variance(ballots: Sequence[Ballot], scores: _Scores) -> float | None:
    """The variance of mean scores by position, or None without scores or positions."""
    by_position: dict[int, list[float]] = {}
    for ballot in ballots:
        if not ballot.positions_known:
            continue
        given = scores.by_reviewer.get(ballot.reviewer, {})
        for position, slot in enumerate(ballot.slots):
            if slot.author in given:
                by_position.setdefault(position, []).append(given[slot.author])
    means = [_mean(values) for values in by_position.values()]
    return _variance(means) if len(means) > 1 else None


def _position(ballots: Sequence[Ballot], variance: float | None, limits: SessionLimits) -> Finding:
    orders = {ballot.authors for ballot in ballots if ballot.positions_known}
    shared = len(orders) < 2
    note = (
        "all reviewers saw one order, so position and candidate coincide"
        if shared
        else "variance of mean scores by position; an effect needs many ballots to be told"
    )
    status: Status = "not_identifiable" if shared else "too_few"
    n = len(ballots)
    if not shared and n >= limits.min_ballots:
        status = "inconclusive"
    return _finding("position", "all", variance, None, None, n, limits.min_ballots, status, note)


def _outliers(means: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Who is harsh and who generous: beyond the median by a sample standard deviation."""
    if len(means) < 2:
        return [], []
    n, ordered = len(means), sorted(means.values())
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    spread = sqrt(_variance(ordered) * n / (n - 1))
    harsh = sorted(name for name, mean in means.items() if mean < middle - spread)
    generous = sorted(name for name, mean in means.items() if mean > middle + spread)
    return harsh, generous


def _calibration(
    scores: _Scores,
    means: Mapping[str, float],
    harsh: Sequence[str],
    generous: Sequence[str],
    limits: SessionLimits,
) -> list[Finding]:
    findings = []
    for name, mean in means.items():
        n = len(scores.by_reviewer[name])
        word = "harsh" if name in harsh else "generous" if name in generous else ""
        note = f"{word}: a standard deviation from the panel's median" if word else ""
        status: Status = "too_few" if n < limits.min_reviews else "inconclusive"
        findings.append(
            _finding("calibration", name, mean, None, None, n, limits.min_reviews, status, note)
        )
    return findings


def _self_inflation(scores: _Scores) -> dict[str, float]:
    """How much better each reviewer scored its own answer than the others did."""
    return {
        reviewer: own - _mean(others)
        for reviewer, own in scores.own.items()
        if (others := scores.of(reviewer))
    }


def _self_preference(inflation: Mapping[str, float], limits: SessionLimits) -> list[Finding]:
    return [
        _finding("self_preference", name, by, None, None, 1, limits.min_own, "too_few", "")
        for name, by in inflation.items()
    ]


def _finding(
    metric: str,
    subject: str,
    value: float | None,
    interval: tuple[float, float] | None,
    p: float | None,
    n: int,
    n_min: int,
    status: Status,
    note: str,
) -> Finding:
    low, high = interval if interval else (None, None)
    return Finding(metric, subject, value, low, high, p, n, n_min, status, None, note)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return fsum(values) / len(values)


def _variance(values: Iterable[float]) -> float:
    """The population variance; the standard library's own is exact and forty times slower."""
    values = list(values)
    mean = fsum(values) / len(values)
    return fsum([(value - mean) ** 2 for value in values]) / len(values)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
