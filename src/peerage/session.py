"""One session, from a question to a verdict: the only orchestrator there is.

`run` is an async iterator of events. The store, the terminal, a web page and another
program all read that one iterator; a session that was cut off goes on from its history.
Every reply is durable before it is used, and a reply that never comes is a failure with
a kind, which costs the session that one reply and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from typing import Any

from peerage.agenda import Agenda, Caller, Docket, opening
from peerage.council import folding
from peerage.council.blinding import deal
from peerage.council.folding import plain
from peerage.council.prompts import (
    boundary,
    critiques_for,
    prompt,
    render_review,
    review_schema,
)
from peerage.council.safety import one_gate_each
from peerage.errors import BudgetError
from peerage.providers import Call, Reply, Stage
from peerage.scoring import Scored, score_session
from peerage.stores import Log
from peerage.types import (
    Ballot,
    Event,
    Failure,
    Response,
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
) -> AsyncIterator[Event]:
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
        if not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


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
        self.live = live
        self.pending: list[asyncio.Future[None]] = []

    # -- the order of steps --------------------------------------------------------------------

    async def hold(self) -> None:
        if self._happened(folding.FINISHED):
            return
        self._open()
        await self._gather_answers()
        session = folding.fold(self.events)
        if len(session.responses) < self.agenda.quorum:
            await self._finish("no_quorum")
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
                self._record(folding.CONCLUDED, plain(verdict))
        await self._finish("done")

    def _open(self) -> None:
        if not self._happened(folding.OPENED):
            self._record(folding.OPENED, opening(self.docket, self.agenda))

    async def _gather_answers(self) -> None:
        if self._happened(folding.DEALT):
            return
        if self.docket.answers is not None:
            answered = self._seats_of(folding.ANSWERED)
            for name, text in self.docket.answers.items():
                if name not in answered:
                    await self._answered(Response(name, text), given=True)
            return
        done = self._seats_of(folding.ANSWERED) | self._seats_of(folding.FAILED, stage="answer")
        seats = [seat for seat in self.agenda.with_role("answer") if seat.name not in done]
        await self._together({seat.name: self._answer(seat) for seat in seats}, "answer")

    async def _answer(self, seat: Seat) -> None:
        reply = await self.ask(seat, "answer", self.docket.query.text)
        if isinstance(reply, Reply):
            response = Response(
                seat.name, reply.text, reply.usage, reply.latency_ms, reply.reasoning_words
            )
            await self._answered(response)

    async def _answered(self, response: Response, given: bool = False) -> None:
        body: dict[str, Any] = {
            "seat": response.model,
            "text": response.text,
            "latency_ms": response.latency_ms,
            "reasoning_words": response.reasoning_words,
        }
        body |= {"given": True} if given else {"usage": plain(response.usage)}
        await self._record(folding.ANSWERED, body)
        if self.agenda.law.safety_gate:
            gates = self.agenda.moderator([response])
            if isinstance(gates, Awaitable):
                gates = await gates
            (gate,) = one_gate_each([response], gates)
            self._record(folding.SCREENED, plain(gate))

    async def _gather_reviews(self, round_: int) -> None:
        ballots = self._deal(round_)
        session = folding.fold(self.events)
        done = self._seats_of(folding.REVIEWED, round=round_)
        done |= self._seats_of(folding.FAILED, stage="review", round=round_)
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
        session = folding.fold(self.events)
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
            self._record(folding.DEALT, folding.dealt_body(ballots, round_))
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
            await self._record(
                folding.REVIEWED,
                {
                    "reviewer": seat.name,
                    "round": ballot.round,
                    "text": reply.text,
                    "prompt": prompt("review_rubric" if rubric else "review_holistic").hash,
                    "usage": plain(reply.usage),
                    "latency_ms": reply.latency_ms,
                },
            )

    def _is_settled(self, round_: int) -> bool:
        """Whether the reviews that are still out cannot change who comes first."""
        if round_ < self.agenda.rounds - 1:
            return False
        heard = self._seats_of(folding.REVIEWED, round=round_)
        heard |= self._seats_of(folding.FAILED, stage="review", round=round_)
        session = folding.reviewed_ballots(folding.fold(self.events))
        unheard = {b.reviewer for b in session.ballots if b.round == round_} - heard
        return settled(score_session(session, self.agenda.law), self.agenda.law, unheard)

    def _tally(self) -> Scored:
        session = folding.reviewed_ballots(folding.fold(self.events))
        scored = score_session(session, self.agenda.law)
        if not self._happened(folding.TALLIED):
            body = {
                "scores": [plain(score) for score in scored.session.scores],
                "flags": list(scored.session.flags),
            }
            self._record(folding.TALLIED, body)
        if scored.audit is not None and not self._happened(folding.AUDITED):
            findings = [finding._asdict() for finding in scored.audit.findings]
            body = {"findings": findings, "bias_audit": dict(scored.audit.bias_audit)}
            self._record(folding.AUDITED, body)
        return scored

    async def _finish(self, status: str) -> None:
        cost, unknown = folding.cost_of(self.events)
        body = {"status": status, "cost_usd": cost, "unpriced_calls": unknown}
        await self._record(folding.FINISHED, body)
        await asyncio.gather(*self.pending)

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
        if isinstance(reply, Failure):
            if reply.kind == "budget":
                raise BudgetError(reply.message)
            await self._failed(reply, stage, round_)
        return reply

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
            body = {"seat": seat.name, "text": reply.text, "usage": plain(reply.usage)}
            await self._record(folding.ADVISED, {**body, "latency_ms": reply.latency_ms})
        return reply

    async def _failed(self, failure: Failure, stage: str, round_: int) -> None:
        body = {
            "seat": failure.seat,
            "stage": stage,
            "kind": failure.kind,
            "message": failure.message,
            "round": round_,
        }
        if failure.usage is not None:
            body["usage"] = plain(failure.usage)
        await self._record(folding.FAILED, body)

    async def _together(
        self,
        work: Mapping[str, Coroutine[Any, Any, None]],
        stage: str,
        round_: int = 0,
        stop: Callable[[int], bool] | None = None,
    ) -> None:
        """Do all of it at once, until done, settled or out of time; leave no task behind."""
        tasks = {asyncio.create_task(job): name for name, job in work.items()}
        left = self.agenda.deadline_s
        ends = None if left is None else asyncio.get_running_loop().time() + left
        waiting = set(tasks)
        try:
            while waiting:
                left = None if ends is None else max(0.0, ends - asyncio.get_running_loop().time())
                done, waiting = await asyncio.wait(
                    waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                if not waiting:
                    return
                if not done:
                    late = sorted(tasks[task] for task in waiting)
                    await _cancel(waiting)
                    for name in late:
                        message = f"no {stage} within the stage's {self.agenda.deadline_s:g} s"
                        await self._failed(Failure(name, "timeout", message, stage), stage, round_)
                    return
                if stop is not None and stop(round_):
                    names = sorted(tasks[task] for task in waiting)
                    self._record(folding.STOPPED_EARLY, {"round": round_, "not_heard": names})
                    return
        finally:
            await _cancel(tasks)

    # -- the log -------------------------------------------------------------------------------

    def _record(self, kind: str, body: Mapping[str, Any]) -> Awaitable[None]:
        """Append a fact; awaiting the result makes sure that it is durable."""
        event = Event(self.docket.id, len(self.events), kind, self.clock(), body)
        self.events.append(event)
        kept = self.log.append(event)
        kept.add_done_callback(lambda done: done.exception() or self.tell(event))
        self.pending.append(kept)
        return kept

    def _whisper(self, kind: str, body: Mapping[str, Any]) -> None:
        self.tell(Event(self.docket.id, -1, kind, self.clock(), body))

    def _happened(self, kind: str, **body: Any) -> bool:
        return any(True for _ in self._said(kind, body))

    def _seats_of(self, kind: str, **body: Any) -> set[str]:
        said = self._said(kind, body)
        return {event.body.get("seat") or event.body["reviewer"] for event in said}

    def _said(self, kind: str, body: Mapping[str, Any]) -> Iterator[Event]:
        return (
            event
            for event in self.events
            if event.kind == kind and all(event.body.get(k) == v for k, v in body.items())
        )


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End what is still running, and wait until it has ended."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
