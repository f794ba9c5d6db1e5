"""Whether scores depend on the length of answers or of reasoning.

Longer answers may be better ones, and the note says so. An answer is compared with the others on
the ballot and with the usual length of its candidate, so that models that merely differ in
wordiness and quality do not show a bias. Whether a reviewer favours length more than the others do
can be measured without gold answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.thresholds import Tested, as_tested, write_signed
from peerage.reviews.cells import (
    Cells,
    Floats,
    Tables,
    join_columns,
    name_columns,
    pool_cells,
    single_cell,
    table_of,
)
from peerage.reviews.comparisons import View, log_words
from peerage.reviews.deviations import LineSums
from peerage.reviews.intervals import ALIKE, Estimate, centred_correlation, estimates, slopes
from peerage.reviews.one_scale import LengthLines, Scales
from peerage.stats.clusters import quotient
from peerage.stats.correlations import correlations_from_sums

NAME, RELATIVE, REASONING = "length", "length_relative", "reasoning_length"
WORDS = "the words of each answer"
SAME_LENGTH = "all answers that it judged are of the same length"
NO_LENGTHS = "no answer of known length was judged by two reviewers"
REASONED = ("reasoning_words", "correct")
THOUGHTS = "the words of reasoning and whether each answer is correct"
NO_THOUGHTS = "no answer has both reasoning words and correctness"
KINDS = 3  # of answers: 0 wrong, 1 right, and 2 not known


class LengthSums(NamedTuple):
    """Sums of log words (x) and scores (y): relative to the usual values, then raw."""

    n: Floats
    xx: Floats
    yy: Floats
    xy: Floats
    raw_n: Floats
    raw_x: Floats
    raw_y: Floats
    raw_xx: Floats
    raw_yy: Floats
    raw_xy: Floats

    def raw(self) -> Floats:
        """Return the sums that a correlation of the raw values needs."""
        columns = (self.raw_n, self.raw_x, self.raw_y, self.raw_xx, self.raw_yy, self.raw_xy)
        return np.stack(columns, axis=-1)


def sums(view: View) -> Sums:
    """Return n, x, y, xx, yy, xy within ballots, by reviewer, candidate and correctness.

    x is log words with extreme values clipped, and y is the score; sums of raw values are included.
    """
    rows, ballot = view.judged, view.ballot
    x, y = log_words(rows), view.score
    if x is None:
        raise ValueError("lengths need the column words, which is missing")
    known = np.isfinite(x)
    all_known = bool(known.all())
    if all_known:
        a, b = ballot.centre(x), ballot.centre(y)
    else:
        x, y = np.where(known, x, 0.0), np.where(known, y, 0.0)
        some = np.maximum(ballot.sum(known), 1.0)
        a, b = (known * (v - ballot.each(ballot.sum(v) / some)) for v in (x, y))
    subject = (rows.reviewer.astype(np.int64) * len(view.names) + rows.candidate) * KINDS
    subject += KINDS - 1
    n_decided = 0
    if "correct" in rows.numbers:
        correct = rows.numbers["correct"]
        decided = np.isfinite(correct)
        subject -= np.where(decided, np.where(correct > 0.5, 1, KINDS - 1), 0)
        n_decided = int((view.answer.sum(decided & known) > 0.0).sum())
    counted = None if all_known else known
    columns = [counted, a, b, a * a, b * b, a * b]
    raw = [ballot.sum(column) for column in (known, x, y, x * x, y * y, x * y)]
    answered = view.n_by_answer if all_known else view.answer.sum(known)
    return {
        "reviews": table_of(subject, view.cluster, columns),
        "raw": view.by_ballot(*raw),
        "answers": single_cell((answered > 0.0).sum()),
        "decided": single_cell(n_decided),
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how scores correlate with the length of answers, for all reviewers and for each.

    Of: all reviewers together, and each reviewer.
    Formula: r(x, y), where x = log words and y = score, both minus the mean of their ballot and
        minus the reviewer's mean for that candidate
    Counts: answers.
    Healthy: from -{edge} to +{edge}, a correlation.
    Assumes: nothing about quality, so the status is at most `indicator`. If the table says for
        enough answers whether they are correct, the correlation is measured among equally correct
        answers, and the status may be `evidence`.
    Fooled by: effort. A model that writes more where it knows more gets higher scores for being
        right. Models that always write more change nothing, and the most extreme 1% of each model's
        lengths are replaced by the nearest less extreme length.
    Example: `length, all: 0.303 [0.26, 0.346], n 1200` – answers that are longer than their model's
        usual ones get higher scores, and the whole interval is above the healthy range. Look at the
        board with `--length-controlled`.
    """
    table = sums["reviews"]
    n_answers, n_decided = (int(sums[name].sums.sum()) for name in ("answers", "decided"))
    gold = n_decided >= panel.n_min(NAME)
    if gold:  # only answers that are known to be right or wrong
        table, n_answers = table.only(table.subject % KINDS < KINDS - 1), n_decided
    cells = join_columns(_centre_on_usual(table, len(panel.names)), sums["raw"])
    everyone, each = (estimates(c, _within, fisher=True) for c in (pool_cells(cells), cells))
    return [
        *(replace(_test_length(one, panel, gold, "all"), n=n_answers) for one in everyone),
        *(_test_length(one, panel, gold) for one in each),
    ]


