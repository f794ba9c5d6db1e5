"""Bytes to and from analytics: every sum is written once and runs on every engine.

An engine opens a source as a lazy relation and runs what others wrote. There are two ways to
write a sum, and both give the same numbers on each engine:

- as narwhals expressions on the relation (`open`, then `arrays`): counts and plain sums by
  group, which is what boards mostly are;
- as a pure function of arrays (`fold`): where a sum needs an answer's other reviewers or an
  item's other opinions, the engine hands over blocks of whole groups (sessions, items) as codes
  and numbers, in bounded memory and wherever it likes (in this process, or on a cluster's
  workers), and adds up what was made of them.

Ratios, correlations, ranks and resampling happen afterwards, once, in numpy. No engine's own
hash, rounding, correlation or collation decides a result: names are sorted by Python, and
sessions get their cluster from a checksum of their unit.

What narwhals cannot say on both backends stands in the engine, by name: `epoch` and `zones` (of
times), the encoding of names inside `fold`, and the reading of files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from peerage.engines.sql import NAME, Sql, quoted, sql
from peerage.errors import PeerageError
from peerage.plugins import Registry

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import numpy as np
    from numpy.typing import NDArray

    from peerage.reviews.rows import Floats, Ints

T = TypeVar("T")
Frame: TypeAlias = "nw.LazyFrame[Any]"
Add: TypeAlias = Callable[[Sequence[T]], T]
QUERY = sql("query_id")
NUMBER_DIGITS = 20  # of a row's number as a text: any sorts in its order
PATH = (str, os.PathLike)
MANY_PARTS = 16  # are added up before there are more
Names = Any  # texts in order: a tuple, or an array of objects
Columns = dict[str, Any]  # numpy arrays by name, all of one length
Source = Any  # a path, a list of paths (no patterns), or any table that speaks Arrow


def paths_of(source: Source | None) -> list[str]:
    """The paths that a source is; none where it is a table."""
    listed = [source] if isinstance(source, PATH) else source
    if not isinstance(listed, Sequence) or not all(isinstance(one, PATH) for one in listed):
        return []
    return [os.fspath(path) for path in listed]


def unwrapped(source: Source) -> Source:
    """What a narwhals frame wraps, or the source as it is."""
    if type(source).__module__.split(".")[0] != "narwhals":
        return source
    import narwhals.stable.v2 as nw

    return nw.to_native(source)


def zone_of(column: Sql) -> Sql:
    """In SQL of either dialect, the zone at the end of a written time."""
    return sql("regexp_extract({}, ':.*?([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$', 1)", column)


class EngineError(PeerageError):
    """An engine could not do what it was asked."""


class EngineMemoryError(EngineError):
    """An engine had too little memory, and no room to do without."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns a fold hands over: texts as codes, numbers as floats, in blocks of groups.

    `names` are those of each text column, sorted: a code is a place among them, −1 for null.
    The group's own codes count within a block where it has no names here.
    """

    group: str  # rows that share it come in one block, in the order of the table
    names: Mapping[str, Names]
    numbers: tuple[str, ...] = ()
    query_id: bool = False  # as codes that are only compared; a query is then a cluster's unit
    text: bool = False
    clusters: bool = False  # whether a block says which cluster each of its groups is in
    whole_queries: bool = False  # True: sessions that ask the same query come in one block

    def unit(self, mark: str = NAME, query_id: Sql = QUERY) -> Sql:
        """In SQL, what a row's group is one observation of (`unit_of`)."""
        group = quoted(self.group, mark)
        if self.query_id:
            return sql("coalesce('query ' || {}, 'session ' || {})", query_id, group)
        return sql("'session ' || {}", group)


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole groups of a table as arrays of one length, by column."""

    codes: Mapping[str, Ints]
    numbers: Mapping[str, Floats]
    query_id: Ints | None = None  # negative where there is none
    text: NDArray[np.object_] | None = None
    cluster: Ints | None = None  # by group, where asked for
    n_clusters: int = 1


def added(parts: Iterable[T], add: Add[T]) -> T:
    """The sum of parts that come one after the other, never many of them held at a time."""
    held: list[T] = []
    for part in parts:
        held.append(part)
        if len(held) == MANY_PARTS:
            held = [add(held)]
    return add(held)


class Engine(Protocol):
    """What reports ask of an engine."""

    def admit(self, *sources: Source | None) -> None:
        """Say which files, or files of which folders, will be opened together or in turn."""
        ...

    def open(self, source: Source) -> Frame:
        """The source as a lazy relation of its columns with safe names; nothing is read yet."""
        ...

    def arrays(self, frame: Frame) -> Columns:
        """A (small) result as arrays: NaN for a null number, None for a null text."""
        ...

    def epoch(self, frame: Frame, column: str) -> Frame:
        """The relation with a column of times as seconds since 1970, in floats."""
        ...

    def number(self, frame: Frame, column: str) -> Frame:
        """The relation with a column of numbers of `NUMBER_DIGITS` digits, in the order of rows."""
        ...

    def zones(self, frame: Frame, column: str) -> set[str]:
        """The zones that a column of written times names, "" for none."""
        ...

    def keep(self, frame: Frame) -> Frame:
        """The same rows, kept so that reading them again is cheap."""
        ...

    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Block], T], add: Add[T]) -> T:
        """The sum of a pure function's values on blocks of whole groups, one at least."""
        ...


engines: Registry[Callable[[], Engine]] = Registry("engine", __name__)
