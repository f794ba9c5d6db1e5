"""A session as its page shows it, kept up to date event by event and rendered for all who watch.

One event changes a bounded part of the picture: a card, a row of the grid, the ranking. The same
parts make the page of a running session, of one that was reconnected to, and of a finished one.

One task follows each watched session. What it renders goes into a list that every viewer reads
at its own pace, so that fifty viewers cost the rendering of one. A message that an event of the log
gave rise to has the event's number as its id: a browser that lost the connection goes on from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from markupsafe import escape

from peerage.config import Settings
from peerage.council.blinding import Draws, label
from peerage.council.counting import count
from peerage.council.fold import EMPTY, add, person_review, with_candidates
from peerage.council.refusals import looks_like_a_refusal
from peerage.doors.render.phrases import session_flags
from peerage.doors.web.templating import web_environment
from peerage.errors import PeerageError
from peerage.events import (
    NOT_STORED,
    Advised,
    Answered,
    Asked,
    AskedAgain,
    Audited,
    CallMade,
    Dealt,
    Deleted,
    Extended,
    Fact,
    Failed,
    Finished,
    Opened,
    PersonReviewed,
    Restored,
    Reviewed,
    SeatRecord,
    StoppedEarly,
    Tagged,
    Tallied,
    TextPiece,
    Waiting,
    call_made,
    read_event,
)
from peerage.reports.sessions import Bill, Remark, bill_of, remarks_of
from peerage.scoring import recorded_options
from peerage.service import Service
from peerage.tasks import Signal, end, with_pauses
from peerage.text import visible
from peerage.types import (
    Ballot,
    Counted,
    Event,
    Gate,
    Response,
    Review,
    ScoringOptions,
    Session,
    Verdict,
)

MAX_LIVE_TEXT = 20_000  # characters of a text that is still coming in


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody at the table: a number for addresses, a letter while names are hidden, a name."""

    index: int
    alias: str
    name: str


class JudgedBallot(NamedTuple):
    """What a reviewer was shown and said, how that counts, and a remark on each answer."""

    ballot: Ballot
    review: Review
    counted: Counted
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class GridRow:
    """One reviewer's ballot: a remark on each candidate, or why there is none."""

    reviewer: Member
    round: int
    cells: tuple[tuple[Member, Remark | None], ...]
    state: str  # "waiting", "reading", "done", "failed", "abstained", "not_heard"
    note: str = ""


