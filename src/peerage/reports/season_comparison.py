"""Two seasons compared: models whose shares moved, with intervals, and sessions that changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from peerage.reports import Reports
from peerage.reports.page_facts import stored_rows
from peerage.reviews.rows import Rows, shares
from peerage.stats.clusters import RatioEstimate, ratio_interval
from peerage.stats.tails import t_critical
from peerage.stores import SessionEntry

LEVEL = 0.95
MIN_SHARED = 2  # queries that both seasons have, so that differences can be paired


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A model in two seasons: shares of rivals beaten, and their difference with its interval.

    `paired` says that the difference is over the queries that both seasons asked.
    """

    model: str
    share_a: float | None
    share_b: float | None
    rank_a: int | None
    rank_b: int | None
    difference: float | None
    low: float | None
    high: float | None
    n: int  # queries that the difference is made of
    paired: bool

    @property
    def moved(self) -> bool:
        """Return whether the interval of the difference leaves zero out."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A question that both seasons asked and that another model won."""

    query: str
    session_a: str
    session_b: str
    winner_a: str
    winner_b: str


@dataclass(frozen=True, slots=True)
class SeasonComparison:
    """How a second season differs from a first."""

    a: str
    b: str
    models: tuple[ModelChange, ...]
    sessions: tuple[SessionChange, ...]
    n_shared: int  # questions that both asked

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "shared_questions": self.n_shared,
            "models": [{**asdict(one), "moved": one.moved} for one in self.models],
            "sessions": [asdict(one) for one in self.sessions],
        }


def compare_seasons(reports: Reports, a: str, b: str) -> SeasonComparison:
    """Compare two seasons by the ids of their sessions."""
    rows = stored_rows(reports)
    by_model = [_shares_by_query(rows, season) if rows is not None else {} for season in (a, b)]
    names = sorted({*by_model[0], *by_model[1]})
    ranks = [_ranks(side) for side in by_model]
    changes = [_change(name, by_model[0], by_model[1], ranks) for name in names]
    changes.sort(key=lambda one: (-(abs(one.difference or 0.0)), one.model))
    sessions, n_shared = _changed_sessions(reports, a, b)
    return SeasonComparison(a, b, tuple(changes), sessions, n_shared)


ByQuery = Mapping[str, float]  # a model's mean share on each query


def _shares_by_query(rows: Rows, season: str) -> dict[str, ByQuery]:
    """Return each model's mean share of rivals beaten by query; own votes are left out."""
    rows = rows.only(rows.has_label("season", season))
    share = shares(rows) if rows.n else np.zeros(0)
    counts = (rows.reviewer != rows.candidate) & ~np.isnan(share)
    sums: dict[str, dict[str, list[float]]] = {}
    for i in np.flatnonzero(counts).tolist():
        model, query = rows.names[rows.candidate[i]], str(rows.unit[rows.session[i]])
        sums.setdefault(model, {}).setdefault(query, []).append(float(share[i]))
    return {
        model: {query: sum(some) / len(some) for query, some in queries.items()}
        for model, queries in sums.items()
    }


def _mean(values: ByQuery) -> RatioEstimate | None:
    numbers = [values[query] for query in sorted(values)]
    return ratio_interval(numbers, [1.0] * len(numbers), level=LEVEL) if numbers else None


def _ranks(by_model: Mapping[str, ByQuery]) -> dict[str, int]:
    means = {name: sum(values.values()) / len(values) for name, values in by_model.items()}
    return {name: 1 + sum(other > mean for other in means.values()) for name, mean in means.items()}


def _change(
    name: str,
    first: Mapping[str, ByQuery],
    second: Mapping[str, ByQuery],
    ranks: list[dict[str, int]],
) -> ModelChange:
    before, after = first.get(name, {}), second.get(name, {})
    mean_a, mean_b = _mean(before), _mean(after)
    shared = sorted(before.keys() & after.keys())
    difference = low = high = None
    paired = len(shared) >= MIN_SHARED
    n = len(shared) if paired else min(len(before), len(after))
    if paired:
        result = _mean({query: after[query] - before[query] for query in shared})
        if result is not None:
            difference, low, high = result.value, result.low, result.high
    elif mean_a is not None and mean_b is not None:
        difference = mean_b.value - mean_a.value
        if mean_a.se is not None and mean_b.se is not None and n > 1:
            half = t_critical(LEVEL, n - 1) * math.hypot(mean_a.se, mean_b.se)
            low, high = difference - half, difference + half
    return ModelChange(
        name,
        mean_a.value if mean_a else None,
        mean_b.value if mean_b else None,
        ranks[0].get(name),
        ranks[1].get(name),
        difference,
        low,
        high,
        n,
        paired,
    )


def _changed_sessions(reports: Reports, a: str, b: str) -> tuple[tuple[SessionChange, ...], int]:
    """Return the questions that both seasons asked and another model won, and how many both did."""
    first, second = (_by_question(reports.store.sessions(season)) for season in (a, b))
    shared = [question for question in first if question in second]
    changes = [
        SessionChange(question, x.id, y.id, x.winner, y.winner)
        for question in shared
        if (x := first[question]).winner != (y := second[question]).winner
    ]
    return tuple(changes), len(shared)


def _by_question(entries: list[SessionEntry]) -> dict[str, SessionEntry]:
    return {entry.query: entry for entry in entries if entry.status}
