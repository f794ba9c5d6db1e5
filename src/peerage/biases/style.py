"""Does a reviewer prefer answers written the way it writes?

Likeness is the cosine between an answer's character trigrams, hashed, and the mean of the
reviewer's own answers in other sessions. It is compared within an answer: is the reviewer who
writes most like it also the one who likes it most? Under the null, reviewers may be
permuted within answers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
from peerage.reviews.cells import Cells, count_of
from peerage.reviews.rows import Floats, Groups, Ints, group
from peerage.reviews.view import View, select
from peerage.stats.correlations import fisher_interval
from peerage.stats.tails import normal_p

NAME = "style"
N_FEATURES = 512
MAX_BYTES = 20_000  # of an answer: its style shows by then
MAX_ANSWERS = 20_000  # beyond it every so-many-th session is looked at


def sums(view: View) -> Sums:
    """By reviewer: n, likeness times liking, its variance when permuted, both squares."""
    rows = view.all
    texts = rows.text if rows.text is not None else np.zeros(0, dtype=object)
    step = max(1, -(-rows.n_sessions * _n_candidates(view) // MAX_ANSWERS))
    sampled = view if step == 1 else _sample(view, step)
    texts = sampled.all.text if sampled.all.text is not None else texts
    every = group((sampled.all.session, rows.n_sessions), (sampled.all.candidate, len(view.names)))
    likeness, known = _likeness(sampled, every, texts)
    nobody = np.zeros(0, dtype=np.int64)
    if not known.any():
        return {"reviews": Cells(nobody, nobody, np.zeros((0, 5))), "step": count_of(0.0)}
    judged = sampled.judged
    who, n_names = judged.reviewer[known], len(view.names)
    answer = Groups(sampled.answer.code[known], sampled.answer.n)
    liking = _centred(sampled.score[known], who, answer, n_names)
    like = _centred(likeness[known], who, answer, n_names)
    n = answer.count()
    variance = (answer.sum(like * like) / np.maximum(n - 1.0, 1.0))[answer.code]
    columns = [like * liking, liking * liking * variance, like * like, liking * liking]
    seen = np.flatnonzero(np.bincount(who, minlength=n_names))
    table = np.column_stack(
        [np.bincount(who, c, minlength=n_names) for c in (np.ones(len(who)), *columns)]
    ).astype(np.float64)
    cells = Cells(seen, np.zeros_like(seen), table[seen])
    return {"reviews": cells, "step": count_of(float(step))}


def _n_candidates(view: View) -> int:
    rows = view.all
    return -(-rows.n // max(1, rows.n_sessions * max(1, len(np.unique(rows.reviewer)))))


def _sample(view: View, step: int) -> View:
    kept = view.all.session % step == 0
    return View(select(view.all, kept), view.given[kept])


def _likeness(
    view: View, every: Groups, texts: NDArray[np.object_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """For each judged row the answer's likeness to the reviewer's own, and if that is known."""
    rows = view.all
    held = np.flatnonzero(np.bincount(every.code, minlength=every.n))
    place = np.full(every.n, -1, dtype=np.int64)
    place[held] = np.arange(len(held))
    told = np.flatnonzero([bool(text) for text in texts])  # any row may have an answer's text
    every_text = np.full(every.n, None, dtype=object)
    every_text[every.code[told]] = texts[told]
    text = every_text[held]
    features = np.stack([trigrams(one) for one in text]) if len(held) else np.zeros((0, N_FEATURES))
    candidate, session = every.first(rows.candidate)[held], every.first(rows.session)[held]
    total = np.zeros((len(view.names), N_FEATURES))
    np.add.at(total, candidate, features)
    own = np.full((rows.n_sessions, len(view.names)), -1, dtype=np.int64)
    own[session, candidate] = np.arange(len(held))
    judged = view.judged
    answer = place[_codes(view, every)]
    mine = own[judged.session, judged.reviewer]
    profile = total[judged.reviewer] - np.where((mine >= 0)[:, None], features[mine], 0.0)
    length = np.linalg.norm(profile, axis=1)
    known = (length > 1e-9) & (np.linalg.norm(features[answer], axis=1) > 0)
    likeness = (profile * features[answer]).sum(axis=1) / np.where(length > 1e-9, length, 1.0)
    return likeness, known


def _codes(view: View, every: Groups) -> Ints:
    """The answers of the judged rows, in the codes of all rows."""
    kept = np.isfinite(view.given)
    codes = every.code[kept]
    return codes[~view.is_own] if view.is_own.any() else codes


def trigrams(text: object) -> Floats:
    """An answer's hashed character trigrams, damped and of length one; zeros for no text."""
    data = np.frombuffer(str(text or "").lower().encode()[:MAX_BYTES], dtype=np.uint8)
    if len(data) < 3:
        return np.zeros(N_FEATURES)
    wide = data.astype(np.uint64)
    code = (wide[:-2] << np.uint64(16)) | (wide[1:-1] << np.uint64(8)) | wide[2:]
    place = (code * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - 9)
    counts = np.log1p(np.bincount(place.astype(np.int64), minlength=N_FEATURES))
    counts -= counts.mean()
    scale = float(np.linalg.norm(counts))
    out: Floats = counts / scale if scale > 0.0 else counts
    return out


def _centred(values: Floats, who: Ints, answer: Groups, n_names: int) -> Floats:
    """Values less their answer's mean, then less their reviewer's."""
    gap = values - (answer.sum(values) / np.maximum(answer.count(), 1.0))[answer.code]
    mean = np.bincount(who, gap, n_names) / np.maximum(np.bincount(who, minlength=n_names), 1)
    out: Floats = gap - mean[who]
    return out


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, edge = panel.n_min(NAME), panel.healthy(NAME)
    sampled = sums["step"].sums.max(initial=0.0) > 1.0
    out = []
    for who, row in zip(sums["reviews"].subject, sums["reviews"].sums, strict=True):
        n, both, variance, like, liking = (float(value) for value in row)
        r = both / math.sqrt(like * liking) if like * liking > 0.0 else None
        p = normal_p(both / math.sqrt(variance)) if variance > 0.0 else None
        interval = None if r is None else fisher_interval(r, int(n))
        low, high = interval if interval is not None else (None, None)
        note = "likeness to its own answers against liking, within answers"
        note += "; from a sample of the sessions" if sampled else ""
        name = panel.names[who]
        out.append(Tested(NAME, name, r, low, high, p, int(n), n_min, edge, note, correlation=True))
    return out or [unknown(NAME, n_min, "no reviewer has answers of its own to compare with")]


metrics.register(NAME)(
    Metric(NAME, ("text",), sums, findings, "the text of each answer", across_sessions=True)
)
