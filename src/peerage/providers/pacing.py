"""When a call may go out: how many at once, whether again, and which models are left alone."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from peerage.providers import CallError, Kind

# How much of its window an overloaded endpoint keeps, as in CUBIC: one that fails by chance is
# slowed less than by halving, and one that is overloaded is still relieved in a few steps.
SHRINK = 0.7

# How often a kind of failure is worth another try; one that is not here never is. A limit
# that ran out has cost a whole limit's time; a rate limit often counts by the minute.
RETRIES: Mapping[Kind, int] = {
    "rate_limited": 7,
    "server_error": 4,
    "connection": 3,
    "not_json": 2,
    "empty": 2,
    "truncated": 2,
    "timeout": 1,
}

OUT_OF_REACH: frozenset[Kind] = frozenset({"timeout", "connection", "unauthorized", "server_error"})
MAX_FAILURES = 5  # in a row, and the endpoint is left alone
FIRST_PAUSE_S = 10.0  # doubles with every probe that fails
LONGEST_PAUSE_S = 300.0


class WaitingLine:
    """Hands out something limited, places or money, in the order in which it is asked for."""

    __slots__ = ("_queue", "in_flight")

    def __init__(self) -> None:
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.in_flight = 0  # handed out, and not handed back yet

    def _free(self) -> int:
        """How much may be handed out now."""
        raise NotImplementedError

    def _refusal(self, amount: int) -> Exception | None:  # noqa: ARG002
        """Why so much can never be had, or None where waiting may help."""
        return None

    async def take(self, amount: int) -> None:
        """Wait for one's turn, and for as much as is asked for."""
        if not self._queue and amount <= self._free():
            self.in_flight += amount
            return
        if refusal := self._refusal(amount):
            raise refusal
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((amount, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:
                self.in_flight -= amount  # it was given just as the wait was called off
            self._admit()  # whoever stands behind may be first now
            raise

    def give_back(self, amount: int) -> None:
        self.in_flight -= amount
        if self._queue:
            self._admit()

    def _admit(self) -> None:
        """Let in those at the head of the line that fit, and refuse those that never will."""
        while self._queue:
            amount, turn = self._queue[0]
            if not turn.done():
                if amount <= self._free():
                    self.in_flight += amount
                    turn.set_result(None)
                elif refusal := self._refusal(amount):
                    turn.set_exception(refusal)
                else:
                    return
            self._queue.popleft()


class Limiter(WaitingLine):
    """The calls that may be under way at once.

    A seat's number of places is fixed. An endpoint's window shrinks when it says that it has too
    much to do and grows by one call per window of good replies, never beyond what its seats allow
    and never below one call: additive increase, multiplicative decrease, as TCP does it.
    """

    __slots__ = ("_cap", "_era", "_window", "resume_at", "resume_why")

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._cap = cap
        self._window = float(cap)
        self._era = 0  # grows with every shrinking
        self.resume_at = 0.0  # by the caller's clock: not before, says the endpoint
        self.resume_why = ""

    @property
    def window(self) -> int:
        """How many calls may be in flight now."""
        return int(self._window)

    def _free(self) -> int:
        return int(self._window) - self.in_flight

    def widen(self, more: int) -> None:
        """Another seat has come to this endpoint; a window that has shrunk grows by itself."""
        if self._window == self._cap:
            self._window += more
        self._cap += more
        self._admit()

    async def acquire(self) -> int:
        """A place, and the era in which it was given, to be handed back with the place."""
        await self.take(1)
        return self._era

    def release(self) -> None:
        """Hand a place back, with nothing learnt."""
        self.give_back(1)

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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait before another try."""

    first_s: float = 0.5  # doubles with every try
    longest_s: float = 30.0
    longest_asked_s: float = 120.0  # an endpoint that asks for more is not waited for

    def wait_s(self, key: str, error: CallError, n_by_kind: Counter[Kind]) -> float | None:
        """Seconds until the next try of a call that failed so often, or None for no more tries.

        The jitter follows from the call's key, so that calls spread and a run repeats.
        """
        n_failed, asked_s = n_by_kind.total(), error.retry_after_s
        if n_by_kind[error.kind] > RETRIES.get(error.kind, 0):
            return None
        digest = hashlib.sha256(f"{key}|{n_failed}".encode("utf-8", "surrogatepass")).digest()
        jitter = int.from_bytes(digest[:8], "big") / 2**64
        if asked_s is None:
            doubled_s = self.first_s * 2.0 ** (n_failed - 1)
            return min(self.longest_s, doubled_s) * (0.5 + jitter / 2)
        if asked_s > self.longest_asked_s:
            return None
        return asked_s + jitter / 4 * max(asked_s, self.first_s)


@dataclass(slots=True)
class Breaker:
    """Leaves a model at an endpoint alone for a while where it only fails, and then probes it.

    It counts calls that failed for good, one after the other, where the endpoint is at fault. Once
    there were a few, calls are not sent any more; after a pause one of them is, and its outcome
    decides whether the pause is over or a longer one begins.
    """

    _n_failed: int = 0
    _pause_s: float = FIRST_PAUSE_S
    _until: float = 0.0
    _probing: bool = False
    _reason: str = ""

    def refusal(self, now: float) -> str | None:
        """Why a call is not sent now, or None; the first one after a pause is the probe."""
        if self._n_failed < MAX_FAILURES:
            return None
        if now >= self._until and not self._probing:
            self._probing = True
            return None
        return f"not asked: {self._n_failed} calls in a row failed, the last with: {self._reason}"

    def succeed(self) -> None:
        self._n_failed, self._pause_s, self._probing = 0, FIRST_PAUSE_S, False

    def fail(self, kind: str, message: str, now: float) -> None:
        """Take note of a call that failed for good; what is not the endpoint's fault is no sign."""
        probed, self._probing = self._probing, False
        if kind not in OUT_OF_REACH:
            return
        self._n_failed += 1
        self._reason = message
        if probed:
            self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        if probed or self._n_failed == MAX_FAILURES:
            self._until = now + self._pause_s

    def give_up(self) -> None:
        """A call was called off before its outcome was known; another may be the probe."""
        self._probing = False
