"""Sessions held elsewhere, as events like those of sessions held here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from peerage.council import fold as folding
from peerage.council.documents import read_json, session_of
from peerage.council.fold import plain
from peerage.errors import InputError
from peerage.imports.events import refuse_unreadable, session_events, well_formed
from peerage.stores import Import, Store
from peerage.types import Event, Session

N_SHOWN = 10


def take_sessions(store: Store, path: Path, digest: str, at: float) -> int:
    """How many sessions came from a ballots file, or from those of an export: all, or an error."""
    events: list[Event] = []
    wrong: list[InputError] = []
    n = 0
    for n, (place, read) in enumerate(documents(path), 1):
        try:
            held = _events_in(read(), place, f"{digest}|{n - 1}", at)
            refuse_unreadable(held, place)
            events += held
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


def documents(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The documents of a file with their places, each read when it is asked for."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield place, partial(_document, line, place)
        return
    document = read_json(path.read_bytes(), str(path))
    listed = document if isinstance(document, list) else [document]
    for i, entry in enumerate(listed):
        place = f"{path}, session {i + 1}" if isinstance(document, list) else str(path)
        yield place, partial(well_formed, entry, place)


def _document(line: bytes, place: str) -> Any:
    return well_formed(read_json(line, place), place)


def _events_in(document: Any, place: str, key: str, at: float) -> list[Event]:
    """The events of a stored session, or those of a ballots file as if it had been held here."""
    if isinstance(document, Mapping) and "events" in document:
        return session_events(document, place)
    return list(_events_of(document, place, key, at))


def _events_of(document: Any, place: str, key: str, at: float) -> Iterator[Event]:
    """A session of a ballots file, told as if it had been held here."""
    session = session_of(document, place)
    id_ = session.id or hashlib.sha256(key.encode()).hexdigest()[:16]
    bodies = [
        (folding.OPENED, _opening(session)),
        *((folding.ANSWERED, _answer(r.model, r.text)) for r in session.responses),
        *((folding.DEALT, body) for body in _deals(session)),
        *((folding.REVIEWED, body) for body in _replies(session, document)),
        (folding.FINISHED, {"status": "done", "cost_usd": None, "unpriced_calls": 0}),
    ]
    return (Event(id_, i, kind, at, body) for i, (kind, body) in enumerate(bodies))


def _opening(session: Session) -> dict[str, Any]:
    names = {*session.candidates, *(ballot.reviewer for ballot in session.ballots)}
    return {
        "query": plain(session.query),
        "seed": "",
        "ordinal": 0,
        "season": "",
        "seats": [
            {"name": name, "family": "", "model": "", "roles": ["review"]} for name in sorted(names)
        ],
        "law": {"rubric": None, "order": "imported"},
    }


def _answer(model: str, text: str) -> dict[str, Any]:
    return {"seat": model, "text": text, "given": True}


def _deals(session: Session) -> Iterator[dict[str, Any]]:
    for round_ in sorted({ballot.round for ballot in session.ballots}):
        yield {
            "round": round_,
            "ballots": [
                {
                    "reviewer": ballot.reviewer,
                    "order": list(ballot.authors),
                    "labels": [slot.label for slot in ballot.slots],
                    "positions_known": ballot.positions_known,
                }
                for ballot in session.ballots
                if ballot.round == round_
            ],
        }


def _replies(session: Session, document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What each reviewer said, as text: its own where there is one, else its verdict as JSON."""
    entries = document.get("rankings") or document.get("stage2") or []
    for ballot, review, entry in zip(session.ballots, session.reviews, entries, strict=True):
        parsed = entry.get("parsed_ranking")
        text = review.raw if parsed is None else json.dumps(parsed)
        yield {"reviewer": ballot.reviewer, "round": ballot.round, "text": text}
