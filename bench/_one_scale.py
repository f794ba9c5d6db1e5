"""Judges as they are, put on one scale: how often the fair are accused, and the biased named.

`python -m bench._one_scale 100` prints the table for 100 audits a season.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bench._rates import wilson_interval
from bench._simulated_reviews import Column, Planted, SimulatedSeason, simulated_reviews
from peerage.reviews.comparisons import comparisons
from peerage.reviews.departures import (
    family_preference,
    measured_lengths,
    measured_pairs,
    self_preference,
    sycophancy,
)
from peerage.reviews.deviations import DeviationSums
from peerage.reviews.first_shown import anchoring, position
from peerage.reviews.measurements import Measurement
from peerage.reviews.one_scale import Reviews, Scales
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
        "length_relative": measured_lengths(reviews, sums, scales, HEALTHY["length_relative"]),
        "anchoring": anchoring(sums, scales),
        "position": position(sums, scales),
    }
    found["family_preference"] = family_preference(sums, scales)
    return Audited(scales, sums, found)


def trial(
    season: SimulatedSeason,
    planted: Planted,
    seed: int,
    rows: Callable[[dict[str, Column]], Reviews],
) -> Audited:
    columns = simulated_reviews(season, planted, seed)
    return audited(rows(columns))


# -- the seasons of the table ------------------------------------------------------------------

SKILL = dict(zip("abcde", (0.8, -0.4, 0.0, 0.4, -0.8), strict=True))
WORDY = dict(zip("abcde", (2.0, -1.0, 0.0, -2.0, 1.0), strict=True))
NOISE = dict(zip("abcde", (3.0, 0.5, 1.0, 2.0, 0.3), strict=True))
KIN = {"a": "one", "b": "one"}
TWELVE = {name: SPREADS["abcde"[i % 5]] for i, name in enumerate("abcdefghijkl")}
OUTSIDERS = dict(zip("uvwxy", SPREADS.values(), strict=True))
PANEL = SimulatedSeason(n_sessions=200, spread=SPREADS, skill=SKILL, quality_sd=1.0, families=KIN)
NOTHING = Planted()

Rows = Callable[[dict[str, Column]], Reviews]


@dataclass(frozen=True)
class Trial:
    """A kind of season, and the finding that must come of it; none where judges are fair."""

    name: str
    season: SimulatedSeason
    planted: Planted = NOTHING
    rows: Rows = reviews_of
    names: tuple[str, int] | None = None


def pairwise(columns: dict[str, Column]) -> Reviews:
    """The same season where everyone compares the first two answers of others they are shown."""
    own = columns["reviewer"] == columns["candidate"]
    place = columns["position"].astype(np.int64) + 1_000 * own
    texts = columns["session_id"].astype(str) + "|" + columns["reviewer"].astype(str)
    ballot = np.unique(texts, return_inverse=True)[1]
    order = np.lexsort((place, ballot))
    starts = np.searchsorted(ballot[order], ballot[order])
    kept = order[np.arange(len(order)) - starts < 2]
    return ranked({name: values[kept] for name, values in columns.items()})


def capped(columns: dict[str, Column]) -> Reviews:
    """The same season with a reviewer who never goes below 6 and one who never goes above 7."""
    reviewer, score = columns["reviewer"], columns["score"].astype(np.float64)
    score = np.where(reviewer == "a", np.maximum(score, 6.0), score)
    return reviews_of(
        {**columns, "score": np.where(reviewer == "c", np.minimum(score, 7.0), score)}
    )


FAIR = (
    Trial("spreads .45 to 1.7, 100 sessions", replace(PANEL, n_sessions=100)),
    Trial("spreads .45 to 1.7", PANEL),
    Trial(
        "one harsher by 1.5, 100", replace(PANEL, n_sessions=100), Planted(harshness={"c": -1.5})
    ),
    Trial("one harsher by 1.5", PANEL, Planted(harshness={"c": -1.5})),
    Trial("ranks only, 100", replace(PANEL, n_sessions=100), rows=ranked),
    Trial("ranks only", PANEL, rows=ranked),
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
    Trial("ceilings of one's own", PANEL, rows=capped),
    Trial("40% missing", replace(PANEL, missing=0.4)),
    Trial("20% overlap", replace(PANEL, overlap=0.2)),
    Trial("late entrants", replace(PANEL, late={"c": 0.6, "e": 0.9})),
    Trial("queries repeated", replace(PANEL, repeats=0.8)),
    Trial("balanced orders", replace(PANEL, order="balanced")),
    Trial("3 seats", replace(PANEL, seats=tuple("abc"))),
    Trial("12 seats, 100", replace(PANEL, seats=tuple(TWELVE), spread=TWELVE, n_sessions=100)),
    Trial("outsiders", replace(PANEL, outsiders=tuple(OUTSIDERS), spread=OUTSIDERS)),
    Trial("pairwise, 600", replace(PANEL, n_sessions=600), rows=pairwise),
)
BIASED = (
    Trial("self +1", PANEL, Planted(self_preference={"c": 1.0}), names=("self_preference", 2)),
    Trial(
        "self +1, ranks", PANEL, Planted(self_preference={"c": 1.0}), ranked, ("self_preference", 2)
    ),
    Trial("family +.8", PANEL, Planted(family={"a": 0.8}), names=("family_preference", 0)),
    Trial("favour +1.2", PANEL, Planted(sycophancy={("c", "a"): 1.2}), names=("sycophancy", 10)),
    Trial("length +.4", PANEL, Planted(length_by={"c": 0.4}), names=("length_relative", 2)),
    Trial("anchoring −.3", PANEL, Planted(anchoring=-0.3), names=("anchoring", 2)),
    *(
        Trial(
            f"position +1, overlap {share:.0%}",
            replace(PANEL, overlap=share),
            Planted(position_by={"c": 1.0}),
            names=("position", 2),
        )
        for share in (0.05, 0.2, 1.0)
    ),
)


def line_of(one: Trial, n: int) -> str:
    """How many of n audits have evidence that they should not have, and that they should."""
    accused, named, values = 0, 0, []
    metrics: Counter[str] = Counter()
    for seed in range(n):
        result = trial(one.season, one.planted, 7_000 + seed, one.rows)
        evidence = result.evidence()
        others = {what for what in evidence if what != one.names}
        accused += bool(others)
        named += one.names in evidence
        metrics.update({metric for metric, _ in others})
        if one.names is not None:
            metric, subject = one.names
            values += [m.value for m in result.found[metric] if m.subject == subject]
    low, high = wilson_interval(accused, n) or (0.0, 1.0)
    by = ", ".join(f"{metric} {count}" for metric, count in sorted(metrics.items()))
    line = f"| {one.name} | {accused / n:.0%} ({low:.0%}–{high:.0%}) | {by} |"
    if one.names is None:
        return line
    known = [value for value in values if value is not None]
    return f"{line} {named / n:.0%} | {np.mean(known):.2f} ± {np.std(known):.2f} |"


def main(n: int) -> None:
    print(f"| fair judges, {n} audits each | any evidence (95%) | of which |\n|---|---|---|")
    for one in FAIR:
        print(line_of(one, n), flush=True)
    print("\n| planted | others accused (95%) | of which | named | value ± spread |")
    print("|---|---|---|---|---|")
    for one in BIASED:
        print(line_of(one, n), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
