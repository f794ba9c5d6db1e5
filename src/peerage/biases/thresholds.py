"""Measured values, and the one place that decides the status and wording of a finding."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from peerage.findings import Finding, Status
from peerage.stats.tails import (
    f_critical,
    noncentral_f_size,
    normal_critical,
    t_critical,
)

if TYPE_CHECKING:
    from peerage.biases import Panel
    from peerage.reviews.intervals import Estimate

EVIDENCE_Q = 0.05
LEVEL = 0.95
FAR = 3.0  # a value beyond this many healthy ranges may be an indicator even with a small n
POWER = 0.8  # share of audits that succeed, for the smallest detectable effect and the n needed
POWER_Z = normal_critical(2.0 * POWER - 1.0)  # 80% of standard normal values lie below it
MOST = 1e9  # a larger n is not reported as needed
MANY = 1_000_000  # a larger n is not written out
SETTLED = ("evidence", "clear")
FAR_CORRELATION = 0.9  # a correlation beyond it may be an indicator even with a small n
MOST_CORRELATION = 0.999
Who = TypeVar("Who", bound=Hashable)
MEASURED = ("metric", "subject", "value", "low", "high", "p", "n", "n_min", "note")


@dataclass(frozen=True, slots=True)
class Error:
    """The random error of a value, on a scale where it is symmetric.

    `lasting` is the part that more sessions do not reduce: tastes. If the value is the largest
    contrast of a curve over positions, `n_places` is their number, and the test covers all
    contrasts.
    """

    se: float
    df: float = math.inf
    lasting: float = 0.0
    n_places: int = 2
    per_n: float = 0.5  # the rest of the error is proportional to 1 / n to this power

    @property
    def reach(self) -> float:
        """Half of the interval, in standard errors; for a curve it covers all contrasts."""
        return t_critical(1.0 - (1.0 - LEVEL) / self._n_contrasts, round(self.df, 3))

    @property
    def usual(self) -> float:
        """The size that 80% of values do not exceed without an effect, in standard errors."""
        return t_critical(POWER ** (1.0 / self._n_contrasts), round(self.df, 3))

    @property
    def _n_contrasts(self) -> int:
        return 1 if self.n_places == 2 else self.n_places + (self.n_places > 3)

    def size_seen(self, alpha: float) -> float:
        """Return the effect whose p is below alpha in 80% of audits, in standard errors."""
        if self.n_places == 2:
            return t_critical(1.0 - alpha, round(self.df, 3)) + POWER_Z
        across = self.n_places - 1
        within = max(round(self.df, 0) + 1.0 - across, 1.0)
        return math.sqrt(
            noncentral_f_size(f_critical(alpha, across, within), across, within, POWER)
        )


@dataclass(frozen=True, slots=True)
class Tested:
    """A finding before corrections: the measured value, and its reference.

    If the healthy range applies to another number than the value, `tested` is that number, with its
    interval. `edge` is the end of the healthy range, in the same unit.
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
    at_most_indicator: bool = False  # another explanation cannot be ruled out
    contested: bool = False  # two ways to measure it disagree
    error: Error | None = None  # of the tested number; None if only its interval is known
    dilution: float = 1.0  # by this factor more of the effect is needed than the errors tell

    @property
    def interval(self) -> tuple[float | None, float | None, float | None]:
        """The numbers compared with the healthy range: a value and its interval."""
        return self.tested if self.tested is not None else (self.value, self.low, self.high)

    @property
    def healthy(self) -> tuple[float, float]:
        """Both ends of the healthy range."""
        low = {"both": -self.edge, "at_most": -math.inf, "at_least": self.edge}
        return low[self.side], math.inf if self.side == "at_least" else self.edge

    @property
    def counts(self) -> bool:
        """Whether the finding is among those that q-values are computed over."""
        return self.p is not None and self.n >= self.n_min and not self.not_identifiable


def unknown(metric: str, panel: Panel, note: str, subject: str = "all", n: int = 0) -> Tested:
    """Return a finding without a value, because the data do not allow one, with the reason."""
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
    """Return an estimate with its healthy range, or with the reason why there is no value."""
    name = panel.names[one.subject] if subject is None else subject
    if one.value is None and one.note:
        return unknown(metric, panel, one.note, name, one.n)
    edge = panel.healthy(metric) * one.unit if edge is None else edge
    measured = (one.value, one.low, one.high, one.p, one.n)
    return Tested(metric, name, *measured, panel.n_min(metric), edge, note, error=error_of(one))


