"""Sessions from a file: ballots made elsewhere, or the stored sessions of an export, as events."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from peerage.council.documents import is_rankings, read_json, session_of
from peerage.errors import InputError, PeerageError
from peerage.events import (
    STORED_KINDS,
    Answered,
    Dealt,
    DealtBallot,
    Finished,
    Opened,
    Reviewed,
    ScoringRecord,
    SeatRecord,
    Stored,
    read_event,
    stored_event,
)
from peerage.reports.stored_reviews import MAX_NAME_CHARACTERS, checked, review_rows
from peerage.shapes import WrongShapeError, from_json
from peerage.stores import Import, Store
from peerage.text import valid_text
from peerage.types import Event, Session

MAX_EVENTS = 10_000  # of one session
MAX_DEPTH = 32  # of a document: a session needs seven
N_SHOWN = 10


def take_sessions(store: Store, path: Path, digest: str, at: float) -> int:
    """Store the sessions of a file, all or none, and give their number."""
    events: list[Event] = []
    wrong: list[InputError] = []
    n = 0
    for n, (place, read) in enumerate(documents(path), 1):
        try:
            events += _readable(_events_in(read(), place, f"{digest}|{n - 1}", at), place)
        except InputError as error:
            wrong.append(error)
            if len(wrong) == N_SHOWN:
                break
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        listed = "; ".join(f"{error.place}: {error.message}" for error in wrong)
        raise InputError(f"nothing was imported: {listed}", hint=wrong[0].hint)
    taken = {event.session_id for event in events}
    here = [name for name in sorted(taken) if store.events(name)]
    if len(taken) < n or here:
        names = ", ".join(here[:N_SHOWN])
        twice = f"in the store already: session {names}." if here else "an id stands twice."
        raise InputError(twice, place=str(path), hint="Nothing was imported.")
    store.append_all(events)
    store.add_import(Import("sessions", digest, path.name, n, at), ())
    return n


# -- documents ----------------------------------------------------------------------------------


def documents(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The documents of a file with their places, each read when it is asked for."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield place, partial(read_document, line, place)
        return
    document = read_json(path.read_bytes(), str(path))
    are_many = isinstance(document, list) and not is_rankings(document)
    for i, entry in enumerate(document if are_many else [document]):
        place = f"{path}, session {i + 1}" if are_many else str(path)
        yield place, partial(_valid, entry, place)


def read_document(data: bytes, place: str) -> Any:
    """The JSON value in some bytes, with valid Unicode; one nested too deeply is refused."""
    return _valid(read_json(data, place), place)


def _valid(value: Any, place: str, depth: int = 0) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if depth == MAX_DEPTH and isinstance(value, (list, dict)):
        raise InputError(f"this is nested more than {MAX_DEPTH} deep.", place=place)
    if isinstance(value, list):
        return [_valid(one, place, depth + 1) for one in value]
    if isinstance(value, dict):
        return {valid_text(name): _valid(one, place, depth + 1) for name, one in value.items()}
    return value


# -- stored sessions ----------------------------------------------------------------------------


def exported_events(document: Any, place: str) -> list[Event]:
    """The events of one session of an export; an error names the first that is none."""
    entries = document.get("events") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_EVENTS:
        raise InputError(f"a session has 1 to {MAX_EVENTS:,} events.", place=place)
    events = [_event(entry, f"{place}, event {i}") for i, entry in enumerate(entries)]
    session_id = events[0].session_id
    if not 0 < len(session_id) <= MAX_NAME_CHARACTERS:
        raise InputError(f"an id has 1 to {MAX_NAME_CHARACTERS:,} characters.", place=place)
    for i, event in enumerate(events):
        opens = STORED_KINDS[event.kind] is Opened
        if (event.session_id, event.seq, opens) != (session_id, i, i == 0):
            raise InputError(
                "these are not the events of one session, in order.", place=f"{place}, event {i}"
            )
    if document.get("session_id", session_id) != session_id:
        raise InputError("its events are those of another session.", place=place)
    return _readable(events, place)


def _event(entry: Any, place: str) -> Event:
    try:
        event = from_json(Event, entry)
        if event.kind not in STORED_KINDS:
            raise WrongShapeError(f"{event.kind[:80]!r} is no kind of event")
        read_event(event)
    except (WrongShapeError, InputError) as error:
        raise InputError(f"this is not an event of a session: {error}.", place=place) from None
    return event


def _readable(events: list[Event], place: str) -> list[Event]:
    """The events, or a refusal of a session that a board could not read."""
    try:
        for row in review_rows(events, None):
            checked(row)
    except PeerageError as error:
        raise InputError(
            f"its events do not add up to a session: {error.message}", place=place
        ) from None
    return events


def _events_in(document: Any, place: str, key: str, at: float) -> list[Event]:
    """The events of a stored session, or those of a ballots file as if it had been run here."""
    if isinstance(document, Mapping) and "events" in document:
        return exported_events(document, place)
    session = session_of(document, place)
    id_ = session.id or hashlib.sha256(key.encode()).hexdigest()[:16]
    return [stored_event(id_, i, at, fact) for i, fact in enumerate(_facts(session))]


# -- ballots files ------------------------------------------------------------------------------


def _facts(session: Session) -> Iterator[Stored]:
    """What happened in the session of a ballots file."""
    names = {*session.candidates, *(ballot.reviewer for ballot in session.ballots)}
    seats = tuple(SeatRecord(name, roles=("review",)) for name in sorted(names))
    yield Opened(session.query, "", 0, "", seats, ScoringRecord(rubric=None, order="imported"))
    for response in session.responses:
        yield Answered(response.model, response.text, given=True)
    for round_ in sorted({ballot.round for ballot in session.ballots}):
        yield Dealt(
            round_,
            tuple(
                DealtBallot(
                    ballot.reviewer,
                    ballot.authors,
                    tuple(slot.label for slot in ballot.slots),
                    ballot.positions_known,
                )
                for ballot in session.ballots
                if ballot.round == round_
            ),
        )
    for ballot, review in zip(session.ballots, session.reviews, strict=True):
        yield Reviewed(ballot.reviewer, ballot.round, review.raw)
    yield Finished("done")
