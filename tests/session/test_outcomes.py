"""Whatever ends a session, and whenever: one outcome a seat, nothing lost, nothing left running."""

import asyncio
import gc
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerage.errors import BudgetError
from peerage.events import Failed, read_events
from peerage.providers import Reply
from peerage.providers.simulated import SimulatedProvider
from peerage.session import run
from peerage.session_config import SessionSpec
from peerage.stores import StoreError
from peerage.types import Failure, Query, Seat
from peerage.view import fold
from tests.memory_log import MemoryLog
from tests.shared.session_configs import make_config

NAMES = "abcde"
REPLIES = {"answered": "answer", "reviewed": "review", "advised": "conclude"}


class SlowLog(MemoryLog):
    """A log whose disk takes some turns of the loop; what was appended is kept at once."""

    def __init__(self, turns, full_at=None):
        super().__init__()
        self.turns = turns
        self.full_at = full_at

    def append(self, event):
        kept = asyncio.get_running_loop().create_future()
        if self.full_at is not None and event.seq >= self.full_at:
            kept.set_exception(StoreError("the disk is full."))
            return kept
        super().append(event)
        self._later(kept, self.turns)
        return kept

    def _later(self, kept, turns):
        if turns:
            asyncio.get_running_loop().call_soon(self._later, kept, turns - 1)
        elif not kept.done():
            kept.set_result(None)


class Uneven:
    """Asks simulated seats, each after some turns of the loop; a call may run out of money.

    Forgetful seats vote without their code until they are asked again.
    """

    def __init__(self, turns=(), broke_at=None, failing=(), forgetful=()):
        self.turns = turns
        self.broke_at = broke_at
        self.failing = failing
        self.forgetful = forgetful
        self.n_calls = 0
        self.replied = []  # what came back to the session, as (stage, seat, round, is the first)

    def can_constrain(self, _):
        return True

    def wants_brief(self, _):
        return False

    async def call(self, call, on_text=None, *_):  # noqa: ARG002
        number = self.n_calls
        self.n_calls += 1
        for _ in range(self.turns[number % len(self.turns)] if self.turns else 0):
            await asyncio.sleep(0)
        if self.broke_at is not None and number >= self.broke_at:
            return Failure(call.seat.name, "budget", "nothing left", call.stage)
        round_ = call.ballot.round if call.ballot else 0
        is_first = bool(call.code) and call.seat.name in self.forgetful and not call.follow_up
        is_first = is_first and (call.stage, call.seat.name) not in self.failing
        self.replied.append((call.stage, call.seat.name, round_, is_first))
        if is_first:
            return Reply("I forgot the form.")
        if (call.stage, call.seat.name) in self.failing:
            return Failure(call.seat.name, "server_error", "told to fail", call.stage)
        return await SimulatedProvider(call.seat).complete(call)


class Turns(asyncio.SelectorEventLoop):
    """A loop whose clock goes on by a second with every turn, so that a deadline needs no wait."""

    turn = 0

    def time(self):
        return float(self.turn)

    def _run_once(self):
        self.turn += 1
        super()._run_once()


def seats():
    options = [{"quality": 8.0 - i, "noise": 0.3, "spread": 0.3} for i in range(len(NAMES))]
    return tuple(
        Seat(name, provider="simulated", options=one)
        for name, one in zip(NAMES, options, strict=True)
    )


def session_config(**changes):
    panel = seats()
    return make_config(panel, safety_gate=True, **{"quorum": 2, **changes})


def hold(config, caller, log, history=(), cancel_at=None):
    """Hold a session on a loop of turns; cancelled at a turn, or ended by whatever it raises."""
    spec = SessionSpec("s", Query("Why?"), "7", 0)
    problems = []
    left = []

    async def scene():
        session = run(spec, config, caller, log, clock=lambda: 0.0, history=history)
        return [event async for event in session]

    async def cancelled():
        task = asyncio.create_task(scene())
        if cancel_at is not None:
            for _ in range(cancel_at):
                await asyncio.sleep(0)
            task.cancel()
        with suppress(asyncio.CancelledError, BudgetError, StoreError):
            await task
        left.extend(one for one in asyncio.all_tasks() if one is not asyncio.current_task())

    loop = Turns()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    try:
        loop.run_until_complete(cancelled())
        gc.collect(1)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert not problems
    assert not left


