"""Events from elsewhere: each has the shape that every reader of the log takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peerage.council import fold as folding
from peerage.errors import InputError
from peerage.reports.stored_reviews import (
    MAX_NAME_CHARACTERS,
    MOST,
    UNREADABLE,
    checked,
    review_rows,
)
from peerage.scoring import Law
from peerage.text import valid_text
from peerage.types import Event

MAX_EVENTS = 10_000  # of one session
MAX_DEPTH = 32  # of a document: a session needs seven

# A shape is a type, a union of types, a list with the shape of its members, or a mapping of keys
# with theirs. A key that ends in a question mark may be missing.
NUMBER = int | float
USAGE = {"tokens_in?": int | None, "tokens_out?": int | None, "cost_usd?": NUMBER | None}
SEAT = {"name": str, "family": str, "roles": [str]}
BALLOT = {"reviewer": str, "order": [str], "labels?": [str], "positions_known?": bool}
BODIES: Mapping[str, Mapping[str, Any]] = {
    folding.OPENED: {
        "query": {"text": str, "id": str, "category": str},
        "seed": str,
        "ordinal": int,
        "season": str,
        "seats": [SEAT],
        "law": {"order": str, "rubric": str | None},
    },
    folding.ANSWERED: {
        "seat": str,
        "text": str,
        "usage?": USAGE,
        "latency_ms?": NUMBER | None,
        "reasoning_words?": int | None,
    },
    folding.FAILED: {"seat": str, "stage": str, "kind": str, "message": str, "usage?": USAGE},
    folding.SCREENED: {"model": str, "passed": bool},
    folding.DEALT: {"round": int, "ballots": [BALLOT]},
    folding.REVIEWED: {"reviewer": str, "round": int, "text": str, "usage?": USAGE},
    folding.STOPPED_EARLY: {},
    folding.TALLIED: {"scores": [{"model": str, "rank": int}], "flags": [str]},
    folding.AUDITED: {"findings": [{"metric": str, "subject": str}], "bias_audit": {}},
    folding.ADVISED: {"seat": str, "text": str, "usage?": USAGE},
    folding.CONCLUDED: {
        "kind": str,
        "text": str,
        "dissent": [{"reviewer": str, "distance": NUMBER, "quote": str}],
    },
    folding.FINISHED: {"status": str, "cost_usd": NUMBER | None},
}
EVENT = {"session_id": str, "seq": int, "kind": str, "at": NUMBER, "body": {}}


def well_formed(value: Any, place: str, depth: int = 0) -> Any:
    """A JSON value with valid Unicode for texts; one that is nested too deeply is refused."""
    if isinstance(value, str):
        return valid_text(value)
    if depth == MAX_DEPTH and isinstance(value, (list, dict)):
        raise InputError(f"this is nested more than {MAX_DEPTH} deep.", place=place)
    if isinstance(value, list):
        return [well_formed(one, place, depth + 1) for one in value]
    if isinstance(value, dict):
        return {valid_text(name): well_formed(one, place, depth + 1) for name, one in value.items()}
    return value


def session_events(document: Mapping[str, Any], place: str) -> list[Event]:
    """The events of a stored session, or an error that names the first that is none."""
    entries = document["events"]
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_EVENTS:
        raise InputError(f"a session has 1 to {MAX_EVENTS:,} events.", place=place)
    events = [_event(entry, f"{place}, event {i}") for i, entry in enumerate(entries)]
    session_id = events[0].session_id
    if not 0 < len(session_id) <= MAX_NAME_CHARACTERS:
        raise InputError(f"an id has 1 to {MAX_NAME_CHARACTERS:,} characters.", place=place)
    for i, event in enumerate(events):
        opens = event.kind == folding.OPENED
        if (event.session_id, event.seq, opens) != (session_id, i, i == 0):
            raise InputError(
                "these are not the events of one session, in order.", place=f"{place}, event {i}"
            )
    if document.get("session_id", session_id) != session_id:
        raise InputError("its events are those of another session.", place=place)
    return events


def refuse_unreadable(events: list[Event], place: str) -> None:
    """Refuse a session that a board could not read."""
    try:
        for row in review_rows(events, Law()):
            checked(row)
    except UNREADABLE as error:
        raise InputError(
            f"its events do not add up to a session ({type(error).__name__}: {str(error)[:80]}).",
            place=place,
        ) from None


def _event(entry: Any, place: str) -> Event:
    wrong = misfit(entry, EVENT)
    if not wrong and entry["kind"] not in BODIES:
        wrong = f'"kind" is {entry["kind"][:80]!r}, which is no event of a session'
    if not wrong:
        wrong = misfit(entry["body"], BODIES[entry["kind"]], "body")
    if wrong:
        raise InputError(f"this is not an event of a session: {wrong}.", place=place)
    return Event(**{name: entry[name] for name in Event.__dataclass_fields__})


def misfit(value: Any, shape: Any, name: str = "it") -> str:
    """What is wrong with a value, in words; nothing where it has the shape."""
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            return f'"{name}" is not an object'
        for key, inner in shape.items():
            known = key.removesuffix("?")
            if known in value:
                if wrong := misfit(value[known], inner, known):
                    return wrong
            elif known == key:
                return f'"{known}" is missing'
        return ""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f'"{name}" is not a list'
        return next((wrong for one in value if (wrong := misfit(one, shape[0], name))), "")
    if not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        return f'"{name}" has the wrong type'
    if isinstance(value, (int, float)) and not -MOST <= value <= MOST:
        return f'"{name}" is out of range'
    return ""
