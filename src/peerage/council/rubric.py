"""From marks to one exact overall score, with accuracy as a ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from peerage.types import Rubric


def exact(mark: float) -> Fraction:
    """The decimal a mark was written as, so that 8.1 is 81/10 and equal marks are equal."""
    return Fraction(mark) if isinstance(mark, int) else Fraction(repr(float(mark)))


def overall(marks: Mapping[str, float], rubric: Rubric) -> Fraction | None:
    """The weighted mean under the accuracy ceilings, or None without an accuracy mark.

    The weights of the dimensions that were marked are rescaled to one. A reviewer's own
    arithmetic has no part in it.
    """
    if "accuracy" not in marks:
        return None
    marked = {name: exact(marks[name]) for name in rubric.weights if name in marks}
    weight = sum((rubric.weights[name] for name in marked), Fraction(0))
    mean = sum((rubric.weights[name] * mark for name, mark in marked.items()), Fraction(0)) / weight
    return min([mean, *(cap for below, cap in rubric.ceilings if marked["accuracy"] < below)])
