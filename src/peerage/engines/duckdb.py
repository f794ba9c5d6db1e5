"""DuckDB, embedded: reads Parquet, CSV and JSON lines from disk, or any table in memory.

Rows leave DuckDB as Arrow, one batch at a time; each batch becomes codes and floats immediately.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.embedded import database, is_file, pattern, real_path
from peerage.engines import (
    TEXT_KINDS,
    Add,
    ArrowTable,
    Columns,
    Engine,
    EngineError,
    EngineMemoryError,
    Frame,
    Source,
    add_parts,
    as_frame,
    codes_in,
    encode,
    engines,
    paths_of,
    unwrap_frame,
)
from peerage.engines.sql import Sql, join_sql, quote_name, sql
from peerage.errors import InputError
from peerage.reviews.columns import NAMES

Relation = duckdb.DuckDBPyRelation
T = TypeVar("T")

N_DATABASES = 16  # that this process keeps, each for the files that it may read
TABLE_NUMBERS = count()  # numbers for the names of tables in these databases
BLOCK_ROWS = 2_000_000  # rows that a fold works on at a time
BATCH_ROWS = 250_000  # rows whose texts are in memory at a time
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
    """Return one database for all readers of the same files, because starting one is slow."""
    return database(files, folders)


@contextmanager
def translate_errors(place: str = "") -> Iterator[None]:
    """Turn DuckDB's errors into EngineErrors with hints."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise EngineMemoryError(
            "there is not enough memory for these tables, and not enough disk space to spill.",
            place=place,
            hint="Choose a shorter window with --since, or set TMPDIR to a folder with more space.",
        ) from None
    except duckdb.IOException as error:
        raise EngineError(
            f"a file cannot be read or written: {first_line(error)}",
            place=place,
            hint="Check whether the file is complete, and whether the disk is full or read-only.",
        ) from None
    except duckdb.Error as error:
        raise EngineError(
            f"DuckDB error: {first_line(error)}",
            place=place,
            hint="Check whether each column has the type that its name suggests.",
        ) from None


def first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def kinds_of(relation: Relation) -> dict[str, str]:
    """Return the type of each column, by DuckDB's name."""
    return dict(zip(relation.columns, (str(kind).upper() for kind in relation.dtypes), strict=True))


def timestamp(column: Sql, cast: Sql) -> Sql:
    """Return a text column as times; a time without a zone is UTC, on every machine."""
    return sql(
        "{1}({0} || case when regexp_matches({0}, ':.*([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$')"
        " then '' when contains({0}, ':') then 'Z' else 'T00:00:00Z' end as timestamptz)",
        column,
        cast,
    )


CAST, TRY_CAST = sql("cast"), sql("try_cast")


