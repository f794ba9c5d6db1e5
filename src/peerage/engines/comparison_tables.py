"""Tables of comparisons two by two, read as reviews.

Each row of `model_a`, `model_b` and `winner` becomes a session of two candidates with one ballot:
the winner has rank 1 and the loser 2; in a tie both have 1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import Columns, Engine, Frame
from peerage.engines.review_tables import (
    REQUIRED,
    ReviewTable,
    cast_columns,
    ends_of,
    latest_of,
    trimmed_names,
    with_usual_names,
)
from peerage.errors import InputError, few
from peerage.reviews.columns import TRIMMED, Kind
from peerage.reviews.flags import BLANKS, merged_flags

SIDES = ("model_a", "model_b")
SIDES_AND_WINNER = (*SIDES, "winner")
WINNERS = (*SIDES, "tie", "tie (bothbad)")
OPTIONAL = ("reviewer", "query_id", "category", "at")
JUDGE = "judge"  # the reviewer's name where the table names none


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A table of comparisons: its rows, and how often each pair met with which winner."""

    frame: Frame
    counts: Columns
    flags: tuple[str, ...] = ()  # as of `ReviewTable`


def is_comparisons(columns: Collection[str]) -> bool:
    """Return whether these are the columns of comparisons, and not of reviews."""
    return set(SIDES) <= set(columns) and "candidate" not in columns


def read_comparisons(engine: Engine, opened: Frame) -> ReviewTable:
    """Return a checked table of comparisons as reviews; what is wrong is refused with examples."""
    comparisons = checked_comparisons(engine, opened)
    counts = comparisons.counts
    n = int(counts["n"].sum())
    optional = [name for name in OPTIONAL if name != "reviewer" and f"n_{name}" in counts]
    return ReviewTable(
        engine,
        None,
        as_reviews(engine, comparisons.frame),
        (*REQUIRED, "rank", *(name for name in optional if counts[f"n_{name}"].any())),
        n_rows=2 * n,
        n_scores=0,
        n_ranks=2 * n,
        not_finite=0,
        latest=latest_of(counts),
        comparisons=comparisons,
        flags=comparisons.flags,
    )


def checked_comparisons(engine: Engine, opened: Frame) -> Comparisons:
    """Return comparisons with typed columns, counted by pair and winner; refuse bad ones."""
    frame = _named_alike(engine, opened)
    names = frame.collect_schema().names()
    texts = [name for name in names if name in TRIMMED]
    more = [nw.col(name).count().alias(f"n_{name}") for name in OPTIONAL if name in names]
    more += [end.alias(name) for name, end in ends_of(names).items()]
    padded = [
        (nw.col(name) != nw.col(name).str.strip_chars(BLANKS))
        .cast(nw.Int64)
        .sum()
        .alias(f"padded_{name}")
        for name in texts
    ]
    counts = count_comparisons(engine, frame, *more, *padded)
    spelt = [name for side in SIDES for name in counts[side].tolist() if name is not None]
    flags: list[str] = []
    if with_blanks := [name for name in texts if np.nansum(counts[f"padded_{name}"]) > 0]:
        flags = merged_flags(spelt)
        frame = _winners(trimmed_names(frame, with_blanks))
        counts = count_comparisons(engine, frame, *more)
    _refuse_comparisons(counts)
    return Comparisons(frame, counts, tuple(flags))


def count_comparisons(engine: Engine, frame: Frame, *more: Any) -> Columns:
    """Return how often each pair of models met, by winner and by whether a model judged itself."""
    by_itself: Any = nw.lit(False)
    if "reviewer" in frame.collect_schema().names():
        reviewer = nw.col("reviewer")
        by_itself = (reviewer == nw.col("model_a")) | (reviewer == nw.col("model_b"))
    grouped = frame.with_columns(by_itself=by_itself).group_by(*SIDES_AND_WINNER, "by_itself")
    return engine.arrays(grouped.agg(nw.len().alias("n"), *more))


def as_reviews(engine: Engine, frame: Frame, prefix: str = "comparison") -> Frame:
    """Two rows of reviews for each comparison, in a session named by the prefix and the row."""
    names = [name for name in frame.collect_schema().names() if name not in SIDES_AND_WINNER]
    numbered = engine.number(frame, "session_id").with_columns(
        nw.concat_str(nw.lit(prefix), nw.col("session_id"), separator=" ").alias("session_id")
    )
    reviewer = nw.col("reviewer") if "reviewer" in names else nw.lit(JUDGE).alias("reviewer")
    others = [name for name in names if name != "reviewer"]
    sides: list[Any] = [
        numbered.select(
            "session_id",
            reviewer,
            nw.col(side).alias("candidate"),
            nw.when(nw.col("winner") == rival)
            .then(nw.lit(2.0))
            .otherwise(nw.lit(1.0))
            .alias("rank"),
            *others,
        )
        for side, rival in (SIDES, SIDES[::-1])
    ]
    both: Frame = nw.concat(sides)
    return both


def _named_alike(engine: Engine, opened: Frame) -> Frame:
    """Return the known columns, typed; a `judge` is a reviewer, a model's name a winner."""
    opened = with_usual_names(opened)
    names = opened.collect_schema().names()
    missing = [name for name in SIDES_AND_WINNER if name not in names]
    if missing:
        raise InputError(f"comparisons need the column {', '.join(missing)}.")
    if JUDGE in names and "reviewer" not in names:
        opened = opened.rename({JUDGE: "reviewer"})
        names = ["reviewer" if name == JUDGE else name for name in names]
    known = [name for name in (*SIDES_AND_WINNER, *OPTIONAL) if name in names]
    kinds: dict[str, Kind] = {name: "time" if name == "at" else "text" for name in known}
    return _winners(cast_columns(engine, opened, kinds))


def _winners(frame: Frame) -> Frame:
    """Return the comparisons with a side as the winner where a model is named."""
    for side in SIDES:
        named = (nw.col("winner") == nw.col(side)) & ~nw.col("winner").is_in(WINNERS)
        winner = nw.when(named).then(nw.lit(side)).otherwise(nw.col("winner"))
        frame = frame.with_columns(winner.alias("winner"))
    return frame


def _refuse_comparisons(counts: Columns) -> None:
    kinds = list(zip(*(counts[name].tolist() for name in SIDES_AND_WINNER), strict=True))
    if any(not a or not b for a, b, _ in kinds):
        raise InputError("some comparisons lack a model: `model_a` or `model_b` is empty.")
    if "n_reviewer" in counts and counts["n_reviewer"].sum() < counts["n"].sum():
        raise InputError("some comparisons have no `reviewer`.")
    if own := sorted({a for a, b, _ in kinds if a == b}):
        raise InputError(
            f"some models are compared with themselves: {few([name[:80] for name in own])}."
        )
    if odd := sorted({str(winner) for _, _, winner in kinds if winner not in WINNERS}):
        raise InputError(
            f"a winner cannot be {few([name[:80] for name in odd])}.",
            hint=f"Known: {few(WINNERS)}.",
        )
