"""Bytes to and from analytics: every sum is written once and runs on every engine.

An engine opens a source as a lazy relation and runs what others wrote. There are two ways to
write a sum, and both give the same numbers on each engine:

- as narwhals expressions on the relation (`open`, then `arrays`): counts and plain sums by
  group, which is what boards mostly are;
- as a pure function of arrays (`fold`): where a sum needs an answer's other reviewers or a
  ballot's other rows, the engine hands over blocks of whole sessions as codes and numbers,
  in bounded memory and wherever it likes (in this process, or on a cluster's workers), and
  returns the parts to be added.

Ratios, correlations, ranks and resampling happen afterwards, once, in numpy. No engine's own
hash, rounding, correlation or collation decides a result: names are sorted by Python, and
sessions get their cluster from a checksum of their unit. Row order never matters.

What narwhals cannot say on both backends stands in the engine, by name: `epoch` (times as
seconds), the encoding of names inside `fold`, and the reading of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from peerage.engines.sql import Sql, sql
from peerage.errors import PeerageError
from peerage.plugins import Registry

if TYPE_CHECKING:
    import narwhals as nw

    from peerage.reviews.rows import Rows

    Frame = nw.LazyFrame[Any]

T = TypeVar("T")
QUERY = sql("query_id")
NUMBER_DIGITS = 20  # of a row's number as a text: any sorts in its order
Columns = dict[str, Any]  # numpy arrays by name, all of one length
Source = Any  # a path, a list of paths (no patterns), or any table that speaks Arrow


class EngineError(PeerageError):
    """An engine could not do what it was asked."""


class EngineMemoryError(EngineError):
    """An engine had too little memory, and no room to do without."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns a fold needs, and the names that its codes count in.

    `numbers` arrive as floats with NaN for null; `keys` as integers that are only compared,
    negative for null; `deal`, if asked for among the keys, counts the distinct deals.
    """

    names: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    text: bool = False
    family_by_name: Mapping[str, str] = field(default_factory=dict)
    panel: tuple[str, ...] = ()
    clusters: bool = True  # False: the kernel does not ask which cluster a session is in
    whole_queries: bool = False  # True: sessions that ask the same query come in one block

    def unit(self, query_id: Sql = QUERY) -> Sql:
        """In SQL, what a row's session is one observation of (`unit_of`)."""
        if "query_id" in self.keys:
            return sql("coalesce('query ' || {}, 'session ' || session_id)", query_id)
        return sql("'session ' || session_id")


class Engine(Protocol):
    """What reports ask of an engine."""

    def admit(self, *sources: Source | None) -> None:
        """Say which files will be opened: those that are to be joined, or several at once."""
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

    def keep(self, frame: Frame) -> Frame:
        """The same rows, kept so that reading them again is cheap."""
        ...

    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Rows], T]) -> Sequence[T]:
        """A pure function's value on each block of whole sessions; together they are the frame."""
        ...


engines: Registry[Callable[[], Engine]] = Registry("engine", __name__)
