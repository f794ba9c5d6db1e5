"""People as reviewers: blind ballots of stored sessions, and the reviews that come back.

A person's review is an event in that session's log. The scores of the session do not change;
boards, audits and the reviews table include its rows like those of any reviewer, marked as a
person's.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, Strict, field_validator

from peerage.config import Settings
from peerage.council.blinding import deal_order, label
from peerage.council.readings import (
    MAX_DIMENSIONS,
    MAX_NAME_CHARACTERS,
    MAX_NOTE_CHARACTERS,
)
from peerage.errors import (
    ConfigError,
    InputError,
    NotFoundError,
    UnreadableError,
    UsageError,
    shown,
)
from peerage.event_facts import is_deleted, opening_of, people_reviews
from peerage.events import (
    KIND_BY_TYPE,
    DealtBallot,
    Fact,
    Finished,
    Opened,
    PersonReviewed,
    Rejudged,
    ReviewReading,
    RubricRecord,
    Withdrawn,
    event_document,
    read_event,
    read_events,
    stored_event,
)
from peerage.messages import image_document, message_documents
from peerage.providers.simulated import hide_quality
from peerage.reports.options import Options
from peerage.scoring import recorded_rubric
from peerage.stats.ranking import kendall_tau
from peerage.stores import SessionTakenError, Store, StoredDocument
from peerage.text import valid_text, valid_values
from peerage.types import Event, Response, Session
from peerage.view import fold

MAX_LOOKED_AT = 500  # latest sessions that are considered for a person's ballot
MAX_TRIES = 10  # attempts to append a review while others append
MAX_ID = 500
SEPARATOR = "."
ASSIGNMENT, REVEALED = "assignment", "revealed"  # kinds of documents
REPEAT_AFTER = 5  # ballots between a first ballot and its repetition
SEAL_CHARACTERS = 32  # of a ballot's id; the seal proves that the ballot was dealt here
FINISHED = KIND_BY_TYPE[Finished]

# Strict: True and "9" are not numbers.
Mark = Annotated[int, Strict()] | Annotated[float, Strict()]
Labels = str | list[str]


class AlreadyReviewedError(InputError):
    """This person has reviewed this session before."""


class PersonReview(Options):
    """A person's review of a ballot, by labels."""

    ballot: str = Field(max_length=300, description="The `ballot` field of the dealt ballot.")
    order: list[str] | None = Field(
        default=None,
        max_length=1000,
        description="The labels in the order shown, if it differs from the order dealt.",
        examples=[["B", "A"]],
    )
    ranking: list[Labels] = Field(
        default=[],
        max_length=1000,
        description="The labels, the best first; a nested list is a tie.",
        examples=[["A", "B"]],
    )
    scores: dict[str, Mark] = Field(default={}, description="Marks from 1 to 10, by label.")
    marks: dict[str, dict[str, Mark]] = Field(
        default={}, description="Marks from 1 to 10 by label and dimension of the rubric."
    )
    notes: dict[str, str] = Field(default={}, description="Reasons, by label.")
    abstained: str = Field(default="", max_length=1000, description="The reason to abstain.")

    @field_validator("notes")
    @classmethod
    def _shorten_notes(cls, notes: dict[str, str]) -> dict[str, str]:
        return {name: note[:MAX_NOTE_CHARACTERS] for name, note in notes.items()}


