"""Ratings from comparisons two by two: counted once, then a small system solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards import Board
from peerage.boards.models import standing
from peerage.engines import Engine, Source, engines
from peerage.errors import InputError
from peerage.rules.bradley_terry import CENTRE, SCALE, covariance, needs_prior, strengths
from peerage.rules.pairwise import level
from peerage.stats.tails import normal_critical

if TYPE_CHECKING:
    Floats = NDArray[np.float64]

COLUMNS = ("model_a", "model_b", "winner")
OUTCOMES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5}  # points of model_a
LEVEL = 0.95
N_SHOWN = 10


def board_comparisons(comparisons: Source, *, engine: str | Engine = "duckdb") -> Board:
    """Bradley–Terry ratings from a table of `model_a`, `model_b` and `winner`.

    The winner is `model_a`, `model_b` or `tie`. Intervals take comparisons as independent:
    for ballots, whose comparisons are not, rank by `--rule bradley_terry` instead.
    """
    runner = engines.get(engine)() if isinstance(engine, str) else engine
    models, wins = counted(runner, comparisons)
    if not models:
        return Board("comparisons", {name: [] for name in ("model", "rank", "rating")})
    logs = strengths(wins)
    ratings = level(CENTRE + SCALE * logs)
    error = SCALE * np.sqrt(np.maximum(np.diagonal(covariance(wins, logs)), 0.0))
    reach = normal_critical(LEVEL) * error
    order, rank = standing(ratings, wins.sum(axis=1), models)
    n = (wins + wins.T).sum(axis=1)
    return Board(
        "comparisons",
        {
            "model": [models[i] for i in order],
            "rank": [rank[i] for i in order],
            "rating": ratings[order],
            "rating_low": (ratings - reach)[order],
            "rating_high": (ratings + reach)[order],
            "points": wins.sum(axis=1)[order],
            "comparisons": n[order].astype(np.int64),
        },
        {"rule": "bradley_terry", "level": LEVEL},
        ("weak_prior",) if needs_prior(wins) else (),
    )


def counted(engine: Engine, comparisons: Source) -> tuple[tuple[str, ...], Floats]:
    """The models that were compared, and wins[winner, loser] with ties as halves."""
    import narwhals.stable.v2 as nw

    frame: Any = engine.open(comparisons)
    missing = [name for name in COLUMNS if name not in frame.collect_schema().names()]
    if missing:
        raise InputError(f"comparisons need the column {', '.join(missing)}.")
    found = engine.arrays(frame.group_by(*COLUMNS).agg(nw.len().alias("n")))
    _refuse(found)
    models = tuple(sorted({*found["model_a"].tolist(), *found["model_b"].tolist()}))
    place = {name: i for i, name in enumerate(models)}
    wins = np.zeros((len(models), len(models)))
    for a, b, winner, n in zip(*(found[name].tolist() for name in (*COLUMNS, "n")), strict=True):
        points = OUTCOMES[winner]
        wins[place[a], place[b]] += points * n
        wins[place[b], place[a]] += (1.0 - points) * n
    return models, wins


def _refuse(found: Mapping[str, Any]) -> None:
    rows: Sequence[tuple[Any, Any, Any]] = list(
        zip(*(found[name].tolist() for name in COLUMNS), strict=True)
    )
    nobody = [row for row in rows if row[0] is None or row[1] is None]
    if nobody:
        raise InputError("comparisons without a model: `model_a` or `model_b` is empty.")
    own = sorted({row[0] for row in rows if row[0] == row[1]})
    if own:
        raise InputError(f"{', '.join(own[:N_SHOWN])} is compared with itself.")
    odd = sorted({str(row[2]) for row in rows if row[2] not in OUTCOMES})
    if odd:
        raise InputError(
            f"a winner cannot be {', '.join(odd[:N_SHOWN])}.", hint=f"Known: {', '.join(OUTCOMES)}."
        )
