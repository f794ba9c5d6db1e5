"""A `reviews` table: which columns it has, what is wrong with it, and what a fold needs to know.

Everything here is narwhals expressions, the same on every engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import Add, Block, Columns, Engine, Frame, Reading, Source
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
from peerage.reviews.lengths import LengthLimits, length_limits
from peerage.reviews.names import BLANKS, merged_flags
from peerage.reviews.rows import N_PANEL, Rows
from peerage.types import EARLIEST_S, LATEST_S, MAX_NUMBER

T = TypeVar("T")

REQUIRED = required(REVIEWS)
AT_LEAST = {name: c.at_least for name, c in REVIEWS.items() if c.at_least is not None}
AT_MOST = {"place": 2.0**63}  # of a lone session it is a large number, drawn from its id
N_SHOWN = 10
N_NAMED = 10_000  # values that a filter may list
N_LOOKED_AT = 1_000_000  # rows searched for examples of what is wrong


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A table of comparisons: its rows, and how often each pair met with which winner."""

    frame: Frame
    counts: Columns
    flags: tuple[str, ...] = ()  # as of `Reviews`


@dataclass(frozen=True, slots=True)
class Reviews:
    """A checked table: its canonical columns, and what a first look at it showed."""

    frame: Frame
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


def read_reviews(engine: Engine, source: Source) -> Reviews:
    """A `reviews` table with its columns checked; anything wrong is refused with its rows.

    Names lose the blanks around them, as on import.
    """
    opened = with_usual_names(engine.open(source))
    schema = opened.collect_schema()
    if is_comparisons(schema.names()):
        return read_comparisons(engine, opened)
    _check_columns(schema.names())
    kinds: dict[str, Kind] = {name: c.kind for name, c in REVIEWS.items() if name in schema}
    for name in sorted(name for name in schema.names() if name.startswith(MARK)):
        kinds[name] = "number"
    numbers = [name for name in kinds if is_number(name)]
    for name in numbers:
        if schema[name] == nw.String:
            _refuse_non_numbers(engine, opened, name)
    frame, names = typed(engine, opened, kinds), [name for name in kinds if name in TRIMMED]
    reviews = _looked_at(engine, frame, tuple(kinds), numbers, names)
    if not reviews.padded:
        return reviews
    spelt = [name for side in ("reviewer", "candidate") for name in counts_of(engine, frame, side)]
    flags = merged_flags(name for name in spelt if name is not None)
    frame = trimmed_names(frame, reviews.padded)
    return replace(_looked_at(engine, frame, tuple(kinds), numbers, []), flags=tuple(flags))


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
) -> Reviews:
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
    return Reviews(
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


def since(reviews: Reviews, earliest: float | None, latest: float | None) -> Frame:
    """The rows within a window; a row without a time is always in it.

    A session with a review after the window's end is not in it at all: half of its ballots would
    be another session.
    """
    frame: Frame = reviews.frame
    if "at" not in reviews.columns:
        return frame
    if earliest is not None:
        frame = frame.filter((nw.col("at") >= earliest) | nw.col("at").is_null())
    if latest is not None:
        later = frame.filter(nw.col("at") > latest).select("session_id").unique()
        frame = frame.join(later, on="session_id", how="anti")
    return frame


def repeated_queries(engine: Engine, frame: Frame) -> Frame:
    """The rows of queries that more than one session asked."""
    session = nw.col("session_id")
    sessions = frame.group_by("query_id").agg(first=session.min(), last=session.max())
    again = sessions.filter((nw.col("first") != nw.col("last")) & ~nw.col("query_id").is_null())
    queries = engine.arrays(again.select("query_id").head(N_NAMED + 1))["query_id"].tolist()
    if not queries:
        return frame.head(0)
    if len(queries) <= N_NAMED:  # a list is looked up while reading; a join reads twice
        return engine.keep(frame.filter(nw.col("query_id").is_in(queries)))
    return engine.keep(frame.join(again.select("query_id"), on="query_id", how="semi"))


@dataclass(frozen=True, slots=True)
class RowsReading(Reading):
    """What a fold over reviews hands over, and what is known of reviewers and candidates."""

    family_by_name: Mapping[str, str] = field(default_factory=dict)
    panel: tuple[str, ...] = ()

    def rows(self, block: Block) -> Rows:
        """A block of whole sessions as the rows that kernels take."""
        names = self.names["reviewer"]
        families = sorted({name for name in self.family_by_name.values() if name})
        code = {name: i for i, name in enumerate(families)}
        family = np.array([code.get(self.family_by_name.get(name, ""), -1) for name in names])
        keys = {} if block.query_id is None else {"query_id": block.query_id}
        keys |= {"deal": block.codes["deal"].astype(np.int64)} if "deal" in block.codes else {}
        return Rows(
            names=names,
            n_clusters=block.n_clusters,
            cluster=np.zeros(0, dtype=np.int64) if block.cluster is None else block.cluster,
            session=block.codes["session_id"],
            reviewer=block.codes["reviewer"].astype(np.int64),
            candidate=block.codes["candidate"].astype(np.int64),
            numbers=block.numbers,
            keys=keys,
            text=block.text,
            family=family if self.family_by_name else None,
            panel=np.array([names.index(name) for name in self.panel], dtype=np.int64),
        )


def fold_rows(
    engine: Engine,
    frame: Frame,
    reading: RowsReading,
    kernel: Callable[[Rows], T],
    add: Add[T],
) -> T:
    """The sum of a pure function's values on the rows of whole sessions."""
    return engine.fold(frame, reading, lambda block: kernel(reading.rows(block)), add)


def counts_of(engine: Engine, frame: Frame, column: str, most: int | None = None) -> dict[str, int]:
    """The values of a column of texts, each with its rows; up to so many of them.

    By a grouping: that is ten times quicker than `unique`.
    """
    counted = frame.group_by(column).agg(nw.len().alias("n"))
    values = engine.arrays(counted if most is None else counted.head(most))
    return dict(zip(values[column].tolist(), values["n"].tolist(), strict=True))


def names_in(engine: Engine, frame: Frame) -> tuple[str, ...]:
    """The names of reviewers and candidates, sorted."""
    sides = (counts_of(engine, frame, column) for column in ("reviewer", "candidate"))
    return tuple(sorted({name for side in sides for name in side}))


def limits_in(engine: Engine, frame: Frame, names: tuple[str, ...]) -> LengthLimits:
    """The lengths beyond which each candidate's answers are outliers, from one small grouping."""
    counts = engine.arrays(frame.group_by("candidate", "words").agg(nw.len().alias("n")))
    place = {name: i for i, name in enumerate(names)}
    candidate = np.array([place[name] for name in counts["candidate"].tolist()], dtype=np.int64)
    words, n = (counts[name].astype(np.float64) for name in ("words", "n"))
    return length_limits(candidate, words, n, len(names))


def reading_of(
    engine: Engine, frame: Frame, columns: tuple[str, ...], numbers: tuple[str, ...], text: bool
) -> RowsReading:
    """The names of a table and what else its codes need, from a few small groupings."""
    reviewers = counts_of(engine, frame, "reviewer")
    candidates = counts_of(engine, frame, "candidate")
    most = sorted(reviewers, key=lambda name: (-reviewers[name], name))[:N_PANEL]
    people = tuple(sorted({*reviewers, *candidates}))
    names = {"reviewer": people, "candidate": people}
    if "deal" in columns:
        deals = counts_of(engine, frame, "deal")
        names["deal"] = tuple(sorted(deal for deal in deals if deal is not None))
    return RowsReading(
        "session_id",
        names,
        numbers,
        query_id="query_id" in columns,
        text=text,
        clusters=True,
        family_by_name=_families(engine, frame) if "family" in columns else {},
        panel=tuple(sorted(most)),
    )


def _families(engine: Engine, frame: Frame) -> dict[str, str]:
    """The family of each name. The column may speak of candidates or of reviewers: of those
    whom it gives one family each."""
    for column in ("candidate", "reviewer"):
        named = engine.arrays(frame.select(column, "family").unique())
        pairs = [
            (str(name), str(family))
            for name, family in zip(named[column], named["family"], strict=True)
            if family is not None
        ]
        if len({name for name, _ in pairs}) == len(pairs):
            return dict(pairs)
    raise InputError(
        "`family` gives one candidate several families, and one reviewer too.",
        hint="It is the family of the candidate (or of the reviewer): one for each name.",
    )


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


def read_comparisons(engine: Engine, opened: Frame) -> Reviews:
    """A checked table of comparisons as reviews; what is wrong is refused with examples."""
    comparisons = checked_comparisons(engine, opened)
    counts = comparisons.counts
    n = int(counts["n"].sum())
    optional = [name for name in OPTIONAL if name != "reviewer" and f"n_{name}" in counts]
    return Reviews(
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
