"""The board of models with intervals and rank ranges, against one scan-and-group of its file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench import Row, compare, growth, memory
from peerage.reports.from_tables import board_models
from tests.shared.reviews import write_reviews

SIZES = (1_000_000, 10_000_000)
AT_MOST = 5.0  # times the scan
GROWTH = 13.0  # for ten times the rows
MEMORY_MB = 2_000.0
PLAIN = (
    "select session_id, candidate, count(*) as n, avg(rank) as place, avg(score) as score "
    "from '{}' group by session_id, candidate"
)


def run() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            path = Path(folder) / f"reviews-{n}.parquet"
            write_reviews(path, n)
            rows.append(board_beside_scan(path, n))
        peak = memory("peerage.reports.from_tables:board_models", path, n=n, at_most_mb=MEMORY_MB)
    return [*rows, growth(rows[0], rows[1], GROWTH), peak]


def board_beside_scan(path: Path, n: int) -> Row:
    import duckdb

    def plain() -> None:
        with duckdb.connect() as connection:
            connection.sql(PLAIN.format(path)).aggregate("sum(n)").fetchall()

    return compare(
        "board models",
        lambda: board_models(path),
        plain,
        n=n,
        target=1.0 / AT_MOST,
        peer_name="DuckDB group by",
        n_repeats=3,
    )