@dataclass(frozen=True, slots=True)
class PersonBallot:
    """A ballot for one person: a question and answers under labels, without their authors."""

    session: Session
    opened: Opened
    person: str
    place: int  # in the balanced design
    author_by_label: Mapping[str, str]  # in the order shown; only the server knows the authors
    key: bytes = field(repr=False)  # signs the ids of this session's ballots
    is_repeat: bool = False  # the person has judged this session before

    @property
    def id(self) -> str:
        """Return the id of the ballot, signed so that only a server of this store can make it."""
        whose = f"{self.session.id}|{self.person}|{self.place}{'|again' * self.is_repeat}"
        data = whose.encode("utf-8", "surrogatepass")
        seal = hmac.new(self.key, data, "sha256").hexdigest()[:SEAL_CHARACTERS]
        return SEPARATOR.join((self.session.id, seal, str(self.place)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.author_by_label)

    @property
    def response_by_label(self) -> dict[str, Response]:
        """The answers, in the order shown."""
        by_author = {
            one.model: replace(one, text=hide_quality(one.text)) for one in self.session.responses
        }
        return {label: by_author[author] for label, author in self.author_by_label.items()}

    def document(self, settings: Settings) -> dict[str, Any]:
        """Return the JSON of the ballot, without names."""
        try:
            rubric = recorded_rubric(settings, self.opened)
        except ConfigError:  # the rubric is unknown here, so there are no dimensions to mark
            rubric = None
        images = self.session.query.all_images
        return {
            "ballot": self.id,
            "query": self.session.query.text,
            "category": self.session.query.category,
            "responses": [_shown_answer(*pair) for pair in self.response_by_label.items()],
            "dimensions": list(rubric.weights) if rubric else [],
            **({"images": [image_document(one) for one in images]} if images else {}),
        }


def _shown_answer(label: str, response: Response) -> dict[str, Any]:
    """Return an answer under its label, with its messages if it called tools."""
    messages = {"messages": message_documents(response.messages)} if response.messages else {}
    return {"label": label, "text": response.text, **messages}


def next_ballot(
    store: Store,
    person: str,
    category: str | None = None,
    session: str | None = None,
    season: str | None = None,
    repeats: int = 0,
) -> PersonBallot | None:
    """Return a ballot of a session that this person may judge and few others have judged, or None.

    Sessions that were assigned to the person come first. With a session's id, return a ballot of
    that session. `repeats` percent of ballots are for sessions that the person has judged before.
    Unreadable sessions are skipped.
    """
    if session:
        events = store.events(session)
        return deal_ballot(events, person) if may_review(events, person) else None
    queue = review_queue(store, person, category, season)
    if again := _due_repeat(store, person, queue, repeats):
        return again
    for session_id in queue.ahead:
        with suppress(UnreadableError):
            events = store.events(session_id)
            if may_review(events, person):
                return deal_ballot(events, person)
    return None


@dataclass(frozen=True, slots=True)
class ReviewQueue:
    """The sessions that a person has judged and those still to judge, of one season or all."""

    done: tuple[str, ...]  # in the order judged
    ahead: tuple[str, ...]
    is_assigned: bool

    @property
    def n(self) -> int:
        return len(self.done) + len(self.ahead)


def review_queue(
    store: Store,
    person: str,
    category: str | None = None,
    season: str | None = None,
    *,
    assigned: bool = True,
) -> ReviewQueue:
    """Return a person's queue: assigned sessions, else sessions with few people's reviews."""
    judged = judged_sessions(store)
    mine = judged.get(person, {})
    chosen = store.sessions(season, MAX_LOOKED_AT, category=category, status="done")
    entries = {one.id: one for one in reversed(chosen)}
    own = [id_ for id_ in assigned_sessions(store, person) if assigned and id_ in entries]
    if own:
        ahead = [id_ for id_ in own if id_ not in mine]
    else:
        n_by_session = Counter(id_ for others in judged.values() for id_ in others)
        ahead = sorted((id_ for id_ in entries if id_ not in mine), key=n_by_session.__getitem__)
    inside = set(own) if own else set(entries)
    done = [id_ for id_ in mine if id_ in inside]
    return ReviewQueue(tuple(done), tuple(ahead), bool(own))


def judged_sessions(store: Store) -> dict[str, dict[str, PersonReviewed]]:
    """Return people's valid reviews: by person, then by session, the latest last."""
    judged: dict[str, dict[str, PersonReviewed]] = {}
    for session_id, fact in _people_facts(store):
        match fact:
            case PersonReviewed():
                judged.setdefault(fact.ballot.reviewer, {})[session_id] = fact
            case Withdrawn(reviewer):
                judged.get(reviewer, {}).pop(session_id, None)
    return judged


def _people_facts(store: Store) -> Iterator[tuple[str, Fact | None]]:
    """Yield the events of people with the ids of their sessions; skip unreadable events."""
    for event in store.people_events():
        with suppress(UnreadableError):
            yield event.session_id, read_event(event)


def _due_repeat(store: Store, person: str, queue: ReviewQueue, repeats: int) -> PersonBallot | None:
    """Return a ballot of a session that the person judged earlier, if a repeat is due.

    Whether one is due follows from the person's name and the number of ballots so far.
    """
    digest = hashlib.sha256(f"{person}|{len(queue.done)}".encode("utf-8", "surrogatepass")).digest()
    if len(queue.done) < REPEAT_AFTER or digest[0] * 100 // 256 >= repeats:
        return None
    for session_id in queue.done[:-REPEAT_AFTER] or queue.done[:1]:
        with suppress(UnreadableError):
            if again := _repeated_ballot(store.events(session_id), person):
                return again
    return None


def _repeated_ballot(events: list[Event], person: str) -> PersonBallot | None:
    """Return a second ballot of a session that the person ranked once, or None."""
    facts = list(read_events(events))
    again = any(isinstance(f, Rejudged) and f.ballot.reviewer == person for f in facts)
    first = people_reviews(facts).get(person)
    if again or is_deleted(facts) or first is None or first.review.abstained:
        return None
    place = deal_ballot(events, person).place + 1
    return deal_ballot(events, person, place, is_repeat=True)


# -- assignments, withdrawn reviews, and repeats ---------------------------------------------------


def assign(
    store: Store, person: str, sessions: Sequence[str], by: str, at: float
) -> tuple[str, ...]:
    """Add sessions to the queue of a person; return all assigned ones."""
    ids = tuple(dict.fromkeys((*assigned_sessions(store, person), *sessions)))
    store.put_document(StoredDocument(ASSIGNMENT, person, at, by, {"sessions": list(ids)}))
    return ids


def assigned_sessions(store: Store, person: str) -> tuple[str, ...]:
    """Return the sessions that were assigned to a person."""
    document = store.document(ASSIGNMENT, person)
    return tuple(document.body["sessions"]) if document else ()


def withdraw_review(store: Store, person: str, session_id: str, clock: Callable[[], float]) -> None:
    """Withdraw a person's review, unless the person has seen the authors."""
    if has_seen_reveal(store, person, session_id):
        raise UsageError("you have seen the authors, so this review cannot be withdrawn.")
    for _ in range(MAX_TRIES):
        events = store.events(session_id)
        if person not in people_reviews(read_events(events)):
            raise NotFoundError("you have not reviewed this session.")
        event = stored_event(session_id, events[-1].seq + 1, clock(), Withdrawn(person))
        try:
            store.append_all([event])
        except SessionTakenError:
            continue
        return
    raise SessionTakenError("too many reviews of this session arrive at once.")


def has_seen_reveal(store: Store, person: str, session_id: str) -> bool:
    """Return whether a person has seen who wrote the answers of a session."""
    return store.document(REVEALED, f"{session_id} {person}") is not None


def note_reveal(store: Store, person: str, session_id: str, at: float) -> None:
    """Record that a person has seen the authors: the review can no longer be withdrawn."""
    store.put_document(StoredDocument(REVEALED, f"{session_id} {person}", at, person, {}))


@dataclass(frozen=True, slots=True)
class Consistency:
    """The number of repeated ballots, of those with the same order, and the mean Kendall τ."""

    n: int
    n_same: int
    tau: float | None


def consistency(store: Store, person: str) -> Consistency:
    """Return how far a person's repeated ballots agree with the first ones."""
    first = judged_sessions(store).get(person, {})
    taus, n_same, n = [], 0, 0
    for session_id, fact in _people_facts(store):
        if not isinstance(fact, Rejudged) or fact.ballot.reviewer != person:
            continue
        before = first.get(session_id)
        if before is None:
            continue
        once, twice = _places(before.ballot, before.review), _places(fact.ballot, fact.review)
        names = [name for name in once if name in twice]
        tau = kendall_tau([once[name] for name in names], [twice[name] for name in names])
        n += 1
        n_same += tau is not None and tau >= 1.0
        taus += [] if tau is None else [tau]
    return Consistency(n, n_same, sum(taus) / len(taus) if taus else None)


def _places(ballot: DealtBallot, review: ReviewReading) -> dict[str, float]:
    """Return the place of each ranked author, from 0 for the best."""
    labels = ballot.labels or tuple(label(i) for i in range(len(ballot.order)))
    author_by_label = dict(zip(labels, ballot.order, strict=True))
    return {
        author_by_label[name]: float(place)
        for place, tier in enumerate(review.ranking)
        for name in tier
        if name in author_by_label
    }


def may_review(events: list[Event], person: str) -> bool:
    """Return whether a person may judge a session.

    It must be finished and have two answers. The person must not have judged it or be a seat of it.
    """
    facts = list(read_events(events))
    if is_deleted(facts) or not any(isinstance(fact, Finished) for fact in facts):
        return False
    judged = person in people_reviews(facts)
    seats = {seat.name for seat in opening_of(events).seats}
    return not judged and person not in seats and len(_answers(fold(events))) > 1


def deal_ballot(
    events: list[Event], person: str, place: int | None = None, *, is_repeat: bool = False
) -> PersonBallot:
    """Deal a ballot at the next place of the session's balanced design, or at a given place."""
    session, opened = fold(events), opening_of(events)
    if place is None:
        n_people = sum(isinstance(fact, PersonReviewed) for fact in read_events(events))
        n_reviewers = sum("review" in seat.roles for seat in opened.seats)
        place = session.ordinal + n_reviewers + n_people
    order = deal_order(tuple(_answers(session)), place, session.seed)
    author_by_label = {label(i): author for i, author in enumerate(order)}
    key = _ballot_key(events)
    return PersonBallot(session, opened, person, place, author_by_label, key, is_repeat)


def _ballot_key(events: Sequence[Event]) -> bytes:
    """Return the signing key for a session's ballots, the same on every server of its store.

    The key is a hash of the log up to the session's end, including its times. Callers that may not
    read the session cannot compute it, and callers that may read it do not judge it blind.
    """
    digest = hashlib.sha256()
    for event in events:
        digest.update(json.dumps(event_document(event), sort_keys=True).encode())
        if event.kind == FINISHED:
            break
    return digest.digest()


def session_of(ballot_id: str) -> str:
    """Return the id of the session of a ballot."""
    return SEPARATOR.join(ballot_id.split(SEPARATOR)[:-2])


def keep_review(
    store: Store, person: str, review: PersonReview, clock: Callable[[], float]
) -> PersonReviewed | Rejudged:
    """Append a person's review to its session's log; raise an error if it is invalid."""
    session_id, place = session_of(review.ballot), review.ballot.rpartition(SEPARATOR)[2]
    for _ in range(MAX_TRIES):
        events = store.events(session_id)
        if not events or not place.isdecimal() or len(place) > len(str(2**62)):
            raise NotFoundError(f"there is no ballot {shown(review.ballot)}.")
        fact = _review_event(events, person, review, int(place))
        event = stored_event(session_id, events[-1].seq + 1, clock(), fact)
        try:
            store.append_all([event])
        except SessionTakenError:  # another review was appended first, so try again after it
            continue
        return fact
    raise SessionTakenError("too many reviews of this session arrive at once.")


def _review_event(
    events: list[Event], person: str, review: PersonReview, place: int
) -> PersonReviewed | Rejudged:
    """Return the event of a person's review."""
    facts = list(read_events(events))
    if not any(isinstance(fact, Finished) for fact in facts):
        raise InputError("this session is not over yet.")
    ballot = deal_ballot(events, person, place)
    if not may_review(events, person):
        again = deal_ballot(events, person, place, is_repeat=True)
        twice = any(isinstance(f, Rejudged) and f.ballot.reviewer == person for f in facts)
        if again.id != valid_text(review.ballot) or twice or is_deleted(facts):
            raise AlreadyReviewedError(f"{person} has already reviewed this session, or may not.")
        ballot = again
    if not hmac.compare_digest(ballot.id.encode(), valid_text(review.ballot).encode()):
        raise NotFoundError(f"the ballot {shown(review.ballot)} was not dealt to {person}.")
    order = tuple(review.order) if review.order is not None else ballot.labels
    if sorted(order) != sorted(ballot.labels):
        raise UsageError(f"order must contain exactly the labels {', '.join(ballot.labels)}.")
    as_dealt = order == ballot.labels
    authors = tuple(ballot.author_by_label[name] for name in order)
    dealt = DealtBallot(valid_text(person), authors, () if as_dealt else order)
    if ballot.is_repeat:
        return Rejudged(dealt, _convert_review(review, ballot.labels, ballot.opened.rubric))
    return PersonReviewed(
        dealt,
        _convert_review(review, ballot.labels, ballot.opened.rubric),
        place if as_dealt else None,
    )


def _convert_review(
    review: PersonReview, labels: Sequence[str], rubric: RubricRecord | None
) -> ReviewReading:
    """Convert a person's review to the log's form; raise an error for labels not shown."""
    _check_dimensions(review, rubric)
    tiers = tuple((one,) if isinstance(one, str) else tuple(one) for one in review.ranking)
    ranked = [name for tier in tiers for name in tier]
    named = {*ranked, *review.scores, *review.marks, *review.notes}
    if unknown := sorted(named - set(labels)):
        raise UsageError(
            f"there is no answer {shown(unknown[0])} on this ballot.",
            hint=f"Known: {', '.join(labels)}.",
        )
    if len(ranked) != len(set(ranked)):
        raise UsageError("an answer is ranked twice.")
    marks = [*review.scores.values(), *(m for by in review.marks.values() for m in by.values())]
    if any(not 1 <= mark <= 10 for mark in marks):
        raise UsageError("a mark must be from 1 to 10.")
    if not (ranked or marks or review.abstained):
        raise UsageError(
            "the review is empty.",
            hint="Give a ranking, scores or marks, or abstain with a reason.",
        )
    return ReviewReading(
        ranking=tuple(tier for tier in tiers if tier),
        scores=review.scores,
        marks=valid_values(review.marks),
        claimed={},
        notes=valid_values(review.notes),
        abstained=valid_text(review.abstained),
        recovered="",
        flags=(),
    )


def _check_dimensions(review: PersonReview, rubric: RubricRecord | None) -> None:
    """Raise an error for marks that the session's rubric does not have.

    Where the log has no rubric, they may have as many names, and as long ones, as any rubric.
    """
    names = {name for marks in review.marks.values() for name in marks}
    if rubric is not None and (unknown := sorted(names - rubric.weights.keys())):
        raise UsageError(
            f"the rubric of this session has no dimension {shown(unknown[0])}.",
            hint=f"It has: {', '.join(rubric.weights)}.",
        )
    if len(names) > MAX_DIMENSIONS:
        raise UsageError(
            f"the review has marks in {len(names):,} dimensions; at most {MAX_DIMENSIONS} count.",
            hint="`dimensions` of the ballot lists those of its rubric.",
        )
    if too_long := [name for name in names if len(name) > MAX_NAME_CHARACTERS]:
        raise UsageError(f"the name of a dimension is too long: {shown(too_long[0])}.")


def _answers(session: Session) -> dict[str, str]:
    """Return the answers of a session that are not empty, by author."""
    return {one.model: one.text for one in session.responses if one.text.strip()}
