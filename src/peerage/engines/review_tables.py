"""A `reviews` table: which columns it has, what is wrong with it, and its rows as arrays.

It is checked by narwhals expressions, the same on every engine. Then DuckDB loads it into this
process, once; on Spark it stays on the workers, who get blocks of whole sessions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import Columns, Engine, Frame, Reading, Source, paths_of
from peerage.engines.blocks import Blocks, InMemory, OnWorkers, rows_of
from peerage.errors import InputError, few, how_many
from peerage.reviews.columns import (
    MARK,
    MAX_MARKS,
    REVIEWS,
    TRIMMED,
    Column,
    Kind,
    is_number,
    renamed,
    required,
)
from peerage.reviews.flags import BLANKS, merged_flags
from peerage.reviews.rows import Rows, has_rounds
from peerage.types import EARLIEST_S, LATEST_S, MAX_NUMBER

T = TypeVar("T")

REQUIRED = required(REVIEWS)
AT_LEAST = {name: c.at_least for name, c in REVIEWS.items() if c.at_least is not None}
AT_MOST = {"place": 2.0**63}  # of a lone session it is a large number, drawn from its id
N_SHOWN = 10
NUMBER = Column("number")
N_LOOKED_AT = 1_000_000  # rows searched for examples of what is wrong


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A table of comparisons: its rows, and how often each pair met with which winner."""

    frame: Frame
    counts: Columns
    flags: tuple[str, ...] = ()  # as of `ReviewTable`


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """A checked table: its canonical columns, and what a first look at it showed."""

    engine: Engine
    source: Source
    checked: Frame | None  # None where the rows are kept in memory
    columns: tuple[str, ...]
    n_rows: int
    n_scores: int
    n_ranks: int
    not_finite: int  # scores that are NaN or infinite: read as no score, and said
    latest: float | None
    rounds: bool = False  # whether anyone was asked more than once in a session
    comparisons: Comparisons | None = None  # where the table compares models two by two
    padded: tuple[str, ...] = ()  # columns of names with blanks around some
    flags: tuple[str, ...] = ()  # names that were several before they lost the blanks around them
    rows: Rows | None = None  # where all of them are kept in memory

    @property
    def frame(self) -> Frame:
        """The rows as the engine has them."""
        if self.checked is None:
            return read_reviews(self.engine, self.source).frame
        return self.checked

    def blocks(self, needs: Collection[str] | None = None, *, text: bool = False) -> Blocks:
        """Return the rows as arrays, with the columns that somebody needs (None: all).

        The texts of answers are large, so they come only where they are asked for.
        """
        if self.rows is not None and not text:
            return InMemory(self.rows, is_settled=True)
        some = [n for n in self.columns if needs is None or n in needs or n in REQUIRED]
        reading = Reading(
            "session_id",
            {},
            numbers=tuple(name for name in some if is_number(name) or name == "at"),
            texts=tuple(
                name
                for name in some
                if REVIEWS.get(name, NUMBER).kind == "text" and name not in ("session_id", "text")
            ),
            text=text and "text" in self.columns,
        )
        block = self.engine.load(self.frame, reading)
        if block is None:
            return OnWorkers(self.engine, self.frame, reading)
        return InMemory(rows_of(block))

    def refuse_duplicates(self) -> None:
        """Raise where a review is there twice, with the first ten rows that are."""
        refuse_duplicates(self.engine, self.frame, self.columns)


def read_reviews(engine: Engine, source: Source) -> ReviewTable:
    """A `reviews` table with its columns checked; anything wrong is refused with its rows.

    Names lose the blanks around them, as on import.
    """
    opened = with_usual_names(engine.open(source))
    schema = opened.collect_schema()
    if is_comparisons(schema.names()):
        return replace(read_comparisons(engine, opened), source=source)
    _check_columns(schema.names())
    kinds = kinds_in(schema.names())
    numbers = [name for name in kinds if is_number(name)]
    for name in numbers:
        if schema[name] == nw.String:
            _refuse_non_numbers(engine, opened, name)
    frame, names = typed(engine, opened, kinds), [name for name in kinds if name in TRIMMED]
    table = replace(_looked_at(engine, frame, tuple(kinds), numbers, names), source=source)
    if not table.padded:
        return table
    spelt = [name for side in ("reviewer", "candidate") for name in counts_of(engine, frame, side)]
    flags = merged_flags(name for name in spelt if name is not None)
    frame = trimmed_names(frame, table.padded)
    trimmed = _looked_at(engine, frame, tuple(kinds), numbers, [])
    return replace(trimmed, source=source, flags=tuple(flags))


