"""Do answers with longer reasoning score higher than their correctness explains?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested, estimated, unknown
from peerage.reviews.cells import ordered
from peerage.reviews.intervals import estimates
from peerage.reviews.rows import Floats
from peerage.reviews.view import View
from peerage.stats.correlations import correlations_from_sums

NAME = "reasoning_length"


def sums(view: View) -> Sums:
    """By cluster, one row an answer: n; x, y, z; xx, yy, zz; xy, xz, yz (words, score, correct)."""
    rows, answer = view.judged, view.answer
    words, correct = rows.numbers["reasoning_words"], rows.numbers["correct"]
    x, z = answer.first(words), answer.first(correct)
    kept = np.isfinite(x) & np.isfinite(z)
    x, z = x[kept], z[kept]
    y = view.sum_by_answer[kept] / view.n_by_answer[kept]
    cluster = answer.first(view.cluster)[kept]
    one = np.ones_like(x)
    table = np.column_stack([one, x, y, z, x * x, y * y, z * z, x * y, x * z, y * z])
    return {"answers": ordered(np.zeros(len(x), dtype=np.int64), cluster, table)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    note = "partial correlation given correctness"
    tested = [
        replace(estimated(NAME, one, panel, note, "all"), correlation=True)
        for one in estimates(sums["answers"], partial_correlation, fisher=True)
    ]
    why = "no answer has both reasoning words and correctness"
    return tested or [unknown(NAME, panel.n_min(NAME), why)]


def partial_correlation(totals: Floats) -> Floats:
    """The correlation of x and y that z does not explain; the plain one where z is all alike."""
    n, x, y, z, xx, yy, zz, xy, xz, yz = totals.T
    pairs = {"xy": (x, y, xx, yy, xy), "xz": (x, z, xx, zz, xz), "yz": (y, z, yy, zz, yz)}
    r = {
        name: correlations_from_sums(np.column_stack([n, *columns]))
        for name, columns in pairs.items()
    }
    xz_, yz_ = (np.nan_to_num(r[name]) for name in ("xz", "yz"))
    left = (1.0 - xz_**2) * (1.0 - yz_**2)
    known = left > 1e-12
    partial = (r["xy"] - xz_ * yz_) / np.sqrt(np.where(known, left, 1.0))
    return np.where(known, np.clip(partial, -1.0, 1.0), np.nan)


NEEDS = ("reasoning_words", "correct")
WHY = "the words of reasoning and whether each answer is correct"
metrics.register(NAME)(Metric(NAME, NEEDS, sums, findings, WHY))
