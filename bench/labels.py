"""A judge against people: how often intervals cover the truth, and how often advice is false.

`./dev bench labels=N` takes N sets of labels a row; 1,000 take some minutes. Writes the table of
docs/guides/judge.md. The last row is what a user waits for: a file of 10,000 answers.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import Row, write_table
from peerage.findings import Bounded, Scorecard
from peerage.labels.beyond_chance import ac1, kappa
from peerage.labels.judged import Judged
from peerage.labels.scorecards import scorecard
from tests.shared.labelled import judged_verdicts

Floats = NDArray[np.float64]

N_SETS = 100
N_ANSWERS = 1_000
N_LABELS = (20, 40, 80, 400)
ROWS = 4  # answers a query, where several share one
SHARED = 0.5  # how often an answer to a shared query has its query's quality and the judge's error
LEAST = 91.5  # per cent, of one truth; a set of a thousand has an error of ±1.4
MEAN = 93.0
LEAST_SHARED = 91.0
FALSE_TRUST, FALSE_WARNING = 6.0, 6.0
N_ROWS, ALLOWED_S = 10_000, 2.0


class Truth(NamedTuple):
    """What a judge truly does: how often it is right on passes and on fails, and how many pass."""

    tpr: float
    tnr: float
    base: float

    @property
    def table(self) -> Floats:
        """The shares of judge × people, fails first."""
        p, q = self.base, 1.0 - self.base
        return np.array([[q * self.tnr, p * (1 - self.tpr)], [q * (1 - self.tnr), p * self.tpr]])

    @property
    def values(self) -> dict[str, float]:
        """The true value of each figure."""
        (_, miss), (false_pass, hit) = self.table.tolist()
        return {
            "false_pass_rate": 1.0 - self.tnr,
            "false_fail_rate": 1.0 - self.tpr,
            "precision": hit / (hit + false_pass),
            "accuracy": 1.0 - miss - false_pass,
            "kappa": float(kappa(self.table)),
            "ac1": float(ac1(self.table)),
            "corrected": self.base,
        }


TRUTHS = (
    Truth(0.95, 0.95, 0.5),
    Truth(0.95, 0.43, 0.5),
    Truth(0.9, 0.8, 0.7),
    Truth(0.8, 0.9, 0.85),
    Truth(0.7, 0.7, 0.5),
    Truth(0.6, 0.95, 0.3),
    Truth(0.98, 0.9, 0.8),
    Truth(0.85, 0.55, 0.2),
    Truth(0.9, 0.9, 0.35),
)
GROUPS = {
    "rates": ("false_pass_rate", "false_fail_rate", "precision", "accuracy"),
    "κ, AC1": ("kappa", "ac1"),
    "corrected pass rate": ("corrected",),
}


def drawn(rng: np.random.Generator, truth: Truth, n_labels: int, rows: int) -> Judged:
    """Return answers of which some have labels; with several rows a query, they resemble it."""
    n = N_ANSWERS
    group = np.arange(n) // rows
    good = rng.random(n) < truth.base
    luck = rng.random(n)
    if rows > 1:
        alike = rng.random(n) < SHARED
        good = np.where(alike, good[group * rows], good)
        luck = np.where(alike, luck[group * rows], luck)
    right = luck < np.where(good, truth.tpr, truth.tnr)
    people = np.full(n, np.nan)
    people[:n_labels] = good[:n_labels]
    verdicts = np.where(right, good, ~good).astype(np.float64)
    return judged_verdicts(verdicts, people, group=group)


def figure(card: Scorecard, name: str) -> Bounded | None:
    """Return one figure of a scorecard by its name."""
    if name != "corrected":
        found: Bounded | None = getattr(card, name)
        return found
    return None if card.pass_rate is None else card.pass_rate.best


def coverage(n_sets: int, n_labels: int, rows: int) -> dict[str, tuple[float, float]]:
    """Return the least and the mean coverage, in per cent, of each group of figures."""
    by_group: dict[str, list[float]] = {name: [] for name in GROUPS}
    for place, truth in enumerate(TRUTHS):
        hits, n = Counter[str](), Counter[str]()
        rng = np.random.default_rng((place, n_labels, rows))
        for _ in range(n_sets):
            card = scorecard(drawn(rng, truth, n_labels, rows))
            for name, value in truth.values.items():
                found = figure(card, name)
                if found is not None and found.low is not None and found.high is not None:
                    n[name] += 1
                    hits[name] += found.low - 1e-9 <= value <= found.high + 1e-9
        for group, names in GROUPS.items():
            by_group[group] += [100.0 * hits[name] / n[name] for name in names if n[name]]
    return {name: (min(some), sum(some) / len(some)) for name, some in by_group.items() if some}


def false_advice(n_sets: int, truth: Truth, word: str) -> float:
    """Return how often, in per cent, a judge gets a word that it does not deserve."""
    worst = 0.0
    for n_labels in N_LABELS:
        rng = np.random.default_rng((7, n_labels))
        cards = (scorecard(drawn(rng, truth, n_labels, 1)) for _ in range(n_sets))
        worst = max(worst, 100.0 * sum(card.advice == word for card in cards) / n_sets)
    return worst


def run(n_sets: int = N_SETS) -> Iterator[Row]:
    lines = [
        "| least (mean) coverage, % | labels | one answer a query | four answers a query |",
        "|---|---|---|---|",
    ]
    for n_labels in N_LABELS:
        alone, shared = (coverage(n_sets, n_labels, rows) for rows in (1, ROWS))
        for name, (least, mean) in alone.items():
            least_shared, mean_shared = shared.get(name, (100.0, 100.0))
            lines.append(
                f"| {name} | {n_labels} | {least:.1f} ({mean:.1f}) "
                f"| {least_shared:.1f} ({mean_shared:.1f}) |"
            )
            off = 100.0 - min(least, mean - (MEAN - LEAST))
            yield Row(f"missed, {name}, {n_labels} labels", n_sets, off, 100 - LEAST, 1.0, "", "%")
            yield Row(
                f"the same, {ROWS} a query",
                n_sets,
                100 - least_shared,
                100 - LEAST_SHARED,
                1.0,
                "",
                "%",
            )
    trust = false_advice(n_sets, Truth(0.95, 0.8, 0.5), "trust")
    yield Row("false trust", n_sets, trust, FALSE_TRUST, 1.0, "allowed", "%")
    warned = false_advice(n_sets, Truth(0.9, 0.7, 0.5), "do_not_rely_on")
    yield Row("false warning", n_sets, warned, FALSE_WARNING, 1.0, "allowed", "%")
    lines += ["", f"Judges exactly at the limit are trusted in {trust:.1f}% and warned of in "]
    lines[-1] += f"{warned:.1f}% of {n_sets:,} sets, at the worst number of labels."
    write_table("guides/judge.md", "coverage", lines)
    yield Row("audit of 10,000 answers", N_ROWS, seconds_of_a_file(), ALLOWED_S, 1.0, "allowed")


def seconds_of_a_file() -> float:
    """Return the CPU seconds of `peerage audit` on a file with labels, a start included."""
    import resource

    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one_judge.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["id", "input", "output", "human", "judge"])
            for i in range(N_ROWS):
                label = ("pass", "fail")[int(rng.integers(2))] if i % 20 == 0 else ""
                text = "word " * int(rng.integers(5, 60))
                table.writerow([i, f"question {i}", text, label, int(rng.integers(2))])
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(  # noqa: S603 — our own program on our own file
            [sys.executable, "-m", "peerage", "audit", str(path), "--json"],
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
