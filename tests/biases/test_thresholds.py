"""One place decides a status (A1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peerage.biases import thresholds

BASE = thresholds.Tested("length", "all", 0.5, 0.4, 0.6, 0.001, 100, 30, 0.2, correlation=True)


@pytest.mark.parametrize(
    ("changes", "q", "expected"),
    [
        ({}, 0.01, "evidence"),
        ({}, 0.2, "inconclusive"),
        ({}, None, "inconclusive"),
        ({"value": 0.1, "low": 0.05, "high": 0.15}, 0.001, "clear"),
        ({"value": 0.19, "low": 0.1, "high": 0.28}, 0.001, "inconclusive"),
        ({"n": 12}, None, "too_few"),
        ({"n": 12, "value": 0.95}, None, "indicator"),
        ({"n": 2, "value": 0.95}, None, "too_few"),
        ({"value": None, "low": None, "high": None, "p": None}, None, "inconclusive"),
        ({"not_identifiable": True}, 0.001, "not_identifiable"),
        ({"side": "at_least", "edge": 0.7}, 0.001, "evidence"),
        ({"side": "at_least", "edge": 0.3}, 0.001, "clear"),
        ({"side": "at_most", "edge": 0.3}, 0.001, "evidence"),
        ({"side": "at_most", "edge": 0.7}, 0.001, "clear"),
        ({"value": 6.0, "tested": (0.1, 0.05, 0.15)}, 0.001, "clear"),
        ({"value": 6.0, "tested": (-0.9, -1.0, -0.8)}, 0.001, "evidence"),
    ],
)
def test_a_status_follows_from_n_q_and_the_healthy_range(changes, q, expected) -> None:
    assert thresholds.status(replace(BASE, **changes), q) == expected


def test_only_what_was_tested_on_enough_counts_for_the_family() -> None:
    assert BASE.counts
    assert not replace(BASE, n=10).counts
    assert not replace(BASE, p=None).counts
    assert not replace(BASE, not_identifiable=True).counts
