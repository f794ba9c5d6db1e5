"""The rows of a board as files: CSV and Parquet."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from pathlib import Path

from peerage.boards import Board
from peerage.text import csv_cell

TEXTS = ("model", "category", "contributor", "reviewer", "item_id", "status", "band")


def board_csv(board: Board) -> str:
    """Return the rows as CSV; undefined values are empty."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(map(csv_cell, board.columns))
    writer.writerows([csv_cell(value) for value in row.values()] for row in board.rows)
    return table.getvalue()


def write_parquet(board: Board, path: Path) -> None:
    """Write the rows as Parquet, with null for undefined values; empty columns have types too."""
    from peerage.engines import duckdb

    columns, types = board.table(), {}
    for name, values in columns.items():
        if name in TEXTS:
            types[name] = "varchar"
        elif values and all(isinstance(value, bool) for value in values):
            types[name] = "boolean"
        else:
            is_whole = values and all(value is None or isinstance(value, int) for value in values)
            types[name] = "bigint" if is_whole else "double"
            columns[name] = [math.nan if value is None else value for value in values]
    duckdb.write_parquet(columns, types, path)


def board_parquet(board: Board) -> bytes:
    """Return the rows as the content of a Parquet file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.parquet"
        write_parquet(board, path)
        return path.read_bytes()