def outcomes(events):
    """How often each seat replied or failed, by stage, round and whether it was asked again."""
    return Counter(
        (
            REPLIES.get(event.kind) or event.body["stage"],
            event.body.get("seat") or event.body["reviewer"],
            event.body.get("round", 0),
            event.kind == "asked_again",
        )
        for event in events
        if event.kind in REPLIES or event.kind in ("failed", "asked_again")
    )


def assert_sound(log, caller):
    """At most one outcome each, every reply among them, and a log without gaps."""
    found = outcomes(log.events)
    assert set(found.values()) <= {1}
    assert set(caller.replied) <= set(found)
    assert [event.seq for event in log.events] == list(range(len(log.events)))


@cache
def undisturbed(verdict, forgetful):
    log = MemoryLog()
    hold(session_config(verdict=verdict), Uneven(forgetful=forgetful), log)
    return tuple(log.events)


latencies = st.lists(st.integers(0, 30), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    turns=latencies,
    disk=st.integers(0, 12),
    full_at=st.none() | st.integers(0, 25),
    cancel_at=st.none() | st.integers(0, 250),
    deadline_s=st.none() | st.integers(1, 60),
    early_stop=st.booleans(),
    rounds=st.integers(1, 2),
    verdict=st.sampled_from(["synthesis", "binary", "tie_breaker", "none"]),
    broke_at=st.none() | st.integers(0, 20),
    failing=st.sets(st.tuples(st.sampled_from(["answer", "review"]), st.sampled_from(NAMES))),
    forgetful=st.sets(st.sampled_from(NAMES)),
)
def test_every_seat_has_one_outcome_however_a_session_ends(
    turns,
    disk,
    full_at,
    cancel_at,
    deadline_s,
    early_stop,
    rounds,
    verdict,
    broke_at,
    failing,
    forgetful,
):
    """Also after it went on from there, and then each that was asked has exactly one.

    A reply without its code is kept and paid for once, too.
    """
    changes = {"early_stop": early_stop, "rounds": rounds, "verdict": verdict}
    log = SlowLog(disk, full_at)
    caller = Uneven(turns, broke_at, failing, forgetful)
    hold(session_config(deadline_s=deadline_s, **changes), caller, log, cancel_at=cancel_at)
    if full_at is not None:  # what could not be kept is asked for again
        caller.replied.clear()
        log.full_at = None
    assert_sound(log, caller)
    again = Uneven(failing=failing, forgetful=forgetful)
    again.replied = list(caller.replied)
    events = list(log.events)
    hold(session_config(**changes), again, log, history=list(events))
    assert_sound(log, again)
    assert log.events[: len(events)] == events
    assert log.events[-1].kind == "finished"
    session = fold(log.events)
    stopped = {
        (name, event.body["round"])
        for event in log.events
        if event.kind == "stopped_early"
        for name in event.body["not_heard"]
    }
    found = outcomes(log.events)
    assert {("answer", name, 0, False) for name in NAMES} <= set(found)
    for ballot in session.ballots:
        seat = (ballot.reviewer, ballot.round)
        assert (("review", *seat, False) in found) != (seat in stopped)
    assert session.status == "no_quorum" or {r.model for r in session.responses} == {
        gate.model for gate in session.gates
    }


@settings(
    max_examples=settings.default.max_examples * 2 // 5,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    turns=latencies,
    disk=st.integers(0, 12),
    cancel_at=st.integers(0, 250),
    verdict=st.sampled_from(["synthesis", "binary"]),
    forgetful=st.sampled_from(["", "b", "ace"]),
)
def test_a_cancelled_session_that_goes_on_ends_like_one_that_was_left_alone(
    turns, disk, cancel_at, verdict, forgetful
):
    config = session_config(verdict=verdict)
    log = SlowLog(disk)
    hold(config, Uneven(turns, forgetful=forgetful), log, cancel_at=cancel_at)
    hold(config, Uneven(forgetful=forgetful), log, history=list(log.events))
    calm = undisturbed(verdict, forgetful)
    cut, whole = fold(log.events), fold(calm)
    assert cut.scores == whole.scores
    assert cut.verdict == whole.verdict
    assert set(cut.responses) == set(whole.responses)
    assert outcomes(log.events) == outcomes(calm)


