"""Calls of a running session to its seats, and its log: each reply is durable before it is used.

A seat has one outcome in each stage and round: its reply or its failure. It may have none while the
session can still continue. A reply is in the log from the moment it arrives, whatever ends the
session; a cancellation ends the wait for a reply, but not its storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from peerage.bills import call_made
from peerage.council.ballots import Decision, ReviewRead
from peerage.council.fences import FenceFilter, mask_codes, strike_fences, strip_borders
from peerage.council.prompts import Page, render_again
from peerage.council.readings import bounded_reading
from peerage.errors import BudgetError
from peerage.event_facts import since_extended
from peerage.events import (
    NOT_STORED,
    Advised,
    Asked,
    AskedAgain,
    DecisionReading,
    Fact,
    Failed,
    ReviewReading,
    StoppedEarly,
    TextPiece,
    Waiting,
    stored_event,
)
from peerage.providers import Call, OnText, OnWait, Reply, Stage
from peerage.providers.pacing import OUT_OF_REACH
from peerage.providers.typed_answers import TypedVotes
from peerage.session_config import SessionConfig, SessionSpec
from peerage.stores import Log
from peerage.structured import StructuredRead
from peerage.tasks import end, finish, read_aside
from peerage.text import valid_values
from peerage.types import Ballot, Event, Failure, Seat, Turn, TypedQuestion, is_cut_off
from peerage.view import SessionView

NOT_HEARD = OUT_OF_REACH | {"skipped"}  # kinds of failures to reach a seat
SHORT = ("commit", "review")  # stages whose replies are limited by max_tokens_review
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


@dataclass(slots=True)
class SessionLog:
    """The log of a running session: adds events, and looks up those that have happened."""

    session_id: str
    log: Log
    clock: Callable[[], float]
    tell: Callable[[Event], object]
    view: SessionView
    pending: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def facts(self) -> list[Fact]:
        """The typed events of the log so far."""
        return self.view.facts

    def record(self, fact: Fact) -> asyncio.Future[None]:
        """Append a fact; the future completes when it is durable, and must not be cancelled."""
        event = stored_event(self.session_id, self.view.last_seq + 1, self.clock(), fact)
        self.view.see(event)
        durable = self.log.append(event)
        durable.add_done_callback(lambda done: done.exception() or self.tell(event))
        self.pending.append(durable)
        return durable

    async def keep(self, fact: Fact) -> None:
        """Append a fact and wait until it is durable; a cancellation only ends the wait."""
        await asyncio.shield(self.record(fact))

    def say(self, fact: Fact) -> None:
        """Show a live event, which is not stored."""
        event = stored_event(self.session_id, NOT_STORED, self.clock(), fact)
        self.view.see(event)
        self.tell(event)

    def facts_of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def has_happened(self, kind: type[Fact]) -> bool:
        """Return whether such an event has happened since seats were last added."""
        return any(isinstance(fact, kind) for fact in since_extended(self.facts))

    def outcomes(self, stage: Stage, round_: int) -> set[str]:
        """Return the seats that have replied or failed in a stage and round."""
        calls = (call_made(fact) for fact in self.facts)
        return {
            call.seat
            for call in calls
            if call and call.is_outcome and (call.stage, call.round) == (stage, round_)
        }


@dataclass(slots=True)
class StageCalls:
    """Calls of one session to its seats; their outcomes are logged."""

    spec: SessionSpec
    config: SessionConfig
    caller: ModelCaller
    log: SessionLog
    live: bool  # whether texts and waits are reported while calls run

    async def ask(
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
        failed = [
            f for f in self.log.facts_of(Failed) if f.seat == seat.name and f.kind in NOT_HEARD
        ]
        given_up = _reason_to_skip(failed)
        if given_up is not None:
            await self.log.keep(Failed(seat.name, stage, "skipped", given_up, round_))
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
        await self.log.keep(
            Failed(seat.name, stage, reply.kind, reply.message, round_, reply.usage)
        )
        return reply

    async def ask_until_read(
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
            if again is not None or not (reading.fault and self.config.council.second_chance):
                await self.log.keep(outcome(reply, reading, again))
                return reading
            usable = self.limit_reading(reading) if isinstance(reading, ReviewRead) else None
            detail = reading.detail if isinstance(reading, StructuredRead) else ""
            fields = {**reply_fields(reply), "review": usable, "detail": detail}
            fact = AskedAgain(seat.name, stage, round_, reading.fault, **fields)
            await self.log.keep(fact)
            return fact

        while True:
            turns = () if again is None else _follow_up(page, again)
            reply = await self.ask(seat, stage, page, schema, ballot, turns, questions)
            if isinstance(reply, Failure):
                return reply
            result = await finish(keep(reply))
            if not isinstance(result, AskedAgain):
                return result
            again = result

    def _asked_again(self, seat: str, stage: Stage, round_: int) -> AskedAgain | None:
        """Return the logged first reply of a seat that is to be asked again, or None."""
        for fact in since_extended(self.log.facts):
            match fact:
                case AskedAgain() if (fact.seat, fact.stage, fact.round) == (seat, stage, round_):
                    return fact
        return None

    async def _call_live(self, call: Call, fence: str) -> Reply | Failure:
        """Call a model and report its text and its waits while it runs."""
        seat, stage = call.seat.name, call.stage
        round_ = call.ballot.round if call.ballot else 0
        self.log.say(Asked(seat, stage, round_, again=bool(call.follow_up)))
        struck = FenceFilter(fence) if fence else None

        def say_piece(piece: str) -> None:
            if sure := struck.add(piece) if struck else piece:
                self.log.say(TextPiece(seat, stage, sure))

        return await self.caller.call(
            call,
            say_piece,
            lambda why, wait_s, attempt: self.log.say(Waiting(seat, stage, why, wait_s, attempt)),
        )

    async def advise(self, seat: Seat, page: Page) -> Reply | Failure:
        """Return a chair's text for the verdict, from the log if it is there."""
        known = self._find_advice(seat)
        if isinstance(known, Advised):
            reason, n_fences = known.finish_reason, known.n_fences
            return Reply(known.text, finish_reason=reason, n_fences=n_fences)
        reply = known or await self.ask(seat, "conclude", page)
        if isinstance(reply, Reply):
            fields = reply_fields(reply)
            await self.log.keep(Advised(seat.name, n_fences=reply.n_fences, **fields))
        return reply

    async def vote(
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
            fields = reply_fields(reply)
            return Advised(seat.name, decision=decision, n_fences=reply.n_fences, **fields)

        return await self.ask_until_read(
            seat, "conclude", page, schema, read, advice_event, questions=questions
        )

    def _find_advice(self, seat: Seat) -> Advised | Failure | None:
        """Return a seat's reply or failure for the verdict, if it is in the log."""
        for fact in since_extended(self.log.facts):
            if isinstance(fact, Advised) and fact.seat == seat.name:
                return fact
            if isinstance(fact, Failed) and (fact.seat, fact.stage) == (seat.name, "conclude"):
                return Failure(seat.name, fact.kind, fact.message)
        return None

    async def run_together(
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
            async with asyncio.timeout(self.config.council.deadline_s) as limit:
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
        missing = sorted(work.keys() - self.log.outcomes(stage, round_))
        if is_late:
            message = (
                f"no {stage} within the stage's time limit of {self.config.council.deadline_s:g} s"
            )
            for name in missing:
                self.log.record(Failed(name, stage, "timeout", message, round_))
        elif is_settled and missing:
            self.log.record(StoppedEarly(round_, tuple(missing)))

    def limit_reading(self, read: ReviewRead) -> ReviewReading:
        """Return a reading for the log, with limited size."""
        rubric = self.config.scoring.rubric
        return bounded_reading(read.review, rubric.weights if rubric else ())


def _without_fences(reply: Reply, fence: str, *, is_read: bool) -> Reply:
    """Return a reply without its prompt's fence codes; prose also loses the fence lines.

    In a reply that is read for a vote, the lines still mark quotations.
    """
    if not fence:
        return reply
    text, n = (mask_codes if is_read else strike_fences)(reply.text, fence)
    if not is_read and (inner := strip_borders(text).strip()) and len(inner) < len(text.strip()):
        text, n = inner, n + 1
    reasoning, n_thought = strike_fences(reply.reasoning, fence)
    if not n and not n_thought:
        return reply
    text = text if is_read else text.strip()
    return replace(reply, text=text, reasoning=reasoning, n_fences=n + n_thought)


def reply_fields(reply: Reply) -> dict[str, Any]:
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
