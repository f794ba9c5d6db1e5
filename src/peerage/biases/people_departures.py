"""Where judges differ from people: by model, by length and by category.

On queries that people reviewed too, a judge's departure is its share for a model minus the people's
share. By model, the value is the mean departure. By length, it is the slope of the departure on the
answer's length relative to its query, as share per doubling of the words. By category, the share of
pairs of answers that judge and people order alike is compared with the judge's share elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from peerage.biases.thresholds import add_power
from peerage.findings import Finding
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.judge_shares import JudgeShares, judge_shares, row_means
from peerage.reviews.rows import Rows
from peerage.stats.clusters import quotient, ratio_interval
from peerage.stats.tails import benjamini_hochberg, student_t_p

EDGE = 0.1  # a departure of at most this share is healthy
LEVEL_P = 0.05
MIN_QUERIES = 20
METRICS = ("people_model", "people_length", "people_category")


def people_findings(rows: Rows, people: Collection[str]) -> tuple[Finding, ...]:
    """Return findings for each judge: one per model, its length slope, and one per category."""
    shares = judge_shares(rows)
    is_person = [name in people for name in shares.reviewers]
    labels = row_means(shares.share[:, is_person])
    shares, labels = shares.only(np.isfinite(labels)), labels[np.isfinite(labels)]
    words, category = _by_row(rows, shares)
    findings: list[Finding] = []
    for at, judge in enumerate(shares.reviewers):
        own = shares.share[:, at]
        there = np.isfinite(own)
        if judge in people or not there.any():
            continue
        gap = np.where(there, own - labels, 0.0)
        for model in np.unique(shares.model[there]).tolist():
            some = there & (shares.model == model)
            subject = f"{judge}>{shares.models[model]}"
            finding = _ratio("people_model", subject, gap, some, shares)
            side = "above" if (finding.value or 0.0) > 0 else "below"
            note = f"the judge ranks it {side} people do" if finding.value else ""
            findings.append(finding._replace(note=note))
        if np.isfinite(words).any():
            findings.append(_slope(judge, gap, there, words, shares))
        findings += _categories(judge, own, labels, there, category, shares)
    qs = benjamini_hochberg([finding.p for finding in findings])
    with_status = [_with_status(one._replace(q=q)) for one, q in zip(findings, qs, strict=True)]
    n_tested = sum(finding.p is not None for finding in findings)
    return tuple(add_power(one, n_tested) for one in with_status)


def _by_row(rows: Rows, shares: JudgeShares) -> tuple[Floats, dict[str, Ints]]:
    """Return each row's log length minus its query's mean, and the queries of each category."""
    unit_by_name = {name: i for i, name in enumerate(shares.units)}
    unit = np.array([unit_by_name[one] for one in rows.unit.tolist()], dtype=np.int64)
    model_by_name = {name: i for i, name in enumerate(shares.models)}
    model_of = np.array([model_by_name.get(name, -1) for name in rows.names], dtype=np.int64)
    n_models = len(shares.models)
    words, model = rows.number("words"), model_of[rows.candidate]
    known = (words > 0) & (model >= 0)
    key = unit[rows.session[known]] * n_models + model[known]
    n_keys = len(shares.units) * n_models
    total = np.bincount(key, np.log2(words[known]), minlength=n_keys)
    n = np.bincount(key, minlength=n_keys)
    logs = quotient(total, n)[shares.unit * n_models + shares.model]
    mean = _unit_means(logs, shares)
    category: dict[str, Ints] = {}
    if "category" in rows.keys:
        for code, name in enumerate(rows.labels["category"].tolist()):
            category[name] = np.unique(unit[rows.session[rows.keys["category"] == code]])
    return logs - mean, category


def _unit_means(values: Floats, shares: JudgeShares) -> Floats:
    known = np.isfinite(values)
    size = len(shares.units)
    n = np.bincount(shares.unit[known], minlength=size)
    total = np.bincount(shares.unit[known], values[known], minlength=size)
    return quotient(total, n)[shares.unit]


def _ratio(
    metric: str,
    subject: str,
    top: Floats,
    some: Bools,
    shares: JudgeShares,
    bottom: Floats | None = None,
) -> Finding:
    """Return a mean over queries (or a slope, given `bottom`) as a finding."""
    unit, size = shares.unit[some], len(shares.units)
    tops = np.bincount(unit, top[some], minlength=size)
    below = np.ones(int(some.sum())) if bottom is None else bottom[some]
    bottoms = np.bincount(unit, below, minlength=size)
    n = len(np.unique(unit))
    ratio = ratio_interval(tops, bottoms)
    if ratio is None:
        return Finding(
            metric, subject, None, None, None, None, n, MIN_QUERIES, "too_few", edge=EDGE
        )
    p = None
    if ratio.se and n > 2:
        p = student_t_p(ratio.value / ratio.se, n - 1)
    return Finding(
        metric, subject, ratio.value, ratio.low, ratio.high, p, n, MIN_QUERIES, "clear", edge=EDGE
    )


def _slope(judge: str, gap: Floats, there: Bools, words: Floats, shares: JudgeShares) -> Finding:
    some = there & np.isfinite(words)
    lengths = np.where(some, words, 0.0)
    finding = _ratio("people_length", judge, gap * lengths, some, shares, bottom=lengths**2)
    return finding._replace(note="share per doubling of the words, relative to people")


def _categories(
    judge: str,
    own: Floats,
    labels: Floats,
    there: Bools,
    category: dict[str, Ints],
    shares: JudgeShares,
) -> list[Finding]:
    """Return, for each category, how often judge and people order pairs alike, there and elsewhere.

    The value is the difference: below zero, the judge agrees less with people in this category.
    """
    alike, pairs = _pairs_alike(own, labels, there, shares)
    findings = []
    for name, units in sorted(category.items()):
        inside = np.zeros(len(shares.units), dtype=bool)
        inside[units] = True
        n = int((pairs[inside] > 0).sum())
        here = ratio_interval(alike[inside], pairs[inside])
        elsewhere = ratio_interval(alike[~inside], pairs[~inside])
        subject = f"{judge}>{name}"
        if here is None:
            continue
        note = f"orders {100 * here.value:.0f}% of pairs as people do"
        if elsewhere is None or here.se is None or elsewhere.se is None:
            few = Finding(
                "people_category", subject, None, None, None, None, n, MIN_QUERIES, "too_few"
            )
            findings.append(few._replace(note=note, edge=EDGE))
            continue
        value, se = here.value - elsewhere.value, float(np.hypot(here.se, elsewhere.se))
        half = 1.96 * se
        p = student_t_p(value / se, max(n - 1, 1)) if se else None
        note += f", elsewhere {100 * elsewhere.value:.0f}%"
        findings.append(
            Finding(
                "people_category",
                subject,
                value,
                value - half,
                value + half,
                p,
                n,
                MIN_QUERIES,
                "clear",
            )._replace(note=note, edge=EDGE)
        )
    return findings


def _pairs_alike(
    own: Floats, labels: Floats, there: Bools, shares: JudgeShares
) -> tuple[Floats, Floats]:
    """Return, by query, how many pairs the judge orders as people do, and how many people order."""
    alike, pairs = np.zeros((2, len(shares.units)))
    at = np.flatnonzero(there)
    starts = np.flatnonzero(np.append(True, np.diff(shares.unit[at]) != 0)[: len(at)])
    for first, last in zip(starts, [*starts[1:], len(at)], strict=True):
        some = at[first:last]
        mine = np.sign(own[some][:, None] - own[some][None, :])
        theirs = np.sign(labels[some][:, None] - labels[some][None, :])
        unit = shares.unit[some[0]]
        pairs[unit] = (theirs != 0).sum() / 2.0
        alike[unit] = ((mine == theirs) & (theirs != 0)).sum() / 2.0
        alike[unit] += ((mine == 0) & (theirs != 0)).sum() / 4.0  # a tie is half an agreement
    return alike, pairs


def _with_status(finding: Finding) -> Finding:
    """Return a finding with its status: evidence is significant and beyond the healthy range."""
    value, low, high = finding.value, finding.low, finding.high
    if value is None or low is None or high is None or finding.n < finding.n_min:
        return finding._replace(status="too_few")
    if finding.q is not None and finding.q < LEVEL_P and abs(value) > EDGE:
        return finding._replace(status="evidence")
    inside = max(abs(low), abs(high)) <= EDGE
    return finding._replace(status="clear" if inside else "inconclusive")
