"""Try a reviewing seat on a tiny sealed ballot: does it return the code of its page, and how?"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from peerage.events import AskedAgain, Failed, Reviewed, read_event
from peerage.session import ModelCaller, SessionConfig, SessionSpec, run
from peerage.types import Event, Query, ScoringOptions, Seat

QUESTION = "What is two plus two?"
ANSWERS = {"first": "Four.", "second": "Five."}
BY_SCHEMA = "returns a ballot's code by schema"
BY_ITSELF = "returns a ballot's code by itself"
SECOND = "returns a ballot's code after a second chance"
NOT_AT_ALL = "does not return a ballot's code"


class NoLog:
    """A log that takes every event and keeps none."""

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:  # noqa: ARG002 - as every log
        durable = asyncio.get_running_loop().create_future()
        durable.set_result(None)
        return durable


async def try_sealed_ballot(caller: ModelCaller, seat: Seat) -> str:
    """Hold a session of one review with this seat, and say how it returned the code, or why not."""
    reviewer = replace(seat, roles=("review",))
    config = SessionConfig((reviewer,), ScoringOptions(audit=False), verdict="none")
    spec = SessionSpec("trial", Query(QUESTION), "0", 0, answers=ANSWERS)
    asked_again = False
    session = run(spec, config, caller, NoLog(), clock=lambda: 0.0)
    async for event in session:
        match read_event(event):
            case AskedAgain():
                asked_again = True
            case Failed() as failed:
                return f"gave no review: {failed.kind}, {failed.message}"
            case Reviewed(review=reading) if reading is not None and reading.abstained:
                return f"{NOT_AT_ALL} ({reading.abstained})"
    if asked_again:
        return SECOND
    return BY_SCHEMA if caller.can_constrain(seat) else BY_ITSELF
