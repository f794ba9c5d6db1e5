"""One session, from a question to a verdict: the only orchestrator.

`run` is an async iterator of events. The store, the terminal, a web page and other programs all
read this iterator; an interrupted session continues from its history. Every reply is durable before
it is used. A reply that never arrives is logged as a failure with a kind, and the session goes on
without it.

A seat has one outcome in each stage and round: its reply or its failure. It may have none while the
session can still continue. A reply is in the log from the moment it arrives, whatever ends the
session; a cancellation ends the wait for a reply, but not its storage.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from peerage.config.settings import CouncilSettings
from peerage.council.ballots import Decision, ReviewRead, read_review
from peerage.council.blinding import deal
from peerage.council.prompts import (
    FenceFilter,
    Page,
    ask_for_json,
    ballot_code,
    boundary,
    critiques_for,
    mask_codes,
    prompt,
    render_again,
    render_commitment,
    render_input,
    render_material,
    render_review,
    review_prompt,
    review_schema,
    strike_fences,
    votes_schema,
)
from peerage.council.readings import READER, SCALE, bounded_reading
from peerage.council.safety import Moderator, one_gate_each, screen
from peerage.errors import BudgetError
from peerage.events import (
    NOT_STORED,
    Advised,
    Answered,
    Asked,
    AskedAgain,
    Audited,
    Committed,
    DecisionReading,
    Extended,
    Fact,
    Failed,
    Finished,
    Noted,
    Opened,
    Reviewed,
    ReviewReading,
    RubricRecord,
    ScoringRecord,
    SeatRecord,
    StoppedEarly,
    Tallied,
    TextPiece,
    Waiting,
    billed_calls,
    call_made,
    deal_event,
    panel_of,
    since_extended,
    stored_event,
    total_cost,
)
from peerage.fingerprints import Fingerprint, endpoint_of, options_hash, short_hash
from peerage.messages import answer_text, query_for
from peerage.panel_probabilities import PanelRecord, decide, votes_by_seat
from peerage.providers import Call, OnText, OnWait, Reply, Stage, decides
from peerage.providers.pacing import OUT_OF_REACH
from peerage.providers.typed_answers import (
    TypedVotes,
    ballot_questions,
    read_marks,
    read_typed_answers,
    read_votes,
)
from peerage.scoring import check_options
from peerage.stores import Log
from peerage.structured import StructuredRead
from peerage.tasks import end, finish, in_turn, read_aside
from peerage.text import valid_values
from peerage.types import (
    Answer,
    Ballot,
    Event,
    Failure,
    Order,
    OwnVotes,
    Query,
    ReviewKind,
    Rubric,
    ScoringOptions,
    Seal,
    Seat,
    Session,
    Turn,
    TypedQuestion,
    Verdict,
    is_cut_off,
)
from peerage.verdicts import VerdictContext, conclude, is_settled
from peerage.view import SessionView

COUNCIL = CouncilSettings()  # the defaults
NOT_HEARD = OUT_OF_REACH | {"skipped"}  # kinds of failures to reach a seat
SHORT = ("commit", "review")  # stages whose replies are limited by max_tokens_review
NO_OWN = "it has no answer of its own to compare the others with"
GIVE_UP_AFTER = 2  # failures to reach a seat, after which it is not asked any more
MAX_FIRST_REPLY = 20_000  # characters of a reply that its author is shown again
LATER_PATIENCE = 0.25  # share of the timeout for a seat that has timed out before
F = TypeVar("F")
R = TypeVar("R", ReviewRead, Decision, StructuredRead, TypedVotes)


class ModelCaller(Protocol):
    """Calls models for a session: waits, retries and counts the money."""

    def can_constrain(self, seat: Seat) -> bool: ...

    def wants_brief(self, seat: Seat) -> bool: ...

    async def call(
        self, call: Call, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> Reply | Failure: ...


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How sessions are run and scored: the part that sessions of a season and category share."""

    seats: tuple[Seat, ...]
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    order: Order = COUNCIL.order
    verdict: str = COUNCIL.verdict
    chairs: tuple[Seat, ...] = ()
    quorum: int = 2
    rounds: int = COUNCIL.rounds
    early_stop: bool = COUNCIL.early_stop
    seal: Seal = COUNCIL.seal
    second_chance: bool = COUNCIL.second_chance
    structured_answers: bool = COUNCIL.structured_answers
    deadline_s: float | None = COUNCIL.deadline_s  # for each stage
    moderator: Moderator = screen
    panel_record: PanelRecord = field(default_factory=PanelRecord)  # for typed questions
    review: ReviewKind = COUNCIL.review

    def __post_init__(self) -> None:
        check_options(self.scoring)
        object.__setattr__(self, "seats", valid_values(self.seats))
        object.__setattr__(self, "chairs", valid_values(self.chairs))

    def with_role(self, role: str) -> tuple[Seat, ...]:
        return tuple(seat for seat in self.seats if role in seat.roles)


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """The identity of a session: its id, question, place in a season, and seed."""

    id: str
    query: Query
    seed: str
    ordinal: int
    season: str = ""
    answers: Mapping[str, Answer] | None = None  # judged instead of asked for
    after: str = ""  # the session that it follows up
    budget_usd: float | None = None  # of this session alone
    by: str = ""  # the id of the token that it was asked with
    labels: Mapping[str, str] | None = None  # metadata of the client
    design: str = ""  # the rule that stops its season, as JSON
    secret: str = field(default_factory=secrets.token_hex, repr=False)  # for its codes

    def __post_init__(self) -> None:
        for name in ("id", "query", "season", "answers", "labels"):
            object.__setattr__(self, name, valid_values(getattr(self, name)))


