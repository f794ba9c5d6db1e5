"""One session to be shown or sent: read from its log, scored again, as values and as JSON.

`StoredSession.view` is what every page, table and document of a session is made from: who answered
what, who reviewed whom where and why, what is missing, and the bill. It holds no words of ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from peerage import config
from peerage.config import Settings
from peerage.council.counting import count, dissent_of, note_of, places, with_names
from peerage.council.fences import without_marks
from peerage.council.fold import fold, person_review, reviewed_ballots
from peerage.council.foreign import decision_in
from peerage.council.refusals import looks_like_a_refusal
from peerage.errors import InputError, UnreadableError
from peerage.events import (
    Advised,
    Answered,
    CallMade,
    Dealt,
    Fact,
    Failed,
    Opened,
    PersonReviewed,
    Reviewed,
    SeatRecord,
    StoppedEarly,
    Tallied,
    billed_calls,
    call_made,
    is_deleted,
    opening_of,
    panel_of,
    read_events,
    since_extended,
    tags_of,
    total_cost,
)
from peerage.reports.options import ReplayOptions, SessionsOptions
from peerage.scoring import Scored, last_round, recorded_options, score_session
from peerage.shapes import to_json
from peerage.stores import Import, Listing, Store, full_season
from peerage.types import (
    Ballot,
    Counted,
    Dissent,
    Event,
    Failure,
    Gate,
    Query,
    Response,
    Review,
    Score,
    ScoringOptions,
    Session,
    Tabular,
    Usage,
    Verdict,
)

UNFINISHED = "unfinished"
SEARCHED_AT_ONCE = 500


# -- what there is to show -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One candidate's answer, and what became of it."""

    response: Response
    score: Score | None  # None: it was not ranked
    gate: Gate | None  # None: it was not screened
    given: bool  # judged, not asked for

    @property
    def looks_like_a_refusal(self) -> bool:
        return looks_like_a_refusal(self.response.text)


@dataclass(frozen=True, slots=True)
class Remark:
    """What one reviewer said of one answer, as it counts."""

    candidate: str
    label: str  # under which the reviewer saw it
    position: int | None  # 0 = shown first; None: not known
    place: int | None  # 1 = best, ties share; None: not ranked
    score: float | None = None
    marks: Mapping[str, float] | None = None  # by dimension
    note: str = ""  # in the reviewer's words, with names in place of labels
    own: bool = False  # the reviewer wrote this answer


@dataclass(frozen=True, slots=True)
class ReviewView:
    """One ballot and what came of it: remarks in the order shown, or why there are none."""

    reviewer: str
    round: int
    remarks: tuple[Remark, ...]
    is_last: bool = True  # of this reviewer's; a second thought replaces the first
    is_in: bool = True  # a reply came
    abstained: str = ""  # the reason, where the reviewer ranks nobody
    failure: Failure | None = None
    flags: tuple[str, ...] = ()
    raw: str = ""  # the reply as it came
    usage: Usage | None = None
    latency_ms: float | None = None

    @property
    def reason(self) -> Remark | None:
        """The remark on the answer it likes best of those it did not write."""
        noted = [one for one in self.remarks if one.note and one.place is not None]
        return min(noted, key=lambda one: (one.own, one.place), default=None)


