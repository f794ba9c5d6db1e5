"""The money: what calls have cost by seat and stage, and a budget that is never overshot.

Before a call the most it can cost is set aside; after it, what it did cost takes the place
of that. A cost nobody knows stays unknown in the account, and the whole of what was set
aside stays gone from the budget.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from peerage.errors import BudgetError
from peerage.providers.prices import pico, usd
from peerage.types import Usage


@dataclass(frozen=True, slots=True)
class Bill:
    """A sum of costs; where some are unknown, so is the sum, and what is known is a floor."""

    n_calls: int = 0
    n_unknown: int = 0
    pico: int = 0

    @property
    def usd(self) -> float | None:
        return None if self.n_unknown else usd(self.pico)

    @property
    def at_least_usd(self) -> float:
        return usd(self.pico)

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.n_calls + other.n_calls,
            self.n_unknown + other.n_unknown,
            self.pico + other.pico,
        )


def bill(usages: Iterable[Usage]) -> Bill:
    """What calls cost together; exact, so their order does not matter."""
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return Bill(len(costs), len(costs) - len(known), sum(map(pico, known)))


class Ledger:
    """The accounts of one run, and its budget if it has one."""

    def __init__(self, budget_usd: float | None = None) -> None:
        self._budget = None if budget_usd is None else pico(budget_usd)
        self._spent = 0  # against the budget: what is known, and what was set aside for the rest
        self._held = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._sums: dict[tuple[str, str], list[int]] = {}  # calls, unknown, pico by seat and stage

    @property
    def has_budget(self) -> bool:
        return self._budget is not None

    @property
    def left_usd(self) -> float | None:
        """What may still be set aside, or None without a budget."""
        return None if self._budget is None else usd(self._budget - self._spent - self._held)

    # -- the budget --------------------------------------------------------------------------

    async def reserve(self, most: int) -> int:
        """Set the most a call can cost aside, in picodollars; waits its turn while that may help.

        What others have set aside may be more than they will need, so a call is refused
        only when nothing is set aside any more and it still does not fit.
        """
        if self._budget is None:
            return 0
        if not self._queue and self._fits(most):
            self._held += most
            return most
        if most + self._spent > self._budget:
            raise self._refusal(most)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((most, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:
                self._held -= most
            self._next()
            raise
        return most

    def _fits(self, most: int) -> bool:
        return self._budget is None or self._spent + self._held + most <= self._budget

    def _refusal(self, most: int) -> BudgetError:
        left = usd((self._budget or 0) - self._spent)
        return BudgetError(
            f"a call may cost up to ${usd(most):.4f}, and ${left:.4f} of the budget is left.",
            hint="Raise budget_usd, or take cheaper seats.",
        )

    def _next(self) -> None:
        """Let in those at the head of the queue that fit, and refuse those that never will."""
        while self._queue:
            most, turn = self._queue[0]
            if turn.done():
                self._queue.popleft()
            elif self._fits(most):
                self._queue.popleft()
                self._held += most
                turn.set_result(None)
            elif self._budget is not None and self._spent + most > self._budget:
                self._queue.popleft()
                turn.set_exception(self._refusal(most))
            else:
                return

    # -- the accounts ------------------------------------------------------------------------

    def settle(self, held: int, seat: str, stage: str, cost: int | None) -> None:
        """Enter what a call cost, None if nobody knows, and let go of what was set aside."""
        sums = self._sums.get((seat, stage))
        if sums is None:
            sums = self._sums[seat, stage] = [0, 0, 0]
        sums[0] += 1
        if cost is None:
            sums[1] += 1
        else:
            sums[2] += cost
        if self._budget is not None:
            self._held -= held
            self._spent += held if cost is None else cost
            if self._queue:
                self._next()

    def total(self) -> Bill:
        return self._sum(self._sums)

    def by_seat(self) -> Mapping[str, Bill]:
        return {
            seat: self._sum(key for key in self._sums if key[0] == seat)
            for seat in dict.fromkeys(seat for seat, _ in self._sums)
        }

    def by_stage(self) -> Mapping[str, Bill]:
        return {
            stage: self._sum(key for key in self._sums if key[1] == stage)
            for stage in dict.fromkeys(stage for _, stage in self._sums)
        }

    def _sum(self, keys: Iterable[tuple[str, str]]) -> Bill:
        return sum((Bill(*self._sums[key]) for key in keys), Bill())
