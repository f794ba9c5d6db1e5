"""`python -m bench._validate DIR`: published figures on real judgements, by our own sums.

DIR holds the Parquet files by their names, in whatever folder; what is not there is said and
skipped. Ends with 1 if a figure differs by more than its last digit, with 2 if there was nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from bench._people import coverage_of
from bench._validate_community import validate as validate_community
from bench.gate import told_apart
from peerage.boards.differences import Comparison, query_differences
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.reports.from_tables import audit
from peerage.reports.people_reviews import in_one_block
from peerage.stats.correlations import correlation

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Check:
    """A figure as published, as found, and how far they may be apart."""

    what: str
    published: float
    found: float
    within: float
    at_most: bool = False  # less than the figure is right too

    @property
    def ok(self) -> bool:
        off = self.found - self.published
        return (off if self.at_most else abs(off)) <= self.within


PRD_FIRST = {"bard": 0.801, "claude": 0.373, "gpt-3.5": 0.492, "gpt-4": 0.605, "vicuna": 0.409}
PRD_STABLE = {
    "bard": 0.3688,
    "claude": 0.5487,
    "gpt-3.5": 0.6913,
    "gpt-4": 0.6887,
    "vicuna": 0.3738,
}
PRD_SELF = {"gpt-4": 0.133, "vicuna": 0.060, "bard": 0.054, "claude": 0.011, "gpt-3.5": -0.032}
PRD_LENGTH = {
    "all": 0.4834,
    "bard": 0.4427,
    "claude": 0.5728,
    "gpt-3.5": 0.5237,
    "gpt-4": 0.5190,
    "vicuna": 0.3425,
}
POSITION_STABLE = {
    ("MTBench", "gpt-4-0613"): 81.54,
    ("MTBench", "gpt-3.5-turbo-1106"): 69.59,
    ("MTBench", "gemini-pro"): 57.47,
    ("DevBench", "claude-3-haiku-20240307"): 22.75,
    ("DevBench", "gpt-4-0613"): 82.77,
}
WITHIN = 0.001  # of a figure given to three digits or four
TWO_DECIMALS = 0.006
COVERAGE_WITHIN = 2.0  # points
N_DRAWS = 200
N_GATES, N_LOOKS, MIN_QUERIES = 2_000, 400, 50  # runs of a gate, looks in each, queries of a pair


def columns_of(file: Path, *keep: nw.Expr) -> Arrays:
    """A file's columns, of the rows that all these conditions keep."""
    engine = DuckDB()
    frame = engine.open(file)
    for condition in keep:
        frame = frame.filter(condition)
    return engine.arrays(frame)


def stable_by_reviewer(table: Arrays) -> dict[str, float]:
    """The share of verdicts that are the same in both orders.

    Counted by verdict, and a verdict without its pair differs from none: of the readings
    that were tried, the one that gives every published figure to its last digit.
    """
    answers = np.array(
        [
            f"{s}\n{r}\n{c}"
            for s, r, c in zip(
                table["session_id"], table["reviewer"], table["candidate"], strict=True
            )
        ]
    )
    _, code = np.unique(answers, return_inverse=True)
    low, high = np.full(code.max() + 1, np.inf), np.full(code.max() + 1, -np.inf)
    np.minimum.at(low, code, table["score"])
    np.maximum.at(high, code, table["score"])
    same = (low == high)[code]
    return {str(r): float(same[table["reviewer"] == r].mean()) for r in set(table["reviewer"])}


def first_by_reviewer(table: Arrays) -> dict[str, float]:
    first = table["position"] == 0
    return {
        str(r): float(table["score"][first & (table["reviewer"] == r)].mean())
        for r in set(table["reviewer"])
    }


def prd_pairs(file: Path) -> Iterator[Check]:
    table = columns_of(file)
    first, stable = first_by_reviewer(table), stable_by_reviewer(table)
    for name, figure in PRD_FIRST.items():
        yield Check(f"PRD first-shown mean score, {name}", figure, first[name], WITHIN)
    for name, figure in PRD_STABLE.items():
        yield Check(f"PRD same verdict in both orders, {name}", figure, stable[name], WITHIN)
    mine = table["reviewer"] == table["candidate"]
    for name, figure in PRD_SELF.items():
        about = table["candidate"] == name
        gap = table["score"][about & mine].mean() - table["score"][about & ~mine].mean()
        yield Check(f"PRD self-preference, {name}", figure, float(gap), WITHIN)


def prd_lists(file: Path) -> Iterator[Check]:
    table = columns_of(file)
    for name, figure in PRD_LENGTH.items():
        kept = (table["reviewer"] == name) | (name == "all")
        r = correlation(table["words"][kept].astype(float), table["score"][kept])
        yield Check(f"PRD length–score r, {name}", figure, r or 0.0, WITHIN)


