"""Biases of reviewers, one kind per file.

A metric is two pure functions: one from rows of whole sessions to sums by subject and cluster,
which an engine may run on each of many blocks, and one from the added sums to findings. The first
function computes nothing that depends on the whole table; the second never sees a row. Metrics that
compare a reviewer with the others have no sums of their own: they share those of `Panel.compared`,
where all reviewers are on one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from peerage.findings import AuditLimits
from peerage.registry import Guard, Registry

if TYPE_CHECKING:
    from peerage.biases.comparison import Compared
    from peerage.biases.thresholds import Tested
    from peerage.reviews.cells import Cells
    from peerage.reviews.comparisons import View


@dataclass(frozen=True, slots=True)
class Panel:
    """The facts about a panel that every metric gets, in addition to its own sums."""

    names: tuple[str, ...]
    limits: AuditLimits
    sd: float  # of scores, pooled over reviewers
    scale: float  # the highest score minus the lowest
    n_reviewers: int
    compared: Compared  # reviewers on one scale; from pairwise comparisons if there are only ranks
    by_dimension: Mapping[str, Cells] = field(default_factory=dict)

    def n_min(self, metric: str) -> int:
        """Return how many observations a metric needs, from the settings or its plug-in."""
        known = self.limits.n_min.get(metric)
        return metrics.get(metric).n_min if known is None else known

    def healthy(self, metric: str) -> float:
        """Return the end of a metric's healthy range, from the settings or its plug-in."""
        known = self.limits.healthy.get(metric)
        return metrics.get(metric).healthy if known is None else known

    @property
    def ranks_only(self) -> bool:
        return self.compared.scales.compares


Sums = Mapping[str, "Cells"]


def no_sums(_: View) -> Sums:
    """Return no sums, for metrics that only need reviewers on one scale."""
    return {}


@dataclass(frozen=True, slots=True)
class Metric:
    """One bias: the columns it requires, its sums, and its findings."""

    name: str
    needs: tuple[str, ...]
    sums: Callable[[View], Sums]
    findings: Callable[[Sums, Panel], Sequence[Tested]]
    why: str = ""  # what the needed columns contain; shown if one is missing
    across_sessions: bool = False  # whether it compares sessions with each other
    n_min: int = 0  # thresholds of a plug-in; those of built-in metrics are in `AuditLimits`
    healthy: float = 0.0
    nothing: str = ""  # the note if there are no findings
    is_rare: bool = False  # whether the audit leaves it out if nothing can be measured


def _guard_metric(thing: object, guard: Guard[Any]) -> Metric:
    if not isinstance(thing, Metric):
        raise TypeError(f"{type(thing).__name__} is not a Metric")
    if thing.n_min < 1 or not thing.healthy > 0.0:
        raise TypeError("it needs thresholds: n_min of 1 or more, and healthy above 0")
    measure = thing.findings

    def findings(sums: Sums, panel: Panel) -> list[Tested]:
        from peerage.biases.thresholds import Tested

        tested = list(measure(sums, panel))
        if not all(isinstance(one, Tested) for one in tested):
            raise TypeError("a finding is not a Tested")
        return tested

    return replace(thing, sums=guard(thing.sums), findings=guard(findings))


metrics: Registry[Metric] = Registry("bias", __name__, _guard_metric)
