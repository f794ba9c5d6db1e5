"""Engines for analytics: every sum is written once and runs on every engine.

An engine opens a source as a lazy relation and runs sums on it. There are two ways to write a sum,
and both give the same numbers on each engine:

- as narwhals expressions on the relation (`open`, then `arrays`): counts and plain sums by
  group, which is what boards mostly are;
- as a pure function of arrays: if a sum needs an answer's other reviewers or an item's other
  opinions, the engine passes whole groups (sessions, items) as codes and numbers. DuckDB
  loads the table into this process (`load`). Spark sends blocks of it to a cluster's workers and
  adds up their results (`fold`).

Ratios, correlations, ranks and resampling happen afterwards, once, in numpy. No engine's own hash,
rounding, correlation or collation affects a result: names are sorted by Python, and sessions get
their cluster from a checksum of their unit.

Narwhals does not have all expressions on both backends. The missing ones are SQL that both engines
accept (`epoch` and `zones` of times, row numbers), and each engine has its own code to read files.
On every engine, `encode` turns texts from Arrow into codes.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from peerage.engines.sql import NAME, Sql, is_safe, quote_name, sql
from peerage.errors import PeerageError
from peerage.registry import Registry

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from numpy.typing import NDArray

    from peerage.reviews.cells import Bools, Floats, Ints, Texts
    from peerage.reviews.checksums import Utf8Texts

T = TypeVar("T")
Frame: TypeAlias = "nw.LazyFrame[Any]"
Add: TypeAlias = Callable[[Sequence[T]], T]
NUMBER_DIGITS = 20  # of a row number as text, so that texts sort as numbers do
MILLISECONDS = 100_000_000_000  # a time of this number or more is not in seconds
PATH = (str, os.PathLike)
TEXT_KINDS, TIME_KINDS = ("VARCHAR", "STRING"), ("TIMESTAMP", "DATE")  # times begin with these
MANY_PARTS = 16  # parts are added up before more are made
Names = Any  # texts in order: a tuple, or an array of objects
ArrowTable = Any  # of `encode`
Columns = dict[str, Any]  # numpy arrays by name, all of one length
Source = Any  # a path, a list of paths (no patterns), or any table that speaks Arrow


def paths_of(source: Source | None) -> list[str]:
    """Return the paths of a source; an empty list if it is a table."""
    paths = [source] if isinstance(source, PATH) else source
    if not isinstance(paths, Sequence) or not all(isinstance(path, PATH) for path in paths):
        return []
    return [os.fspath(path) for path in paths]


def unwrap_frame(source: Source) -> Source:
    """Return the table inside a narwhals frame, or the source unchanged."""
    if type(source).__module__.split(".")[0] != "narwhals":
        return source
    import narwhals.stable.v2 as nw

    return nw.to_native(source)


def as_frame(table: Any) -> Frame:
    """Return an engine's relation as a lazy frame of narwhals' stable interface.

    With narwhals' other interface, DuckDB's types outlive the interpreter, and DuckDB complains on
    stderr.
    """
    import narwhals.stable.v2 as nw

    frame: Frame = nw.from_native(table)
    return frame


class EngineError(PeerageError):
    """An engine could not run a query."""


class EngineMemoryError(EngineError):
    """An engine ran out of memory, and could not spill to disk."""


def encode(schema: Any, batches: Iterable[Any], as_texts: Collection[str] = ()) -> Any:
    """Return record batches as one Arrow table, with texts as codes and all else as floats.

    Texts are replaced batch by batch, so that at most one batch of them is in memory. Columns named
    in `as_texts` stay texts: if nearly all values differ, codes save nothing.
    """
    import pyarrow as pa  # type: ignore[import-untyped]

    text, code = pa.string(), pa.dictionary(pa.int32(), pa.string())
    kinds = {
        one.name: pa.float64()
        if one.type not in (pa.string(), pa.large_string())
        else (text if one.name in as_texts else code)
        for one in schema
    }
    parts: dict[str, list[Any]] = {name: [] for name in kinds}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kind = kinds[name]
            whole = column.cast(text if kind == code else kind)
            parts[name].append(whole.dictionary_encode() if kind == code else whole)
    columns = {name: pa.chunked_array(parts.pop(name), kind) for name, kind in kinds.items()}
    return pa.table(columns).unify_dictionaries()


def codes_in(table: ArrowTable, name: str, names: Names | None = None) -> tuple[Ints, Texts]:
    """Return each row's code in a column of texts (−1 for null), and the texts of the codes.

    Codes are indices into `names` if given, else in order of appearance.
    """
    import numpy as np

    chunks = table.column(name).chunks
    if not chunks:
        return np.zeros(0, dtype=np.int32), np.asarray(() if names is None else names, dtype=object)
    # Every chunk has the texts of all chunks before it, so the longest list has all texts.
    texts = max((chunk.dictionary for chunk in chunks), key=len)
    codes = np.concatenate([_values(chunk.indices, -1) for chunk in chunks])
    if names is None:
        known = np.empty(len(texts), dtype=object)
        known[:] = texts.to_pylist()
        return codes, known
    place = {name: code for code, name in enumerate(names)}  # Arrow would import pandas for this
    places = [place.get(text, -1) for text in texts.to_pylist()]
    return np.array([*places, -1], dtype=np.int32)[codes], np.asarray(names, dtype=object)


def floats_in(table: ArrowTable, name: str) -> Floats:
    """Return a column of numbers; NaN for null."""
    import numpy as np

    chunks = table.column(name).chunks
    return np.concatenate([np.zeros(0), *(_values(chunk, math.nan) for chunk in chunks)])


def utf8_in(table: ArrowTable, name: str) -> tuple[Utf8Texts, Bools]:
    """Return a column of texts that are not codes, and which of them are not null."""
    import numpy as np

    from peerage.reviews.checksums import Utf8Texts

    parts, data, there, n_bytes = list[Utf8Texts](), [], [], 0
    for chunk in (one for one in table.column(name).chunks if len(one)):
        bitmap, offsets, texts = chunk.buffers()
        places = np.frombuffer(offsets, dtype=np.int32)[chunk.offset :][: len(chunk) + 1]
        data.append(np.frombuffer(texts or b"", dtype=np.uint8)[places[0] : places[-1]])
        begin = places[:-1].astype(np.int64) + (n_bytes - places[0])
        parts.append(Utf8Texts(data[-1], begin, np.diff(places)))
        there.append(_is_there(chunk, bitmap))
        n_bytes += len(data[-1])
    if len(parts) == 1:
        return parts[0], there[0]
    begins = np.concatenate([np.zeros(0, np.int64), *(part.begin for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int32), *(part.n_bytes for part in parts)])
    whole = Utf8Texts(np.concatenate([np.zeros(0, np.uint8), *data]), begins, lengths)
    return whole, np.concatenate([np.zeros(0, np.bool_), *there])


def _values(array: Any, null: float) -> NDArray[Any]:
    """Return the numbers of an Arrow array.

    Arrow's own `to_numpy` imports pandas if it is installed, which takes longer than a board.
    """
    import numpy as np

    here = slice(array.offset, array.offset + len(array))
    if not len(array):
        return np.zeros(0, dtype=np.int32 if null == -1 else np.float64)
    is_there, numbers = array.buffers()
    values = np.frombuffer(numbers, dtype=array.type.to_pandas_dtype())[here]
    if not array.null_count:
        return values
    return np.where(_is_there(array, is_there), values, values.dtype.type(null))


def _is_there(array: Any, bitmap: Any) -> Bools:
    """Return which values of an Arrow array are not null."""
    import numpy as np

    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def add_parts(parts: Iterable[T], add: Add[T]) -> T:
    """Return the sum of parts from an iterator; only a few parts are in memory at a time."""
    waiting: list[T] = []
    for part in parts:
        waiting.append(part)
        if len(waiting) == MANY_PARTS:
            waiting = [add(waiting)]
    return add(waiting)


class Engine(ABC):
    """The methods that reports use; an engine with SQL defines the abstract ones."""

    mark: ClassVar[str] = NAME  # quotes a name
    row_number: ClassVar[Sql]  # of each row, in their order

    @abstractmethod
    def admit(self, *sources: Source | None) -> None:
        """Declare which files or folders will be opened, so that the engine may read them."""

    @abstractmethod
    def arrays(self, frame: Frame) -> Columns:
        """Return a (small) result as arrays: NaN for a null number, None for a null text."""

    @abstractmethod
    def keep(self, frame: Frame) -> Frame:
        """Return the same rows, cached so that reading them again is cheap."""

    @abstractmethod
    def load(self, frame: Frame) -> ArrowTable | None:
        """Return the whole table, encoded; None if rows stay on the workers of a cluster."""

    @abstractmethod
    def fold(self, frame: Frame, group: str, kernel: Callable[[ArrowTable], T], add: Add[T]) -> T:
        """Return the sum of a pure function's values over blocks; there is at least one block.

        A block is an encoded table of whole groups: all rows with the same text in a column.
        """

    @abstractmethod
    def _table(self, source: Source) -> Any:
        """Return the source as a relation of this engine."""

    @abstractmethod
    def _kinds(self, table: Any) -> Mapping[str, str]:
        """Return the type of each column, in capitals."""

    @abstractmethod
    def _select(self, table: Any, *parts: Sql) -> Any:
        """Return a relation of these expressions."""

    @abstractmethod
    def _seconds(self, table: Any, column: str, kind: str) -> Sql:
        """Return a column of times as seconds since 1970; raise an error for other types."""

    def _codes_and_floats(self, table: Any) -> list[Sql]:
        """Return SQL for the columns of a table: texts unchanged, all else as floats."""
        parts = []
        for name, kind in self._kinds(table).items():
            column = quote_name(name, self.mark)
            is_text = kind in TEXT_KINDS
            parts.append(column if is_text else sql("cast({0} as double) as {0}", column))
        return parts

    def open(self, source: Source) -> Frame:
        """Return the source as a lazy relation of its columns with safe names."""
        table = self._table(source)
        if not all(map(is_safe, table.columns)):
            safe = [quote_name(name, self.mark) for name in table.columns if is_safe(name)]
            table = self._select(table, *(safe or [sql("null as nothing")]))
        return as_frame(table)

    def epoch(self, frame: Frame, column: str) -> Frame:
        """Return the relation with a column of times as seconds since 1970, in floats."""
        table, name = frame.to_native(), quote_name(column, self.mark)
        kind = self._kinds(table)[column]
        if kind in TEXT_KINDS or kind.startswith(TIME_KINDS):
            seconds = self._seconds(table, column, kind)
        else:  # seconds; or milliseconds, if as seconds they would lie thousands of years ahead
            number = sql("nullif(cast({} as double), cast('NaN' as double))", name)
            ahead = "case when abs({0}) >= {1} then {0} / 1000 else {0} end"
            seconds = sql(ahead, number, MILLISECONDS)
        others = [quote_name(other, self.mark) for other in table.columns if other != column]
        return as_frame(self._select(table, *others, sql("{} as {}", seconds, name)))

    def number(self, frame: Frame, column: str) -> Frame:
        """Return the relation with a column of row numbers of `NUMBER_DIGITS` digits."""
        text = sql("lpad(cast({} as string), {}, '0')", self.row_number, NUMBER_DIGITS)
        numbered = sql("{} as {}", text, quote_name(column, self.mark))
        return as_frame(self._select(frame.to_native(), sql("*"), numbered))

    def zones(self, frame: Frame, column: str) -> set[str]:
        """Return the time zones in a column of texts; "" for no zone."""
        table = frame.to_native()
        if self._kinds(table).get(column) not in TEXT_KINDS:
            return set()
        ending = (
            "regexp_extract(right({}, 40), ':.*?([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$', 1) as zone"
        )
        zones = self._select(table, sql(ending, quote_name(column, self.mark))).distinct()
        return {zone or "" for zone in self.arrays(as_frame(zones))["zone"].tolist()}


engines: Registry[Callable[[], Engine]] = Registry("engine", __name__)
