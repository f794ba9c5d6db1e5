"""Votes of the arena from a file of each kind to a board with intervals, beside DuckDB's grouping.

DuckDB starts, reads the columns of the same file that the board needs (the two models, the
winner, the judge, the query and the time) and groups them by the models and the winner.
`./dev bench imports=10000000` also makes the board of ten times the votes.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from bench import Row, compare, cpu_seconds, growth, measure, memory
from peerage.imports.files import open_reviews
from peerage.imports.formats import recognise
from peerage.reports.from_tables import board_models
from tests.shared.reviews import write_votes

N = 1_000_000
AT_MOST = 3.0  # times the grouping
GROWTH = 13.0  # for ten times the votes
MEMORY_MB = 24_000.0
SNIFF_S = 0.1
KINDS = ("jsonl", "json", "csv", "parquet")
GROUPED = """
    select model_a, model_b, winner, count(*), max(judge), max(question_id), max(tstamp)
    from '{}' group by model_a, model_b, winner
"""


def run(n: int = N) -> list[Row]:
    """A row for each kind of file, for recognising it, and for ten times the votes if named."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = Path(folder) / f"votes.{kind}"
            write_votes(path, N)
            rows.append(board_beside_grouping(path, kind))
            rows.append(_sniff(path, kind))
        if n > N:
            large = Path(folder) / "many.jsonl"
            write_votes(large, n)
            more = measure("board, jsonl, more votes", partial(board, large), n=n, n_repeats=1)
            rows.append(growth(rows[0], more, GROWTH * n / (10 * N)))
            rows.append(memory("bench.imports:board", large, n=n, at_most_mb=MEMORY_MB))
    return rows


def board(path: Path) -> object:
    """The board as `peerage board models FILE` makes it."""
    with open_reviews([path]) as reviews:
        return board_models(reviews)


def board_beside_grouping(path: Path, kind: str, n: int = N) -> Row:
    def grouped() -> None:
        with duckdb.connect() as connection:
            connection.sql(GROUPED.format(path)).fetchall()

    return compare(
        f"board, {kind}",
        partial(board, path),
        grouped,
        n=n,
        target=1.0 / AT_MOST,
        peer_name="DuckDB group by",
        n_repeats=3,
    )


def _sniff(path: Path, kind: str) -> Row:
    look: Callable[[], object] = partial(recognise, path)
    look()
    seconds = statistics.median(cpu_seconds(look) for _ in range(7))
    return Row(f"recognising {kind}", N, seconds, SNIFF_S, 1.0, "allowed")
