"""The audit audited: its false alarms and its power, measured on simulated judges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench._calibration import PLANTS, Plant, evidence, false_alarms, moved_lines, power
from bench._one_scale import FAIR, Trial
from bench._rates import wilson_interval

N_AUDITS = 20  # of each kind: the whole grid takes about a minute on two cores
DOCUMENT = Path(__file__).parents[2] / "docs" / "audit.md"
CLAIMED = ("self-preference +1", "harshness −1", "length +0.4", "family +0.8")


@pytest.mark.slow
@pytest.mark.parametrize("trial", FAIR, ids=lambda one: one.name)
def test_fair_judges_are_rarely_accused(trial: Trial) -> None:
    """At most 5% of whole audits, within the error of the measurement."""
    accused, _ = false_alarms(trial, range(N_AUDITS))
    interval = wilson_interval(accused, N_AUDITS)
    assert interval is not None
    assert interval[0] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", [one for one in PLANTS if one.name.startswith(CLAIMED)], ids=lambda one: one.metric
)
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
