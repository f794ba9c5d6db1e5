"""The board of models with intervals and rank ranges, against one scan-and-group of its file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import Row, compare
from bench._reviews import write_reviews
from peerage.standings import board_models

SIZES = (1_000_000, 10_000_000)
AT_MOST = 5.0  # times the scan
GROWTH = 13.0  # for ten times the rows
MAX_GB = 2.0
PLAIN = (
    "select session_id, candidate, count(*) as n, avg(rank) as place, avg(score) as score "
    "from '{}' group by session_id, candidate"
)
PROBE = (
    "import resource, sys; from peerage.standings import board_models; board_models(sys.argv[1]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)


def run() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            path = Path(folder) / f"reviews-{n}.parquet"
            write_reviews(path, n)
            rows.append(_board(path, n))
    small, large = rows
    rows.append(
        Row(
            "growth, ten times the rows",
            SIZES[1],
            large.ours_s,
            small.ours_s,
            1.0 / GROWTH,
            f"{SIZES[0]:,} rows",
        )
    )
    return rows


def _board(path: Path, n: int) -> Row:
    import duckdb

    def plain() -> None:
        with duckdb.connect() as connection:
            connection.sql(PLAIN.format(path)).aggregate("sum(n)").fetchall()

    row = compare(
        "board models",
        lambda: board_models(path),
        plain,
        n=n,
        target=1.0 / AT_MOST,
        peer_name="DuckDB, group by session and candidate",
        n_repeats=3,
    )
    gigabytes = _peak_gb(path)
    kept = "under" if gigabytes < MAX_GB else "NOT under"
    return replace(row, note=f"peak {gigabytes:.2f} GB, {kept} {MAX_GB:g}")


def _peak_gb(path: Path) -> float:
    """The peak memory of a process that makes this board and nothing else."""
    done = subprocess.run(  # noqa: S603 — this Python, on a file made above
        [sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1]) / 1e6
