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

# How often a kind of failure is worth another try, within the time of the call; one that is not
# here never is.
RETRIES: Mapping[Kind, int] = {
    "rate_limited": 7,
    "server_error": 4,
    "connection": 3,
    "not_json": 2,
    "empty": 2,
    "truncated": 2,
    "timeout": 1,
}

# Failures that are the endpoint's, whatever it was asked.
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
MAX_FAILURES = 5  # in a row, and the model is left alone
MAX_FAILURES_AT_FIRST = 2  # of a model that has not replied yet
FIRST_PAUSE_S = 10.0  # doubles with every probe that fails
LONGEST_PAUSE_S = 300.0
PAUSE_PER_WAIT = 5.0  # a pause is at least so many times as long as the slowest failure took


class WaitingLine:
    """Hands out something limited, places or money, in the order in which it is asked for.

    Where requests have a number, those with a lower one come first.
    """

    __slots__ = ("_queue", "in_flight")

    def __init__(self) -> None:
        self._queue: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self.in_flight = 0  # handed out, and not handed back yet

    def _free(self, number: int) -> int:
        """How much may be handed out now to a request of this number."""
        raise NotImplementedError

    def _refusal(self, amount: int) -> Exception | None:  # noqa: ARG002
        """Why so much can never be had, or None where waiting may help."""
        return None

    async def take(self, amount: int, number: int = 0) -> None:
        """Wait for one's turn, and for as much as is asked for."""
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
    """The calls that may be under way at once.

    A seat's number of places is fixed. A model's window shrinks when it has too much to do
    and grows by one call per window of good replies, never beyond what its seats allow
    and never below one call: additive increase, multiplicative decrease, as TCP does it.
    """

    __slots__ = ("_cap", "_era", "_window")

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._cap = cap
        self._window = float(cap)
        self._era = 0  # grows with every shrinking

    @property
    def window(self) -> int:
        """How many calls may be in flight now."""
        return int(self._window)

    def _free(self, _: int = 0) -> int:
        return int(self._window) - self.in_flight

    def widen(self, more: int) -> None:
        """Another seat of this model has come; a window that has shrunk grows by itself."""
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
        """Hand a place back after the model was found overloaded.

        Calls that set out before the last shrinking tell of the same overload, so that a
        burst of refusals counts once.
        """
        if era == self._era:
            self._window = max(1.0, self._window * SHRINK)
            self._era += 1
        self.release()


@dataclass(slots=True)
class Pause:
    """Until when a model, or all of an endpoint, asks to be left alone."""

    until: float = 0.0  # by the caller's clock
    why: str = ""

    def extend(self, until: float, why: str) -> None:
        if until > self.until:
            self.until, self.why = until, why


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait before another try."""

    first_s: float = 0.5  # doubles with every try
    longest_s: float = 30.0

    def wait_s(
        self, key: str, error: CallError, n_by_kind: Counter[Kind], left_s: float
    ) -> float | None:
        """Seconds until the next try of a call that failed so often, or None for no more tries.

        There is no next try that would begin after the time left to the call. The jitter
        follows from the call's key, so that calls spread and a run repeats.
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
    """Leaves a model at an endpoint alone for a while where it only fails, and then probes it.

    It counts calls that failed for good, one after the other, where the endpoint is at fault. Once
    there were a few, calls are not sent any more; after a pause one of them is, and its outcome
    decides whether the pause is over or a longer one begins. A model that has replied before gets
    more chances than one that never has, and one that is slow to fail gets longer pauses:
    probes of a model that hangs take at most a sixth of the time.
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
        """Whether calls are held back now; a probe is not."""
        return self._n_failed >= (MAX_FAILURES if self._has_replied else MAX_FAILURES_AT_FIRST)

    @property
    def reason(self) -> str:
        """Why a call is not sent while it is open."""
        return f"not asked: {self._n_failed} calls in a row failed, the last with: {self._reason}"

    def refusal(self, now: float) -> str | None:
        """Why a call is not sent now, or None; the first one after a pause is the probe."""
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
        """Count a call that failed for good, whose slowest try took so long.

        A failure that is not the endpoint's changes nothing.
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
        """A call was called off before its outcome was known; another may be the probe."""
        if probed:
            self._probing = False
