"""Many sessions of one prompts file: a bounded number at a time, and resumable.

A session's id follows from its season and its row, so the same command finds what it
already did. What is finished is left alone; what was cut off goes on from its history.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from peerage.errors import BudgetError, UnreadableError
from peerage.events import (
    KIND_BY_TYPE,
    Advised,
    Answered,
    Failed,
    Finished,
    Reviewed,
    call_made,
    read_event,
)
from peerage.session import ModelCaller, SessionConfig, SessionSpec, run
from peerage.stores import SessionTakenError, Store
from peerage.stores.prompt_files import Prompts, Row
from peerage.tasks import together
from peerage.types import Event, Query

COUNTED = {KIND_BY_TYPE[one] for one in (Answered, Failed, Reviewed, Advised, Finished)}


@dataclass(slots=True)
class Progress:
    """How far a season is: counts that `run_season` updates as it goes."""

    total: int
    done: int = 0
    reused: int = 0  # of the done, those finished by an earlier run
    in_flight: int = 0
    no_quorum: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # seat, stage, kind
    elsewhere: int = 0  # sessions that another process runs; left to it
    unreadable: dict[str, str] = field(default_factory=dict)  # why, by session; passed over
    out_of_budget: str = ""
    stopped: bool = False

    @property
    def complete(self) -> bool:
        return self.done == self.total


@dataclass(frozen=True, slots=True)
class Season:
    """The id and seed of a season, and the configuration of its sessions."""

    id: str
    seed: str
    config_for: Callable[[str], SessionConfig]  # by category

    def session_spec(self, ordinal: int, row: Row) -> SessionSpec:
        """The session of one row of the prompts file."""
        identity = json.dumps([self.id, row.id, row.query, row.category, row.answers])
        return SessionSpec(
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            query=Query(row.query, row.id, row.category),
            seed=self.seed,
            ordinal=ordinal,
            season=self.id,
            answers=row.answers,
        )


async def run_season(
    season: Season,
    prompts: Prompts,
    caller: ModelCaller,
    store: Store,
    *,
    concurrency: int,
    clock: Callable[[], float],
    progress: Progress,
    on_change: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
) -> Progress:
    """Run every session that is not finished yet; when `stop` is set, begin no more."""
    rows = enumerate(prompts)
    finished = {listed.id: listed.status for listed in store.sessions(season.id) if listed.status}

    async def work() -> None:
        for ordinal, row in rows:
            if stop is not None and stop.is_set():
                progress.stopped = True
                return
            spec = season.session_spec(ordinal, row)
            status = finished.get(spec.id)
            try:
                history = [] if status else store.events(spec.id)
                status = status or _final_status(history)
                if status:  # also one that another process has finished since
                    progress.reused += 1
                    progress.no_quorum += status == "no_quorum"
                else:
                    await run_one(spec, season.config_for(row.category), history)
            except UnreadableError as error:
                progress.unreadable[spec.id] = error.message
            except SessionTakenError:
                progress.elsewhere += 1
            else:
                progress.done += 1
                on_change()

    async def run_one(spec: SessionSpec, config: SessionConfig, history: list[Event]) -> None:
        progress.in_flight += 1
        try:
            session = run(spec, config, caller, store, clock=clock, history=history)
            async with aclosing(session):
                async for event in session:
                    _note(progress, event)
                    on_change()
        finally:
            progress.in_flight -= 1

    try:
        await together(work() for _ in range(max(1, min(concurrency, prompts.n))))
    except BudgetError as error:
        progress.out_of_budget = error.message
    return progress


def _final_status(history: list[Event]) -> str:
    """How a session ended, or nothing while it has not."""
    last = read_event(history[-1]) if history else None
    return last.status if isinstance(last, Finished) else ""


def _note(progress: Progress, event: Event) -> None:
    """Add an event to the counts."""
    fact = read_event(event) if event.kind in COUNTED else None
    call = None if fact is None else call_made(fact)
    if call is not None and call.usage is not None:
        progress.calls += 1
        progress.unpriced_calls += call.cost_usd is None
        progress.cost_usd += call.cost_usd or 0.0
    if isinstance(fact, Failed):
        progress.failures[fact.seat, fact.stage, fact.kind] += 1
    if isinstance(fact, Finished):
        progress.no_quorum += fact.status == "no_quorum"
