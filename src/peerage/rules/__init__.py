"""Rules from ballots to one value per candidate, one rule a file.

A rule sees placings, in which own votes are already dealt with, and never a label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from peerage.plugins import Registry
from peerage.types import Placing, Rule, Value

rules: Registry[Rule] = Registry("rule", "peerage.rules")

Values = Callable[[Sequence[Placing], Sequence[str]], Mapping[str, Value]]
V = TypeVar("V", bound=Values)


def rule(name: str, *, lower_is_better: bool = False, unit: str = "") -> Callable[[V], V]:
    """Register a function from placings and candidates to values, as a rule."""

    def keep(values: V) -> V:
        rules.register(name)(Rule(name, values, lower_is_better, unit))
        return values

    return keep