def kinds_in(names: Collection[str]) -> dict[str, Kind]:
    """The kind of each column of reviews, in the order of tables."""
    kinds: dict[str, Kind] = {name: c.kind for name, c in REVIEWS.items() if name in names}
    return kinds | dict.fromkeys(sorted(name for name in names if name.startswith(MARK)), "number")


def join_tables(tables: Sequence[ReviewTable], rows: Rows) -> ReviewTable:
    """Several checked tables as one, with their rows in memory."""
    return ReviewTable(
        tables[0].engine,
        [path for table in tables for path in paths_of(table.source)],
        None,
        tuple(kinds_in({name for table in tables for name in table.columns})),
        n_rows=sum(table.n_rows for table in tables),
        n_scores=sum(table.n_scores for table in tables),
        n_ranks=sum(table.n_ranks for table in tables),
        not_finite=sum(table.not_finite for table in tables),
        latest=max((table.latest for table in tables if table.latest is not None), default=None),
        rounds=has_rounds(rows),
        rows=rows,
    )


def with_usual_names(opened: Frame) -> Frame:
    """A table with its columns renamed that other tools call otherwise."""
    new_by_old = renamed(opened.collect_schema().names())
    return opened.rename(new_by_old) if new_by_old else opened


def trimmed_names(frame: Frame, names: Iterable[str]) -> Frame:
    """A table whose columns of names have no blanks around them; nothing but blanks is null."""
    bare = {name: nw.col(name).str.strip_chars(BLANKS) for name in names}
    return frame.with_columns(
        **{name: nw.when(value != "").then(value) for name, value in bare.items()}
    )


def typed(engine: Engine, opened: Frame, kinds: Mapping[str, Kind]) -> Frame:
    """These columns as what they are: texts, floats, and times in seconds since 1970."""
    times = [name for name, kind in kinds.items() if kind == "time"]
    frame = opened.select(
        *(
            nw.col(name).cast(nw.String if kind == "text" else nw.Float64)
            for name, kind in kinds.items()
            if kind != "time"
        ),
        *times,
    )
    for name in times:
        frame = engine.epoch(frame, name)
    return frame


def require(names: Collection[str], columns: Mapping[str, Column], table: str) -> None:
    """Refuse a table that lacks a column which it has to have."""
    missing = [name for name in required(columns) if name not in names]
    if missing:
        raise InputError(
            f"{table} needs the column {', '.join(missing)}.",
            hint=f"It has: {', '.join(list(names)[:20]) or 'none'}.",
        )


def _check_columns(names: list[str]) -> None:
    require(names, REVIEWS, "a reviews table")
    if not any(name in ("rank", "score") or name.startswith(MARK) for name in names):
        raise InputError(
            "a reviews table needs a `rank` or a `score`.",
            hint=f"It has: {', '.join(names[:20])}.",
        )
    refuse_many_marks(names)


def refuse_many_marks(names: Iterable[str]) -> None:
    """Raises where a table has marks for more dimensions than any rubric."""
    n_marks = sum(name.startswith(MARK) for name in names)
    if n_marks > MAX_MARKS:
        raise InputError(
            f"a table has marks for up to {MAX_MARKS} dimensions, and this one for {n_marks:,}."
        )


def _refuse_non_numbers(engine: Engine, frame: Frame, name: str) -> None:
    values = engine.arrays(frame.select(name).head(N_LOOKED_AT))[name]
    wrong = [f"row {i + 1}: {name} {v!r}" for i, v in enumerate(values) if not _is_number(v)]
    if wrong:
        raise InputError(f"`{name}` is not a number everywhere.", hint=_listed(wrong))


