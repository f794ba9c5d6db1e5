"""A circuit breaker: an endpoint that only fails is left alone for a while, and then probed.

It counts calls that failed for good, one after the other, where the endpoint is at fault. Once
there were a few, calls are not sent any more; after a pause one of them is, and its outcome
decides whether the pause is over or a longer one begins.
"""

from __future__ import annotations

from peerage.providers import Kind

OUT_OF_REACH: frozenset[Kind] = frozenset({"timeout", "connection", "unauthorized", "server_error"})
MAX_FAILURES = 5  # in a row, and the endpoint is left alone
FIRST_PAUSE_S = 10.0  # doubles with every probe that fails
LONGEST_PAUSE_S = 300.0


class Breaker:
    """What is known of one model at one endpoint: how often it failed, and when to try again."""

    __slots__ = ("_n_failed", "_pause_s", "_probing", "_reason", "_until")

    def __init__(self) -> None:
        self._n_failed = 0
        self._pause_s = FIRST_PAUSE_S
        self._until = 0.0
        self._probing = False
        self._reason = ""

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
