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


Advice = Literal["trust", "use_with_care", "do_not_rely_on"]


class Bounded(NamedTuple):
    """A figure with its 95% interval; the ends are None if it has none."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Mismatch(NamedTuple):
    """An answer that a judge and people judge differently, or a pair of answers."""

    id: str
    candidate: str
    judge: float
    people: float
    reason: str = ""  # the judge's
    answer: str = ""  # its beginning


@dataclass(frozen=True, slots=True)
class PassRate:
    """The share of answers that pass: by the judge, by people, and the judge's corrected."""

    judge: Bounded | None
    people: Bounded | None
    corrected: Bounded | None  # None with too few labels, or if people alone say more
    n: int
    n_labels: int

    @property
    def best(self) -> Bounded | None:
        """The narrowest figure that does not rest on the judge alone."""
        return self.corrected or self.people

    def document(self) -> dict[str, Any]:
        """Return the JSON of the pass rate."""
        names = ("judge", "people", "corrected")
        rates = {name: bounded_document(getattr(self, name)) for name in names}
        return {**rates, "n": self.n, "n_labels": self.n_labels}


@dataclass(frozen=True, slots=True)
class LabelsNeeded:
    """How many labels in all a half-width of the pass rate needs, and how many `trust` needs."""

    half_width: float
    for_half_width: int | None
    for_trust: int | None

    def document(self) -> dict[str, Any]:
        """Return the JSON of these numbers."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class CutOff:
    """The mark from which a judge's marks agree best with people's pass and fail."""

    value: float
    true_pass_rate: Bounded | None  # on answers that were not used to find it
    true_fail_rate: Bounded | None

    def document(self) -> dict[str, Any]:
        """Return the JSON of the cut-off."""
        rates = {
            name: bounded_document(getattr(self, name))
            for name in ("true_pass_rate", "true_fail_rate")
        }
        return {"value": self.value, **rates}


@dataclass(frozen=True, slots=True)
class Ship:
    """Which verdicts may ship without a person, so that the error stays below a promised one."""

    threshold: float | None  # of confidence; None if labels allow none, so that people see all
    share_shipped: float
    error_promised: float
    error_held_out: Bounded | None  # measured on labels that did not set the threshold
    n_labels: int

    def document(self) -> dict[str, Any]:
        """Return the JSON of the threshold."""
        held_out = bounded_document(self.error_held_out)
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "error_held_out": held_out}


@dataclass(frozen=True, slots=True)
class BehindBest:
    """How much less often a judge is right than the best one, on the answers that both judged."""

    best: str
    difference: Bounded
    p: float
    n: int

    def document(self) -> dict[str, Any]:
        """Return the JSON of the difference."""
        difference = bounded_document(self.difference)
        return {"best": self.best, "difference": difference, "p": self.p, "n": self.n}


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One judge against people's labels.

    `kind` is how the two judge: `verdicts` are pass or fail, `marks` are numbers, `picks` are pairs
    of answers of which one is better. Fields that a kind does not have are None.
    """

    judge: str
    kind: Literal["verdicts", "marks", "picks"]
    n: int  # answers with a label and a judgement; for picks, pairs
    n_groups: int  # queries among them
    n_judged: int
    advice: Advice | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    base_rate: Bounded | None = None  # the share that people pass
    table: Mapping[str, int] | None = None
    false_pass_rate: Bounded | None = None  # of what people fail, the share that the judge passes
    false_fail_rate: Bounded | None = None  # of what people pass, the share that the judge fails
    precision: Bounded | None = None  # of what the judge passes, the share that people pass
    accuracy: Bounded | None = None  # for picks, with ties counted half
    constant_guess: float | None = None
    kappa: Bounded | None = None
    ac1: Bounded | None = None
    pass_rate: PassRate | None = None
    by_candidate: tuple[tuple[str, PassRate], ...] = ()
    labels_needed: LabelsNeeded | None = None
    people_agreement: Bounded | None = None  # of two people about one answer
    judge_behind_people: Bounded | None = None  # that, less the judge's agreement with people
    level: Bounded | None = None
    spread: Bounded | None = None
    correlation: Bounded | None = None
    rank_correlation: Bounded | None = None
    concordance: Bounded | None = None
    cutoff: CutOff | None = None
    order_agreement: Bounded | None = None
    first_shown: Bounded | None = None  # how often the answer shown first is picked, less one half
    ties: Mapping[str, int] | None = None
    ship: Ship | None = None  # with a promised error
    behind_best: BehindBest | None = None  # None for the best judge, or the only one
    disagreements: tuple[Mismatch, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the JSON of the scorecard, without the fields that its kind does not have."""
        always = {"advice", "kappa", "people_agreement", *OF_KIND[self.kind]}
        document: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if value is None and name not in always:
                continue
            document[name] = _as_json(value)
        if self.kind != "verdicts":
            document.pop("by_candidate")
        else:
            document["by_candidate"] = [
                {"candidate": name, "pass_rate": rate.document()}
                for name, rate in self.by_candidate
            ]
        document["disagreements"] = [one._asdict() for one in self.disagreements]
        return document


OF_KIND: Mapping[str, tuple[str, ...]] = {  # fields that are null, not absent, without a value
    "verdicts": ("false_pass_rate", "false_fail_rate", "accuracy", "ac1", "pass_rate"),
    "marks": ("level", "spread", "correlation", "rank_correlation", "concordance", "cutoff"),
    "picks": ("accuracy", "order_agreement"),
}


def bounded_document(estimate: Bounded | None) -> dict[str, Any] | None:
    """Return the JSON of a figure with its interval."""
    return None if estimate is None else estimate._asdict()


def _as_json(value: Any) -> Any:
    if isinstance(value, Bounded):
        return value._asdict()
    if isinstance(value, (PassRate, LabelsNeeded, CutOff, Ship, BehindBest)):
        return value.document()
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Tabular):
    """The findings on one or many sessions; for one session also its summary."""

    findings: tuple[Finding, ...]
    bias_audit: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)  # data of charts: curves, ranges
    tastes: AuditTastes | None = None  # None for one session
    against_people: tuple[Scorecard, ...] = ()  # one for each judge, where people gave labels

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
        if self.against_people:
            document["against_people"] = [one.document() for one in self.against_people]
        return document | ({"bias_audit": dict(self.bias_audit)} if self.bias_audit else {})
