"""The results of a gate: measures, telling queries, the guard, and one or several candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peerage.reports.gate_files import DECIMALS, hash_of
from peerage.stats.bets import GateVerdict, Look

EXIT_CODES = {"worse": 1, "undecided": 3}  # every other verdict exits with 0
UNDECIDED_CODES = {None: 3, "pass": 0, "fail": 1}


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """The result on one measure: the verdict, the difference and the evidence."""

    measure: str
    decision: GateVerdict
    difference: float
    low: float
    high: float
    log10_evidence: Mapping[str, float | None]  # None: infinite, as the suite is known
    looks: tuple[Look, ...]

    def document(self) -> dict[str, Any]:
        """Return the JSON of the measure."""
        return {
            "measure": self.measure,
            "verdict": self.decision.verdict,
            "decided_after": self.decision.after,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "log10_evidence": dict(self.log10_evidence),
            "looks": [look._asdict() for look in self.looks],
        }


@dataclass(frozen=True, slots=True)
class TellingQuery:
    """A query with a strong preference for one side, or a clear regression, with its sessions."""

    query: str
    difference: float
    sessions: tuple[str, ...]
    n_judges: int
    n_against: int

    def document(self) -> dict[str, Any]:
        """Return the JSON of the query."""
        return {
            "query": self.query,
            "difference": self.difference,
            "sessions": list(self.sessions),
            "judges": self.n_judges,
            "against": self.n_against,
        }


@dataclass(frozen=True, slots=True)
class GuardResult:
    """The clear regressions and the equally clear improvements, and whether they block."""

    is_on: bool = False
    n_checked: int = 0  # queries that enough judges compared
    regressions: tuple[TellingQuery, ...] = ()
    improvements: tuple[TellingQuery, ...] = ()
    p: float | None = None  # that there are so many more regressions by chance
    has_more_regressions: bool = False  # than chance explains
    n_repeated: int = 0  # queries with enough repeats to be tested on their own
    most_repeats: int = 0
    repeats_needed: int = 0  # of one query, to show a regression on it alone
    repeated_regressions: tuple[TellingQuery, ...] = ()  # queries whose repeats show a regression

    @property
    def blocks(self) -> bool:
        """Whether the guard is on and blocks the candidate."""
        return self.is_on and (self.has_more_regressions or bool(self.repeated_regressions))

    def document(self) -> dict[str, Any]:
        """Return the JSON of the guard."""
        return {
            "on": self.is_on,
            "blocks": self.blocks,
            "queries_checked": self.n_checked,
            "p": None if self.p is None else round(self.p, DECIMALS),
            "regressions": [one.document() for one in self.regressions],
            "improvements": [one.document() for one in self.improvements],
            "repeated_queries": self.n_repeated,
            "most_repeats": self.most_repeats,
            "repeats_needed": self.repeats_needed,
            "repeated_regressions": [one.document() for one in self.repeated_regressions],
        }


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict on a candidate, with the evidence."""

    base: str
    candidate: str
    decision: GateVerdict
    measures: tuple[MeasureResult, ...]
    n_queries: int
    n_sessions: int
    needed: int | None  # queries still needed, if undecided
    bar: Mapping[str, Any]
    order: str  # how the order of queries was fixed
    for_candidate: tuple[TellingQuery, ...] = ()
    for_base: tuple[TellingQuery, ...] = ()
    guard: GuardResult = GuardResult()
    n_candidates: int = 1  # that share alpha
    keeps_looks: bool = True  # whether a later gate over more queries keeps these looks
    parameters: Mapping[str, Any] = field(default_factory=dict)
    registered: str = ""  # the hash of the bar that the season was started with
    flags: tuple[str, ...] = ()

    @property
    def bar_hash(self) -> str:
        """The hash that identifies the bar."""
        return hash_of(self.bar)

    @property
    def regressions(self) -> tuple[TellingQuery, ...]:
        """The queries on which all judges clearly prefer the base, whether or not they block."""
        return self.guard.regressions

    @property
    def improvements(self) -> tuple[TellingQuery, ...]:
        """The queries on which all judges as clearly prefer the candidate."""
        return self.guard.improvements

    @property
    def fails(self) -> bool:
        """Whether the candidate is worse, or the guard blocks it."""
        return self.decision.verdict == "worse" or self.guard.blocks

    def exit_code(self, undecided: str | None = None) -> int:
        """Return 0 for not worse, 1 for worse, and for undecided 3 or the given code."""
        if self.fails:
            return EXIT_CODES["worse"]
        is_undecided = self.decision.verdict == "undecided"
        return UNDECIDED_CODES[undecided] if is_undecided else 0

    def document(self) -> dict[str, Any]:
        """Return the JSON of the gate."""
        first = self.measures[0].document()
        return {
            "gate": f"{self.candidate} against {self.base}",
            "base": self.base,
            "candidate": self.candidate,
            "verdict": self.decision.verdict,
            "decided_after": self.decision.after,
            **{name: first[name] for name in ("difference", "low", "high")},
            "queries": self.n_queries,
            "sessions": self.n_sessions,
            "queries_needed": self.needed,
            "measures": [one.document() for one in self.measures],
            "bar": dict(self.bar),
            "bar_hash": self.bar_hash,
            "registered": self.registered or None,
            "order": self.order,
            "for_candidate": [one.document() for one in self.for_candidate],
            "for_base": [one.document() for one in self.for_base],
            "guard": self.guard.document(),
            "parameters": dict(self.parameters),
            "flags": list(self.flags),
        }


SEVERITY = ("worse", "undecided", "not_worse", "same", "better")


@dataclass(frozen=True, slots=True)
class GateResults:
    """The verdicts on several candidates that share the probability of a false verdict."""

    base: str
    results: tuple[GateResult, ...]  # in the order in which the candidates were given

    @property
    def worst_first(self) -> tuple[GateResult, ...]:
        """The results, the worst verdict first."""
        key = SEVERITY.index
        return tuple(
            sorted(self.results, key=lambda one: (not one.fails, key(one.decision.verdict)))
        )

    def exit_code(self, undecided: str | None = None) -> int:
        """Return 1 if any candidate fails, else the code of undecided if any is, else 0."""
        codes = {one.exit_code(undecided) for one in self.results}
        return next(code for code in (1, 3, 0) if code in codes)

    def document(self) -> dict[str, Any]:
        """Return the JSON of the gate: one document for each candidate."""
        return {
            "base": self.base,
            "verdict": min((one.decision.verdict for one in self.results), key=SEVERITY.index),
            "candidates": [one.document() for one in self.results],
        }