@dataclass(frozen=True, slots=True)
class AdviceView:
    """A seat's reply when it was asked for the verdict; its decision where one was asked for."""

    seat: str
    raw: str
    approved: bool | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """The seats that a stage of an unfinished session still waits for."""

    stage: str  # "answer", "review", "conclude"
    seats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bill:
    """What calls took; `usd` is the sum of what is known, tokens are None where nobody counted."""

    n_calls: int = 0
    n_unpriced: int = 0
    usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as a person can be shown it, finished or not."""

    id: str
    opened_at: float
    status: str  # "done", "no_quorum", …, "unfinished"
    query: Query
    season: str
    seats: tuple[SeatRecord, ...]
    verdict: Verdict | None
    scored: Scored | None  # None: there are no ballots
    answers: tuple[AnswerView, ...]  # the best first
    reviews: tuple[ReviewView, ...]  # in the order of the seats, round by round
    people: tuple[ReviewView, ...]  # reviews by people, which leave the scores as they are
    advice: tuple[AdviceView, ...]
    dissent: tuple[Dissent, ...]
    failures: tuple[Failure, ...]
    not_heard: tuple[str, ...]  # reviewers who could not change the winner any more
    missing: tuple[Missing, ...]  # empty where it is finished
    bill: Bill
    bill_by_seat: Mapping[str, Bill]
    bill_by_stage: Mapping[str, Bill]
    deleted: bool = False  # boards, audits and lists leave it out
    tags: tuple[str, ...] = ()

    @property
    def is_finished(self) -> bool:
        return self.status != UNFINISHED

    @property
    def best(self) -> tuple[AnswerView, ...]:
        """The answers ranked first; none where nothing was scored."""
        return tuple(one for one in self.answers if one.score and one.score.rank == 1)

    @property
    def decisions(self) -> tuple[AdviceView, ...]:
        """The votes of a yes-or-no verdict that could be read."""
        return tuple(one for one in self.advice if one.approved is not None)

    @property
    def last_reviews(self) -> tuple[ReviewView, ...]:
        """The reviews that count: each reviewer's latest."""
        return tuple(one for one in self.reviews if one.is_last)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored session, its log, and the options it was scored under."""

    session: Session
    events: Sequence[Event]
    options: ScoringOptions

    @classmethod
    def read(cls, events: Sequence[Event], settings: Settings) -> StoredSession:
        """The session of a log, under the options it was scored by then."""
        return cls(fold(events), events, recorded_options(settings, opening_of(events)))

    def view(self) -> SessionView:
        """Everything that there is to show of the session."""
        session, opened = self.session, opening_of(self.events)
        facts = list(read_events(self.events))
        scored = rescored(session, self.options) if session.ballots else None
        calls = billed_calls(facts)
        return SessionView(
            id=session.id,
            opened_at=self.events[0].at,
            status=session.status or UNFINISHED,
            query=session.query,
            season=opened.season,
            seats=panel_of(facts),
            verdict=session.verdict,
            scored=scored,
            answers=_answers(session, scored, facts),
            reviews=_reviews(scored, facts) if scored else (),
            people=_people(session, self.options, facts),
            advice=_advice(facts, opened.options.verdict),
            dissent=_dissent(session, scored),
            failures=session.failures,
            not_heard=tuple(
                name for fact in facts if isinstance(fact, StoppedEarly) for name in fact.not_heard
            ),
            missing=() if session.finished else _missing(opened, facts),
            bill=bill_of(calls),
            bill_by_seat=_bills_by(calls, "seat"),
            bill_by_stage=_bills_by(calls, "stage"),
            deleted=is_deleted(facts),
            tags=tags_of(facts),
        )

    def document(self) -> dict[str, Any]:
        """Everything about the session as plain JSON values."""
        session, view = self.session, self.view()
        document: dict[str, Any] = {
            "id": session.id,
            "status": view.status,
            "opened_at": view.opened_at,
            "season": view.season,
            "deleted": view.deleted,
            "tags": list(view.tags),
            "query": asdict(session.query),
            "seed": session.seed,
            "ordinal": session.ordinal,
            "seats": [asdict(seat) for seat in view.seats],
            "responses": [_response_document(one) for one in session.responses],
            "failures": [asdict(failure) for failure in session.failures],
            "missing": [asdict(one) for one in view.missing],
            "verdict": _verdict_document(session.verdict) if session.verdict else None,
            "dissent": [asdict(words) for words in view.dissent],
            "advice": [asdict(one) for one in view.advice],
            "not_heard": list(view.not_heard),
            "cost_usd": session.cost_usd,
            "unpriced_calls": session.unpriced_calls,
            "cost": _cost_document(view),
        }
        if view.scored is not None:
            result = view.scored.document()
            result.pop("session_id", None)
            document |= {**result, **positions(session)}
            document["reviews"] = [to_json(one) for one in view.reviews]
            document["people"] = [to_json(one) for one in view.people]
        return document


def bill_of(calls: Iterable[CallMade]) -> Bill:
    """What some calls took together."""
    billed = [call for call in calls if call.usage is not None]
    usd, n_unpriced = total_cost(billed)

    def tokens(name: str) -> int | None:
        known = [n for call in billed if (n := getattr(call.usage, name)) is not None]
        return sum(known) if known else None

    return Bill(len(billed), n_unpriced, usd, tokens("tokens_in"), tokens("tokens_out"))


def _bills_by(calls: Iterable[CallMade], name: Literal["seat", "stage"]) -> dict[str, Bill]:
    """What calls took, by their seat or by their stage."""
    groups: dict[str, list[CallMade]] = defaultdict(list)
    for call in calls:
        groups[getattr(call, name)].append(call)
    return {key: bill_of(some) for key, some in groups.items()}


def _answers(
    session: Session, scored: Scored | None, facts: Sequence[Fact]
) -> tuple[AnswerView, ...]:
    given = {fact.seat for fact in facts if isinstance(fact, Answered) and fact.given}
    scores = {score.model: score for score in (scored.scores if scored else ())}
    gates = {gate.model: gate for gate in (scored.session if scored else session).gates}
    place = {name: i for i, name in enumerate(scores)}
    best_first = sorted(
        session.responses, key=lambda one: (place.get(one.model, len(place)), one.model)
    )
    return tuple(
        AnswerView(one, scores.get(one.model), gates.get(one.model), one.model in given)
        for one in best_first
    )


def _reviews(scored: Scored, facts: Sequence[Fact]) -> tuple[ReviewView, ...]:
    session = scored.session
    replies = {(f.reviewer, f.round): f for f in facts if isinstance(f, Reviewed)}
    failures = {
        (f.seat, f.round): Failure(f.seat, f.kind, f.message, f.stage)
        for f in facts
        if isinstance(f, Failed) and f.stage == "review"
    }
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    last = {(b.reviewer, b.round) for b in last_round(session.ballots, scored.counted)[0]}
    views = []
    for ballot, counted in zip(session.ballots, scored.counted, strict=True):
        key = ballot.reviewer, ballot.round
        view = _review_view(ballot, reviews[key], counted)
        view = replace(view, is_last=key in last, failure=failures.get(key))
        if reply := replies.get(key):
            view = replace(view, usage=reply.usage, latency_ms=reply.latency_ms)
        views.append(replace(view, is_in=reply is not None))
    return tuple(views)


def _people(
    session: Session, options: ScoringOptions, facts: Sequence[Fact]
) -> tuple[ReviewView, ...]:
    reviews = [person_review(session, fact) for fact in facts if isinstance(fact, PersonReviewed)]
    return tuple(
        _review_view(ballot, review, count(ballot, review, options.rubric))
        for ballot, review in reviews
    )


def _review_view(ballot: Ballot, review: Review, counted: Counted) -> ReviewView:
    return ReviewView(
        reviewer=ballot.reviewer,
        round=ballot.round,
        remarks=remarks_of(ballot, review, counted),
        abstained=review.abstained,
        flags=counted.flags,
        raw=review.raw,
    )


def remarks_of(ballot: Ballot, review: Review, counted: Counted) -> tuple[Remark, ...]:
    """What a reviewer said of each answer on its ballot, in the order shown."""
    place_by_name = places(counted)
    return tuple(
        Remark(
            candidate=slot.author,
            label=slot.label,
            position=i if ballot.positions_known else None,
            place=place_by_name.get(slot.author),
            score=counted.scores.get(slot.author),
            marks=review.marks.get(slot.label),
            note=with_names(note_of(review, slot.label), ballot),
            own=slot.author == ballot.reviewer,
        )
        for i, slot in enumerate(ballot.slots)
    )


def _advice(facts: Sequence[Fact], kind: str) -> tuple[AdviceView, ...]:
    lately = [fact for fact in since_extended(facts) if isinstance(fact, Advised)]
    replies = lately or [fact for fact in facts if isinstance(fact, Advised)]
    if kind != "binary":
        return tuple(AdviceView(fact.seat, fact.text) for fact in replies)
    decisions = [fact.decision or decision_in(fact.text) for fact in replies]
    return tuple(
        AdviceView(
            fact.seat, fact.text, decision.approved, tuple(map(without_marks, decision.reasons))
        )
        for fact, decision in zip(replies, decisions, strict=True)
    )


def _dissent(session: Session, scored: Scored | None) -> tuple[Dissent, ...]:
    """The dissent that the verdict quotes; without a verdict, what it would have quoted."""
    if session.verdict is not None or scored is None:
        return session.verdict.dissent if session.verdict else ()
    return dissent_of(scored.session, scored.counted)


def _missing(opened: Opened, facts: Sequence[Fact]) -> tuple[Missing, ...]:
    """What an unfinished session waits for, in the order in which it would come."""
    calls = (call_made(fact) for fact in facts)
    heard = {(one.stage, one.round, one.seat) for one in calls if one and one.is_outcome}
    panel, lately = panel_of(facts), since_extended(facts)

    def silent(stage: str, round_: int, seats: Iterable[str]) -> Missing:
        return Missing(stage, tuple(name for name in seats if (stage, round_, name) not in heard))

    rounds = [fact for fact in lately if isinstance(fact, Dealt)]
    if rounds:
        reviewers = [ballot.reviewer for ballot in rounds[-1].ballots]
        missing = [silent("review", rounds[-1].round, reviewers)]
    else:
        answering = [seat.name for seat in panel if "answer" in seat.roles]
        reviewing = tuple(seat.name for seat in panel if "review" in seat.roles)
        missing = [silent("answer", 0, answering), Missing("review", reviewing)]
    missing = [one for one in missing if one.seats]
    concluded = any(isinstance(fact, Verdict) for fact in lately)
    wants_verdict = not concluded and opened.options.verdict != "none"
    return (*missing, *([Missing("conclude")] if wants_verdict else []))


# -- many sessions, a line each ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionEntry(Listing):
    """One session in a list of them, with what came of it."""

    winner: str = ""  # several names where they are tied; empty where nobody was ranked
    cost_usd: float = 0.0  # as far as it is known
    unpriced_calls: int = 0


def find_sessions(store: Store, options: SessionsOptions) -> list[Listing]:
    """The latest sessions that fit the options, in the order in which they were opened."""
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
    matches: list[Listing] = []  # the latest first
    while len(matches) < options.limit and (page := latest(limit=SEARCHED_AT_ONCE, before=before)):
        matches += [one for one in reversed(page) if _mentions(store, one, text)]
        before = page[0].id
    return matches[: options.limit][::-1]


def _mentions(store: Store, listed: Listing, text: str) -> bool:
    """Whether a session's question, id, tags or names of models hold a text."""
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


