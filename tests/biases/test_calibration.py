"""The audit audited (A6): its false alarms and its power, measured on simulated judges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench._calibration import PLANTS, USUAL, Panel, Plant, fair_trials, moved_lines, power
from bench._rates import wilson_interval

N_AUDITS = 60
DOCUMENT = Path(__file__).parents[2] / "docs" / "audit.md"
CLAIMED = ("position +0.5", "length r = .3", "self-preference +1", "harshness −1")


@pytest.mark.slow
@pytest.mark.parametrize("panel", [USUAL, Panel(order="shuffle")], ids=["balanced", "shuffle"])
def test_fair_judges_are_rarely_accused(panel: Panel) -> None:
    """At most 5% of findings before correction, and of whole audits after it."""
    fair = fair_trials(panel, range(N_AUDITS))
    by_finding = wilson_interval(fair.n_uncorrected.total(), fair.n_tested.total())
    by_audit = wilson_interval(fair.n_with_evidence, N_AUDITS)
    assert by_finding is not None
    assert by_audit is not None
    assert by_finding[0] <= 0.05
    assert by_audit[0] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", [one for one in PLANTS if one.name.startswith(CLAIMED)], ids=lambda one: one.metric
)
def test_planted_biases_are_found(plant: Plant) -> None:
    """Power of at least .9 at 200 sessions of 5 seats, within the error of the measurement."""
    found, others = power(plant, USUAL, range(N_AUDITS))
    interval, strays = wilson_interval(found, N_AUDITS), wilson_interval(others, N_AUDITS)
    assert interval is not None
    assert strays is not None
    assert interval[1] >= 0.9
    assert found / N_AUDITS >= 0.85
    assert strays[0] <= 0.05


def test_the_document_lists_what_each_plant_moves() -> None:
    written = re.search(
        "<!-- moves: begin -->\n(.*)\n<!-- moves: end -->",
        DOCUMENT.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert written is not None
    assert written[1].splitlines() == list(moved_lines())