def error_of(one: Estimate | None) -> Error | None:
    """Return the error of an estimate; None if it is unknown."""
    if one is None or one.se is None or one.df is None or not one.se > 0.0 or not one.df > 0.0:
        return None
    lasting = 0.0 if one.se_sessions is None else max(0.0, one.se**2 - one.se_sessions**2)
    return Error(one.se, one.df, math.sqrt(lasting))


def mark_contested(one: Tested, plain: Tested | None) -> Tested:
    """Return a finding, or the plain one if setting pairs aside made the effect clearly larger.

    Setting deviant pairs aside should remove effects that they caused. If it creates an effect
    instead (and the intervals do not overlap), neither result can be trusted. The plain one is then
    returned, because a reader can check it.
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
    without = f"{write_signed(value)} without deviant pairs"
    note = f"{plain.note}; {without}, so neither is reliable"
    return replace(plain, note=note, contested=True)


def one_sided(p: float | None, beyond: bool) -> float | None:
    """Return the p of the unhealthy side, from the two-sided p."""
    if p is None:
        return None
    return p / 2.0 if beyond else 1.0 - p / 2.0


def outliers(means: Mapping[Who, float]) -> dict[Who, str]:
    """Return harsh and generous reviewers: at least one standard deviation from the median."""
    n = len(means)
    if n < 2:
        return {}
    middle, centre = median(means.values()), math.fsum(means.values()) / n
    reach = math.sqrt(math.fsum([(mean - centre) ** 2 for mean in means.values()]) / (n - 1))
    far = {who: mean for who, mean in means.items() if not middle - reach <= mean <= middle + reach}
    return {who: "harsh" if mean < middle else "generous" for who, mean in far.items()}


# -- from what was measured to a finding -------------------------------------------------------


def finding(tested: Tested, q: float | None, n_tested: float = 1.0) -> Finding:
    """Return a measured value as a finding; `n_tested` findings are corrected together."""
    word = status(tested, q)
    mde, n_needed = (None, None) if word in SETTLED else what_it_takes(tested, n_tested)
    measured: dict[str, Any] = {name: getattr(tested, name) for name in MEASURED}
    edge = None if tested.not_identifiable else tested.edge
    return Finding(**measured, status=word, q=q, mde=mde, n_needed=n_needed, edge=edge)


def add_power(one: Finding, n_tested: float = 1.0, correlation: bool = False) -> Finding:
    """Return a finding that was made elsewhere, with its smallest detectable effect."""
    if one.status in SETTLED or one.edge is None:
        return one
    measured: dict[str, Any] = {name: getattr(one, name) for name in MEASURED}
    tested = Tested(**measured, edge=one.edge, correlation=correlation)
    mde, n_needed = what_it_takes(tested, n_tested)
    return one._replace(mde=mde, n_needed=n_needed)


def what_it_takes(tested: Tested, n_tested: float = 1.0) -> tuple[float | None, int | None]:
    """Return the smallest detectable effect (80% power), and the n needed to settle the finding.

    The first is None if no effect can be detected. With the n needed, an effect of zero would be
    `clear` in four of five audits: its interval then fits into the healthy range. Errors shrink
    with the root of n, except for tastes. One-sided metrics are compared with the edge: the first
    is the detectable distance beyond it, the second the n that shows on which side the value is.
    """
    value, low, high = tested.interval
    if tested.not_identifiable or tested.contested or value is None or low is None or high is None:
        return None, None
    edge, low, high = (_symmetric(x, tested.correlation) for x in (tested.edge, low, high))
    error = tested.error or Error((high - low) / 2.0 / normal_critical(LEVEL))
    if error.se <= 0.0:
        return None, None
    if tested.side != "both":
        return _takes_beyond(tested, error, n_tested, value)
    size = tested.dilution * _named_size(tested, error, n_tested, edge)
    needed = _n_needed(tested, error, edge / (error.reach + error.usual))
    return math.tanh(size) if tested.correlation else size, needed


def _symmetric(value: float, correlation: bool) -> float:
    """Return a value on a scale with symmetric errors: Fisher's for correlations."""
    if not correlation:
        return value
    return math.atanh(max(-MOST_CORRELATION, min(value, MOST_CORRELATION)))


