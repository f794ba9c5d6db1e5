"""Judges as they are: seasons of fair ones who differ in all but fairness, put on one scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from peerage.biases.comparison import compare
from peerage.biases.places import position
from peerage.biases.position import anchoring
from peerage.biases.preferences import family_preference
from peerage.reviews.cells import Tables
from peerage.reviews.comparisons import ScoredRows, scored_rows
from peerage.reviews.deviations import deviation_sums
from peerage.reviews.intervals import Estimate
from peerage.reviews.one_scale import Scales, fit_scales
from peerage.stats.tails import benjamini_hochberg
from tests.shared.encoded import rows_of
from tests.shared.simulated_reviews import Column, Planted, SimulatedSeason, simulated_reviews

Columns = dict[str, Column]
SPREADS = dict(zip("abcde", (0.45, 0.7, 1.0, 1.3, 1.7), strict=True))
HEALTHY = {  # of the reviewer's own standard deviation; position of the scale, anchoring a slope
    "self_preference": 0.25,
    "family_preference": 0.25,
    "pair_departure": 0.5,
    "length_relative": 0.1,
    "position": 0.05,
    "anchoring": 0.1,
}
N_MIN = {
    "self_preference": 20,
    "family_preference": 20,
    "pair_departure": 20,
    "length_relative": 50,
    "position": 20,
    "anchoring": 20,
}


def reviews_of(columns: Columns) -> ScoredRows:
    """The columns of a reviews table as what reviewers are compared on."""
    return scored_rows(rows_of(columns), value_of(columns))


def value_of(columns: Columns) -> str:
    return "rank" if "rank" in columns else "score"


def as_ranks(columns: Columns) -> Columns:
    """The same season with ranks only: who scored higher on the ballot is placed higher."""
    rank = 11.0 - columns["score"].astype(np.float64)
    return {**{name: c for name, c in columns.items() if name != "score"}, "rank": rank}


def two_only_rank(columns: Columns) -> Columns:
    """The same season with ranks, and with scores of all but two reviewers."""
    score = np.where(np.isin(columns["reviewer"], ["b", "d"]), np.nan, columns["score"])
    return {**as_ranks(columns), "score": score}


def ranked(columns: Columns) -> ScoredRows:
    return reviews_of(as_ranks(columns))


@dataclass(frozen=True)
class Audited:
    """A season measured on one scale."""

    scales: Scales
    sums: Tables
    found: dict[str, list[Estimate]]

    def evidence(self) -> list[tuple[str, int]]:
        """Metric and subject of all that is evident, corrected over everything measured."""
        every = [(name, one) for name, many in self.found.items() for one in many]
        counted = [one.p if one.n >= N_MIN[name] else None for name, one in every]
        qs = benjamini_hochberg(counted)
        return [
            (name, one.subject)
            for (name, one), q in zip(every, qs, strict=True)
            if q is not None
            and q < 0.05
            and abs(one.value or 0.0) > edge_of(name, one, self.scales.compares)
        ]


def edge_of(name: str, one: Estimate, compares: bool) -> float:
    """The end of the healthy range: of a scale of nine points, or of one for comparisons."""
    if name == "position":
        return HEALTHY[name] * (1.0 if compares else 9.0)
    return HEALTHY[name] * (1.0 if name == "anchoring" else one.unit)


def audited(reviews: ScoredRows) -> Audited:
    compared = compare(
        partial(fit_scales, reviews), partial(deviation_sums, reviews), HEALTHY, N_MIN
    )
    scales, sums = compared.scales, compared.sums
    found: dict[str, list[Estimate]] = {
        "self_preference": compared.tastes.own,
        "pair_departure": compared.tastes.pairs,
        "length_relative": compared.lengths,
        "anchoring": anchoring(sums, scales),
        "position": [*position(sums, scales)],
    }
    found["family_preference"] = family_preference(sums, scales, compared.tastes)
    return Audited(scales, sums, found)


def trial(
    season: SimulatedSeason, planted: Planted, seed: int, rows: Callable[[Columns], ScoredRows]
) -> Audited:
    return audited(rows(simulated_reviews(season, planted, seed)))


# -- the seasons of the table ------------------------------------------------------------------

SKILL = dict(zip("abcde", (0.8, -0.4, 0.0, 0.4, -0.8), strict=True))
WORDY = dict(zip("abcde", (2.0, -1.0, 0.0, -2.0, 1.0), strict=True))
NOISE = dict(zip("abcde", (3.0, 0.5, 1.0, 2.0, 0.3), strict=True))
KIN = {"a": "one", "b": "one"}
TWELVE = {name: SPREADS["abcde"[i % 5]] for i, name in enumerate("abcdefghijkl")}
OUTSIDERS = dict(zip("uvwxy", SPREADS.values(), strict=True))
PANEL = SimulatedSeason(n_sessions=200, spread=SPREADS, skill=SKILL, quality_sd=1.0, families=KIN)
NOTHING = Planted()


@dataclass(frozen=True)
class Trial:
    """A kind of season, and the finding that must come of it; none where judges are fair.

    One judge may be `biased`; what is found of it accuses nobody who is fair. Metrics that are
    `also` accusing here are no accusation elsewhere.
    """

    name: str
    season: SimulatedSeason
    planted: Planted = NOTHING
    shape: Callable[[Columns], Columns] = dict
    names: tuple[str, str] | None = None
    biased: str = ""
    also: tuple[str, ...] = ()


def pairwise(columns: Columns) -> Columns:
    """The same season where everyone compares the first two answers of others they are shown."""
    own = columns["reviewer"] == columns["candidate"]
    place = columns["position"].astype(np.int64) + 1_000 * own
    texts = columns["session_id"].astype(str) + "|" + columns["reviewer"].astype(str)
    ballot = np.unique(texts, return_inverse=True)[1]
    order = np.lexsort((place, ballot))
    starts = np.searchsorted(ballot[order], ballot[order])
    kept = order[np.arange(len(order)) - starts < 2]
    return as_ranks({name: values[kept] for name, values in columns.items()})


def capped(columns: Columns) -> Columns:
    """The same season with a reviewer who never goes below 6 and one who never goes above 7."""
    reviewer, score = columns["reviewer"], columns["score"].astype(np.float64)
    score = np.where(reviewer == "a", np.maximum(score, 6.0), score)
    return {**columns, "score": np.where(reviewer == "c", np.minimum(score, 7.0), score)}


FAIR = (
    Trial("spreads .45 to 1.7, 100 sessions", replace(PANEL, n_sessions=100)),
    Trial("spreads .45 to 1.7", PANEL),
    Trial(
        "one harsher by 1.5, 100", replace(PANEL, n_sessions=100), Planted(harshness={"c": -1.5})
    ),
    Trial("one harsher by 1.5", PANEL, Planted(harshness={"c": -1.5})),
    Trial("ranks only, 100", replace(PANEL, n_sessions=100), shape=as_ranks),
    Trial("ranks only", PANEL, shape=as_ranks),
    Trial("wordy and terse, 100", replace(PANEL, n_sessions=100, wordiness=WORDY)),
    Trial("wordy and terse", replace(PANEL, wordiness=WORDY)),
    Trial(
        "wordy, length tracks quality",
        replace(PANEL, wordiness=WORDY),
        Planted(length_of_quality=0.5),
    ),
    Trial("noise differs", replace(PANEL, noise_by=NOISE)),
    Trial(
        "ceilings",
        replace(PANEL, quality_sd=1.5),
        Planted(harshness=dict.fromkeys("abcde", 1.0)),
    ),
    Trial("ceilings of one's own", PANEL, shape=capped),
    Trial("40% missing", replace(PANEL, missing=0.4)),
    Trial("20% overlap", replace(PANEL, overlap=0.2)),
    Trial("late entrants", replace(PANEL, late={"c": 0.6, "e": 0.9})),
    Trial("queries repeated", replace(PANEL, repeats=0.8)),
    Trial("balanced orders", replace(PANEL, order="balanced")),
    Trial("with texts", replace(PANEL, text=True)),
    Trial("3 seats", replace(PANEL, seats=tuple("abc"))),
    Trial("12 seats, 100", replace(PANEL, seats=tuple(TWELVE), spread=TWELVE, n_sessions=100)),
    Trial("outsiders", replace(PANEL, outsiders=tuple(OUTSIDERS), spread=OUTSIDERS)),
    Trial("pairwise, 600", replace(PANEL, n_sessions=600), shape=pairwise),
)