def _is_number(value: object) -> bool:
    try:
        float("nan" if value is None else str(value))
    except ValueError:
        return False
    return True


def _looked_at(
    engine: Engine, frame: Frame, columns: tuple[str, ...], numbers: list[str], names: list[str]
) -> ReviewTable:
    """One pass over the table: counts of everything that may be wrong with it."""
    counts: dict[str, Any] = {"n": nw.len(), **{name: nw.col(name).count() for name in columns}}
    for name in names:
        is_padded = nw.col(name) != nw.col(name).str.strip_chars(BLANKS)
        counts[f"padded_{name}"] = is_padded.cast(nw.Int64).sum()
    for name in numbers:
        counts[f"finite_{name}"] = nw.col(name).is_finite().cast(nw.Int64).sum()
        if name in AT_LEAST:
            counts[f"low_{name}"] = (nw.col(name) < AT_LEAST[name]).cast(nw.Int64).sum()
        is_far = (nw.col(name).abs() > AT_MOST.get(name, MAX_NUMBER)) & ~nw.col(name).is_nan()
        if _is_judgement(name):  # one that is not finite counts for nothing
            is_far = is_far & nw.col(name).is_finite()
        counts[f"far_{name}"] = is_far.cast(nw.Int64).sum()
    counts |= ends_of(columns)
    if "round" in columns:
        counts |= {"first": nw.col("round").min(), "last": nw.col("round").max()}
    table = engine.arrays(frame.select(**counts))
    n_of = {
        name: 0.0 if value is None or np.isnan(value) else float(value)
        for name, (value,) in table.items()
    }
    padded = tuple(name for name in names if n_of[f"padded_{name}"])
    if not padded:  # else they are looked at again without the blanks
        _refuse(engine, frame, numbers, n_of)
    usable = list(filter(_is_judgement, numbers))
    # A column that holds nothing is as good as not there, and is said to be missing.
    always = {*REQUIRED, "score", "rank"} if n_of["n"] else set(columns)
    return ReviewTable(
        engine,
        None,
        frame,
        tuple(name for name in columns if name in always or n_of[name]),
        int(n_of["n"]),
        int(n_of.get("finite_score", 0)),
        int(n_of.get("finite_rank", 0)),
        int(sum(n_of[name] - n_of[f"finite_{name}"] for name in usable)),
        latest_of(table),
        n_of.get("first") != n_of.get("last"),
        padded=padded,
    )


def ends_of(columns: Collection[str]) -> dict[str, Any]:
    """The earliest and the latest time of a table, where it has times."""
    at = nw.col("at")
    return {"earliest": at.min(), "latest": at.max()} if "at" in columns else {}


def latest_of(table: Columns) -> float | None:
    """The latest of the times whose ends a table counts, none out of range; None without times."""
    ends = [np.asarray(table.get(end, ()), dtype=np.float64) for end in ("earliest", "latest")]
    times = [time for end in ends for time in end[~np.isnan(end)].tolist()]
    if far := [time for time in times if not EARLIEST_S <= time <= LATEST_S]:
        raise InputError(
            f"`at` is out of range: {far[0]:g}.",
            hint="Times are of the years 1 to 9999, in ISO 8601 or in seconds since 1970.",
        )
    return max(times, default=None)


def _refuse(engine: Engine, frame: Frame, numbers: list[str], n_of: Mapping[str, float]) -> None:
    for name in REQUIRED:
        if n_empty := int(n_of["n"] - n_of[name]):
            rows = _examples(engine, frame, name, lambda value: value is None)
            raise InputError(f"`{name}` is empty in {how_many(n_empty, 'row')}.", hint=rows)
    for name in numbers:
        _refuse_numbers(engine, frame, name, n_of)


