"""Pacing of calls: limits on concurrency, retries, pauses, and a breaker for failing models."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from peerage.providers import CallError, Kind

# An overloaded endpoint keeps this share of its window, as in CUBIC. After a chance failure it is
# slowed less than by halving; in an overload, a few steps are enough to relieve it.
SHRINK = 0.7

# The number of retries for each kind of failure, within the time of the call; other kinds are
# never retried.
RETRIES: Mapping[Kind, int] = {
    "rate_limited": 7,
    "server_error": 4,
    "connection": 3,
    "not_json": 2,
    "empty": 2,
    "bad_probabilities": 1,
    "missing_answer": 1,
    "truncated": 2,
    "timeout": 1,
}

# Failures of the endpoint that do not depend on the request.
OUT_OF_REACH: frozenset[Kind] = frozenset(
    {
        "timeout",
        "connection",
        "unauthorized",
        "rate_limited",
        "server_error",
        "not_json",
        "bad_encoding",
        "truncated",
        "too_long",
    }
)
MAX_FAILURES = 5  # in a row; then calls to the model pause
MAX_FAILURES_AT_FIRST = 2  # the same for a model that has not replied yet
FIRST_PAUSE_S = 10.0  # each failed probe doubles the pause
LONGEST_PAUSE_S = 300.0
PAUSE_PER_WAIT = 5.0  # a pause is at least this many times as long as the slowest failure


class WaitingLine:
    """Hands out a limited resource, such as places or money, in the order of requests.

    Requests may have a number; lower numbers come first.
    """

    __slots__ = ("_queue", "in_flight")

    def __init__(self) -> None:
        self._queue: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self.in_flight = 0  # handed out and not returned yet

    def _free(self, number: int) -> int:
        """Return how much can be handed out now to a request with this number."""
        raise NotImplementedError

    def _refusal(self, amount: int) -> Exception | None:  # noqa: ARG002
        """Return why an amount can never be handed out, or None if waiting may help."""
        return None

    async def take(self, amount: int, number: int = 0) -> None:
        """Wait until it is this request's turn and this amount is free; then take it."""
        at = len(self._queue)
        while at and self._queue[at - 1][0] > number:
            at -= 1
        if not at and amount <= self._free(number):
            self.in_flight += amount
            return
        if refusal := self._refusal(amount):
            raise refusal
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.insert(at, (number, amount, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:
                self.in_flight -= amount  # the amount was handed out just before the cancellation
            self._admit()  # the next request may be first now
            raise

    def give_back(self, amount: int) -> None:
        self.in_flight -= amount
        if self._queue:
            self._admit()

    def _admit(self) -> None:
        """Serve the queue until its first request must wait; refuse impossible requests."""
        while self._queue:
            number, amount, turn = self._queue[0]
            if not turn.done():
                if amount <= self._free(number):
                    self.in_flight += amount
                    turn.set_result(None)
                elif refusal := self._refusal(amount):
                    turn.set_exception(refusal)
                else:
                    return
            self._queue.popleft()


class Limiter(WaitingLine):
    """Limits the number of calls in flight.

    A seat's limit is fixed. The limit of a model (its window) shrinks when the model is overloaded,
    and grows by one call per window of good replies, never above the sum of its seats' limits and
    never below one call: additive increase, multiplicative decrease, as in TCP.
    """

    __slots__ = ("_cap", "_era", "_window")

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._cap = cap
        self._window = float(cap)
        self._era = 0  # increases each time the window shrinks

    @property
    def window(self) -> int:
        """Return how many calls may be in flight now."""
        return int(self._window)

    def _free(self, _: int = 0) -> int:
        return int(self._window) - self.in_flight

    def widen(self, more: int) -> None:
        """Raise the limit for another seat of this model; a window that has shrunk stays."""
        if self._window == self._cap:
            self._window += more
        self._cap += more
        self._admit()

    async def acquire(self) -> int:
        """Wait for a free slot; return the current era, which `strain` needs."""
        await self.take(1)
        return self._era

    def release(self) -> None:
        """Free a slot without changing the window."""
        self.give_back(1)

    def succeed(self) -> None:
        """Free a slot after a good reply; a fully used window may grow."""
        window = self._window
        if window < self._cap and self.in_flight >= int(window):
            self._window = min(float(self._cap), window + 1 / window)
        self.release()

    def strain(self, era: int) -> None:
        """Free a slot after an overload, and shrink the window.

        Calls that began before the window last shrank report the same overload, so a burst of
        refusals counts once.
        """
        if era == self._era:
            self._window = max(1.0, self._window * SHRINK)
            self._era += 1
        self.release()


@dataclass(slots=True)
class Pause:
    """The time until which a model, or a whole endpoint, asked not to be called."""

    until: float = 0.0  # on the caller's clock
    why: str = ""

    def extend(self, until: float, why: str) -> None:
        if until > self.until:
            self.until, self.why = until, why


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Computes the wait before another try."""

    first_s: float = 0.5  # each try doubles the wait
    longest_s: float = 30.0

    def wait_s(
        self, key: str, error: CallError, n_by_kind: Counter[Kind], left_s: float
    ) -> float | None:
        """Return the seconds until the next try of a failed call, or None for no more tries.

        A try must begin within the time left for the call. The jitter is derived from the
        call's key, so that calls spread and a run is repeatable.
        """
        n_failed, asked_s = n_by_kind.total(), error.retry_after_s
        if n_by_kind[error.kind] > RETRIES.get(error.kind, 0):
            return None
        digest = hashlib.sha256(f"{key}|{n_failed}".encode("utf-8", "surrogatepass")).digest()
        jitter = int.from_bytes(digest[:8], "big") / 2**64
        if asked_s is None:
            doubled_s = self.first_s * 2.0 ** (n_failed - 1)
            wait_s = min(self.longest_s, doubled_s) * (0.5 + jitter / 2)
        else:
            spread_s = max(asked_s, self.first_s) / 4
            wait_s = asked_s + jitter * max(0.0, min(spread_s, (left_s - asked_s) / 2))
        return wait_s if wait_s < left_s else None


@dataclass(slots=True)
class Breaker:
    """Pauses calls to a model that keeps failing, and then probes it.

    It counts calls in a row that failed through the endpoint's fault. After a few failures, calls
    are not sent. After a pause one call is sent as a probe, and its outcome ends the pause or
    starts a longer one. A model that has replied before gets more chances than one that
    never has. A model that fails slowly gets longer pauses: probes of a model that hangs take
    at most a sixth of the run's time.
    """

    _n_failed: int = 0
    _has_replied: bool = False
    _slowest_s: float = 0.0  # of the tries that failed
    _pause_s: float = FIRST_PAUSE_S
    _until: float = 0.0
    _probing: bool = False
    _reason: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether calls are held back now, except for a probe."""
        return self._n_failed >= (MAX_FAILURES if self._has_replied else MAX_FAILURES_AT_FIRST)

    @property
    def reason(self) -> str:
        """Return why a call is not sent while the breaker is open."""
        return f"not asked: {self._n_failed} calls in a row failed, the last with: {self._reason}"

    def refusal(self, now: float) -> str | None:
        """Return why a call is not sent now, or None. The first call after a pause is the probe."""
        if not self.is_open:
            return None
        if now >= self._until and not self._probing:
            self._probing = True
            return None
        return self.reason

    def succeed(self) -> None:
        self._n_failed, self._slowest_s, self._pause_s = 0, 0.0, FIRST_PAUSE_S
        self._probing, self._has_replied = False, True

    def fail(
        self, kind: str, message: str, now: float, *, took_s: float = 0.0, probed: bool = False
    ) -> None:
        """Count a failed call, with the time of its slowest try.

        Failures that are not the endpoint's fault are ignored.
        """
        if probed:
            self._probing = False
        if kind not in OUT_OF_REACH:
            return
        was_open = self.is_open
        self._n_failed += 1
        self._reason = message
        self._slowest_s = max(self._slowest_s, took_s)
        if probed:
            self._pause_s *= 2
        if probed or (self.is_open and not was_open):
            self._pause_s = max(self._pause_s, PAUSE_PER_WAIT * self._slowest_s)
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s)
            self._until = now + self._pause_s

    def give_up(self, *, probed: bool) -> None:
        """Handle a call cancelled before its outcome: if it was the probe, another call may be."""
        if probed:
            self._probing = False
