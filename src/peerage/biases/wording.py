"""How numbers read in notes, and what several metrics say in the same words."""

from __future__ import annotations

from peerage.biases import Panel
from peerage.biases.thresholds import Tested
from peerage.reviews.measurements import Measurement
from peerage.types import Finding

COUNTED = {  # what a metric's n counts
    "length": "answers",
    "position": "ballots",
    "self_preference": "own answers",
    "anchoring": "ballots",
    "consistency": "repeats",
    "reasoning_length": "answers",
    "effective_votes": "sessions",
    "drift": "weeks",
    **dict.fromkeys(
        ("length_relative", "calibration", "family_preference", "style", "sycophancy"), "reviews"
    ),
    "agreement": "reviews",
}
NO_LEVEL = "a ranking has no level: its mean is fixed, whoever ranks"


def signed(value: float | None, digits: int = 2) -> str:
    """+0.41, −0.20, or a dash where there is no number."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−")


def ranged(value: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, where it has one."""
    if low is None or high is None:
        return signed(value)
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"


def what_it_takes(one: Finding) -> str:
    """What a finding could have seen and what would settle it; nothing where it is settled."""
    if one.mde is None:
        return ""
    seen = f"could have seen {one.mde:.2g}"
    if one.n_needed is None or one.n_needed <= one.n or one.edge is None:
        return seen
    more, what = one.n_needed - one.n, COUNTED.get(one.metric, "observations")
    return f"{seen}; {more:,} more {what} would settle {one.edge:.2g}"


def unknown(metric: str, n_min: int, note: str, subject: str = "all", n: int = 0) -> Tested:
    """A finding that the design of the data rules out, with the reason."""
    return Tested(
        metric, subject, None, None, None, None, n, n_min, 0.0, note, not_identifiable=True
    )


def compared_with_others(
    metric: str,
    one: Measurement,
    panel: Panel,
    note: str,
    subject: str | None = None,
    edge: float | None = None,
) -> Tested:
    """A measurement on one scale as a finding; its healthy range in the reviewer's own sd."""
    name = panel.names[one.subject] if subject is None else subject
    n_min = panel.n_min(metric)
    if one.value is None:
        return unknown(metric, n_min, one.note, name, one.n)
    edge = panel.healthy(metric) * one.unit if edge is None else edge
    return Tested(metric, name, one.value, one.low, one.high, one.p, one.n, n_min, edge, note)


def one_sided(p: float | None, beyond: bool) -> float | None:
    """The p of the side that would be unhealthy, from the two-sided one."""
    if p is None:
        return None
    return p / 2.0 if beyond else 1.0 - p / 2.0
