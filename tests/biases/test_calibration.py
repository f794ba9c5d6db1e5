"""The audit audited: its false alarms and its power, measured on simulated judges."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.shared.calibration import (
    CLAIMED_PLANTS,
    SMALL_KINDS,
    Plant,
    evidence,
    false_alarms,
    moved_lines,
    power,
)
from tests.shared.fair_judges import TASTES, with_tastes
from tests.shared.one_scale import FAIR
from tests.shared.rates import wilson_interval

N_FAIR = 2  # audits of each kind and spread of tastes
N_AUDITS = 20  # of each plant
DOCUMENT = Path(__file__).parents[2] / "docs" / "audit.md"


@cache
def accused(kind: str) -> int:
    """Of all audits of a kind of fair judges, with all spreads of tastes, those that accuse."""
    trials = [with_tastes(SMALL_KINDS[kind], tastes) for tastes in TASTES]
    return sum(false_alarms(trial, range(N_FAIR))[0] for trial in trials)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SMALL_KINDS)
def test_no_kind_of_fair_judges_is_accused_again_and_again(kind: str) -> None:
    """At most two of eight: with a rate of 5% more than that happen to one kind in 170."""
    assert accused(kind) <= 2


@pytest.mark.slow
def test_fair_judges_are_rarely_accused() -> None:
    """At most 5% of all audits, within the error of the measurement."""
    n_audits = N_FAIR * len(TASTES) * len(SMALL_KINDS)
    interval = wilson_interval(sum(map(accused, SMALL_KINDS)), n_audits)
    assert interval is not None
    assert interval[0] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("plant", CLAIMED_PLANTS, ids=lambda one: one.metric)
def test_planted_biases_are_found(plant: Plant) -> None:
    """Power of at least .9 at 200 sessions of 6 seats, within the error of the measurement."""
    found, others = power(plant, 200, range(N_AUDITS))
    interval, strays = wilson_interval(found, N_AUDITS), wilson_interval(others, N_AUDITS)
    assert interval is not None
    assert strays is not None
    assert interval[1] >= 0.9
    assert found / N_AUDITS >= 0.85
    assert strays[0] <= 0.05


def test_one_audit_of_each_kind_of_fair_judges_runs_through() -> None:
    assert sum(bool(evidence(trial, 1)) for trial in FAIR[::4]) <= 3


def test_the_document_lists_what_each_plant_moves() -> None:
    written = re.search(
        "<!-- moves: begin -->\n(.*)\n<!-- moves: end -->",
        DOCUMENT.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert written is not None
    assert written[1].splitlines() == list(moved_lines())
