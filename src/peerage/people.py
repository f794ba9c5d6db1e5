"""People as reviewers: a blind ballot of a stored session, the review that comes back, opinions.

A person's review is an event of that session's log. The session stays as it was scored then;
boards, audits and the reviews table see the rows like any reviewer's, marked as a person's.
Opinions on items, and items that people contribute, are rows of the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

from peerage.config import Settings
from peerage.council.blinding import deal_order, label
from peerage.council.readings import MAX_NOTE_CHARACTERS
from peerage.errors import ConfigError, InputError, NotFoundError, UsageError, shown
from peerage.events import (
    KIND_BY_TYPE,
    DealtBallot,
    Finished,
    Opened,
    PersonReviewed,
    ReviewReading,
    event_document,
    is_deleted,
    opening_of,
    read_events,
    stored_event,
)
from peerage.imports.table_files import imported_contributors
from peerage.reports.options import Options
from peerage.scoring import recorded_rubric
from peerage.stores import Contribution, SessionTakenError, Store
from peerage.text import valid_text, valid_values
from peerage.types import Event, Session
from peerage.view import fold

MAX_LOOKED_AT = 500  # sessions, of the latest, in which a ballot for somebody is looked for
MAX_TRIES = 10  # to append a review while others do
MAX_ID = 500
MAX_ITEM_CHARACTERS = 100_000
SEPARATOR = "."
SEAL_CHARACTERS = 32  # of a ballot's id: what shows that it was dealt here
FINISHED = KIND_BY_TYPE[Finished]
UNKNOWN_ITEM = {  # what to do about one, by whether it may be said whose it is
    True: "Contribute it first, or say whose it is: contributor.",
    False: "Contribute it first. A token of scope 'admin' can say whose an item is.",
}

# True is not a number, nor is "9".
Mark = Annotated[int, Strict()] | Annotated[float, Strict()]
Labels = str | list[str]


class AlreadyReviewedError(InputError):
    """This person has reviewed this session before."""


class PersonReview(Options):
    """What a person says about a ballot, in its labels."""

    ballot: str = Field(max_length=300, description="The `ballot` of the one that was dealt.")
    order: list[str] | None = Field(
        default=None,
        max_length=1000,
        description="The labels in the order really shown, if not as dealt.",
        examples=[["B", "A"]],
    )
    ranking: list[Labels] = Field(
        default=[],
        max_length=1000,
        description="The labels, the best first; a list in it is a tie.",
        examples=[["A", "B"]],
    )
    scores: dict[str, Mark] = Field(default={}, description="Marks from 1 to 10, by label.")
    marks: dict[str, dict[str, Mark]] = Field(
        default={}, description="Marks from 1 to 10 by label and dimension of the rubric."
    )
    notes: dict[str, str] = Field(default={}, description="Why, by label.")
    abstained: str = Field(default="", max_length=1000, description="Why there is no judgement.")

    @field_validator("notes")
    @classmethod
    def _bounded(cls, notes: dict[str, str]) -> dict[str, str]:
        return {name: note[:MAX_NOTE_CHARACTERS] for name, note in notes.items()}


@dataclass(frozen=True, slots=True)
class PersonBallot:
    """What one person is shown: a question and answers under labels, without their authors."""

    session: Session
    opened: Opened
    person: str
    place: int  # in the balanced design
    author_by_label: Mapping[str, str]  # in the order shown; only the server knows whose is whose
    key: bytes = field(repr=False)  # of this session's ballots

    @property
    def id(self) -> str:
        """What this person sends the ballot back with; made here, and by nobody else."""
        whose = f"{self.session.id}|{self.person}|{self.place}".encode("utf-8", "surrogatepass")
        seal = hmac.new(self.key, whose, "sha256").hexdigest()[:SEAL_CHARACTERS]
        return SEPARATOR.join((self.session.id, seal, str(self.place)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.author_by_label)

    def document(self, settings: Settings) -> dict[str, Any]:
        """The JSON of the ballot, in which nobody is named."""
        try:
            rubric = recorded_rubric(settings, self.opened)
        except ConfigError:  # a rubric that is not known here has no dimensions to mark
            rubric = None
        texts, authors = _answers(self.session), self.author_by_label
        return {
            "ballot": self.id,
            "query": self.session.query.text,
            "category": self.session.query.category,
            "responses": [{"label": name, "text": texts[authors[name]]} for name in authors],
            "dimensions": list(rubric.weights) if rubric else [],
        }


def next_ballot(
    store: Store, person: str, category: str | None = None, session: str | None = None
) -> PersonBallot | None:
    """A ballot of a session that this person may judge and few others have, or None.

    With a session's id, of that one.
    """
    for session_id in [session] if session else store.least_judged(category, MAX_LOOKED_AT):
        events = store.events(session_id)
        if may_review(events, person):
            return deal_ballot(events, person)
    return None


def may_review(events: list[Event], person: str) -> bool:
    """Whether a person can judge a session: over, not judged before, under no name of a seat."""
    facts = list(read_events(events))
    if is_deleted(facts) or not any(isinstance(fact, Finished) for fact in facts):
        return False
    judged = any(isinstance(f, PersonReviewed) and f.ballot.reviewer == person for f in facts)
    seats = {seat.name for seat in opening_of(events).seats}
    return not judged and person not in seats and len(_answers(fold(events))) > 1


def deal_ballot(events: list[Event], person: str, place: int | None = None) -> PersonBallot:
    """A person's ballot of a session: the next place of its balanced design, or a given one."""
    session, opened = fold(events), opening_of(events)
    if place is None:
        n_people = sum(isinstance(fact, PersonReviewed) for fact in read_events(events))
        n_reviewers = sum("review" in seat.roles for seat in opened.seats)
        place = session.ordinal + n_reviewers + n_people
    order = deal_order(tuple(_answers(session)), place, session.seed)
    author_by_label = {label(i): author for i, author in enumerate(order)}
    return PersonBallot(session, opened, person, place, author_by_label, _ballot_key(events))


