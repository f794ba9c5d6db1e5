"""The events of a session: a frozen dataclass for each kind, and conversion to and from JSON.

The log stores an `Event` with a kind and a body of plain JSON values. `read_event` converts it to a
typed event, or raises an error if the body has another shape; `stored_event` converts back. No
other module reads or writes a body. A gate and a verdict are stored as they are, under "screened"
and "concluded".

`view.SessionView` builds a session from its events. It is on a higher floor because it needs the
parser of replies: a log may hold a reply that was not parsed yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, cast

from peerage.errors import UnreadableError
from peerage.findings import Finding
from peerage.fingerprints import Fingerprint
from peerage.shapes import WrongShapeError, from_json, to_json
from peerage.types import (
    DECISIONS,
    OLD_OWN_VOTES,
    OMITTED,
    Answer,
    Ballot,
    Event,
    Gate,
    MarkChances,
    Message,
    OwnVotes,
    Query,
    ReviewKind,
    Rubric,
    Score,
    Seat,
    Usage,
    Verdict,
    written_text,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """A seat as the log stores it, without its address and key."""

    name: str
    family: str = ""
    model: str = ""
    roles: tuple[str, ...] = ()
    setup: str = field(default="", metadata=OMITTED)  # hash of what its replies depend on
    images: bool = field(default=False, metadata=OMITTED)  # whether it gets images
    decides: bool = field(default=False, metadata=OMITTED)  # a decision model, without reasons

    @classmethod
    def of(cls, seat: Seat) -> SeatRecord:
        names = {member.name for member in fields(seat)} - NOT_SETUP
        values = {name: getattr(seat, name) for name in names}
        plain = Seat(seat.name)
        setup = {name: value for name, value in values.items() if value != getattr(plain, name)}
        text = json.dumps(setup, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        decides = seat.provider == DECISIONS
        return cls(seat.name, seat.family, seat.model, seat.roles, digest, seat.images, decides)


# Fields that a seat's replies do not depend on: with another timeout it is the same seat.
NOT_SETUP = frozenset(
    {"name", "family", "roles", "api_key_env", "timeout_s", "max_concurrency"}
    | {"price_in", "price_out", "price_call", "pass_env", "batch", "batch_price"}
)


@dataclass(frozen=True, slots=True)
class RubricRecord:
    """The parts of a rubric that scores need; fractions are written as "3/10"."""

    name: str
    weights: Mapping[str, str]
    ceilings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, rubric: Rubric) -> RubricRecord:
        weights = {name: str(weight) for name, weight in rubric.weights.items()}
        return cls(rubric.name, weights, tuple((str(a), str(b)) for a, b in rubric.ceilings))

    def rubric(self) -> Rubric:
        """Return the rubric for scoring, without the texts that only reviewers need."""
        try:
            weights = {name: Fraction(weight) for name, weight in self.weights.items()}
            ceilings = tuple((Fraction(a), Fraction(b)) for a, b in self.ceilings)
        except (ValueError, ZeroDivisionError):
            raise UnreadableError(f"rubric {self.name!r}: a weight is not a number.") from None
        if sum(weights.values()) != 1 or "accuracy" not in weights or min(weights.values()) < 0:
            raise UnreadableError(
                f"the weights of rubric {self.name!r} must include accuracy and sum to 1."
            )
        return Rubric(self.name, weights, (), ceilings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRecord:
    """The few options that logs of earlier versions keep; an imported session has the last two.

    The defaults are what these logs mean by leaving an option out.
    """

    rule: str = field(default="", metadata=OMITTED)
    own_votes: OwnVotes | None = field(default=None, metadata=OMITTED | {"renamed": OLD_OWN_VOTES})
    rubric: str | None  # its name
    safety_gate: bool | None = field(default=None, metadata=OMITTED)
    order: str
    verdict: str = field(default="", metadata=OMITTED)
    review: ReviewKind = field(default="blind", metadata=OMITTED)
    soft_votes: bool = field(default=True, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Opened:
    """The session's question, seats and options; always the first event."""

    query: Query
    seed: str
    ordinal: int
    season: str
    seats: tuple[SeatRecord, ...]
    # the options of the council that differ from their defaults; None in an older or imported log
    options: Mapping[str, Any] | None = field(default=None, metadata=OMITTED)
    law: ScoringRecord | None = field(default=None, metadata=OMITTED)
    rubric: RubricRecord | None = field(default=None, metadata=OMITTED)
    after: str = field(default="", metadata=OMITTED)  # the session that it follows up
    answers: Mapping[str, Answer] | None = field(default=None, metadata=OMITTED)  # to be judged
    budget_usd: float | None = field(default=None, metadata=OMITTED)  # of this session alone
    by: str = field(default="", metadata=OMITTED)  # the id of the token it was asked with
    labels: Mapping[str, str] | None = field(default=None, metadata=OMITTED)  # a client's metadata
    secret: str = field(default="", metadata=OMITTED)  # from which the codes in its prompts follow
    design: str = field(default="", metadata=OMITTED)  # the rule that stops its season, as JSON


