"""Facts about a session that its events state: its opening, seats, tags, people's reviews."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from peerage.errors import UnreadableError
from peerage.events import (
    Adjudicated,
    Deleted,
    Extended,
    Fact,
    Opened,
    PersonReviewed,
    Restored,
    SeatRecord,
    Tagged,
    Withdrawn,
    read_event,
)
from peerage.types import Event


def opening_of(events: Sequence[Event]) -> Opened:
    """Return the first event of a session: its question, seats and options."""
    opened = read_event(events[0]) if events else None
    if not isinstance(opened, Opened):
        raise UnreadableError(
            "the log does not begin with an opening event.",
            place=f"session {events[0].session_id}" if events else "",
        )
    return opened


def is_over(events: Sequence[Event]) -> bool:
    """Return whether a session has ended and was not extended since."""
    ends = [event.kind for event in events if event.kind in ("finished", "extended")]
    return ends[-1:] == ["finished"]


def panel_of(facts: Iterable[Fact]) -> tuple[SeatRecord, ...]:
    """Return the seats of a session in the order in which they joined, with all their roles."""
    by_name: dict[str, SeatRecord] = {}
    for fact in facts:
        for seat in fact.seats if isinstance(fact, Opened | Extended) else ():
            before = by_name.get(seat.name)
            roles = dict.fromkeys((*(before.roles if before else ()), *seat.roles))
            by_name[seat.name] = replace(seat, roles=tuple(roles))
    return tuple(by_name.values())


def is_deleted(facts: Iterable[Fact]) -> bool:
    """Return whether a session was deleted and not restored since."""
    marks = [fact for fact in facts if isinstance(fact, Deleted | Restored)]
    return bool(marks) and isinstance(marks[-1], Deleted)


def tags_of(facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return the tags of a session."""
    marks = [fact for fact in facts if isinstance(fact, Tagged)]
    return marks[-1].tags if marks else ()


def people_reviews(facts: Iterable[Fact]) -> dict[str, PersonReviewed]:
    """Return each person's last review, by person; withdrawn reviews are left out."""
    standing: dict[str, PersonReviewed] = {}
    for fact in facts:
        if isinstance(fact, PersonReviewed):
            standing[fact.ballot.reviewer] = fact
        elif isinstance(fact, Withdrawn):
            standing.pop(fact.reviewer, None)
    return standing


def decision_of(facts: Iterable[Fact]) -> Adjudicated | None:
    """Return the last decision on which answers are correct, or None."""
    decisions = [fact for fact in facts if isinstance(fact, Adjudicated)]
    return decisions[-1] if decisions and decisions[-1].judged else None


def since_extended(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return the events since the panel last grew; all of them if it never did."""
    starts = [i for i, fact in enumerate(facts) if isinstance(fact, Extended)]
    return facts[starts[-1] :] if starts else facts
