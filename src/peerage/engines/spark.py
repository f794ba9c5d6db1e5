"""PySpark, for when one machine is outgrown: the same Parquet, local or on a cluster's storage.

Expressions run as Spark plans; a fold sends blocks of whole sessions to the workers as Arrow
tables and brings back only the parts that the kernel made of them. Workers need Python with
this package (and numpy); on a local master they are this Python.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines import NUMBER_DIGITS, Columns, EngineError, Reading, Source, engines
from peerage.engines.sql import SPARK_NAME, Sql, is_safe, listed, quoted, sql
from peerage.errors import InputError, MissingExtraError
from peerage.reviews.rows import N_CLUSTERS, Ints, Rows

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    Frame = nw.LazyFrame[Any]

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
class Spark:
    """The Spark session of this process, or a new one on `master` (default: all cores here)."""

    def __init__(self, master: str | None = None, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self.session = _session(master)

    def admit(self, *sources: Source | None) -> None:
        """Nothing to do: what a cluster may read is for whoever runs it to say."""

    def open(self, source: Source) -> Frame:
        import narwhals.stable.v2 as nw

        table = self._table(source)
        if not all(map(is_safe, table.columns)):
            safe = [quoted(name, SPARK_NAME) for name in table.columns if is_safe(name)]
            table = table.selectExpr(*safe)
        frame: Frame = nw.from_native(table)
        return frame

    def arrays(self, frame: Frame) -> Columns:
        table = _collected(_native(frame))
        return {name: _numpy(table.column(name)) for name in table.column_names}

    def epoch(self, frame: Frame, column: str) -> Frame:
        import narwhals.stable.v2 as nw

        table = _native(frame)
        kind = dict(table.dtypes)[column]
        name = quoted(column, SPARK_NAME)
        if kind in ("timestamp", "timestamp_ntz", "date"):
            seconds = sql("unix_micros(cast({} as timestamp)) / 1e6D", name)
        elif kind == "string":
            seconds = sql("unix_micros(try_cast({} as timestamp)) / 1e6D", name)
            self._refuse_untimely(table, column)
        else:  # seconds, or milliseconds where they would lie thousands of years ahead
            number = sql("cast({} as double)", name)
            seconds = sql("case when abs({0}) >= 1e11D then {0} / 1e3D else {0} end", number)
        chosen = [quoted(other, SPARK_NAME) for other in table.columns if other != column]
        chosen.append(sql("{} as {}", seconds, name))
        changed: Frame = nw.from_native(table.selectExpr(*chosen))
        return changed

    def number(self, frame: Frame, column: str) -> Frame:
        import narwhals.stable.v2 as nw

        number = "lpad(cast(monotonically_increasing_id() + 1 as string), {}, '0') as {}"
        text = sql(number, NUMBER_DIGITS, quoted(column, SPARK_NAME))
        numbered: Frame = nw.from_native(_native(frame).selectExpr("*", text))
        return numbered

    def keep(self, frame: Frame) -> Frame:
        import narwhals.stable.v2 as nw

        kept: Frame = nw.from_native(_native(frame).cache())
        return kept

    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Rows], T]) -> list[T]:
        table = _native(frame)
        n_rows = table.count()
        if n_rows == 0:
            return [kernel(_Encoder(reading, (), ()).rows(_empty(reading)))]
        encode = _Encoder(reading, self._units(table, reading), self._deals(table, reading))
        n_blocks = max(-(-n_rows // self.block_rows), 1)
        parts = _collected(
            table.selectExpr(*_projection(reading, n_blocks))
            .groupBy("block")
            .applyInArrow(_work(encode, kernel), "block long, part binary")
        )
        # In the order of the blocks, so that the last bit of a sum does not depend on luck.
        order = np.argsort(_numpy(parts.column("block")))
        found = parts.column("part").to_pylist()
        return [pickle.loads(found[i]) for i in order.tolist()]  # noqa: S301 — written above

    def sums(
        self,
        frame: Frame,
        kernel: Callable[[Columns], Columns],
        keys: Sequence[str],
        values: Sequence[str],
    ) -> Columns:
        """What a pure function makes of each `block` of a frame, added up by integer keys.

        The adding happens on the cluster as well: only one row for each key comes back.
        """

        def work(table: Any) -> Any:
            rows = {name: _numpy(table.column(name)) for name in table.column_names}
            return import_module("pyarrow").table(kernel(rows))

        whole = [sql("{} long", quoted(name, SPARK_NAME)) for name in keys]
        sums = [sql("{} double", quoted(name, SPARK_NAME)) for name in values]
        made = _native(frame).groupBy("block").applyInArrow(work, listed([*whole, *sums]))
        totals = _collected(made.groupBy(*keys).agg(dict.fromkeys(values, "sum")))
        return {
            **{name: _numpy(totals.column(name)) for name in keys},
            **{name: _numpy(totals.column(f"sum({name})")) for name in values},
        }

    # -- what a fold must know beforehand ------------------------------------------------------

    def _units(self, table: Any, reading: Reading) -> tuple[str, ...] | None:
        """The units where each is its own cluster; None where there are too many for that."""
        units = table.selectExpr(sql("{} as unit", reading.unit())).distinct()
        found = units.limit(N_CLUSTERS + 1).toArrow().column("unit").to_pylist()
        return tuple(sorted(found)) if len(found) <= N_CLUSTERS else None

    def _deals(self, table: Any, reading: Reading) -> tuple[str, ...]:
        if "deal" not in reading.keys:
            return ()
        found = table.select("deal").where("deal is not null").distinct().toArrow()
        return tuple(sorted(found.column("deal").to_pylist()))

    def _refuse_untimely(self, table: Any, column: str) -> None:
        name = quoted(column, SPARK_NAME)
        untimely = sql("{0} is not null and try_cast({0} as timestamp) is null", name)
        wrong = table.where(untimely).selectExpr(name)
        examples = [str(row[0]) for row in wrong.limit(1).collect()]
        if examples:
            raise InputError(
                f"`{column}` holds something that is no time: {examples[0]!r}",
                hint="Write ISO 8601 or seconds since 1970.",
            )

    # -- sources -------------------------------------------------------------------------------

    def _table(self, source: Source) -> Any:
        given = _unwrapped(source)
        if isinstance(given, import_module("pyspark.sql").DataFrame):
            return given
        if isinstance(given, (str, os.PathLike)):
            return self._file([os.fspath(given)])
        if isinstance(given, Sequence) and given and all(map(_is_path, given)):
            return self._file([os.fspath(one) for one in given])
        return self.session.createDataFrame(_arrow(given))

    def _file(self, paths: list[str]) -> Any:
        suffix = os.path.splitext(paths[0].rstrip("/"))[1].lower()  # noqa: PTH122 — may be a URL
        kind, options = FORMATS.get(suffix, PARQUET)  # a folder of Parquet has no suffix
        try:
            found = [re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path) for path in paths]  # no patterns
            return self.session.read.options(**options).format(kind).load(found)
        except import_module("pyspark.errors").AnalysisException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"cannot be read: {reason}", place=paths[0]) from None


def _session(master: str | None) -> Any:
    """The active session if there is one and no other master is asked for, else a new one."""
    try:
        errors, sql = import_module("pyspark.errors"), import_module("pyspark.sql")
        for part in ("pandas", "pyarrow"):
            import_module(part)
    except ImportError:
        raise MissingExtraError(
            "the Spark engine needs pyspark, pandas and pyarrow.", hint="Install peerage[spark]."
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
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except errors.PySparkRuntimeError as error:
        raise MissingExtraError(
            f"Spark does not start: {str(error).splitlines()[0]}",
            hint="It needs a Java runtime, version 17 or newer.",
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


# -- on the workers ----------------------------------------------------------------------------


def _collected(made: Any) -> Any:
    """What the workers made, as Arrow; if they cannot, for want of this package, it is said."""
    try:
        return made.toArrow()
    except import_module("pyspark.errors").PySparkException as error:
        if "No module named" not in str(error):
            reason = str(error).split("\n", 1)[0]
            raise EngineError(
                f"Spark says: {reason}", hint="See whether its files and workers can be reached."
            ) from error
        raise MissingExtraError(
            "Spark's workers run a Python that lacks peerage, or a part that it needs.",
            hint="Point PYSPARK_PYTHON at one that has peerage[spark], before Spark starts.",
        ) from None


def _work(encode: _Encoder, kernel: Callable[[Rows], Any]) -> Callable[[Any], Any]:
    """What a worker does with one block: the kernel's value on it, as bytes."""

    def work(table: Any) -> Any:
        pa = import_module("pyarrow")
        block = table.column("block")[0].as_py()
        part = pickle.dumps(kernel(encode.rows(table)))
        return pa.table({"block": pa.array([block], pa.int64()), "part": pa.array([part])})

    return work


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Texts into codes; the same codes and clusters as every engine gives."""

    reading: Reading
    units: tuple[str, ...] | None
    deals: tuple[str, ...]

    def rows(self, table: Any) -> Rows:
        """A block as arrays, the rows of each ballot together; Spark gives them in any order."""
        reading = self.reading
        held, session = _coded(table.column("session_id"))
        session_names = sorted(held)
        place = {name: i for i, name in enumerate(session_names)}
        session = np.array([place[name] for name in held], dtype=np.int64)[session]
        code = {name: i for i, name in enumerate(reading.names)}
        reviewer, candidate = (_placed(table.column(c), code) for c in ("reviewer", "candidate"))
        order = np.lexsort((candidate, reviewer, session))
        families = sorted({name for name in reading.family_by_name.values() if name})
        return Rows(
            names=reading.names,
            n_clusters=self._n_clusters(),
            cluster=self._clusters(table.column("unit"), session, len(session_names)),
            session=session[order],
            reviewer=reviewer[order],
            candidate=candidate[order],
            numbers={name: _floats(table.column(name))[order] for name in reading.numbers},
            keys={name: self._key(name, table)[order] for name in reading.keys},
            text=_numpy(table.column("text"))[order] if reading.text else None,
            family=np.array(
                [
                    families.index(family) if (family := reading.family_by_name.get(name)) else -1
                    for name in reading.names
                ]
            )
            if reading.family_by_name
            else None,
            panel=np.array([code[name] for name in reading.panel], dtype=np.int64),
        )

    def _n_clusters(self) -> int:
        return N_CLUSTERS if self.units is None else len(self.units)

    def _clusters(self, column: Any, session: Ints, n_sessions: int) -> Ints:
        """The cluster of each session, from its rows' unit."""
        names, unit = _coded(column)
        if self.units is None:
            codes = [zlib.crc32(name.encode()) % N_CLUSTERS for name in names]
        else:
            place = {name: i for i, name in enumerate(self.units)}
            codes = [place[name] for name in names]
        cluster = np.zeros(n_sessions, dtype=np.int64)
        cluster[session] = np.array(codes, dtype=np.int64)[unit]
        return cluster

    def _key(self, name: str, table: Any) -> NDArray[np.int64]:
        """Codes that are only compared: a block holds every row that could be equal."""
        if name == "deal":
            return _placed(table.column(name), {deal: i for i, deal in enumerate(self.deals)})
        return _coded(table.column(name))[1]


