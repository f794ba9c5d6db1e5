"""A `reviews` table: its columns, checks of its values, and its rows as arrays.

Narwhals expressions check the table in the same way on every engine. Then DuckDB loads it into this
process, once; Spark leaves it on the workers, which get blocks of whole sessions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from peerage.engines import (
    ArrowTable,
    Columns,
    Engine,
    Frame,
    Source,
    codes_in,
    floats_in,
    paths_of,
)
from peerage.errors import InputError, how_many
from peerage.reviews.cells import Ints, Texts
from peerage.reviews.columns import (
    MARK,
    MAX_MARKS,
    REVIEWS,
    TRIMMED,
    Column,
    Kind,
    is_number,
    required_columns,
    usual_names,
)
from peerage.reviews.flags import BLANKS, FROM_ONE, counts_from_one, merged_flags
from peerage.reviews.rows import Rows, add_census, has_rounds, in_runs, settle, take_census, unit_of
from peerage.types import EARLIEST_S, LATEST_S, MAX_NUMBER

if TYPE_CHECKING:
    from peerage.engines.comparison_tables import Comparisons

T = TypeVar("T")
Change = Callable[[Rows], Rows]

REQUIRED = required_columns(REVIEWS)
AT_LEAST = {name: c.at_least for name, c in REVIEWS.items() if c.at_least is not None}
# The place of a lone session is a large number, drawn from its id.
AT_MOST = {"place": 2.0**63, "probability": 1.0, "confidence": 1.0, "text_hash": 2.0**53}
N_SHOWN = 10
JUDGED = "peerage_judged"  # a column that reading adds: whether the row counts
N_LOOKED_AT = 1_000_000  # rows searched for examples of what is wrong


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """A checked table: its canonical columns, and the results of the checks."""

    engine: Engine
    source: Source
    checked: Frame | None  # None if the rows are kept in memory
    columns: tuple[str, ...]
    n_rows: int
    n_scores: int
    n_ranks: int
    not_finite: int  # judgements that are infinite: they count as missing, as empty cells do
    latest: float | None
    rounds: bool = False  # whether anyone was asked more than once in a session
    comparisons: Comparisons | None = None  # if the table compares models two by two
    padded: tuple[str, ...] = ()  # columns in which some names have blanks around them
    flags: tuple[str, ...] = ()  # what was changed in reading: names, positions
    rows: Rows | None = None  # all rows, if they are in memory
    is_settled: bool = False  # whether all blocks have the same codes of names and clusters
    changes: tuple[Change, ...] = ()  # functions that workers apply to the rows of each block
    names: tuple[str, ...] = ()  # of reviewers and candidates, once settled
    unjudged: tuple[str, ...] = ()  # candidates that have only rows without a judgement

    @property
    def frame(self) -> Frame:
        """The rows as a frame of the engine."""
        if self.checked is None:
            return read_reviews(self.engine, self.source).frame
        return self.checked

    def load(self, needs: Collection[str] | None = None, *, text: bool = False) -> ReviewTable:
        """Return the table with the columns that are needed (None: all) as `Rows` in memory.

        The texts of answers are large, so they are loaded only with `text`. On Spark rows stay on
        the workers.
        """
        if self.rows is not None and not text:
            return self
        needed = set(self.columns if needs is None else needs) - {"text"}
        needed |= {*REQUIRED, *(["text"] if text else [])}
        needed |= {"probability"} if "rank" in needed else set()  # soft votes count by it
        frame = self.frame.select(*(name for name in self.columns if name in needed))
        loaded = self.engine.load(frame)
        if loaded is None:
            return replace(self, checked=frame)
        return replace(self, rows=rows_of(loaded), is_settled=False)

    def map(self, kernel: Callable[[Rows], T]) -> list[T]:
        """Return a pure function's values on blocks of whole sessions; rows in memory are one."""
        if self.rows is not None:
            return [kernel(self.rows)]
        changes = self.changes  # the engine itself does not go to the workers

        def on_block(block: ArrowTable) -> list[T]:
            rows = rows_of(block)
            for change in changes:
                rows = change(rows)
            return [kernel(rows)]

        def join(parts: Sequence[list[T]]) -> list[T]:
            return [one for part in parts for one in part]

        return self.engine.fold(self.frame, "session_id", on_block, join)

    def change(self, change: Change) -> ReviewTable:
        """Return the table with each block replaced by the result of a pure function."""
        if self.rows is None:
            return replace(self, changes=(*self.changes, change))
        rows = change(self.rows)
        return self if rows is self.rows else replace(self, rows=rows, is_settled=False)

    def settle(self) -> ReviewTable:
        """Return the table with common codes of names and clusters in all blocks."""
        if self.is_settled:
            return self
        census = add_census(self.map(take_census))
        settled = self.change(partial(settle, census=census))
        return replace(settled, is_settled=True, names=census.names)

    def refuse_duplicates(self) -> None:
        """Raise an error if a review occurs twice, with the first ten rows."""
        refuse_duplicates(self.engine, self.frame, self.columns)


