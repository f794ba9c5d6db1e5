"""Boards corrected by people: speed against plain ones, and coverage; advice for twelve judges.

`./dev bench people=N` takes N samples a row of coverage. Writes a table of docs/judges.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import Row, compare, measure, write_table
from bench._people import HEADS, simulated_coverage
from peerage.engines.duckdb import write_parquet
from peerage.reports.from_tables import advise, board_models

N_SESSIONS, N_MODELS, N_JUDGES = 2_000, 5, 12
N_PEOPLE = 200  # sessions that a person reviewed too
ALLOWED_S = 10.0
N_SAMPLES = 200
NOMINAL, WITHIN = 95.0, 2.0  # per cent that intervals cover, and how far off they may be


def run(n_samples: int = N_SAMPLES) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reviews.parquet"
        write_reviews(file)
        yield compare(
            "board corrected by people",
            lambda: board_models(file, people=("person",)),
            lambda: board_models(file),
            n=N_SESSIONS,
            target=0.5,
            peer_name="the plain board",
        )
        advice = measure("", lambda: advise(file, people=("person",)), n=N_SESSIONS, n_repeats=1)
        yield Row("advice for 12 judges", N_SESSIONS, advice.ours, ALLOWED_S, 1.0, "allowed")
    lines = list(HEADS)
    for one in simulated_coverage(n_samples):
        lines.append(one.line)
        off = abs(100.0 * one.corrected - NOMINAL)
        what = f"coverage off 95%, {100 * one.part:.0f}% labels"
        yield Row(what, n_samples, off, WITHIN, 1.0, "allowed", "points")
    write_table("judges.md", "simulated", lines)


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