def _projection(reading: Reading, n_blocks: int) -> list[Sql]:
    """Whole queries stay together, so that whoever repeats one meets its other sessions."""
    block = "cast(crc32(encode({}, 'UTF-8')) % {} as long) as block"
    numbers = [quoted(name, SPARK_NAME) for name in reading.numbers]
    return [
        sql("session_id"),
        sql("reviewer"),
        sql("candidate"),
        sql("{} as unit", reading.unit()),
        sql(block, reading.unit(), n_blocks),
        *(sql("cast({0} as double) as {0}", name) for name in numbers),
        *(quoted(name, SPARK_NAME) for name in reading.keys),
        *([sql("text")] if reading.text else []),
    ]


def _empty(reading: Reading) -> Any:
    pa = import_module("pyarrow")
    texts = ["session_id", "unit", "reviewer", "candidate", *reading.keys]
    texts += ["text"] if reading.text else []
    return pa.table(
        {name: pa.array([], pa.string()) for name in texts}
        | {name: pa.array([], pa.float64()) for name in reading.numbers}
    )


def _coded(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct texts of a column and the place of each row's among them; negative for null."""
    encoded = column.combine_chunks().dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), places.astype(np.int64)


def _placed(column: Any, place: Mapping[str, int]) -> NDArray[np.int64]:
    """The place of each text in a list that everyone shares."""
    names, codes = _coded(column)
    known = np.array([*(place[name] for name in names), -1], dtype=np.int64)
    return known[codes]


