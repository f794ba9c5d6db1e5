"""Lengths of answers as metrics see them: log words, with each model's extreme ones drawn in.

One answer of four words among thousands would be most of what a slope on log words rests on. So
the outermost hundredth of a candidate's lengths, at either end, counts as the next one inwards;
and where there are few answers, at least the one outermost length does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerage.reviews.cells import table_of
from peerage.reviews.rows import Floats, Ints, Rows

LOG_WORDS = "log_words"  # the column of `Rows.numbers` that `with_lengths` adds
OUTER = 0.01  # of a candidate's reviews, at either end
N_LENGTHS = 10  # different ones, below which none is an outlier


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """By name, the fewest and the most words that count as such; infinite where none are set."""

    low: Floats
    high: Floats


def length_limits(candidate: Ints, words: Floats, n: Floats, n_names: int) -> LengthLimits:
    """Limits from counts: `n` reviews of answers of so many words by a candidate."""
    known = np.isfinite(words)
    whole = np.clip(np.rint(words[known]), 0.0, 1e12).astype(np.int64)
    lengths, place = np.unique(whole, return_inverse=True)
    table = table_of(candidate[known], place, [n[known]])
    low, high = np.full(n_names, -np.inf), np.full(n_names, np.inf)
    who_has, starts = np.unique(table.subject, return_index=True)
    for who, start, end in zip(who_has, starts, np.append(starts[1:], table.n), strict=False):
        if end - start < N_LENGTHS:
            continue
        counts = table.sums[start:end, 0]
        outer, inward = OUTER * counts.sum(), slice(start + 1, end - 1)
        below = np.searchsorted(np.cumsum(counts), outer, side="right")
        above = end - start - 1 - np.searchsorted(np.cumsum(counts[::-1]), outer, side="right")
        inner = lengths[table.cluster[inward]]
        ends = lengths[table.cluster[[start + below, start + above]]]
        low[who], high[who] = max(ends[0], inner[0]), min(ends[1], inner[-1])
    return LengthLimits(low, high)


def with_lengths(rows: Rows, limits: LengthLimits) -> Rows:
    """The rows with log words within the limits beside the words, which stay as they are."""
    words = rows.numbers.get("words")
    if words is None:
        return rows
    drawn_in = np.clip(words, limits.low[rows.candidate], limits.high[rows.candidate])
    return replace(rows, numbers={**rows.numbers, LOG_WORDS: np.log(1.0 + drawn_in)})


def log_words(rows: Rows) -> Floats | None:
    """Log words within the limits where those were set, and plain ones elsewhere."""
    if LOG_WORDS in rows.numbers:
        return rows.numbers[LOG_WORDS]
    words = rows.numbers.get("words")
    return None if words is None else np.log(1.0 + words)
