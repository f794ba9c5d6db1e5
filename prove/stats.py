"""How often audits, boards, gates and the search for rings are wrong, in simulated seasons.

`./dev prove stats` checks the claims on a sample that takes minutes. `./dev prove stats=100` makes
the tables of docs/audit.md, docs/boards.md and docs/community.md anew, with so many audits in each
cell; 100 take hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench import write_table
from bench.gate import TRIALS, Trials
from prove import Line
from tests.shared.calibration import (
    CLAIMED_PLANTS,
    SMALL_KINDS,
    fair_counts,
    fair_lines,
    false_alarms,
    moved_lines,
    power,
    power_lines,
    strength_counts,
    strength_lines,
)
from tests.shared.common_rivals import common_rivals_lines
from tests.shared.communities import (
    HONEST,
    honest_counts,
    honest_lines,
    n_flagged,
    planted_lines,
    several_lines,
    varying_counts,
)
from tests.shared.coverage import DESIGNS, MODELS, N_REVIEWERS, coverage, coverage_lines
from tests.shared.fair_judges import OWN_STRENGTHS, TASTES, VOCABULARIES, with_tastes
from tests.shared.rates import wilson_interval

ALARMS = 0.05  # at most, of fair audits and of honest communities
POWER = 0.9  # at least, at 200 sessions of 6 seats
COVERAGE = 0.94  # at least, of 95% intervals
N_SESSIONS = 200
N_GATES = 60
N_FAIR, N_PLANTED, N_HONEST, N_BOARDS = 2, 12, 4, 400


def run(quick: bool, n: int = 0) -> Iterator[Line]:
    """Check the claims; with a number, make the tables of the documents first."""
    if n:
        write_documents(n)
    yield from false_alarm_lines(1 if quick else N_FAIR, 12 if quick else 1)
    for plant in CLAIMED_PLANTS[: 1 if quick else None]:
        n_audits = 4 if quick else N_PLANTED
        n_named, n_others = power(plant, N_SESSIONS, range(n_audits))
        yield _at_least(f"names the planted {plant.name}", n_named, n_audits, POWER)
        yield _at_most("… and anyone else", n_others, n_audits, ALARMS)
    n_honest = 1 if quick else N_HONEST
    kinds = list(HONEST)[: 1 if quick else None]
    n_wrong = sum(n_flagged(kind, n_honest) for kind in kinds)
    yield _at_most("honest communities with a flag", n_wrong, n_honest * len(kinds), ALARMS)
    yield from coverage_checks(100 if quick else N_BOARDS, DESIGNS[2:3] if quick else DESIGNS)
    for about, try_gates in TRIALS.items():
        yield from gate_checks(about, try_gates, 20 if quick else N_GATES)


def false_alarm_lines(n_audits: int, step: int) -> Iterator[Line]:
    """Audit every so manieth kind of fair judges with every spread of tastes."""
    kinds = list(SMALL_KINDS.values())[::step]
    trials = [with_tastes(kind, tastes) for kind in kinds for tastes in TASTES]
    trials += [*OWN_STRENGTHS, *VOCABULARIES][::step]
    n_accused = sum(false_alarms(trial, range(n_audits))[0] for trial in trials)
    yield _at_most("audits that accuse fair judges", n_accused, n_audits * len(trials), ALARMS)


def gate_checks(about: str, try_gates: Callable[[int], Trials], n_gates: int) -> Iterator[Line]:
    """Count the gates of equal models that end with a false verdict, or are blocked."""
    trials = try_gates(n_gates)
    n_false, n = sum(trials.alarms.values()), n_gates * len(trials.alarms)
    yield _at_most(f"false verdicts of gates: {about}", n_false, n, trials.allowed / 100)


def coverage_checks(n_boards: int, designs: tuple[tuple[int, int], ...]) -> Iterator[Line]:
    """Count the intervals and the rank ranges that hold the truth."""
    for n_queries, n_repeats in designs:
        held, right = coverage(n_queries, N_REVIEWERS, 0.0, n_boards, n_repeats=n_repeats)
        name = f"{n_queries} queries × {n_repeats}"
        n = n_boards * len(MODELS)
        yield _at_least(f"intervals that hold, {name}", held, n, COVERAGE)
        yield _at_least(f"boards with true ranges, {name}", right, n_boards, COVERAGE)


def write_documents(n: int) -> None:
    """Make every table of the documents that says how often something is wrong."""
    n_communities = max(5, n * 3 // 5)
    write_table("audit.md", "moves", moved_lines())
    write_table("audit.md", "fair", fair_lines(fair_counts(n), n))
    write_table("audit.md", "strengths", strength_lines(strength_counts(n), n))
    write_table("audit.md", "power", power_lines(n))
    write_table("audit.md", "coverage", coverage_lines(5 * n))
    write_table("community.md", "honest", honest_lines(honest_counts(n_communities), n_communities))
    varying = varying_counts(n_communities)
    write_table("community.md", "varying", honest_lines(varying, n_communities))
    write_table("community.md", "planted", planted_lines(max(1, n_communities // 2)))
    write_table("community.md", "several", several_lines(max(1, n_communities // 5)))
    write_table("boards.md", "common", common_rivals_lines(4 * n))


def _at_most(name: str, k: int, n: int, limit: float) -> Line:
    low, high = wilson_interval(k, n) or (0.0, 1.0)
    return Line(name, n, f"{_share(k, n, low, high)}, at most {limit:.0%}", low <= limit)


def _at_least(name: str, k: int, n: int, limit: float) -> Line:
    low, high = wilson_interval(k, n) or (0.0, 1.0)
    return Line(name, n, f"{_share(k, n, low, high)}, at least {limit:.0%}", high >= limit)


def _share(k: int, n: int, low: float, high: float) -> str:
    return f"{k / n:.1%} [{low:.1%}, {high:.1%}]"