def read_reviews(engine: Engine, source: Source) -> ReviewTable:
    """Return a `reviews` table with its columns checked; an error shows the bad rows.

    Blanks around names are removed, as on import.
    """
    opened = with_usual_names(engine.open(source))
    schema = opened.collect_schema()
    from peerage.engines.comparison_tables import is_comparisons, read_comparisons

    if is_comparisons(schema.names()):
        return replace(read_comparisons(engine, opened, source), source=source)
    _check_columns(schema.names())
    kinds = kinds_in(schema.names())
    numbers = [name for name in kinds if is_number(name)]
    for name in numbers:
        if schema[name] == nw.String:
            _refuse_non_numbers(engine, opened, name)
    frame, names = cast_columns(engine, opened, kinds), [name for name in kinds if name in TRIMMED]
    table, flags = _check_table(engine, frame, tuple(kinds), numbers, names), list[str]()
    if table.padded:
        sides = ("reviewer", "candidate")
        spelt = [name for side in sides for name in counts_of(engine, frame, side)]
        flags = merged_flags(name for name in spelt if name is not None)
        frame = trimmed_names(frame, table.padded)
        table = _check_table(engine, frame, tuple(kinds), numbers, [])
    if max(table.n_scores, table.n_ranks) < table.n_rows:
        table = _without_abstentions(engine, frame, table, tuple(kinds), numbers)
    return replace(table, source=source, flags=(*table.flags, *flags))


def _without_abstentions(
    engine: Engine, frame: Frame, table: ReviewTable, columns: tuple[str, ...], numbers: list[str]
) -> ReviewTable:
    """Return the table without the rows that judge nothing, as if the file did not have them.

    On a ballot with ranks, or one that Peerage dealt, an answer without a judgement was shown and
    lies below the ranked ones, so its row stays.
    """
    is_judged: Any = nw.lit(False)
    for name in numbers:
        if _is_judgement(name):
            is_judged = is_judged | nw.col(name).is_finite().fill_null(False)
    for name in ("deal", "place"):
        if name in columns:
            is_judged = is_judged | ~nw.col(name).is_null()
    marked = frame.with_columns(is_judged.alias(JUDGED))
    n_judged = engine.arrays(marked.select(nw.col(JUDGED).cast(nw.Int64).sum()))[JUDGED]
    if int(np.nansum(n_judged)) == table.n_rows:
        return table
    if table.n_ranks:
        ballot = ["session_id", "reviewer", *(["round"] if "round" in columns else [])]
        n_ranked = nw.col("rank").is_finite().fill_null(False).cast(nw.Int64).sum().over(*ballot)
        marked = marked.with_columns((nw.col(JUDGED) | (n_ranked > 0)).alias(JUDGED))
    judged = marked.filter(nw.col(JUDGED)).drop(JUDGED)
    candidates = counts_of(engine, frame, "candidate").keys()
    there = counts_of(engine, judged, "candidate").keys()
    left = _check_table(engine, judged, columns, numbers, [])
    unjudged = tuple(sorted(name for name in candidates - there if name is not None))
    return replace(left, not_finite=table.not_finite, unjudged=unjudged)


