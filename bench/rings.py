"""The search for rings: what a large community costs, and how often it is right.

Writes the tables of false alarms and of power into docs/community.md, between their markers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from bench import Row, cpu_seconds, memory
from bench._communities import HONEST, Honest, Ring, made
from bench._rates import wilson_interval
from peerage.boards.opinions import Community
from peerage.boards.rings import find_rings

N_HONEST = int(os.environ.get("PEERAGE_BENCH_COMMUNITIES", "60"))
N_PLANTED = max(1, N_HONEST // 2)
DOCUMENT = Path(__file__).parents[1] / "docs" / "community.md"
LARGE = Honest(n_people=20_000, opinions_each=53.0, group=100, at_home=0.6)
ALLOWED_S = 60.0
ALLOWED_MB = 500.0
PLACES = ("uniform", "topics, 85% at home")
SIZES = (4, 6, 8, 12)
KINDS = {
    "full praise": Ring(0),
    "full praise, twice as many opinions on others": Ring(0, camouflage=2.0),
    "70% praise": Ring(0, praise=0.7),
    "40% praise": Ring(0, praise=0.4),
}


def run() -> list[Row]:
    community = large()
    spent = cpu_seconds(lambda: find_rings(community))
    rows = [
        Row("opinions searched", community.n, spent, ALLOWED_S, 1.0, "allowed"),
        memory("bench.rings:search_large", DOCUMENT, n=community.n, at_most_mb=ALLOWED_MB),
    ]
    write_between("honest", list(honest_lines(N_HONEST)))
    write_between("planted", list(planted_lines(N_PLANTED)))
    return rows


def large() -> Community:
    """A million opinions with a ring among them, so that no deal is saved."""
    return made(LARGE, "large", (Ring(8),))[0]


def search_large(_: Path) -> None:
    """The search alone, for a process whose memory is measured."""
    find_rings(large())


def n_flagged(kind: str, n: int) -> int:
    """Of n honest communities of a kind, those in which anybody is flagged."""
    return sum(bool(find_rings(made(HONEST[kind], f"{kind} {k}")[0]).rings) for k in range(n))


def n_found(place: str, ring: Ring, n: int) -> int:
    """Of n communities with a planted ring, those in which it is named.

    Named is a ring with at least half of the planted members, who are at least half of it.
    """
    return sum(_is_found(place, ring, f"{place} {ring} {k}") for k in range(n))


def _is_found(place: str, ring: Ring, seed: str) -> bool:
    community, (planted,) = made(HONEST[place], seed, (ring,))
    for named in find_rings(community).rings:
        n_right = len(set(named.members.tolist()) & set(planted.tolist()))
        if 2 * n_right >= max(len(planted), len(named.members)):
            return True
    return False


def honest_lines(n: int) -> Iterator[str]:
    yield f"| honest community | flagged, of {n} | 95% interval |"
    yield "|---|---:|---|"
    for kind in HONEST:
        k = n_flagged(kind, n)
        low, high = wilson_interval(k, n) or (0.0, 1.0)
        yield f"| {kind} | {k} | {low:.0%} to {high:.0%} |"


def planted_lines(n: int) -> Iterator[str]:
    yield (
        f"| planted ring, found of {n} | " + " | ".join(f"{size} members" for size in SIZES) + " |"
    )
    yield "|---" * (len(SIZES) + 1) + "|"
    for place in PLACES:
        for name, like in KINDS.items():
            rings = (Ring(size, like.praise, like.camouflage) for size in SIZES)
            counts = " | ".join(str(n_found(place, ring, n)) for ring in rings)
            yield f"| {name}; {place} | {counts} |"


def write_between(name: str, lines: list[str]) -> None:
    """The lines between their markers in the document, and on the terminal."""
    print("\n".join(lines))
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    block = "\n".join([begin, *lines, end])
    DOCUMENT.write_text(pattern.sub(lambda _: block, text), encoding="utf-8")
