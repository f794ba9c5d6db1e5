"""How many calls may be under way at once: a fixed share per seat, an adaptive one per endpoint.

An endpoint's window shrinks when it says that it has too much to do and grows by one call
per window of good replies, never beyond what its seats allow and never below one call:
additive increase, multiplicative decrease, as TCP does it.
"""

from __future__ import annotations

import asyncio
from collections import deque

# As in CUBIC: a server that fails by chance is slowed less than by halving, and one that is
# overloaded is still relieved in a few steps.
SHRINK = 0.7


class Limiter:
    """A queue in order of arrival for places of which there are more or fewer as things go."""

    __slots__ = ("_cap", "_era", "_queue", "_window", "in_flight", "resume_at")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._window = float(cap)
        self._era = 0  # grows with every shrinking
        self._queue: deque[asyncio.Future[None]] = deque()
        self.in_flight = 0
        self.resume_at = 0.0  # by the caller's clock: not before, says the endpoint

    @property
    def window(self) -> int:
        """How many calls may be in flight now."""
        return int(self._window)

    def widen(self, more: int) -> None:
        """Another seat has come to this endpoint; a window that has shrunk grows by itself."""
        if self._window == self._cap:
            self._window += more
        self._cap += more
        self._admit()

    async def acquire(self) -> int:
        """A place, and the era in which it was given, to be handed back with the place."""
        if self.in_flight < int(self._window) and not self._queue:
            self.in_flight += 1
            return self._era
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given just as the wait was called off
                self.release()
            else:
                self._admit()  # whoever stands behind may be first now
            raise
        return self._era

    def release(self) -> None:
        """Hand a place back, with nothing learnt."""
        self.in_flight -= 1
        if self._queue:
            self._admit()

    def succeed(self) -> None:
        """Hand a place back after a good reply; a window that is full and holds may grow."""
        window = self._window
        if window < self._cap and self.in_flight >= int(window):
            self._window = min(float(self._cap), window + 1 / window)
        self.release()

    def strain(self, era: int) -> None:
        """Hand a place back after the endpoint was found overloaded.

        Calls that set out before the last shrinking tell of the same overload, so that a
        burst of refusals counts once.
        """
        if era == self._era:
            self._window = max(1.0, self._window * SHRINK)
            self._era += 1
        self.release()

    def _admit(self) -> None:
        while self._queue and self.in_flight < int(self._window):
            place = self._queue.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
        while self._queue and self._queue[0].done():
            self._queue.popleft()
