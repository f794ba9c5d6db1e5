"""What a board of models is asked for, and the times it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from peerage.errors import UsageError
from peerage.reports import span_s
from peerage.types import OwnVotes

MEANS = ("borda", "mean_rank", "hybrid")  # rules that are means over sessions
CHOICES: Mapping[str, tuple[str, ...]] = {
    "own_votes": ("out", "in", "seed"),
    "interval": ("sessions", "two-way"),
    "reputation": ("fixed", "peer"),
    "history": ("", "week"),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """The law a board is made under; every field is echoed in its parameters.

    A window ends at `as_of`, by default at the latest time in the table, so that the same
    table gives the same board on any day.
    """

    rule: str = "borda"
    own_votes: OwnVotes = "out"
    since: str = "30d"
    as_of: str | float | None = None
    category: str | None = None
    by_category: bool = False
    interval: str = "sessions"
    reputation: str = "fixed"
    matrix: bool = False
    compare_rules: bool = False
    length_controlled: bool = False
    history: str = ""

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError(
                    f"{name.replace('_', ' ')} cannot be {getattr(self, name)!r}.",
                    hint=f"Known: {', '.join(one for one in known if one)}.",
                )
        if self.by_category and self.history:
            raise UsageError("a history by category is not made.", hint="Name one category.")
        if self.by_category and self.rule not in MEANS:
            raise UsageError(
                f"a board by category is not made under {self.rule}.",
                hint=f"Use {', '.join(MEANS)}, or name one category.",
            )
        if self.interval == "two-way" and self.rule != "borda":
            raise UsageError("two-way intervals are made of the Borda share alone.")
        span_s(self.since)


def instant(value: str | float) -> float:
    """Seconds since 1970 of a time given as such, or in ISO 8601 (UTC where it names no zone)."""
    if isinstance(value, (int, float)):
        return float(value)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(f"{value!r} is no time.", hint="Try 2026-03-01T12:00:00Z.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f}"