def kinds_in(names: Collection[str]) -> dict[str, Kind]:
    """Return the kind of each column of reviews, in canonical order."""
    kinds: dict[str, Kind] = {name: c.kind for name, c in REVIEWS.items() if name in names}
    return kinds | dict.fromkeys(sorted(name for name in names if name.startswith(MARK)), "number")


def join_tables(tables: Sequence[ReviewTable], rows: Rows) -> ReviewTable:
    """Return several checked tables as one, with their rows in memory."""
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
        is_settled=True,
        names=rows.names,
        unjudged=_unjudged_in(tables, rows),
    )


def _unjudged_in(tables: Sequence[ReviewTable], rows: Rows) -> tuple[str, ...]:
    """Return the candidates that have only rows without a judgement, in all tables together."""
    names = {name for table in tables for name in table.unjudged}
    if not names:
        return ()
    return tuple(sorted(names - {rows.names[code] for code in np.unique(rows.candidate).tolist()}))


def with_usual_names(opened: Frame) -> Frame:
    """Return a table with standard names for columns that other tools name differently."""
    new_by_old = usual_names(opened.collect_schema().names())
    return opened.rename(new_by_old) if new_by_old else opened


def is_padded(name: str) -> Any:
    """Return whether a text has blanks around it."""
    return nw.col(name).str.strip_chars(BLANKS) != nw.col(name)


def trimmed_names(frame: Frame, names: Iterable[str]) -> Frame:
    """Return a table with the blanks around names removed; a name of blanks becomes null."""
    bare = {name: nw.col(name).str.strip_chars(BLANKS) for name in names}
    return frame.with_columns(
        **{name: nw.when(value != "").then(value) for name, value in bare.items()}
    )


