"""A board over a million stored reviews after one more session, against making it from scratch.

From scratch is what it costs without the mirror and the running sums: both are derived from the
store, and are removed before each such turn. The reviews are imported, which is the quick way to
store them: sessions held here would take minutes to read through.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import Row, compare, cpu_seconds
from bench._reviews import write_reviews
from peerage.convening import Council, law_then, settings_of
from peerage.engines.duckdb import DuckDB
from peerage.importing import take
from peerage.scoring import Law
from peerage.standings.live import board_of_store, refresh
from peerage.standings.terms import Terms
from peerage.stores import open_store

N_ROWS = 1_000_000
N_DAYS = 60  # that the reviews are spread over
TARGET = 50
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
    settings = settings_of(config, {})
    store, engine = open_store(settings.store), DuckDB()
    take(store, reviews, "reviews", time.time)

    def law_for(recorded: Mapping[str, Any]) -> Law:
        return law_then(settings, recorded)

    def board(terms: Terms) -> object:
        return board_of_store(store, law_for, terms, engine)

    def scratch(terms: Terms) -> object:
        shutil.rmtree(store.mirror_folder)
        return board(terms)

    rows = []
    for since in ("all", "30d"):
        terms = Terms(since=since)
        board(terms)
        asyncio.run(_ask(config))
        stored = cpu_seconds(lambda: refresh(store, law_for, engine))
        row = compare(
            f"board since {since}, after one more session",
            lambda terms=terms: board(terms),  # type: ignore[misc]
            lambda terms=terms: scratch(terms),  # type: ignore[misc]
            n=N_ROWS,
            target=TARGET,
            peer_name="from scratch",
            n_repeats=5,
        )
        rows += [row, Row("adding the session to the sums", 1, stored)]
    return rows


async def _ask(config: Path) -> None:
    async with Council.from_config(config) as council:
        await council.ask("Why is the sky blue?")
