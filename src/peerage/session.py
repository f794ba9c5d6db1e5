"""One session, from a question to a verdict: the only orchestrator.

`run` is an async iterator of events. The store, the terminal, a web page and other programs all
read this iterator; an interrupted session continues from its history. A reply that never arrives is
logged as a failure with a kind, and the session goes on without it. This module has the order of
steps; `session_calls.py` has their calls, and the log of their outcomes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from peerage.bills import billed_calls, total_cost
from peerage.council.ballots import ReviewRead, read_review
from peerage.council.blinding import deal
from peerage.council.fences import ballot_code, boundary
from peerage.council.prompts import (
    Page,
    ask_for_json,
    critiques_for,
    prompt,
    render_commitment,
    render_input,
    render_material,
    render_review,
    review_prompt,
)
from peerage.council.readings import READER, SCALE
from peerage.council.safety import one_gate_each, screen
from peerage.event_facts import panel_of
from peerage.events import (
    Advised,
    Answered,
    AskedAgain,
    Audited,
    Committed,
    Extended,
    Fact,
    Failed,
    Finished,
    Noted,
    Opened,
    Reviewed,
    StoppedEarly,
    Tallied,
    deal_event,
)
from peerage.fingerprints import Fingerprint, endpoint_of, options_hash, rubric_hash, short_hash
from peerage.messages import answer_text, query_for
from peerage.panel_probabilities import panel_verdict, votes_by_seat
from peerage.providers import Reply, decides
from peerage.providers.typed_answers import (
    TypedVotes,
    ballot_questions,
    read_marks,
    read_typed_answers,
    read_votes,
)
from peerage.session_calls import ModelCaller, SessionLog, StageCalls, reply_fields
from peerage.session_config import (
    SessionConfig,
    SessionSpec,
    may_vote,
    newcomers,
    opening,
    vote_note,
)
from peerage.stores import Log
from peerage.tasks import end, finish, in_turn, read_aside
from peerage.types import Ballot, Event, Failure, Seat, Session, Verdict, is_cut_off
from peerage.verdicts import VerdictContext, conclude, is_settled
from peerage.view import SessionView

NO_OWN = "it has no answer of its own to compare the others with"


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
    own_log = SessionLog(spec.id, log, clock, events.put_nowait, view)
    calls = StageCalls(spec, config, caller, own_log, live)
    work = asyncio.create_task(SessionRunner(spec, config, own_log, calls, extend).run())
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
    log: SessionLog
    calls: StageCalls
    extend: bool = False

    @property
    def session(self) -> Session:
        """The session, built from the events so far."""
        return self.log.view.session

    @property
    def facts(self) -> list[Fact]:
        """The typed events of the log so far."""
        return self.log.facts

    @property
    def secret(self) -> str:
        """The secret from which codes in prompts follow: the last in the log, or that of this run.

        Logs of early versions have none.
        """
        openings = (fact for fact in self.facts if isinstance(fact, Opened | Extended))
        return [self.spec.secret, *(fact.secret for fact in openings if fact.secret)][-1]

    async def run(self) -> None:
        """Take every step that is not in the log yet; return when all events are stored."""
        try:
            await self._steps()
        finally:
            await finish(asyncio.gather(*self.log.pending))

    async def _steps(self) -> None:
        extends = self.extend and self.facts
        joined = newcomers(panel_of(self.facts), self.spec, self.config) if extends else ()
        if self.log.has_happened(Finished) and not joined:
            return
        # Logged before any seat is asked, because another process may hold the session.
        if not self.log.facts_of(Opened):
            await self.log.keep(opening(self.spec, self.config))
        elif joined:
            await self.log.keep(Extended(joined, self.spec.secret))
        if self.spec.query.questions:
            await self._decide()
            return
        note = vote_note(self.config, self.spec.answers)
        if note and len(self.facts) == 1:
            self.log.say(Noted(note))
        await self._gather_answers()
        await self._screen()
        quorum = min(self.config.quorum, len(self.spec.answers or ()) or self.config.quorum)
        if not self.session.ballots and len(self.session.responses) < quorum:
            self._finish("no_quorum")
            return
        await self._gather_commitments()
        first = self._first_round()
        for round_ in range(first, first + self.config.council.rounds):
            await self._gather_reviews(round_)
        if not self._result_stands():
            await self._conclude()
        self._finish("done")

    def _seats(self, role: str) -> tuple[Seat, ...]:
        """Return the session's seats with a role, if they are still configured."""
        by_name = {seat.name: seat for seat in self.config.seats_that(role)}
        panel = [record.name for record in panel_of(self.facts) if role in record.roles]
        return tuple(by_name[name] for name in panel if name in by_name)

    def _first_round(self) -> int:
        """Return the first round that shows every answer: a new one if a new seat answered."""
        session, n_rounds = self.session, self.config.council.rounds
        if not session.ballots:
            return 0
        first = max(ballot.round for ballot in session.ballots) // n_rounds * n_rounds
        on_ballots = {name for b in session.ballots if b.round >= first for name in b.authors}
        return first if {r.model for r in session.responses} <= on_ballots else first + n_rounds

    def _result_stands(self) -> bool:
        """Return whether the session was finished before its panel grew, with no review since."""
        ends = self.log.facts_of(Finished)
        return bool(ends) and ends[-1].status == "done" and not self.log.has_happened(Reviewed)

    async def _gather_answers(self) -> None:
        done = self.log.outcomes("answer", 0)
        for name, answer in (self.spec.answers or {}).items():
            if name not in done:
                messages = () if isinstance(answer, str) else answer
                text = answer_text(answer)
                await self.log.keep(Answered(name, text, given=True, messages=messages))
        if self.spec.answers is None:
            seats = [seat for seat in self._seats("answer") if seat.name not in done]
            await self.calls.run_together(
                {seat.name: self._answer(seat) for seat in seats}, "answer", 0
            )

    async def _answer(self, seat: Seat) -> None:
        page, schema = Page(query_for(seat, self.spec.query).text), None
        output = self.spec.query.output if self.config.council.structured_answers else None
        if output is not None:
            page, schema = ask_for_json(page, output.schema), json.loads(output.schema)
        reply = await self.calls.ask(seat, "answer", page, schema)
        if isinstance(reply, Reply):
            words = reply.reasoning_words
            await self.log.keep(Answered(seat.name, reasoning_words=words, **reply_fields(reply)))

    async def _screen(self) -> None:
        """Screen every answer that has no gate yet: unscreened answers are not judged."""
        if not self.config.scoring.safety_gate:
            return
        screened = {gate.model for gate in self.log.view.gates}
        responses = [r for r in self.log.view.responses if r.model not in screened]
        moderate = partial(self.config.moderator, responses)
        n_characters = sum(len(response.text) for response in responses)
        # The built-in gate is pure and may run in a thread; a plug-in is called in the event loop.
        gates = await read_aside(moderate, n_characters if self.config.moderator is screen else 0)
        if inspect.isawaitable(gates):
            gates = await gates
        for gate in one_gate_each(responses, gates):
            self.log.record(gate)

    async def _gather_commitments(self) -> None:
        """Ask reviewers without a complete answer of their own for a short one, if they need it."""
        if self.config.council.review != "committed":
            return
        done, own_votes = self.log.outcomes("commit", 0), self.config.scoring.own_votes
        authors = {response.model for response in self.session.responses}
        seats = [
            seat
            for seat in self._seats("review")
            if not decides(seat)
            and self.log.view.own_answer(seat.name) is None
            and seat.name not in done
            and may_vote(seat.name, authors, own_votes)
        ]
        await self.calls.run_together(
            {seat.name: self._commit(seat) for seat in seats}, "commit", 0
        )

    async def _commit(self, seat: Seat) -> None:
        reply = await self.calls.ask(
            seat, "commit", render_commitment(query_for(seat, self.spec.query))
        )
        if isinstance(reply, Failure):
            return
        if is_cut_off(reply.finish_reason):
            limit = f"its own answer was cut off at max_tokens_review = {seat.max_tokens_review}"
            await self.log.keep(Failed(seat.name, "commit", "cut_off", limit, usage=reply.usage))
        else:
            await self.log.keep(Committed(seat.name, **reply_fields(reply)))

    async def _gather_reviews(self, round_: int) -> None:
        ballots = self._deal(round_)
        session = self.session
        done = self.log.outcomes("review", round_)
        for stop in self.log.facts_of(StoppedEarly):
            done |= set(stop.not_heard) if stop.round == round_ else set()
        seats = {seat.name: seat for seat in self._seats("review")}
        waiting = {
            ballot.reviewer: self._review(seats[ballot.reviewer], ballot, session)
            for ballot in ballots
            if ballot.reviewer in seats and ballot.reviewer not in done
        }
        stop_when = self._is_settled if self.config.council.early_stop else None
        await self.calls.run_together(waiting, "review", round_, stop_when)

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
            order = self.config.council.order
            own_shown = self.config.council.review == "blind"
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
                self.log.record(deal_event(new, round_))
            ballots += new
        return ballots

    async def _review(self, seat: Seat, ballot: Ballot, session: Session) -> None:
        rubric = self.config.scoring.rubric
        is_committed = self.config.council.review == "committed" and not decides(seat)
        own = self.log.view.own_answer(seat.name) if is_committed else None
        if is_committed and own is None:
            await self.log.keep(Failed(seat.name, "review", "no_own_answer", NO_OWN, ballot.round))
            return
        names = (self.secret, self.spec.id, seat.name, ballot.round)
        fence = boundary(*names)
        first = ballot.round - ballot.round % self.config.council.rounds
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
            await self.calls.ask_until_read(
                seat, "review", page, {}, marks, keep, ballot, questions
            )
            return
        brief = self.calls.caller.wants_brief(seat)
        code = ballot_code(*names)
        page = render_review(ballot, query, rubric, fence, code, critiques, brief, own)
        read = partial(read_review, ballot=ballot, page=page, seal=self.config.council.seal)
        prompts = [review_prompt(rubric, brief).hash]
        prompts += [prompt("second_round").hash] if critiques else []
        prompts += [prompt("commitment").hash] if is_committed else []
        keep = partial(self._review_event, seat, ballot, tuple(prompts))
        await self.calls.ask_until_read(seat, "review", page, page.schema, read, keep, ballot)

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
        review = self.calls.limit_reading(read)
        if again is not None:
            first = again.review if read.fault and read.review.abstained else None
            review = replace(first or review, flags=(*(first or review).flags, "asked_again"))
        return Reviewed(
            ballot.reviewer,
            ballot.round,
            prompt=prompts[0],
            review=review,
            n_fences=reply.n_fences,
            made_by=judge_fingerprint(
                seat,
                prompts,
                reply,
                self.config,
                has_schema=self.calls.caller.can_constrain(seat),
            ),
            **reply_fields(reply),
        )

    def _is_settled(self, round_: int) -> bool:
        """Return whether the missing reviews cannot change the winner."""
        if round_ % self.config.council.rounds < self.config.council.rounds - 1:
            return False
        reviewers = {ballot.reviewer for ballot in self.session.ballots if ballot.round == round_}
        unheard = reviewers - self.log.outcomes("review", round_)
        return is_settled(self.log.view.result, self.config.scoring, unheard)

    async def _conclude(self) -> None:
        """Score and audit the reviews and reach a verdict, unless that has happened."""
        config, reviewers = self.config, self._seats("review")
        scored = await in_turn(lambda: self.log.view.result)
        if not self.log.has_happened(Tallied):
            self.log.record(Tallied(scored.session.scores, scored.session.flags))
        if scored.audit is not None and not self.log.has_happened(Audited):
            self.log.record(Audited(scored.audit.findings, scored.audit.bias_audit))
        if self.log.has_happened(Verdict):
            return
        context = VerdictContext(
            scored,
            config.council.verdict,
            config.chairs,
            reviewers,
            self.calls.advise,
            self.calls.vote,
            secret=self.secret,
            seal=config.council.seal,
            wants_brief=self.calls.caller.wants_brief,
        )
        verdict = await conclude(context)
        if verdict is not None:
            self.log.record(verdict)

    async def _decide(self) -> None:
        """Let every reviewing seat vote on the typed questions, and pool the votes."""
        done = self.log.outcomes("conclude", 0)
        seats = [seat for seat in self._seats("review") if seat.name not in done]
        work = {seat.name: self._cast_votes(seat) for seat in seats}
        await self.calls.run_together(work, "conclude", 0)
        if not self.log.has_happened(Verdict):
            record = self.config.panel_record
            verdict = panel_verdict(self.spec.query.questions, votes_by_seat(self.facts), record)
            if verdict is None:
                self._finish("no_quorum")
                return
            self.log.record(verdict)
        self._finish("done")

    async def _cast_votes(self, seat: Seat) -> None:
        query, names = query_for(seat, self.spec.query), (self.secret, self.spec.id, seat.name, 0)
        questions = query.questions

        def votes_event(reply: Reply, reading: TypedVotes, _: AskedAgain | None) -> Advised:
            fields = reply_fields(reply)
            return Advised(seat.name, votes=reading.answers, n_fences=reply.n_fences, **fields)

        if decides(seat):
            page = render_input(query, boundary(*names))
            read = partial(read_typed_answers, questions=questions)
            await self.calls.ask_until_read(
                seat, "conclude", page, {}, read, votes_event, questions=questions
            )
            return
        code = ballot_code(*names)
        page = render_input(query, boundary(*names), questions, code)
        sealed = partial(read_votes, page=page, questions=questions, seal=self.config.council.seal)
        await self.calls.ask_until_read(seat, "conclude", page, page.schema, sealed, votes_event)

    def _finish(self, status: str) -> None:
        self.log.record(Finished(status, *total_cost(billed_calls(self.facts))))


def judge_fingerprint(
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
        labels=f"letters, {config.council.order} order",
        scale=SCALE,
        temperature=seat.temperature,
        effort=seat.reasoning_effort,
        output="probabilities" if has_chances else "schema" if has_schema else "text",
        options=options_hash(_provider_options(seat), seat.max_tokens_review),
        reader=READER,
        review="blind" if decides(seat) else config.council.review,  # it writes no answer
    )


def _provider_options(seat: Seat) -> Mapping[str, Any]:
    """Return a seat's options for its provider, and its command."""
    return {**seat.options, "command": seat.command} if seat.command else seat.options
