"""Do scores go with length? They may for good reasons, and the note says so."""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import signed
from peerage.reviews.cells import Cells, count_of, pooled
from peerage.reviews.intervals import Estimate, centred_correlation, estimates
from peerage.reviews.view import View
from peerage.stats.correlations import correlation_from_sums

NAME = "length"
N, WITHIN, RAW = 0, (0, 1, 2, 3), slice(4, 9)


def sums(view: View) -> Sums:
    """By reviewer and cluster: n; xx, yy, xy within ballots; x, y, xx, yy, xy as they are."""
    words = view.judged.numbers["words"]
    known = np.isfinite(words)
    score, n, y, yy = view.score, view.n_by_ballot, view.score_by_ballot, view.squares_by_ballot
    if not known.all():
        words, score = np.where(known, words, 0.0), np.where(known, score, 0.0)
        n, y, yy = (view.ballot.sum(c) for c in (known, score, score * score))
    x, xx, xy = (view.ballot.sum(c) for c in (words, words * words, words * score))
    some = np.maximum(n, 1.0)
    within = (xx - x * x / some, yy - y * y / some, xy - x * y / some)
    n_by_answer = view.n_by_answer if known.all() else view.answer.sum(known)
    n_answers = float((n_by_answer > 0).sum())
    return {
        "reviews": view.by_ballot(n, *within, x, y, xx, yy, xy),
        "answers": count_of(n_answers),
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    cells = sums["reviews"]
    n_answers = int(sums["answers"].sums.sum())
    everyone = [_tested(one, "all", n_answers, panel) for one in _correlations(pooled(cells))]
    each = [
        _tested(one, panel.names[one.subject], int(one.sums[N]), panel)
        for one in _correlations(cells)
    ]
    return everyone + each


def _correlations(cells: Cells) -> list[Estimate]:
    return list(estimates(cells, _within, fisher=True))


def _within(totals: np.ndarray) -> np.ndarray:
    return centred_correlation(totals[:, WITHIN])


def _tested(one: Estimate, subject: str, n: int, panel: Panel) -> Tested:
    raw = correlation_from_sums(float(one.sums[N]), *(float(x) for x in one.sums[RAW]))
    note = (
        f"within ballots; {signed(raw)} over all. Longer answers may be better ones: "
        "without known quality this cannot be told apart"
        if one.value is not None
        else "lengths or scores are all alike within ballots"
    )
    return Tested(
        NAME,
        subject,
        one.value,
        one.low,
        one.high,
        one.p,
        n,
        panel.n_min(NAME),
        panel.healthy(NAME),
        note,
        correlation=True,
    )


metrics.register(NAME)(Metric(NAME, ("words",), sums, findings, "the words of each answer"))
