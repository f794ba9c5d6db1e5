"""Run one session for each prompt of a file: several at a time, resumable, open to new seats.

A session's id is derived from its season and its row, so the same command finds its earlier
sessions. Finished sessions do not change, unless seats have joined the panel since: the new seats
are asked for what is missing. Interrupted sessions continue from their history. Several processes
may run the same season and share its sessions: a process that runs a session holds its lease. Other
processes wait for that session, and take it over if its process stops responding.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from peerage.bills import bill_of, billed_calls
from peerage.errors import BudgetError, InputError, UnreadableError
from peerage.event_facts import panel_of, since_extended
from peerage.events import Extended, Fact, Failed, Finished, SeatRecord, read_events, seats_in
from peerage.providers.batches import BatchRecord, WaitingBatch
from peerage.session import run
from peerage.session_calls import ModelCaller
from peerage.session_config import SessionConfig, SessionSpec, newcomers
from peerage.shapes import to_json
from peerage.stores import Lease, SessionTakenError, Store, StoredDocument, kept_season
from peerage.tasks import finish, together
from peerage.types import LEASE_S, Answer, Event, Image, Query, Seat
from peerage.view import SessionView, fold

N_LATEST = 100  # sessions from whose costs the next cost is predicted
BATCH = "batch"  # kind of the stored documents
LOOK_S = 1.0  # between checks of sessions that other processes run


@dataclass(slots=True)
class Progress:
    """The progress of a season: counts that `run_season` updates."""

    total: int
    done: int = 0
    reused: int = 0  # done sessions for which this run had nothing to do
    extended: int = 0  # finished sessions that were continued for new seats
    in_flight: int = 0
    no_quorum: list[str] = field(default_factory=list)  # sessions in which too few answered
    calls: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    earlier_cost_usd: float = 0.0  # of earlier runs of the season; 0 unless it is needed
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # seat, stage, kind
    elsewhere: int = 0  # sessions that another process runs and this one awaits
    unreadable: dict[str, str] = field(default_factory=dict)  # why, by skipped session
    out_of_budget: str = ""
    needs_usd: float = 0.0  # cost of one more session, if the budget is too small for it
    stopped: bool = False
    batches: Mapping[str, WaitingBatch] = field(default_factory=dict)  # unfinished ones, by name
    batch_notes: Sequence[str] = ()  # problems with batches
    known: str = ""  # the finding that stopped the season early, as a sentence

    @property
    def complete(self) -> bool:
        return self.done == self.total

    def add(self, view: SessionView, n_counted: int) -> int:
        """Add a session's events after the first `n_counted`; return how many are counted now."""
        facts = view.facts[n_counted:]
        bill = bill_of(billed_calls(facts))
        self.calls += bill.n_calls
        self.unpriced_calls += bill.n_unpriced
        self.cost_usd += bill.usd
        for fact in facts:
            if isinstance(fact, Failed):
                self.failures[fact.seat, fact.stage, fact.kind] += 1
            elif isinstance(fact, Extended):
                self.extended += 1
            elif isinstance(fact, Finished) and fact.status == "no_quorum":
                self.no_quorum.append(view.id)
        return n_counted + len(facts)


@dataclass(frozen=True, slots=True)
class SeasonPrompt:
    """One prompt of a season; if it has answers, they are judged and no seat is asked for one."""

    id: str
    query: str
    category: str = ""
    answers: Mapping[str, Answer] | None = None
    query_id: str = ""  # the same for all sessions that ask this question
    expected: tuple[str, ...] = ()  # answers that are correct
    correct: tuple[str, ...] | None = None  # models whose given answers are correct
    images: tuple[Image, ...] = ()

    @property
    def own_id(self) -> str:
        """Return an id that is computed from the question."""
        return Query(self.query, images=self.images).own_id


class SeasonPrompts(Protocol):
    """The prompts of a season, one session each; they can be iterated several times."""

    @property
    def n(self) -> int: ...

    def __iter__(self) -> Iterator[SeasonPrompt]: ...


class Watch(Protocol):
    """Reads finished sessions, and knows when no more are needed."""

    @property
    def is_known(self) -> bool: ...

    @property
    def sentence(self) -> str: ...

    def add(self, ordinal: int, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, slots=True)
class Season:
    """The id and seed of a season, and the configuration of its sessions."""

    id: str
    seed: str
    config_for: Callable[[str], SessionConfig]  # by category
    changed: tuple[str, ...] = ()  # seats that differ from the earlier season of this name
    lease_s: float = LEASE_S
    design: str = ""  # the rule that stops it, as JSON; stored in every session's log
    watch: Watch | None = None  # knows when no more sessions are needed

    def session_spec(self, ordinal: int, row: SeasonPrompt) -> SessionSpec:
        """Return the session of one row of the prompts file."""
        parts = [self.id, row.id, row.query, row.category, to_json(row.answers)]
        identity = json.dumps([*parts, *([to_json(row.images)] if row.images else [])])
        return SessionSpec(
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            query=Query(
                row.query,
                row.query_id,
                row.category,
                expected=row.expected,
                correct=row.correct,
                images=row.images,
            ),
            seed=self.seed,
            ordinal=ordinal,
            season=self.id,
            answers=row.answers,
            design=self.design,
        )