def _named_size(tested: Tested, error: Error, n_tested: float, edge: float) -> float:
    """Return the effect that passes all criteria of `status` in 80% of audits."""
    bar, power = edge, POWER_Z * error.se
    if tested.at_most_indicator or tested.n < tested.n_min:
        bar += error.reach * error.se
    if tested.n < tested.n_min:
        far = math.atanh(FAR_CORRELATION) if tested.correlation else FAR * edge
        return max(bar, far) + power
    return max(bar + power, error.size_seen((1.0 - LEVEL) / max(n_tested, 1.0)) * error.se)


def _takes_beyond(
    tested: Tested, error: Error, n_tested: float, value: float
) -> tuple[float | None, int | None]:
    """Return the detectable effect and the n needed of a one-sided metric, from its edge."""
    critical = t_critical(1.0 - 2.0 * (1.0 - LEVEL) / max(n_tested, 1.0), round(error.df, 3))
    mde = None if tested.n < tested.n_min else (critical + POWER_Z) * error.se
    beyond = value < tested.edge if tested.side == "at_least" else value > tested.edge
    reach = max(critical, error.reach) if beyond else error.reach
    return mde, _n_needed(tested, error, abs(value - tested.edge) / (reach + POWER_Z))


def _n_needed(tested: Tested, error: Error, allowed: float) -> int | None:
    """Return the n at which the error is as small as allowed; None if no n suffices."""
    left = allowed**2 - error.lasting**2
    if left <= 0.0:
        return None
    ratio = max(error.se**2 - error.lasting**2, 0.0) / left
    needed = tested.n * ratio ** (0.5 / error.per_n)
    return None if needed > MOST else max(tested.n, tested.n_min, math.ceil(needed))


def status(tested: Tested, q: float | None) -> Status:
    """Return the status of a finding in one word; "no evidence" never reads as "no bias"."""
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
    **dict.fromkeys((*AGAINST, "length_relative", "style", "style_change", "agreement"), "reviews"),
    "length": "answers",
    "position": "ballots",
    "self_preference": "own answers",
    "anchoring": "ballots",
    "consistency": "repeats",
    "reasoning_length": "answers",
    "contradiction": "answers that contradict its own",
    "effective_votes": "sessions",
    "drift": "weeks",
    "vote_agreement": "questions",
    "vote_lean": "predicates",
    "vote_first": "choices",
    **dict.fromkeys(("vote_labels", "vote_sureness"), "labelled questions"),
}
CORRELATION = " in correlation"
UNITS = {  # of the smallest detectable effect
    **dict.fromkeys(
        ("length", "style", "style_change", "reasoning_length", "agreement"), CORRELATION
    ),
    **dict.fromkeys((*AGAINST, "position"), " {points}"),
    "length_relative": " {points} for a standard deviation of log words",
    "anchoring": " points for a point of the first answer",
    "consistency": " of its own standard deviations",
    "contradiction": " of such answers",
    "effective_votes": " votes",
    "drift": " points a week",
    "vote_agreement": CORRELATION,
    "vote_lean": " of the predicates",
    "vote_first": " of the choices",
    "vote_labels": " beyond guessing",
    "vote_sureness": " of probability",
}
NO_LEVEL = "a ranking has no level: its mean is the same for all reviewers"


def describe_power(one: Finding, in_shares: bool = False) -> str:
    """Describe the smallest detectable effect and the n needed; empty if settled.

    `in_shares`: the value is a share of rivals and not points, because ranks were audited.
    """
    more = "" if one.status in SETTLED else _more_needed(one)
    if one.mde is None:
        return more
    points = "in share of rivals" if in_shares else "points"
    unit = UNITS.get(one.metric, "").format(points=points)
    power = f"detectable from {one.mde:.2g}{unit}"
    if unit == CORRELATION and one.mde > 1.0:
        power = "too few to detect even a perfect correlation"
    return f"{power}; {more}" if more else power


def _more_needed(one: Finding) -> str:
    if one.n_needed is None or one.n_needed <= one.n or one.edge is None:
        return ""
    more, what = one.n_needed - one.n, COUNTED.get(one.metric, "observations")
    n = f"about {more:,} more" if more <= MANY else f"more than {MANY:,} further"
    return f"{n} {what} would decide (healthy limit {one.edge:.2g})"


def write_signed(value: float | None) -> str:
    """Return a number with its sign, such as +0.41 or −0.20, or a dash if there is none."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def write_range(value: float | None, low: float | None, high: float | None) -> str:
    """Return a value with its interval, if it has one."""
    if low is None or high is None:
        return write_signed(value)
    return f"{write_signed(value)} [{write_signed(low)}, {write_signed(high)}]"
