"""The log's vocabulary: what each event says, and the session that a list of them adds up to.

A body holds what happened. What was computed at the time (how a reply was read, scores,
audit) is in the log to be shown, and can be computed again from the rest: `unread` takes the
reading of replies out, so that they are read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import reduce
from typing import Any

from peerage.council.ballots import parse
from peerage.council.blinding import label
from peerage.errors import UnreadableError
from peerage.text import valid_values
from peerage.types import (
    MAX_LABELS,
    Audit,
    Ballot,
    Dissent,
    Event,
    Failure,
    Finding,
    Gate,
    Query,
    Response,
    Review,
    Score,
    Session,
    Slot,
    Usage,
    Verdict,
)

OPENED = "opened"
ANSWERED = "answered"
FAILED = "failed"
SCREENED = "screened"
DEALT = "dealt"
REVIEWED = "reviewed"
STOPPED_EARLY = "stopped_early"
TALLIED = "tallied"
AUDITED = "audited"
ADVISED = "advised"  # a seat's word on the conclusion
CONCLUDED = "concluded"
FINISHED = "finished"
# Said while it happens and not kept: a call went out, a piece of text came in.
ASKED = "asked"
PIECE = "piece"


# What one review may take in the log, beside the reply itself.
MAX_DIMENSIONS = 64  # marked for one answer
MAX_MENTIONS = 2 * MAX_LABELS  # of labels in a ranking
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 20_000

EMPTY = Session(id="", query=Query(""))


def fold(events: Iterable[Event]) -> Session:
    """The session that these events tell of, finished or not."""
    return with_candidates(reduce(advance, events, EMPTY))


def advance(session: Session, event: Event) -> Session:
    """The session after one more event; `with_candidates` says who then stands to be ranked."""
    step = FOLDS.get(event.kind)
    if step is None:
        return session
    try:
        return step(session, event)
    except WRONG_SHAPE as error:
        raise UnreadableError(
            f"event {event.seq} ({event.kind}) is not as a session writes it: {error!r:.200}.",
            place=f"session {event.session_id}",
        ) from error


def opening_of(events: Sequence[Event]) -> Mapping[str, Any]:
    """What the log says of a session before anything happens in it: its seats and options."""
    first = events[0] if events else None
    if first is None or first.kind != OPENED:
        raise UnreadableError("it does not begin with its opening.")
    body = first.body
    try:
        fits = isinstance(body["law"]["order"], str) and all(
            isinstance(seat["name"], str)
            and isinstance(seat["family"], str)
            and isinstance(seat["roles"], list)
            for seat in body["seats"]
        )
    except WRONG_SHAPE:
        fits = False
    if not fits:
        raise UnreadableError(
            "its opening is not as a session writes it.", place=f"session {first.session_id}"
        )
    return body


def with_candidates(session: Session) -> Session:
    """The session with those who stand to be ranked: on the ballots, or else who answered."""
    on_ballots = {author for ballot in session.ballots for author in ballot.authors}
    answered = {response.model for response in session.responses}
    return replace(session, candidates=tuple(sorted(on_ballots or answered)))


def _opened(session: Session, event: Event) -> Session:
    body = event.body
    return replace(
        session,
        id=event.session_id,
        query=Query(**body["query"]),
        seed=body["seed"],
        ordinal=body["ordinal"],
    )


def _answered(session: Session, event: Event) -> Session:
    body = event.body
    response = Response(
        model=body["seat"],
        text=body["text"],
        usage=Usage(**body.get("usage", {})),
        latency_ms=body.get("latency_ms"),
        reasoning_words=body.get("reasoning_words"),
    )
    return replace(session, responses=(*session.responses, response))


def _failed(session: Session, event: Event) -> Session:
    body = event.body
    failure = Failure(body["seat"], body["kind"], body["message"], body["stage"])
    return replace(session, failures=(*session.failures, failure))


def _screened(session: Session, event: Event) -> Session:
    span = event.body.get("span")
    gate = Gate(**{**event.body, "span": tuple(span) if span else None})
    return replace(session, gates=(*session.gates, gate))


def _dealt(session: Session, event: Event) -> Session:
    texts = {response.model: response.text for response in session.responses}
    ballots = tuple(
        Ballot(
            dealt["reviewer"],
            tuple(
                Slot(name, author, texts.get(author))
                for name, author in zip(_labels(dealt), dealt["order"], strict=True)
            ),
            event.body["round"],
            dealt.get("positions_known", True),
        )
        for dealt in event.body["ballots"]
    )
    return replace(session, ballots=(*session.ballots, *ballots))


def _labels(dealt: Mapping[str, Any]) -> list[str]:
    """A, B, C … in the order shown, unless the ballot came from elsewhere with its own."""
    return dealt.get("labels") or [label(i) for i in range(len(dealt["order"]))]


def _reviewed(session: Session, event: Event) -> Session:
    body = event.body
    ballot = next(
        b for b in session.ballots if (b.reviewer, b.round) == (body["reviewer"], body["round"])
    )
    reading = body.get("review")
    if reading is None:
        reading = _reading(parse(body["text"], ballot))
    return replace(session, reviews=(*session.reviews, _read(reading, body)))


def _read(reading: Mapping[str, Any], body: Mapping[str, Any]) -> Review:
    """A review as its reply was read when it came in."""
    return Review(
        reviewer=body["reviewer"],
        round=body["round"],
        raw=body["text"],
        **{
            **reading,
            "ranking": tuple(tuple(tier) for tier in reading["ranking"]),
            "flags": tuple(reading["flags"]),
        },
    )


def _tallied(session: Session, event: Event) -> Session:
    scores = tuple(Score(**row) for row in event.body["scores"])
    return replace(session, scores=scores, flags=tuple(event.body["flags"]))


def _audited(session: Session, event: Event) -> Session:
    findings = tuple(Finding(**finding) for finding in event.body["findings"])
    return replace(session, audit=Audit(findings, event.body["bias_audit"]))


def _concluded(session: Session, event: Event) -> Session:
    dissent = tuple(Dissent(**entry) for entry in event.body["dissent"])
    return replace(session, verdict=Verdict(**{**event.body, "dissent": dissent}))


def _finished(session: Session, event: Event) -> Session:
    return replace(
        session, finished=True, status=event.body["status"], cost_usd=event.body["cost_usd"]
    )


# What reading a body of another shape than ours ends in.
WRONG_SHAPE = (LookupError, TypeError, ValueError, AttributeError, StopIteration)
FOLDS: Mapping[str, Callable[[Session, Event], Session]] = {
    OPENED: _opened,
    ANSWERED: _answered,
    FAILED: _failed,
    SCREENED: _screened,
    DEALT: _dealt,
    REVIEWED: _reviewed,
    TALLIED: _tallied,
    AUDITED: _audited,
    CONCLUDED: _concluded,
    FINISHED: _finished,
}


# -- bodies -----------------------------------------------------------------------------------


def plain(noun: Any) -> dict[str, Any]:
    """A noun as the plain values of a body; nothing that JSON would change on its way."""
    if isinstance(noun, Usage):
        return {f.name: getattr(noun, f.name) for f in fields(noun)}
    return asdict(noun)


def review_body(review: Review, dimensions: Collection[str] = ()) -> dict[str, Any]:
    """A review for the log beside its reply, within bounds; these dimensions are kept first."""
    reading = _reading(review)
    marks = {label: _kept_marks(marks, dimensions) for label, marks in reading["marks"].items()}
    ranking = _kept_ranking(reading["ranking"])
    flags = reading["flags"]
    if marks != reading["marks"]:
        flags.append("too_many_dimensions")
    if ranking != reading["ranking"]:
        flags.append("ranking_too_long")
    notes = {label: note[:MAX_NOTE_CHARACTERS] for label, note in reading["notes"].items()}
    return {**reading, "ranking": ranking, "marks": marks, "notes": notes, "flags": flags}


def _reading(review: Review) -> dict[str, Any]:
    """A review as the plain values of a body, without the reply that it was read from.

    Its text is made valid once more: a reply of plain letters can spell half a pair.
    """
    names = ("ranking", "scores", "marks", "claimed", "notes", "abstained", "recovered", "flags")
    reading: dict[str, Any] = valid_values({name: getattr(review, name) for name in names})
    return reading


def _kept_marks(marks: Mapping[str, float], dimensions: Collection[str]) -> dict[str, float]:
    names = sorted(marks, key=lambda name: name not in dimensions)[:MAX_DIMENSIONS]
    return {name: marks[name] for name in names if len(name) <= MAX_NAME_CHARACTERS}


def _kept_ranking(ranking: Iterable[Iterable[str]]) -> list[list[str]]:
    kept: list[list[str]] = []
    left = MAX_MENTIONS
    for tier in ranking:
        names = [name[:MAX_NAME_CHARACTERS] for name in tier][:left]
        left -= len(names)
        if names:
            kept.append(names)
    return kept


def unread(events: Iterable[Event]) -> Iterator[Event]:
    """The events without how replies were read, so that `fold` reads the replies anew."""
    for event in events:
        if event.kind == REVIEWED and "review" in event.body:
            body = {name: value for name, value in event.body.items() if name != "review"}
            event = replace(event, body=body)
        yield event


def dealt_body(ballots: Iterable[Ballot], round: int) -> dict[str, Any]:
    return {
        "round": round,
        "ballots": [{"reviewer": b.reviewer, "order": list(b.authors)} for b in ballots],
    }


def abstention(ballot: Ballot, reason: str) -> Review:
    """The review of somebody whose reply never came."""
    return Review(ballot.reviewer, abstained=reason, round=ballot.round)


def reviewed_ballots(session: Session) -> Session:
    """The session with an abstention for every ballot that no review answers.

    A reviewer that failed could have voted, which is what confidence is measured against.
    """
    said = {(review.reviewer, review.round) for review in session.reviews}
    silent = tuple(
        abstention(ballot, "no_reply")
        for ballot in session.ballots
        if (ballot.reviewer, ballot.round) not in said
    )
    return replace(session, reviews=(*session.reviews, *silent))


def cost_of(events: Iterable[Event]) -> tuple[float | None, int]:
    """What a session's calls cost, and how many of them nobody knows the price of."""
    total, unknown = 0.0, 0
    for event in events:
        usage: Mapping[str, Any] | None = event.body.get("usage")
        if usage is None:
            continue
        if usage.get("cost_usd") is None:
            unknown += 1
        else:
            total += usage["cost_usd"]
    return (None if unknown else total), unknown
