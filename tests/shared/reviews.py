"""Reviews and comparisons as Parquet, made from numbers so that ten million take seconds."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

PANEL = 5
N_MODELS = 20


def write_reviews(
    path: Path, n_rows: int, seed: int = 0, days: float = 0.0, n_models: int = PANEL
) -> None:
    """A season of a panel whose seats review each other: ranks, scores, own votes kept.

    Given days, its sessions are spread over as many, up to now; of more models than a panel has
    seats, neighbours meet.
    """
    import duckdb

    rng = np.random.default_rng(seed)
    n = n_rows // (PANEL * PANEL)
    first = np.arange(n) if n_models > PANEL else np.zeros(n, dtype=int)
    seats = ((first[:, None] + np.arange(PANEL)) % n_models).astype(np.int16)
    quality = np.linspace(0.0, 1.0, n_models)[seats][:, None, :]
    quality = quality + rng.normal(size=(n, 1, PANEL)).astype(np.float32)
    seen = quality + rng.normal(size=(n, PANEL, PANEL)).astype(np.float32)
    rank = (-seen).argsort(axis=2).argsort(axis=2).astype(np.int8) + 1
    session = np.repeat(np.arange(n, dtype=np.int32), PANEL * PANEL)
    columns = {
        "session": session,
        "who": np.repeat(seats.ravel(), PANEL),
        "whom": np.repeat(seats, PANEL, axis=0).ravel(),
        "rank": rank.ravel(),
        "score": np.clip(np.rint(6.0 + seen), 1, 10).astype(np.int8).ravel(),
    }
    if days:
        columns["at"] = time.time() - days * 86_400.0 * (1.0 - session / n)
    with duckdb.connect() as connection:
        connection.register("columns", columns)
        connection.execute(
            "create temp view reviews as select format('s{:08d}', session) as session_id, "
            "'model-' || who as reviewer, 'model-' || whom as candidate, "
            "cast(rank as bigint) as rank, cast(score as double) as score, "
            "columns.* exclude (session, who, whom, rank, score) from columns"
        )
        connection.table("reviews").write_parquet(str(path))


def write_comparisons(path: Path, n_rows: int, seed: int = 0) -> None:
    """Comparisons of twenty models whose strengths are known, one in ten a tie."""
    import duckdb

    rng = np.random.default_rng(seed)
    strength = np.linspace(0.0, 2.0, N_MODELS)
    a = rng.integers(0, N_MODELS, n_rows)
    b = (a + rng.integers(1, N_MODELS, n_rows)) % N_MODELS
    won = rng.random(n_rows) < 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
    outcome = np.where(rng.random(n_rows) < 0.1, 2, np.where(won, 0, 1)).astype(np.int8)
    columns = {"a": a.astype(np.int16), "b": b.astype(np.int16), "outcome": outcome}
    with duckdb.connect() as connection:
        connection.register("columns", columns)
        connection.execute(
            "create temp view comparisons as select format('model-{:02d}', a) as model_a, "
            "format('model-{:02d}', b) as model_b, "
            "['model_a', 'model_b', 'tie'][outcome + 1] as winner from columns"
        )
        connection.table("comparisons").write_parquet(str(path))


def write_votes(path: Path, n_rows: int, seed: int = 0) -> None:
    """Votes as the arena publishes them, as Parquet, CSV, JSON or JSON lines by the suffix."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "comparisons.parquet"
        write_comparisons(plain, n_rows, seed)
        with duckdb.connect() as connection:
            votes = connection.read_parquet(str(plain)).project(
                "md5(cast(row_number() over () as varchar)) as question_id, model_a, model_b, "
                "winner, 'user-' || (row_number() over () * 7919 % 20000) as judge, "
                "'English' as language, 1.7e9 + 13.7 * row_number() over () as tstamp"
            )
            votes.create_view("votes")
            form = {".json": "format json, array true", ".jsonl": "format json"}
            options = form.get(path.suffix, f"format {path.suffix.removeprefix('.')}")
            connection.execute(f"copy votes to '{path}' ({options})")
