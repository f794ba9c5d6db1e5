"""Rules: functions from ballots to one value per candidate, one rule per file.

A rule gets placings, from which own votes are already removed. It never sees labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from peerage.registry import Guard, Registry
from peerage.types import Placing, Rule, Value


def _guard_rule(plugin: object, guard: Guard[Any]) -> Rule:
    """Check a plug-in's rule, and wrap it so that its returned values are checked."""
    if not isinstance(plugin, Rule):
        raise TypeError(f"{type(plugin).__name__} is not a Rule")
    values_of = plugin.values

    def numbers(placings: Sequence[Placing], candidates: Sequence[str]) -> dict[str, Value]:
        values = dict(values_of(placings, candidates))
        for name, value in values.items():
            if name not in candidates or not math.isfinite(value):
                raise ValueError(
                    f"{name!r}: {value!r} is not a finite number for a known candidate"
                )
        return values

    return replace(plugin, values=guard(numbers))


rules: Registry[Rule] = Registry("rule", "peerage.rules", _guard_rule)

Values = Callable[[Sequence[Placing], Sequence[str]], Mapping[str, Value]]
V = TypeVar("V", bound=Values)


def rule(name: str, *, lower_is_better: bool = False, unit: str = "") -> Callable[[V], V]:
    """Register a function from placings and candidates to values as a rule."""

    def keep(values: V) -> V:
        rules.register(name)(Rule(name, values, lower_is_better, unit))
        return values

    return keep
