"""A million comparisons from Parquet to a board under Bradley–Terry, beside evalica and arena-rank.

Ours reads the file, checks it, and gives ratings with intervals and rank ranges. The peers get
the same comparisons in memory, as lists of strings and as a data frame, and give ratings alone.
They are not among our dependencies (arena-rank brings JAX): `./dev bench` installs them where it
can, and without one its row says so.
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

import peerage
from bench import Row, compare, growth, measure
from tests.shared.reviews import N_MODELS, write_comparisons

N = 1_000_000
TARGET = 5.0  # times as fast as the peer, which is not asked for intervals or ranks
GROWTH = 13.0  # for ten times the comparisons
CLOSE = 1e-4  # in points of Elo
MODELS = [f"model-{i:02d}" for i in range(N_MODELS)]
SCALE = 400.0 / np.log(10.0)
Columns = dict[str, list[str]]


def run() -> list[Row]:
    """A row for each peer, and one for ten times the comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (Path(folder) / f"{n}.parquet" for n in (N, 10 * N))
        write_comparisons(small, N)
        write_comparisons(large, 10 * N)
        rows = [
            _beside(small, name, needs, peer)
            for name, needs, peer in (
                ("evalica", ("evalica",), evalica),
                ("arena-rank", ("arena_rank", "pandas"), arena_rank),
            )
        ]
        more = measure("board, ten times as many", partial(ours, large), n=10 * N, n_repeats=3)
    return [*rows, growth(rows[0], more, GROWTH)]


def ours(path: Path) -> Any:
    """The board, as a user asks for it: ratings in the order of names."""
    board = peerage.board_models(path, rule="bradley_terry", since="all")
    rating = dict(zip(board.columns["model"], board.columns["value"], strict=True))
    return np.array([rating[name] for name in MODELS])


def _beside(
    path: Path, name: str, needs: tuple[str, ...], peer: Callable[[Columns], Callable[[], Any]]
) -> Row:
    turn = partial(ours, path)
    if any(find_spec(module) is None for module in needs):
        alone = measure("board", turn, n=N, n_repeats=3)
        return replace(alone, target=TARGET, peer=name, missing=f"{name} is not installed")
    theirs = peer(_columns(path))
    apart = float(np.abs(turn() - theirs()).max())
    if apart > CLOSE:
        raise ArithmeticError(f"our ratings and those of {name} are {apart:.1e} apart")
    return compare("board", turn, theirs, n=N, target=TARGET, peer_name=name, n_repeats=3)


def _columns(path: Path) -> Columns:
    import duckdb

    with duckdb.connect() as connection:
        found = connection.read_parquet(str(path)).fetchnumpy()
    return {key: values.tolist() for key, values in found.items()}


def evalica(given: Columns) -> Callable[[], Any]:
    module = import_module("evalica")
    winners = {"model_a": module.Winner.X, "model_b": module.Winner.Y, "tie": module.Winner.Draw}
    outcomes = [winners[one] for one in given["winner"]]

    def turn() -> Any:
        found = module.bradley_terry(
            given["model_a"], given["model_b"], outcomes, tolerance=1e-12, limit=10_000
        )
        return _ratings(np.log(found.scores.sort_index().to_numpy()))

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
        return _ratings(np.array([found[name] for name in MODELS]))

    return turn


def _ratings(logs: Any) -> Any:
    return 1500.0 + SCALE * (logs - logs.mean())
