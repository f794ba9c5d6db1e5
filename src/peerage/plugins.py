"""Everything that an extension imports, for each kind of plug-in.

Your package lists its objects under entry points (`peerage.rules`, `peerage.biases`, …) and
imports what it needs from here. Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerage.biases import Metric, Panel, Sums
    from peerage.biases.thresholds import Tested
    from peerage.council.safety import Moderator
    from peerage.imports.foreign_records import Beginning, records
    from peerage.imports.formats import Format, FormatFit, Row, name_of, needs
    from peerage.providers import Call, CallError, OnText, Provider, Reply
    from peerage.registry import PluginError
    from peerage.reviews.comparisons import View
    from peerage.reviews.intervals import Estimate, estimates, mean_of
    from peerage.stores import Store, open_store
    from peerage.types import Ballot, Gate, Placing, Query, Response, Rule, Seat, Usage, Value

HOMES = {
    "Ballot": "peerage.types",
    "Beginning": "peerage.imports.foreign_records",
    "Call": "peerage.providers",
    "CallError": "peerage.providers",
    "Estimate": "peerage.reviews.intervals",
    "Format": "peerage.imports.formats",
    "FormatFit": "peerage.imports.formats",
    "Gate": "peerage.types",
    "Metric": "peerage.biases",
    "Moderator": "peerage.council.safety",
    "OnText": "peerage.providers",
    "Panel": "peerage.biases",
    "Placing": "peerage.types",
    "PluginError": "peerage.registry",
    "Provider": "peerage.providers",
    "Query": "peerage.types",
    "Reply": "peerage.providers",
    "Response": "peerage.types",
    "Row": "peerage.imports.formats",
    "Rule": "peerage.types",
    "Seat": "peerage.types",
    "Store": "peerage.stores",
    "Sums": "peerage.biases",
    "Tested": "peerage.biases.thresholds",
    "Usage": "peerage.types",
    "Value": "peerage.types",
    "View": "peerage.reviews.comparisons",
    "estimates": "peerage.reviews.intervals",
    "mean_of": "peerage.reviews.intervals",
    "name_of": "peerage.imports.formats",
    "needs": "peerage.imports.formats",
    "open_store": "peerage.stores",
    "records": "peerage.imports.foreign_records",
}
__all__ = [
    "Ballot",
    "Beginning",
    "Call",
    "CallError",
    "Estimate",
    "Format",
    "FormatFit",
    "Gate",
    "Metric",
    "Moderator",
    "OnText",
    "Panel",
    "Placing",
    "PluginError",
    "Provider",
    "Query",
    "Reply",
    "Response",
    "Row",
    "Rule",
    "Seat",
    "Store",
    "Sums",
    "Tested",
    "Usage",
    "Value",
    "View",
    "build_finding",
    "estimates",
    "mean_of",
    "name_of",
    "needs",
    "open_store",
    "records",
]


def build_finding(
    metric: str,
    subject: str,
    panel: Panel,
    *,
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    p: float | None = None,
    n: int,
    unit: float = 1.0,
    note: str = "",
) -> Tested:
    """Return one measurement of a bias, for the audit to test.

    `subject` is "all", a reviewer, or "reviewer>candidate"; `low` and `high` are the 95% interval.
    The panel has the metric's minimum n and healthy range; `unit` is the size of 1 in that range,
    such as `panel.sd` for a range in standard deviations of the scores.
    """
    from peerage.biases.thresholds import Tested

    return Tested(
        metric=metric,
        subject=subject,
        value=value,
        low=low,
        high=high,
        p=p,
        n=n,
        n_min=panel.n_min(metric),
        edge=panel.healthy(metric) * unit,
        note=note,
    )


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'peerage.plugins' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
