"""Findings of an audit: their values, the thresholds they are compared with, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from peerage.arguments import check_fields
from peerage.errors import UsageError
from peerage.notebooks import PlottedValue, Tabular, plot_estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST = 10.0  # healthy ranges: larger effects hardly occur, so a check that needs one finds none
Status = Literal["not_identifiable", "too_few", "indicator", "inconclusive", "clear", "evidence"]


class Finding(NamedTuple):
    """One figure of an audit, with its sample size, interval and thresholds."""

    metric: str
    subject: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_min: int
    status: Status
    q: float | None = None
    note: str = ""
    mde: float | None = None  # smallest effect detectable with this data
    n_needed: int | None = None  # observations until a reviewer without the bias is `clear`
    edge: float | None = None  # the end of the healthy range

    @property
    def is_able(self) -> bool:
        """Whether this check could find something in this data.

        It found something, it excluded everything beyond the healthy range, or it would find an
        effect that may occur in four of five audits of such data.
        """
        if self.status != "inconclusive":
            return self.status in ("evidence", "indicator", "clear")
        if self.mde is None or self.edge is None:
            return False
        return self.mde <= LARGEST * self.edge


# By metric: the fewest observations that can be evidence, and the end of the healthy range. Each
# comment names the observations, then the unit of the range; `sd` is the pooled standard deviation
# of scores.
_LIMITS: Mapping[str, tuple[int | None, float | None]] = {
    "length": (30, 0.2),  # answers
    "length_in_session": (10, None),  # answers
    "length_relative": (50, 0.1),  # reviews; sd
    "position": (20, 0.05),  # ballots; share of the scale
    "position_correlation": (None, 0.1),
    "calibration": (50, 0.5),  # reviews; sd
    "self_preference": (20, 0.25),  # own answers; sd
    "family_preference": (20, 0.25),  # reviews; sd
    "anchoring": (20, 0.1),  # ballots
    "consistency": (20, 0.5),  # repeats; sd, at most
    "style": (50, 0.1),  # reviews
    "pair_departure": (20, 0.5),  # reviews of the pair; sd
    "reasoning_length": (30, 0.2),  # answers
    "agreement": (50, 0.3),  # reviews; at least
    "effective_votes": (50, 0.5),  # sessions; at least, share of the panel
    "drift": (4, 0.1),  # weeks; sd a week
    "contradiction": (20, 0.25),  # reviews of answers that contradict its own; at most
    "style_change": (50, 0.1),  # reviews
    "vote_agreement": (50, 0.3),  # typed questions; at least
    "vote_lean": (50, 0.1),  # predicates; share of them
    "vote_first": (50, 0.1),  # choices; share of them
    "vote_labels": (50, 0.3),  # labelled questions; at least, beyond guessing
    "vote_sureness": (50, 0.1),  # labelled questions; probability
}
N_MIN = {name: n for name, (n, _) in _LIMITS.items() if n is not None}
HEALTHY = {name: edge for name, (_, edge) in _LIMITS.items() if edge is not None}
FORMER_METRICS = {"sycophancy": "pair_departure"}  # names in older settings


@check_fields
@dataclass(frozen=True, slots=True)
class AuditLimits:
    """The thresholds of an audit, by metric.

    Fewer observations than `n_min` are never called evidence. A value within plus or minus
    `healthy` is not a concern. The first two fields are used in the summary of one session.
    """

    length_correlation: float = 0.3
    position_variance: float = 0.5
    n_min: Mapping[str, int] = field(default_factory=lambda: N_MIN)
    healthy: Mapping[str, float] = field(default_factory=lambda: HEALTHY)


FINDING_COLUMNS = (
    *("metric", "subject", "value", "low", "high"),
    *("p", "q", "n", "n_min", "status", "note", "mde", "n_needed", "edge"),
)


class Departure(NamedTuple):
    """How far one reviewer's scores of one candidate lie above the other reviewers' scores.

    The unit is one standard deviation of the reviewer's scores. The value is None if it cannot be
    computed; `note` then gives the reason. The interval is over sessions.
    """

    reviewer: str
    candidate: str
    own: bool  # whether the answers are the reviewer's own
    value: float | None
    low: float | None
    high: float | None
    n: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class AuditTastes:
    """The departures of every reviewer by candidate, and their usual spread."""

    spread: float  # standard deviation of lasting departures, in their unit
    spread_status: Literal["estimated", "assumed"]
    departures: tuple[Departure, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the JSON of `tastes`."""
        return {
            "spread": self.spread,
            "spread_status": self.spread_status,
            "departures": [one._asdict() for one in self.departures],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Tabular):
    """The findings on one or many sessions; for one session also its summary."""

    findings: tuple[Finding, ...]
    bias_audit: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)  # data of charts: curves, ranges
    tastes: AuditTastes | None = None  # None for one session

    def __repr__(self) -> str:
        n_evidence = sum(finding.status == "evidence" for finding in self.findings)
        return f"Audit({len(self.findings)} findings, {n_evidence} of them evidence)"

    @property
    def n_able(self) -> int:
        """How many of the checks could find something in this data."""
        return sum(finding.is_able for finding in self.findings)

    def plot(self, metric: str = "") -> Axes:
        """Draw the findings that have an interval, or only those of one metric, with matplotlib.

        Findings that are evidence come first, in another colour.
        """
        estimates = [
            PlottedValue(f"{one.metric} {one.subject}", one.value, one.low, one.high, marked)
            for one in self.findings
            for marked in (one.status == "evidence",)
            if (not metric or one.metric == metric)
            and not (one.value is None or one.low is None or one.high is None)
        ]
        if not estimates:
            of_metric = f" of {metric}" if metric else ""
            raise UsageError(f"there is no finding{of_metric} with an interval to draw.")
        estimates.sort(key=lambda one: not one.marked)
        title = "Findings, with 95% intervals; evidence in red"
        return plot_estimates(estimates, title=title, axis="effect", reference=0.0)

    def table(self) -> dict[str, list[Any]]:
        return {
            name: [getattr(finding, name) for finding in self.findings] for name in FINDING_COLUMNS
        }

    def document(self) -> dict[str, Any]:
        """Return the JSON of the audit."""
        document: dict[str, Any] = {
            "findings": self.rows,
            "n_able": self.n_able,
            "parameters": dict(self.views),
        }
        if self.tastes is not None:
            document["tastes"] = self.tastes.document()
        return document | ({"bias_audit": dict(self.bias_audit)} if self.bias_audit else {})
