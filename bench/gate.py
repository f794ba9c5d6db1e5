"""The gate: false decisions, sessions to a decision, and its speed; how few queries carry a board.

Two equal models are looked at after every query and are to be told apart in at most 5% of the
runs. `./dev bench gate=N` takes N runs a row, and a third of them for orders, the guard, several
candidates and repeats. Writes the tables of docs/gate.md.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import Row, compare, measure, write_table
from bench._gate_designs import (
    EQUAL,
    GUARDED,
    ORDERS,
    REPEATS,
    Panel,
    advantage_for,
    candidate_counts,
    growing_counts,
    guard_counts,
    order_counts,
    rate,
    repeat_counts,
)
from peerage.reports.from_tables import board_models, gate
from peerage.stats.bets import EvidenceBar, GateVerdict, decide, first_looks, log_evidence
from tests.shared.rates import wilson_interval
from tests.shared.reviews import write_reviews

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Floats]  # n differences with a true mean

N_RUNS = 2_000
N_QUERIES = 400  # of a run without a true difference
MOST = 2_000  # queries of a run with one; a run that needs more counts as this
GAPS = (0.05, 0.1, 0.2)
BAR = EvidenceBar()
ALLOWED = 100.0 * BAR.alpha
POWER_Z = 0.8416  # a fixed n is planned to find the difference in 80%
TWO_SIDED_Z = 1.96
BURN_IN = 20  # queries before an asymptotic sequence may decide
BEST_AT = 100  # queries at which it is narrowest
SUITE = 150
N_SESSIONS = 10_000
ALLOWED_S = 1.0
N_MODELS, N_BOARD_SESSIONS, PER_SESSION = 200, 5_000, 25


# -- differences of simulated queries --------------------------------------------------------------


def draw_panel(n_models: int, n_judges: int) -> Draw:
    """Return draws from panels whose judges share half of the variance of their error.

    Candidates are ranked by each judge; the difference is that of the mean shares of two of them.
    """
    panel = Panel(n_models, n_judges)

    def draw(rng: np.random.Generator, n: int, gap: float) -> Floats:
        difference: Floats = panel.gaps(rng, n, advantage_for(panel, gap)).mean(axis=1)
        return difference

    return draw


def draw_sparse(rng: np.random.Generator, n: int, gap: float) -> Floats:
    """Return differences of pass/fail checks: nine of ten are ties, the others +1 or −1."""
    up, down = 0.05 + gap / 2, 0.05 - gap / 2
    if down < 0.0:
        up, down = gap, 0.0
    drawn = rng.random(n)
    return np.where(drawn < up, 1.0, np.where(drawn < up + down, -1.0, 0.0))


def draw_rare(rng: np.random.Generator, n: int, gap: float) -> Floats:
    """Return small gains and rare total failures, the two in balance where the gap is 0."""
    fails = rng.random(n) < (0.05 - gap) / 1.05
    return np.where(fails, -1.0, 0.05)


DRAWS: dict[str, Draw] = {
    "pass/fail, nine of ten ties": draw_sparse,
    "small gains, rare failures": draw_rare,
    "5 models, 4 judges who share errors": draw_panel(5, 4),
    "2 models, 3 judges who share errors": draw_panel(2, 3),
}


# -- decisions -------------------------------------------------------------------------------------


def decision(path: Floats, bar: EvidenceBar = BAR) -> GateVerdict:
    """Return the gate's verdict on a path of differences, looked at after each."""
    return decide(first_looks([log_evidence(path, bar)], bar)[0])


def told_apart(paths: Iterator[Floats], bar: EvidenceBar = BAR) -> int:
    """Return how many paths are decided as better or worse."""
    return sum(decision(path, bar).verdict in ("better", "worse") for path in paths)


def alarm_row(name: str, k: int, n: int, allowed: float = ALLOWED) -> Row:
    """Return the share of false decisions that so many runs show at least, next to the limit."""
    low, _ = wilson_interval(k, n) or (0.0, 1.0)
    return Row(name, n, 100.0 * low, allowed, 1.0, "allowed", "%")