def test_a_long_review_is_kept_when_the_session_is_cancelled_while_it_is_read():
    class Long(Uneven):
        async def call(self, call, on_text=None, *_):
            reply = await super().call(call, on_text)
            if call.ballot is None:
                return reply
            reviewed.set()
            return replace(reply, text="So. " * 50_000 + reply.text)

    async def scene():
        session = run(
            SessionSpec("s", Query("?"), "7", 0), session_config(), caller, log, clock=lambda: 0.0
        )
        task = asyncio.create_task(to_its_end(session))
        await reviewed.wait()
        task.cancel()
        await asyncio.wait([task])

    async def to_its_end(session):
        return [event async for event in session]

    reviewed = asyncio.Event()
    caller, log = Long(), MemoryLog()
    asyncio.run(scene())
    assert_sound(log, caller)


def test_an_answer_that_was_not_screened_is_screened_when_the_session_goes_on():
    whole = MemoryLog()
    hold(session_config(), Uneven(), whole)
    history = [event for event in whole.events[:4] if event.kind == "answered"]
    log = MemoryLog()
    opened = whole.events[0]
    log.events = [opened, *history]
    hold(session_config(), Uneven(), log, history=list(log.events))
    session = fold(log.events)
    assert {gate.model for gate in session.gates} == {r.model for r in session.responses}


@pytest.mark.parametrize("stage", ["answer", "review", "conclude"])
def test_many_errors_at_once_are_one_error_and_no_noise(stage):
    """Nothing is left running, and no error is left for the collector to complain about."""

    class Broken(Uneven):
        async def call(self, call, on_text=None, *_):
            await asyncio.sleep(0)
            if call.stage == stage:
                return Failure(call.seat.name, "budget", "nothing left", call.stage)
            return await super().call(call, on_text)

    hold(session_config(verdict="binary"), Broken(), MemoryLog())


# -- seats that cannot be reached ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("timeout", [("answer", 60.0, True), ("review", 15.0, False)]),
        ("connection", [("answer", 60.0, True), ("review", 60.0, False)]),
        ("rate_limited", [("answer", 60.0, True), ("review", 60.0, False)]),
        ("not_json", [("answer", 60.0, True), ("review", 60.0, False)]),
        ("unauthorized", [("answer", 60.0, True)]),
        ("refused", [("answer", 60.0, True), ("review", 60.0, True), ("conclude", 60.0, True)]),
    ],
)
def test_a_seat_that_cannot_be_reached_is_asked_with_less_patience_and_then_not_at_all(
    session_config, held, direct, kind, asked
):
    class Dead(direct):
        async def call(self, call, on_text=None, *_):
            if call.seat.name != "a":
                return await super().call(call, on_text)
            self.calls.append((call.stage, call.deadline_s, call.may_retry))
            return Failure("a", kind, "told to fail", call.stage)

    caller = Dead()
    events = asyncio.run(held(session_config(), caller))
    assert [call for call in caller.calls if isinstance(call[1], float)] == asked
    failed = [fact for fact in read_events(events) if isinstance(fact, Failed)]
    skipped = [fact.message for fact in failed if fact.kind == "skipped"]
    assert len(failed) == 3
    assert sum(bool(message) for message in skipped) == (kind != "refused")


def test_where_a_third_answer_fails_only_its_author_reviews_the_two(session_config, held, direct):
    """The other two could only rank each other's answer, alone."""
    caller = direct(fail={("answer", "c")})
    asyncio.run(held(session_config("abc"), caller))
    assert [seat for stage, seat, _ in caller.calls if stage == "review"] == ["c"]
