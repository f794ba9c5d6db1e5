"""Bytes to and from analytics: every sum is written once and runs on every engine.

An engine opens a source as a lazy relation and runs what others wrote. There are two ways to
write a sum, and both give the same numbers on each engine:

- as narwhals expressions on the relation (`open`, then `arrays`): counts and plain sums by
  group, which is what boards mostly are;
- as a pure function of arrays: where a sum needs an answer's other reviewers or an item's other
  opinions, the engine hands over whole groups (sessions, items) as codes and numbers. DuckDB
  loads the table into this process (`load`). Spark gives blocks of it to a cluster's workers and
  adds up what they make of them (`fold`).

Ratios, correlations, ranks and resampling happen afterwards, once, in numpy. No engine's own
hash, rounding, correlation or collation decides a result: names are sorted by Python, and
sessions get their cluster from a checksum of their unit.

What narwhals cannot say on both backends is SQL that both take (`epoch` and `zones` of times,
numbers of rows) or stands in the engine, which reads the files. Texts become codes in
`blocks.py`, from Arrow, on every engine.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from peerage.engines.sql import NAME, Sql, is_safe, quoted, sql
from peerage.errors import PeerageError
from peerage.registry import Registry

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import numpy as np
    from numpy.typing import NDArray

    from peerage.reviews.cells import Floats, Ints

T = TypeVar("T")
Frame: TypeAlias = "nw.LazyFrame[Any]"
Add: TypeAlias = Callable[[Sequence[T]], T]
NUMBER_DIGITS = 20  # of a row's number as a text: any sorts in its order
PATH = (str, os.PathLike)
TEXT_KINDS, TIME_KINDS = ("VARCHAR", "STRING"), ("TIMESTAMP", "DATE")  # or begin with these
MANY_PARTS = 16  # are added up before there are more
Names = Any  # texts in order: a tuple, or an array of objects
Columns = dict[str, Any]  # numpy arrays by name, all of one length
Source = Any  # a path, a list of paths (no patterns), or any table that speaks Arrow


def paths_of(source: Source | None) -> list[str]:
    """The paths that a source is; none where it is a table."""
    paths = [source] if isinstance(source, PATH) else source
    if not isinstance(paths, Sequence) or not all(isinstance(path, PATH) for path in paths):
        return []
    return [os.fspath(path) for path in paths]


def unwrapped(source: Source) -> Source:
    """What a narwhals frame wraps, or the source as it is."""
    if type(source).__module__.split(".")[0] != "narwhals":
        return source
    import narwhals.stable.v2 as nw

    return nw.to_native(source)


def framed(table: Any) -> Frame:
    """An engine's own relation as narwhals' lazy frame.

    By the stable interface: the other one keeps DuckDB's types alive past the interpreter's end,
    and DuckDB complains on stderr.
    """
    import narwhals.stable.v2 as nw

    frame: Frame = nw.from_native(table)
    return frame


class EngineError(PeerageError):
    """An engine could not do what it was asked."""


class EngineMemoryError(EngineError):
    """An engine had too little memory, and no room to do without."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns are handed over as arrays: texts as codes, numbers as floats.

    `names` are those of each text column that has a list of its own: a code is a place in it.
    The codes of the group and of `texts` count within a block, which says what they stand for.
    A negative code is null.
    """

    group: str  # rows that share it come in one block, in the order of the table
    names: Mapping[str, Names]
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    text: bool = False  # whether answers come as they are written

    def unit(self, mark: str = NAME) -> Sql:
        """Return, in SQL, what a row's group is one observation of (`unit_of`)."""
        group = quoted(self.group, mark)
        if "query_id" in self.texts:
            return sql("coalesce('query ' || query_id, 'session ' || {})", group)
        return sql("'session ' || {}", group)


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole groups of a table as arrays of one length, by column."""

    codes: Mapping[str, Ints]
    labels: Mapping[str, NDArray[np.object_]]  # what the codes of each column stand for
    numbers: Mapping[str, Floats]
    text: NDArray[np.object_] | None = None

    def only(self, keep: NDArray[np.bool_]) -> Block:
        """Return some of the rows."""
        codes = {name: values[keep] for name, values in self.codes.items()}
        numbers = {name: values[keep] for name, values in self.numbers.items()}
        return Block(codes, self.labels, numbers, None if self.text is None else self.text[keep])


def added(parts: Iterable[T], add: Add[T]) -> T:
    """The sum of parts that come one after the other, never many of them held at a time."""
    waiting: list[T] = []
    for part in parts:
        waiting.append(part)
        if len(waiting) == MANY_PARTS:
            waiting = [add(waiting)]
    return add(waiting)


class Engine(ABC):
    """What reports ask of an engine; one that speaks SQL need only bring what is abstract."""

    mark: ClassVar[str] = NAME  # quotes a name
    row_number: ClassVar[Sql]  # of each row, in their order

    @abstractmethod
    def admit(self, *sources: Source | None) -> None:
        """Say which files, or files of which folders, will be opened together or in turn."""

    @abstractmethod
    def arrays(self, frame: Frame) -> Columns:
        """A (small) result as arrays: NaN for a null number, None for a null text."""

    @abstractmethod
    def keep(self, frame: Frame) -> Frame:
        """The same rows, kept so that reading them again is cheap."""

    @abstractmethod
    def load(self, frame: Frame, reading: Reading) -> Block | None:
        """The whole table as one block; None where tables are not brought into this process."""

    @abstractmethod
    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Block], T], add: Add[T]) -> T:
        """The sum of a pure function's values on blocks of whole groups, one at least."""

    @abstractmethod
    def _table(self, source: Source) -> Any:
        """The source as a relation of the engine's own."""

    @abstractmethod
    def _kinds(self, table: Any) -> Mapping[str, str]:
        """The type of each column, in capitals."""

    @abstractmethod
    def _select(self, table: Any, *parts: Sql) -> Any:
        """A relation of these expressions."""

    @abstractmethod
    def _seconds(self, table: Any, column: str, kind: str) -> Sql:
        """A column of times, or of such texts, as seconds since 1970; others are refused."""

    def open(self, source: Source) -> Frame:
        """The source as a lazy relation of its columns with safe names; nothing is read yet."""
        table = self._table(source)
        if not all(map(is_safe, table.columns)):
            safe = [quoted(name, self.mark) for name in table.columns if is_safe(name)]
            table = self._select(table, *(safe or [sql("null as nothing")]))
        return framed(table)

    def epoch(self, frame: Frame, column: str) -> Frame:
        """The relation with a column of times as seconds since 1970, in floats."""
        table, name = frame.to_native(), quoted(column, self.mark)
        kind = self._kinds(table)[column]
        if kind in TEXT_KINDS or kind.startswith(TIME_KINDS):
            seconds = self._seconds(table, column, kind)
        else:  # seconds, or milliseconds where they would lie thousands of years ahead
            number = sql("nullif(cast({} as double), cast('NaN' as double))", name)
            seconds = sql("case when abs({0}) >= 100000000000 then {0} / 1000 else {0} end", number)
        others = [quoted(other, self.mark) for other in table.columns if other != column]
        return framed(self._select(table, *others, sql("{} as {}", seconds, name)))

    def number(self, frame: Frame, column: str) -> Frame:
        """The relation with a column of numbers of `NUMBER_DIGITS` digits, in the order of rows."""
        text = sql("lpad(cast({} as string), {}, '0')", self.row_number, NUMBER_DIGITS)
        numbered = sql("{} as {}", text, quoted(column, self.mark))
        return framed(self._select(frame.to_native(), sql("*"), numbered))

    def zones(self, frame: Frame, column: str) -> set[str]:
        """The zones that a column of written times names, "" for none."""
        table = frame.to_native()
        if self._kinds(table).get(column) not in TEXT_KINDS:
            return set()
        ending = (
            "regexp_extract(right({}, 40), ':.*?([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$', 1) as zone"
        )
        zones = self._select(table, sql(ending, quoted(column, self.mark))).distinct()
        return {zone or "" for zone in self.arrays(framed(zones))["zone"].tolist()}


engines: Registry[Callable[[], Engine]] = Registry("engine", __name__)
