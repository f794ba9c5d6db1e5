"""The rubrics that ship: dimensions, anchors, weights and ceilings, as data."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib.resources import files
from typing import Any

import pytest

RUBRICS = ("general", "original", "coding", "creative", "factual")
BANDS = ["9-10", "7-8", "5-6", "3-4", "1-2"]


def shipped(name: str) -> dict[str, Any]:
    text = files("peerage").joinpath("rubrics", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@pytest.mark.parametrize("name", RUBRICS)
def test_weights_of_a_shipped_rubric_sum_to_exactly_one_over_known_dimensions(name: str) -> None:
    data = shipped(name)
    assert data["name"] == name
    assert data["description"]
    assert sum(Fraction(str(weight)) for weight in data["weights"].values()) == 1
    assert "accuracy" in data["weights"]
    assert set(data["weights"]) <= set(shipped("dimensions"))


def test_general_and_original_weigh_as_documented() -> None:
    general, original = shipped("general"), shipped("original")
    assert general["weights"] == {
        "accuracy": 0.35,
        "relevance": 0.10,
        "completeness": 0.20,
        "conciseness": 0.15,
        "clarity": 0.20,
    }
    assert original["weights"] == {
        "accuracy": 0.35,
        "completeness": 0.25,
        "conciseness": 0.20,
        "clarity": 0.20,
    }
    assert general["ceilings"] == original["ceilings"] == [[5, 4.0], [7, 7.0]]


@pytest.mark.parametrize("name", RUBRICS)
def test_ceilings_rise_with_accuracy_and_stay_on_the_scale(name: str) -> None:
    ceilings = shipped(name)["ceilings"]
    assert ceilings == sorted(ceilings)
    assert all(1 < below <= 10 and 1 <= cap < 10 for below, cap in ceilings)


def test_every_dimension_has_a_question_and_five_anchors_best_first() -> None:
    dimensions = shipped("dimensions")
    assert {"instruction_adherence", "safety", "refusal"} <= set(dimensions)
    for dimension in dimensions.values():
        assert dimension["question"].rstrip().endswith((".", "?"))
        assert list(dimension["anchors"]) == BANDS
        assert len(set(dimension["anchors"].values())) == len(BANDS)
