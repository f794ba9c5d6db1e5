"""The audit audited (A6): its false alarms and its power, measured on simulated judges."""

from __future__ import annotations

import numpy as np
import pytest

from peerage.audit.across import conclude, measured, panel_of, plan, sums_of
from peerage.audit.encoded import rows_of
from peerage.audit.limits import Limits, status
from peerage.council.blinding import deal_order
from peerage.simulate.reviews import Planted, Season, simulated_reviews
from peerage.stats.tails import wilson_interval

N_AUDITS = 60


def trial(planted: Planted, seed: int, order: str = "balanced") -> tuple[int, int, set[str]]:
    """Findings tested, those that would be evidence uncorrected, and the evidence by name."""
    season = Season(order=order, repeats=0.1, families={"a": "one", "b": "one"}, reasoning=True)
    names = sorted(season.seats)
    square = np.array(
        [[names.index(n) for n in deal_order(names, place, f"t{seed}")] for place in range(5)]
    )
    columns = simulated_reviews(season, planted, seed, square if order == "balanced" else None)
    rows = rows_of(columns)
    agreed = plan(tuple(columns), "score")
    totals = sums_of(rows, agreed)
    counted = [
        one
        for one in measured(totals, panel_of(totals, rows.names, Limits()), agreed)
        if one.counts
    ]
    found = conclude(totals, rows.names, agreed, Limits())
    return (
        len(counted),
        sum(status(one, one.p) == "evidence" for one in counted),
        {f"{one.metric} {one.subject}" for one in found.findings if one.status == "evidence"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", ["balanced", "shuffle"])
def test_fair_judges_are_rarely_accused(order: str) -> None:
    """At most 5% of findings before correction, and of whole audits after it."""
    trials = [trial(Planted(), seed, order) for seed in range(N_AUDITS)]
    n, alarms = sum(t[0] for t in trials), sum(t[1] for t in trials)
    accused = sum(bool(t[2]) for t in trials)
    by_finding, by_audit = wilson_interval(alarms, n), wilson_interval(accused, N_AUDITS)
    assert by_finding is not None
    assert by_audit is not None
    assert by_finding[0] <= 0.05
    assert by_audit[0] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "named"),
    [
        (Planted(position=0.5), "position all"),
        (Planted(length=0.46), "length all"),
        (Planted(self_preference={"a": 1.0}), "self_preference a"),
        (Planted(harshness={"d": -1.0}), "calibration d"),
    ],
    ids=["position", "length", "self", "harsh"],
)
def test_planted_biases_are_found(planted: Planted, named: str) -> None:
    """Power of at least .9 at 200 sessions of 5 seats, within the error of the measurement."""
    found = sum(named in trial(planted, seed)[2] for seed in range(N_AUDITS))
    interval = wilson_interval(found, N_AUDITS)
    assert interval is not None
    assert interval[1] >= 0.9
    assert found / N_AUDITS >= 0.85
