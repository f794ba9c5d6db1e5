"""Times and spans of time as a person writes them, in seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from peerage.errors import UsageError

UNITS_S = {"h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def span_s(since: str) -> float | None:
    """Seconds of "30d", "12h" or "4w"; None for "all"."""
    if since == "all":
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([hdw])", since.strip())
    if match is None:
        raise UsageError(f"{since!r} is no span of time.", hint="Try 30d, 12h, 4w or all.")
    return float(match[1]) * UNITS_S[match[2]]


def instant_s(value: str | float) -> float:
    """Seconds since 1970 of a time given as such, or in ISO 8601 (UTC where it names no zone)."""
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(
            f"{value!r} is no time.", hint="Write 2026-03-01T12:00Z or seconds since 1970."
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def iso(seconds: float) -> str:
    """A time in ISO 8601, UTC; one that no calendar holds as the number it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f}"
