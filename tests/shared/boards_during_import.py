"""`python -m tests.shared.boards_during_import STORE_URL [--boards 200] [--rows 1000000]`.

Asks for the board of models again and again while another thread imports a large table into the
same store, as a server does. Each must be the board before the import or the board after it.
A URL with `{}` in it names a new store for each round, `sqlite:////tmp/{}.db`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from peerage.imports import take
from peerage.reports import Reports
from peerage.reports.options import ModelBoardOptions
from peerage.seating import settings_of
from peerage.stores import Store
from tests.shared.reviews import write_reviews

N_ROWS_BEFORE = 5_000
OPTIONS = ModelBoardOptions(since="all")


@dataclass(frozen=True, slots=True)
class BoardCounts:
    """How many boards were those of before and of after, and in how many imports."""

    n_before: int = 0
    n_after: int = 0
    n_imports: int = 0

    @property
    def n_boards(self) -> int:
        return self.n_before + self.n_after


def boards_during_imports(
    new_url: Callable[[], str], folder: Path, n_boards: int, n_rows: int
) -> BoardCounts:
    """Ask for so many boards during as many imports as that takes; an error for a wrong one."""
    counts = BoardCounts()
    small, large = folder / "small.parquet", folder / "large.parquet"
    write_reviews(small, N_ROWS_BEFORE, seed=1)
    write_reviews(large, n_rows + N_ROWS_BEFORE, seed=2)
    _rename_sessions(large)
    while counts.n_boards < n_boards:
        counts = _during_one_import(new_url(), small, large, counts)
    return counts


def _rename_sessions(file: Path) -> None:
    """Give the sessions of a table other names than those of the first."""
    import duckdb

    with duckdb.connect() as db:
        rows = db.read_parquet(str(file)).project("* replace ('l' || session_id as session_id)")
        rows.write_parquet(str(file.with_suffix(".new")))
    file.with_suffix(".new").replace(file)


def _during_one_import(url: str, small: Path, large: Path, counts: BoardCounts) -> BoardCounts:
    reports = Reports(settings_of(None, {"store": url}))
    store = reports.store
    take(store, small, "reviews", time.time)
    before, seen = _board(reports), list[str]()
    with ThreadPoolExecutor(1) as thread:
        import_ = thread.submit(take, store, large, "reviews", time.time)
        while not import_.done():
            seen.append(_board(reports))
        import_.result()
    seen.append(_board(reports))
    after = _board_anew(reports, store)
    if before == after or not set(seen) <= {before, after} or seen[-1] != after:
        raise ArithmeticError("a board was neither that of before the import nor that of after")
    asyncio.run(store.close())
    return BoardCounts(
        counts.n_before + seen.count(before),
        counts.n_after + seen.count(after),
        counts.n_imports + 1,
    )


def _board(reports: Reports) -> str:
    return json.dumps(reports.board(OPTIONS).document())


def _board_anew(reports: Reports, store: Store) -> str:
    """The board of a mirror that is made from nothing."""
    shutil.rmtree(store.mirror_folder)
    return _board(reports)


def main() -> None:
    """Count the boards of one store's URL, and print how many were of before and after."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--boards", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = boards_during_imports(
            lambda: asked.url.format(uuid.uuid4().hex), Path(folder), asked.boards, asked.rows
        )
    print(
        f"{counts.n_boards} boards in {counts.n_imports} imports of {asked.rows:,} rows:"
        f" {counts.n_before} of before, {counts.n_after} of after, no other"
    )


if __name__ == "__main__":
    main()
