"""How often corrected shares cover the truth: on real judgements of people, drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.reports.people_reviews import in_one_block
from peerage.reviews.judge_shares import judge_shares, row_means
from peerage.stats.corrected_means import corrected_means

Floats = NDArray[np.float64]
PARTS = (0.05, 0.1, 0.2)  # of the queries that people label


class Coverage(NamedTuple):
    """Coverage and mean half-width of corrected shares, and of people's alone."""

    part: float
    corrected: float
    half: float
    people: float
    half_people: float


def coverage_of(file: Path, n_runs: int, seed: int = 1) -> Iterator[Coverage]:
    """Yield the coverage at several parts of labels; sessions are drawn anew for each run."""
    engine = DuckDB()
    engine.admit(file.parent)
    shares = judge_shares(in_one_block(read_reviews(engine, file).load()))
    is_person = np.array([name.startswith("human") for name in shares.reviewers])
    people, judges = row_means(shares.share[:, is_person]), shares.share[:, ~is_person]
    n, n_models = len(shares.units), len(shares.models)
    truth = np.array([people[shares.model == one].mean() for one in range(n_models)])
    starts = np.searchsorted(shares.unit, np.arange(n + 1))
    rng = np.random.default_rng(seed)
    for part in PARTS:
        hits: list[tuple[Floats, ...]] = []
        for _ in range(n_runs):
            drawn = rng.integers(0, n, n)
            rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in drawn])
            cluster = np.repeat(np.arange(n), starts[drawn + 1] - starts[drawn])
            labelled = np.isin(cluster, rng.permutation(n)[: round(part * n)])
            labels = np.where(labelled, people[rows], np.nan)
            folds, model = rng.integers(0, 2048, n), shares.model[rows]
            both = corrected_means(cluster, model, judges[rows], labels, folds, n_models)
            none = np.zeros((len(rows), 0))
            alone = corrected_means(cluster, model, none, labels, folds, n_models)
            covered = (np.abs(one.value - truth) <= one.half for one in (both, alone))
            hits.append((*(one.astype(float) for one in covered), both.half, alone.half))
        corrected, of_people, half, half_people = np.mean(hits, axis=(0, 2))
        yield Coverage(part, float(corrected), float(half), float(of_people), float(half_people))
