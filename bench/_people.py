"""How often corrected shares cover the truth: on judgements of people, and on simulated judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
Ints = NDArray[np.int64]
PARTS = (0.05, 0.1, 0.2)  # of the queries that people label
N_QUERIES, N_MODELS, N_JUDGES = 600, 5, 3
N_TRUTH = 200_000  # simulated queries that the truth is the mean of


class Sample(NamedTuple):
    """Queries by models: rows with their query and model, the people's shares and the judges'."""

    query: Ints
    model: Ints
    people: Floats
    judges: Floats  # rows by judges


class Coverage(NamedTuple):
    """Coverage and mean half-width of corrected shares, and of people's alone."""

    part: float
    corrected: float
    half: float
    people: float
    half_people: float

    @property
    def line(self) -> str:
        """The row of a table in Markdown."""
        return (
            f"| {100 * self.part:.0f}% | {100 * self.corrected:.1f}% | {self.half:.3f} "
            f"| {100 * self.people:.1f}% | {self.half_people:.3f} |"
        )


HEADS = (
    "| queries with people | corrected covers | half-width | people alone cover | half-width |",
    "|---|---|---|---|---|",
)


def coverage(
    draw: Callable[[np.random.Generator], Sample], truth: Floats, n_runs: int
) -> Iterator[Coverage]:
    """Yield the coverage of a truth at several parts of labels, from so many samples each."""
    rng = np.random.default_rng(1)
    for part in PARTS:
        hits: list[tuple[Floats, ...]] = []
        for _ in range(n_runs):
            one = draw(rng)
            n, size = int(one.query.max()) + 1, len(truth)
            labelled = np.isin(one.query, rng.permutation(n)[: round(part * n)])
            labels = np.where(labelled, one.people, np.nan)
            folds, alone = rng.integers(0, 2048, n), one.judges[:, :0]
            both = corrected_means(one.query, one.model, one.judges, labels, folds, size)
            people = corrected_means(one.query, one.model, alone, labels, folds, size)
            covered = (np.abs(means.value - truth) <= means.half for means in (both, people))
            hits.append((*(one.astype(float) for one in covered), both.half, people.half))
        corrected, of_people, half, half_people = np.mean(hits, axis=(0, 2))
        yield Coverage(part, float(corrected), float(half), float(of_people), float(half_people))


def coverage_of(file: Path, n_runs: int) -> Iterator[Coverage]:
    """Yield the coverage on a file of reviews by people and judges, queries drawn anew."""
    engine = DuckDB()
    engine.admit(file.parent)
    shares = judge_shares(in_one_block(read_reviews(engine, file).load()))
    is_person = np.array([name.startswith("human") for name in shares.reviewers])
    people, judges = row_means(shares.share[:, is_person]), shares.share[:, ~is_person]
    n, n_models = len(shares.units), len(shares.models)
    truth = np.array([people[shares.model == one].mean() for one in range(n_models)])
    starts = np.searchsorted(shares.unit, np.arange(n + 1))

    def draw(rng: np.random.Generator) -> Sample:
        drawn = rng.integers(0, n, n)
        rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in drawn])
        query = np.repeat(np.arange(n), starts[drawn + 1] - starts[drawn])
        return Sample(query, shares.model[rows], people[rows], judges[rows])

    return coverage(draw, truth, n_runs)


def simulated_coverage(n_runs: int) -> Iterator[Coverage]:
    """Yield the coverage with judges who favour the first model and share half of their errors."""

    def shares_of(seen: Floats) -> Floats:
        beaten = (seen[..., :, None] > seen[..., None, :]).sum(axis=-1)
        shares: Floats = beaten / (seen.shape[-1] - 1.0)
        return shares

    def draw_queries(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        quality = rng.normal(size=(n, N_MODELS)) + np.linspace(0.5, -0.5, N_MODELS)
        people = shares_of(quality + rng.normal(0, 0.7, quality.shape))
        shared = rng.normal(0, 0.6, (n, N_MODELS, 1))
        seen = quality[:, :, None] + shared + rng.normal(0, 0.6, (n, N_MODELS, N_JUDGES))
        seen[:, 0] += 0.8
        return people, shares_of(seen.swapaxes(1, 2)).swapaxes(1, 2)

    def draw(rng: np.random.Generator) -> Sample:
        people, judges = draw_queries(rng, N_QUERIES)
        query, model = np.divmod(np.arange(people.size), N_MODELS)
        return Sample(query, model, people.ravel(), judges.reshape(people.size, N_JUDGES))

    truth = draw_queries(np.random.default_rng(0), N_TRUTH)[0].mean(axis=0)
    return coverage(draw, truth, n_runs)