def session_entry(listing: Listing, events: Iterable[Event]) -> SessionEntry:
    """A listed session with its winner and its cost, from its log."""
    listing = replace(listing, status=listing.status or UNFINISHED)
    try:
        facts = list(read_events(events))
    except UnreadableError:
        return SessionEntry(**asdict(listing))
    tallies = [fact for fact in facts if isinstance(fact, Tallied)]
    best = [one.model for one in tallies[-1].scores if one.rank == 1] if tallies else []
    bill = bill_of(billed_calls(facts))
    return SessionEntry(
        **asdict(listing),
        winner=", ".join(best),
        cost_usd=bill.usd,
        unpriced_calls=bill.n_unpriced,
    )


@dataclass(frozen=True, slots=True, repr=False)
class SessionList(Tabular):
    """Stored sessions, one line each."""

    sessions: tuple[SessionEntry, ...]
    filtered: bool = False  # whether others may be there that were not asked for

    def __repr__(self) -> str:
        return f"SessionList({len(self.sessions)} sessions)"

    def table(self) -> dict[str, list[Any]]:
        listed = [asdict(one) for one in self.sessions]
        return {name: [one[name] for one in listed] for name in (listed[0] if listed else ())}

    def document(self) -> dict[str, Any]:
        """The JSON of the list."""
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
        """The JSON of the list."""
        return {"imports": self.rows}


