"""PySpark, for data too large for one machine: the same Parquet, local or on a cluster.

Expressions run as Spark plans. A fold sends blocks of whole groups to the workers as Arrow tables,
adds up the kernel's results there, and returns only the sums. Workers need Python with this package
(and numpy); on a local master they are this Python.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines import (
    MANY_PARTS,
    TEXT_KINDS,
    Add,
    ArrowTable,
    Columns,
    Engine,
    EngineError,
    Frame,
    Source,
    as_frame,
    encode,
    engines,
    paths_of,
    unwrap_frame,
)
from peerage.engines.sql import SPARK_NAME, Sql, quote_name, sql
from peerage.errors import InputError, MissingExtraError, install_command

T = TypeVar("T")

BLOCK_ROWS = 1_000_000  # rows of one Arrow table on a worker
FORMATS = {
    ".csv": ("csv", {"header": "true", "inferSchema": "true"}),
    ".tsv": ("csv", {"header": "true", "inferSchema": "true", "sep": "\t"}),
    ".json": ("json", {"multiLine": "true"}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
}
PARQUET = ("parquet", {"mergeSchema": "true"})  # segments may differ in optional columns
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}


@engines.register("spark")
class Spark(Engine):
    """The Spark session of this process, or a new one on `master` (default: all local cores)."""

    mark = SPARK_NAME
    row_number = sql("monotonically_increasing_id() + 1")

    def __init__(self, master: str | None = None, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self.session = _session(master)

    def admit(self, *sources: Source | None) -> None:
        """Do nothing: the operator of a cluster decides which files it may read."""

    def arrays(self, frame: Frame) -> Columns:
        table = _collect(frame.to_native())
        return {name: _numpy(table.column(name)) for name in table.column_names}

    def keep(self, frame: Frame) -> Frame:
        return as_frame(frame.to_native().cache())

    def _kinds(self, table: Any) -> Mapping[str, str]:
        return {name: kind.upper() for name, kind in table.dtypes}

    def _select(self, table: Any, *parts: Sql) -> Any:
        return table.selectExpr(*parts)

    def _seconds(self, table: Any, column: str, kind: str) -> Sql:
        name = quote_name(column, SPARK_NAME)
        time = sql("try_cast({} as timestamp)", name)
        untimely = table.where(sql("{} is not null and {} is null", name, time)).selectExpr(name)
        for (text,) in untimely.limit(1).collect() if kind in TEXT_KINDS else ():
            raise InputError(
                f"`{column}` holds a value that is not a time: {str(text)!r}",
                hint="Write ISO 8601 or seconds since 1970.",
            )
        return sql("unix_micros({}) / 1e6D", time)

    def load(self, frame: Frame) -> None:
        """Return None: rows stay on the workers."""

    def fold(self, frame: Frame, group: str, kernel: Callable[[ArrowTable], T], add: Add[T]) -> T:
        table = frame.to_native()
        parts, names = self._codes_and_floats(table), table.columns
        n_blocks = -(-table.count() // self.block_rows)
        if n_blocks == 0:
            nothing = _collect(table.selectExpr(*_number_rows(parts, group, names, 1)))
            return add([kernel(_encode_block(nothing, names))])
        schema = "block long, part binary"
        on_block = _on_worker("block", lambda rows: kernel(_encode_block(rows, names)))
        blocks = table.selectExpr(*_number_rows(parts, group, names, n_blocks)).groupBy("block")
        sums = blocks.applyInArrow(on_block, schema)
        while n_blocks > MANY_PARTS:  # so that only a few parts come back
            piles = sums.selectExpr(sql("block div {} as pile", MANY_PARTS), "block", "part")
            summed = _on_worker("pile", lambda parts: add(_parts(parts)))
            sums = piles.groupBy("pile").applyInArrow(summed, schema)
            n_blocks = -(-n_blocks // MANY_PARTS)
        return add(_parts(_collect(sums)))

    # -- sources -------------------------------------------------------------------------------

    def _table(self, source: Source) -> Any:
        table = unwrap_frame(source)
        if isinstance(table, import_module("pyspark.sql").DataFrame):
            return table
        if paths := paths_of(table):
            return self._file(paths)
        return self.session.createDataFrame(_arrow(table))

    def _file(self, paths: list[str]) -> Any:
        suffix = os.path.splitext(paths[0].rstrip("/"))[1].lower()  # noqa: PTH122 — may be a URL
        kind, options = FORMATS.get(suffix, PARQUET)  # a folder of Parquet has no suffix
        try:
            files = [re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path) for path in paths]  # no patterns
            return self.session.read.options(**options).format(kind).load(files)
        except import_module("pyspark.errors").AnalysisException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the file cannot be read: {reason}", place=paths[0]) from None


def _session(master: str | None) -> Any:
    """Return the active session, or a new one if there is none or another master is given."""
    try:
        errors, sql = import_module("pyspark.errors"), import_module("pyspark.sql")
        for part in ("pandas", "pyarrow"):
            import_module(part)
    except ImportError:
        raise MissingExtraError(
            "the Spark engine needs pyspark, pandas and pyarrow.",
            hint=f"Install them: {install_command('spark')}",
        ) from None
    active = sql.SparkSession.getActiveSession()
    if active is not None and master in (None, active.sparkContext.master):
        return active
    where = master or "local[*]"
    builder = sql.SparkSession.builder.master(where).appName("peerage")
    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    if where.startswith("local"):
        settings |= LOCAL
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # workers of a local cluster, too
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except errors.PySparkRuntimeError as error:
        raise MissingExtraError(
            f"Spark could not start: {str(error).splitlines()[0]}",
            hint="It needs a Java runtime, version 17 or newer.",
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


# -- on the workers ----------------------------------------------------------------------------


def _collect(table: Any) -> Any:
    """Return the workers' result as Arrow; raise an error if they lack this package."""
    try:
        return table.toArrow()
    except import_module("pyspark.errors").PySparkException as error:
        if "No module named" not in str(error):
            reason = str(error).split("\n", 1)[0]
            raise EngineError(
                f"Spark error: {reason}", hint="Check whether its files and workers can be reached."
            ) from error
        raise MissingExtraError(
            "Spark's workers run a Python without peerage or one of its dependencies.",
            hint="Before Spark starts, set PYSPARK_PYTHON to a Python with the extra spark "
            "installed.",
        ) from None


