"""Flags about a table: names that look alike, positions, and reviews that were requested again.

Blanks around names are removed; names that look alike are flagged, as are reserved ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from peerage.errors import few
from peerage.names import alike, is_reserved
from peerage.reviews.rows import Rows

BLANKS = " \t\r\n\u00a0"  # taken off the ends of names
N_NAMED = 5
FROM_ONE = "the smallest position in this table is 1, so 1 is read as the place that is shown first"


def alike_flags(names: Iterable[str]) -> list[str]:
    """Return a flag for names of a table that look alike, if there are any."""
    return _flag("names_alike", alike(names))


def reserved_flags(candidates: Iterable[str]) -> list[str]:
    """Return a flag for candidates with reserved names, if there are any."""
    return _flag("names_reserved", [(name,) for name in sorted({*candidates}) if is_reserved(name)])


def merged_flags(names: Iterable[str]) -> list[str]:
    """Return a flag for names that become equal when blanks around them are removed, if any."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        groups.setdefault(name.strip(BLANKS), []).append(name)
    merged = [tuple(group) for group in groups.values() if len(group) > 1]
    return _flag("names_that_differed_by_spaces", merged)


def counts_from_one(columns: Collection[str], least_position: float | None) -> bool:
    """Return whether a table counts positions from 1; one with deals has Peerage's own, from 0."""
    return least_position == 1.0 and "deal" not in columns


def _flag(flag: str, groups: list[tuple[str, ...]]) -> list[str]:
    shown = [" and ".join(map(repr, group[:N_NAMED])) for group in groups]
    return [f"{flag}:{len(groups)}: {few(shown, N_NAMED, '; ')}"] if groups else []


# -- reviews asked for again, or without the code of their ballot ---------------------------------


SEALS = ("asked_again", "unsealed")  # columns of the reviews table

SealCounts = Counter[tuple[str, str]]  # by reviewer and kind: "reviews", or one of SEALS


def count_seals(rows: Rows, earliest: float | None = None) -> SealCounts:
    """Return, by reviewer, the number of reviews, and of reviews of each kind in `SEALS`."""
    counts: SealCounts = Counter()
    if not any(name in rows.numbers for name in SEALS):
        return counts
    inside = rows.since(earliest)
    ballots = rows.ballots()
    for kind in ("reviews", *SEALS):
        is_kind = np.full(rows.n, kind == "reviews") | (rows.number(kind) >= 1)
        some = np.flatnonzero(inside & is_kind)
        _, first = np.unique(ballots[some], return_index=True)
        counts.update((rows.names[code], kind) for code in rows.reviewer[some[first]].tolist())
    return counts


def sealed_reviewers(parts: Iterable[SealCounts]) -> dict[str, dict[str, int]]:
    """Return, by name, the counts of all reviewers with a review of a kind in `SEALS`."""
    total = sum(parts, SealCounts())
    reviewers = sorted({name for name, kind in total if kind in SEALS})
    return {name: {kind: total[name, kind] for kind in ("reviews", *SEALS)} for name in reviewers}


def seal_flags(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a flag for each kind in `SEALS` that occurs; reviewers with the most come first."""
    flags = []
    for kind in SEALS:
        some = sorted((one[kind], reviewer) for reviewer, one in counts.items() if one[kind])
        named = [f"{who} ({n} of {counts[who]['reviews']})" for n, who in reversed(some)]
        if named:
            flags.append(f"{kind}_reviews:{sum(n for n, _ in some)}: {few(named, N_NAMED)}")
    return flags


# -- reviews of two kinds --------------------------------------------------------------------------


def count_kinds(rows: Rows, earliest: float | None = None) -> Counter[str]:
    """Return the number of models' reviews of each kind, blind and committed."""
    inside = ~(rows.number("person") >= 1) & rows.since(earliest)
    is_committed = rows.number("committed") >= 1
    ballots = rows.ballots()
    return Counter(
        blind=len(np.unique(ballots[inside & ~is_committed])),
        committed=len(np.unique(ballots[inside & is_committed])),
    )


def kind_flags(parts: Iterable[Counter[str]]) -> list[str]:
    """Return a flag if a table has reviews of both kinds, with the number of each."""
    total = sum(parts, Counter[str]())
    if min(total["blind"], total["committed"]) < 1:
        return []
    return [
        f"reviews_of_two_kinds:{total.total()}: {total['blind']} blind, "
        f"{total['committed']} committed"
    ]