def _ballot_key(events: Sequence[Event]) -> bytes:
    """Return the key that a session's ballots are sealed with, on every server of its store.

    It is made of the log up to the session's end, with its times to the microsecond: no one
    knows all of it who may not read the session, and who may read it does not judge it blind.
    """
    digest = hashlib.sha256()
    for event in events:
        digest.update(json.dumps(event_document(event), sort_keys=True).encode())
        if event.kind == FINISHED:
            break
    return digest.digest()


def session_of(ballot_id: str) -> str:
    """The id of the session that a ballot is of."""
    return SEPARATOR.join(ballot_id.split(SEPARATOR)[:-2])


def keep_review(
    store: Store, person: str, review: PersonReview, clock: Callable[[], float]
) -> PersonReviewed:
    """Append a person's review to its session's log; refused if it does not fit its ballot."""
    session_id, place = session_of(review.ballot), review.ballot.rpartition(SEPARATOR)[2]
    for _ in range(MAX_TRIES):
        events = store.events(session_id)
        if not events or not place.isdecimal() or len(place) > len(str(2**62)):
            raise NotFoundError(f"there is no ballot {shown(review.ballot)}.")
        fact = _person_reviewed(events, person, review, int(place))
        event = stored_event(session_id, events[-1].seq + 1, clock(), fact)
        try:
            store.append_all([event])
        except SessionTakenError:  # somebody else's review came first: after that, then
            continue
        return fact
    raise SessionTakenError("too many reviews of this session come in at once.")


def _person_reviewed(
    events: list[Event], person: str, review: PersonReview, place: int
) -> PersonReviewed:
    """The event of a person's review."""
    if not any(isinstance(fact, Finished) for fact in read_events(events)):
        raise InputError("this session is not over yet.")
    if not may_review(events, person):
        raise AlreadyReviewedError(f"{person} cannot review this session (again).")
    ballot = deal_ballot(events, person, place)
    if not hmac.compare_digest(ballot.id.encode(), valid_text(review.ballot).encode()):
        raise NotFoundError(f"the ballot {shown(review.ballot)} was not dealt to {person}.")
    order = tuple(review.order) if review.order is not None else ballot.labels
    if sorted(order) != sorted(ballot.labels):
        raise UsageError(f"the order names other answers than {', '.join(ballot.labels)}.")
    as_dealt = order == ballot.labels
    authors = tuple(ballot.author_by_label[name] for name in order)
    dealt = DealtBallot(valid_text(person), authors, () if as_dealt else order)
    return PersonReviewed(dealt, _reading(review, ballot.labels), place if as_dealt else None)


