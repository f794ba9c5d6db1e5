"""Whether a reviewer prefers answers written in its own style.

Likeness is the cosine between an answer's character trigrams, hashed, and the mean of the
reviewer's own answers in other sessions. Within each answer, and with all reviewers on one scale,
the metric tests whether the reviewer who writes most like the answer also likes it most. Likeness
and liking are relative to the reviewer's usual ones for that model: a taste for a model that writes
alike is a taste, and nothing tells it from a preference for a style. Under the null hypothesis,
reviewers may be permuted within answers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested, as_tested, unknown
from peerage.reviews.cells import Floats, Ints, dense, group, name_columns, single_cell, table_of
from peerage.reviews.comparisons import View, scored_rows
from peerage.reviews.intervals import estimates
from peerage.reviews.one_scale import fit_scales
from peerage.reviews.rows import Rows, select
from peerage.stats.clusters import quotient
from peerage.stats.tails import normal_p

NAME = "style"
TEXTS = "the text of each answer"
NOTHING = "no reviewer has answers of its own to compare with"
N_FEATURES = 512
N_SWEEPS = 3
MAX_BYTES = 20_000  # of an answer are read, which is enough to show its style
MAX_ANSWERS = 20_000  # of larger tables, only every second, third … session is read


class LikenessSums(NamedTuple):
    """Sums over reviews: products and squares of likeness and liking, both centred."""

    n: Floats
    both: Floats
    variance: Floats  # of `both`, if reviewers were permuted
    like: Floats
    liking: Floats


def sums(view: View) -> Sums:
    """Return n, likeness × liking, its variance when permuted, and both squares, by reviewer.

    Levels and scales are fitted on the block itself, which is the whole table unless that is large.
    Reviewers without a usable scale (constant, contrarian or alone) are left out.
    """
    rows = view.all
    n_reviewers = max(1, len(np.unique(rows.reviewer)))
    n_answers = rows.n_sessions * -(-rows.n // max(1, rows.n_sessions * n_reviewers))
    step = max(1, -(-n_answers // MAX_ANSWERS))
    if step > 1:
        rows = select(rows, np.flatnonzero(rows.session % step == 0))
    numbers = {**rows.numbers, "likeness": _likeness(rows)}
    reviews = scored_rows(replace(rows, numbers=numbers), view.value)
    scales = fit_scales(reviews)
    who = reviews.reviewer
    likeness = np.zeros(reviews.n) if reviews.likeness is None else reviews.likeness
    at = np.flatnonzero(~reviews.own & np.isfinite(likeness) & scales.voice[who])
    who, answer = who[at], reviews.answer[at]
    pair = who.astype(np.int64) * reviews.n_names + reviews.candidate[at]
    liking = (reviews.score[at] - scales.level[who]) / scales.scale[who]
    liking = _centre_values(liking, pair, answer)
    like = _centre_values(likeness[at], pair, answer)
    n = np.bincount(answer)
    variance = (np.bincount(answer, like * like) / np.maximum(n - 1, 1))[answer]
    columns = LikenessSums(
        np.ones(len(at)), like * liking, liking * liking * variance, like * like, liking * liking
    )
    cells = table_of(who, reviews.cluster[at], columns)
    return {"reviews": cells, "step": single_cell(step if len(at) else 0.0)}


def _likeness(rows: Rows) -> Floats:
    """Return each answer's likeness to the reviewer's other answers; NaN if unknown."""
    texts = np.full(rows.n, None, dtype=object) if rows.text is None else rows.text
    answers = group((rows.session, rows.n_sessions), (rows.candidate, len(rows.names)))
    has_text = np.flatnonzero([bool(text) for text in texts])  # any row of an answer may have it
    text = np.full(answers.n, None, dtype=object)
    text[answers.code[has_text]] = texts[has_text]
    session, candidate = answers.first(rows.session), answers.first(rows.candidate)
    features = np.stack([trigrams(one) for one in text]) if answers.n else np.zeros((0, N_FEATURES))
    total = np.zeros((len(rows.names), N_FEATURES))
    np.add.at(total, candidate, features)
    own = np.full((rows.n_sessions, len(rows.names)), -1, dtype=np.int64)
    own[session, candidate] = np.arange(answers.n)
    answer, mine = answers.code, own[rows.session, rows.reviewer]
    profile = total[rows.reviewer] - np.where((mine >= 0)[:, None], features[mine], 0.0)
    length = np.linalg.norm(profile, axis=1)
    known = (length > 1e-9) & (np.linalg.norm(features[answer], axis=1) > 0)
    cosine = (profile * features[answer]).sum(axis=1) / np.where(length > 1e-9, length, 1.0)
    return np.where(known, cosine, np.nan)


def trigrams(text: object) -> Floats:
    """Return an answer's hashed character trigrams as a damped unit vector; zeros for no text."""
    data = np.frombuffer(str(text or "").lower().encode()[:MAX_BYTES], dtype=np.uint8)
    if len(data) < 3:
        return np.zeros(N_FEATURES)
    wide = data.astype(np.uint64)
    code = (wide[:-2] << np.uint64(16)) | (wide[1:-1] << np.uint64(8)) | wide[2:]
    place = (code * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - 9)
    counts = np.log1p(np.bincount(place.astype(np.int64), minlength=N_FEATURES))
    counts -= counts.mean()
    scale = float(np.linalg.norm(counts))
    return counts / scale if scale > 0.0 else counts


