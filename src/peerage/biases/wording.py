"""How numbers read in notes, and what several metrics say in the same words."""

from __future__ import annotations

from peerage.biases.thresholds import Tested


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


def unknown(metric: str, n_min: int, note: str, subject: str = "all", n: int = 0) -> Tested:
    """A finding that the design of the data rules out, with the reason."""
    return Tested(
        metric, subject, None, None, None, None, n, n_min, 0.0, note, not_identifiable=True
    )


def one_sided(p: float | None, beyond: bool) -> float | None:
    """The p of the side that would be unhealthy, from the two-sided one."""
    if p is None:
        return None
    return p / 2.0 if beyond else 1.0 - p / 2.0
