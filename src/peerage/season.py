"""Many sessions, resumable: a bounded number at a time, each in the log as it goes.

A session's id follows from its season and its row, so the same command finds what it
already did. What is finished is left alone; what was cut off goes on from its history.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from peerage.agenda import Agenda, Caller, Docket
from peerage.council import fold as folding
from peerage.errors import BudgetError, UnreadableError
from peerage.session import run
from peerage.stores import SessionTakenError, Store
from peerage.stores.prompt_files import Prompts, Row
from peerage.tasks import together
from peerage.types import Event, Query


@dataclass(slots=True)
class Progress:
    """How far a season is; read by whoever draws it."""

    total: int
    done: int = 0
    reused: int = 0  # of the done, those finished by an earlier run
    in_flight: int = 0
    no_quorum: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # seat, stage, kind
    elsewhere: int = 0  # sessions that another process is holding; left to it
    unreadable: dict[str, str] = field(default_factory=dict)  # why, by session; passed over
    out_of_budget: str = ""
    stopped: bool = False

    @property
    def complete(self) -> bool:
        return self.done == self.total


@dataclass(frozen=True, slots=True)
class Season:
    """What all its sessions have in common."""

    id: str
    seed: str
    agenda_for: Callable[[str], Agenda]  # by category

    def docket(self, ordinal: int, row: Row) -> Docket:
        identity = json.dumps([self.id, row.id, row.query, row.category, row.answers])
        return Docket(
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            query=Query(row.query, row.id, row.category),
            seed=self.seed,
            ordinal=ordinal,
            season=self.id,
            answers=row.answers,
        )


async def hold(
    season: Season,
    prompts: Prompts,
    caller: Caller,
    store: Store,
    *,
    concurrency: int,
    clock: Callable[[], float],
    progress: Progress,
    on_change: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
) -> Progress:
    """Hold every session that is not finished yet; when `stop` is set, begin no more."""
    rows = enumerate(prompts)
    finished = {listed.id: listed.status for listed in store.sessions(season.id) if listed.status}
    workers = [
        _worker(season, rows, finished, caller, store, clock, progress, on_change, stop)
        for _ in range(max(1, min(concurrency, prompts.n)))
    ]
    try:
        await together(workers)
    except BudgetError as error:
        progress.out_of_budget = error.message
    return progress


async def _worker(
    season: Season,
    rows: Iterator[tuple[int, Row]],
    finished: dict[str, str],
    caller: Caller,
    store: Store,
    clock: Callable[[], float],
    progress: Progress,
    on_change: Callable[[], None],
    stop: asyncio.Event | None,
) -> None:
    for ordinal, row in rows:
        if stop is not None and stop.is_set():
            progress.stopped = True
            return
        docket = season.docket(ordinal, row)
        if docket.id in finished:
            progress.done += 1
            progress.reused += 1
            progress.no_quorum += finished[docket.id] == "no_quorum"
            continue
        agenda = season.agenda_for(row.category)
        progress.in_flight += 1
        try:
            history = store.events(docket.id)
            session = run(docket, agenda, caller, store, clock=clock, history=history)
            async with aclosing(session):
                async for event in session:
                    _note(progress, event)
                    on_change()
        except UnreadableError as error:
            progress.unreadable[docket.id] = error.message
            continue
        except SessionTakenError:
            progress.elsewhere += 1
            continue
        finally:
            progress.in_flight -= 1
        progress.done += 1
        on_change()


def _note(progress: Progress, event: Event) -> None:
    """Keep count of what went by."""
    body = event.body
    if "usage" in body:
        progress.calls += 1
        cost = body["usage"]["cost_usd"]
        progress.unpriced_calls += cost is None
        progress.cost_usd += cost or 0.0
    if event.kind == folding.FAILED:
        progress.failures[body["seat"], body["stage"], body["kind"]] += 1
    if event.kind == folding.FINISHED:
        progress.no_quorum += body["status"] == "no_quorum"