def opening(spec: SessionSpec, config: SessionConfig) -> Opened:
    """Return the first event of a session."""
    scoring = config.scoring
    rubric = scoring.rubric
    return Opened(
        query=spec.query,
        seed=spec.seed,
        ordinal=spec.ordinal,
        season=spec.season,
        seats=tuple(map(SeatRecord.of, config.seats)),
        options=ScoringRecord(
            rule=scoring.rule,
            own_votes=scoring.own_votes,
            rubric=rubric.name if rubric else None,
            safety_gate=scoring.safety_gate,
            order=config.order,
            verdict=config.verdict,
            review=config.review,
            soft_votes=scoring.soft_votes,
        ),
        rubric=RubricRecord.of(rubric) if rubric else None,
        after=spec.after,
        answers=None if spec.season else spec.answers,  # a season's answers are in its file
        budget_usd=spec.budget_usd,
        by=spec.by,
        labels=spec.labels,
        secret=spec.secret,
        design=spec.design,
    )


def newcomers(
    panel: Iterable[SeatRecord], spec: SessionSpec, config: SessionConfig
) -> tuple[SeatRecord, ...]:
    """Return the seats that a session's panel lacks, or has without a role that is needed."""
    roles_by_name = {record.name: set(record.roles) for record in panel}
    needed = {"answer", "review"} if spec.answers is None else {"review"}
    return tuple(
        SeatRecord.of(seat)
        for seat in config.seats
        if needed & set(seat.roles) - roles_by_name.get(seat.name, set())
    )


def fingerprint_of(
    seat: Seat, prompts: Sequence[str], reply: Reply, config: SessionConfig, *, has_schema: bool
) -> Fingerprint:
    """Return what a review depends on besides the question and the answers."""
    rubric = config.scoring.rubric
    has_chances = decides(seat) or reply.by_probability
    return Fingerprint(
        model=reply.model or seat.model or seat.name,
        endpoint=endpoint_of(seat.provider, seat.base_url),
        prompt=short_hash([*prompts, seat.system]),
        rubric="" if rubric is None else rubric_hash(rubric),
        labels=f"letters, {config.order} order",
        scale=SCALE,
        temperature=seat.temperature,
        effort=seat.reasoning_effort,
        output="probabilities" if has_chances else "schema" if has_schema else "text",
        options=options_hash(_provider_options(seat), seat.max_tokens_review),
        reader=READER,
        review="blind" if decides(seat) else config.review,  # a decision model writes no answer
    )


def _provider_options(seat: Seat) -> Mapping[str, Any]:
    """Return a seat's options for its provider, and its command."""
    return {**seat.options, "command": seat.command} if seat.command else seat.options


def rubric_hash(rubric: Rubric) -> str:
    """Return the hash of a rubric with its texts, ignoring its name."""
    weights = {name: str(weight) for name, weight in rubric.weights.items()}
    texts = [[one.name, one.question, one.anchors] for one in rubric.dimensions]
    return short_hash([weights, texts, rubric.ceilings])


OUTSIDER = 'a seat that only reviews (roles = ["review"])'


def may_vote(reviewer: str, candidates: Collection[str], own_votes: OwnVotes) -> bool:
    """Return whether a review can count.

    If an author's own answer is left out, at least two other answers must remain.
    """
    return reviewer not in candidates or own_votes != "out" or len(candidates) > 2


