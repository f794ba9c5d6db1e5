"""How often audits and the search for rings are wrong, counted over simulated seasons.

Runs only when it is named: it takes hours. Writes the tables of docs/audit.md, docs/boards.md
and docs/community.md. How many audits and communities a cell has is in the environment, as
PEERAGE_BENCH_AUDITS and PEERAGE_BENCH_COMMUNITIES; ten of each take a few minutes.
"""

from __future__ import annotations

import os

from bench import Row, write_table
from tests.shared.calibration import fair_counts, fair_lines, moved_lines, power_lines
from tests.shared.common_rivals import common_rivals_lines
from tests.shared.communities import (
    honest_counts,
    honest_lines,
    planted_lines,
    several_lines,
    varying_counts,
)
from tests.shared.coverage import coverage_lines
from tests.shared.rates import wilson_interval

N_AUDITS = int(os.environ.get("PEERAGE_BENCH_AUDITS", "100"))
N_COMMUNITIES = int(os.environ.get("PEERAGE_BENCH_COMMUNITIES", "60"))
ALLOWED = 5.0  # per cent of fair audits and of honest communities


def run() -> list[Row]:
    fair, honest = fair_counts(N_AUDITS), honest_counts(N_COMMUNITIES)
    write_table("audit.md", "moves", moved_lines())
    write_table("audit.md", "fair", fair_lines(fair, N_AUDITS))
    write_table("audit.md", "power", power_lines(N_AUDITS))
    write_table("audit.md", "coverage", coverage_lines(5 * N_AUDITS))
    write_table("community.md", "honest", honest_lines(honest, N_COMMUNITIES))
    varying = varying_counts(N_COMMUNITIES)
    write_table("community.md", "varying", honest_lines(varying, N_COMMUNITIES))
    write_table("community.md", "planted", planted_lines(max(1, N_COMMUNITIES // 2)))
    write_table("community.md", "several", several_lines(max(1, N_COMMUNITIES // 5)))
    write_table("boards.md", "common", common_rivals_lines(4 * N_AUDITS))
    accused = max(accused for found in fair.values() for accused, _ in found)
    return [
        _alarms("fair judges accused, worst kind", accused, N_AUDITS),
        _alarms("honest people flagged, worst kind", max(honest.values()), N_COMMUNITIES),
    ]


def _alarms(name: str, k: int, n: int) -> Row:
    """The share of alarms that this many runs show at least, beside what is allowed."""
    low, _ = wilson_interval(k, n) or (0.0, 1.0)
    return Row(name, n, 100 * low, ALLOWED, 1.0, "allowed", "%")
