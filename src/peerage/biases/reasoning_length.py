"""Do answers with longer reasoning score higher than their correctness explains?"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.thresholds import Tested
from peerage.biases.wording import unknown
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
    n = view.n_by_answer
    kept = (n > 0) & np.isfinite(x) & np.isfinite(z)
    x, z = x[kept], z[kept]
    y = view.sum_by_answer[kept] / n[kept]
    cluster = answer.first(view.cluster)[kept]
    one = np.ones_like(x)
    table = np.column_stack([one, x, y, z, x * x, y * y, z * z, x * y, x * z, y * z])
    return {"answers": ordered(np.zeros(len(x), dtype=np.int64), cluster, table)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min = panel.n_min(NAME)
    tested = [
        Tested(
            NAME,
            "all",
            one.value,
            one.low,
            one.high,
            one.p,
            int(one.sums[0]),
            n_min,
            panel.healthy(NAME),
            "partial correlation given correctness",
            correlation=True,
        )
        for one in estimates(sums["answers"], partial_correlation, fisher=True)
    ]
    return tested or [unknown(NAME, n_min, "no answer has both reasoning words and correctness")]


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
    out: Floats = np.where(known, np.clip(partial, -1.0, 1.0), np.nan)
    return out


metrics.register(NAME)(
    Metric(
        NAME,
        ("reasoning_words", "correct"),
        sums,
        findings,
        "the words of reasoning and whether each answer is correct",
    )
)