def _centre_values(values: Floats, pair: Ints, answer: Ints) -> Floats:
    """Return values minus the mean of their reviewer and candidate, and minus their answer's mean.

    If reviews are missing, one mean changes the other a little, so both are removed three times.
    """
    codes = [(code, np.maximum(np.bincount(code), 1)) for code in (dense(pair)[0], answer)]
    for code, n in codes * N_SWEEPS:
        values = values - (np.bincount(code, values) / n)[code]
    return values


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how much each reviewer prefers answers that are written like its own.

    Of: each reviewer.
    Formula: r(likeness, liking), where likeness = cosine of hashed character trigrams with the
        reviewer's other answers, liking = (score - level) / scale; both minus the mean of the
        answer and of the reviewer and candidate
    Counts: reviews.
    Healthy: from -{edge} to +{edge}, a correlation.
    Assumes: that reviewers write answers of their own, and that the texts are in the table. For p,
        reviewers are permuted within answers; if the sums of queries vary more than that, their
        variation is used instead. Long tables are sampled.
    Fooled by: subject matter. A reviewer that is good in a field writes like the good answers of
        that field. A taste for a model that always writes like the reviewer is not seen: it is a
        taste, and counts in `pair_departure`.
    Example: `style, b: 0.38 [0.31, 0.446], n 1000` – b rates an answer higher the more it is
        written like b's own. Say in the rubric that style does not count.
    """
    cells = sums["reviews"]
    note = (
        "correlation of likeness to its own answers with liking, on one scale, within answers and "
        "relative to the usual ones for the model"
    )
    if sums["step"].sums.max(initial=0.0) > 1.0:
        note += "; from a sample of the sessions"
    spread = np.bincount(cells.subject, name_columns(LikenessSums, cells.sums).both ** 2)
    tested = []
    for one in estimates(cells, _correlation, fisher=True):
        totals = name_columns(LikenessSums, one.sums)
        variance = max(float(totals.variance), float(spread[one.subject]))
        if one.value is None or not variance > 0.0:
            why = "all answers are equally similar to its own"
            tested.append(unknown(NAME, panel, why, panel.names[one.subject], one.n))
            continue
        p = normal_p(float(totals.both) / math.sqrt(variance))
        tested.append(replace(as_tested(NAME, one, panel, note), p=p, correlation=True))
    return tested


def _correlation(totals: Floats) -> Floats:
    named = name_columns(LikenessSums, totals)
    return quotient(named.both, np.sqrt(np.maximum(named.like * named.liking, 0.0)))


metrics.register(NAME)(
    Metric(NAME, ("text",), sums, findings, TEXTS, across_sessions=True, nothing=NOTHING)
)