def _centre_on_usual(table: Cells, n_names: int) -> Cells:
    """Return n, xx, yy, xy relative to the reviewer's usual values for each candidate."""
    _, place = np.unique(table.subject, return_inverse=True)
    n, x, y, xx, yy, xy = table.sums.T
    mx, my = (quotient(np.bincount(place, v), np.bincount(place, n))[place] for v in (x, y))
    xx, yy = xx - 2.0 * mx * x + mx * mx * n, yy - 2.0 * my * y + my * my * n
    xy = xy - mx * y - my * x + mx * my * n
    columns = [np.nan_to_num(column) for column in (n, xx, yy, xy)]
    return table_of(table.subject // (n_names * KINDS), table.cluster, columns)


def _within(totals: Floats) -> Floats:
    """Return the correlation; NaN if lengths hardly differ from the usual ones."""
    at = name_columns(LengthSums, totals)
    apart = np.where(at.xx > 1e-9 * np.maximum(at.raw_xx, 1.0), at.xx, 0.0)
    return centred_correlation(np.column_stack([at.n, apart, at.yy, at.xy]))


def _test_length(one: Estimate, panel: Panel, gold: bool, subject: str | None = None) -> Tested:
    raw = float(correlations_from_sums(name_columns(LengthSums, one.sums).raw()))
    doubt = (
        "among answers that are equally correct"
        if gold
        else "longer answers may be better ones: this needs known quality"
    )
    over_all = write_signed(raw if math.isfinite(raw) else None)
    note = (
        f"log words relative to the ballot and to the candidate's usual length; {over_all} over "
        f"all; {doubt}"
        if one.value is not None
        else "no answer differs in length from its candidate's usual length, or scores do "
        "not differ"
    )
    return replace(
        as_tested(NAME, one, panel, note, subject),
        correlation=True,
        not_identifiable=one.value is None,
        at_most_indicator=not gold,
    )


# -- compared with the others ------------------------------------------------------------------


class _Lines(NamedTuple):
    """The length sums of reviewers, relative to their means for each candidate."""

    table: Cells  # LineSums by reviewer and cluster
    step: float  # a standard deviation of log words
    middle: Floats  # the mean of log words, by reviewer


def _lines(sums: Tables, scales: Scales) -> _Lines | None:
    """Return the sums for slopes on length; None if no length is known.

    Scores and lengths are relative to their means for that reviewer and candidate: a taste for a
    wordy model is not a taste for length.
    """
    table = sums.get("length")
    if table is None or table.n == 0:
        return None
    k = len(scales.sd)
    _, place = np.unique(table.subject, return_inverse=True)
    n, x, y, q, raw_xx, xy, xq = name_columns(LineSums, table.sums)
    count = np.bincount(place, n)
    mx, my, mq = (quotient(np.bincount(place, v), count)[place] for v in (x, y, q))
    xx = raw_xx - 2.0 * mx * x + mx * mx * n
    xy = xy - mx * y - my * x + mx * my * n
    xq = xq - mx * q - mq * x + mx * mq * n
    xx = np.where(np.abs(xx) > ALIKE * raw_xx, xx, 0.0)
    none = np.zeros_like(n)
    reviewer = table.subject // (k * k if scales.compares else k)
    lines = table_of(reviewer, table.cluster, [n, none, none, none, xx, xy, xq])
    seen, total = (np.bincount(reviewer, v, minlength=k) for v in (n, x))
    step = math.sqrt(max(0.0, float(xx.sum() / n.sum())))
    return _Lines(lines, step, np.nan_to_num(quotient(total, seen)))


def length_relative(sums: Tables, scales: Scales) -> list[Estimate]:
    """Return the slope of each reviewer's deviation on log words, per standard deviation of these.

    Both are relative to their means for that reviewer and candidate.
    """
    lines = _lines(sums, scales)
    if lines is None:
        return []
    return slopes(lines.table, sums, scales, lines.step, SAME_LENGTH, centred=True)


def length_step(sums: Tables, scales: Scales) -> float:
    """Return one standard deviation of log words within a model; 0 if no length is known."""
    lines = _lines(sums, scales)
    return 0.0 if lines is None else lines.step


def length_lines(sums: Tables, scales: Scales, lovers: Sequence[Estimate]) -> LengthLines | None:
    """Return what some reviewers add for length; None if there are no such reviewers."""
    lines = _lines(sums, scales)
    if lines is None or not lovers or not lines.step > 0.0:
        return None
    slope = np.zeros(len(scales.sd))
    for one in lovers:
        slope[one.subject] = (one.value or 0.0) / lines.step
    return LengthLines(slope, np.zeros_like(slope) if scales.compares else lines.middle)


def relative_findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how much more each reviewer gives for length than the others do.

    Of: each reviewer.
    Formula: slope of d on x, where d = score - (level + scale × the others' view) and x = log words
        / their standard deviation; both minus the reviewer's mean for that candidate
    Counts: reviews.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores, for each standard
        deviation of log words. The value is in points for each such deviation; the note says how
        many times as long an answer is then.
    Assumes: at least two other reviewers, and that not all reviewers share the preference.
    Fooled by: a preference that all reviewers share, which looks like quality; and curved scales if
        longer answers are also better.
    Example: `length_relative, c: 0.395 [0.329, 0.46], n 1000` – for an answer that is longer by one
        standard deviation, c gives .4 points more than the others give to the same answer. Compare
        the board `--without c`.
    """
    step = length_step(panel.compared.sums, panel.compared.scales)
    unit = "shares of rivals" if panel.ranks_only else "points"
    note = (
        f"{unit} per standard deviation of log words (here {math.exp(step):.2g} times as long), "
        "relative to other reviewers of the same answers; a taste for length that all share is "
        "visible only with known quality"
    )
    tested = [as_tested(RELATIVE, one, panel, note) for one in panel.compared.lengths]
    scales = panel.compared.scales
    return [
        replace(one, at_most_indicator=True, note=f"{note}; the reviewer's scale is assumed")
        if scales.is_assumed(estimate.subject) and not one.not_identifiable
        else one
        for one, estimate in zip(tested, panel.compared.lengths, strict=True)
    ]


# -- reasoning -----------------------------------------------------------------------------------


def reasoning_sums(view: View) -> Sums:
    """Return n and the sums, squares and products of x, y, z (words, score, correct) by cluster."""
    rows, answer = view.judged, view.answer
    words, correct = rows.numbers["reasoning_words"], rows.numbers["correct"]
    x, z = answer.first(words), answer.first(correct)
    known = np.isfinite(x) & np.isfinite(z)
    x, y, z = x[known], (view.sum_by_answer / view.n_by_answer)[known], z[known]
    cluster = answer.first(view.cluster)[known]
    columns = [None, x, y, z, x * x, y * y, z * z, x * y, x * z, y * z]
    return {"answers": table_of(np.zeros_like(cluster), cluster, columns)}


def reasoning_findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how scores correlate with the length of reasoning among equally correct answers.

    Of: all reviewers together.
    Formula: (r_xy - r_xz·r_yz) / √((1 - r_xz²)(1 - r_yz²)), where x = log words of reasoning, y =
        score, z = correct or not
    Counts: answers.
    Healthy: from -{edge} to +{edge}, a partial correlation.
    Assumes: that the column `correct` is right.
    Fooled by: differences in quality between answers that are equally correct.
    Example: `reasoning_length, all: 0.433 [0.391, 0.473], n 1200` – of two correct answers, the one
        with the longer reasoning gets the higher score. Check whether reviewers see the reasoning.
    """
    note = "partial correlation given correctness"
    return [
        replace(as_tested(REASONING, one, panel, note, "all"), correlation=True)
        for one in estimates(sums["answers"], _partial_correlation, fisher=True)
    ]


def _partial_correlation(totals: Floats) -> Floats:
    """Return the correlation of x and y given z; the plain one if z does not vary."""
    n, x, y, z, xx, yy, zz, xy, xz, yz = totals.T
    pairs = ((x, y, xx, yy, xy), (x, z, xx, zz, xz), (y, z, yy, zz, yz))
    r_xy, r_xz, r_yz = (correlations_from_sums(np.column_stack([n, *pair])) for pair in pairs)
    r_xz, r_yz = np.nan_to_num(r_xz), np.nan_to_num(r_yz)
    left = (1.0 - r_xz**2) * (1.0 - r_yz**2)
    known = left > 1e-12
    partial = (r_xy - r_xz * r_yz) / np.sqrt(np.where(known, left, 1.0))
    return np.where(known, np.clip(partial, -1.0, 1.0), np.nan)


metrics.register(NAME)(Metric(NAME, ("words",), sums, findings, WORDS))
metrics.register(RELATIVE)(
    Metric(RELATIVE, ("words",), no_sums, relative_findings, WORDS, nothing=NO_LENGTHS)
)
metrics.register(REASONING)(
    Metric(REASONING, REASONED, reasoning_sums, reasoning_findings, THOUGHTS, nothing=NO_THOUGHTS)
)