# -- values ------------------------------------------------------------------------------------


def _native(frame: Frame) -> Any:
    return frame.to_native()


def _numpy(column: Any) -> NDArray[Any]:
    """An Arrow column as an array: NaN for a null number, None for a null text."""
    pa = import_module("pyarrow")
    if pa.types.is_boolean(column.type) and column.null_count:
        column = column.cast(pa.float64())
    values: NDArray[Any] = column.to_numpy()
    return values


def _floats(column: Any) -> NDArray[np.float64]:
    return np.asarray(_numpy(column), dtype=np.float64)


def _arrow(given: Any) -> Any:
    """A table in memory as Arrow."""
    pa = import_module("pyarrow")
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, Mapping):
        return pa.table({name: _listed(values) for name, values in given.items()})
    if isinstance(given, Sequence) and all(isinstance(one, Mapping) for one in given):
        return pa.Table.from_pylist([dict(one) for one in given])
    try:
        return pa.table(given)
    except (TypeError, ValueError):
        raise InputError(
            f"a {type(given).__name__} is no table.",
            hint="Give a path, or a table of polars, pandas, pyarrow or PySpark.",
        ) from None


def _listed(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "ifub" else list(array.tolist())


def _unwrapped(source: Source) -> Any:
    if type(source).__module__.split(".")[0] == "narwhals":
        import narwhals.stable.v2 as nw

        return nw.to_native(source)
    return source


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))