@dataclass
class SessionPicture:
    """What is known of a session after its events so far."""

    settings: Settings
    session: Session = EMPTY
    opened: Opened | None = None
    seats: tuple[SeatRecord, ...] = ()
    last_seq: int = NOT_STORED
    started_at: float | None = None
    ended_at: float | None = None
    members: tuple[Member, ...] = ()
    pending: set[tuple[str, str, int]] = field(default_factory=set)  # calls: seat, stage, round
    texts: dict[tuple[str, str], str] = field(default_factory=dict)  # still coming in
    calls: list[CallMade] = field(default_factory=list)
    not_heard: set[tuple[str, int]] = field(default_factory=set)
    is_deleted: bool = False
    tags: tuple[str, ...] = ()
    asked_again: set[tuple[str, str, int]] = field(default_factory=set)  # no second reply yet
    waits: dict[tuple[str, str], Waiting] = field(default_factory=dict)  # by seat and stage
    people: dict[str, tuple[Ballot, Review]] = field(default_factory=dict)  # by name
    failed: dict[tuple[str, str, int], Failed] = field(default_factory=dict)
    chair: str = ""

    @classmethod
    def of(cls, events: Iterable[Event], settings: Settings) -> SessionPicture:
        """The picture of a log."""
        picture = cls(settings)
        for event in events:
            picture.see(event)
        return picture

    def see(self, event: Event) -> Fact | None:
        """Take in one more event; what it was comes back."""
        fact = read_event(event)
        self.last_seq = max(self.last_seq, event.seq)
        match fact:
            case TextPiece():
                text = self.texts.get((fact.seat, fact.stage), "") + fact.text
                self.texts[fact.seat, fact.stage] = text[-MAX_LIVE_TEXT:]
            case Asked():
                self.pending.add((fact.seat, fact.stage, fact.round))
                self.chair = fact.seat if fact.stage == "conclude" else self.chair
            case Waiting():
                self.waits[fact.seat, fact.stage] = fact
            case Opened():
                self.opened, self.seats, self.started_at = fact, fact.seats, event.at
            case Extended():
                self.ended_at = None
                self.seats += fact.seats
            case PersonReviewed():
                self.people[fact.ballot.reviewer] = person_review(self.session, fact)
            case Failed():
                self.failed[fact.seat, fact.stage, fact.round] = fact
            case AskedAgain():
                self.asked_again.add((fact.seat, fact.stage, fact.round))
            case StoppedEarly():
                self.not_heard |= {(name, fact.round) for name in fact.not_heard}
            case Finished():
                self.ended_at = event.at
            case Deleted() | Restored():
                self.is_deleted = isinstance(fact, Deleted)
            case Tagged():
                self.tags = fact.tags
        if fact is not None and event.seq != NOT_STORED:
            self._add(event.session_id, fact)
        return fact

    def _add(self, session_id: str, fact: Fact) -> None:
        """Add a stored fact to the session, and end the call whose outcome it is."""
        if (call := call_made(fact)) is not None:
            self.pending.discard((call.seat, call.stage, call.round))
            if call.is_outcome:
                self.asked_again.discard((call.seat, call.stage, call.round))
            self.waits.pop((call.seat, call.stage), None)
            if call.stage != "conclude" or isinstance(fact, Failed):  # a verdict follows its text
                self.texts.pop((call.seat, call.stage), None)
            self.calls += [call] if call.usage is not None else []
        self.session = add(self.session, session_id, fact)
        if isinstance(fact, Opened | Extended | Dealt | Answered | PersonReviewed):
            self.session = with_candidates(self.session)
            self._seat_newcomers()

    # -- who is at the table -------------------------------------------------------------------

    def _seat_newcomers(self) -> None:
        """Give everybody who is new a number and a letter; the first in an order that is drawn."""
        seats = [seat.name for seat in self.seats]
        reviewers = [ballot.reviewer for ballot in self.session.ballots]
        names = dict.fromkeys([*seats, *self.session.candidates, *reviewers, *self.people])
        new = [name for name in names if name not in self.by_name]
        if not self.members:
            n_first = len(seats) or len(new)
            drawn = Draws("aliases", self.session.id).permutation(n_first)
            new[:n_first] = [new[i] for i in drawn]
        numbered = enumerate(new, len(self.members))
        self.members += tuple(Member(i, label(i), name) for i, name in numbered)

    @property
    def by_name(self) -> Mapping[str, Member]:
        return {member.name: member for member in self.members}

    def member(self, name: str) -> Member:
        """Who is called this; also somebody who never sat here, as in an old log."""
        return self.by_name.get(name) or Member(-1, "?", name)

    @property
    def answering(self) -> list[Member]:
        """Those who were asked to answer, or whose answers were given."""
        seats = () if self.are_given else self.seats
        names = {seat.name for seat in seats if "answer" in seat.roles or not seat.roles}
        return self._named(names | set(self.session.candidates))

    def _named(self, names: Collection[str]) -> list[Member]:
        return [member for member in self.members if member.name in names]

    @property
    def are_given(self) -> bool:
        """Whether the answers came with the question, so that no seat was asked for one."""
        return bool(self.session.responses) and not any(
            call.stage == "answer" for call in self.calls
        )

    # -- answers -------------------------------------------------------------------------------

    def response(self, member: Member) -> Response | None:
        return next((one for one in self.session.responses if one.model == member.name), None)

    def declines(self, member: Member) -> bool:
        """Whether the answer of a seat looks like a refusal."""
        response = self.response(member)
        return response is not None and looks_like_a_refusal(response.text)

    def gate(self, member: Member) -> Gate | None:
        return next((one for one in self.session.gates if one.model == member.name), None)

    # -- reviews -------------------------------------------------------------------------------

    @property
    def rounds(self) -> list[int]:
        return sorted({ballot.round for ballot in self.session.ballots})

    @property
    def working(self) -> list[Member]:
        """Those who write or read right now."""
        stage = {"answers": "answer", "reviews": "review"}.get(self.stage, "conclude")
        return self._named({seat for seat, at, _ in self.pending if at == stage})

    @property
    def candidates(self) -> list[Member]:
        """Whose answers are on the ballots; before there are any, whose are expected."""
        return self._named(self.session.candidates) or self.answering

    @cached_property
    def options(self) -> ScoringOptions:
        """The options this session is scored by."""
        if self.opened is None:
            return ScoringOptions()
        return recorded_options(self.settings, self.opened)

    def judged(self, reviewer: str, round: int) -> JudgedBallot | None:
        """A reviewer's ballot and review of a round, as it counts; None where there is none."""
        ballots = (b for b in self.session.ballots if (b.reviewer, b.round) == (reviewer, round))
        reviews = (r for r in self.session.reviews if (r.reviewer, r.round) == (reviewer, round))
        ballot, review = self.people.get(reviewer) or (next(ballots, None), next(reviews, None))
        if ballot is None or review is None:
            return None
        failed = frozenset(gate.model for gate in self.session.gates if not gate.passed)
        counted = count(ballot, review, self.options.rubric, failed)
        return JudgedBallot(ballot, review, counted, remarks_of(ballot, review, counted))

    def rows(self, round: int) -> list[GridRow]:
        """The grid of one round, a row for each ballot; before the first, for each to come."""
        names = {ballot.reviewer for ballot in self.session.ballots if ballot.round == round}
        names = names or {seat.name for seat in self.seats if "review" in seat.roles}
        names |= set(self.people) if round == max(self.rounds, default=0) else set()
        return [self.row(member, round) for member in self._named(names)]

    def row(self, reviewer: Member, round: int) -> GridRow:
        """One reviewer's row, as far as it is known."""
        judged = self.judged(reviewer.name, round)
        by_candidate = {one.candidate: one for one in judged.remarks} if judged else {}
        cells = tuple((member, by_candidate.get(member.name)) for member in self.candidates)
        return GridRow(reviewer, round, cells, *self._row_state(reviewer.name, round, judged))

    def _row_state(self, name: str, round: int, judged: JudgedBallot | None) -> tuple[str, str]:
        """The state of a reviewer's row, and what to say of it."""
        is_heard = (name, round) not in self.not_heard
        if (name, "review", round) in self.asked_again and is_heard and self.ended_at is None:
            return "reading", "asked again …"
        if judged and (judged.review.abstained or judged.counted.abstained):
            return "abstained", "gave no vote that counts"
        if judged:
            return "done", ""
        if failure := self.failed.get((name, "review", round)):
            return "failed", failure.kind.replace("_", " ")
        if not is_heard:
            return "not_heard", "not needed: the winner could not change"
        if (name, "review", round) in self.pending:
            return "reading", "reads and ranks …"
        return "waiting", ""

    # -- the whole -----------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """Where the session stands: "answers", "reviews", "verdict" or "finished"."""
        if self.session.finished:
            return "finished"
        if self.session.scores:
            return "verdict"
        return "reviews" if self.session.ballots else "answers"

    @property
    def n_reviewed(self) -> tuple[int, int]:
        """How many ballots of the last round are done with, and how many there are or will be."""
        last = self.rounds[-1] if self.rounds else 0
        ballots = [ballot for ballot in self.session.ballots if ballot.round == last]
        done = {review.reviewer for review in self.session.reviews if review.round == last}
        done |= {name for name, stage, n in self.failed if (stage, n) == ("review", last)}
        done |= {name for name, n in self.not_heard if n == last}
        return sum(ballot.reviewer in done for ballot in ballots), len(ballots) or len(self.rows(0))

    @property
    def n_answered(self) -> tuple[int, int]:
        """How many seats have answered or failed to, and how many there are."""
        done = {response.model for response in self.session.responses}
        done |= {name for name, stage, _ in self.failed if stage == "answer"}
        members = self.answering
        return sum(member.name in done for member in members), len(members)

    @property
    def bill(self) -> Bill:
        return bill_of(self.calls)

    @property
    def seconds(self) -> float | None:
        """How long the session took, where it is over."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    @property
    def winners(self) -> list[Member]:
        """Who stands first."""
        firsts = (one.model for one in self.session.scores if one.rank == 1 and one.votes)
        return [self.member(name) for name in firsts]

    def rank_of(self, member: Member) -> int | None:
        """The rank of somebody whom at least one vote has ranked."""
        ranks = (one.rank for one in self.session.scores if one.model == member.name and one.votes)
        return next(ranks, None)

    @property
    def flags(self) -> list[str]:
        """What was odd about the ballots, in words."""
        flags = [(one.reviewer, flag) for one in self.session.reviews for flag in one.flags]
        return session_flags([*flags, *(("", flag) for flag in self.session.flags)])


# -- what viewers are sent ------------------------------------------------------------------------

HEARTBEAT_S = 10.0
END = "event: end\ndata: finished\n\n"
COMMENT = ": still here\n\n"
# Events that move the session to no other step.
SMALL = (Opened, Extended, Waiting, Gate, StoppedEarly, Audited)


class Message(NamedTuple):
    """What viewers are sent: its place in the log, or NOT_STORED, and the text of the stream."""

    seq: int
    text: str


def message(seq: int, parts: list[str]) -> Message:
    """Parts of a page as one message of a stream of server-sent events."""
    id_ = "" if seq == NOT_STORED else f"id: {seq}\n"
    lines = "\n".join(f"data: {line}" for line in "\n".join(parts).splitlines() or [""])
    return Message(seq, f"{id_}{lines}\n\n")


class Rendering:
    """Renders the parts that an event changes; what it takes does not grow with the log."""

    def __init__(self, settings: Settings) -> None:
        self.picture = SessionPicture(settings)
        self._macros = web_environment().get_template("session_parts.html").make_module({})
        self._pieces: dict[tuple[str, str], str] = {}

    def see(self, event: Event) -> Message | None:
        """The message for an event; pieces of text are kept back until `batch`."""
        fact = self.picture.see(event)
        if isinstance(fact, TextPiece):
            key = fact.seat, fact.stage
            self._pieces[key] = self._pieces.get(key, "") + fact.text
            return None
        parts = self._changed(fact)
        return message(event.seq, parts) if parts or event.seq != NOT_STORED else None

    def batch(self) -> Message | None:
        """The text that has come in since the last time, to be added to what is shown."""
        pieces, self._pieces = self._pieces, {}
        parts = [
            _partial(target, str(escape(visible(text, multiline=True))), "beforeend")
            for (seat, stage), text in pieces.items()
            if (target := self._text_id(seat, stage)) and (seat, stage) in self.picture.texts
        ]
        return message(NOT_STORED, parts) if parts else None

    def catch_up(self) -> Message | None:
        """What is only said and not stored, as it stands, for a viewer who has just come."""
        picture, parts = self.picture, list[str]()
        for name, stage, number in sorted(picture.pending):
            if stage != "conclude":
                parts += self._card(name) if stage == "answer" else self._row(name, number)
        if picture.chair and picture.session.verdict is None:
            parts.append(self._part("verdict"))
        return message(NOT_STORED, parts) if parts else None

    def _text_id(self, seat: str, stage: str) -> str | None:
        if stage == "conclude":
            return "verdict-text"
        member = self.picture.by_name.get(seat)
        return f"text-{member.index}" if member and stage == "answer" else None

    def _changed(self, fact: Fact | None) -> list[str]:
        """The parts of the page that are not any more what they were."""
        match fact:
            case Opened() | Extended():
                parts = [self._part("session", False)]
            case Waiting(stage="answer") | Asked(stage="answer"):
                parts = self._card(fact.seat)
            case Answered() | Failed(stage="answer"):
                parts = self._card(fact.seat)
            case Gate():
                parts = self._card(fact.model)
            case Waiting(stage="review"):
                parts = self._row(fact.seat, max(self.picture.rounds, default=0))
            case Asked(stage="review") | Failed(stage="review"):
                parts = self._row(fact.seat, fact.round)
            case AskedAgain(stage="review"):
                parts = self._row(fact.seat, fact.round)
            case Reviewed():
                parts = self._row(fact.reviewer, fact.round)
            case StoppedEarly():
                parts = [part for name in fact.not_heard for part in self._row(name, fact.round)]
            case Dealt():
                parts = [self._part("grid")]
            case Tallied():
                parts = [self._part("ranking")]
            case Audited():
                parts = [self._part("foot")]
            case Asked(stage="conclude") | AskedAgain() | Advised() | Failed():
                parts = [self._part("verdict")]
            case Verdict():
                parts = [self._part("verdict"), self._part("names-box", True)]
            case Finished():
                parts = [self._part("foot"), self._part("verdict"), self._part("names-box", True)]
                parts += [part for m in self.picture.answering for part in self._card(m.name)]
            case _:
                return []
        return parts if isinstance(fact, SMALL) else [*parts, *map(self._part, ("steps", "status"))]

    def _card(self, name: str) -> list[str]:
        member = self.picture.by_name.get(name)
        return [self._part(f"card-{member.index}", member)] if member else []

    def _row(self, reviewer: str, round: int) -> list[str]:
        member = self.picture.by_name.get(reviewer)
        if member is None:
            return []
        return [self._part(f"row-{round}-{member.index}", self.picture.row(member, round))]

    def _part(self, target: str, *args: object) -> str:
        """The part of the page with this id; the macro that makes it has the id's first word."""
        html = getattr(self._macros, target.partition("-")[0])(self.picture, *args)
        return _partial(target, str(html), "outerHTML")


