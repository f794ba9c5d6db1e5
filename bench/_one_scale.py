"""Simulated seasons as rows on the way to one scale, and their audit in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from peerage.reviews.comparisons import comparisons
from peerage.reviews.departures import (
    family_preference,
    length_relative,
    measured_pairs,
    self_preference,
    sycophancy,
)
from peerage.reviews.deviations import DeviationSums
from peerage.reviews.first_shown import anchoring, position
from peerage.reviews.measurements import Measurement
from peerage.reviews.one_scale import Reviews, Scales
from peerage.simulate.reviews import Column, Planted, Season, simulated_reviews
from peerage.stats.tails import benjamini_hochberg

SPREADS = dict(zip("abcde", (0.45, 0.7, 1.0, 1.3, 1.7), strict=True))
HEALTHY = {  # of the reviewer's own standard deviation; position of the scale, anchoring a slope
    "self_preference": 0.25,
    "family_preference": 0.25,
    "sycophancy": 0.5,
    "length_relative": 0.1,
    "position": 0.05,
    "anchoring": 0.1,
}
N_MIN = {
    "self_preference": 20,
    "family_preference": 20,
    "sycophancy": 20,
    "length_relative": 50,
    "position": 20,
    "anchoring": 20,
}


def reviews_of(columns: dict[str, Column]) -> Reviews:
    """The columns of a reviews table as rows, names in sorted order."""
    reviewers, candidates = columns["reviewer"].astype(str), columns["candidate"].astype(str)
    names = np.unique(np.concatenate([reviewers, candidates]))
    reviewer, candidate = np.searchsorted(names, reviewers), np.searchsorted(names, candidates)
    _, session = np.unique(columns["session_id"].astype(str), return_inverse=True)
    _, cluster = np.unique(columns["query_id"].astype(str), return_inverse=True)
    _, answer = np.unique(session * len(names) + candidate, return_inverse=True)
    _, ballot = np.unique(session * len(names) + reviewer, return_inverse=True)
    family = np.full(len(names), -1)
    if "family" in columns:
        family[candidate] = np.unique(columns["family"].astype(str), return_inverse=True)[1]
    return Reviews(
        n_names=len(names),
        n_clusters=int(cluster.max()) + 1,
        answer=answer,
        reviewer=reviewer,
        candidate=candidate,
        cluster=cluster,
        score=columns["score"].astype(np.float64),
        own=reviewer == candidate,
        ballot=ballot,
        first=(columns["position"] == 0).astype(np.float64),
        length=np.log1p(columns["words"].astype(np.float64)),
        week=np.floor(columns["at"].astype(np.float64) / 604_800.0) - 2_800.0,
        family=family,
    )


def ranked(columns: dict[str, Column]) -> Reviews:
    """The same season with ranks only: who scored higher on the ballot is placed higher."""
    reviews = reviews_of(columns)
    _, session = np.unique(columns["session_id"].astype(str), return_inverse=True)
    return comparisons(session, reviews, -reviews.score)


@dataclass(frozen=True)
class Audited:
    """A season measured on one scale."""

    scales: Scales
    sums: DeviationSums
    found: dict[str, list[Measurement]]

    def evidence(self) -> list[tuple[str, int]]:
        """Metric and subject of all that is evident, corrected over everything measured."""
        every = [(name, one) for name, many in self.found.items() for one in many]
        counted = [
            one.p if one.status == "ok" and one.n >= N_MIN[name] else None for name, one in every
        ]
        qs = benjamini_hochberg(counted)
        return [
            (name, one.subject)
            for (name, one), q in zip(every, qs, strict=True)
            if q is not None
            and q < 0.05
            and abs(one.value or 0.0) > edge_of(name, one, self.scales.compares)
        ]


def edge_of(name: str, one: Measurement, compares: bool) -> float:
    """The end of the healthy range: of a scale of nine points, or of one for comparisons."""
    if name == "position":
        return HEALTHY[name] * (1.0 if compares else 9.0)
    return HEALTHY[name] * (1.0 if name == "anchoring" else one.unit)


def audited(reviews: Reviews) -> Audited:
    scales, sums = measured_pairs(reviews, HEALTHY["sycophancy"], N_MIN["sycophancy"])
    found = {
        "self_preference": self_preference(sums, scales),
        "sycophancy": sycophancy(sums, scales, N_MIN["sycophancy"]),
        "length_relative": length_relative(sums, scales),
        "anchoring": anchoring(sums, scales),
        "position": position(sums, scales),
    }
    found["family_preference"] = family_preference(sums, scales)
    return Audited(scales, sums, found)


def trial(
    season: Season, planted: Planted, seed: int, rows: Callable[[dict[str, Column]], Reviews]
) -> Audited:
    columns = simulated_reviews(season, planted, seed)
    return audited(rows(columns))