def position_bias(file: Path) -> Iterator[Check]:
    table = columns_of(file, nw.col("round") < 2)
    benchmark = np.array([str(s).partition("|")[0] for s in table["session_id"]])
    for (name, judge), figure in POSITION_STABLE.items():
        part = {column: values[benchmark == name] for column, values in table.items()}
        found = 100 * stable_by_reviewer(part)[judge]
        yield Check(
            f"Position bias, stable when swapped, {name} {judge}", figure, found, TWO_DECIMALS
        )
        if judge.startswith("claude-3-haiku"):
            first = first_by_reviewer(part)[judge]
            yield Check(f"Position bias, first-shown score, {name} {judge}", 0.127, first, WITHIN)


def llmbar(file: Path) -> Iterator[Check]:
    table = columns_of(file, nw.col("category").str.starts_with("LLMBar"))
    stable, first = stable_by_reviewer(table), first_by_reviewer(table)
    better = table["ground_truth"] == 1
    gpt, falcon = "GPT-4|Vanilla", "Falcon|Vanilla"
    accuracy = table["score"][better & (table["reviewer"] == gpt)].mean()
    yield Check("LLMBar stable when swapped, GPT-4", 92.84, 100 * stable[gpt], TWO_DECIMALS)
    yield Check("LLMBar accuracy, GPT-4", 0.8449, float(accuracy), WITHIN)
    yield Check("LLMBar stable when swapped, Falcon", 41.53, 100 * stable[falcon], TWO_DECIMALS)
    yield Check("LLMBar first-shown share, Falcon", 0.7757, first[falcon], WITHIN)


def pandalm(file: Path) -> Iterator[Check]:
    """Corrected shares are to cover 93 to 97% at each part of human labels."""
    for one in coverage_of(file, N_DRAWS):
        what = f"PandaLM coverage of corrected shares, {100 * one.part:.0f}% human labels"
        alone = f"people alone {100 * one.people:.1f}%, half-width {one.half_people:.3f}"
        yield Check(
            f"{what} (half-width {one.half:.3f}; {alone})",
            95.0,
            100 * one.corrected,
            COVERAGE_WITHIN,
        )


def gate_signs(file: Path) -> Iterator[Check]:
    """Differences of two models with random signs are to be told apart in at most 5%."""
    engine = DuckDB()
    engine.admit(file.parent)
    rows = in_one_block(read_reviews(engine, file).load())
    names = sorted({rows.names[code] for code in np.unique(rows.candidate).tolist()})
    pairs = [query_differences(rows, Comparison(*pair)) for pair in combinations(names, 2)]
    paths = [pair.by_measure[0] for pair in pairs if pair.n >= MIN_QUERIES]
    rng = np.random.default_rng(1)

    def draw() -> NDArray[np.float64]:
        path = paths[int(rng.integers(len(paths)))]
        signs = np.where(rng.random(N_LOOKS) < 0.5, -1.0, 1.0)
        drawn: NDArray[np.float64] = path[rng.integers(0, len(path), N_LOOKS)] * signs
        return drawn

    n = told_apart(draw() for _ in range(N_GATES))
    what = f"gate, false decisions in {N_GATES:,} runs of {N_LOOKS} looks, {file.stem}"
    error = 1.96 * 100.0 * (0.05 * 0.95 / N_GATES) ** 0.5
    yield Check(f"{what} (% at most)", 5.0, 100.0 * n / N_GATES, error, at_most=True)


def pandalm_checks(file: Path) -> Iterator[Check]:
    yield from pandalm(file)
    yield from gate_signs(file)


def prd_list_checks(file: Path) -> Iterator[Check]:
    yield from prd_lists(file)
    yield from gate_signs(file)


FILES: dict[str, Callable[[Path], Iterator[Check]]] = {
    "prd_vicuna80_pairs.parquet": prd_pairs,
    "prd_vicuna80_reviews.parquet": prd_list_checks,
    "position_bias_pairs.parquet": position_bias,
    "llmbar_vanilla_pairs.parquet": llmbar,
    "pandalm_reviews.parquet": pandalm_checks,
}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m bench._validate DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    n = wrong = 0
    for name, checks in FILES.items():
        file = next(folder.rglob(name), None)
        if file is None:
            print(f"not there, so not checked: {name}")
            continue
        for check in checks(file):
            n += 1
            wrong += not check.ok
            verdict = "ok   " if check.ok else "WRONG"
            print(f"{verdict} {check.what}: {check.published:g} published, {check.found:.4f} found")
        found = audit(file)
        evidence = [
            f"{one.metric} {one.subject}" for one in found.findings if one.status == "evidence"
        ]
        print(
            f"      the audit names, of {len(found.findings)}: {', '.join(evidence) or 'nothing'}"
        )
    for point in validate_community(folder):
        n += point.ok is not None
        wrong += point.ok is False
        verdict = {True: "ok   ", False: "WRONG", None: "     "}[point.ok]
        print(f"{verdict} {point.what}: {point.theirs or 'nothing'} published, {point.ours} found")
    print(f"{n - wrong} of {n} published figures come out")
    return 2 if n == 0 else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