def _partial(target: str, html: str, swap: str) -> str:
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'


@dataclass(eq=False)
class WatchedSession:
    """One session that somebody watches: what was rendered of it, and for how many viewers."""

    rendering: Rendering
    messages: list[Message] = field(default_factory=list)
    n_viewers: int = 0
    ended: bool = False
    signal: Signal = field(default_factory=Signal)

    async def follow(self, service: Service, id: str) -> None:
        """Render what happens, to the end of the session."""
        try:
            with suppress(PeerageError):  # its log says how it ended, as far as it did
                async with aclosing(service.watch(id)) as batches:
                    async for events in batches:
                        for event in events:
                            if event.seq != NOT_STORED:
                                self._add(self.rendering.batch())
                            self._add(self.rendering.see(event))
                        self._add(self.rendering.batch())
        finally:
            self.ended = True
            self.signal.wake()

    def _add(self, sent: Message | None) -> None:
        if sent is not None:
            self.messages.append(sent)
            self.signal.wake()


class LiveSessions:
    """The sessions that are being watched, each followed once, by a task."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._watched: dict[str, tuple[WatchedSession, asyncio.Task[None]]] = {}

    async def stream(self, id: str, after: int) -> AsyncIterator[str]:
        """What a viewer is to be sent who has seen the log up to a place, to the end."""
        yield ": parts of a session\n\n"
        async with aclosing(with_pauses(self._messages(id, after), HEARTBEAT_S)) as texts:
            async for text in texts:
                yield COMMENT if text is None else text

    async def _messages(self, id: str, after: int) -> AsyncIterator[str]:
        if id not in self._watched:
            watched = WatchedSession(Rendering(self.service.settings))
            self._watched[id] = watched, asyncio.create_task(watched.follow(self.service, id))
        watched, task = self._watched[id]
        watched.n_viewers += 1
        try:
            place, is_level = 0, False  # level: nothing that the viewer has seen is still ahead
            while True:
                while place < len(watched.messages):
                    sent = watched.messages[place]
                    place += 1
                    if sent.seq > after or (sent.seq == NOT_STORED and is_level):
                        yield sent.text
                if not is_level and watched.rendering.picture.last_seq >= after:
                    is_level = True
                    if (so_far := watched.rendering.catch_up()) is not None:
                        yield so_far.text
                elif watched.ended:
                    yield END
                    return
                else:
                    await watched.signal.changed()
        finally:
            watched.n_viewers -= 1
            if not watched.n_viewers:
                del self._watched[id]
                await end([task])