def _reading(review: PersonReview, labels: Sequence[str]) -> ReviewReading:
    """A person's words as the log keeps a reviewer's; what names no answer shown is refused."""
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
        raise UsageError("a mark is not from 1 to 10.")
    if not (ranked or marks or review.abstained):
        raise UsageError("it judges nothing.", hint="Give a ranking, scores or marks, or abstain.")
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


def _answers(session: Session) -> dict[str, str]:
    """The answers of a session that there is something to say about, by author."""
    return {one.model: one.text for one in session.responses if one.text.strip()}


# -- opinions and items ------------------------------------------------------------------------


class ContributionGiven(BaseModel):
    """Something of a person's that the community boards count."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    category: str | None = Field(default=None, min_length=1, max_length=MAX_ID)


class OpinionGiven(ContributionGiven):
    """A person's opinion of an item."""

    item_id: str = Field(min_length=1, max_length=MAX_ID, examples=["p17"])
    opinion: float = Field(
        strict=True, allow_inf_nan=False, description="On the configured scale, as ±1."
    )
    contributor: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID,
        description="Whose the item is, where no item says so.",
    )


class ItemGiven(ContributionGiven):
    """A prompt that a person contributes."""

    item_id: str | None = Field(default=None, min_length=1, max_length=MAX_ID)
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ITEM_CHARACTERS,
        description="The prompt itself.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.item_id is None and self.text is None:
            raise ValueError("an item needs a text or an id.")
        return self


def keep_opinions(
    store: Store,
    person: str,
    opinions: Sequence[OpinionGiven],
    scale: Sequence[float],
    at: float,
    *,
    may_name_owners: bool = True,
) -> int:
    """Keep a person's opinions, all or none; their number. Of several on one item the last is.

    Whose an item is that nobody has contributed, a person can say who may name owners.
    """
    last = {opinion.item_id: opinion for opinion in opinions}
    for opinion in last.values():
        if opinion.opinion not in scale:
            known = ", ".join(f"{value:g}" for value in scale)
            raise UsageError(f"an opinion is {opinion.opinion:g}.", hint=f"The scale is {known}.")
    owners = imported_contributors(store, list(last))
    rows = []
    for item, one in last.items():
        owner = owners.get(item) or store.contributor_of(item)
        if owner is None and may_name_owners:
            owner = one.contributor
        if owner is None:
            raise InputError(
                f"nobody has contributed the item {shown(item)}.",
                hint=UNKNOWN_ITEM[may_name_owners],
            )
        if one.contributor not in (None, owner):
            raise _not_theirs(item, owner, one.contributor)
        row = Contribution("opinions", item, owner, at, person, one.opinion, one.category)
        rows.append(row)
    _keep(store, rows, owners)
    return len(rows)


def keep_items(store: Store, person: str, items: Sequence[ItemGiven], at: float) -> list[str]:
    """Keep items that a person contributes, all or none; their ids, made where none is given."""
    rows = []
    for item in items:
        id_ = item.item_id or secrets.token_hex(8)
        row = Contribution("items", id_, person, at, category=item.category, text=item.text)
        rows.append(row)
    ids = [row.item_id for row in rows]
    _keep(store, rows, imported_contributors(store, ids))
    return ids


def _keep(store: Store, rows: Sequence[Contribution], owners: Mapping[str, str]) -> None:
    """Store contributions; refused where an item of theirs was imported as somebody else's."""
    for row in rows:
        owner = owners.get(row.item_id, row.contributor)
        if owner != row.contributor:
            raise _not_theirs(row.item_id, owner, row.contributor)
    store.add_contributions(rows)


def _not_theirs(item: str, owner: str, other: str) -> InputError:
    return InputError(
        f"the item {shown(item)} is {owner}'s, not {other}'s.",
        hint="An item is one person's. Nothing was stored.",
    )
