"""Comparisons from Parquet to a board under Bradley–Terry, beside other packages that rank.

Ours reads the file, checks it, and gives ratings with intervals and rank ranges. The peers get
the same comparisons in memory, in the form that they ask for, and give ratings alone. choix and
crowd-kit know no ties and get comparisons without any. The peers are not among our dependencies
(arena-rank brings JAX): `./dev bench` installs them where it can, and without one its row says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
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
        rows = beside_peers(Path(folder), N)
        large = Path(folder) / "large.parquet"
        write_comparisons(large, 10 * N)
        more = measure("board, ten times as many", partial(ours, large), n=10 * N, n_repeats=3)
    return [*rows, growth(rows[0], more, GROWTH)]


def beside_peers(folder: Path, n: int) -> list[Row]:
    """A row for each peer, of so many comparisons."""
    with_ties, decided = folder / "with_ties.parquet", folder / "decided.parquet"
    write_comparisons(with_ties, n)
    with duckdb.connect() as connection:
        some = connection.read_parquet(str(with_ties)).filter("winner <> 'tie'")
        some.write_parquet(str(decided))
    return [_beside(with_ties if peer.ties else decided, peer) for peer in PEERS]


def ours(path: Path) -> Any:
    """The board, as a user asks for it: ratings in the order of names."""
    board = peerage.board_models(path, rule="bradley_terry", since="all")
    rating = dict(zip(board.columns["model"], board.columns["value"], strict=True))
    return np.array([rating[name] for name in MODELS])


def _beside(path: Path, peer: Peer) -> Row:
    turn, n = partial(ours, path), duckdb.read_parquet(str(path)).shape[0]
    if any(find_spec(module) is None for module in peer.modules):
        alone, missing = measure("ratings", turn, n=n, n_repeats=3), f"{peer.name} is not installed"
        return replace(alone, target=peer.target, peer=peer.name, missing=missing)
    theirs = peer.prepare(_columns(path))
    apart = float(np.abs(turn() - theirs()).max())
    if apart > peer.close:
        raise ArithmeticError(f"our ratings and those of {peer.name} are {apart:.1e} apart")
    return compare(
        "ratings", turn, theirs, n=n, target=peer.target, peer_name=peer.name, n_repeats=3
    )


def _columns(path: Path) -> Columns:
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


def choix(given: Columns) -> Callable[[], Any]:
    module = import_module("choix")
    code = {name: i for i, name in enumerate(MODELS)}
    wins = [(code[won], code[lost]) for won, lost in _won_and_lost(given)]
    return lambda: _ratings(module.ilsr_pairwise(len(MODELS), wins))


def crowd_kit(given: Columns) -> Callable[[], Any]:
    module = import_module("crowdkit.aggregation")
    sides = {"left": given["model_a"], "right": given["model_b"]}
    frame = import_module("pandas").DataFrame(
        {**sides, "label": [won for won, _ in _won_and_lost(given)]}
    )

    def turn() -> Any:  # with a tolerance above 0 version 1.4 stops after two rounds
        scores = module.BradleyTerry(n_iter=100, tol=0.0).fit_predict(frame)
        return _ratings(np.log(scores.sort_index().to_numpy()))

    return turn


def _won_and_lost(given: Columns) -> list[tuple[str, str]]:
    rows = zip(given["model_a"], given["model_b"], given["winner"], strict=True)
    return [(a, b) if winner == "model_a" else (b, a) for a, b, winner in rows]


def _ratings(logs: Any) -> Any:
    return 1500.0 + SCALE * (logs - logs.mean())


@dataclass(frozen=True, slots=True)
class Peer:
    """A package that ranks: what it needs, and a function that gets ready what a turn does."""

    name: str
    modules: tuple[str, ...]
    prepare: Callable[[Columns], Callable[[], Any]]
    ties: bool = True
    target: float = TARGET
    close: float = CLOSE


PEERS = (
    Peer("evalica", ("evalica",), evalica),
    Peer("arena-rank", ("arena_rank", "pandas"), arena_rank),
    Peer("choix", ("choix",), choix, ties=False, target=1.0),
    Peer("crowd-kit", ("crowdkit", "pandas"), crowd_kit, ties=False, target=1.0),
)
