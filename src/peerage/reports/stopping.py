"""When a season may stop: its sessions are examined one by one, in an order drawn from its seed.

Only sessions before the first unfinished one count, so that the moment of the stop cannot depend on
which sessions were fast. A query counts when its planned repeats are finished: as many of each
query as the query with the fewest has.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerage.boards.differences import MEASURES, Comparison, candidate_shares, query_differences
from peerage.engines.review_tables import rows_of
from peerage.errors import UsageError, shown
from peerage.event_facts import opening_of
from peerage.events import Opened
from peerage.reports.gate_files import SEED, bar_document, canonical_json
from peerage.reports.options import BarOptions, parse_scale
from peerage.reports.stored_reviews import review_rows
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Rows, unit_of
from peerage.stats.bets import (
    EvidenceBar,
    GateVerdict,
    RunningGate,
    decide,
    decide_all,
    log_evidence_above,
)
from peerage.types import Event, OwnVotes, Rubric

TEXTS = ("session_id", "reviewer", "candidate", "query_id", "category")
NUMBERS = ("rank", "score", "round", "correct")
TOP = re.compile(r"top:(\d{1,4})")
UNDECIDED = GateVerdict("undecided", None)
UNTIL_HINT = "Known: decided, best, top:K."


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The aim of a season: which of two models is worse, or the best K models."""

    until: str
    bar: BarOptions
    own_votes: OwnVotes = "out"
    suite: int | None = None

    @property
    def n_top(self) -> int | None:
        """The number of top models to find; None if two models are compared."""
        if self.until == "decided":
            return None
        return 1 if self.until == "best" else int(self.until.removeprefix("top:"))

    def design(self, batch: int, n_repeats: int) -> str:
        """Return the rule as JSON, and that the order was drawn, for the log of every session."""
        bar = bar_document(self.bar, self.own_votes, self.suite)
        order = {"drawn_from": SEED, "batch": batch, "repeats": n_repeats}
        return canonical_json({"until": self.until, "bar": bar, "order": order})


def check_until(until: str, bar: BarOptions) -> None:
    """Raise an error for a stopping rule that cannot be used."""
    match = TOP.fullmatch(until)
    if until not in ("decided", "best") and not (match and int(match[1])):
        raise UsageError(f"--until cannot be {shown(until)}.", hint=UNTIL_HINT)
    if until == "decided" and not (bar.base and bar.candidate):
        raise UsageError(
            "--until decided needs two models to compare.",
            hint="Add --base NAME and --candidate NAME.",
        )
    if until == "decided" and bar.base in bar.candidate:
        raise UsageError(f"the base and the candidate are the same model, {shown(bar.base)}.")
    if until == "decided" and bar.metric == "dimension" and not bar.dimensions:
        raise UsageError(
            "--until decided with --metric dimension needs --dimensions.",
            hint="As in --dimensions accuracy.",
        )