# -- scored again, and as JSON -------------------------------------------------------------------


def rescored(session: Session, options: ScoringOptions) -> Scored:
    """Score a stored session again, from its ballots and reviews alone."""
    bare = replace(session, scores=(), flags=(), audit=None)
    return score_session(reviewed_ballots(bare), options)


def replayed(events: Sequence[Event], settings: Settings, options: ReplayOptions) -> Scored:
    """Score the session of a log again, as set but for these options; readings stay as stored."""
    session = fold(events)
    if not session.ballots:
        raise InputError(f"session {session.id} has no ballots to score.")
    changes = options.model_dump(exclude_none=True)
    if name := changes.get("rubric"):
        changes["rubric"] = None if name == "none" else config.rubric(name, settings)
    scoring = settings.scoring_options(session.query.category)
    return rescored(session, replace(scoring, **changes))


def positions(session: Session) -> dict[str, Any]:
    """The position in which each reviewer saw each model, as two mappings."""
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


def _response_document(response: Response) -> dict[str, Any]:
    """An answer's fields, and what is to be known about it."""
    return {
        **asdict(response),
        "truncated": response.truncated,
        "looks_like_a_refusal": looks_like_a_refusal(response.text),
    }


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict's fields; of a yes-or-no verdict also the word for its decision."""
    return asdict(verdict) | ({"decision": verdict.decision} if verdict.decision else {})


def _cost_document(view: SessionView) -> dict[str, Any]:
    """What a session's calls cost, as far as it is known, by seat and by stage."""
    bill = view.bill
    return {
        "total_usd": bill.usd,
        "unpriced_calls": bill.n_unpriced,
        "calls": bill.n_calls,
        "tokens_in": bill.tokens_in,
        "tokens_out": bill.tokens_out,
        "by_seat": {seat: one.usd for seat, one in view.bill_by_seat.items()},
        "by_stage": {stage: one.usd for stage, one in view.bill_by_stage.items()},
    }


def answer_of(session: Session) -> str:
    """The words of the verdict, or the best answer where none was written."""
    verdict = session.verdict
    if verdict is None:
        best = session.scores[0].model if session.scores else ""
        return next((r.text for r in session.responses if r.model == best), "")
    if not verdict.decision:
        return verdict.text or verdict.note
    first = f"{verdict.decision.capitalize()}: {verdict.note}."
    return f"{first}\n\n{verdict.text}" if verdict.text else first