def cast_columns(engine: Engine, opened: Frame, kinds: Mapping[str, Kind]) -> Frame:
    """Return these columns with their types: texts, floats, and times in seconds since 1970."""
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
    """Raise an error if a table lacks a required column."""
    missing = [name for name in required_columns(columns) if name not in names]
    if missing:
        several = "s" if len(missing) > 1 else ""
        mapped = " Map other names with --map, or peerage.read(path, columns=…) in Python."
        raise InputError(
            f"{table} needs the column{several} {', '.join(missing)}.",
            hint=f"It has: {', '.join(list(names)[:20]) or 'none'}."
            f"{mapped if columns is REVIEWS else ''}",
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
    """Raise an error if a table has marks for more dimensions than any rubric."""
    n_marks = sum(name.startswith(MARK) for name in names)
    if n_marks > MAX_MARKS:
        raise InputError(
            f"a table may have marks for at most {MAX_MARKS} dimensions, and this one has "
            f"{n_marks:,}."
        )


def _refuse_non_numbers(engine: Engine, frame: Frame, name: str) -> None:
    values = engine.arrays(frame.select(name).head(N_LOOKED_AT))[name]
    wrong = [f"row {i + 1}: {name} {v!r}" for i, v in enumerate(values) if not _is_number(v)]
    if wrong:
        raise InputError(f"`{name}` is not a number in some rows.", hint=_list_rows(wrong))


def _is_number(value: object) -> bool:
    try:
        float("nan" if value is None else str(value))
    except ValueError:
        return False
    return True


def _check_table(
    engine: Engine, frame: Frame, columns: tuple[str, ...], numbers: list[str], names: list[str]
) -> ReviewTable:
    """Check the table in one pass: count everything that may be wrong with it."""
    counts: dict[str, Any] = {"n": nw.len(), **{name: nw.col(name).count() for name in columns}}
    for name in names:
        counts[f"padded_{name}"] = is_padded(name).cast(nw.Int64).sum()
    for name in numbers:
        column = nw.col(name)
        if name in AT_LEAST:
            counts[f"low_{name}"] = (column < AT_LEAST[name]).cast(nw.Int64).sum()
        is_read = ~column.is_nan()
        if _is_judgement(name):  # NaN is an empty cell, and an infinite value counts as one
            is_read = column.is_finite()
            counts[f"finite_{name}"] = is_read.cast(nw.Int64).sum()
            counts[f"infinite_{name}"] = (column.abs() == math.inf).cast(nw.Int64).sum()
        is_far = column.abs() > AT_MOST.get(name, MAX_NUMBER)
        counts[f"far_{name}"] = (is_far & is_read).cast(nw.Int64).sum()
    counts |= ends_of(columns)
    if "round" in columns:
        counts |= {"first": nw.col("round").min(), "last": nw.col("round").max()}
    if "position" in columns:
        counts["least_position"] = nw.col("position").min()
    table = engine.arrays(frame.select(**counts))
    n_of = {
        name: 0.0 if value is None or np.isnan(value) else float(value)
        for name, (value,) in table.items()
    }
    padded = tuple(name for name in names if n_of[f"padded_{name}"])
    if not padded:  # a padded table is checked again without the blanks
        _refuse(engine, frame, numbers, n_of)
    from_one = counts_from_one(columns, n_of.get("least_position"))
    if from_one:
        frame = frame.with_columns(nw.col("position") - 1.0)
    usable = list(filter(_is_judgement, numbers))
    # An empty column counts as missing, so that a metric that needs it can say so.
    always = {*REQUIRED, "score", "rank"} if n_of["n"] else set(columns)
    return ReviewTable(
        engine,
        None,
        frame,
        tuple(name for name in columns if name in always or n_of[name]),
        int(n_of["n"]),
        int(n_of.get("finite_score", 0)),
        int(n_of.get("finite_rank", 0)),
        int(sum(n_of[f"infinite_{name}"] for name in usable)),
        latest_of(table),
        n_of.get("first") != n_of.get("last"),
        padded=padded,
        flags=(FROM_ONE,) if from_one else (),
    )


def ends_of(columns: Collection[str]) -> dict[str, Any]:
    """Return the earliest and the latest time of a table, if it has times."""
    at = nw.col("at")
    return {"earliest": at.min(), "latest": at.max()} if "at" in columns else {}


def latest_of(table: Columns) -> float | None:
    """Return the latest time of a table, None without times; raise an error if out of range."""
    ends = [np.asarray(table.get(end, ()), dtype=np.float64) for end in ("earliest", "latest")]
    times = [time for end in ends for time in end[~np.isnan(end)].tolist()]
    if far := [time for time in times if not EARLIEST_S <= time <= LATEST_S]:
        raise InputError(
            f"`at` is out of range: {far[0]:g}.",
            hint="Times must be in the years 1 to 9999, in ISO 8601 or in seconds since 1970.",
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
        raise InputError(f"`{name}` is below {least:g}, its minimum.", hint=rows)
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
            hint=f"Numbers must be from {-most:,.0f} to {most:,.0f}; {rows}",
        )


def _is_judgement(name: str) -> bool:
    """Return whether a column of numbers is a reviewer's judgement of an answer."""
    return name in ("score", "rank") or name.startswith(MARK)


def _examples(engine: Engine, frame: Frame, name: str, is_wrong: Callable[[Any], bool]) -> str:
    """Return the first rows in which a column is empty or invalid."""
    columns = engine.arrays(frame.select(*dict.fromkeys((*REQUIRED, name))).head(N_LOOKED_AT))
    rows = []
    for i, value in enumerate(columns[name].tolist()):
        if is_wrong(value):
            cells = ", ".join(f"{column} {values[i]}" for column, values in columns.items())
            rows.append(f"row {i + 1}: {cells}")
    return _list_rows(rows[:N_SHOWN])


def _list_rows(rows: list[str]) -> str:
    more = f"; and {len(rows) - N_SHOWN} more" if len(rows) > N_SHOWN else ""
    return "; ".join(rows[:N_SHOWN]) + more + "."


def counts_of(engine: Engine, frame: Frame, column: str) -> dict[str, int]:
    """Return the values of a text column with their row counts.

    It uses a grouping, which is ten times faster than `unique`.
    """
    values = engine.arrays(frame.group_by(column).agg(nw.len().alias("n")))
    return dict(zip(values[column].tolist(), values["n"].tolist(), strict=True))


def refuse_duplicates(engine: Engine, frame: Frame, columns: tuple[str, ...]) -> None:
    """Raise an error with the first ten rows that repeat a review."""
    key = [*REQUIRED, *(["round"] if "round" in columns else [])]
    twice = frame.group_by(*key).agg(nw.len().alias("n")).filter(nw.col("n") > 1)
    first = engine.arrays(twice.sort(*key).head(N_SHOWN))
    rows = [
        ", ".join(f"{name} {value}" for name, value in zip(first, values, strict=True))
        for values in zip(*first.values(), strict=True)
    ]
    if rows:
        raise InputError(
            "a reviewer judged the same answer twice in one round.",
            hint=f"{_list_rows(rows)} Number repeats in a `round` column.",
        )


# -- rows as arrays ------------------------------------------------------------------------------


def rows_of(table: ArrowTable) -> Rows:
    """Return an encoded table of whole sessions as rows, with each session's rows adjacent."""
    sides = {side: codes_in(table, side) for side in ("reviewer", "candidate")}
    names = sorted({name for _, known in sides.values() for name in known.tolist()})
    place = {name: code for code, name in enumerate(names)}
    reviewer, candidate = (
        np.array([place[name] for name in known.tolist()], dtype=np.int64)[codes]
        for codes, known in sides.values()
    )
    keys, labels, numbers, text = {}, {}, {}, None
    for name in (name for name in table.column_names if name not in REQUIRED):
        if is_number(name) or name == "at":
            numbers[name] = floats_in(table, name)
        elif name == "text":
            codes, texts = codes_in(table, name)
            text = np.append(texts, np.array([None], dtype=object))[codes]
        else:
            keys[name], labels[name] = _sort_codes(*codes_in(table, name))
    session, ids = codes_in(table, "session_id")
    rows = Rows(
        names=tuple(names),
        n_clusters=1,
        cluster=np.zeros(len(ids), dtype=np.int64),
        session=session.astype(np.int64),
        reviewer=reviewer,
        candidate=candidate,
        numbers=numbers,
        keys=keys,
        text=text,
        labels=labels,
        session_ids=ids,
        unit=np.zeros(len(ids), dtype=object),
    )
    return in_runs(replace(rows, unit=_units(rows)))


def _sort_codes(codes: Ints, labels: Texts) -> tuple[Ints, Texts]:
    """Return codes and texts with the texts sorted."""
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.full(len(labels) + 1, -1, dtype=np.int64)  # the last is that of null
    place[order] = np.arange(len(order))
    return place[codes], labels[order]


def _units(rows: Rows) -> Texts:
    """Return the unit of each session; if it has two queries, the first by name."""
    units = [unit_of(session, None) for session in rows.session_ids.tolist()]
    if "query_id" in rows.keys:
        labels, codes = rows.labels["query_id"], rows.keys["query_id"]
        query = np.full(rows.n_sessions, len(labels))
        np.minimum.at(query, rows.session, np.where(codes < 0, len(labels), codes))
        for at in np.flatnonzero(query < len(labels)).tolist():
            units[at] = unit_of("", labels[query[at]])
    texts = np.empty(len(units), dtype=object)
    texts[:] = units
    return texts
