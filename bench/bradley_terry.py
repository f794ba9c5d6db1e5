"""Bradley–Terry from comparisons given as strings, against evalica and arena-rank.

Ours reads them from Parquet and that is timed; the peers' are in memory beforehand, as lists
of strings and as a data frame. The peers are not among our dependencies (arena-rank brings
JAX): `./dev bench` installs them where it can, else the rows say that they are missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peerage.standings.comparisons import counted

from bench import Row, compare, measure
from bench._reviews import N_MODELS, write_comparisons
from peerage.engines.duckdb import DuckDB
from peerage.rules.bradley_terry import strengths

SIZES = (1_000_000, 10_000_000)
TARGET = 20.0
CLOSE = 1e-6
MODELS = [f"model-{i:02d}" for i in range(N_MODELS)]
Columns = dict[str, Any]


def run() -> list[Row]:
    rows = []
    engine = DuckDB()
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            path = Path(folder) / f"comparisons-{n}.parquet"
            write_comparisons(path, n)
            for name, needs, peer in (
                ("evalica", ("evalica",), evalica),
                ("arena-rank", ("arena_rank", "pandas"), arena_rank),
            ):
                turn = partial(ours, engine, path)
                if any(find_spec(module) is None for module in needs):
                    alone = measure("Bradley-Terry", turn, n=n, n_repeats=3)
                    rows.append(replace(alone, note=f"{name} is not installed"))
                else:
                    columns = engine.open(path).to_native().fetchnumpy()
                    given = {key: values.tolist() for key, values in columns.items()}
                    rows.append(_beside(turn, peer(given), n, name))
    return rows


def ours(engine: DuckDB, path: Path) -> Any:
    return strengths(counted(engine, path)[1])


def _beside(turn: Callable[[], Any], peer: Callable[[], Any], n: int, name: str) -> Row:
    apart = float(np.abs(turn() - peer()).max())
    row = compare(
        "Bradley-Terry",
        turn,
        peer,
        n=n,
        target=TARGET,
        peer_name=name,
        n_repeats=3,
    )
    said = "equal to" if apart <= CLOSE else "NOT equal to"
    return replace(row, note=f"{said} {CLOSE:g} ({apart:.1e} apart)")


def evalica(given: Columns) -> Callable[[], Any]:
    module = import_module("evalica")
    winners = {
        "model_a": module.Winner.X,
        "model_b": module.Winner.Y,
        "tie": module.Winner.Draw,
    }
    outcomes = [winners[one] for one in given["winner"]]

    def turn() -> Any:
        found = module.bradley_terry(
            given["model_a"], given["model_b"], outcomes, tolerance=1e-12, limit=10_000
        )
        logs = np.log(found.scores.sort_index().to_numpy())
        return logs - logs.mean()

    return turn


def arena_rank(given: Columns) -> Callable[[], Any]:
    data = import_module("arena_rank.utils.data_utils")
    model = import_module("arena_rank.models.bradley_terry")
    frame = import_module("pandas").DataFrame(given)

    def turn() -> Any:
        dataset = data.PairDataset.from_pandas(frame)
        fitted = model.BradleyTerry(n_competitors=len(dataset.competitors))
        fitted.fit(dataset)
        found = dict(zip(dataset.competitors, np.asarray(fitted.params["ratings"]), strict=True))
        logs = np.array([found[name] for name in MODELS])
        return logs - logs.mean()

    return turn
