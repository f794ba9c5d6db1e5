"""Calibration of the panel's probability on simulated panels whose judges err together.

Nine judges see each question: six give probabilities that are too sure, three give yes or no. A
part of their noise is shared. The expected calibration error of the panel with 0, 100 and 400
labelled questions stands beside that of the best single judge, chosen in hindsight. Writes the
table of docs/decision-models.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench import Row, write_table
from peerage.panel_probabilities import Labelled, record_of
from peerage.stats.probabilities import Floats
from peerage.types import TypedQuestion
from tests.shared.rates import calibration_error

SHARED = (0.0, 0.3, 0.6)  # of the judges' noise
# By number of labels, the best judge's error over the panel's, at least.
TARGETS = {0: 0.1, 100: 1.0, 400: 1.0}
LABELS = tuple(TARGETS)
N_TEST, N_REPEATS = 1_000, 20
N_SOFT, N_HARD = 6, 3
SKILL, SURE = (0.5, 1.0), 2.5
QUESTION = TypedQuestion("q", "predicate", "It is so.")


def run() -> list[Row]:
    """A row for each share of noise and number of labels; the table is written as well."""
    rows, lines = [], []
    for shared in SHARED:
        errors = np.array([measure(shared, seed) for seed in range(N_REPEATS)])
        means, spread = errors.mean(axis=0), 1.96 * errors.std(axis=0, ddof=1) / N_REPEATS**0.5
        cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(means, spread, strict=True)]
        lines.append([f"{shared:.1f}", *cells])
        for (labels, target), value in zip(TARGETS.items(), means[:-1], strict=True):
            name = f"shared noise {shared}, {labels} labels"
            ours, beside = 1000 * float(value), 1000 * float(means[-1])
            rows.append(Row(name, N_TEST * N_REPEATS, ours, beside, target, "best judge", "‰"))
    head = ["shared noise", *(f"{n} labels" for n in LABELS), "best single judge"]
    table = [head, ["---:"] * len(head), *lines]
    write_table("decision-models.md", "calibration", (f"| {' | '.join(one)} |" for one in table))
    return rows


def measure(shared: float, seed: int) -> list[float]:
    """The calibration error of the panel by labels, and then that of the best judge."""
    rng = np.random.default_rng([seed, round(100 * shared)])
    truth, votes = draw(rng, max(LABELS) + N_TEST, shared)
    known = [
        Labelled(f"s{i}", "predicate", by_seat(votes[i]), int(not truth[i]))
        for i in range(max(LABELS))
    ]
    test = slice(max(LABELS), None)
    errors = []
    for n in LABELS:
        record = record_of(known[:n])
        answers = [record.answer(QUESTION, by_seat(one)) for one in votes[test]]
        chances = np.array([one.probabilities[0] for one in answers if one is not None])
        errors.append(calibration_error(chances, truth[test]))
    singles = [calibration_error(votes[test, j], truth[test]) for j in range(votes.shape[1])]
    return [*errors, min(singles)]


def draw(rng: np.random.Generator, n: int, shared: float) -> tuple[Floats, Floats]:
    """The truth of questions, and the votes of all judges on them."""
    truth = (rng.random(n) < 0.4).astype(np.float64)
    n_judges = N_SOFT + N_HARD
    skill = rng.uniform(*SKILL, n_judges)
    common = rng.standard_normal((n, 1))
    own = rng.standard_normal((n, n_judges))
    noise = shared**0.5 * common + (1 - shared) ** 0.5 * own
    evidence = (2 * truth[:, None] - 1) * skill + noise
    soft = 1 / (1 + np.exp(-SURE * evidence))
    soft[:, N_SOFT:] = evidence[:, N_SOFT:] > 0
    return truth, soft


def by_seat(votes: Sequence[float] | Floats) -> dict[str, tuple[float, ...]]:
    """The votes of judges on one question, by name."""
    return {f"j{i}": (float(vote), 1 - float(vote)) for i, vote in enumerate(votes)}
