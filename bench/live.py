"""The model board of a store that grows: right after a new session, against from scratch.

A server keeps the reviews in memory, so that only the new session is read. Before each of our
turns another session is held and stored, outside the clock; both boards must be equal to 1e-9.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench import Row, cpu_seconds
from peerage.imports import take
from peerage.panel import Council
from peerage.reports import Reports
from peerage.reports.options import ModelBoardOptions
from peerage.seating import settings_of
from tests.shared.reviews import write_reviews

N_ROWS = 1_000_000
N_DAYS = 60  # that the reviews are spread over
N_TURNS = 5
TARGET = 1.5  # times as fast as from scratch
ALLOWED_S = 0.5
DECIMALS = 9  # the last bits depend on the order in which sums were added
SEATS = "".join(
    f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in ("able", "baker", "charlie")
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return _rows(Path(folder))


def _rows(folder: Path) -> list[Row]:
    config = folder / "peerage.toml"
    config.write_text(f'store = "sqlite:///{folder}/peerage.db"\n{SEATS}', encoding="utf-8")
    reviews = folder / "reviews.parquet"
    write_reviews(reviews, N_ROWS, days=N_DAYS)
    reports = Reports(settings_of(config, {}), keeps_reviews=True)
    take(reports.store, reviews, "reviews", time.time)
    boards: list[str] = []

    def board(options: ModelBoardOptions) -> None:
        document = json.dumps(reports.board(options).document())
        parse_float = lambda text: round(float(text), DECIMALS)  # noqa: E731
        boards.append(json.dumps(json.loads(document, parse_float=parse_float)))

    rows = []
    for since in ("all", "30d"):
        options = ModelBoardOptions(since=since)
        board(options)
        turns = []
        for _ in range(N_TURNS):
            asyncio.run(_ask(config))
            ours = cpu_seconds(lambda: board(options))  # noqa: B023 — called at once
            shutil.rmtree(reports.store.mirror_folder)
            scratch = cpu_seconds(lambda: board(options))  # noqa: B023 — called at once
            if boards[-1] != boards[-2]:
                raise ArithmeticError("the board of kept reviews is not the board from scratch")
            turns.append((ours, scratch))
        ours_s, scratch_s = (statistics.median(side) for side in zip(*turns, strict=True))
        name = f"board, since {since}, new session"
        rows.append(Row(name, N_ROWS, ours_s, scratch_s, TARGET, "from scratch"))
        rows.append(Row(name, N_ROWS, ours_s, ALLOWED_S, peer="allowed"))
    return rows


async def _ask(config: Path) -> None:
    async with Council.from_config(config) as council:
        await council.ask("Why is the sky blue?")
