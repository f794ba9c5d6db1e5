"""A `reviews` table: which columns it has, what is wrong with it, and what a fold needs to know.

Everything here is narwhals expressions, the same on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import Block, Columns, Engine, Frame, Reading, Source
from peerage.errors import InputError
from peerage.reviews.columns import MARK, MAX_MARKS, REVIEWS, is_number, required
from peerage.reviews.rows import N_PANEL, Rows

T = TypeVar("T")

REQUIRED = required(REVIEWS)
AT_LEAST = {name: one.at_least for name, one in REVIEWS.items() if one.at_least is not None}
N_SHOWN = 10
N_NAMED = 10_000  # values that a filter may list
N_LOOKED_AT = 1_000_000  # rows searched for examples of what is wrong


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A table of comparisons: its rows, and how often each pair met with which winner."""

    frame: Any  # a narwhals LazyFrame
    counts: Columns


@dataclass(frozen=True, slots=True)
class Reviews:
    """A checked table: its canonical columns, and what a first look at it showed."""

    frame: Any  # a narwhals LazyFrame
    columns: tuple[str, ...]
    n_rows: int
    n_scores: int
    n_ranks: int
    not_finite: int  # scores that are NaN or infinite: read as no score, and said
    latest: float | None
    rounds: bool = False  # whether anyone was asked more than once in a session
    comparisons: Comparisons | None = None  # where the table compares models two by two


def read_reviews(engine: Engine, source: Source) -> Reviews:
    """A `reviews` table with its columns checked; anything wrong is refused with its rows."""
    from peerage.engines.head_to_head import is_comparisons, read_comparisons

    opened = engine.open(source)
    schema = opened.collect_schema()
    if is_comparisons(schema.names()):
        return read_comparisons(engine, opened)
    _check_columns(tuple(schema.names()))
    kept = [name for name in REVIEWS if name in schema]
    kept += sorted(name for name in schema.names() if name.startswith(MARK))
    numbers = [name for name in kept if is_number(name)]
    for name in numbers:
        if not (schema[name].is_numeric() or schema[name] == nw.Boolean):
            opened = _as_numbers(engine, opened, name, schema[name])
    texts = [name for name in kept if name not in (*numbers, "at")]
    frame = opened.select(
        *(nw.col(name).cast(nw.String) for name in texts),
        *(nw.col(name).cast(nw.Float64) for name in numbers),
        *(["at"] if "at" in schema else []),
    )
    if "at" in schema:
        frame = engine.epoch(frame, "at")
    return _looked_at(engine, frame, tuple(kept), numbers)