def draw_suite(rng: np.random.Generator) -> Floats:
    """Return a suite of queries in random order whose differences add up to 0, in thirds."""
    half = rng.integers(-3, 4, SUITE // 2) / 3.0
    return rng.permutation(np.concatenate([half, -half]))


def false_decisions(n_runs: int) -> Iterator[tuple[str, int]]:
    """Yield how many of the runs of each kind decide between equals, or pass what is worse."""
    for name, draw in DRAWS.items():
        rng = np.random.default_rng(1)
        yield (
            f"equal: {name}",
            told_apart(draw(rng, N_QUERIES, 0.0) for _ in range(n_runs)),
        )
    rng = np.random.default_rng(2)
    on_suite = EvidenceBar(suite=SUITE)
    yield (
        f"equal: fixed suite of {SUITE} queries",
        told_apart((draw_suite(rng) for _ in range(n_runs)), on_suite),
    )
    for name, draw in DRAWS.items():
        rng = np.random.default_rng(3)
        runs = (-draw(rng, N_QUERIES, BAR.margin) for _ in range(n_runs))
        if draw is draw_rare:  # its failures make the candidate worse, not better
            runs = (draw(rng, N_QUERIES, -BAR.margin) for _ in range(n_runs))
        passed = sum(decision(path).verdict in ("better", "same", "not_worse") for path in runs)
        yield f"worse by {BAR.margin:g}: {name}", passed


# -- sessions to a decision ------------------------------------------------------------------------


def first_difference(path: Floats) -> int:
    """Return after how many queries the gate tells two models apart, at most MOST."""
    stood = first_looks([log_evidence(path, BAR)], BAR)[0]
    return min(MOST, stood["better"], stood["worse"])


def fixed_n(sd: float, gap: float) -> int:
    """Return the queries that a two-sided z test needs, planned for exactly this difference."""
    return math.ceil(((TWO_SIDED_Z + POWER_Z) * sd / gap) ** 2)


def first_asymptotic(path: Floats) -> int:
    """Return after how many queries an asymptotic confidence sequence excludes 0, at most MOST.

    Robbins' normal mixture with the running standard deviation (Waudby-Smith et al. 2021). Its
    error is right only in the limit, so that the gate does not decide by it.
    """
    n = np.arange(1, len(path) + 1)
    mean = np.cumsum(path) / n
    sd = np.sqrt(np.maximum(np.cumsum(path**2) / n - mean**2, 0.0))
    level = -2.0 * math.log(BAR.alpha)
    rho = (level + math.log(level) + 1.0) / BEST_AT
    half = np.sqrt(
        2.0 * (n * rho + 1.0) / (n**2 * rho) * np.log(np.sqrt(n * rho + 1.0) / BAR.alpha)
    )
    out = np.flatnonzero((np.abs(mean) > sd * half) & (n >= BURN_IN))
    return int(out[0]) + 1 if len(out) else MOST


def session_lines(n_runs: int) -> Iterator[str]:
    """Yield the table of sessions that it takes to tell two models apart."""
    yield "| differences | sd | true | gate: median, mean | fixed n | asymptotic: median, mean |"
    yield "|---|---|---|---|---|---|"
    for name, draw in DRAWS.items():
        for gap in GAPS if draw is not draw_rare else ():
            rng = np.random.default_rng(4)
            paths = [draw(rng, MOST, gap) for _ in range(n_runs)]
            sd = float(np.std(np.concatenate(paths[:20])))
            cells = []
            for first in (first_difference, first_asymptotic):
                n = np.array([first(path) for path in paths])
                more = ">" if np.median(n) >= MOST else ""
                at_least = ">" if (n >= MOST).any() else ""
                cells.append(f"{more}{np.median(n):,.0f}, {at_least}{n.mean():,.0f}")
            planned = f"{fixed_n(sd, gap):,}"
            yield f"| {name} | {sd:.2f} | {gap:.2f} | {cells[0]} | {planned} | {cells[1]} |"


# -- orders, the guard, several candidates, repeats ------------------------------------------------

CANDIDATES = (2, 4, 8)
BETTER_BY = 0.15  # mean difference of one candidate from the base
BLOCKED = 7.0  # percent of equal models that the guard and the verdict may block together


@dataclass(frozen=True, slots=True)
class Trials:
    """A table of simulated gates, and the counts of false verdicts that must stay small."""

    lines: list[str]
    alarms: dict[str, int] = field(default_factory=dict)
    allowed: float = ALLOWED


def try_orders(n_runs: int) -> Trials:
    """Count verdicts where the order of the queries goes with their outcomes."""
    trials = Trials(
        [
            f"| {n_runs:,} gates of 200 queries | as recorded | hash | the gate |",
            "|---|---|---|---|",
        ]
    )
    for name, draw in ORDERS.items():
        counts = order_counts(draw, n_runs)
        trials.lines.append(f"| {name} | {' | '.join(rate(k, n_runs) for k in counts)} |")
        if name.startswith(EQUAL):
            trials.alarms[name] = counts[-1]
    name = f"{EQUAL}a store that grows, a gate after every ten queries"
    anew, kept = growing_counts(n_runs)
    trials.lines.append(
        f"| {name} | – | anew at each: {rate(anew, n_runs)} | {rate(kept, n_runs)} |"
    )
    trials.alarms[name] = kept
    return trials


def try_candidates(n_runs: int) -> Trials:
    """Count the gates that call an equal candidate different, or find a better one."""
    head = "| candidates | equal: a gate for each | equal: together | one better by .15: found |"
    trials = Trials([head, "|---|---|---|---|"])
    for n in (1, *CANDIDATES):
        alone, together, _ = candidate_counts(n, 0.0, n_runs)
        _, _, found = candidate_counts(n, BETTER_BY, n_runs)
        cells = " | ".join(rate(k, n_runs) for k in (alone, together, found))
        trials.lines.append(f"| {n} | {cells} |")
        trials.alarms[f"{EQUAL}{n} candidates"] = together
    return trials


def try_repeats(n_runs: int) -> Trials:
    """Count verdicts where some queries are asked more often than others."""
    heads = ("all sessions averaged", "the gate", "as without extras")
    head = f"| {n_runs:,} gates of 100 queries | {' | '.join(heads)} |"
    trials = Trials([head, "|---|---|---|---|"])
    for name, design in REPEATS.items():
        averaged, first, same = repeat_counts(design, n_runs)
        cells = f"{rate(averaged, n_runs)} | {rate(first, n_runs)} | {same:,} of {n_runs:,}"
        trials.lines.append(f"| {name} | {cells} |")
        trials.alarms[f"{name}: another verdict than without"] = n_runs - same
        if name.startswith(EQUAL):
            trials.alarms[name] = first
    return trials


def try_guard(n_runs: int) -> Trials:
    """Count the candidates that a gate with its guard blocks."""
    head = f"| {n_runs:,} gates with the guard | blocked, as worse or by the guard | by the guard |"
    trials = Trials([head, "|---|---|---|"], allowed=BLOCKED)
    for name, design in GUARDED.items():
        counts = guard_counts(design, n_runs)
        trials.lines.append(f"| {name} | {' | '.join(rate(k, n_runs) for k in counts)} |")
        if name.startswith(EQUAL):
            trials.alarms[name] = counts[0]
    return trials


TRIALS: dict[str, Callable[[int], Trials]] = {  # by their tables in docs/gate.md
    "orders": try_orders,
    "candidates": try_candidates,
    "repeats": try_repeats,
    "guard": try_guard,
}


def trial_rows(name: str, n_runs: int) -> Iterator[Row]:
    """Write a table of simulated gates, and yield a row for each count that must stay small."""
    trials = TRIALS[name](n_runs)
    write_table("gate.md", name, trials.lines)
    for about, k in trials.alarms.items():
        yield alarm_row(f"false: {about}", k, n_runs, trials.allowed)


# -- speed -----------------------------------------------------------------------------------------


def speed_rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.parquet"
        write_reviews(file, N_SESSIONS * PER_SESSION)
        ours = measure(
            "gate",
            lambda: gate(file, base="model-0", candidate="model-1", since="all"),
            n=N_SESSIONS,
            n_repeats=3,
        ).ours
        yield Row("gate, a look after each session", N_SESSIONS, ours, ALLOWED_S, 1.0, "allowed")
        file = Path(folder) / "board.parquet"
        write_reviews(file, N_BOARD_SESSIONS * PER_SESSION, n_models=N_MODELS)
        yield compare(
            f"fragility of {N_MODELS} models",
            lambda: board_models(file, since="all", fragility=True),
            lambda: board_models(file, since="all"),
            n=N_BOARD_SESSIONS,
            target=0.5,
            peer_name="the plain board",
            n_repeats=3,
        )


def run(n_runs: int = N_RUNS) -> Iterator[Row]:
    yield from speed_rows()
    lines = ["| runs of | false decisions | 95% |", "|---|---|---|"]
    for name, k in false_decisions(n_runs):
        low, high = (100 * end for end in wilson_interval(k, n_runs) or (0.0, 1.0))
        lines.append(
            f"| {name} | {k} of {n_runs:,} ({100 * k / n_runs:.1f}%) | {low:.1f} to {high:.1f}% |"
        )
        yield alarm_row(f"false: {name}", k, n_runs)
    write_table("gate.md", "false", lines)
    write_table("gate.md", "sessions", session_lines(max(1, n_runs // 10)))
    for name in TRIALS:
        yield from trial_rows(name, max(1, n_runs // 3))
