"""Reviews that were asked for again, or counted without the code of their ballot, by reviewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from peerage.errors import few
from peerage.reviews.rows import Bools, Rows

SEALS = ("asked_again", "unsealed")  # columns of the reviews table
N_NAMED = 5

SealCounts = dict[str, dict[str, int]]


def count_seals(rows: Rows, inside: Bools | None = None) -> SealCounts:
    """Return the reviews of each reviewer in these rows, and how many are of each kind."""
    if not any(name in rows.numbers for name in SEALS):
        return {}
    rows = rows if inside is None else rows.only(inside)
    ballot = rows.ballots()
    n_ballots = int(ballot.max(initial=-1)) + 1
    reviewer = np.zeros(n_ballots, dtype=np.int64)
    reviewer[ballot] = rows.reviewer
    n_names = len(rows.names)
    counts = {"reviews": np.bincount(reviewer, minlength=n_names)}
    for name in SEALS:
        flagged = np.bincount(ballot[rows.number(name) >= 1], minlength=n_ballots) > 0
        counts[name] = np.bincount(reviewer[flagged], minlength=n_names)
    return {
        rows.names[code]: {name: int(n[code]) for name, n in counts.items()}
        for code in np.flatnonzero(counts["reviews"]).tolist()
    }


def add_seals(parts: Sequence[SealCounts]) -> SealCounts:
    """Return the counts of all blocks, of reviewers who have a review of either kind."""
    totals: dict[str, Counter[str]] = {}
    for part in parts:
        for reviewer, counts in part.items():
            totals.setdefault(reviewer, Counter()).update(counts)
    return {
        reviewer: {name: totals[reviewer][name] for name in ("reviews", *SEALS)}
        for reviewer in sorted(totals)
        if any(totals[reviewer][name] for name in SEALS)
    }


def seal_flags(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a flag for each kind of such reviews, with the reviewers, those with most first."""
    flags = []
    for name in SEALS:
        some = sorted((one[name], reviewer) for reviewer, one in counts.items() if one[name])
        named = [f"{who} ({n} of {counts[who]['reviews']})" for n, who in reversed(some)]
        if named:
            flags.append(f"{name}_reviews:{sum(n for n, _ in some)}: {few(named, N_NAMED)}")
    return flags
