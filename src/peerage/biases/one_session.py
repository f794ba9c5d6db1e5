"""The audit of one session: indicators only.

With four or five answers almost nothing can be proven. So every number comes with its n and the n
it would need. The summary (`bias_audit`, under its published names) comes with findings, whose
status is `too_few` if n is too small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import fsum, sqrt
from typing import Any

from peerage.biases.thresholds import add_power, outliers
from peerage.findings import Audit, AuditLimits, Finding, Status
from peerage.stats.correlations import correlation, correlation_p, fisher_interval
from peerage.types import Ballot, Counted, Response

EXTREME_R = 0.9  # a larger correlation is an indicator even in a session with few answers
EVIDENCE_P = 0.05
OUTLYING = "{}: a standard deviation from the panel's median"
ONE_SESSION = (
    "One session: enough to notice an extreme bias, too little to prove one. overall_bias_risk "
    "counts the signs in this session; it is not a probability."
)
RISKS = ((0, "low"), (2, "medium"))  # factors at most -> risk; more is high


Scores = Mapping[str, Mapping[str, float]]  # by reviewer, then by candidate


def audit_session(
    responses: Sequence[Response],
    ballots: Sequence[Ballot],
    counted: Sequence[Counted],
    limits: AuditLimits,
) -> Audit:
    """Return the published summary and the findings for one session; scores do not change.

    `ballots` and `counted` have the same order.
    """
    scores, own = _scores(counted)
    by_candidate, places = _means_given(ballots, counted, scores)
    beaten = by_candidate if scores else _means_given(ballots, counted, _shares(counted))[0]
    length = _length(responses, beaten, limits)
    means = {name: _mean(mine.values()) for name, mine in scores.items()}
    words = outliers(means)
    variance = _variance(places, _mean(places)) if len(places) > 1 else None
    inflation = {
        name: score - by_candidate[name] for name, score in own.items() if name in by_candidate
    }
    findings = [length, _position(ballots, counted, variance, limits)]
    for name, mean in means.items():
        note = OUTLYING.format(words[name]) if name in words else ""
        n, n_min = len(scores[name]), limits.n_min["calibration"]
        findings.append(_list_untested("calibration", name, mean, n, n_min, note))
    for name, by in inflation.items():
        n_min = limits.n_min["self_preference"]
        findings.append(_list_untested("self_preference", name, by, 1, n_min, status="too_few"))
    r, p = length.value, length.p
    detected = p is not None and p < EVIDENCE_P and abs(r or 0.0) > limits.length_correlation
    by_position = None if variance is None else variance > limits.position_variance
    factors = detected + bool(by_position) + len(set(words.values()))
    summary: dict[str, Any] = {
        "length_score_correlation": None if r is None else round(r, 3),
        "length_score_p_value": None if p is None else round(p, 4),
        "length_bias_detected": None if r is None else detected,
        "position_score_variance": None if variance is None else round(variance, 3),
        "position_bias_detected": by_position,
        "reviewer_mean_scores": {name: round(mean, 2) for name, mean in means.items()},
        "reviewer_score_variance": {
            name: round(sqrt(_variance(mine.values(), means[name])), 2)
            for name, mine in scores.items()
        },
        "harsh_reviewers": sorted(name for name in words if words[name] == "harsh"),
        "generous_reviewers": sorted(name for name in words if words[name] == "generous"),
        "self_vote_inflation": {name: round(by, 2) for name, by in inflation.items()},
        "overall_bias_risk": next((risk for most, risk in RISKS if factors <= most), "high"),
        "n_answers": len(beaten),
        "n_reviewers": len(means),
        "note": ONE_SESSION,
    }
    return Audit(tuple(findings), summary)


# -- the parts --------------------------------------------------------------------------------


def _scores(counted: Sequence[Counted]) -> tuple[Scores, Mapping[str, float]]:
    """Return each reviewer's scores of others' answers, and separately that of its own answer.

    Gated answers are left out: the safety gate caps their scores, so these are not judgements.
    """
    scores: dict[str, dict[str, float]] = {}
    own: dict[str, float] = {}
    for vote in counted:
        mine = dict(vote.scores)
        for name in vote.gated:
            mine.pop(name, None)
        if vote.reviewer in mine:
            own[vote.reviewer] = mine.pop(vote.reviewer)
        if mine:
            scores[vote.reviewer] = mine
    return scores, own


def _shares(counted: Sequence[Counted]) -> Scores:
    """Return, by reviewer and candidate, the share of rivals beaten; a tie counts half."""
    shares: dict[str, dict[str, float]] = {}
    for vote in counted:
        rivals = len(set(vote.shown) - {vote.reviewer}) - 1
        if rivals < 1:
            continue
        place = 0
        mine: dict[str, float] = {}
        for tier in vote.tiers:
            members = [name for name in tier if name != vote.reviewer]
            middle = place + (len(members) - 1) / 2
            mine |= dict.fromkeys(members, (rivals - middle) / rivals)
            place += len(members)
        if mine:
            shares[vote.reviewer] = mine
    return shares


def _means_given(
    ballots: Sequence[Ballot], counted: Sequence[Counted], scores: Scores
) -> tuple[dict[str, float], list[float]]:
    """Return the mean scores that reviewers gave to others, by candidate and by position."""
    by_candidate: defaultdict[str, list[float]] = defaultdict(list)
    by_position: defaultdict[int, list[float]] = defaultdict(list)
    for ballot, vote in zip(ballots, counted, strict=True):
        mine = scores.get(vote.reviewer, {})
        for position, name in enumerate(vote.shown):
            if name in mine:
                by_candidate[name].append(mine[name])
                if ballot.positions_known:
                    by_position[position].append(mine[name])
    means = {name: _mean(values) for name, values in by_candidate.items()}
    return means, [_mean(values) for values in by_position.values()]


def _list_untested(
    metric: str,
    subject: str,
    value: float | None,
    n: int,
    n_min: int,
    note: str = "",
    status: Status | None = None,
) -> Finding:
    """Return a finding without a test: `too_few` or `inconclusive`, unless a status is given."""
    status = status or ("too_few" if n < n_min else "inconclusive")
    return Finding(metric, subject, value, None, None, None, n, n_min, status, None, note)


def _length(
    responses: Sequence[Response], mean_by_candidate: Mapping[str, float], limits: AuditLimits
) -> Finding:
    answered = [one for one in responses if one.text and one.model in mean_by_candidate]
    words = [one.words for one in answered]
    means = [mean_by_candidate[one.model] for one in answered]
    n, n_min = len(words), limits.n_min["length_in_session"]
    r = correlation(words, means)
    if r is None:
        note = "no correlation: fewer than three answers, or lengths or scores all alike"
        return _list_untested("length", "all", None, n, n_min, note, "too_few")
    p = correlation_p(r, n)
    low, high = fisher_interval(r, n) or (None, None)
    status: Status
    if n < n_min:
        status = "indicator" if abs(r) > EXTREME_R else "too_few"
    elif p is not None and p < EVIDENCE_P and abs(r) > limits.healthy["length"]:
        status = "evidence"
    elif low is not None and high is not None and max(-low, high) <= limits.healthy["length"]:
        status = "clear"
    else:
        status = "inconclusive"
    note = "longer answers may also be better ones: one session cannot tell"
    # The only test of a session, so there is nothing to correct for: q is p.
    finding = Finding("length", "all", r, low, high, p, n, n_min, status, p, note)
    if status != "inconclusive":
        return finding
    return add_power(finding._replace(edge=limits.healthy["length"]), correlation=True)


def _position(
    ballots: Sequence[Ballot],
    counted: Sequence[Counted],
    variance: float | None,
    limits: AuditLimits,
) -> Finding:
    votes = zip(ballots, counted, strict=True)
    orders = {vote.shown for ballot, vote in votes if ballot.positions_known}
    note = "variance of mean scores by position; to prove an effect needs many ballots"
    status: Status | None = None
    if len(orders) < 2:
        note = "all reviewers saw one order, so position and candidate coincide"
        status = "not_identifiable"
    n_min = limits.n_min["position"]
    return _list_untested("position", "all", variance, len(ballots), n_min, note, status)


def _mean(values: Collection[float]) -> float:
    return fsum(values) / len(values)


def _variance(values: Collection[float], mean: float) -> float:
    """Return the population variance, forty times faster than the standard library's exact one."""
    return fsum([(value - mean) * (value - mean) for value in values]) / len(values)