def vote_fault(config: SessionConfig, answers: Collection[str] | None = None) -> str:
    """Return why no review of this panel could count, or "" if one could or none is needed.

    Without a verdict nothing depends on the votes, and a binary verdict uses the panel's decisions.
    """
    authors = (seat.name for seat in config.with_role("answer"))
    candidates = set(authors if answers is None else answers)
    reviewers = [seat.name for seat in config.with_role("review")]
    own_votes, n = config.scoring.own_votes, len(candidates)
    if config.verdict in ("none", "binary") or not reviewers or not n:
        return ""
    if any(may_vote(name, candidates, own_votes) for name in reviewers):
        return ""
    of = "1 answer" if n == 1 else f"{n} answers"
    return f"no vote can count: without its own answer, a reviewer of {of} has nothing to compare."


def vote_note(config: SessionConfig, answers: Collection[str] | None = None) -> str:
    """Return a note if nothing will be ranked or one vote decides, else an empty text."""
    authors = (seat.name for seat in config.with_role("answer"))
    candidates = set(authors if answers is None else answers)
    reviewers = [seat.name for seat in config.with_role("review")]
    own_votes, n = config.scoring.own_votes, len(candidates)
    of = "answer" if n == 1 else "answers"
    voters = [name for name in reviewers if n > 1 and may_vote(name, candidates, own_votes)]
    if len(voters) > 1 or not n:
        return ""
    if len(voters) == 1:
        return (
            f"only the ballot of {voters[0]} will count, so it alone decides the ranking. "
            f"Add {OUTSIDER}."
        )
    if n < 2:
        return f"with {n} {of} there is nothing to compare, and no ranking. Add seats that answer."
    if not reviewers:
        return f"no seat reviews, so the {n} {of} will not be ranked. Add {OUTSIDER}."
    return f"the {n} {of} will not be ranked: no vote could count. Add {OUTSIDER}, or a third seat."


