"""DuckDB, embedded: Parquet, CSV and JSON lines from disk, or any table in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.engines import Columns, Reading, Source, engines
from peerage.engines.codes import Encoder, filled, projection
from peerage.engines.streams import streamed
from peerage.errors import InputError
from peerage.reviews.rows import Rows

if TYPE_CHECKING:
    import duckdb
    import narwhals as nw

    Frame = nw.LazyFrame[Any]
    Relation = duckdb.DuckDBPyRelation

T = TypeVar("T")

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


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One empty database for the process: starting one costs as much as scanning a file."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set global TimeZone = 'UTC'")  # on every machine
    return connection


# What a time that names no zone is taken to mean: UTC, on every machine.
NO_ZONE = (
    "case when regexp_matches({0}, ':.*([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$') then ''"
    " when contains({0}, ':') then 'Z' else 'T00:00:00Z' end"
)
TEXTS = frozenset(
    {"session_id", "reviewer", "candidate", "category", "query_id", "text", "family", "deal"}
    | {"item_id", "contributor", "user_id"}
)


@engines.register("duckdb")
class DuckDB:
    """One private connection; it never writes to what it reads.

    Relations are wrapped by narwhals' stable interface: the other one keeps DuckDB's types
    alive past the interpreter's end, and DuckDB complains on stderr.
    """

    def __init__(self, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self.connection = database().cursor()
        self._n_kept = count()

    def open(self, source: Source) -> Frame:
        import narwhals.stable.v2 as nw

        return nw.from_native(self._relation(source))

    def arrays(self, frame: Frame) -> Columns:
        return {name: filled(values) for name, values in _native(frame).fetchnumpy().items()}

    def epoch(self, frame: Frame, column: str) -> Frame:
        import duckdb
        import narwhals.stable.v2 as nw

        relation = _native(frame)
        kind = str(dict(zip(relation.columns, relation.dtypes, strict=True))[column]).upper()
        name = f'"{column}"'
        if kind.startswith(("TIMESTAMP", "DATE")):
            seconds = f"epoch({name})"
        elif kind == "VARCHAR":
            seconds = f"epoch(cast({name} || {NO_ZONE.format(name)} as timestamptz))"
        else:  # seconds, or milliseconds where they would lie thousands of years ahead
            number = f"cast({name} as double)"
            seconds = f"case when abs({number}) >= 1e11 then {number} / 1e3 else {number} end"
        others = [f'"{other}"' for other in relation.columns if other != column]
        try:
            changed = relation.project(", ".join([*others, f"{seconds} as {name}"]))
            if kind == "VARCHAR":  # only a text can fail, and it should fail here
                changed.aggregate(f"max({name})").fetchall()
        except duckdb.Error as error:
            raise InputError(
                f"`{column}` holds something that is no time: {str(error).splitlines()[0]}",
                hint="Write ISO 8601 or seconds since 1970.",
            ) from None
        return nw.from_native(changed)

    def keep(self, frame: Frame) -> Frame:
        import narwhals.stable.v2 as nw

        return nw.from_native(self._kept(_native(frame), f"peerage_kept_{next(self._n_kept)}"))

    def fold(self, frame: Frame, reading: Reading, kernel: Callable[[Rows], T]) -> list[T]:
        relation = _native(frame)
        encode = Encoder(self.connection, relation, reading)
        projected = relation.project(projection(reading, encode.names.modulus))
        parts = None
        if not reading.clusters:
            parts = streamed(self.connection, projected, lambda rows: kernel(encode.rows(rows)))
        if parts is not None:
            return parts
        n_rows = int(relation.aggregate("count(*)").fetchall()[0][0])
        n_blocks = -(-n_rows // self.block_rows)
        if reading.clusters and n_blocks > 1 and not reading.whole_queries:
            parts = streamed(self.connection, projected, lambda rows: kernel(encode.rows(rows)))
        if parts is not None:
            return parts
        if n_blocks <= 1:
            return [kernel(encode.rows(projected.fetchnumpy()))]
        block = f"cast(hash({reading.unit()}) % 65521 as usmallint) as block"
        coded = relation.project(f"{projection(reading, encode.names.modulus)}, {block}")
        # Rows are kept once, narrow, and then chosen block by block: whole queries, so that
        # whoever repeats one meets its other sessions. Which block a session is in changes nothing.
        kept = self._kept(coded, "peerage_fold")
        try:
            return [
                kernel(encode.rows(kept.filter(f"block % {n_blocks} = {i}").fetchnumpy()))
                for i in range(n_blocks)
            ]
        finally:
            self.connection.execute("drop table if exists peerage_fold")

    def _kept(self, rows: Relation, name: str) -> Relation:
        """The relation materialised, if it is ours; somebody else's is read again each time."""
        import duckdb

        try:
            self.connection.execute(f"create or replace temp table {name} as from rows")
        except duckdb.Error:
            return rows
        return self.connection.table(name)

    # -- sources -------------------------------------------------------------------------------

    def _relation(self, source: Source) -> Relation:
        import duckdb

        if isinstance(source, duckdb.DuckDBPyRelation):
            return source
        if isinstance(source, (str, os.PathLike)):
            return self._file([os.fspath(source)])
        if isinstance(source, Sequence) and source and all(_is_path(one) for one in source):
            return self._file([os.fspath(one) for one in source])
        if isinstance(source, Sequence) and all(isinstance(one, Mapping) for one in source):
            names = dict.fromkeys(name for row in source for name in row)
            source = {name: _column([row.get(name) for row in source]) for name in names}
        return self._table(source)

    def _file(self, paths: list[str]) -> Relation:
        import duckdb

        suffix = Path(paths[0]).suffix.lower()
        reader = READERS.get(suffix)
        if reader is None:
            raise InputError(
                f"do not know how to read {suffix or 'a file without a suffix'}.",
                place=paths[0],
                hint=f"Known: {', '.join(READERS)}.",
            )
        try:
            # Segments written at different times may differ in their optional columns. What a
            # column of text holds is only known from all of it: a guess from the first rows
            # would round the first fraction that comes later.
            how = {"union_by_name": True} if reader == "read_parquet" else {"sample_size": -1}
            opening = getattr(self.connection, reader)
            source = paths if len(paths) > 1 else paths[0]
            relation = opening(source, **how)
            names = [name for name in relation.columns if name in TEXTS]  # a bad file says so here
            if reader == "read_csv" and names:  # an id such as 007 is a text, not the number 7
                relation = opening(source, dtype=dict.fromkeys(names, "VARCHAR"), **how)
        except (duckdb.Error, OSError) as error:
            raise InputError(
                f"cannot be read: {str(error).splitlines()[0]}", place=paths[0]
            ) from None
        opened: Relation = relation
        return opened

    def _table(self, source: Source) -> Relation:
        """A table in memory: by DuckDB itself where it can, else column by column."""
        import duckdb

        given = nw_native(source) if _is_narwhals(source) else source
        if isinstance(given, duckdb.DuckDBPyRelation):
            return given
        if not isinstance(given, Mapping):
            try:
                return self.connection.sql("select * from given")  # DuckDB finds it by its name
            except duckdb.Error:
                given = _columns_of(given)
        columns = {name: _column(values) for name, values in given.items()}  # noqa: F841
        return self.connection.sql("select * from columns")


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
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(table)
    except TypeError:
        raise InputError(
            f"a {type(table).__name__} is no table.",
            hint="Give a path, or a table of polars, pandas, pyarrow or DuckDB.",
        ) from None
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: eager[name].to_numpy() for name in eager.columns}


def nw_native(frame: Any) -> Any:
    """What a narwhals frame wraps."""
    import narwhals.stable.v2 as nw

    return nw.to_native(frame)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_narwhals(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "narwhals"
