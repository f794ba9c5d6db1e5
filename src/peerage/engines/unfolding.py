"""Refuse Parquet files whose texts become far larger when they are read than the file is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb

from peerage.embedded import database, pattern, real_path
from peerage.engines.sql import Sql, join_sql, quote_name, sql
from peerage.errors import InputError

MAX_BYTES = 1 << 30  # of texts, whatever the size of the file
MAX_RATIO = 1_000  # bytes of texts for each byte of the file
LENGTHS: Mapping[str, Callable[[Sql], Sql]] = {  # in bytes; no text is copied for them
    "VARCHAR": lambda column: sql("sum(strlen({}))", column),
    "BLOB": lambda column: sql("sum(octet_length({}))", column),
}


def refuse_unfolding(path: Path, db: duckdb.DuckDBPyConnection | None = None) -> None:
    """Raise an error for a Parquet file whose texts unfold hugely.

    A text that a file has once, and that each row refers to, is written out for each row that is
    read. Adding up lengths does not write them out. `db` is a database that may read the file.
    """
    file = real_path(path)
    own = db is None
    db = db or database([file])
    try:
        rows = db.read_parquet(pattern(file), hive_partitioning=False)
        kinds = zip(rows.columns, map(str, rows.dtypes), strict=True)
        lengths = [LENGTHS[kind](quote_name(name)) for name, kind in kinds if kind in LENGTHS]
        sums = rows.aggregate(join_sql(lengths)).fetchall()[0] if lengths else ()
    finally:
        if own:
            db.close()
    n_bytes, n_unfolded = path.stat().st_size, sum(int(one or 0) for one in sums)
    if n_unfolded > max(MAX_BYTES, MAX_RATIO * n_bytes):
        raise InputError(
            f"the texts of this file unfold from {n_bytes / 1e6:,.2f} MB to "
            f"{n_unfolded / 1e6:,.0f} MB.",
            place=str(path),
            hint="Leave out texts that are equal in every row, or split the file.",
        )