def _on_worker(key: str, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function for workers: from the rows of a key to the bytes of a value."""

    def work(table: Any) -> Any:
        pa = import_module("pyarrow")
        number = pa.array([table.column(key)[0].as_py()], pa.int64())
        part = pa.array([pickle.dumps(value(table))], pa.binary())
        return pa.table({"block": number, "part": part})

    return work


def _parts(table: Any) -> list[Any]:
    """Return the parts in the order of the blocks, so that sums are reproducible."""
    order = np.argsort(_numpy(table.column("block")))
    parts = table.column("part").to_pylist()
    return [pickle.loads(parts[i]) for i in order.tolist()]  # noqa: S301 — written above


def _encode_block(table: Any, names: Sequence[str]) -> ArrowTable:
    """Return a block of rows, encoded and sorted by row number."""
    rows = table.sort_by("row").select(names)
    return encode(rows.schema, rows.to_batches())


def _number_rows(parts: list[Sql], group: str, names: Sequence[str], n_blocks: int) -> list[Sql]:
    """Return columns in SQL, with the block and the number of each row.

    Whole queries stay together, so that all sessions of a query are in one block.
    """
    unit = sql("'session ' || {}", quote_name(group, SPARK_NAME))
    if "query_id" in names:
        unit = sql("coalesce('query ' || query_id, {})", unit)
    return [
        sql("cast(crc32(encode({}, 'UTF-8')) % {} as long) as block", unit, n_blocks),
        sql("monotonically_increasing_id() as row"),
        *parts,
    ]


# -- values ------------------------------------------------------------------------------------


def _numpy(column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array: NaN for a null number, None for a null text."""
    pa = import_module("pyarrow")
    if pa.types.is_boolean(column.type) and column.null_count:
        column = column.cast(pa.float64())
    values: NDArray[Any] = column.to_numpy()
    return values


def _arrow(table: Any) -> Any:
    """Return a table in memory as Arrow."""
    pa = import_module("pyarrow")
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        return pa.Table.from_pylist([dict(row) for row in table])
    if isinstance(table, Mapping):
        table = {name: _as_list(values) for name, values in table.items()}
    try:
        return pa.table(table)
    except (TypeError, ValueError):
        raise InputError(
            f"a value of type {type(table).__name__} is not a table.",
            hint="Pass a path, or a table of polars, pandas, pyarrow or PySpark.",
        ) from None


def _as_list(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "ifub" else list(array.tolist())