@dataclass(frozen=True, slots=True)
class Extended:
    """Seats joined a finished session: it is open again until they have answered and reviewed.

    The old secret may be public by now, so later prompts use a new secret.
    """

    seats: tuple[SeatRecord, ...]
    secret: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Answered:
    """A seat's answer."""

    seat: str
    text: str
    latency_ms: float | None = None
    reasoning_words: int | None = None
    given: bool = field(default=False, metadata=OMITTED)  # supplied with the question
    usage: Usage | None = field(default=None, metadata=OMITTED)
    finish_reason: str = field(default="", metadata=OMITTED)
    reasoning: str = field(default="", metadata=OMITTED)
    messages: tuple[Message, ...] = field(default=(), metadata=OMITTED)  # that `text` is made from


def n_words(fact: Answered) -> int:
    """Return the number of words in an answer, without tool calls and their results."""
    text = written_text(fact.messages) if fact.messages else fact.text
    return len(text.split())


@dataclass(frozen=True, slots=True)
class Committed:
    """The short answer that a reviewer gave before it saw the others; it is not judged."""

    seat: str
    text: str
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None
    finish_reason: str = field(default="", metadata=OMITTED)
    reasoning: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Failed:
    """A call to a seat that gave no usable reply."""

    seat: str
    stage: str
    kind: str
    message: str
    round: int = 0
    usage: Usage | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class DealtBallot:
    """The answers on one reviewer's ballot, in order; labels are A, B, C … unless given."""

    reviewer: str
    order: tuple[str, ...]
    labels: tuple[str, ...] = field(default=(), metadata=OMITTED)
    positions_known: bool = field(default=True, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Dealt:
    """The ballots of one round."""

    round: int
    ballots: tuple[DealtBallot, ...]


def deal_event(ballots: Iterable[Ballot], round: int) -> Dealt:
    """Return the event for ballots dealt by this session; labels follow from the order."""
    return Dealt(round, tuple(DealtBallot(ballot.reviewer, ballot.authors) for ballot in ballots))


@dataclass(frozen=True, slots=True)
class ReviewReading:
    """The result of parsing a reviewer's reply when it arrived."""

    ranking: tuple[tuple[str, ...], ...]
    scores: Mapping[str, float]
    marks: Mapping[str, Mapping[str, float]]
    claimed: Mapping[str, float]
    notes: Mapping[str, str]
    abstained: str
    recovered: str
    flags: tuple[str, ...]
    # by label: whether it agrees with the reviewer's own answer; None if that was not asked
    agrees: Mapping[str, bool] | None = field(default=None, metadata=OMITTED)
    chances: Mapping[str, Mapping[str, MarkChances]] = field(default_factory=dict, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A reviewer's reply to its ballot, and the result of parsing it."""

    reviewer: str
    round: int
    text: str
    prompt: str = field(default="", metadata=OMITTED)  # hash of the prompt's template
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None
    review: ReviewReading | None = field(default=None, metadata=OMITTED)
    finish_reason: str = field(default="", metadata=OMITTED)
    reasoning: str = field(default="", metadata=OMITTED)
    n_fences: int = field(default=0, metadata=OMITTED)  # fence lines removed from it
    made_by: Fingerprint | None = field(default=None, metadata=OMITTED)  # what it depends on


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """A reply could not be counted as it is, so its seat is asked once more.

    The readable part of the reply is kept, and is used unless the second reply is better.
    """

    seat: str
    stage: str
    round: int
    why: str  # a name in `prompts/faults.txt`, or "not_in_schema"
    text: str
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None
    review: ReviewReading | None = field(default=None, metadata=OMITTED)
    finish_reason: str = field(default="", metadata=OMITTED)
    reasoning: str = field(default="", metadata=OMITTED)
    detail: str = field(default="", metadata=OMITTED)  # why JSON does not follow its schema


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """A round ended before these reviewers replied, because they could not change the winner."""

    round: int
    not_heard: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tallied:
    """The scores of the session, and oddities of its ballots."""

    scores: tuple[Score, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of this session."""

    findings: tuple[Finding, ...]
    bias_audit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DecisionReading:
    """The result of parsing a reply to a yes-or-no question when it arrived."""

    approved: bool | None
    reasons: tuple[str, ...] = ()
    flag: str = ""
    probability: float | None = field(default=None, metadata=OMITTED)  # by a decision model


@dataclass(frozen=True, slots=True)
class Advised:
    """A seat's reply to the request for a verdict, and the decision read from it, if any."""

    seat: str
    text: str
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None
    finish_reason: str = field(default="", metadata=OMITTED)
    reasoning: str = field(default="", metadata=OMITTED)
    n_fences: int = field(default=0, metadata=OMITTED)  # fence lines removed from it
    decision: DecisionReading | None = field(default=None, metadata=OMITTED)
    votes: Mapping[str, tuple[float, ...]] | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class PersonReviewed:
    """A person's review of a finished session; the session's scores do not change."""

    ballot: DealtBallot  # in the order that was really shown
    review: ReviewReading
    place: int | None = field(default=None, metadata=OMITTED)  # in the design; None: reordered


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A judge's later review of a finished session; the session's scores do not change.

    It belongs to a check of the anchors, or to a re-judging. Then its key is a hash of the judge
    and its setup.
    """

    check: int  # number of the check, the same for all anchors; 0 for a re-judging
    ballot: DealtBallot
    review: ReviewReading
    made_by: Fingerprint | None = field(default=None, metadata=OMITTED)
    usage: Usage | None = field(default=None, metadata=OMITTED)
    key: str = field(default="", metadata=OMITTED)  # of the re-judging; "" for a check


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A person withdrew their review of a session before they saw the names of the authors."""

    reviewer: str


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A person's second review of the same session, which measures consistency.

    Scores, boards and audits do not count it.
    """

    ballot: DealtBallot
    review: ReviewReading


@dataclass(frozen=True, slots=True)
class Adjudicated:
    """A person decided which answers are correct; the reviews table has them as `correct`.

    The last decision counts. A decision with no answers cancels the earlier ones.
    """

    correct: tuple[str, ...]
    judged: tuple[str, ...]  # all answers that the decision is about
    note: str = field(default="", metadata=OMITTED)
    by: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Commented:
    """A person's comment on a session."""

    text: str
    by: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Renamed:
    """The new name of a session; an empty name restores the question as its name."""

    name: str
    by: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A person deleted the session: boards, audits and lists leave it out; the log keeps it."""

    by: str = field(default="", metadata=OMITTED)  # the person's name, if known


@dataclass(frozen=True, slots=True)
class Restored:
    """A person restored a deleted session."""

    by: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The new tags of a session, in alphabetical order."""

    tags: tuple[str, ...]
    by: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Finished:
    """The session is over: its outcome, its known cost, and the number of calls without a price.

    In the oldest logs the cost is missing if any call had no price; add up the calls instead.
    """

    status: str
    cost_usd: float | None = None
    unpriced_calls: int = 0


# -- live events, which are not stored ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A call to a seat was sent, for the first time or again."""

    seat: str
    stage: str
    round: int = 0
    again: bool = field(default=False, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a reply arrived."""

    seat: str
    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A note for the user, shown before any model is called."""

    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait before a seat is called again: the reason, the delay, and the next attempt."""

    seat: str
    stage: str
    why: str  # "429", "no reply in 8 s"
    wait_s: float
    attempt: int  # the number of the try that follows; the first is 1


Stored: TypeAlias = (
    Opened
    | Extended
    | Answered
    | Committed
    | Failed
    | Gate
    | Dealt
    | AskedAgain
    | Reviewed
    | StoppedEarly
    | Tallied
    | Audited
    | Advised
    | Verdict
    | Finished
    | PersonReviewed
    | Rechecked
    | Withdrawn
    | Rejudged
    | Adjudicated
    | Commented
    | Renamed
    | Deleted
    | Restored
    | Tagged
)
Fact: TypeAlias = Stored | Noted | Asked | TextPiece | Waiting
STORED_KINDS: Mapping[str, type[Stored]] = {
    "opened": Opened,
    "extended": Extended,
    "answered": Answered,
    "committed": Committed,
    "failed": Failed,
    "screened": Gate,
    "dealt": Dealt,
    "asked_again": AskedAgain,
    "reviewed": Reviewed,
    "stopped_early": StoppedEarly,
    "tallied": Tallied,
    "audited": Audited,
    "advised": Advised,
    "concluded": Verdict,
    "finished": Finished,
    "person_reviewed": PersonReviewed,
    "rechecked": Rechecked,
    "withdrawn": Withdrawn,
    "rejudged": Rejudged,
    "adjudicated": Adjudicated,
    "commented": Commented,
    "renamed": Renamed,
    "deleted": Deleted,
    "restored": Restored,
    "tagged": Tagged,
}
TYPE_BY_KIND: Mapping[str, type[Fact]] = {
    **STORED_KINDS,
    "noted": Noted,
    "asked": Asked,
    "piece": TextPiece,
    "waiting": Waiting,
}
KIND_BY_TYPE: Mapping[type[Fact], str] = {cls: kind for kind, cls in TYPE_BY_KIND.items()}
EVENT_FIELDS = tuple(member.name for member in fields(Event) if member.init)
NOT_STORED = -1  # `seq` of a live event, which has no place in the log


# -- conversion to and from JSON -----------------------------------------------------------------


def stored_event(session_id: str, seq: int, at: float, fact: Fact) -> Event:
    """Return a typed event in its stored form, without optional fields that have their default."""
    event = Event(session_id, seq, KIND_BY_TYPE[type(fact)], at, to_json(fact))
    object.__setattr__(event, "fact", fact)
    return event


def event_document(event: Event, *, with_secret: bool = False) -> dict[str, Any]:
    """Return an event as exports and clients see it.

    The session's secret is left out until the session is over, because the codes in its prompts are
    derived from it.
    """
    document = {name: getattr(event, name) for name in EVENT_FIELDS}
    if not with_secret and "secret" in event.body:
        document["body"] = {name: v for name, v in event.body.items() if name != "secret"}
    return document


def read_event(event: Event) -> Fact | None:
    """Return the typed event for a stored one; None for a kind that this version does not know."""
    if event.fact is not None:
        return cast("Fact", event.fact)
    if event.kind not in TYPE_BY_KIND:
        return None
    fact_type: Callable[..., Fact] = TYPE_BY_KIND[event.kind]
    what = f"event {event.seq} ({event.kind}) does not have the expected form"
    return _read(fact_type, event.body, what, f"session {event.session_id}")


def _read(cls: Callable[..., T], value: Any, message: str, place: str = "") -> T:
    try:
        return from_json(cls, value)
    except WrongShapeError as error:
        raise UnreadableError(f"{message}: {error}.", place=place) from None


def read_events(events: Iterable[Event]) -> Iterator[Fact]:
    """Yield the typed events of a log; kinds that this version does not know are left out."""
    return (fact for event in events if (fact := read_event(event)) is not None)


def seats_in(event: Event) -> tuple[SeatRecord, ...]:
    """Return the seats in an opening or an extension; cached, because most are the same."""
    return _seats_in(json.dumps(event.body.get("seats")))


@lru_cache(maxsize=1024)
def _seats_in(text: str) -> tuple[SeatRecord, ...]:
    return _read(Extended, {"seats": json.loads(text)}, "a session's seats cannot be read").seats


def query_in(event: Event) -> Query:
    """Return the question of an opening."""
    return _read(Query, event.body.get("query") or {}, "a session's question cannot be read")
