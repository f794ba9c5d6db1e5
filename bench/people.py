"""Boards corrected by people against plain ones, and advice for twelve judges."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench import Row
from peerage.engines.duckdb import write_parquet
from peerage.reports import advise, board_models

N_SESSIONS, N_MODELS, N_JUDGES = 2_000, 5, 12
N_PEOPLE = 200  # sessions that a person reviewed too
ALLOWED_S = 10.0


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reviews.parquet"
        write_reviews(file)
        plain = _seconds(lambda: board_models(file))
        corrected = _seconds(lambda: board_models(file, people=("person",)))
        advice = _seconds(lambda: advise(file, people=("person",)))
    return [
        Row("board corrected by people", N_SESSIONS, corrected, plain, 0.5, "the plain board"),
        Row("advice for 12 judges", N_SESSIONS, advice, ALLOWED_S, 1.0, "allowed"),
    ]


def _seconds(work: Callable[[], object]) -> float:
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def write_reviews(file: Path) -> None:
    """Write scores of all judges on all sessions, and of a person on some."""
    rng = np.random.default_rng(1)
    quality = rng.normal(0, 1, (N_SESSIONS, N_MODELS)) + np.linspace(1, -1, N_MODELS)
    columns: dict[str, list[object]] = {
        name: [] for name in ("session_id", "reviewer", "candidate", "score")
    }
    for at in range(N_SESSIONS):
        names = [f"judge{j}" for j in range(N_JUDGES)] + (["person"] if at < N_PEOPLE else [])
        for j, reviewer in enumerate(names):
            scores = quality[at] + rng.normal(0, 0.5 + 0.1 * j, N_MODELS)
            columns["session_id"] += [f"s{at}"] * N_MODELS
            columns["reviewer"] += [reviewer] * N_MODELS
            columns["candidate"] += [f"m{i}" for i in range(N_MODELS)]
            columns["score"] += scores.tolist()
    kinds = dict.fromkeys(("session_id", "reviewer", "candidate"), "varchar")
    write_parquet(columns, {**kinds, "score": "double"}, file)