def _check_columns(names: tuple[str, ...]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InputError(
            f"a reviews table needs the column {', '.join(missing)}.",
            hint=f"It has: {', '.join(names[:20]) or 'none'}.",
        )
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


def _as_numbers(engine: Engine, frame: Frame, name: str, kind: Any) -> Frame:
    """The frame with a text column read as numbers, or a refusal that shows the texts."""
    if kind != nw.String:
        return frame  # a column of nothing but nulls has no type of its own
    values = engine.arrays(frame.select(name).head(N_LOOKED_AT))[name]
    wrong = [f"row {i + 1}: {name} {v!r}" for i, v in enumerate(values) if not _is_number(v)]
    if wrong:
        raise InputError(f"`{name}` is not a number everywhere.", hint=_listed(wrong))
    return frame


def _is_number(value: object) -> bool:
    if value is None:
        return True
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _looked_at(
    engine: Engine, frame: Frame, columns: tuple[str, ...], numbers: list[str]
) -> Reviews:
    """One pass over the table: counts of everything that may be wrong with it."""
    counts = [nw.len().alias("n")]
    counts += [
        nw.col(name).is_null().cast(nw.Int64).sum().alias(f"null_{name}") for name in REQUIRED
    ]
    for name in numbers:
        counts.append(nw.col(name).is_finite().cast(nw.Int64).sum().alias(f"finite_{name}"))
        counts.append((~nw.col(name).is_null()).cast(nw.Int64).sum().alias(f"held_{name}"))
        if name in AT_LEAST:
            counts.append((nw.col(name) < AT_LEAST[name]).cast(nw.Int64).sum().alias(f"low_{name}"))
    counts += [
        (~nw.col(name).is_null()).cast(nw.Int64).sum().alias(f"held_{name}")
        for name in columns
        if name not in (*REQUIRED, *numbers)
    ]
    if "at" in columns:
        counts.append(nw.col("at").max().alias("latest"))
    if "round" in columns:
        counts += [nw.col("round").min().alias("first"), nw.col("round").max().alias("last")]
    seen = {
        name: 0.0 if value is None or (np.isnan(value) and name != "latest") else float(value)
        for name, (value,) in engine.arrays(frame.select(*counts)).items()
    }
    _refuse(engine, frame, numbers, seen)
    usable = [n for n in numbers if n in ("score", "rank") or n.startswith(MARK)]
    latest = seen.get("latest")
    # A column that holds nothing is as good as not there, and is said to be missing.
    kept = {*REQUIRED, "score", "rank"} if seen["n"] else set(columns)
    held = tuple(c for c in columns if c in kept or seen[f"held_{c}"])
    return Reviews(
        frame,
        held,
        int(seen["n"]),
        int(seen.get("finite_score", 0)),
        int(seen.get("finite_rank", 0)),
        int(sum(seen[f"held_{name}"] - seen[f"finite_{name}"] for name in usable)),
        None if latest is None or not np.isfinite(latest) else latest,
        seen.get("first") != seen.get("last"),
    )


def _refuse(engine: Engine, frame: Frame, numbers: list[str], seen: Mapping[str, float]) -> None:
    for name in REQUIRED:
        if seen[f"null_{name}"]:
            rows = _examples(engine, frame, name, lambda v: v is None)
            raise InputError(f"`{name}` is empty in {int(seen[f'null_{name}'])} rows.", hint=rows)
    for name in numbers:
        if seen.get(f"low_{name}"):
            least = AT_LEAST[name]
            rows = _examples(
                engine, frame, name, lambda v, least=least: v is not None and v < least
            )
            raise InputError(f"`{name}` lies below {least:g}.", hint=rows)


def _examples(engine: Engine, frame: Frame, name: str, wrong: Any) -> str:
    wanted = dict.fromkeys((*REQUIRED, name))
    found = engine.arrays(frame.select(*wanted).head(N_LOOKED_AT))
    rows = []
    for i, values in enumerate(zip(*(found[column] for column in wanted), strict=True)):
        row = dict(zip(wanted, values, strict=True))
        if wrong(row[name]):
            rows.append(f"row {i + 1}: {', '.join(f'{k} {v}' for k, v in row.items())}")
        if len(rows) == N_SHOWN:
            break
    return _listed(rows)


def _listed(rows: list[str]) -> str:
    shown = rows[:N_SHOWN]
    more = f"; and {len(rows) - N_SHOWN} more" if len(rows) > N_SHOWN else ""
    return "; ".join(shown) + more + "."


def since(reviews: Reviews, earliest: float | None, latest: float | None) -> Frame:
    """The rows within a window; a row without a time is always in it."""
    frame: Frame = reviews.frame
    if "at" not in reviews.columns:
        return frame
    if earliest is not None:
        frame = frame.filter((nw.col("at") >= earliest) | nw.col("at").is_null())
    if latest is not None:
        frame = frame.filter((nw.col("at") <= latest) | nw.col("at").is_null())
    return frame


def repeated_queries(engine: Engine, frame: Frame) -> Frame:
    """The rows of queries that more than one session asked."""
    asked = frame.group_by("query_id").agg(
        nw.col("session_id").min().alias("one"), nw.col("session_id").max().alias("other")
    )
    again = asked.filter((nw.col("one") != nw.col("other")) & ~nw.col("query_id").is_null())
    few = engine.arrays(again.select("query_id").head(N_NAMED + 1))["query_id"].tolist()
    if not few:
        return frame.head(0)
    if len(few) <= N_NAMED:  # a list is looked up while reading; a join reads twice
        return engine.keep(frame.filter(nw.col("query_id").is_in(few)))
    return engine.keep(frame.join(again.select("query_id"), on="query_id", how="semi"))


@dataclass(frozen=True, slots=True)
class RowsReading:
    """What a fold over reviews needs: some columns, and what is known of the names."""

    names: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    deals: tuple[str, ...] | None = None
    query_id: bool = False
    text: bool = False
    family_by_name: Mapping[str, str] = field(default_factory=dict)
    panel: tuple[str, ...] = ()
    whole_queries: bool = False  # True: sessions that ask the same query come in one block

    @property
    def columns(self) -> Reading:
        names = {"reviewer": self.names, "candidate": self.names}
        return Reading(
            "session_id",
            names if self.deals is None else {**names, "deal": self.deals},
            self.numbers,
            self.query_id,
            self.text,
            clusters=True,
            whole_queries=self.whole_queries,
        )

    def rows(self, block: Block) -> Rows:
        """A block of whole sessions as the rows that kernels take."""
        families = sorted({name for name in self.family_by_name.values() if name})
        known = [self.family_by_name.get(name) for name in self.names]
        keys = {} if block.query_id is None else {"query_id": block.query_id}
        keys |= {} if self.deals is None else {"deal": block.codes["deal"].astype(np.int64)}
        return Rows(
            names=self.names,
            n_clusters=block.n_clusters,
            cluster=np.zeros(0, dtype=np.int64) if block.cluster is None else block.cluster,
            session=block.codes["session_id"],
            reviewer=block.codes["reviewer"].astype(np.int64),
            candidate=block.codes["candidate"].astype(np.int64),
            numbers=block.numbers,
            keys=keys,
            text=block.text,
            family=np.array([families.index(one) if one else -1 for one in known])
            if self.family_by_name
            else None,
            panel=np.array([self.names.index(name) for name in self.panel], dtype=np.int64),
        )


def fold_rows(
    engine: Engine,
    frame: Frame,
    reading: RowsReading,
    kernel: Callable[[Rows], T],
    add: Callable[[Sequence[T]], T],
) -> T:
    """The sum of a pure function's values on the rows of whole sessions."""
    return engine.fold(frame, reading.columns, lambda block: kernel(reading.rows(block)), add)


def counts_of(engine: Engine, frame: Frame, column: str, most: int | None = None) -> dict[str, int]:
    """The values of a column of texts, each with its rows; up to so many of them.

    By a grouping: that is ten times quicker than `unique`.
    """
    counted = frame.group_by(column).agg(nw.len().alias("n"))
    found = engine.arrays(counted if most is None else counted.head(most))
    return dict(zip(found[column].tolist(), found["n"].tolist(), strict=True))


def names_in(engine: Engine, frame: Frame) -> tuple[str, ...]:
    """The names of reviewers and candidates, sorted."""
    sides = (counts_of(engine, frame, column) for column in ("reviewer", "candidate"))
    return tuple(sorted({name for side in sides for name in side}))


def reading_of(
    engine: Engine, frame: Frame, columns: tuple[str, ...], numbers: tuple[str, ...], text: bool
) -> RowsReading:
    """The names of a table and what else its codes need, from a few small groupings."""
    reviewers = counts_of(engine, frame, "reviewer")
    candidates = counts_of(engine, frame, "candidate")
    most = sorted(reviewers, key=lambda name: (-reviewers[name], name))[:N_PANEL]
    deals = counts_of(engine, frame, "deal") if "deal" in columns else None
    return RowsReading(
        names=tuple(sorted({*reviewers, *candidates})),
        numbers=numbers,
        deals=None if deals is None else tuple(sorted(deal for deal in deals if deal is not None)),
        query_id="query_id" in columns,
        text=text,
        family_by_name=_families(engine, frame) if "family" in columns else {},
        panel=tuple(sorted(most)),
    )


def _families(engine: Engine, frame: Frame) -> dict[str, str]:
    """The family of each name. The column may speak of candidates or of reviewers: of those
    whom it gives one family each."""
    for column in ("candidate", "reviewer"):
        found = engine.arrays(frame.select(column, "family").unique())
        pairs = [
            (str(name), str(family))
            for name, family in zip(found[column], found["family"], strict=True)
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
    found: Columns = engine.arrays(twice.sort(*key).head(N_SHOWN))
    rows = [
        ", ".join(f"{name} {value}" for name, value in zip((*key, "n"), values, strict=True))
        for values in zip(*(found[name] for name in (*key, "n")), strict=True)
    ]
    if rows:
        raise InputError(
            "a reviewer judged one answer twice in one round.",
            hint=f"{_listed(rows)} Number repeats in a `round` column.",
        )
