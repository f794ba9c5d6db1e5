"""How often the local model returns the code of a ballot with no grammar that holds it to.

`./dev bench codes=N` asks for N ballots (60 unless told) and writes the line of SECURITY.md, anew
after each ballot.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from bench import Row, write_table
from bench.attack import Directly, local_reviewer, session_events
from peerage.events import AskedAgain, read_events
from peerage.types import Event
from peerage.view import fold
from tests.shared.rates import wilson_interval
from tests.shared.session_configs import make_config

OUTCOMES = ("at once", "after a second chance", "not at all", "no reply")


def run(n_ballots: int = 60) -> list[Row]:
    counts = asyncio.run(codes_without_grammar(n_ballots))
    name = "ballots with their code, no grammar"
    returned = counts["at once"] + counts["after a second chance"]
    return [Row(name, n_ballots, float(returned), None, 0.0, "", "ballots")]


async def codes_without_grammar(n_ballots: int) -> Counter[str]:
    """Ask for ballots, count how the code comes back, and write the table."""
    caller = Directly(is_held=False)
    settings = make_config((local_reviewer(),), audit=False, verdict="none")
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for case in range(n_ballots):
        events = await session_events(settings, caller, "", case)
        counts[outcome(events)] += 1
        reasons.update(fact.why for fact in read_events(events) if isinstance(fact, AskedAgain))
        write_table("../SECURITY.md", "codes", lines(counts, reasons))
    await caller.model.aclose()
    return counts


def outcome(events: list[Event]) -> str:
    """How the code came back in a session of one review."""
    reviews = fold(events).reviews
    if not reviews:
        return "no reply"
    if reviews[0].abstained:
        return "not at all"
    again = any(isinstance(fact, AskedAgain) for fact in read_events(events))
    return "after a second chance" if again else "at once"


def lines(counts: Counter[str], reasons: Counter[str]) -> Iterator[str]:
    """The table of SECURITY.md."""
    n = counts.total()
    yield f"| the code comes back | of {n} ballots | share |"
    yield "|---|---|---|"
    for name in OUTCOMES:
        low, high = wilson_interval(counts[name], n) or (0.0, 1.0)
        share = f"{100 * counts[name] / n:.0f}% ({100 * low:.0f} to {100 * high:.0f})"
        yield f"| {name} | {counts[name]} | {share} |"
    yield ""
    found = ", ".join(f"`{why}` {n_why}" for why, n_why in reasons.most_common())
    yield f"Why a first reply was asked for again: {found or 'none was'}."