# Yields the caller for one session, given its history so far, once the session may begin.
Admission = Callable[
    [SessionSpec, SessionConfig, list[Event]], AbstractAsyncContextManager[ModelCaller]
]


async def run_season(
    season: Season,
    prompts: SeasonPrompts,
    caller: ModelCaller,
    store: Store,
    *,
    concurrency: int,
    clock: Callable[[], float],
    progress: Progress,
    on_change: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
    admit: Admission | None = None,
) -> Progress:
    """Run every unfinished session; once `stop` is set, start no more.

    With a budget, `admit` starts a session only if there is money for all of it.
    """
    admit = admit or (lambda *_: nullcontext(caller))
    runner = SeasonRunner(season, admit, store, clock, progress, on_change, stop)
    n_workers = max(1, min(concurrency, prompts.n))
    await runner.go_through(enumerate(prompts), n_workers)
    while runner.waiting and not (progress.stopped or progress.known or progress.out_of_budget):
        again, runner.waiting = runner.waiting, []
        await store.wait_for_change(season.session_spec(*again[0]).id, LOOK_S)
        await runner.go_through(iter(again), n_workers)
    if season.watch is not None and season.watch.is_known:
        progress.known = season.watch.sentence
    return progress


class StoppedWaitingError(Exception):
    """The season stopped while this session waited for money."""


@dataclass(slots=True)
class SeasonRunner:
    """One run of a season, with its finished sessions and those that other processes run."""

    season: Season
    admit: Admission
    store: Store
    clock: Callable[[], float]
    progress: Progress
    on_change: Callable[[], None]
    stop: asyncio.Event | None
    panels: Mapping[str, tuple[SeatRecord, ...]] = field(init=False)
    finished: Mapping[str, str] = field(init=False)  # how each session ended, by its id
    waiting: list[tuple[int, SeasonPrompt]] = field(default_factory=list)  # run by another process

    def __post_init__(self) -> None:
        self.panels = panels(self.store, self.season.id)
        listed = self.store.sessions(self.season.id, deleted=None)
        self.finished = {row.id: row.status for row in listed if row.status}

    @property
    def is_over(self) -> bool:
        """Return whether to start no more sessions."""
        if self.stop is not None and self.stop.is_set():
            self.progress.stopped = True
        if (watch := self.season.watch) is not None and watch.is_known:
            self.progress.known = watch.sentence
        progress = self.progress
        return progress.stopped or bool(progress.known or progress.out_of_budget)

    async def go_through(self, rows: Iterator[tuple[int, SeasonPrompt]], n_workers: int) -> None:
        """Run the sessions of some rows, `n_workers` at a time."""
        await together(self._work(rows) for _ in range(n_workers))
        self.progress.elsewhere = len(self.waiting)
        self.on_change()

    async def _work(self, rows: Iterator[tuple[int, SeasonPrompt]]) -> None:
        for ordinal, row in rows:
            if self.is_over:
                return
            spec = self.season.session_spec(ordinal, row)
            try:
                ended = await self._session(spec, self.season.config_for(row.category))
            except UnreadableError as error:
                self.progress.unreadable[spec.id] = error.message
                self._show_watch(ordinal, "")
            except SessionTakenError:
                self.waiting.append((ordinal, row))
            except StoppedWaitingError:
                return
            except BudgetError as error:  # sessions that have begun go on as far as they can
                self.progress.out_of_budget = error.message
                self.progress.needs_usd = max(self.progress.needs_usd, error.needs_usd)
            else:
                if ended:
                    self._show_watch(ordinal, spec.id)
                    self.progress.done += 1
                    self.on_change()
                else:
                    self.waiting.append((ordinal, row))

    def _show_watch(self, ordinal: int, session_id: str) -> None:
        """Pass a finished session to the watch, or an empty list if it cannot be read."""
        if self.season.watch is not None:
            self.season.watch.add(ordinal, self.store.events(session_id) if session_id else [])

    async def _session(self, spec: SessionSpec, config: SessionConfig) -> bool:
        """Run a session or its missing part; return False while another process runs it."""
        status = self.finished.get(spec.id, "")
        if status and not newcomers(self.panels.get(spec.id, ()), spec, config):
            self._count_reused(spec.id, status)
            return True
        lease = await self.store.claim(spec.id, f"season {self.season.id}", self.season.lease_s)
        if lease is None:
            return False
        try:
            history = self.store.events(spec.id)
            facts = list(read_events(history))
            ends = [f.status for f in since_extended(facts) if isinstance(f, Finished)]
            status = ends[-1] if ends else ""
            if status and not newcomers(panel_of(facts), spec, config):
                self._count_reused(spec.id, status)  # by another process, in the meantime
            else:
                await self._run(spec, config, history, lease)
        finally:
            self.store.release(lease).add_done_callback(lambda done: done.exception())
        return True

    def _count_reused(self, session_id: str, status: str) -> None:
        self.progress.reused += 1
        if status == "no_quorum":
            self.progress.no_quorum.append(session_id)

    async def _run(
        self, spec: SessionSpec, config: SessionConfig, history: list[Event], lease: Lease
    ) -> None:
        async with self.admit(spec, config, history) as caller:
            if self.is_over:  # while it waited for money
                raise StoppedWaitingError
            view = SessionView.of(history, scoring=config.scoring)
            n_counted = len(view.facts)
            self.progress.in_flight += 1
            try:
                session = run(spec, config, caller, lease, clock=self.clock, extend=True, view=view)
                async with aclosing(session):
                    async for _ in session:
                        n_counted = self.progress.add(view, n_counted)
                        self.on_change()
            finally:
                self.progress.in_flight -= 1
                self.progress.add(view, n_counted)


