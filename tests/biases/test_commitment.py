"""Committed reviewers: fair ones of all kinds are not accused, and a planted weakness is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerage import audit
from tests.shared.rates import wilson_interval
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

SEATS = ("a", "b", "c", "d", "e")
GRAVE = ("evidence", "indicator")
KNOWS = 0.85  # of own answers are right
WRONG, CONTRADICTED = 2.0, 1.0  # points of quality that an error, and a contradiction, cost
# Fair judges as they are: harsh or generous, wide or narrow, noisy, with missing reviews; marks
# are whole numbers from 1 to 10, so narrow judges tie often.
FAIR = {
    "alike": SimulatedSeason(SEATS),
    "wide and narrow": SimulatedSeason(SEATS, spreads=(0.45, 1.7)),
    "missing and noisy": SimulatedSeason(SEATS, missing=0.3, noise_by={"a": 2.0, "b": 0.5}),
    "unequal models": SimulatedSeason(SEATS, skill={"a": 1.0, "b": -1.0}),
}
LEVELS = Planted(harshness={"a": 2.0, "b": -2.0})  # of the scale: harsh, and generous


def committed_season(season, planted, seed, gullible=()):
    """Reviews in which answers are right or wrong, and reviewers know whether each agrees.

    Gullible reviewers give what contradicts their own answer two points more, not a point less.
    """
    columns = simulated_reviews(replace(season, own_votes=False), planted, seed)
    rng = np.random.default_rng([seed, 9])
    session, reviewer, candidate = (columns[n] for n in ("session_id", "reviewer", "candidate"))
    sessions, place = np.unique(session, return_inverse=True)
    seats = np.array(season.seats)
    is_right = rng.random((len(sessions), len(seats))) < KNOWS
    mine, theirs = (
        is_right[place, np.searchsorted(seats, one.astype(str))] for one in (reviewer, candidate)
    )
    agrees = mine & theirs
    effect = np.where(theirs, 0.0, -WRONG) - np.where(agrees, 0.0, CONTRADICTED)
    taken_in = np.isin(reviewer.astype(str), gullible) & ~agrees
    score = columns["score"].astype(float) + np.where(taken_in, 2.0, effect)
    columns["score"] = np.clip(np.rint(score), 1.0, 10.0)
    columns["agrees"], columns["committed"] = agrees.astype(float), np.ones(len(session))
    return columns


def named_by(columns, metric):
    findings = [one for one in audit(columns, since="all").findings if one.metric == metric]
    assert findings
    return {one.subject for one in findings if one.status in GRAVE}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAIR)
def test_fair_committed_judges_are_not_accused_of_praising_contradictions(kind):
    n = 5
    named = [
        named_by(
            committed_season(replace(FAIR[kind], n_sessions=100), LEVELS, seed), "contradiction"
        )
        for seed in range(n)
    ]
    interval = wilson_interval(sum(map(len, named)), n * len(SEATS))
    assert interval is not None
    assert interval[0] <= 0.05


@pytest.mark.slow
def test_a_judge_who_praises_what_contradicts_it_is_named():
    n = 5
    season = replace(FAIR["wide and narrow"], n_sessions=100)
    named = [
        named_by(committed_season(season, LEVELS, seed, gullible="c"), "contradiction")
        for seed in range(n)
    ]
    assert sum("c" in one for one in named) >= n - 1
    assert sum(len(one - {"c"}) for one in named) <= 1


def two_kinds(seed, blind, committed, n_sessions=120, kind="wide and narrow"):
    """A season of which the first half is reviewed blind and the second committed."""
    season = replace(FAIR[kind], n_sessions=n_sessions, text=True)
    parts = [
        simulated_reviews(season, replace(LEVELS, style=style), seed)
        for style in (blind, committed)
    ]
    half = parts[0]["session_id"] < f"s{n_sessions // 2:06d}"
    columns = {name: np.where(half, one, parts[1][name]) for name, one in parts[0].items()}
    columns["committed"] = np.where(half, 0.0, 1.0)
    return columns


@pytest.mark.slow
def test_a_style_that_is_liked_less_after_committing_is_named_and_fair_judges_are_not():
    n, strays, hits = 5, 0, 0
    for seed in range(n):
        strays += len(named_by(two_kinds(seed, {}, {}), "style_change"))
        named = named_by(two_kinds(seed, {"c": 6.0}, {}), "style_change")
        hits += "c" in named
    interval = wilson_interval(strays, n * len(SEATS))
    assert interval is not None
    assert interval[0] <= 0.05
    assert hits >= n - 1


def test_a_generous_judge_who_puts_contradictions_last_does_not_praise_them():
    rows = [
        {
            "session_id": f"s{i}",
            "reviewer": reviewer,
            "candidate": name,
            "score": {"x": 7.0, "y": 9.0, "z": 8.0 + i % 2}[name] - low,
            "agrees": float(name != "x"),
            "committed": 1.0,
        }
        for i in range(40)
        for reviewer, low in (("generous", 0.0), ("harsh", 4.0))
        for name in "xyz"
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    assert named_by(columns, "contradiction") == set()
