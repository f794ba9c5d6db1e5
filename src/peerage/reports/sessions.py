"""Stored sessions: one session as JSON or scored again, and lists of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from peerage import config
from peerage.config import Settings
from peerage.council.counting import place
from peerage.council.safety import looks_like_a_refusal
from peerage.errors import InputError, NotFoundError, UnreadableError, meant, shown
from peerage.event_facts import panel_of
from peerage.events import Opened, SeatRecord, read_events
from peerage.labels.unanimity import why_a_person
from peerage.messages import image_document, message_documents
from peerage.notebooks import Tabular
from peerage.reports.session_options import ReplayOptions, SessionsOptions
from peerage.scoring import Scored, check_marks, last_round
from peerage.shapes import to_json
from peerage.stores import Import, SessionEntry, Store, full_season
from peerage.types import Message, Query, Response, Session, Turn, Verdict
from peerage.view import UNFINISHED, SessionView

SEARCHED_AT_ONCE = 500


# -- one session as JSON --------------------------------------------------------------------------


def session_document(view: SessionView) -> dict[str, Any]:
    """Return everything about a session as plain JSON values."""
    session = view.session
    document: dict[str, Any] = {
        "id": session.id,
        "kind": view.kind,
        "status": view.status,
        "opened_at": view.opened_at,
        "season": view.season,
        "deleted": view.deleted,
        "tags": list(view.tags),
        "query": _query_document(session.query),
        "seed": session.seed,
        "ordinal": session.ordinal,
        "seats": [_seat_document(seat) for seat in view.seats],
        "responses": [_response_document(one) for one in session.responses],
        "failures": [asdict(failure) for failure in session.failures],
        "missing": [asdict(one) for one in view.missing],
        "verdict": _verdict_document(session.verdict, view) if session.verdict else None,
        "dissent": [asdict(words) for words in view.dissent],
        "advice": [asdict(one) for one in view.advice],
        "not_heard": [name for name, _ in view.not_heard],
        "cost_usd": session.cost_usd,
        "unpriced_calls": session.unpriced_calls,
        "cost": _cost_document(view),
    }
    if view.opened is not None and view.opened.labels:
        document["metadata"] = dict(view.opened.labels)
    if correct := view.correct:
        document["correct"] = correct
    if session.query.all_images:
        document["images_not_seen_by"] = list(view.images_not_seen_by)
    if view.scored is not None:
        result = view.scored.document()
        result.pop("session_id", None)
        document |= {**result, **positions(session)}
        document["reviews"] = [to_json(one) for one in view.reviews]
        document["people"] = [to_json(one) for one in view.people]
    return document


def ranking_document(session: Session) -> list[dict[str, Any]]:
    """Return the ranked answers, best first, with the fields that clients see."""
    names = ("model", "rank", "share", "votes", "possible", "confidence")
    return [{name: getattr(score, name) for name in names} for score in session.scores]


def positions(session: Session) -> dict[str, Any]:
    """Return the position in which each reviewer saw each model, as two mappings."""
    by_reviewer = {
        ballot.reviewer: {name: i for i, name in enumerate(ballot.authors)}
        for ballot in session.ballots
        if ballot.round == 0
    }
    first = next((ballot for ballot in session.ballots if ballot.round == 0), None)
    slots = first.slots if first else ()
    return {
        "label_to_position": {
            f"Response {slot.label}": {"model": slot.author, "display_index": i}
            for i, slot in enumerate(slots)
        },
        "reviewer_position_mapping": by_reviewer,
    }


def _query_document(query: Query) -> dict[str, Any]:
    """Return a question; `expected` is included only if it is set."""
    document = asdict(replace(query, images=(), earlier=()))
    document["earlier"] = [_turn_document(turn) for turn in query.earlier]
    document = _with_images(document, query)
    if not query.expected:
        document.pop("expected")
    if query.correct is None:
        document.pop("correct")
    return document


def _turn_document(turn: Turn) -> dict[str, Any]:
    return _with_images({"role": turn.role, "content": turn.content}, turn)


def _with_images(document: dict[str, Any], of: Query | Turn) -> dict[str, Any]:
    """Return a document with the images of a question or turn, if it has some."""
    document.pop("images", None)
    return document | ({"images": [image_document(one) for one in of.images]} if of.images else {})


def _seat_document(seat: SeatRecord) -> dict[str, Any]:
    """Return a seat; `images` is included only if the seat sees images."""
    document = asdict(seat)
    if not seat.images:
        document.pop("images")
    return document


def _response_document(response: Response) -> dict[str, Any]:
    """Return an answer's fields and its flags.

    Messages are in OpenAI's format; the field is left out if there are none.
    """
    document = asdict(replace(response, messages=()))
    document.pop("messages")
    messages = {"messages": message_documents(response.messages)} if response.messages else {}
    return {
        **document,
        **messages,
        "words": response.words,
        "truncated": response.truncated,
        "looks_like_a_refusal": looks_like_a_refusal(response.written),
    }


def _verdict_document(verdict: Verdict, view: SessionView) -> dict[str, Any]:
    """Return a verdict's fields, and whether a person should look at it.

    A yes-or-no verdict also has its decision as a word.
    """
    document = asdict(verdict) | ({"decision": verdict.decision} if verdict.decision else {})
    reason = reason_for_a_person(verdict, view)
    return document | {"needs_person": bool(reason), "needs_person_reason": reason}


def reason_for_a_person(verdict: Verdict, view: SessionView) -> str:
    """Return why a person should look at a session's verdict; empty if it was unanimous."""
    if view.scored is None:
        return why_a_person(verdict, (), (), ())
    session, own_votes = view.scored.session, view.scored.options.own_votes
    ballots, latest = last_round(session.ballots, view.scored.counted)
    n = len(session.candidates)
    placings = [one for one in (place(vote, own_votes, n) for vote in latest) if one is not None]
    failed = {one.seat for one in session.failures if one.stage == "review"}
    silent = {one.reviewer for one in ballots} | failed | {name for name, _ in view.not_heard}
    silent -= {one.reviewer for one in placings}
    return why_a_person(verdict, session.scores, placings, silent)