# -- stored data of a season ---------------------------------------------------------------------


def panels(store: Store, season: str) -> Mapping[str, tuple[SeatRecord, ...]]:
    """Return the seats of each session of a season, by its id."""
    joined: dict[str, list[Fact]] = defaultdict(list)
    for event in store.openings(season):
        with suppress(UnreadableError):  # reported when the session is run
            joined[event.session_id].append(Extended(seats_in(event)))
    return {session_id: panel_of(some) for session_id, some in joined.items()}


def changed_seats(store: Store, season: str, seats: Iterable[Seat]) -> list[str]:
    """Return the names of the seats whose setup has changed since this season began."""
    now = {seat.name: SeatRecord.of(seat) for seat in seats}
    then = {record for panel in panels(store, season).values() for record in panel}
    return sorted(
        {
            record.name
            for record in then
            if record.name in now
            and (record.model, record.setup or now[record.name].setup)
            != (now[record.name].model, now[record.name].setup)
        }
    )


def season_cost(store: Store, season: str) -> tuple[float, int]:
    """Return the known cost of all runs of a season, and the number of calls without a price."""
    listed = store.sessions(season, deleted=None)  # deleted sessions were paid for too
    return sum((one.cost_usd for one in listed), 0.0), sum(one.unpriced_calls for one in listed)


def dearest_session(store: Store, season: str) -> float:
    """Return the cost of the most expensive recent session of a season, or 0."""
    listed = store.sessions(season, limit=N_LATEST)
    return max((one.cost_usd for one in listed if one.status), default=0.0)


class StoredBatches:
    """The batches of a season, stored as documents."""

    def __init__(self, store: Store, season: str) -> None:
        self._store, self._season = store, season

    async def records(self) -> list[BatchRecord]:
        """Return the batches of this season, the oldest first."""
        documents = await asyncio.to_thread(self._store.documents, BATCH)
        return [
            BatchRecord(**{**one.body, "ids": tuple(one.body["ids"])})
            for one in documents
            if one.who == self._season
        ]

    async def keep(self, record: BatchRecord) -> None:
        """Store a batch before anything waits for it."""
        document = StoredDocument(BATCH, record.name, record.at, self._season, asdict(record))
        await finish(asyncio.to_thread(self._store.put_document, document))

    async def drop(self, record: BatchRecord) -> None:
        """Delete a batch that was never created."""
        await finish(asyncio.to_thread(self._store.remove_document, BATCH, record.name))


# -- answers of an earlier season ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderedPrompts:
    """Prompts in a given order."""

    rows: tuple[SeasonPrompt, ...]

    @property
    def n(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[SeasonPrompt]:
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class ReusedAnswers:
    """Prompts with the answers of an earlier season; prompts without answers are left out."""

    prompts: SeasonPrompts
    season: str  # its id
    answers: Mapping[str, Mapping[str, Answer]]  # by question, then by candidate

    @property
    def n(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[SeasonPrompt]:
        for row in self.prompts:
            if row.answers is not None:
                yield row
            elif answers := self.answers.get(row.own_id):
                yield replace(row, answers=answers)


def reused_answers(store: Store, season: str, prompts: SeasonPrompts) -> ReusedAnswers:
    """Return the prompts with the answers of an earlier season, given the start of its id."""
    season = kept_season(store, season)
    answers: dict[str, dict[str, Answer]] = {}
    for listed in store.sessions(season):
        with suppress(UnreadableError):
            session = fold(store.events(listed.id))
            query = Query(session.query.text, images=session.query.images)
            by_model = {response.model: response.answer for response in session.responses}
            answers.setdefault(query.own_id, {}).update(by_model)
    reused = ReusedAnswers(prompts, season, answers)
    if not reused.n:
        raise InputError(
            f"season {season} has no answer to any of these questions.",
            hint="The file must contain the season's questions, word for word.",
        )
    return reused