@dataclass(slots=True)
class SeasonWatch:
    """Reads a season's finished sessions, and knows when no more are needed."""

    rule: StoppingRule
    n_by_query: Mapping[str, int]  # sessions that will ask each query
    rubric_of: Callable[[Opened], Rubric | None]
    verdicts: tuple[GateVerdict, ...] = ()  # on each candidate
    top: tuple[str, ...] = ()  # the best models, once they are known
    n_queries: int = 0
    _ahead: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    _next: int = 0
    _by_query: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _n_seen: Counter[str] = field(default_factory=Counter)
    _gate: RunningGate | None = None
    _shares: list[dict[str, float]] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether the season may stop."""
        decided = bool(self.verdicts) and UNDECIDED not in self.verdicts
        return decided or bool(self.top)

    @property
    def n_repeats(self) -> int:
        """How many sessions of each query count."""
        return min(self.n_by_query.values(), default=1)

    @property
    def sentence(self) -> str:
        """Return a sentence that describes the current state."""
        if self.top:
            names = ", ".join(self.top)
            return f"the best is {names}" if len(self.top) == 1 else f"the top are {names}"
        bar = self.rule.bar
        verdicts = self.verdicts or (UNDECIDED,) * len(bar.candidate)
        return "; ".join(
            f"{candidate} against {bar.base}: {one.verdict.replace('_', ' ')}"
            for candidate, one in zip(bar.candidate, verdicts, strict=True)
        )

    def add(self, ordinal: int, events: Sequence[Event]) -> None:
        """Add the log of a finished session; the log may be empty."""
        rows: list[dict[str, Any]] = []
        if events:
            rows = list(review_rows(list(events), self.rubric_of(opening_of(list(events)))))
        self._ahead[ordinal] = rows
        while self._next in self._ahead and not self.is_known:
            self._take(self._ahead.pop(self._next))
            self._next += 1

    def _take(self, records: list[dict[str, Any]]) -> None:
        on = self.rule.bar.on
        records = [one for one in records if on is None or one["category"] == on]
        if not records:
            return
        unit = unit_of(records[0]["session_id"], records[0]["query_id"])
        self._n_seen[unit] += 1
        if self._n_seen[unit] > self.n_repeats:
            return
        self._by_query.setdefault(unit, []).extend(records)
        if self._n_seen[unit] < self.n_repeats:
            return
        rows = rows_from(self._by_query.pop(unit))
        if self.rule.n_top is None:
            self._look_at_sides(rows)
        else:
            self._look_at_top(rows)

    def _look_at_sides(self, rows: Rows) -> None:
        bar = self.rule.bar
        measures = MEASURES.get(bar.metric, tuple(sorted(bar.dimensions)))
        values = np.full((len(bar.candidate), len(measures)), np.nan)
        for i, candidate in enumerate(bar.candidate):
            sides = Comparison(
                bar.base, candidate, measures, parse_scale(bar.scale), self.rule.own_votes
            )
            differences = query_differences(rows, sides)
            if differences.n:
                values[i] = differences.by_measure[:, 0]
        if np.isnan(values).all():
            return
        if self._gate is None:
            evidence_bar = EvidenceBar(bar.margin, bar.alpha, self.rule.suite)
            self._gate = RunningGate(evidence_bar, values.size)
        self._gate.add(values.ravel())
        self.n_queries += 1
        decisions = [decide(one) for one in self._gate.first]
        self.verdicts = tuple(
            decide_all(decisions[i : i + len(measures)])
            for i in range(0, len(decisions), len(measures))
        )

    def _look_at_top(self, rows: Rows) -> None:
        """Check whether each of the best K models beats every other model.

        If the top K are wrong, the claim about one of K·(m − K) pairs is false, so each claim needs
        that many times the evidence.
        """
        self._shares.append(candidate_shares(rows, self.rule.own_votes))
        self.n_queries += 1
        names = sorted({name for one in self._shares for name in one})
        k = self.rule.n_top or 1
        if k >= len(names):
            return
        table = np.array([[one.get(name, np.nan) for name in names] for one in self._shares])
        order = np.argsort(-np.nanmean(table, axis=0), kind="stable")
        bar = math.log(k * (len(names) - k) / self.rule.bar.alpha)
        for i in order[:k].tolist():
            for j in order[k:].tolist():
                gap = table[:, i] - table[:, j]
                gap = gap[np.isfinite(gap)]
                if not len(gap) or log_evidence_above(gap, 0.0).max() < bar:
                    return
        self.top = tuple(names[i] for i in order[:k].tolist())


def rows_from(records: Sequence[Mapping[str, Any]]) -> Rows:
    """Return records of reviews as arrays."""
    import pyarrow as pa  # type: ignore[import-untyped]

    texts = {
        name: pa.array([record.get(name) for record in records], pa.string()).dictionary_encode()
        for name in TEXTS
    }
    marks = sorted({name for record in records for name in record if name.startswith(MARK)})
    numbers = {
        name: pa.array([_number(record.get(name)) for record in records], pa.float64())
        for name in (*NUMBERS, *marks)
    }
    return rows_of(pa.table({**texts, **numbers}))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def count_by_query(query_ids: Iterable[str]) -> Counter[str]:
    """Return how many sessions ask each query."""
    return Counter(unit_of("", query_id) for query_id in query_ids if query_id)
