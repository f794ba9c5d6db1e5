"""`Council`: the seats, options, budget and store of a configuration.

It asks one question, or runs a season. (Its pure parts, from prompts to counting ballots, are in
the package `council/`.)
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import socket
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from peerage import config
from peerage.arguments import (
    AMOUNT,
    FLAG,
    MAPPING,
    PATH,
    TEXT,
    TEXTS,
    check_arguments,
    instance,
    optional,
    sequence_of,
)
from peerage.bills import billed_calls
from peerage.config.recorded import recorded_council
from peerage.council.safety import moderators
from peerage.dry_runs import SeatEstimate, SessionCosts, estimate_session
from peerage.errors import ConfigError, UnreadableError, shown
from peerage.event_facts import opening_of
from peerage.events import read_events, stored_event
from peerage.panel_probabilities import panel_record
from peerage.providers.batches import Batches, BatchPlan
from peerage.providers.calling import Caller, check_ready, refuse_unpriced
from peerage.providers.money import Budget, usd
from peerage.providers.simulated import RecordedLog, register_log_reader
from peerage.reports.session_options import CouncilOptions, SessionOptions
from peerage.scoring import check_options
from peerage.season import (
    Progress,
    Season,
    SeasonPrompts,
    StoredBatches,
    changed_seats,
    dearest_session,
    run_season,
    season_cost,
)
from peerage.seating import (
    JUDGES_GIVEN,
    NO_ANSWERS,
    NOT_IDENTITY,
    how_to_seat,
    named_options,
    new_spec,
    query_of,
    resumed_session,
    seed_of,
    session_config_of,
    settings_of,
)
from peerage.session import run
from peerage.session_config import (
    OUTSIDER,
    SessionConfig,
    SessionSpec,
    opening,
    vote_fault,
    vote_note,
)
from peerage.stores import (
    Lease,
    SessionTakenError,
    Store,
    StoreError,
    full_id,
    kept_season,
    open_store,
)
from peerage.tasks import LoopThread, finish
from peerage.types import (
    Event,
    Image,
    OutputFormat,
    Seat,
    Session,
    Turn,
    TypedQuestion,
)
from peerage.view import SessionView, fold

T = TypeVar("T")

COUNTED_VOTES = (
    f"Add {OUTSIDER}, or a third seat that answers, or ask for no verdict (verdict none)."
)


@register_log_reader
def _open_log(url: str) -> RecordedLog:
    """Return the current state of a log, for seats that replay it."""
    store = open_store(url)
    state = f"{store.place} {store.origin('reviews')} {store.version()}"
    return RecordedLog(url, state, partial(_histories, url))


def _histories(url: str) -> Iterator[list[Event]]:
    """Yield the events of every readable session of a log."""
    store = open_store(url)
    for listed in store.sessions():
        with suppress(UnreadableError):
            events = store.events(listed.id)
            fold(events)
            yield events


class NoVotesError(ConfigError):
    """No review of this panel could count, so nothing would be ranked."""


SEATS = sequence_of("a list of Seat", Seat, hint='As in seats=[Seat("a"), Seat("b")].')
SETTINGS = instance(
    "Settings",
    config.Settings,
    hint="Council(seats=[…]) takes seats, Council.from_config(path) reads a file.",
)
ASK_KINDS = {
    "text": TEXT,
    "category": TEXT,
    "live": FLAG,
    "seats": optional(TEXTS),
    "system": TEXT,
    "earlier": sequence_of("a list of Turn", Turn, hint='As in [Turn("user", "Why?")].'),
    "after": TEXT,
    "answers": MAPPING._replace(words="a mapping of names to texts or messages"),
    "images": sequence_of(
        "a list of paths or URLs", str, Mapping, Image, Path, hint='As in [Path("chart.png")].'
    ),
    "budget_usd": AMOUNT,
    "output": instance("an OutputFormat", OutputFormat),
    "questions": sequence_of("a list of TypedQuestion", TypedQuestion),
    "metadata": optional(MAPPING),
    "resume": TEXT,
}


class BegunSession(NamedTuple):
    """A session that is ready to run: its events, and a lease to release at its end."""

    lease: Lease
    history: list[Event]  # those in the log already
    events: AsyncGenerator[Event, None]
    budget: Budget  # of this session, or the council's if it has none of its own
    view: SessionView  # kept up to date as the session runs


class Council:
    """Seats that answer and review each other, and the store for their sessions.

    As a context manager, async or plain, it keeps connections open between questions. Without one,
    they are closed after each question.
    """

    @check_arguments(
        CouncilOptions,
        settings=optional(SETTINGS),
        store=optional(instance("a store or its URL", str, Store)),
        seats=SEATS,
        needs_seats=FLAG,
    )
    def __init__(
        self,
        settings: config.Settings | None = None,
        store: Store | str | None = None,
        *,
        seats: Sequence[Seat] = (),
        needs_seats: bool = True,
        **options: Any,
    ) -> None:
        """Make a council from settings, or from seats in code: `Council(seats=[Seat("a"), …])`.

        Seats and options given here replace those of the settings. With seats and no settings,
        neither a file nor the environment is read. The store is a `Store` or its URL. With
        `needs_seats=False` it may start without seats, and refuses questions until it has some.
        """
        flags = CouncilOptions.of(options).flags()
        flags["store"] = store if isinstance(store, str) else None
        if seats:
            flags["seat"] = [asdict(seat) for seat in seats]
        self.settings = config.with_flags(settings or config.Settings(), flags)
        if needs_seats:
            self._check_seats()
        check_options(self.settings.scoring_options())
        moderators.get(self.settings.council.moderator)
        self.caller = Caller(
            self.settings.seats,
            budget_usd=self.settings.council.budget_usd,
            place_by_seat=self.settings.place_by_seat,
        )
        if store is None or isinstance(store, str):
            store = open_store(self.settings.store, self.settings.data)
        self.store = store
        self.allows_unranked = False  # whether to run sessions in which no vote can count
        self.role = "ask"  # the purpose of its sessions, written into their leases
        self.session_config = lru_cache(maxsize=256)(partial(session_config_of, self.settings))
        self._thread: LoopThread | None = None
        self.is_held = False  # connections stay open until it is closed
        self._n_running = 0

    def _check_seats(self) -> None:
        if not self.settings.seats:
            raise ConfigError("there are no seats to ask.", hint=how_to_seat(self.settings))

    @classmethod
    @check_arguments(path=optional(PATH), flags=MAPPING)
    def from_config(
        cls, path: str | Path | None = None, flags: Mapping[str, object] = config.NO_FLAGS
    ) -> Council:
        """Return the council of a configuration file; flags are options by dotted name."""
        return cls(settings_of(path, flags))

    async def __aenter__(self) -> Council:
        self.is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Council:
        self.is_held, self._thread = True, LoopThread()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    async def prepare(self) -> None:
        """Load the rules and in-process models, so that the first session need not wait."""
        with suppress(ConfigError):  # reported when a question is asked
            self.session_config("")
        await self.caller.prepare(self.settings.seats)

    async def close(self) -> None:
        await self.caller.close()
        await self.store.close()

    def close_sync(self) -> None:
        """Close from a script that uses `ask_sync`."""
        try:
            self._run_sync(self.close())
        finally:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.close()

    def _run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work on this council's own thread, or on a new one."""
        if self._thread is not None:
            return self._thread.run(work)
        with closing(LoopThread()) as thread:
            return thread.run(work)

    @check_arguments(SessionOptions, **ASK_KINDS)
    async def ask(self, text: str = "", category: str = "", **options: Any) -> Session:
        """Run one session to its end, with the options of `peerage ask`, and return it."""
        async with self.begun(text, category, **options) as begun:
            async for _ in begun.events:
                pass
            return begun.view.session

    @check_arguments(SessionOptions, **ASK_KINDS)
    def ask_sync(self, text: str = "", category: str = "", **options: Any) -> Session:
        """Do the same as `ask` without async; it also works inside a running event loop.

        Sessions run one after another on a separate thread; do not mix it with `ask`.
        """
        return self._run_sync(self.ask(text, category, **options))

    @check_arguments(SessionOptions, **ASK_KINDS)
    async def run(
        self,
        text: str = "",
        category: str = "",
        *,
        live: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Event, None]:
        """Run one session, and yield its events as they happen.

        For a resumed session, earlier events come first. With `live` there are also events that are
        not stored: calls, pieces of text, and reasons for waiting.
        """
        async with self.begun(text, category, live=live, **options) as begun:
            for event in begun.history:
                yield event
            async for event in begun.events:
                yield event

    @asynccontextmanager
    async def begun(
        self,
        text: str = "",
        category: str = "",
        *,
        live: bool = False,
        **options: Any,
    ) -> AsyncIterator[BegunSession]:
        """Open or resume a session that runs as its events are read; finally release its lease."""
        if options.get("resume") is not None:
            begun = await self.resume(text, live=live, **options)
        else:
            begun = await self.open(text, category, live=live, **options)
        try:
            async with aclosing(begun.events):
                yield begun
        finally:
            await self._release(begun.lease)

    async def open(
        self,
        text: str,
        category: str = "",
        *,
        live: bool = False,
        by: str = "",
        id_: str = "",
        **options: Any,
    ) -> BegunSession:
        """Create a session in the log; it runs as its events are read.

        A session whose events are not read to the end can be resumed. An id that another process
        has used is refused; without one it is drawn.
        """
        chosen = SessionOptions.of({"category": category, **options})
        spec, session_config = self._new_session(text, chosen, by, id_)
        if spec.budget_usd is not None:
            refuse_unpriced(session_config.seats)
        opened = stored_event(spec.id, 0, time.time(), opening(spec, session_config))
        lease = await self._claim(spec.id)
        if id_ and await asyncio.to_thread(self.store.last_place, id_) >= 0:
            await self._release(lease)
            raise SessionTakenError(f"session {id_} exists already.")
        await lease.append(opened)
        return self._begin(spec, session_config, [opened], live, lease)

    async def cost_bound_usd(self, text: str, category: str = "", **options: Any) -> float | None:
        """Return the most that a session must reserve; None if a price is not known.

        This is the maximum cost of its calls plus the amounts reserved while each seat has a call
        in flight.
        """
        seats = await self.estimate(text, **{**options, "category": category})
        if any(seat.price is None and seat.calls for seat in seats):
            return None
        return usd(sum(seat.at_most + seat.dearest_call for seat in seats))

    async def resume(self, text: str = "", *, live: bool = False, **options: Any) -> BegunSession:
        """Take over a session that no process runs any more; it runs as its events are read."""
        chosen = SessionOptions.of(options)
        id_ = await asyncio.to_thread(full_id, self.store, chosen.resume or "")
        lease = await self._claim(id_)
        try:
            history = await asyncio.to_thread(self.store.events, id_)
            spec, session_config = resumed_session(self.settings, self.store, text, chosen, history)
            if spec.budget_usd is not None:
                refuse_unpriced(session_config.seats)
        except BaseException:
            await self._release(lease)
            raise
        return self._begin(spec, session_config, history, live, lease)

    async def _release(self, lease: Lease) -> None:
        with suppress(StoreError):  # then the lease expires
            await finish(self.store.release(lease))

    async def _claim(self, session_id: str) -> Lease:
        """Return the lease of a session; raise an error if another process holds it."""
        owner = f"{self.role} {socket.gethostname()} {os.getpid()}"
        lease = await self.store.claim(session_id, owner, self.settings.lease_s)
        if lease is None:
            raise SessionTakenError(
                f"another process is running session {session_id}.",
                hint="Wait until it ends, or follow it.",
            )
        return lease

    def _begin(
        self,
        spec: SessionSpec,
        session_config: SessionConfig,
        history: list[Event],
        live: bool,
        lease: Lease,
    ) -> BegunSession:
        """Return a session that continues after its history as its events are read."""
        caller = self.caller
        if spec.budget_usd is not None:
            costs = (call.cost_usd or 0.0 for call in billed_calls(read_events(history)))
            caller = caller.within(spec.budget_usd, sum(costs))
        view = SessionView.of(history, self.settings, session_config.scoring)
        session = run(spec, session_config, caller, lease, clock=time.time, live=live, view=view)
        return BegunSession(lease, history, self._events(session), caller.budget, view)

    async def _events(self, session: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Yield the events of a session; then close connections that no session uses."""
        self._n_running += 1
        try:
            async with aclosing(session):
                async for event in session:
                    yield event
        finally:
            self._n_running -= 1
            if not self.is_held and not self._n_running:
                await finish(self.caller.close())

    def _new_session(
        self, text: str, options: SessionOptions, by: str, id_: str = ""
    ) -> tuple[SessionSpec, SessionConfig]:
        """Return a new session and its configuration."""
        self._check_seats()
        settings = self.settings
        if options.seats is not None:
            settings = config.with_seats(settings, options.seats)
        flags = {**options.flags(), "council.budget_usd": None}  # in the spec instead
        settings = config.with_flags(settings, flags)
        after = full_id(self.store, options.after) if options.after else ""
        before = SessionView.of(self.store.events(after), self.settings) if after else None
        spec = new_spec(settings, query_of(text, options, before), options, after, by, id_)
        unchanged = settings is self.settings
        make = self.session_config if unchanged else partial(session_config_of, settings)
        session_config = make(spec.query.category)
        if spec.query.questions:
            names = [seat.name for seat in session_config.seats_that("review")]
            record = panel_record(self.store, names)
            return spec, replace(session_config, panel_record=record)
        self._check_votes(vote_fault(session_config, spec.answers))
        return spec, session_config

    async def estimate(self, text: str, **options: Any) -> tuple[SeatEstimate, ...]:
        """Return the estimated calls of a session, by seat; no model is called."""
        spec, session_config = self._new_session(text, SessionOptions.of(options), "")
        return await estimate_session(session_config.seats, spec, session_config)

    def _check_votes(self, fault: str) -> None:
        """Raise an error for reviews that cannot count, unless the user agreed to pay for them."""
        if fault and not self.allows_unranked:
            raise NoVotesError(fault, place="[[seat]]", hint=COUNTED_VOTES)

    @check_arguments(name=TEXT, keep=FLAG)
    def season(self, name: str, *, keep: bool = True) -> Season:
        """Return the season of that name under these options; its seed is drawn once.

        With `keep` the seed is stored. Seats are not part of a season's identity: seats that join
        later are asked for what is missing. If a seat's model or options have changed, or the
        season was deleted, a new season starts under the same name.
        """
        council = self.settings.council
        changed: list[str] = []
        for number in itertools.count():
            identity = [
                name,
                named_options(council),
                dict(self.settings.rubric_by_category),
                number,
            ]
            text = json.dumps(identity, sort_keys=True, default=str)
            id_ = hashlib.sha256(text.encode()).hexdigest()[:16]
            before, changed = changed, changed_seats(self.store, id_, self.settings.seats)
            if not (changed or self.store.is_deleted(id_)):
                break
        seed = (
            self.store.season_seed(id_, seed_of(self.settings)) if keep else str(council.seed or 0)
        )
        return Season(id_, seed, self.session_config, tuple(before), self.settings.lease_s)

    @check_arguments(beginning=TEXT)
    def begun_season(self, beginning: str) -> Season:
        """Return the season whose id begins with this text, to continue it with these options.

        Its seats and options must not have changed; seats may have joined.
        """
        id_ = kept_season(self.store, beginning)
        opened = opening_of([next(self.store.openings(id_))])
        config = self.session_config(opened.query.category)
        place, again = f"season {id_}", "Restore that configuration, or omit --season."
        recorded = recorded_council(opened, config.council)
        for name in type(recorded).model_fields:
            then, now = getattr(recorded, name), getattr(config.council, name)
            if then != now and name not in NOT_IDENTITY:
                message = (
                    f"the season was started with {name} = {shown(str(then))}, not "
                    f"{shown(str(now))}."
                )
                raise ConfigError(message, place=place, hint=again)
        if self.settings.council.seed is not None and seed_of(self.settings) != opened.seed:
            raise ConfigError(
                f"the season was started with seed = {opened.seed}.", place=place, hint=again
            )
        if changed := changed_seats(self.store, id_, self.settings.seats):
            message = f"these seats had another model or other options: {', '.join(changed)}."
            raise ConfigError(message, place=place, hint=again)
        return Season(id_, opened.seed, self.session_config, (), self.settings.lease_s)

    async def run_season(
        self,
        season: Season,
        prompts: SeasonPrompts,
        *,
        concurrency: int,
        progress: Progress,
        on_change: Callable[[], None] = lambda: None,
        stop: asyncio.Event | None = None,
        batch: bool = False,
    ) -> Progress:
        """Run a season; the cost of its earlier runs counts towards its budget.

        With a budget, a session starts only if there is money for all of it. With `batch`, calls of
        many sessions are sent together, if an endpoint supports batches.
        """
        self.check_prompts(prompts)
        check_ready(self.settings.seats)
        if batch:
            return await self._run_batches(
                season, prompts, progress=progress, on_change=on_change, stop=stop
            )
        return await self._run_sessions(
            self.caller, season, prompts, concurrency, progress, on_change, stop
        )

    async def _run_batches(
        self,
        season: Season,
        prompts: SeasonPrompts,
        *,
        progress: Progress,
        on_change: Callable[[], None],
        stop: asyncio.Event | None,
    ) -> Progress:
        """Run a season in batches; its stages have no time limit."""
        options = self.settings.batch
        is_patient = options.failures == "wait"
        plan = BatchPlan(options.size, is_patient, options.gather_s, options.poll_s)
        batches = Batches(StoredBatches(self.store, season.id), plan, on_change=on_change)
        progress.batches, progress.batch_notes = batches.states, batches.notes

        def without_limits(category: str) -> SessionConfig:
            return season.config_for(category).with_options(deadline_s=None, early_stop=False)

        try:
            return await self._run_sessions(
                self.caller.in_batches(batches),
                replace(season, config_for=without_limits),
                prompts,
                options.size,
                progress,
                on_change,
                stop,
            )
        finally:
            await finish(batches.close())

    async def _run_sessions(
        self,
        caller: Caller,
        season: Season,
        prompts: SeasonPrompts,
        concurrency: int,
        progress: Progress,
        on_change: Callable[[], None],
        stop: asyncio.Event | None,
    ) -> Progress:
        """Run the sessions of a season within its budget."""
        budget_usd, admit = self.settings.council.budget_usd, None
        costs: SessionCosts | None = None
        if budget_usd is not None:
            progress.earlier_cost_usd, _ = season_cost(self.store, season.id)
            caller = caller.within(budget_usd, progress.earlier_cost_usd)
            dearest_usd = dearest_session(self.store, season.id)
            costs = SessionCosts(self.settings.seats, dearest_usd)
            admit = partial(costs.admit, caller)
        ended = await run_season(
            season,
            prompts,
            caller,
            self.store,
            concurrency=concurrency,
            clock=time.time,
            progress=progress,
            on_change=on_change,
            stop=stop,
            admit=admit,
        )
        if costs is not None and ended.out_of_budget:  # all sessions have ended, so costs are known
            ended.needs_usd = max(ended.needs_usd, costs.one_more_usd)
        return ended

    def vote_note(self, prompts: SeasonPrompts) -> str:
        """Return a note if nothing would be ranked or one vote decides, else an empty text."""
        first = next(iter(prompts), None)
        return vote_note(self.session_config(""), first.answers) if first is not None else ""

    def check_prompts(self, prompts: SeasonPrompts) -> None:
        """Raise an error for prompts that no seat would answer, or on which no vote could count."""
        self._check_seats()
        if not self.settings.seats_that("answer") and any(row.answers is None for row in prompts):
            raise ConfigError(NO_ANSWERS, place="[[seat]]", hint=JUDGES_GIVEN)
        faults = (vote_fault(self.session_config(row.category), row.answers) for row in prompts)
        first = next(faults, "")
        if first and all(faults):
            self._check_votes(first)
