"""Ballots and reviews as the log keeps them, both ways.

How a reply was read when it came in is taken from the log as it is; a reply that was stored
without its reading came from elsewhere and is read as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from peerage.council.blinding import slots_of
from peerage.council.foreign import read_foreign
from peerage.errors import UnreadableError
from peerage.events import DealtBallot, PersonReviewed, Reviewed, ReviewReading
from peerage.text import valid_values
from peerage.types import MAX_LABELS, MAX_NUMBER, Ballot, Response, Review, Session

# What one review may take in the log, beside the reply itself.
MAX_DIMENSIONS = 64  # marked for one answer
MAX_MENTIONS = 2 * MAX_LABELS  # of labels in a ranking
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 20_000

READ = tuple(part.name for part in fields(ReviewReading))


def ballot_from(dealt: DealtBallot, responses: Iterable[Response], round_: int, id_: str) -> Ballot:
    """The ballot of a log with the texts of the answers on it; the id names the session in errors.

    Its labels are A, B, C … in the order shown, unless it came from elsewhere with its own.
    """
    if dealt.labels and len(dealt.labels) != len(dealt.order):
        raise UnreadableError("a ballot has not one label for each answer.", place=f"session {id_}")
    for names in (dealt.order, dealt.labels):
        if len(set(names)) < len(names):
            raise UnreadableError(
                f"a ballot of {dealt.reviewer!r} shows an answer twice.", place=f"session {id_}"
            )
    slots = slots_of(dealt.order, responses, dealt.labels)
    return Ballot(dealt.reviewer, slots, round_, dealt.positions_known)


def review_in(fact: Reviewed, ballot: Ballot) -> Review:
    """The review of a stored reply, as it was read then."""
    reading = fact.review or reading_of(read_foreign(fact.text, ballot))
    if fact.n_fences:
        reading = replace(reading, flags=(*reading.flags, f"fences_struck:{fact.n_fences}"))
    return review_from(reading, ballot, fact.text)


def person_review(session: Session, fact: PersonReviewed) -> tuple[Ballot, Review]:
    """What a person was shown of a session, and what the person said about it."""
    ballot = ballot_from(fact.ballot, session.responses, 0, session.id)
    return ballot, review_from(fact.review, ballot, "")


def review_from(reading: ReviewReading, ballot: Ballot, text: str) -> Review:
    """The review that the reading of a reply to a ballot stands for."""
    by_dimension = (mark for marks in reading.marks.values() for mark in marks.values())
    for mark in (*reading.scores.values(), *reading.claimed.values(), *by_dimension):
        if abs(mark) > MAX_NUMBER:  # sums of such numbers would be infinite
            raise UnreadableError(f"a mark by {ballot.reviewer!r} is out of range.")
    parts: dict[str, Any] = {name: getattr(reading, name) for name in READ}
    return Review(ballot.reviewer, **parts, raw=text, round=ballot.round)


# -- readings of replies ----------------------------------------------------------------------


def reading_of(review: Review) -> ReviewReading:
    """A review without the reply that it was read from.

    Its text is made valid once more: a reply of plain letters can spell half a pair.
    """
    return ReviewReading(**{name: valid_values(getattr(review, name)) for name in READ})


def bounded_reading(review: Review, dimensions: Collection[str] = ()) -> ReviewReading:
    """A review for the log beside its reply, within bounds; these dimensions are kept first."""
    reading = reading_of(review)
    marks = {
        label: {
            name: marks[name]
            for name in sorted(marks, key=lambda name: name not in dimensions)[:MAX_DIMENSIONS]
            if len(name) <= MAX_NAME_CHARACTERS
        }
        for label, marks in reading.marks.items()
    }
    ranking: list[tuple[str, ...]] = []
    left = MAX_MENTIONS
    for tier in reading.ranking:
        names = tuple(name[:MAX_NAME_CHARACTERS] for name in tier)[:left]
        left -= len(names)
        ranking += [names] if names else []
    flags = list(reading.flags)
    if marks != reading.marks:
        flags.append("too_many_dimensions")
    if tuple(ranking) != reading.ranking:
        flags.append("ranking_too_long")
    notes = {label: note[:MAX_NOTE_CHARACTERS] for label, note in reading.notes.items()}
    return replace(reading, ranking=tuple(ranking), marks=marks, notes=notes, flags=tuple(flags))


def reviewed_ballots(session: Session) -> Session:
    """The session with an abstention for every ballot that no review answers.

    A reviewer that failed could have voted, which is what confidence is measured against.
    """
    answered = {(review.reviewer, review.round) for review in session.reviews}
    silent = tuple(
        Review(ballot.reviewer, abstained="no_reply", round=ballot.round)
        for ballot in session.ballots
        if (ballot.reviewer, ballot.round) not in answered
    )
    return replace(session, reviews=(*session.reviews, *silent))
