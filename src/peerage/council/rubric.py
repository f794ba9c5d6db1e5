"""From marks to one exact overall score, with accuracy as a ceiling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from peerage.types import Rubric


def exact(mark: float) -> Fraction:
    """The decimal a mark was written as, so that 8.1 is 81/10 and equal marks are equal."""
    if isinstance(mark, int) or mark.is_integer():
        return Fraction(int(mark))
    return Fraction(repr(float(mark)))


def whole_weights(rubric: Rubric) -> dict[str, int]:
    """The weights as integers in the same proportions: sums of integers are quick and exact."""
    bottom = math.lcm(*(weight.denominator for weight in rubric.weights.values()))
    return {name: int(weight * bottom) for name, weight in rubric.weights.items()}


def overall(
    marks: Mapping[str, float], rubric: Rubric, weights: Mapping[str, int] | None = None
) -> Fraction | None:
    """The weighted mean under the accuracy ceilings, or None without an accuracy mark.

    The weights of the dimensions that were marked are rescaled to one. A reviewer's own
    arithmetic has no part in it. Whoever scores many answers hands in `whole_weights`.
    """
    accuracy = marks.get("accuracy")
    if accuracy is None:
        return None
    top: int | Fraction = 0
    bottom = 0
    for name, weight in (weights or whole_weights(rubric)).items():
        mark = marks.get(name)
        if mark is not None:
            whole = isinstance(mark, int) or mark.is_integer()
            top += weight * (int(mark) if whole else exact(mark))
            bottom += weight
    mean = Fraction(top, bottom)
    return min([mean, *(cap for below, cap in rubric.ceilings if accuracy < below)])
