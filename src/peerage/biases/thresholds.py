"""What was measured, and the one place where a finding's status is decided and put in words."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from peerage.stats.tails import normal_critical
from peerage.types import Finding, Status

if TYPE_CHECKING:
    from peerage.biases import Panel
    from peerage.reviews.intervals import Estimate

EVIDENCE_Q = 0.05
FAR = 3.0  # healthy ranges away from zero: what few observations may already point at
POWER_Z = normal_critical(0.6)  # 80% lie below it
MOST = 1e9  # an n beyond it is none
SETTLED = ("evidence", "clear")
FAR_CORRELATION = 0.9  # "extreme", of a correlation
Who = TypeVar("Who", bound=Hashable)
MEASURED = ("metric", "subject", "value", "low", "high", "p", "n", "n_min", "note")


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
    side: Literal["both", "at_most", "at_least"] = "both"
    tested: tuple[float | None, float | None, float | None] | None = None
    correlation: bool = False
    not_identifiable: bool = False
    at_most_indicator: bool = False  # what else may explain it cannot be ruled out
    contested: bool = False  # two ways to measure it disagree

    @property
    def interval(self) -> tuple[float | None, float | None, float | None]:
        """What is held against the healthy range: a value, its low and its high end."""
        return self.tested if self.tested is not None else (self.value, self.low, self.high)

    @property
    def healthy(self) -> tuple[float, float]:
        """Both ends of the healthy range."""
        low = {"both": -self.edge, "at_most": -math.inf, "at_least": self.edge}
        return low[self.side], math.inf if self.side == "at_least" else self.edge

    @property
    def counts(self) -> bool:
        """Whether it belongs to the family that q-values are taken over."""
        return self.p is not None and self.n >= self.n_min and not self.not_identifiable


def unknown(metric: str, panel: Panel, note: str, subject: str = "all", n: int = 0) -> Tested:
    """A finding that the design of the data rules out, with the reason."""
    nothing = (None, None, None, None)
    n_min = panel.n_min(metric)
    return Tested(metric, subject, *nothing, n, n_min, 0.0, note, not_identifiable=True)


def as_tested(
    metric: str,
    one: Estimate,
    panel: Panel,
    note: str,
    subject: str | None = None,
    edge: float | None = None,
) -> Tested:
    """An estimate with the healthy range that it is held against, or the reason why it is none."""
    name = panel.names[one.subject] if subject is None else subject
    if one.value is None and one.note:
        return unknown(metric, panel, one.note, name, one.n)
    edge = panel.healthy(metric) * one.unit if edge is None else edge
    measured = (one.value, one.low, one.high, one.p, one.n)
    return Tested(metric, name, *measured, panel.n_min(metric), edge, note)


def contested(one: Tested, plain: Tested | None) -> Tested:
    """A finding, or the plain one where the two differ beyond their intervals.

    Setting deviant pairs aside is to take effects away that they caused. Where it makes an
    effect instead, neither is to be trusted, and the plain one is what a reader can check.
    """
    if plain is None or one.not_identifiable:
        return one
    value, low, high = one.interval
    value_before, low_before, high_before = plain.interval
    if value is None or value_before is None or abs(value) <= abs(value_before):
        return one
    if low is None or high is None or low_before is None or high_before is None:
        return one
    if low <= high_before and low_before <= high:
        return one
    note = f"{plain.note}; {signed(value)} once deviant pairs are set aside, so neither can be told"
    return replace(plain, note=note, contested=True)


def one_sided(p: float | None, beyond: bool) -> float | None:
    """The p of the side that would be unhealthy, from the two-sided one."""
    if p is None:
        return None
    return p / 2.0 if beyond else 1.0 - p / 2.0


def outliers(means: Mapping[Who, float]) -> dict[Who, str]:
    """Who is harsh and who generous: beyond the median by a sample standard deviation."""
    n = len(means)
    if n < 2:
        return {}
    middle, centre = median(means.values()), math.fsum(means.values()) / n
    reach = math.sqrt(math.fsum([(mean - centre) ** 2 for mean in means.values()]) / (n - 1))
    far = {who: mean for who, mean in means.items() if not middle - reach <= mean <= middle + reach}
    return {who: "harsh" if mean < middle else "generous" for who, mean in far.items()}


# -- from what was measured to a finding -------------------------------------------------------


def finding(tested: Tested, q: float | None) -> Finding:
    word = status(tested, q)
    mde, n_needed = (None, None) if word in SETTLED else what_it_takes(tested)
    measured: dict[str, Any] = {name: getattr(tested, name) for name in MEASURED}
    edge = None if tested.not_identifiable else tested.edge
    return Finding(**measured, status=word, q=q, mde=mde, n_needed=n_needed, edge=edge)


def what_it_takes(tested: Tested) -> tuple[float | None, int | None]:
    """The smallest effect that four in five such audits would name, and the n to settle it.

    To be named, an estimate must pass both its critical value and the healthy edge; it does so in
    80% of audits where the true effect lies z(.8) standard errors beyond the higher of the two.
    An effect as large as the healthy edge is told from none where (t + z(.8)) standard errors
    fit into it, and errors shrink with the root of n. One-sided metrics are held against the
    edge: how far beyond it would be seen, and the n to settle on which side of it the value is.
    """
    value, low, high = tested.interval
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
    if tested.not_identifiable:
        return "not_identifiable"
    value, low, high = tested.interval
    lowest, highest = tested.healthy
    apart = inside = False
    if low is not None and high is not None:
        apart, inside = low > highest or high < lowest, lowest <= low and high <= highest
    if tested.n < tested.n_min:
        return "indicator" if apart and _extreme(tested, value) else "too_few"
    if value is None or tested.contested:
        return "inconclusive"
    if q is not None and q < EVIDENCE_Q and not lowest <= value <= highest:
        if not tested.at_most_indicator:
            return "evidence"
        return "indicator" if apart else "inconclusive"
    return "clear" if inside else "inconclusive"


def _extreme(tested: Tested, value: float | None) -> bool:
    if value is None or tested.n < 3 or tested.side != "both":
        return False
    return abs(value) > (FAR_CORRELATION if tested.correlation else FAR * tested.edge)


# -- in words ----------------------------------------------------------------------------------

AGAINST = ("calibration", "self_preference", "family_preference", "pair_departure")
COUNTED = {  # what a metric's n counts
    **dict.fromkeys((*AGAINST, "length_relative", "style", "agreement"), "reviews"),
    "length": "answers",
    "position": "ballots",
    "self_preference": "own answers",
    "anchoring": "ballots",
    "consistency": "repeats",
    "reasoning_length": "answers",
    "effective_votes": "sessions",
    "drift": "weeks",
}
CORRELATION = " in correlation"
UNITS = {  # of what a metric could have seen
    **dict.fromkeys(("length", "style", "reasoning_length", "agreement"), CORRELATION),
    **dict.fromkeys((*AGAINST, "position"), " {points}"),
    "length_relative": " {points} for a standard deviation of log words",
    "anchoring": " points for a point of the first answer",
    "consistency": " of its own standard deviations",
    "effective_votes": " votes",
    "drift": " points a week",
}
NO_LEVEL = "a ranking has no level: its mean is fixed, whoever ranks"


def describe_power(one: Finding, score: str = "score") -> str:
    """What a finding could have seen and what would settle it; nothing where it is settled.

    `score` is what was audited: of ranks it is the share of rivals beaten.
    """
    if one.mde is None:
        return ""
    points = "in share of rivals" if score == "share" else "points"
    unit = UNITS.get(one.metric, "").format(points=points)
    power = f"could have seen {one.mde:.2g}{unit}"
    if unit == CORRELATION and one.mde > 1.0:
        power = "could not have seen even a perfect correlation"
    if one.n_needed is None or one.n_needed <= one.n or one.edge is None:
        return power
    more, what = one.n_needed - one.n, COUNTED.get(one.metric, "observations")
    return f"{power}; {more:,} more {what} would settle {one.edge:.2g}"


def signed(value: float | None) -> str:
    """+0.41, −0.20, or a dash where there is no number."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def ranged(value: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, where it has one."""
    if low is None or high is None:
        return signed(value)
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"
