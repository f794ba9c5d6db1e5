"""The search for rings: what a large community costs. How often it is right: `bench.audit`."""

from __future__ import annotations

from pathlib import Path

from bench import Row, cpu_seconds, memory
from peerage.boards.opinions import Community
from peerage.boards.rings import find_rings
from tests.shared.communities import Honest, Ring, made

LARGE = Honest(n_people=20_000, opinions_each=53.0, group=100, at_home=0.6)
ALLOWED_S = 60.0
ALLOWED_MB = 500.0


def run() -> list[Row]:
    community = large()
    spent = cpu_seconds(lambda: find_rings(community))
    return [
        Row("opinions searched", community.n, spent, ALLOWED_S, 1.0, "allowed"),
        memory("bench.rings:search_large", Path(), n=community.n, at_most_mb=ALLOWED_MB),
    ]


def large() -> Community:
    """A million opinions with a ring among them, so that no deal is saved."""
    return made(LARGE, "large", (Ring(8),))[0]


def search_large(_: Path) -> None:
    """The search alone, for a process whose memory is measured."""
    find_rings(large())