async def run(
    spec: SessionSpec,
    config: SessionConfig,
    caller: ModelCaller,
    log: Log,
    *,
    clock: Callable[[], float],
    history: Sequence[Event] = (),
    live: bool = False,
    extend: bool = False,
    view: SessionView | None = None,
) -> AsyncGenerator[Event, None]:
    """Run one session, or continue it from its history; yield its events as they happen.

    With `live`, texts are streamed too, as events that are not stored. With `extend`, seats that
    joined since are asked for what is missing, even if the session was finished. A view that has
    seen the history can be passed in: it is kept up to date, and may be ahead of the events.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    view = view or SessionView.of(history, scoring=config.scoring)
    runner = SessionRunner(spec, config, caller, log, clock, events.put_nowait, view, live, extend)
    work = asyncio.create_task(runner.run())
    work.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await work
    finally:
        await end([work])


@dataclass(slots=True)
class SessionRunner:
    """One running session: its events so far, and the next step."""

    spec: SessionSpec
    config: SessionConfig
    caller: ModelCaller
    log: Log
    clock: Callable[[], float]
    tell: Callable[[Event], object]
    view: SessionView
    live: bool
    extend: bool = False
    pending: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session, built from the events so far."""
        return self.view.session

    @property
    def facts(self) -> list[Fact]:
        """The typed events of the log so far."""
        return self.view.facts

    @property
    def secret(self) -> str:
        """The secret from which codes in prompts follow: the last in the log, or that of this run.

        Logs of early versions have none.
        """
        openings = (fact for fact in self.facts if isinstance(fact, Opened | Extended))
        return [self.spec.secret, *(fact.secret for fact in openings if fact.secret)][-1]

    # -- the order of steps --------------------------------------------------------------------

    async def run(self) -> None:
        """Take every step that is not in the log yet; return when all events are stored."""
        try:
            await self._steps()
        finally:
            await finish(asyncio.gather(*self.pending))

    async def _steps(self) -> None:
        extends = self.extend and self.facts
        joined = newcomers(panel_of(self.facts), self.spec, self.config) if extends else ()
        if self._has_happened(Finished) and not joined:
            return
        # Logged before any seat is asked, because another process may hold the session.
        if not self._facts_of(Opened):
            await self._keep(opening(self.spec, self.config))
        elif joined:
            await self._keep(Extended(joined, self.spec.secret))
        if self.spec.query.questions:
            await self._decide()
            return
        note = vote_note(self.config, self.spec.answers)
        if note and len(self.facts) == 1:
            self._say(Noted(note))
        await self._gather_answers()
        await self._screen()
        quorum = min(self.config.quorum, len(self.spec.answers or ()) or self.config.quorum)
        if not self.session.ballots and len(self.session.responses) < quorum:
            self._finish("no_quorum")
            return
        await self._gather_commitments()
        first = self._first_round()
        for round_ in range(first, first + self.config.rounds):
            await self._gather_reviews(round_)
        if not self._result_stands():
            await self._conclude()
        self._finish("done")

    def _seats(self, role: str) -> tuple[Seat, ...]:
        """Return the session's seats with a role, if they are still configured."""
        by_name = {seat.name: seat for seat in self.config.with_role(role)}
        panel = [record.name for record in panel_of(self.facts) if role in record.roles]
        return tuple(by_name[name] for name in panel if name in by_name)

    def _first_round(self) -> int:
        """Return the first round that shows every answer: a new one if a new seat answered."""
        session, n_rounds = self.session, self.config.rounds
        if not session.ballots:
            return 0
        first = max(ballot.round for ballot in session.ballots) // n_rounds * n_rounds
        on_ballots = {name for b in session.ballots if b.round >= first for name in b.authors}
        return first if {r.model for r in session.responses} <= on_ballots else first + n_rounds

    def _result_stands(self) -> bool:
        """Return whether the session was finished before its panel grew, with no review since."""
        ends = self._facts_of(Finished)
        return bool(ends) and ends[-1].status == "done" and not self._has_happened(Reviewed)

    async def _gather_answers(self) -> None:
        done = self._outcomes("answer", 0)
        for name, answer in (self.spec.answers or {}).items():
            if name not in done:
                messages = () if isinstance(answer, str) else answer
                text = answer_text(answer)
                await self._keep(Answered(name, text, given=True, messages=messages))
        if self.spec.answers is None:
            seats = [seat for seat in self._seats("answer") if seat.name not in done]
            await self._together({seat.name: self._answer(seat) for seat in seats}, "answer", 0)

    async def _answer(self, seat: Seat) -> None:
        page, schema = Page(query_for(seat, self.spec.query).text), None
        output = self.spec.query.output if self.config.structured_answers else None
        if output is not None:
            page, schema = ask_for_json(page, output.schema), json.loads(output.schema)
        reply = await self._ask(seat, "answer", page, schema)
        if isinstance(reply, Reply):
            words = reply.reasoning_words
            await self._keep(Answered(seat.name, reasoning_words=words, **_reply_fields(reply)))

    async def _screen(self) -> None:
        """Screen every answer that has no gate yet: unscreened answers are not judged."""
        if not self.config.scoring.safety_gate:
            return
        screened = {gate.model for gate in self.view.gates}
        responses = [r for r in self.view.responses if r.model not in screened]
        moderate = partial(self.config.moderator, responses)
        n_characters = sum(len(response.text) for response in responses)
        # The built-in gate is pure and may run in a thread; a plug-in is called in the event loop.
        gates = await read_aside(moderate, n_characters if self.config.moderator is screen else 0)
        if inspect.isawaitable(gates):
            gates = await gates
        for gate in one_gate_each(responses, gates):
            self._record(gate)

    async def _gather_commitments(self) -> None:
        """Ask reviewers without a complete answer of their own for a short one, if they need it."""
        if self.config.review != "committed":
            return
        done, own_votes = self._outcomes("commit", 0), self.config.scoring.own_votes
        authors = {response.model for response in self.session.responses}
        seats = [
            seat
            for seat in self._seats("review")
            if not decides(seat)
            and self.view.own_answer(seat.name) is None
            and seat.name not in done
            and may_vote(seat.name, authors, own_votes)
        ]
        await self._together({seat.name: self._commit(seat) for seat in seats}, "commit", 0)

    async def _commit(self, seat: Seat) -> None:
        reply = await self._ask(seat, "commit", render_commitment(query_for(seat, self.spec.query)))
        if isinstance(reply, Failure):
            return
        if is_cut_off(reply.finish_reason):
            limit = f"its own answer was cut off at max_tokens_review = {seat.max_tokens_review}"
            await self._keep(Failed(seat.name, "commit", "cut_off", limit, usage=reply.usage))
        else:
            await self._keep(Committed(seat.name, **_reply_fields(reply)))

    async def _gather_reviews(self, round_: int) -> None:
        ballots = self._deal(round_)
        session = self.session
        done = self._outcomes("review", round_)
        for stop in self._facts_of(StoppedEarly):
            done |= set(stop.not_heard) if stop.round == round_ else set()
        seats = {seat.name: seat for seat in self._seats("review")}
        waiting = {
            ballot.reviewer: self._review(seats[ballot.reviewer], ballot, session)
            for ballot in ballots
            if ballot.reviewer in seats and ballot.reviewer not in done
        }
        stop_when = self._is_settled if self.config.early_stop else None
        await self._together(waiting, "review", round_, stop_when)

    def _deal(self, round_: int) -> list[Ballot]:
        """Return the ballots of a round, and deal those that are missing.

        A reviewer whose vote could not count gets no ballot, to save its cost. A reviewer's place
        in the design depends on when it joined, so earlier reviewers keep theirs.
        """
        session = self.session
        ballots = [ballot for ballot in session.ballots if ballot.round == round_]
        due = {seat.name for seat in self._seats("review")} - {b.reviewer for b in ballots}
        if due:
            reviewers = [seat.name for seat in panel_of(self.facts) if "review" in seat.roles]
            order = self.config.order
            own_shown = self.config.review == "blind"
            every = deal(
                *(session.responses, reviewers, session.seed, session.ordinal),
                *(round_, order, own_shown),
            )
            authors = {response.model for response in session.responses}
            own_votes = self.config.scoring.own_votes
            new = [
                b for b in every if b.reviewer in due and may_vote(b.reviewer, authors, own_votes)
            ]
            if new:
                self._record(deal_event(new, round_))
            ballots += new
        return ballots

    async def _review(self, seat: Seat, ballot: Ballot, session: Session) -> None:
        rubric = self.config.scoring.rubric
        is_committed = self.config.review == "committed" and not decides(seat)
        own = self.view.own_answer(seat.name) if is_committed else None
        if is_committed and own is None:
            await self._keep(Failed(seat.name, "review", "no_own_answer", NO_OWN, ballot.round))
            return
        names = (self.secret, self.spec.id, seat.name, ballot.round)
        fence = boundary(*names)
        first = ballot.round - ballot.round % self.config.rounds
        earlier = [
            (b, r)
            for b in session.ballots
            for r in session.reviews
            if (b.reviewer, b.round) == (r.reviewer, r.round) and first <= b.round < ballot.round
        ]
        critiques = critiques_for(ballot, earlier, fence) if earlier else ()
        query = query_for(seat, self.spec.query)
        if decides(seat):
            page = render_material(query, ballot.slots, fence, critiques)
            keep = partial(self._review_event, seat, ballot, (prompt("material").hash,))
            marks = partial(read_marks, ballot=ballot, rubric=rubric)
            questions = ballot_questions(ballot, rubric)
            await self._hear(seat, "review", page, {}, marks, keep, ballot, questions)
            return
        brief = self.caller.wants_brief(seat)
        code = ballot_code(*names)
        page = render_review(ballot, query, rubric, fence, code, critiques, brief, own)
        schema = review_schema(ballot, rubric, page.code, is_committed=is_committed)
        read = partial(read_review, ballot=ballot, page=page, seal=self.config.seal)
        prompts = [review_prompt(rubric, brief).hash]
        prompts += [prompt("second_round").hash] if critiques else []
        prompts += [prompt("commitment").hash] if is_committed else []
        keep = partial(self._review_event, seat, ballot, tuple(prompts))
        await self._hear(seat, "review", page, schema, read, keep, ballot)

    def _review_event(
        self,
        seat: Seat,
        ballot: Ballot,
        prompts: tuple[str, ...],
        reply: Reply,
        read: ReviewRead,
        again: AskedAgain | None,
    ) -> Reviewed:
        """Return the event of a review; a reply is parsed once, when it arrives.

        If a second reply cannot be read, the reading of the first one is used.
        """
        review = self._limit_reading(read)
        if again is not None:
            first = again.review if read.fault and read.review.abstained else None
            review = replace(first or review, flags=(*(first or review).flags, "asked_again"))
        return Reviewed(
            ballot.reviewer,
            ballot.round,
            prompt=prompts[0],
            review=review,
            n_fences=reply.n_fences,
            made_by=fingerprint_of(
                seat,
                prompts,
                reply,
                self.config,
                has_schema=self.caller.can_constrain(seat),
            ),
            **_reply_fields(reply),
        )

    def _limit_reading(self, read: ReviewRead) -> ReviewReading:
        rubric = self.config.scoring.rubric
        return bounded_reading(read.review, rubric.weights if rubric else ())

    def _is_settled(self, round_: int) -> bool:
        """Return whether the missing reviews cannot change the winner."""
        if round_ % self.config.rounds < self.config.rounds - 1:
            return False
        reviewers = {ballot.reviewer for ballot in self.session.ballots if ballot.round == round_}
        unheard = reviewers - self._outcomes("review", round_)
        return is_settled(self.view.result, self.config.scoring, unheard)

    async def _conclude(self) -> None:
        """Score and audit the reviews and reach a verdict, unless that has happened."""
        config, reviewers = self.config, self._seats("review")
        scored = await in_turn(lambda: self.view.result)
        if not self._has_happened(Tallied):
            self._record(Tallied(scored.session.scores, scored.session.flags))
        if scored.audit is not None and not self._has_happened(Audited):
            self._record(Audited(scored.audit.findings, scored.audit.bias_audit))
        if self._has_happened(Verdict):
            return
        context = VerdictContext(
            scored,
            config.verdict,
            config.chairs,
            reviewers,
            self._advise,
            self._vote,
            secret=self.secret,
            seal=config.seal,
            wants_brief=self.caller.wants_brief,
        )
        verdict = await conclude(context)
        if verdict is not None:
            self._record(verdict)

    async def _decide(self) -> None:
        """Let every reviewing seat vote on the typed questions, and pool the votes."""
        done = self._outcomes("conclude", 0)
        seats = [seat for seat in self._seats("review") if seat.name not in done]
        work = {seat.name: self._cast_votes(seat) for seat in seats}
        await self._together(work, "conclude", 0)
        if not self._has_happened(Verdict):
            record = self.config.panel_record
            verdict = decide(self.spec.query.questions, votes_by_seat(self.facts), record)
            if verdict is None:
                self._finish("no_quorum")
                return
            self._record(verdict)
        self._finish("done")

    async def _cast_votes(self, seat: Seat) -> None:
        query, names = query_for(seat, self.spec.query), (self.secret, self.spec.id, seat.name, 0)
        questions = query.questions

        def votes_event(reply: Reply, reading: TypedVotes, _: AskedAgain | None) -> Advised:
            fields = _reply_fields(reply)
            return Advised(seat.name, votes=reading.answers, n_fences=reply.n_fences, **fields)

        if decides(seat):
            page = render_input(query, boundary(*names))
            read = partial(read_typed_answers, questions=questions)
            await self._hear(seat, "conclude", page, {}, read, votes_event, questions=questions)
            return
        code = ballot_code(*names)
        page = render_input(query, boundary(*names), questions, code)
        schema = votes_schema(questions, page.code)
        sealed = partial(read_votes, page=page, questions=questions, seal=self.config.seal)
        await self._hear(seat, "conclude", page, schema, sealed, votes_event)

    def _finish(self, status: str) -> None:
        self._record(Finished(status, *total_cost(billed_calls(self.facts))))

    # -- calls ---------------------------------------------------------------------------------

    async def _ask(
        self,
        seat: Seat,
        stage: Stage,
        page: Page,
        schema: Mapping[str, Any] | None = None,
        ballot: Ballot | None = None,
        follow_up: tuple[Turn, ...] = (),
        questions: tuple[TypedQuestion, ...] = (),
    ) -> Reply | Failure:
        """Call a seat and return its reply; log and return a failure.

        Fence lines that the reply copied from its prompt are removed.
        """
        spec = self.spec
        round_ = ballot.round if ballot else 0
        failed = [f for f in self._facts_of(Failed) if f.seat == seat.name and f.kind in NOT_HEARD]
        given_up = _reason_to_skip(failed)
        if given_up is not None:
            await self._keep(Failed(seat.name, stage, "skipped", given_up, round_))
            return Failure(seat.name, "skipped", given_up, stage)
        patience = LATER_PATIENCE if any(f.kind == "timeout" for f in failed) else 1.0
        call = Call(
            seat=seat,
            stage=stage,
            prompt=page.text,
            code=page.code,
            key=f"{spec.seed}|{spec.id}|{stage}|{seat.name}|{round_}" + "|again" * bool(follow_up),
            query=spec.query,
            schema=schema if self.caller.can_constrain(seat) else None,
            strict=bool(page.code) or (spec.query.output is not None and spec.query.output.strict),
            ballot=ballot,
            max_tokens=seat.max_tokens_review if stage in SHORT else seat.max_tokens,
            deadline_s=seat.timeout_s * patience,
            may_retry=not failed,
            follow_up=follow_up,
            questions=questions,
        )
        made = self._call_live(call, page.fence) if self.live else self.caller.call(call)
        reply = valid_values(await made)
        if isinstance(reply, Reply):
            return _without_fences(reply, page.fence, is_read=schema is not None)
        if reply.kind == "budget":
            raise BudgetError(reply.message)
        await self._keep(Failed(seat.name, stage, reply.kind, reply.message, round_, reply.usage))
        return reply

    async def _hear(
        self,
        seat: Seat,
        stage: Stage,
        page: Page,
        schema: Mapping[str, Any],
        read: Callable[..., R],
        outcome: Callable[[Reply, R, AskedAgain | None], Fact],
        ballot: Ballot | None = None,
        questions: tuple[TypedQuestion, ...] = (),
    ) -> R | Failure:
        """Return how a seat's reply was read, and log its outcome; ask again if needed."""
        round_ = ballot.round if ballot else 0
        again = self._asked_again(seat.name, stage, round_)

        async def keep(reply: Reply) -> R | AskedAgain:
            is_cut = is_cut_off(reply.finish_reason)
            reading = await read_aside(partial(read, reply.text, is_cut=is_cut), len(reply.text))
            if again is not None or not (reading.fault and self.config.second_chance):
                await self._keep(outcome(reply, reading, again))
                return reading
            usable = self._limit_reading(reading) if isinstance(reading, ReviewRead) else None
            detail = reading.detail if isinstance(reading, StructuredRead) else ""
            fields = {**_reply_fields(reply), "review": usable, "detail": detail}
            fact = AskedAgain(seat.name, stage, round_, reading.fault, **fields)
            await self._keep(fact)
            return fact

        while True:
            turns = () if again is None else _follow_up(page, again)
            reply = await self._ask(seat, stage, page, schema, ballot, turns, questions)
            if isinstance(reply, Failure):
                return reply
            result = await finish(keep(reply))
            if not isinstance(result, AskedAgain):
                return result
            again = result

    def _asked_again(self, seat: str, stage: Stage, round_: int) -> AskedAgain | None:
        """Return the logged first reply of a seat that is to be asked again, or None."""
        for fact in since_extended(self.facts):
            match fact:
                case AskedAgain() if (fact.seat, fact.stage, fact.round) == (seat, stage, round_):
                    return fact
        return None

    async def _call_live(self, call: Call, fence: str) -> Reply | Failure:
        """Call a model and report its text and its waits while it runs."""
        seat, stage = call.seat.name, call.stage
        round_ = call.ballot.round if call.ballot else 0
        self._say(Asked(seat, stage, round_, again=bool(call.follow_up)))
        struck = FenceFilter(fence) if fence else None

        def say_piece(piece: str) -> None:
            if sure := struck.add(piece) if struck else piece:
                self._say(TextPiece(seat, stage, sure))

        return await self.caller.call(
            call,
            say_piece,
            lambda why, wait_s, attempt: self._say(Waiting(seat, stage, why, wait_s, attempt)),
        )

    async def _advise(self, seat: Seat, page: Page) -> Reply | Failure:
        """Return a chair's text for the verdict, from the log if it is there."""
        known = self._find_advice(seat)
        if isinstance(known, Advised):
            reason, n_fences = known.finish_reason, known.n_fences
            return Reply(known.text, finish_reason=reason, n_fences=n_fences)
        reply = known or await self._ask(seat, "conclude", page)
        if isinstance(reply, Reply):
            fields = _reply_fields(reply)
            await self._keep(Advised(seat.name, n_fences=reply.n_fences, **fields))
        return reply

    async def _vote(
        self,
        seat: Seat,
        page: Page,
        schema: Mapping[str, Any],
        read: Callable[..., R],
        questions: tuple[TypedQuestion, ...] = (),
    ) -> R | Failure:
        """Return a seat's vote for the verdict, from the log if it is there."""
        known = self._find_advice(seat)
        if isinstance(known, Advised):
            return read(known.text, is_cut=is_cut_off(known.finish_reason))
        if known is not None:
            return known

        def advice_event(reply: Reply, reading: R, _: AskedAgain | None) -> Advised:
            decision = None
            if isinstance(reading, Decision):
                decision = DecisionReading(
                    reading.approved, reading.reasons, reading.flag, reading.probability
                )
            fields = _reply_fields(reply)
            return Advised(seat.name, decision=decision, n_fences=reply.n_fences, **fields)

        return await self._hear(
            seat, "conclude", page, schema, read, advice_event, questions=questions
        )

    def _find_advice(self, seat: Seat) -> Advised | Failure | None:
        """Return a seat's reply or failure for the verdict, if it is in the log."""
        for fact in since_extended(self.facts):
            if isinstance(fact, Advised) and fact.seat == seat.name:
                return fact
            if isinstance(fact, Failed) and (fact.seat, fact.stage) == (seat.name, "conclude"):
                return Failure(seat.name, fact.kind, fact.message)
        return None

    async def _together(
        self,
        work: Mapping[str, Coroutine[Any, Any, None]],
        stage: Stage,
        round_: int,
        stop: Callable[[int], bool] | None = None,
    ) -> None:
        """Run all work at once until it is done, settled or out of time; leave no task behind.

        An error is raised at once. If the budget is exhausted, calls in flight are awaited first,
        because they are paid for.
        """
        tasks = [asyncio.create_task(job) for job in work.values()]
        is_late = is_settled = False
        try:
            async with asyncio.timeout(self.config.deadline_s) as limit:
                for n_done, ended in enumerate(asyncio.as_completed(tasks), 1):
                    with suppress(BudgetError):
                        await ended
                    if n_done < len(tasks) and stop is not None and stop(round_):
                        is_settled = True
                        break
        except TimeoutError:
            if not limit.expired():
                raise
            is_late = True
        finally:
            await end(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        # Read last, when no task is left that could add an outcome.
        missing = sorted(work.keys() - self._outcomes(stage, round_))
        if is_late:
            message = f"no {stage} within the stage's time limit of {self.config.deadline_s:g} s"
            for name in missing:
                self._record(Failed(name, stage, "timeout", message, round_))
        elif is_settled and missing:
            self._record(StoppedEarly(round_, tuple(missing)))

    # -- the log -------------------------------------------------------------------------------

    def _record(self, fact: Fact) -> asyncio.Future[None]:
        """Append a fact; the future completes when it is durable, and must not be cancelled."""
        event = stored_event(self.spec.id, self.view.last_seq + 1, self.clock(), fact)
        self.view.see(event)
        durable = self.log.append(event)
        durable.add_done_callback(lambda done: done.exception() or self.tell(event))
        self.pending.append(durable)
        return durable

    async def _keep(self, fact: Fact) -> None:
        """Append a fact and wait until it is durable; a cancellation only ends the wait."""
        await asyncio.shield(self._record(fact))

    def _say(self, fact: Fact) -> None:
        event = stored_event(self.spec.id, NOT_STORED, self.clock(), fact)
        self.view.see(event)
        self.tell(event)

    def _facts_of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def _has_happened(self, kind: type[Fact]) -> bool:
        """Return whether such an event has happened since seats were last added."""
        return any(isinstance(fact, kind) for fact in since_extended(self.facts))

    def _outcomes(self, stage: Stage, round_: int) -> set[str]:
        """Return the seats that have replied or failed in a stage and round."""
        calls = (call_made(fact) for fact in self.facts)
        return {
            call.seat
            for call in calls
            if call and call.is_outcome and (call.stage, call.round) == (stage, round_)
        }


def _without_fences(reply: Reply, fence: str, *, is_read: bool) -> Reply:
    """Return a reply without its prompt's fence codes; prose also loses the fence lines.

    In a reply that is read for a vote, the lines still mark quotations.
    """
    if not fence:
        return reply
    text, n = (mask_codes if is_read else strike_fences)(reply.text, fence)
    reasoning, n_thought = strike_fences(reply.reasoning, fence)
    if not n and not n_thought:
        return reply
    text = text if is_read else text.strip()
    return replace(reply, text=text, reasoning=reasoning, n_fences=n + n_thought)


def _reply_fields(reply: Reply) -> dict[str, Any]:
    """Return the fields that the events of all replies share."""
    names = ("text", "usage", "latency_ms", "finish_reason", "reasoning")
    return {name: getattr(reply, name) for name in names}


def _follow_up(page: Page, again: AskedAgain) -> tuple[Turn, ...]:
    """Return the seat's own reply and its fault as turns; a long reply is shortened."""
    text = again.text
    if len(text) > MAX_FIRST_REPLY:
        text = f"{text[: MAX_FIRST_REPLY // 2]} … {text[-MAX_FIRST_REPLY // 2 :]}"
    return Turn("assistant", text), Turn("user", render_again(page, again.why, again.detail))


def _reason_to_skip(failed: Sequence[Failed]) -> str | None:
    """Return why a seat is not asked any more ("" if that is logged), or None if it is asked."""
    kinds = {failure.kind for failure in failed}
    if "skipped" in kinds:
        return ""
    if len(failed) >= GIVE_UP_AFTER or "unauthorized" in kinds:
        return f"not asked any more in this session: {failed[-1].message}"
    return None
