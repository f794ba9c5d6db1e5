"""Kinds of fair judges that an audit must not accuse, each of them with and without tastes.

Beyond the kinds that every measure is tried on: panels of all sizes, scales that bend, and fair
judges beside one who is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.shared.one_scale import FAIR, PANEL, WORDY, Trial, as_ranks, two_only_rank
from tests.shared.simulated_reviews import Planted, SimulatedSeason

TASTES = (0.0, 0.1, 0.2, 0.3)  # lasting ones of a judge for a model, in its own standard deviations
SIZES = (3, 5, 8, 12)
N_SESSIONS = (100, 400)
RANGE = (0.45, 1.7)  # of the spreads that are drawn
NAMES = "abcdefghijkl"
OUTSIDE = "opqrstuvwxyz"
STRONG = 3.0  # times as strong as others' are strong tastes
UNEQUAL = dict(zip(NAMES, (1.5, -1.0, 0.0, 0.8, -1.5, 0.4, -0.4, 1.0), strict=False))
BENDS = dict(zip(NAMES, (0.25, -0.25, 0.0, -0.15, 0.2, 0.1, -0.2, -0.1), strict=False))
DRAWN = replace(PANEL, spread={}, spreads=RANGE)


def panel(n_seats: int, n_sessions: int) -> SimulatedSeason:
    """Peers of spreads that are drawn for each season, whose models differ in skill and length."""
    names = NAMES[:n_seats]
    rng = np.random.default_rng(n_seats)
    skill, wordiness = rng.normal(0.0, 0.6, n_seats), rng.normal(0.0, 0.8, n_seats)
    return replace(
        DRAWN,
        seats=tuple(names),
        n_sessions=n_sessions,
        skill=dict(zip(names, skill.tolist(), strict=True)),
        wordiness=dict(zip(names, wordiness.tolist(), strict=True)),
    )


def _panels() -> list[Trial]:
    trials = []
    for n_seats in SIZES:
        for n_sessions in N_SESSIONS:
            season, size = panel(n_seats, n_sessions), f"{n_seats} seats, {n_sessions}"
            outside = replace(season, outsiders=tuple(OUTSIDE[:n_seats]))
            trials += [
                Trial(f"{size}: peers", replace(season, order="balanced")),
                Trial(f"{size}: outsiders", outside),
                Trial(f"{size}: ranks only", season, shape=as_ranks),
            ]
    return trials


EIGHT = replace(DRAWN, seats=tuple(NAMES[:8]))
KINDS = (
    *FAIR,
    Trial(
        "3 seats, any spreads, one harsh",
        replace(DRAWN, seats=("a", "b", "c")),
        Planted(harshness={"c": -1.5}),
    ),
    Trial("two of five give ranks only", DRAWN, shape=two_only_rank),
    Trial("bent scales, unequal models", replace(DRAWN, skill=UNEQUAL, bend=BENDS)),
    Trial("bent scales, 8 unequal models", replace(EIGHT, skill=UNEQUAL, bend=BENDS)),
    Trial(
        "wordy, next to a length-lover",
        replace(EIGHT, wordiness=WORDY),
        Planted(length_by={"c": 0.5}),
        biased="c",
    ),
    *(
        Trial(
            f"next to one harsh and wide, {n_seats} seats",
            replace(DRAWN, seats=tuple(NAMES[:n_seats]), spreads=None, spread={"c": 2.0}),
            Planted(harshness={"c": -1.5}),
            biased="c",
            also=("calibration",),
        )
        for n_seats in (3, 5)
    ),
    *_panels(),
)


STRENGTHS = {  # how the judges' tastes differ in strength, next to tastes of .2 sd
    "strengths differ by .37": {"taste_log_sd": 0.37},
    "strengths differ by .7": {"taste_log_sd": 0.7},
    "a quarter strong": {"strong_quarter": STRONG},
}
ODD_TASTES = {  # they are not told from biases
    "tastes curved in skill": {"taste_curve": 0.15},
    "tastes with heavy tails": {"taste_df": 3.0},
}


def _own_strengths() -> Iterator[tuple[str, Trial]]:
    """Panels whose judges differ in the strength of their tastes, or have odd ones."""
    peers = {f"{n} peers": replace(panel(n, 200), order="balanced") for n in (8, 12)}
    models = tuple(f"m{i:02d}" for i in range(20))
    skill = dict(zip(models, np.random.default_rng(20).normal(0.0, 0.6, 20).tolist(), strict=True))
    outside = replace(DRAWN, seats=models, skill=skill, outsiders=tuple(OUTSIDE[:7]))
    panels = {**peers, "7 outsiders × 20 models": outside}
    for words, tastes in (STRENGTHS | ODD_TASTES).items():
        for size, season in panels.items():
            name = f"{size}, {words}"
            yield words, Trial(name, replace(season, tastes=0.2, **tastes))  # type: ignore[arg-type]


OWN_STRENGTHS = [trial for words, trial in _own_strengths() if words in STRENGTHS]
OWN_ODD_TASTES = [trial for words, trial in _own_strengths() if words in ODD_TASTES]
VOCABULARIES = [
    Trial(
        f"a vocabulary for each model, {n_seats} × {n_sessions}",
        replace(panel(n_seats, n_sessions), text=True, kindred=True, tastes=0.2),
    )
    for n_seats, n_sessions in ((5, 200), (8, 100), (8, 300), (12, 100))
]


def with_tastes(trial: Trial, tastes: float) -> Trial:
    return replace(trial, season=replace(trial.season, tastes=tastes))
