"""The columns of all input tables: their names, kinds and bounds; and how times are written.

Columns are defined only here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from peerage.errors import UsageError

Kind = Literal["text", "whole", "number", "time"]

MARK = "mark_"  # the start of a column's name: the marks of one dimension of a rubric
MAX_MARKS = 100


@dataclass(frozen=True, slots=True)
class Column:
    """The kind and bounds of one column."""

    kind: Kind
    required: bool = False
    at_least: float | None = None


REVIEWS: Mapping[str, Column] = {
    "session_id": Column("text", required=True),
    "reviewer": Column("text", required=True),
    "candidate": Column("text", required=True),
    "rank": Column("number", at_least=1.0),
    "score": Column("number"),
    "position": Column("whole", at_least=0.0),
    "words": Column("whole", at_least=0.0),
    "category": Column("text"),
    "season": Column("text"),  # the id of the session's season
    "at": Column("time"),
    "round": Column("whole"),
    "query_id": Column("text"),
    "reasoning_words": Column("whole", at_least=0.0),
    "truncated": Column("whole", at_least=0.0),  # 1: the answer was cut off at its length limit
    "family": Column("text"),
    "deal": Column("text"),
    "place": Column("whole", at_least=0.0),
    "person": Column("whole", at_least=0.0),  # 1: the reviewer is a person
    "asked_again": Column("whole", at_least=0.0),  # 1: the reviewer had to be asked twice
    "unsealed": Column("whole", at_least=0.0),  # 1: counted without the code of its ballot
    "committed": Column("whole", at_least=0.0),  # 1: the reviewer wrote its own answer first
    "agrees": Column("whole", at_least=0.0),  # 1 or 0: with its own answer, says the reviewer
    "fingerprint": Column("text"),  # a short hash of what the review depends on, if known
    # From a decision model: the probability of beating another answer, and how sure the model is.
    "probability": Column("number", at_least=0.0),
    "confidence": Column("number", at_least=0.0),
    "correct": Column("number"),  # 1 or 0, if people decided or a table says so
    "text": Column("text"),  # of the answer, or its beginning
}
OPINIONS: Mapping[str, Column] = {
    "item_id": Column("text", required=True),
    "reviewer": Column("text", required=True),
    "opinion": Column("number", required=True),  # or "positive", "negative"
    "contributor": Column("text"),
    "category": Column("text"),
    "at": Column("time"),
}
ITEMS: Mapping[str, Column] = {
    "item_id": Column("text", required=True),
    "contributor": Column("text", required=True),
    "category": Column("text"),
}
USERS: Mapping[str, Column] = {
    "user_id": Column("text", required=True),
    "affiliated": Column("text", required=True),
}
COMPARISONS: Mapping[str, Column] = {  # of two models each; read as reviews
    "model_a": Column("text", required=True),
    "model_b": Column("text", required=True),
    "winner": Column("text", required=True),
    "judge": Column("text"),
}
ALIASES = {"tstamp": "at", "question_id": "query_id"}  # names in LMArena's tables, and ours
TABLES = {"reviews": REVIEWS, "opinions": OPINIONS, "items": ITEMS, "users": USERS}
KEYS = {  # columns that identify a row; the rows of a table are kept in this order
    "reviews": ("session_id", "reviewer", "candidate"),
    "opinions": ("item_id", "reviewer"),
    "items": ("item_id",),
    "users": ("user_id",),
}
NAMES = frozenset(  # columns that stay texts even if they look like numbers
    name
    for table in (*TABLES.values(), COMPARISONS)
    for name, column in table.items()
    if column.kind == "text" and name != "affiliated"
)


TRIMMED = NAMES - {"text"}  # columns whose values lose the blanks around them


def usual_names(names: Collection[str]) -> dict[str, str]:
    """Return the standard name of each column that has another name in a table."""
    return {own: here for own, here in ALIASES.items() if own in names and here not in names}


def required_columns(table: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the columns that a table must have."""
    return tuple(name for name, column in table.items() if column.required)


def is_number(name: str) -> bool:
    """Return whether a column of this name, in a table of reviews, holds numbers."""
    column = REVIEWS.get(name)
    return name.startswith(MARK) or (column is not None and column.kind in ("whole", "number"))


# -- times ----------------------------------------------------------------------------------------


UNITS_S = {"h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def span_s(since: str) -> float | None:
    """Return the seconds of "30d", "12h" or "4w"; None for "all"."""
    if since == "all":
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([hdw])", since.strip())
    if match is None:
        raise UsageError(f"{since!r} is not a span of time.", hint="Try 30d, 12h, 4w or all.")
    return float(match[1]) * UNITS_S[match[2]]


def instant_s(value: str | float) -> float:
    """Return seconds since 1970 for a number, or for a time in ISO 8601 (UTC if it has no zone)."""
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
            f"{value!r} is not a time.", hint="Write 2026-03-01T12:00Z or seconds since 1970."
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def iso(seconds: float) -> str:
    """Return a time in ISO 8601, UTC; a time outside the calendar stays a number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f}"
