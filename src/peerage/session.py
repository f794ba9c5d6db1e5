"""One session, from a question to a verdict: the only orchestrator there is.

`run` is an async iterator of events. The store, the terminal, a web page and another
program all read that one iterator; a session that was cut off goes on from its history.
Every reply is durable before it is used, and a reply that never comes is a failure with
a kind, which costs the session that one reply and nothing else.

A seat has one outcome in each stage and round: its reply, its failure, or, while the
session can still go on, none. A reply is in the log from the moment it comes in, whatever
ends the session; what is cancelled is the wait for a reply, never the keeping of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Literal

from peerage.agenda import Agenda, Caller, Docket, opening
from peerage.council import fold as folding
from peerage.council.ballots import parse
from peerage.council.blinding import deal
from peerage.council.prompts import (
    boundary,
    critiques_for,
    prompt,
    render_review,
    review_schema,
)
from peerage.council.safety import one_gate_each, screen
from peerage.errors import BudgetError
from peerage.events import (
    KIND_BY_TYPE,
    Advised,
    Answered,
    Audited,
    Fact,
    Failed,
    Finished,
    Reviewed,
    StoppedEarly,
    Tallied,
    body_of,
)
from peerage.providers import Call, Reply, Stage
from peerage.scoring import Scored, score_session
from peerage.stores import Log
from peerage.tasks import end, finish, read_aside
from peerage.text import valid_text
from peerage.types import (
    Ballot,
    Event,
    Failure,
    Seat,
    Session,
)
from peerage.verdicts import Chamber, conclude, settled


async def run(
    docket: Docket,
    agenda: Agenda,
    caller: Caller,
    log: Log,
    *,
    clock: Callable[[], float],
    history: Sequence[Event] = (),
    live: bool = False,
) -> AsyncGenerator[Event, None]:
    """Hold one session, or go on with it from its history, and tell what happens as it does.

    With `live`, the texts are streamed too, as events that are not kept.
    """
    told: asyncio.Queue[Event | None] = asyncio.Queue()
    sitting = _Sitting(docket, agenda, caller, log, clock, told.put_nowait, list(history), live)
    work = asyncio.create_task(sitting.hold())
    work.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (event := await told.get()) is not None:
            yield event
        await work
    finally:
        await end([work])


class _Sitting:
    """The state of one running session: its events so far, and where to send the next."""

    def __init__(
        self,
        docket: Docket,
        agenda: Agenda,
        caller: Caller,
        log: Log,
        clock: Callable[[], float],
        tell: Callable[[Event], None],
        history: list[Event],
        live: bool,
    ) -> None:
        self.docket = docket
        self.agenda = agenda
        self.caller = caller
        self.log = log
        self.clock = clock
        self.tell = tell
        self.events = history
        self.state = reduce(folding.advance, history, folding.EMPTY)
        self.live = live
        self.pending: list[asyncio.Future[None]] = []

    @property
    def session(self) -> Session:
        """The session as its events tell it so far."""
        return folding.with_candidates(self.state)

    # -- the order of steps --------------------------------------------------------------------

    async def hold(self) -> None:
        """Take every step that was not taken yet; whatever happens, the log is written out."""
        try:
            await self._steps()
        finally:
            await finish(asyncio.gather(*self.pending))

    async def _steps(self) -> None:
        if self._happened(folding.FINISHED):
            return
        await self._open()
        await self._gather_answers()
        await self._screen()
        if len(self.session.responses) < self.agenda.quorum:
            self._finish("no_quorum")
            return
        for round_ in range(self.agenda.rounds):
            await self._gather_reviews(round_)
        scored = self._tally()
        if not self._happened(folding.CONCLUDED):
            chamber = Chamber(
                scored,
                self.agenda.verdict,
                self.agenda.chairs,
                self.agenda.with_role("review"),
                self._advise,
            )
            verdict = await conclude(chamber)
            if verdict is not None:
                self._record(verdict)
        self._finish("done")

    async def _open(self) -> None:
        """Put the session in the log before anybody is asked: it may be another process's."""
        if not self._happened(folding.OPENED):
            await self._keep(opening(self.docket, self.agenda))

    async def _gather_answers(self) -> None:
        if self._happened(folding.DEALT):
            return
        if self.docket.answers is not None:
            answered = self._seats_of(folding.ANSWERED)
            for name, text in self.docket.answers.items():
                if name not in answered:
                    await self._keep(Answered(name, text, given=True))
            return
        done = self._outcomes("answer", 0)
        seats = [seat for seat in self.agenda.with_role("answer") if seat.name not in done]
        await self._together({seat.name: self._answer(seat) for seat in seats}, "answer", 0)

    async def _answer(self, seat: Seat) -> None:
        reply = await self.ask(seat, "answer", self.docket.query.text)
        if isinstance(reply, Reply):
            await self._keep(
                Answered(
                    seat.name,
                    reply.text,
                    reply.latency_ms,
                    reply.reasoning_words,
                    usage=reply.usage,
                )
            )

    async def _screen(self) -> None:
        """Give every answer that has none its gate: nothing is judged that was not screened."""
        if not self.agenda.law.safety_gate:
            return
        screened = {gate.model for gate in self.state.gates}
        responses = [r for r in self.state.responses if r.model not in screened]
        moderate = partial(self.agenda.moderator, responses)
        n_characters = sum(len(response.text) for response in responses)
        # Our own gate is pure and may run beside the loop; another's is called on it.
        gates = await read_aside(moderate, n_characters if self.agenda.moderator is screen else 0)
        if isinstance(gates, Awaitable):
            gates = await gates
        for gate in one_gate_each(responses, gates):
            self._record(gate)

    async def _gather_reviews(self, round_: int) -> None:
        ballots = self._deal(round_)
        session = self.session
        done = self._outcomes("review", round_)
        if self._happened(folding.STOPPED_EARLY, round=round_):
            return
        seats = {seat.name: seat for seat in self.agenda.seats}
        waiting = {
            ballot.reviewer: self._review(seats[ballot.reviewer], ballot, session)
            for ballot in ballots
            if ballot.reviewer not in done
        }
        stop = self._is_settled if self.agenda.early_stop else None
        await self._together(waiting, "review", round_, stop)

    def _deal(self, round_: int) -> tuple[Ballot, ...]:
        session = self.session
        if not self._happened(folding.DEALT, round=round_):
            reviewers = [seat.name for seat in self.agenda.with_role("review")]
            ballots = deal(
                session.responses,
                reviewers,
                self.docket.seed,
                self.docket.ordinal,
                round_,
                self.agenda.order,
            )
            self._record(folding.dealt(ballots, round_))
            return ballots
        return tuple(ballot for ballot in session.ballots if ballot.round == round_)

    async def _review(self, seat: Seat, ballot: Ballot, session: Session) -> None:
        rubric = self.agenda.law.rubric
        fence = boundary(self.docket.seed, self.docket.id, seat.name, ballot.round)
        earlier = [
            (b, r)
            for b in session.ballots
            for r in session.reviews
            if (b.reviewer, b.round) == (r.reviewer, r.round) and b.round < ballot.round
        ]
        critiques = critiques_for(ballot, earlier, fence) if earlier else ()
        page = render_review(ballot, self.docket.query, rubric, fence, critiques)
        schema = review_schema(ballot, rubric) if self.caller.can_constrain(seat) else None
        reply = await self.ask(seat, "review", page, schema, ballot)
        if isinstance(reply, Reply):
            await finish(self._keep_review(ballot, reply))

    async def _keep_review(self, ballot: Ballot, reply: Reply) -> None:
        """Read a review once, when it comes in, and keep the reading beside the reply."""
        rubric = self.agenda.law.rubric
        review = await read_aside(partial(parse, reply.text, ballot), len(reply.text))
        await self._keep(
            Reviewed(
                reviewer=ballot.reviewer,
                round=ballot.round,
                text=reply.text,
                prompt=prompt("review_rubric" if rubric else "review_holistic").hash,
                usage=reply.usage,
                latency_ms=reply.latency_ms,
                review=folding.bounded_reading(review, rubric.weights if rubric else ()),
            )
        )

    def _is_settled(self, round_: int) -> bool:
        """Whether the reviews that are still out cannot change who comes first."""
        if round_ < self.agenda.rounds - 1:
            return False
        session = folding.reviewed_ballots(self.session)
        dealt = {ballot.reviewer for ballot in session.ballots if ballot.round == round_}
        unheard = dealt - self._outcomes("review", round_)
        return settled(score_session(session, self.agenda.law), self.agenda.law, unheard)

    def _tally(self) -> Scored:
        session = folding.reviewed_ballots(self.session)
        scored = score_session(session, self.agenda.law)
        if not self._happened(folding.TALLIED):
            self._record(Tallied(scored.session.scores, scored.session.flags))
        if scored.audit is not None and not self._happened(folding.AUDITED):
            self._record(Audited(scored.audit.findings, scored.audit.bias_audit))
        return scored

    def _finish(self, status: str) -> None:
        cost, unknown = folding.cost_of(self.events)
        self._record(Finished(status, cost, unknown))

    # -- calls ---------------------------------------------------------------------------------

    async def ask(
        self,
        seat: Seat,
        stage: Stage,
        page: str,
        schema: Mapping[str, Any] | None = None,
        ballot: Ballot | None = None,
    ) -> Reply | Failure:
        """One reply, or the failure that stands in its place and is already in the log."""
        docket = self.docket
        round_ = ballot.round if ballot else 0
        call = Call(
            seat=seat,
            stage=stage,
            prompt=page,
            key=f"{docket.seed}|{docket.id}|{stage}|{seat.name}|{round_}",
            query=docket.query,
            schema=schema,
            ballot=ballot,
        )
        on_text = None
        if self.live:
            self._whisper(folding.ASKED, {"seat": seat.name, "stage": stage, "round": round_})

            def on_text(piece: str) -> None:
                self._whisper(folding.PIECE, {"seat": seat.name, "stage": stage, "text": piece})

        reply = await self.caller.call(call, on_text)
        if isinstance(reply, Reply):
            return replace(reply, text=valid_text(reply.text))
        if reply.kind == "budget":
            raise BudgetError(reply.message)
        failure = replace(reply, message=valid_text(reply.message))
        await self._keep(
            Failed(seat.name, stage, failure.kind, failure.message, round_, failure.usage)
        )
        return failure

    async def _advise(
        self, seat: Seat, page: str, schema: Mapping[str, Any] | None
    ) -> Reply | Failure:
        """A seat's word on the conclusion, from the log where it already gave it."""
        for event in self._said(folding.ADVISED, {"seat": seat.name}):
            return Reply(event.body["text"])
        for event in self._said(folding.FAILED, {"seat": seat.name, "stage": "conclude"}):
            return Failure(seat.name, event.body["kind"], event.body["message"])
        constrained = schema if self.caller.can_constrain(seat) else None
        reply = await self.ask(seat, "conclude", page, constrained)
        if isinstance(reply, Reply):
            await self._keep(Advised(seat.name, reply.text, reply.usage, reply.latency_ms))
        return reply

    async def _together(
        self,
        work: Mapping[str, Coroutine[Any, Any, None]],
        stage: Stage,
        round_: int,
        stop: Callable[[int], bool] | None = None,
    ) -> None:
        """Do all of it at once, until done, settled or out of time; leave no task behind.

        Who has no outcome is asked for last, when nothing runs any more that could give it one.
        """
        tasks = [asyncio.create_task(job) for job in work.values()]
        try:
            ended = await self._wait(tasks, round_, stop)
        finally:
            await end(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        missing = sorted(work.keys() - self._outcomes(stage, round_))
        if ended == "late":
            message = f"no {stage} within the stage's {self.agenda.deadline_s:g} s"
            for name in missing:
                self._record(Failed(name, stage, "timeout", message, round_))
        elif ended == "settled" and missing:
            self._record(StoppedEarly(round_, tuple(missing)))

    async def _wait(
        self,
        tasks: Sequence[asyncio.Task[None]],
        round_: int,
        stop: Callable[[int], bool] | None,
    ) -> Literal["done", "late", "settled"]:
        """Why the wait for these tasks is over; an error of one of them is raised at once."""
        clock = asyncio.get_running_loop().time
        limit_s = self.agenda.deadline_s
        ends = None if limit_s is None else clock() + limit_s
        waiting = set(tasks)
        while waiting:
            left_s = None if ends is None else max(0.0, ends - clock())
            done, waiting = await asyncio.wait(
                waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
            if not done:
                return "late"
            if waiting and stop is not None and stop(round_):
                return "settled"
        return "done"

    # -- the log -------------------------------------------------------------------------------

    def _record(self, fact: Fact) -> asyncio.Future[None]:
        """Append a fact; the result is done when it is durable, and is not to be cancelled."""
        kind, body = KIND_BY_TYPE[type(fact)], body_of(fact)
        event = Event(self.docket.id, len(self.events), kind, self.clock(), body)
        self.events.append(event)
        self.state = folding.add(self.state, self.docket.id, fact)
        kept = self.log.append(event)
        kept.add_done_callback(lambda done: done.exception() or self.tell(event))
        self.pending.append(kept)
        return kept

    async def _keep(self, fact: Fact) -> None:
        """Append a fact and wait until it is durable; who is cancelled leaves only the wait."""
        await asyncio.shield(self._record(fact))

    def _whisper(self, kind: str, body: Mapping[str, Any]) -> None:
        self.tell(Event(self.docket.id, -1, kind, self.clock(), body))

    def _happened(self, kind: str, **body: Any) -> bool:
        return any(True for _ in self._said(kind, body))

    def _outcomes(self, stage: Stage, round_: int) -> set[str]:
        """Who has replied or failed in a stage and round."""
        replied = (
            self._seats_of(folding.ANSWERED)
            if stage == "answer"
            else self._seats_of(folding.REVIEWED, round=round_)
        )
        return replied | self._seats_of(folding.FAILED, stage=stage, round=round_)

    def _seats_of(self, kind: str, **body: Any) -> set[str]:
        said = self._said(kind, body)
        return {event.body.get("seat") or event.body["reviewer"] for event in said}

    def _said(self, kind: str, body: Mapping[str, Any]) -> Iterator[Event]:
        return (
            event
            for event in self.events
            if event.kind == kind and all(event.body.get(k) == v for k, v in body.items())
        )