def _refuse_numbers(engine: Engine, frame: Frame, name: str, n_of: Mapping[str, float]) -> None:
    if n_of.get(f"low_{name}"):
        least = AT_LEAST[name]
        rows = _examples(engine, frame, name, lambda value: value < least)
        raise InputError(f"`{name}` lies below {least:g}.", hint=rows)
    if n_far := int(n_of[f"far_{name}"]):
        most = AT_MOST.get(name, MAX_NUMBER)
        counts_as_none = _is_judgement(name)
        rows = _examples(
            engine,
            frame,
            name,
            lambda value: abs(value) > most and not (counts_as_none and math.isinf(value)),
        )
        raise InputError(
            f"`{name}` is out of range in {how_many(n_far, 'row')}.",
            hint=f"Numbers go from {-most:,.0f} to {most:,.0f}; {rows}",
        )


def _is_judgement(name: str) -> bool:
    """Whether a column of numbers is what a reviewer says of an answer."""
    return name in ("score", "rank") or name.startswith(MARK)


def _examples(engine: Engine, frame: Frame, name: str, is_wrong: Callable[[Any], bool]) -> str:
    """The first rows in which a column is empty, or is not what it may be."""
    columns = engine.arrays(frame.select(*dict.fromkeys((*REQUIRED, name))).head(N_LOOKED_AT))
    rows = []
    for i, value in enumerate(columns[name].tolist()):
        if is_wrong(value):
            cells = ", ".join(f"{column} {values[i]}" for column, values in columns.items())
            rows.append(f"row {i + 1}: {cells}")
    return _listed(rows[:N_SHOWN])


def _listed(rows: list[str]) -> str:
    more = f"; and {len(rows) - N_SHOWN} more" if len(rows) > N_SHOWN else ""
    return "; ".join(rows[:N_SHOWN]) + more + "."


def counts_of(engine: Engine, frame: Frame, column: str, most: int | None = None) -> dict[str, int]:
    """The values of a column of texts, each with its rows; up to so many of them.

    By a grouping: that is ten times quicker than `unique`.
    """
    counted = frame.group_by(column).agg(nw.len().alias("n"))
    values = engine.arrays(counted if most is None else counted.head(most))
    return dict(zip(values[column].tolist(), values["n"].tolist(), strict=True))


def refuse_duplicates(engine: Engine, frame: Frame, columns: tuple[str, ...]) -> None:
    """Raises with the first ten rows that say the same thing twice."""
    key = [*REQUIRED, *(["round"] if "round" in columns else [])]
    twice = frame.group_by(*key).agg(nw.len().alias("n")).filter(nw.col("n") > 1)
    first = engine.arrays(twice.sort(*key).head(N_SHOWN))
    rows = [
        ", ".join(f"{name} {value}" for name, value in zip(first, values, strict=True))
        for values in zip(*first.values(), strict=True)
    ]
    if rows:
        raise InputError(
            "a reviewer judged one answer twice in one round.",
            hint=f"{_listed(rows)} Number repeats in a `round` column.",
        )


# -- comparisons two by two ----------------------------------------------------------------------
#
# A table of `model_a`, `model_b` and `winner` is read as reviews. Each comparison becomes a session
# of two candidates with one ballot: the winner has rank 1 and the loser 2; in a tie both have 1.

SIDES = ("model_a", "model_b")
SIDES_AND_WINNER = (*SIDES, "winner")
WINNERS = (*SIDES, "tie", "tie (bothbad)")
OPTIONAL = ("reviewer", "query_id", "category", "at")
JUDGE = "judge"  # the reviewer's name where the table names none


def is_comparisons(columns: Collection[str]) -> bool:
    """Whether these are the columns of comparisons, and not of reviews."""
    return set(SIDES) <= set(columns) and "candidate" not in columns


def read_comparisons(engine: Engine, opened: Frame) -> ReviewTable:
    """A checked table of comparisons as reviews; what is wrong is refused with examples."""
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
    """The comparisons with typed columns, counted by pair and winner; bad ones are refused."""
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
    """How often each pair of models met, by winner and by whether a model judged itself."""
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
    """The columns that count, as texts and times; a `judge` is a reviewer, a name a winner."""
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
    return _winners(typed(engine, opened, kinds))


def _winners(frame: Frame) -> Frame:
    """The comparisons with a side as the winner where a model is named."""
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
