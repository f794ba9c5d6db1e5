"""A table of comparisons (`model_a`, `model_b`, `winner`) read as a table of reviews.

Each comparison becomes a session of two candidates with one ballot: the winner has rank 1 and
the loser rank 2; in a tie both have rank 1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import Columns, Engine, Frame
from peerage.engines.reviews import Comparisons, Reviews
from peerage.errors import InputError

SIDES = ("model_a", "model_b")
COLUMNS = (*SIDES, "winner")
WINNERS = (*SIDES, "tie", "tie (bothbad)")
OPTIONAL = ("reviewer", "query_id", "category", "at")
REVIEWS = ("session_id", "reviewer", "candidate", "rank")
JUDGE = "judge"  # the reviewer's name where the table names none
N_SHOWN = 10


def is_comparisons(columns: Collection[str]) -> bool:
    """Whether these are the columns of comparisons, and not of reviews."""
    return set(SIDES) <= set(columns) and "candidate" not in columns


def read_comparisons(engine: Engine, opened: Frame) -> Reviews:
    """A checked table of comparisons as reviews; what is wrong is refused with examples."""
    comparisons = checked_comparisons(engine, opened)
    found = comparisons.counts
    n = int(found["n"].sum())
    held = [name for name in OPTIONAL if f"n_{name}" in found and found[f"n_{name}"].any()]
    times = np.asarray(found.get("latest", ()), dtype=np.float64)
    times = times[np.isfinite(times)]
    return Reviews(
        as_reviews(engine, comparisons.frame),
        (*REVIEWS, *(name for name in held if name != "reviewer")),
        n_rows=2 * n,
        n_scores=0,
        n_ranks=2 * n,
        not_finite=0,
        latest=float(times.max()) if len(times) else None,
        comparisons=comparisons,
    )


def checked_comparisons(engine: Engine, opened: Frame) -> Comparisons:
    """The comparisons with typed columns, counted by pair and winner; bad ones are refused."""
    frame = _typed(engine, opened)
    names = frame.collect_schema().names()
    more = [nw.col(name).count().alias(f"n_{name}") for name in OPTIONAL if name in names]
    more += [nw.col("at").max().alias("latest")] if "at" in names else []
    counts = count_comparisons(engine, frame, *more)
    _refuse(counts)
    return Comparisons(frame, counts)


def count_comparisons(engine: Engine, frame: Frame, *more: Any) -> Columns:
    """How often each pair of models met, by winner and by whether a model judged itself."""
    by_itself: Any = nw.lit(False)
    if "reviewer" in frame.collect_schema().names():
        reviewer = nw.col("reviewer")
        by_itself = (reviewer == nw.col("model_a")) | (reviewer == nw.col("model_b"))
    grouped = frame.with_columns(by_itself=by_itself).group_by(*COLUMNS, "by_itself")
    return engine.arrays(grouped.agg(nw.len().alias("n"), *more))


def as_reviews(engine: Engine, frame: Frame, prefix: str = "comparison") -> Frame:
    """Two rows of reviews for each comparison, in a session named by the prefix and the row."""
    names = [name for name in frame.collect_schema().names() if name not in COLUMNS]
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


def _typed(engine: Engine, opened: Frame) -> Frame:
    """The columns that count, as texts and times; a `judge` is a reviewer, a name a winner."""
    names = opened.collect_schema().names()
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InputError(f"comparisons need the column {', '.join(missing)}.")
    if JUDGE in names and "reviewer" not in names:
        opened = opened.rename({JUDGE: "reviewer"})
        names = ["reviewer" if name == JUDGE else name for name in names]
    texts = [name for name in (*COLUMNS, *OPTIONAL) if name in names and name != "at"]
    frame = opened.select(
        *(nw.col(name).cast(nw.String) for name in texts), *(["at"] if "at" in names else [])
    )
    for side in SIDES:
        named = (nw.col("winner") == nw.col(side)) & ~nw.col("winner").is_in(WINNERS)
        winner = nw.when(named).then(nw.lit(side)).otherwise(nw.col("winner"))
        frame = frame.with_columns(winner.alias("winner"))
    return engine.epoch(frame, "at") if "at" in names else frame


def _refuse(found: Columns) -> None:
    kinds = list(zip(*(found[name].tolist() for name in COLUMNS), strict=True))
    if any(not a or not b for a, b, _ in kinds):
        raise InputError("some comparisons lack a model: `model_a` or `model_b` is empty.")
    if "n_reviewer" in found and found["n_reviewer"].sum() < found["n"].sum():
        raise InputError("some comparisons have no `reviewer`.")
    if own := sorted({a for a, b, _ in kinds if a == b}):
        raise InputError(f"some models are compared with themselves: {_listed(own)}.")
    if odd := sorted({str(winner) for _, _, winner in kinds if winner not in WINNERS}):
        raise InputError(f"a winner cannot be {_listed(odd)}.", hint=f"Known: {_listed(WINNERS)}.")


def _listed(names: Collection[str]) -> str:
    shown = [name[:80] for name in list(names)[:N_SHOWN]]
    return ", ".join(shown) + (", …" if len(names) > N_SHOWN else "")
