"""Calls of a session as its events record them, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peerage.events import Advised, Answered, AskedAgain, Committed, Fact, Failed, Reviewed
from peerage.types import MAX_NUMBER, Usage


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call whose reply or failure is in the log; `cost_usd` is None if unknown."""

    seat: str
    stage: str
    round: int
    usage: Usage | None  # None: no call was sent, or the answer was supplied
    is_outcome: bool = True  # False: the seat is asked once more

    @property
    def cost_usd(self) -> float | None:
        """The cost of the call; None if it is unknown or impossible."""
        cost_usd = self.usage.cost_usd if self.usage else None
        return cost_usd if cost_usd is not None and abs(cost_usd) <= MAX_NUMBER else None


def call_made(fact: Fact) -> CallMade | None:
    """Return the call that ended with this event; None if the event is not a reply or failure."""
    match fact:
        case Answered():
            return CallMade(fact.seat, "answer", 0, fact.usage)
        case Committed():
            return CallMade(fact.seat, "commit", 0, fact.usage)
        case AskedAgain():
            return CallMade(fact.seat, fact.stage, fact.round, fact.usage, is_outcome=False)
        case Reviewed():
            return CallMade(fact.reviewer, "review", fact.round, fact.usage)
        case Advised():
            return CallMade(fact.seat, "conclude", 0, fact.usage)
        case Failed():
            return CallMade(fact.seat, fact.stage, fact.round, fact.usage)
        case _:
            return None


def billed_calls(facts: Iterable[Fact]) -> list[CallMade]:
    """Return the calls of a session that were sent, in the order of their replies."""
    calls = (call_made(fact) for fact in facts)
    return [call for call in calls if call is not None and call.usage is not None]


def total_cost(calls: Iterable[CallMade]) -> tuple[float, int]:
    """Return the known cost of calls in USD, and the number of calls without a known price."""
    costs = [call.cost_usd for call in calls]
    known = [cost for cost in costs if cost is not None]
    return sum(known, 0.0), len(costs) - len(known)


@dataclass(frozen=True, slots=True)
class Bill:
    """The number, tokens and cost of some calls; `usd` is the known part of the cost."""

    n_calls: int = 0
    n_unpriced: int = 0
    usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None


def bill_of(calls: Iterable[CallMade]) -> Bill:
    """Return the total bill of some calls."""
    billed = [call for call in calls if call.usage is not None]
    usd, n_unpriced = total_cost(billed)

    def tokens(name: str) -> int | None:
        known = [n for call in billed if (n := getattr(call.usage, name)) is not None]
        return sum(known) if known else None

    return Bill(len(billed), n_unpriced, usd, tokens("tokens_in"), tokens("tokens_out"))