def _cost_document(view: SessionView) -> dict[str, Any]:
    """Return the known cost of a session's calls, by seat and by stage."""
    bill = view.bill
    return {
        "total_usd": bill.usd,
        "unpriced_calls": bill.n_unpriced,
        "calls": bill.n_calls,
        "tokens_in": bill.tokens_in,
        "tokens_out": bill.tokens_out,
        "by_seat": {seat: one.usd for seat, one in view.bills_by("seat").items()},
        "by_stage": {stage: one.usd for stage, one in view.bills_by("stage").items()},
    }


# -- answers side by side --------------------------------------------------------------------------

MAX_COMPARED = 3


@dataclass(frozen=True, slots=True)
class ReviewOfAnswer:
    """One reviewer's judgement of one answer, in the last round."""

    reviewer: str
    place: int | None
    score: float | None
    marks: Mapping[str, float]
    note: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """An answer with its rank and every review of it."""

    model: str
    rank: int | None
    text: str
    words: int
    reviews: tuple[ReviewOfAnswer, ...]
    messages: tuple[Message, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the answer as JSON; `messages` is included only if there are some."""
        document = asdict(replace(self, messages=()))
        document.pop("messages")
        if self.messages:
            document["messages"] = message_documents(self.messages)
        return document


def compare_answers(view: SessionView, models: Sequence[str] = ()) -> list[ComparedAnswer]:
    """Return answers in order of rank: up to three of the named models, or the best two."""
    scores = {one.model: one for one in view.session.scores}
    order = {name: place for place, name in enumerate(scores)}
    answers = sorted(view.responses, key=lambda one: order.get(one.model, len(order)))
    if len(answers) < 2:
        raise NotFoundError("this session has fewer than two answers to compare.")
    names = [one.model for one in answers]
    if missing := next((name for name in models if name not in names), None):
        raise NotFoundError(
            f"this session has no answer by {shown(missing)}.", hint=meant(missing, names)
        )
    chosen = [one for one in answers if one.model in models] if models else answers[:2]
    return [
        ComparedAnswer(
            one.model,
            score.rank if (score := scores.get(one.model)) and score.votes else None,
            one.text,
            one.words,
            tuple(_reviews_of_answer(view, one.model)),
            one.messages,
        )
        for one in chosen[:MAX_COMPARED]
    ]


def _reviews_of_answer(view: SessionView, model: str) -> Iterator[ReviewOfAnswer]:
    last = max(view.rounds, default=0)
    for reviewer in view.members:
        review = view.review(reviewer.name, last)
        remark = review.remark_by_candidate.get(model) if review else None
        if remark is not None:
            marks: dict[str, float] = dict(remark.marks or {})
            note = "Decision model." if remark.confidence else remark.note
            judged = (reviewer.name, remark.place, remark.score, marks, note)
            yield ReviewOfAnswer(*judged, is_own=reviewer.name == model)


def replay_session(view: SessionView, settings: Settings, options: ReplayOptions) -> Scored:
    """Score a session again: these options replace its recorded ones; readings are reused."""
    if not view.ballots:
        raise InputError(f"session {view.id} has no ballots to score.")
    changes = options.model_dump(exclude_none=True)
    if "rubric" in changes:
        name = changes["rubric"]
        changes["rubric"] = config.rubric(name, settings) if name else None
    return check_marks(view.under(replace(view.options, **changes)).result)


# -- many sessions, a line each ------------------------------------------------------------------


def find_sessions(store: Store, options: SessionsOptions) -> list[SessionEntry]:
    """Return the latest sessions that match the options, in the order they were opened."""
    season = None if options.season is None else full_season(store, options.season)
    status = "" if options.status == UNFINISHED else options.status
    latest = partial(
        store.sessions,
        season,
        category=options.category,
        status=status,
        tag=options.tag,
        deleted=options.deleted,
    )
    text, before = options.search.strip().casefold(), options.before
    if not text:
        return latest(limit=options.limit, before=before)
    matches: list[SessionEntry] = []  # the latest first
    while len(matches) < options.limit and (page := latest(limit=SEARCHED_AT_ONCE, before=before)):
        matches += [one for one in reversed(page) if _mentions(store, one, text)]
        before = page[0].id
    return matches[: options.limit][::-1]


def _mentions(store: Store, listed: SessionEntry, text: str) -> bool:
    """Return whether a session's question, id, tags or models' names contain a text."""
    known = (listed.id, listed.query, listed.category, listed.season, *listed.tags)
    if any(text in word.casefold() for word in known):
        return True
    try:
        facts = list(read_events(store.opening_events(listed.id)))
    except UnreadableError:
        return False
    words = [word for seat in panel_of(facts) for word in (seat.name, seat.model, seat.family)]
    for fact in facts:
        if isinstance(fact, Opened):
            words += [fact.query.text, *(fact.answers or ())]
    return any(text in word.casefold() for word in words)


def with_status(listing: SessionEntry) -> SessionEntry:
    """Return a listed session whose status is a word even if it is not finished."""
    return replace(listing, status=listing.status or UNFINISHED)


@dataclass(frozen=True, slots=True, repr=False)
class SessionList(Tabular):
    """Stored sessions, one line each."""

    sessions: tuple[SessionEntry, ...]
    filtered: bool = False  # whether options may have left out other sessions

    def __repr__(self) -> str:
        return f"SessionList({len(self.sessions)} sessions)"

    def table(self) -> dict[str, list[Any]]:
        listed = [asdict(one) for one in self.sessions]
        return {name: [one[name] for one in listed] for name in (listed[0] if listed else ())}

    def document(self) -> dict[str, Any]:
        """Return the JSON of the list."""
        return {"sessions": self.rows}


@dataclass(frozen=True, slots=True, repr=False)
class ImportList(Tabular):
    """The tables that were imported, one line each."""

    imports: tuple[Import, ...]

    def __repr__(self) -> str:
        return f"ImportList({len(self.imports)} tables)"

    def table(self) -> dict[str, list[Any]]:
        listed = [asdict(one) for one in self.imports]
        return {name: [one[name] for one in listed] for name in (listed[0] if listed else ())}

    def document(self) -> dict[str, Any]:
        """Return the JSON of the list."""
        return {"imports": self.rows}
