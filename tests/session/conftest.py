"""A simulated panel and a caller that asks it directly, without waits or money."""

import asyncio

import pytest

from peerage import config
from peerage.providers import CallError
from peerage.providers.simulated import SimulatedProvider
from peerage.session import run
from peerage.session_config import SessionSpec
from peerage.types import Failure, Query, Seat
from tests.memory_log import MemoryLog
from tests.shared.session_configs import make_config


class Direct:
    """Asks each simulated seat once; a seat named in `silent` hangs for ever."""

    def __init__(self, silent=(), fail=(), constrained=True):
        self.silent = set(silent)
        self.fail = set(fail)
        self.calls = []
        self.constrained = constrained

    def can_constrain(self, _):
        return self.constrained

    def wants_brief(self, _):
        return False

    async def call(self, call, on_text=None, *_):
        self.calls.append((call.stage, call.seat.name, call.ballot.round if call.ballot else 0))
        if call.seat.name in self.silent or (call.stage, call.seat.name) in self.silent:
            await asyncio.Event().wait()
        if call.seat.name in self.fail or (call.stage, call.seat.name) in self.fail:
            return Failure(call.seat.name, "server_error", "told to fail", call.stage)
        try:
            reply = await SimulatedProvider(call.seat).complete(call)
        except CallError as error:
            return Failure(call.seat.name, error.kind, error.message, call.stage)
        if on_text:
            on_text(reply.text)
        return reply


def seats(names="abcd", **options):
    """Seats whose quality falls with their letter."""
    return tuple(
        Seat(
            name,
            provider="simulated",
            options={"quality": 8.0 - i, "spread": 0.3, "noise": 0.3, **options.get(name, {})},
        )
        for i, name in enumerate(names)
    )


@pytest.fixture
def panel():
    return seats


@pytest.fixture
def direct():
    return Direct


@pytest.fixture
def session_config():
    def make(names="abcd", options=None, **changes):
        table = {"rubric": config.rubric("general"), "quorum": 2, **changes}
        panel = table.pop("seats", None) or seats(names, **(options or {}))
        return make_config(panel, **table)

    return make


@pytest.fixture
def spec():
    def make(id="s1", **changes):
        return SessionSpec(
            **{
                "id": id,
                "query": Query("Why?"),
                "seed": "7",
                "ordinal": 0,
                "secret": "s",
                **changes,
            }
        )

    return make


@pytest.fixture
def held(spec):
    """Hold a session to its end and give its events."""

    async def hold(session_config, caller=None, log=None, history=(), live=False, **changes):
        ticks = iter(range(10**9))
        log = log if log is not None else MemoryLog()
        session = run(
            spec(**changes),
            session_config,
            caller or Direct(),
            log,
            clock=lambda: float(next(ticks)),
            history=history,
            live=live,
        )
        return [event async for event in session]

    return hold
