"""Reviews that were asked for again, or counted without the code of their ballot, by reviewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from peerage.errors import few
from peerage.reviews.rows import Rows

SEALS = ("asked_again", "unsealed")  # columns of the reviews table
N_NAMED = 5

SealCounts = Counter[tuple[str, str]]  # by reviewer and kind: "reviews", or one of SEALS


def count_seals(rows: Rows) -> SealCounts:
    """Return the reviews of each reviewer, and how many are of each kind; of whole sessions."""
    counts: SealCounts = Counter()
    if not any(name in rows.numbers for name in SEALS):
        return counts
    ballots = rows.ballots()
    for kind in ("reviews", *SEALS):
        some = np.flatnonzero(np.full(rows.n, kind == "reviews") | (rows.number(kind) >= 1))
        _, first = np.unique(ballots[some], return_index=True)
        counts.update((rows.names[code], kind) for code in rows.reviewer[some[first]].tolist())
    return counts


def sealed_reviewers(parts: Iterable[SealCounts]) -> dict[str, dict[str, int]]:
    """Return the counts of the reviewers who have reviews of either kind, by name."""
    total = sum(parts, SealCounts())
    reviewers = sorted({name for name, kind in total if kind in SEALS})
    return {name: {kind: total[name, kind] for kind in ("reviews", *SEALS)} for name in reviewers}


def seal_flags(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a flag for each kind of such reviews, with the reviewers, those with most first."""
    flags = []
    for kind in SEALS:
        some = sorted((one[kind], reviewer) for reviewer, one in counts.items() if one[kind])
        named = [f"{who} ({n} of {counts[who]['reviews']})" for n, who in reversed(some)]
        if named:
            flags.append(f"{kind}_reviews:{sum(n for n, _ in some)}: {few(named, N_NAMED)}")
    return flags
