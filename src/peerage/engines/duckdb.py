"""DuckDB, embedded: Parquet, CSV and JSON lines from disk, or any table in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.embedded import database, located, pattern
from peerage.engines import (
    NUMBER_DIGITS,
    Add,
    Block,
    Columns,
    EngineError,
    EngineMemoryError,
    Frame,
    Reading,
    Source,
    added,
    engines,
    paths_of,
    unwrapped,
    zone_of,
)
from peerage.engines.blocks import Encoder, filled, streamed
from peerage.engines.sql import Sql, is_safe, listed, quoted, sql
from peerage.errors import InputError
from peerage.reviews.columns import NAMES

Relation = duckdb.DuckDBPyRelation
T = TypeVar("T")

N_DATABASES = 16  # of this process, each with the files that it may reach
TABLE_NUMBERS = count()  # of tables in them
BLOCK_ROWS = 2_000_000  # rows worked on at a time: about 60 bytes each as they arrive
READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}


@lru_cache(maxsize=N_DATABASES)
def shared_database(files: frozenset[str], folders: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """One database for all that read the same files: to start one takes as long as a scan."""
    return database(files, folders)


@contextmanager
def reported(place: str = "") -> Iterator[None]:
    """Turns DuckDB's errors into ours, with what to do about them."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise EngineMemoryError(
            "there is not enough memory for these tables, or room for what does not fit in it.",
            place=place,
            hint="Choose a shorter window with --since, or a larger folder with TMPDIR.",
        ) from None
    except duckdb.IOException as error:
        raise EngineError(
            f"a file cannot be read or written: {first_line(error)}",
            place=place,
            hint="See whether it is whole, and whether the disk is full or read-only.",
        ) from None
    except duckdb.Error as error:
        raise EngineError(
            f"DuckDB says: {first_line(error)}",
            place=place,
            hint="See whether the columns hold what their names say.",
        ) from None


def first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def kinds_of(relation: Relation) -> dict[str, str]:
    """The type of each column, by DuckDB's name for it."""
    return dict(zip(relation.columns, (str(one).upper() for one in relation.dtypes), strict=True))


def timestamp(column: Sql, cast: Sql) -> Sql:
    """A text column as times. One that names no zone is in UTC, on every machine."""
    return sql(
        "{1}({0} || case when regexp_matches({0}, ':.*([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$')"
        " then '' when contains({0}, ':') then 'Z' else 'T00:00:00Z' end as timestamptz)",
        column,
        cast,
    )


CAST, TRY_CAST = sql("cast"), sql("try_cast")