@engines.register("duckdb")
class DuckDB(Engine):
    """A database that can read the files it was given; it never writes to them.

    A new file needs a new database, because the allowed files are fixed when it starts: files that
    are to be joined must be admitted together.
    """

    row_number = sql("row_number() over ()")

    def __init__(
        self,
        block_rows: int = BLOCK_ROWS,
        folders: Sequence[Path] = (),
        limits: Mapping[str, str | int] = MappingProxyType({}),
    ) -> None:
        self.block_rows = block_rows
        self._folders = tuple(map(real_path, folders))
        self._limits = limits
        self._files: frozenset[str] = frozenset()
        self._databases: list[duckdb.DuckDBPyConnection] = []
        self._all_ours = True  # false once a relation of another database was opened
        self._drops: list[Callable[[], object]] = []
        weakref.finalize(self, _run_all, self._drops)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The database that can read every file admitted so far."""
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
        paths = {real_path(path) for source in sources for path in paths_of(source)}
        new = {
            path
            for path in paths - self._files
            if not any(Path(path).is_relative_to(folder) for folder in self._folders)
        }
        folders = {path for path in new if Path(path).is_dir()}
        if new:
            self._folders = (*self._folders, *sorted(folders))
            self._files |= new - folders
            self._connect()

    def arrays(self, frame: Frame) -> Columns:
        with translate_errors(self._place):
            return {
                name: fill_masked(values) for name, values in frame.to_native().fetchnumpy().items()
            }

    def _kinds(self, table: Relation) -> Mapping[str, str]:
        return kinds_of(table)

    def _select(self, table: Relation, *parts: Sql) -> Relation:
        return table.project(join_sql(parts))

    def _seconds(self, table: Relation, column: str, kind: str) -> Sql:
        if kind not in TEXT_KINDS:
            return sql("epoch({})", quote_name(column))
        seconds = sql("epoch({})", timestamp(quote_name(column), CAST))
        try:
            table.aggregate(sql("max({})", seconds)).fetchall()
        except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
            raise InputError(
                f"`{column}` holds a value that is not a time: {first_line(error)}",
                hint="Write ISO 8601 or seconds since 1970.",
            ) from None
        return seconds

    def keep(self, frame: Frame) -> Frame:
        with translate_errors(self._place):
            table, drop = self._keep(frame.to_native())
        self._drops.append(drop)
        return as_frame(table)

    def load(self, frame: Frame, as_texts: Collection[str] = ()) -> ArrowTable:
        table = frame.to_native()
        with translate_errors(self._place):
            reader = table.project(join_sql(self._codes_and_floats(table))).to_arrow_reader(
                BATCH_ROWS
            )
            return encode(reader.schema, reader, as_texts)

    def fold(self, frame: Frame, group: str, kernel: Callable[[ArrowTable], T], add: Add[T]) -> T:
        table = self.load(frame)
        n_blocks = -(-table.num_rows // self.block_rows)
        if n_blocks <= 1:
            return add([kernel(table)])
        code = codes_in(table, group)[0]
        rows = (np.flatnonzero(code % n_blocks == i) for i in range(n_blocks))
        return add_parts((kernel(table.take(some)) for some in rows), add)

    def _keep(self, rows: Relation) -> tuple[Relation, Callable[[], object]]:
        """Return the relation as a stored table, and a function that drops the table.

        A relation of another database cannot be stored here, and is read again each time.
        """
        if not self._all_ours:
            return rows, lambda: None
        name = f"peerage_{next(TABLE_NUMBERS)}"
        rows.create(name)
        connection = next(db for db in reversed(self._databases) if _has(db, name))
        drop = sql("drop table if exists {}", quote_name(name))
        return connection.table(name), lambda: connection.execute(drop)

    @property
    def _place(self) -> str:
        """The names of the current files, for error messages."""
        files = sorted(self._files)
        return files[0] + (f" and {len(files) - 1} more" if files[1:] else "") if files else ""

    # -- sources -------------------------------------------------------------------------------

    def _table(self, source: Source) -> Relation:
        """Return a relation for a source; DuckDB reads it directly if it can, else by column."""
        table = unwrap_frame(source)
        if isinstance(table, duckdb.DuckDBPyRelation):
            self._all_ours = False
            return table
        if paths := paths_of(table):
            return self._file(paths)
        if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
            names = dict.fromkeys(name for row in table for name in row)
            table = {name: [row.get(name) for row in table] for name in names}
        if not isinstance(table, Mapping):
            try:
                return self._register(table)
            except (duckdb.Error, TypeError, RuntimeError):  # the last two: not a table
                table = _columns_of(table)
        columns = {name: _column(values) for name, values in table.items()}
        if not columns:
            raise InputError("the table is empty: it has no columns.")
        if single := [name for name, values in columns.items() if not values.ndim]:
            raise InputError(f"the column {single[0]!r} is not a list of values.")
        try:
            return self._register(columns)
        except (duckdb.Error, UnicodeError) as error:
            raise InputError(f"this is not a table: {first_line(error)}") from None

    def _file(self, paths: list[str]) -> Relation:
        suffix = Path(paths[0]).suffix.lower()
        reader = READERS.get(suffix)
        if reader is None:
            raise InputError(
                f"unknown file type: {suffix or 'no suffix'}.",
                place=paths[0],
                hint=f"Known: {', '.join(READERS)}.",
            )
        for path in paths:
            if not is_file(path):
                raise InputError("cannot be read: the file does not exist.", place=path)
        self.admit(paths)
        try:
            # Segments written at different times may differ in their optional columns. In text
            # files, types are guessed from all rows: a guess from the first rows would round the
            # fractions that come later.
            how = {"union_by_name": True} if reader == "read_parquet" else {"sample_size": -1}
            how["hive_partitioning"] = False  # folder names are not columns
            opening = getattr(self.connection, reader)
            files = [pattern(real_path(path)) for path in paths]
            relation: Relation = opening(files if len(files) > 1 else files[0], **how)
            names = [name for name in relation.columns if name in NAMES]  # a bad file raises here
            if reader == "read_csv" and names:  # an id such as 007 is a text, not the number 7
                relation = opening(files, dtype=dict.fromkeys(names, "VARCHAR"), **how)
        except (duckdb.Error, OSError) as error:
            raise InputError(f"cannot be read: {first_line(error)}", place=paths[0]) from None
        return relation

    def _register(self, table: Any) -> Relation:
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
    """Write columns of texts, numbers or booleans as a Parquet file; NaN becomes null."""
    typed = [sql(CASTS[kind] + " as {0}", quote_name(name)) for name, kind in kinds.items()]
    with tempfile.TemporaryDirectory() as scratch, translate_errors(str(path)):
        engine = DuckDB(folders=[Path(scratch)])
        target = Path(real_path(scratch)) / "board.parquet"
        engine.open(columns).to_native().project(join_sql(typed)).write_parquet(str(target))
        engine.close()
        shutil.copyfile(target, path)  # a device stays a device


CASTS = {
    "varchar": "cast({0} as varchar)",
    "boolean": "cast({0} as boolean)",
    "double": "nullif(cast({0} as double), 'nan')",
    "bigint": "cast(nullif(cast({0} as double), 'nan') as bigint)",
}


def _column(values: Any) -> NDArray[Any]:
    """Return a column for DuckDB: texts and missing values as objects, numbers as numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "USO":
        return array
    cells = list(values)
    there = [cell for cell in cells if cell is not None]
    numeric = all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in there)
    return np.array(cells, dtype=np.float64 if there and numeric else object)  # None becomes NaN


def _columns_of(table: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a data frame that DuckDB cannot read (without pyarrow)."""
    try:
        frame = nw.from_native(table)
    except TypeError:
        raise InputError(
            f"a value of type {type(table).__name__} is not a table.",
            hint="Pass a path, or a table of polars, pandas, pyarrow or DuckDB.",
        ) from None
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: eager[name].to_numpy() for name in eager.columns}


def fill_masked(values: Any) -> NDArray[Any]:
    """Return masked values as NaN, or as None in an array of objects."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind == "O":
        out: NDArray[Any] = np.array(values.data, dtype=object)
        out[np.ma.getmaskarray(values)] = None  # numpy would fill in question marks
        return out
    return floats(values)


def floats(values: Any) -> NDArray[np.float64]:
    """Return numbers as floats; masked ones are NaN."""
    array: NDArray[np.float64] = np.ma.filled(np.ma.asarray(values, np.float64), np.nan)
    return array
