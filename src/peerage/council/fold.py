"""From a list of events to the session they add up to, and from a review to what the log keeps.

What was computed at the time (how a reply was read, scores, audit) is taken from the log as it
is; a reply that was stored without its reading came from elsewhere and is read as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from peerage.council.blinding import slots_of
from peerage.council.foreign import read_foreign
from peerage.errors import UnreadableError
from peerage.events import (
    Answered,
    AskedAgain,
    Audited,
    Dealt,
    DealtBallot,
    Extended,
    Fact,
    Failed,
    Finished,
    Opened,
    PersonReviewed,
    Reviewed,
    ReviewReading,
    Tallied,
    billed_calls,
    read_event,
    total_cost,
)
from peerage.text import valid_values
from peerage.types import (
    MAX_LABELS,
    MAX_NUMBER,
    Audit,
    Ballot,
    Event,
    Failure,
    Gate,
    Query,
    Response,
    Review,
    Session,
    Usage,
    Verdict,
)

# What one review may take in the log, beside the reply itself.
MAX_DIMENSIONS = 64  # marked for one answer
MAX_MENTIONS = 2 * MAX_LABELS  # of labels in a ranking
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 20_000

EMPTY = Session(id="", query=Query(""))
READ = tuple(part.name for part in fields(ReviewReading))


def fold(events: Iterable[Event]) -> Session:
    """The session that a log adds up to, finished or not; UnreadableError where it is none."""
    session = EMPTY
    for event in events:
        fact = read_event(event)
        if fact is not None:
            session = add(session, event.session_id, fact)
    return with_candidates(session)


def add(session: Session, session_id: str, fact: Fact) -> Session:
    """The session of this id after one more event; `with_candidates` says who is to be ranked."""
    cost_usd, n_unpriced = total_cost(billed_calls([fact]))
    if cost_usd or n_unpriced:
        session = replace(
            session,
            cost_usd=session.cost_usd + cost_usd,
            unpriced_calls=session.unpriced_calls + n_unpriced,
        )
    match fact:
        case Opened():
            return replace(
                session, id=session_id, query=fact.query, seed=fact.seed, ordinal=fact.ordinal
            )
        case Extended():
            return replace(session, finished=False, status="")
        case Answered():
            response = Response(
                fact.seat,
                fact.text,
                fact.usage or Usage(),
                fact.latency_ms,
                fact.reasoning_words,
                fact.finish_reason,
                fact.reasoning,
            )
            return replace(session, responses=(*session.responses, response))
        case Failed():
            failure = Failure(fact.seat, fact.kind, fact.message, fact.stage)
            return replace(session, failures=(*session.failures, failure))
        case Gate():
            return replace(session, gates=(*session.gates, fact))
        case Dealt():
            dealt = (_ballot(session, session_id, ballot, fact.round) for ballot in fact.ballots)
            return replace(session, ballots=(*session.ballots, *dealt))
        case AskedAgain(stage="review", review=reading) if reading and not reading.abstained:
            ballot = _ballot_of(session, session_id, fact.seat, fact.round)
            return _with_review(session, review_from(reading, ballot, fact.text))
        case Reviewed():
            ballot = _ballot_of(session, session_id, fact.reviewer, fact.round)
            return _with_review(session, review_in(fact, ballot))
        case Tallied():
            return replace(session, scores=fact.scores, flags=fact.flags)
        case Audited():
            return replace(session, audit=Audit(fact.findings, fact.bias_audit))
        case Verdict():
            return replace(session, verdict=fact)
        case Finished():
            return replace(session, finished=True, status=fact.status)
        case _:
            return session


def with_candidates(session: Session) -> Session:
    """The session with its candidates: those on the ballots, or else those who answered."""
    on_ballots = {author for ballot in session.ballots for author in ballot.authors}
    answered = {response.model for response in session.responses}
    return replace(session, candidates=tuple(sorted(on_ballots or answered)))


def _ballot(session: Session, session_id: str, dealt: DealtBallot, round_: int) -> Ballot:
    """A ballot with the texts of the answers that are on it.

    Its labels are A, B, C … in the order shown, unless it came from elsewhere with its own.
    """
    if dealt.labels and len(dealt.labels) != len(dealt.order):
        raise UnreadableError(
            "a ballot has not one label for each answer.", place=f"session {session_id}"
        )
    for names in (dealt.order, dealt.labels):
        if len(set(names)) < len(names):
            raise UnreadableError(
                f"a ballot of {dealt.reviewer!r} shows an answer twice.",
                place=f"session {session_id}",
            )
    slots = slots_of(dealt.order, session.responses, dealt.labels)
    return Ballot(dealt.reviewer, slots, round_, dealt.positions_known)


def _ballot_of(session: Session, session_id: str, reviewer: str, round_: int) -> Ballot:
    for ballot in session.ballots:
        if (ballot.reviewer, ballot.round) == (reviewer, round_):
            return ballot
    raise UnreadableError(
        f"a review by {reviewer!r} answers no ballot.", place=f"session {session_id}"
    )


def _with_review(session: Session, review: Review) -> Session:
    """The session with a review, in the place of what its reviewer said of the ballot before."""
    key = review.reviewer, review.round
    others = tuple(one for one in session.reviews if (one.reviewer, one.round) != key)
    return replace(session, reviews=(*others, review))


def review_in(fact: Reviewed, ballot: Ballot) -> Review:
    """The review of a stored reply, as it was read then."""
    reading = fact.review or reading_of(read_foreign(fact.text, ballot))
    if fact.n_fences:
        reading = replace(reading, flags=(*reading.flags, f"fences_struck:{fact.n_fences}"))
    return review_from(reading, ballot, fact.text)


def person_review(session: Session, fact: PersonReviewed) -> tuple[Ballot, Review]:
    """What a person was shown of a session, and what the person said about it."""
    ballot = _ballot(session, session.id, fact.ballot, 0)
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
