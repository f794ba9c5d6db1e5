"""Whether a call that failed is tried again, and after how long."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from peerage.providers import CallError, Kind

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
