"""Sessions as rows of the `reviews` table, and a store's mirror kept up to date with them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.council import folding
from peerage.council.counting import count
from peerage.engines.mirror import Mirror
from peerage.errors import UnreadableError
from peerage.events import Opened
from peerage.scoring import Law
from peerage.stores import Store
from peerage.types import Ballot, Counted, Event, Session

logger = logging.getLogger(__name__)

SEGMENT_SESSIONS = 20_000  # what one segment holds at most, so that memory stays bounded


def review_rows(events: list[Event], law: Law) -> Iterator[dict[str, Any]]:
    """One row per reviewer and candidate, own answers included; abstentions have no rank."""
    session = folding.reviewed_ballots(folding.fold(events))
    opening = folding.opening_of(events)
    families = {seat.name: seat.family for seat in opening.seats}
    order = opening.law.get("order")
    index = {name: i for i, name in enumerate(_reviewers(opening))}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    answers = {response.model: response for response in session.responses}
    for ballot in session.ballots:
        review = reviews[ballot.reviewer, ballot.round]
        reading = count(ballot, review, law.rubric)
        rank = _ranks(reading)
        for position, slot in enumerate(ballot.slots):
            answer = answers.get(slot.author)
            marks = review.marks.get(slot.label, {})
            yield {
                "session_id": session.id,
                "reviewer": ballot.reviewer,
                "candidate": slot.author,
                "rank": rank.get(slot.author),
                "score": reading.scores.get(slot.author),
                "position": position if ballot.positions_known else None,
                "words": answer.words if answer and answer.text else None,
                "category": session.query.category or None,
                "at": events[-1].at,
                "round": ballot.round,
                "query_id": session.query.id or None,
                "reasoning_words": answer.reasoning_words if answer else None,
                "family": families.get(slot.author) or None,
                "deal": _deal(session, ballot) if order == "balanced" else None,
                "place": session.ordinal + index.get(ballot.reviewer, 0),
                **{f"mark_{name}": mark for name, mark in marks.items()},
            }


def _reviewers(opening: Opened) -> list[str]:
    return [seat.name for seat in opening.seats if "review" in seat.roles]


def _ranks(reading: Counted) -> dict[str, float]:
    """Ranks with ties at their mean place, 1 for the best."""
    ranks: dict[str, float] = {}
    before = 0
    for tier in reading.tiers:
        ranks |= dict.fromkeys(tier, before + (len(tier) + 1) / 2)
        before += len(tier)
    return ranks


def _deal(session: Session, ballot: Ballot) -> str:
    """Which square the order came from; ballots of one square were balanced together."""
    key = json.dumps([session.seed, sorted(ballot.authors), ballot.round])
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def reviews_in(store: Store, law_for: Callable[[Mapping[str, Any]], Law]) -> list[Path]:
    """Everything a store knows of who reviewed whom, as Parquet files: held here or imported."""
    mirror = synced(store, law_for)
    return [*mirror.segments, *imported(store, mirror, "reviews")]


def imported(store: Store, mirror: Mirror, kind: str) -> list[Path]:
    """The imported tables of a kind, each as the file it was checked into."""
    entries = [entry for entry in store.imports() if entry.kind == kind]
    return [
        mirror.keep(f"{kind}-{entry.hash[:16]}.parquet", store.import_parts(entry.id))
        for entry in entries
    ]


def synced(store: Store, law_for: Callable[[Mapping[str, Any]], Law]) -> Mirror:
    """The store's mirror, with every session that has finished since it was last looked at."""
    mirror = Mirror(store.mirror_folder)
    if store.finished_after(mirror.synced_to, 1):
        mirror.tidy()
    while True:
        done = mirror.synced_to
        finished = store.finished_after(done, SEGMENT_SESSIONS)
        if not finished:
            return mirror
        rows = (row for _, session_id in finished for row in _rows_of(store, session_id, law_for))
        mirror.write(rows, done + 1, finished[-1][0])


def _rows_of(
    store: Store, session_id: str, law_for: Callable[[Mapping[str, Any]], Law]
) -> list[dict[str, Any]]:
    """The rows of one session; one that cannot be read has none, and is named in the log."""
    try:
        events = store.events(session_id)
        return list(review_rows(events, law_for(folding.opening_of(events).law)))
    except UnreadableError as error:
        logger.warning("passed over, as it cannot be read: %s", error)
        return []
