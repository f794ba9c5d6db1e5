"""Reviews that were asked for again, or counted without the code of their ballot, by reviewer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import narwhals.stable.v2 as nw

from peerage.engines import Engine, Frame
from peerage.engines.review_tables import counts_of
from peerage.errors import few

SEALS = ("asked_again", "unsealed")  # columns of the reviews table
N_NAMED = 5

SealCounts = dict[str, dict[str, int]]


def count_seals(engine: Engine, frame: Frame, columns: Collection[str]) -> SealCounts:
    """Return the reviews of each reviewer with such a review, and how many are of each kind."""
    ballot = [name for name in ("reviewer", "session_id", "round") if name in columns]

    def count(rows: Frame) -> dict[str, int]:
        return counts_of(engine, rows.group_by(*ballot).agg(nw.len().alias("rows")), "reviewer")

    found = {name: count(frame.filter(nw.col(name) >= 1)) for name in SEALS if name in columns}
    reviewers = sorted({reviewer for counts in found.values() for reviewer in counts})
    if not reviewers:
        return {}
    n_reviews = count(frame.filter(nw.col("reviewer").is_in(reviewers)))
    return {
        reviewer: {"reviews": n_reviews[reviewer]}
        | {name: found.get(name, {}).get(reviewer, 0) for name in SEALS}
        for reviewer in reviewers
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
