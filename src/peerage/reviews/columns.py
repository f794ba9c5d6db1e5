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
    """The kind, the meaning and the bounds of one column."""

    kind: Kind
    meaning: str
    required: bool = False
    at_least: float | None = None


REVIEWS: Mapping[str, Column] = {
    "session_id": Column(
        "text", "the session: one question, its answers and their reviews", required=True
    ),
    "reviewer": Column("text", "the judge", required=True),
    "candidate": Column("text", "the model whose answer is judged", required=True),
    "rank": Column(
        "number",
        "the place on the ballot: 1 is best, ties share a rank, empty means unranked",
        at_least=1.0,
    ),
    "score": Column("number", "the score of the answer"),
    "position": Column(
        "whole",
        "where the answer was shown, from 0 (from 1 if 1 is the smallest); for position, anchoring",
        at_least=0.0,
    ),
    "words": Column(
        "whole", "the length of the answer in words; for length, length_relative", at_least=0.0
    ),
    "category": Column("text", "the category of the question, for boards by category"),
    "season": Column("text", "the id of the session's season"),
    "at": Column("time", "the time of the review; for time windows and drift"),
    "round": Column(
        "whole", "the round, if a reviewer judges an answer of one session again; for consistency"
    ),
    "query_id": Column(
        "text", "the same for sessions that ask the same question; for intervals and consistency"
    ),
    "reasoning_words": Column(
        "whole",
        "the length of the reasoning before the answer in words; for reasoning_length",
        at_least=0.0,
    ),
    "truncated": Column("whole", "1 if the answer was cut off at its length limit", at_least=0.0),
    "family": Column(
        "text", "the family of the candidate, or of the reviewer; for family_preference"
    ),
    "deal": Column("text", "the design of the presentation order"),
    "place": Column("whole", "the place of the session in its season", at_least=0.0),
    "person": Column("whole", "1 if the reviewer is a person", at_least=0.0),
    "asked_again": Column("whole", "1 if the reviewer had to be asked twice", at_least=0.0),
    "unsealed": Column(
        "whole", "1 if the vote counted without the code of its ballot", at_least=0.0
    ),
    "committed": Column("whole", "1 if the reviewer wrote its own answer first", at_least=0.0),
    "agrees": Column(
        "whole",
        "1 or 0: whether the reviewer says that the answer agrees with its own; for commitment",
        at_least=0.0,
    ),
    "fingerprint": Column("text", "a short hash of the judge's model, prompt and settings"),
    "probability": Column(
        "number",
        "of a decision model: the probability that the answer beats another one",
        at_least=0.0,
    ),
    "confidence": Column("number", "of a decision model: how sure it is", at_least=0.0),
    "correct": Column(
        "number",
        "1 or 0, if people or a test decided; for length, reasoning_length and correct answers",
    ),
    "reason": Column("text", "the judge's reason; shown where people disagree"),
    "text": Column("text", "the answer or its beginning; for style"),
    "text_hash": Column(
        "whole",
        "a key of the whole answer that readers of files make from it; for answers that are equal",
        at_least=0.0,
    ),
}
OPINIONS: Mapping[str, Column] = {
    "item_id": Column("text", "the prompt", required=True),
    "reviewer": Column("text", "the person who judges it", required=True),
    "opinion": Column("number", "a number on the scale, or positive, negative", required=True),
    "contributor": Column(
        "text", "the person who contributed the prompt; needed unless a table of items says it"
    ),
    "category": Column("text", "the category of the prompt"),
    "at": Column("time", "the time of the opinion; the last one of a reviewer on an item counts"),
}
ITEMS: Mapping[str, Column] = {
    "item_id": Column("text", "the prompt", required=True),
    "contributor": Column("text", "the person who contributed it", required=True),
    "category": Column("text", "its category"),
}
USERS: Mapping[str, Column] = {
    "user_id": Column("text", "the person", required=True),
    "affiliated": Column(
        "text", "1 or 0: whether the person belongs to an organisation", required=True
    ),
}
COMPARISONS: Mapping[str, Column] = {  # of two models each; read as reviews
    "model_a": Column("text", "one model", required=True),
    "model_b": Column("text", "the other model", required=True),
    "winner": Column("text", "model_a, model_b, tie or tie (bothbad)", required=True),
    "judge": Column("text", "the reviewer"),
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
