"""The one place where a finding's status is decided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from peerage.stats.tails import normal_critical
from peerage.types import Finding, Status

Side = Literal["both", "at_most", "at_least"]

EVIDENCE_Q = 0.05
FAR = 3.0  # healthy ranges away from zero: what few observations may already point at
POWER_Z = normal_critical(0.6)  # 80% lie below it
MOST = 1e9  # an n beyond it is none
SETTLED = ("evidence", "clear")
FAR_CORRELATION = 0.9  # "extreme", of a correlation


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
    at_most_indicator: bool = False  # what else may explain it cannot be ruled out

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
        word := status(tested, q),
        q,
        tested.note,
        *((None, None) if word in SETTLED else what_it_takes(tested)),
        None if tested.not_identifiable else tested.edge,
    )


def what_it_takes(tested: Tested) -> tuple[float | None, int | None]:
    """The smallest effect that four in five such audits would name, and the n to settle it.

    To be named, an estimate must pass both its critical value and the healthy edge; it does so in
    80% of audits where the true effect lies z(.8) standard errors beyond the higher of the two.
    An effect as large as the healthy edge is told from none where (t + z(.8)) standard errors
    fit into it, and errors shrink with the root of n. One-sided metrics are held against the
    edge: how far beyond it would be seen, and the n to settle on which side of it the value is.
    """
    value, low, high = tested.held
    if tested.not_identifiable or value is None or low is None or high is None:
        return None, None
    half = (high - low) / 2.0
    error = half / normal_critical(0.95)
    power = POWER_Z * error
    if tested.side == "both":
        mde, size = max(tested.edge, half) + power, tested.edge
    else:
        mde = half * normal_critical(0.9) / normal_critical(0.95) + power
        size = abs(value - tested.edge)
    if half <= 0.0 or size <= 0.0:
        return mde, None
    needed = tested.n * ((half + power) / size) ** 2
    return mde, None if needed > MOST else max(tested.n, tested.n_min, math.ceil(needed))


def status(tested: Tested, q: float | None) -> Status:
    """The one word of a finding; "no evidence" never reads as "no bias"."""
    value, low, high = tested.held
    if tested.not_identifiable:
        return "not_identifiable"
    apart = low is not None and high is not None and _apart(tested, low, high)
    if tested.n < tested.n_min:
        return "indicator" if apart and _extreme(tested, value) else "too_few"
    if value is None:
        return "inconclusive"
    if q is not None and q < EVIDENCE_Q and _beyond(tested, value):
        if not tested.at_most_indicator:
            return "evidence"
        return "indicator" if apart else "inconclusive"
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


def _apart(tested: Tested, low: float, high: float) -> bool:
    """Whether the interval excludes the healthy range."""
    if tested.side == "at_most":
        return low > tested.edge
    if tested.side == "at_least":
        return high < tested.edge
    return low > tested.edge or high < -tested.edge


def _extreme(tested: Tested, value: float | None) -> bool:
    if value is None or tested.n < 3 or tested.side != "both":
        return False
    return abs(value) > (FAR_CORRELATION if tested.correlation else FAR * tested.edge)