@engines.register("duckdb")
class DuckDB:
    """A database that reaches the files it was given; it never writes to what it reads.

    A file that comes later takes another database, because what one may reach is settled when
    it starts: files that are to be joined are admitted together. Relations are wrapped by
    narwhals' stable interface: the other one keeps DuckDB's types alive past the interpreter's
    end, and DuckDB complains on stderr.
    """

    def __init__(
        self,
        block_rows: int = BLOCK_ROWS,
        folders: Sequence[Path] = (),
        limits: Mapping[str, str | int] = MappingProxyType({}),
    ) -> None:
        self.block_rows = block_rows
        self._folders = tuple(map(located, folders))
        self._limits = limits
        self._files: frozenset[str] = frozenset()
        self._databases: list[duckdb.DuckDBPyConnection] = []
        self._all_ours = True  # no relation of somebody else's database was opened
        self._drops: list[Callable[[], object]] = []
        weakref.finalize(self, _run_all, self._drops)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The database that reaches every file admitted so far."""
        if not self._databases:
            self._connect()
        return self._databases[-1]

    def _connect(self) -> None:
        if self._limits:
            self._databases.append(database(self._files, self._folders, self._limits))
        else:
            self._databases.append(shared_database(self._files, self._folders).cursor())

    def close(self) -> None:
        _run_all(self._drops)
        for connection in self._databases:
            connection.close()
        self._databases.clear()

    def admit(self, *sources: Source | None) -> None:
        paths = {located(path) for source in sources for path in paths_of(source)}
        new = {path for path in paths - self._files if not self._within_folders(path)}
        folders = {path for path in new if Path(path).is_dir()}
        if new:
            self._folders = (*self._folders, *sorted(folders))
            self._files |= new - folders
            self._connect()

    def _within_folders(self, file: str) -> bool:
        return any(
            file == one or file.startswith(os.path.join(one, ""))  # noqa: PTH118
            for one in self._folders
        )

    def open(self, source: Source) -> Frame:
        relation = self._relation(source)
        if not all(map(is_safe, relation.columns)):
            safe = listed(quoted(name) for name in relation.columns if is_safe(name))
            relation = relation.project(safe or sql("null as nothing"))
        return nw.from_native(relation)

    def arrays(self, frame: Frame) -> Columns:
        with reported(self._place):
            return {name: filled(values) for name, values in _native(frame).fetchnumpy().items()}

    def epoch(self, frame: Frame, column: str) -> Frame:
        relation, name = _native(frame), quoted(column)
        kind = kinds_of(relation)[column]
        if kind.startswith(("TIMESTAMP", "DATE")):
            seconds = sql("epoch({})", name)
        elif kind == "VARCHAR":
            seconds = sql("epoch({})", timestamp(name, CAST))
        else:  # seconds, or milliseconds where they would lie thousands of years ahead
            number = sql("cast({} as double)", name)
            seconds = sql("case when abs({0}) >= 1e11 then {0} / 1e3 else {0} end", number)
        others = [quoted(other) for other in relation.columns if other != column]
        try:
            changed = relation.project(listed([*others, sql("{} as {}", seconds, name)]))
            if kind == "VARCHAR":  # only a text can fail, and it should fail here
                changed.aggregate(sql("max({})", name)).fetchall()
        except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
            raise InputError(
                f"`{column}` holds something that is no time: {first_line(error)}",
                hint="Write ISO 8601 or seconds since 1970.",
            ) from None
        return nw.from_native(changed)

    def number(self, frame: Frame, column: str) -> Frame:
        number = "*, lpad(cast(row_number() over () as varchar), {}, '0') as {}"
        numbered = sql(number, NUMBER_DIGITS, quoted(column))
        return nw.from_native(_native(frame).project(numbered))

    def keep(self, frame: Frame) -> Frame:
        with reported(self._place):
            kept, drop = self._kept(_native(frame))
        self._drops.append(drop)
        return nw.from_native(kept)

    def zones(self, frame: Frame, column: str) -> set[str]:
        relation = _native(frame)
        if kinds_of(relation).get(column) != "VARCHAR":
            return set()
        with reported(self._place):
            written = relation.project(zone_of(quoted(column))).distinct().fetchall()
        return {zone or "" for (zone,) in written}

    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Block], T], add: Add[T]) -> T:
        relation = _native(frame)
        with reported(self._place):
            encode = Encoder(self.connection, relation, reading)
            projected = relation.project(encode.projection())
            n_rows = int(relation.aggregate("count(*)").fetchall()[0][0])
            n_blocks = -(-n_rows // self.block_rows)
            if n_blocks <= 1:
                return add([kernel(encode.block(projected.fetchnumpy()))])

            def each(rows: Mapping[str, NDArray[Any]]) -> T:
                return kernel(encode.block(rows))

            if not reading.whole_queries and find_spec("pyarrow") is not None:
                total = streamed(projected, reading.group, each, add)
                if total is not None:
                    return total
            # Rows are kept once, narrow, and then chosen block by block: whole queries, so that
            # whoever repeats one meets its other sessions. Which block it is changes nothing.
            block = sql("cast(hash({}) % 65521 as usmallint) as block", reading.unit())
            kept, drop = self._kept(relation.project(listed([encode.projection(), block])))
            blocks = (kept.filter(sql("block % {} = {}", n_blocks, i)) for i in range(n_blocks))
            try:
                return added((each(rows.fetchnumpy()) for rows in blocks), add)
            finally:
                drop()

    def _kept(self, rows: Relation) -> tuple[Relation, Callable[[], object]]:
        """The relation materialised, if it is ours, and how to be rid of it.

        One of somebody else's database is read again each time.
        """
        if not self._all_ours:
            return rows, lambda: None
        name = f"peerage_{next(TABLE_NUMBERS)}"
        rows.create(name)
        connection = next(one for one in reversed(self._databases) if _has(one, name))
        drop = sql("drop table if exists {}", quoted(name))
        return connection.table(name), lambda: connection.execute(drop)

    @property
    def _place(self) -> str:
        """The files at hand, for whoever has to look at them."""
        files = sorted(self._files)
        return files[0] + (f" and {len(files) - 1} more" if files[1:] else "") if files else ""

    # -- sources -------------------------------------------------------------------------------

    def _relation(self, source: Source) -> Relation:
        """A table in memory is read by DuckDB itself where it can, else column by column."""
        given = unwrapped(source)
        if isinstance(given, duckdb.DuckDBPyRelation):
            self._all_ours = False
            return given
        if paths := paths_of(given):
            return self._file(paths)
        if isinstance(given, Sequence) and all(isinstance(one, Mapping) for one in given):
            names = dict.fromkeys(name for row in given for name in row)
            given = {name: [row.get(name) for row in given] for name in names}
        if not isinstance(given, Mapping):
            try:
                return self._registered(given)
            except duckdb.Error:
                given = _columns_of(given)
        columns = {name: _column(values) for name, values in given.items()}
        try:
            return self._registered(columns)
        except (duckdb.Error, UnicodeError) as error:
            raise InputError(f"this is no table: {first_line(error)}") from None

    def _file(self, paths: list[str]) -> Relation:
        suffix = Path(paths[0]).suffix.lower()
        reader = READERS.get(suffix)
        if reader is None:
            raise InputError(
                f"do not know how to read {suffix or 'a file without a suffix'}.",
                place=paths[0],
                hint=f"Known: {', '.join(READERS)}.",
            )
        for path in paths:
            if not Path(path).is_file():
                raise InputError("cannot be read: there is no such file.", place=path)
        self.admit(paths)
        try:
            # Segments written at different times may differ in their optional columns. What a
            # column of text holds is only known from all of it: a guess from the first rows
            # would round the first fraction that comes later.
            how = {"union_by_name": True} if reader == "read_parquet" else {"sample_size": -1}
            how["hive_partitioning"] = False  # the name of a folder is no column
            opening = getattr(self.connection, reader)
            found = [pattern(located(path)) for path in paths]
            relation = opening(found if len(found) > 1 else found[0], **how)
            names = [name for name in relation.columns if name in NAMES]  # a bad file says so here
            if reader == "read_csv" and names:  # an id such as 007 is a text, not the number 7
                relation = opening(found, dtype=dict.fromkeys(names, "VARCHAR"), **how)
        except (duckdb.Error, OSError) as error:
            raise InputError(f"cannot be read: {first_line(error)}", place=paths[0]) from None
        opened: Relation = relation
        return opened

    def _registered(self, table: Any) -> Relation:
        name = f"peerage_{next(TABLE_NUMBERS)}"
        self.connection.register(name, table)
        return self.connection.table(name)


def _run_all(drops: list[Callable[[], object]]) -> None:
    while drops:
        drops.pop()()


def _has(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    known = "select count(*) from duckdb_tables() where table_name = ?"
    return bool(connection.execute(known, [table]).fetchall()[0][0])


def write_parquet(
    columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str], path: Path
) -> None:
    """Columns of texts ("varchar") or numbers as a Parquet file, NaN as null."""
    typed = [sql(CASTS[kind] + " as {0}", quoted(name)) for name, kind in kinds.items()]
    with tempfile.TemporaryDirectory() as scratch, reported(str(path)):
        engine = DuckDB(folders=[Path(scratch)])
        target = Path(located(scratch)) / "board.parquet"
        engine.open(columns).to_native().project(listed(typed)).write_parquet(str(target))
        engine.close()
        shutil.copyfile(target, path)  # a device stays a device


CASTS = {
    "varchar": "cast({0} as varchar)",
    "double": "nullif(cast({0} as double), 'nan')",
    "bigint": "cast(nullif(cast({0} as double), 'nan') as bigint)",
}


def _native(frame: Frame) -> Relation:
    relation: Relation = frame.to_native()
    return relation


def _column(values: Any) -> NDArray[Any]:
    """A column that DuckDB reads as it is meant: texts and gaps as objects, numbers as numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "USO":
        listed = list(values)
        if any(one is not None for one in listed) and all(
            one is None or (isinstance(one, (int, float)) and not isinstance(one, bool))
            for one in listed
        ):
            return np.array([np.nan if one is None else one for one in listed], dtype=np.float64)
        return np.array(listed, dtype=object)
    return array


def _columns_of(table: Any) -> dict[str, NDArray[Any]]:
    """The columns of a data frame that DuckDB cannot read here itself (for want of pyarrow)."""
    try:
        frame = nw.from_native(table)
    except TypeError:
        raise InputError(
            f"a {type(table).__name__} is no table.",
            hint="Give a path, or a table of polars, pandas, pyarrow or DuckDB.",
        ) from None
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: eager[name].to_numpy() for name in eager.columns}
