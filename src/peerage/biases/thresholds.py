"""The one place where a finding's status is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from peerage.types import Finding, Status

Side = Literal["both", "at_most", "at_least"]

EVIDENCE_Q = 0.05
FAR = 3.0  # healthy ranges away from zero: what few observations may already point at
FAR_CORRELATION = 0.9  # the seed's "extreme" for a correlation


@dataclass(frozen=True, slots=True)
class Tested:
    """A finding on its way: what was measured, and what it was held against.

    `tested` is the number the healthy range speaks of, with its interval, where that is not
    the value itself. `edge` is the end of the healthy range, in the same unit.
    """

    metric: str
    subject: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_min: int
    edge: float
    note: str = ""
    side: Side = "both"
    tested: tuple[float | None, float | None, float | None] | None = None
    correlation: bool = False
    not_identifiable: bool = False

    @property
    def held(self) -> tuple[float | None, float | None, float | None]:
        return self.tested if self.tested is not None else (self.value, self.low, self.high)

    @property
    def counts(self) -> bool:
        """Whether it belongs to the family that q-values are taken over."""
        return self.p is not None and self.n >= self.n_min and not self.not_identifiable


def finding(tested: Tested, q: float | None) -> Finding:
    return Finding(
        tested.metric,
        tested.subject,
        tested.value,
        tested.low,
        tested.high,
        tested.p,
        tested.n,
        tested.n_min,
        status(tested, q),
        q,
        tested.note,
    )


def status(tested: Tested, q: float | None) -> Status:
    """The one word of a finding (A1); "no evidence" never reads as "no bias"."""
    value, low, high = tested.held
    if tested.not_identifiable:
        return "not_identifiable"
    if tested.n < tested.n_min:
        return "indicator" if _extreme(tested, value) else "too_few"
    if value is None:
        return "inconclusive"
    if q is not None and q < EVIDENCE_Q and _beyond(tested, value):
        return "evidence"
    if low is not None and high is not None and _inside(tested, low, high):
        return "clear"
    return "inconclusive"


def _beyond(tested: Tested, value: float) -> bool:
    if tested.side == "at_most":
        return value > tested.edge
    if tested.side == "at_least":
        return value < tested.edge
    return abs(value) > tested.edge


def _inside(tested: Tested, low: float, high: float) -> bool:
    if tested.side == "at_most":
        return high <= tested.edge
    if tested.side == "at_least":
        return low >= tested.edge
    return -tested.edge <= low and high <= tested.edge


def _extreme(tested: Tested, value: float | None) -> bool:
    if value is None or tested.n < 3 or tested.side != "both":
        return False
    return abs(value) > (FAR_CORRELATION if tested.correlation else FAR * tested.edge)
