"""Seasons of a server: planned from a file, estimated, started, paused and continued.

A plan and its prompts are documents in the store, so that a season continues after a restart and
every server of the store shows it. `season.run_season` runs the sessions.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from peerage import config
from peerage.dry_runs import SeasonEstimate, estimate_season
from peerage.errors import (
    InputError,
    NotAllowedError,
    NotFoundError,
    PeerageError,
    UsageError,
    shown,
)
from peerage.imports.prompt_files import read_row, row_document
from peerage.panel import Council
from peerage.panels import CONFIGURED, panel_settings
from peerage.rejudging import Rejudging, estimate_rejudging, rejudge, report_rejudging
from peerage.reports.options import Options
from peerage.reports.session_options import ClientOptions, RejudgeOptions
from peerage.season import OrderedPrompts, Progress, Season, SeasonPrompt, season_cost
from peerage.service import SEASON_PLAN as KIND
from peerage.service import Service, asking_token, check_own_name
from peerage.stores import SessionEntry, Store, StoredDocument, full_season
from peerage.tasks import end

log = logging.getLogger(__name__)

PROMPTS, NAMES = "prompts", "season name"
MAX_PROMPTS = 20_000
MAX_AT_ONCE = 4  # seasons that run on one server
N_ESTIMATED = 200  # most prompts in a dry run; of a longer list it takes every n-th
MAX_GUIDELINES = 20_000
MAX_NAME = 100

State = Literal["draft", "running", "paused", "done", "stopped"]


class SeasonOptions(Options):
    """Options of a season in the browser; the configuration gives the other options."""

    name: str = Field(default="", max_length=MAX_NAME, description="The name of the season.")
    panel: str = Field(default="", max_length=60, description="The panel; empty: the one in use.")
    rubric: str | None = Field(default=None, description="The rubric, or none.")
    verdict: str | None = Field(default=None, description="The kind of verdict.")
    budget_usd: float | None = Field(default=None, ge=0, description="The most to spend, in USD.")
    concurrency: int = Field(default=8, ge=1, le=64, description="Sessions at a time.")
    batch: bool = Field(
        default=False,
        description="Send calls of many sessions together, at the lower price of batches.",
    )
    guidelines: str = Field(
        default="",
        max_length=MAX_GUIDELINES,
        description="Instructions that people read before they review.",
    )
    repeats: int = Field(
        default=0, ge=0, le=50, description="Percentage of ballots that repeat an earlier one."
    )

    def flags(self) -> dict[str, object]:
        """Return the given session options, by their configuration names."""
        names = ("rubric", "verdict", "budget_usd")
        return ClientOptions(**{name: getattr(self, name) for name in names}).flags()


@dataclass(frozen=True, slots=True)
class SeasonPlan:
    """A season in the browser; a season run by a command has only an id and a name."""

    id: str
    options: SeasonOptions
    state: State
    season: str  # the season id of its sessions; "" before it is started
    n_prompts: int
    by: str
    at: float
    why: str = ""  # the reason why it stopped

    @property
    def name(self) -> str:
        return self.options.name or f"season {(self.season or self.id)[:8]}"

    def body(self) -> dict[str, Any]:
        """Return the plan in the form the store keeps."""
        return {
            "options": self.options.model_dump(exclude_defaults=True),
            "state": self.state,
            "season": self.season,
            "n_prompts": self.n_prompts,
            "why": self.why,
        }


def plan_of(document: StoredDocument) -> SeasonPlan:
    """Return the plan in a document."""
    body = dict(document.body)
    options = SeasonOptions(**body.pop("options"))
    return SeasonPlan(document.name, options, by=document.who, at=document.at, **body)


def list_plans(store: Store) -> list[SeasonPlan]:
    """Return all seasons, latest first: planned here, or run by a command."""
    plans = {plan.id: plan for plan in map(plan_of, store.documents(KIND))}
    known = {plan.season for plan in plans.values()}
    for season in store.seasons():
        if season not in known and not store.is_deleted(season):
            plans[season] = run_elsewhere(store, season)
    listed = [one for one in plans.values() if not (one.season and store.is_deleted(one.season))]
    return sorted(listed, key=lambda plan: (plan.at, plan.id), reverse=True)


def run_elsewhere(store: Store, season: str) -> SeasonPlan:
    """Return the plan of a season that a command ran."""
    entries = store.sessions(season, deleted=None)
    at = entries[0].opened_at if entries else 0.0
    state: State = "paused" if any(not entry.status for entry in entries) else "done"
    document = store.document(NAMES, season)
    options = SeasonOptions(name=document.body["name"] if document else "")
    return SeasonPlan(season, options, state, season, len(entries), "", at)


def keep_season_name(store: Store, season: str, name: str, at: float) -> None:
    """Store the name of a season that a command runs, unless it has a name."""
    if store.document(NAMES, season) is None:
        store.put_document(StoredDocument(NAMES, season, at, "", {"name": name[:MAX_NAME]}))


def find_plan(store: Store, id: str) -> SeasonPlan:
    """Return the plan with this id, or of the season whose id begins with this text."""
    document = store.document(KIND, id)
    if document is not None:
        return plan_of(document)
    season = full_season(store, id)
    plans = [plan for plan in map(plan_of, store.documents(KIND)) if plan.season == season]
    return plans[0] if plans else run_elsewhere(store, season)


def season_names(store: Store, seasons: Iterable[str]) -> dict[str, str]:
    """Return the name of each season, by the id of its sessions."""
    plans = {plan.season: plan for plan in map(plan_of, store.documents(KIND))}
    return {id_: (plans.get(id_) or run_elsewhere(store, id_)).name for id_ in seasons}


def rename_season(store: Store, id: str, name: str, by: str) -> SeasonPlan:
    """Rename a season; if a command ran it, only the name is stored."""
    plan = find_plan(store, id)
    options = SeasonOptions(**{**plan.options.model_dump(exclude_defaults=True), "name": name})
    plan = replace(plan, options=options)
    if store.document(KIND, plan.id) is None:
        store.put_document(StoredDocument(NAMES, plan.id, plan.at, by, {"name": options.name}))
        return plan
    return _keep(store, plan, by)


def _keep(store: Store, plan: SeasonPlan, by: str = "") -> SeasonPlan:
    store.put_document(StoredDocument(KIND, plan.id, plan.at, plan.by or by, plan.body()))
    return plan


def stored_prompts(store: Store, plan: SeasonPlan) -> OrderedPrompts:
    """Return the prompts of a plan."""
    document = store.document(PROMPTS, plan.id)
    if document is None:
        raise UsageError(
            "the prompts of this season are not in the store.",
            hint="A command ran it: continue it with `peerage run`.",
        )
    return OrderedPrompts(tuple(read_row(row) for row in document.body["rows"]))


@dataclass(slots=True, eq=False)
class RunningSeason:
    """A season that runs on this server."""

    progress: Progress
    began: float
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class SeasonHost:
    """The seasons of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.running: dict[str, RunningSeason] = {}

    async def create(
        self, rows: Sequence[SeasonPrompt], options: SeasonOptions, by: str
    ) -> SeasonPlan:
        """Store a plan with its prompts; nothing runs yet."""
        if not rows:
            raise InputError("there are no prompts in this file.")
        if len(rows) > MAX_PROMPTS:
            raise InputError(f"a season on a server may have at most {MAX_PROMPTS:,} prompts.")
        await self._check_answers(rows)
        now, id_ = self.service.clock(), secrets.token_hex(6)
        plan = SeasonPlan(id_, options, "draft", "", len(rows), by, now)
        await self._council(plan)  # refuses options that no session could have
        documents = {"rows": [row_document(row) for row in rows]}
        prompts = StoredDocument(PROMPTS, id_, now, by, documents)
        await self.service.read(self.service.store.put_document, prompts)
        return await self.service.read(_keep, self.service.store, plan)

    async def _check_answers(self, rows: Iterable[SeasonPrompt]) -> None:
        """Refuse given answers named like a seat, unless an admin gives them."""
        await self.service.check_answer_names({name for row in rows for name in row.answers or {}})

    async def _own_plan(self, id: str) -> SeasonPlan:
        """Return the plan of a season that the current token may change."""
        plan = await self.service.read(find_plan, self.service.store, id)
        check_own_name(f"season {plan.name}", plan.by)
        return plan

    async def rename(self, id: str, name: str, by: str) -> SeasonPlan:
        """Give a season another name."""
        await self._own_plan(id)
        return await self.service.read(rename_season, self.service.store, id, name, by)

    async def change(self, id: str, options: SeasonOptions) -> SeasonPlan:
        """Change the options of a season; after its start, panel, rubric and verdict stay."""
        plan = await self._own_plan(id)
        fixed = ("panel", "rubric", "verdict")
        if plan.state != "draft":
            fixed_values = {name: getattr(plan.options, name) for name in fixed}
            options = options.model_copy(update=fixed_values)
        plan = replace(plan, options=options)
        if plan.state == "draft":
            await self._council(plan)
        return await self.service.read(_keep, self.service.store, plan)

    async def add_prompt(self, id: str, row: SeasonPrompt) -> SeasonPlan:
        """Add one prompt to a season; a finished season can then continue."""
        store = self.service.store
        plan = await self._own_plan(id)
        if id in self.running:
            raise UsageError("this season is running.", hint="Pause it first.")
        await self._check_answers([row])
        prompts = await self.service.read(stored_prompts, store, plan)
        if any(one.id == row.id or one.query == row.query for one in prompts):
            raise UsageError("this season already has that prompt.")
        rows = [row_document(one) for one in (*prompts, row)]
        now = self.service.clock()
        await self.service.read(
            store.put_document, StoredDocument(PROMPTS, plan.id, now, plan.by, {"rows": rows})
        )
        state: State = "paused" if plan.state == "done" else plan.state
        return await self.service.read(
            _keep, store, replace(plan, n_prompts=len(rows), state=state)
        )

    async def _council(self, plan: SeasonPlan) -> Council:
        """Return the council of a plan: its panel and its options."""
        service, store = self.service, self.service.store
        if plan.options.panel in ("", CONFIGURED):
            settings = service.settings if not plan.options.panel else service.configured
        else:
            settings = await service.read(
                panel_settings, store, service.configured, plan.options.panel
            )
        settings = config.with_flags(settings, plan.options.flags())
        return Council(settings, store=store)

    async def estimate(self, id: str) -> dict[str, Any]:
        """Return the remaining calls and price of a season; no model is called."""
        store = self.service.store
        plan = await self.service.read(find_plan, store, id)
        council = await self._council(plan)
        prompts = await self.service.read(stored_prompts, store, plan)
        every = -(-prompts.n // N_ESTIMATED)
        some = OrderedPrompts(prompts.rows[::every])

        def work() -> dict[str, Any]:
            council.check_prompts(prompts)
            season = _season(council, plan, keep=False)

            async def run() -> dict[str, Any]:
                seats, batch = council.settings.seats, plan.options.batch
                estimate = await estimate_season(season, some, store, seats, in_batches=batch)
                estimate.progress.earlier_cost_usd, _ = season_cost(store, season.id)
                return estimate.document()

            document = asyncio.run(run())
            return {**document, "note": council.vote_note(prompts)}

        document = await self.service.read(work)
        return _scale_estimate(document, prompts.n, some.n, council.settings.council.budget_usd)

    async def start(self, id: str) -> SeasonPlan:
        """Start the remaining sessions of a season; other servers may run some of them too."""
        service, store = self.service, self.service.store
        _refuse_budgets("run a season")
        plan = await self._own_plan(id)
        if plan.id in self.running:
            return plan
        if len(self.running) >= MAX_AT_ONCE:
            raise UsageError(
                f"{MAX_AT_ONCE} seasons are running, which is the maximum.",
                hint="Pause one, or wait.",
            )
        prompts = await service.read(stored_prompts, store, plan)
        council = await self._council(plan)
        await service.read(council.check_prompts, prompts)
        season = await service.read(partial(_season, council, plan, keep=True))
        plan = replace(plan, state="running", season=season.id, why="")
        await service.read(_keep, store, plan)
        running = RunningSeason(Progress(prompts.n), time.monotonic())
        self.running[plan.id] = running
        running.task = asyncio.create_task(self._run(plan, council, season, prompts, running))
        return plan

    async def _run(
        self,
        plan: SeasonPlan,
        council: Council,
        season: Season,
        prompts: OrderedPrompts,
        running: RunningSeason,
    ) -> None:
        state: State = "paused"
        why = ""
        try:
            async with _keep_open(council):
                progress = await council.run_season(
                    season,
                    prompts,
                    concurrency=plan.options.concurrency,
                    batch=plan.options.batch,
                    progress=running.progress,
                    stop=running.stop,
                )
            if progress.out_of_budget:
                state, why = "stopped", progress.out_of_budget
            elif progress.complete:
                state = "done"
            elif progress.unreadable and not progress.stopped:
                state, why = "stopped", next(iter(progress.unreadable.values()))
        except PeerageError as error:
            log.warning("season stopped: %s", error)
            state, why = "stopped", f"{error.message} {error.hint}".strip()
        finally:
            del self.running[plan.id]
        latest = await self.service.read(find_plan, self.service.store, plan.id)
        await self.service.read(_keep, self.service.store, replace(latest, state=state, why=why))

    async def pause(self, id: str) -> SeasonPlan:
        """Start no more sessions of a season; those that are running go on to their end."""
        plan = await self._own_plan(id)
        running = self.running.get(plan.id)
        if running is None:
            if plan.state == "running":  # on another server, or on one that has stopped
                plan = replace(plan, state="paused")
                await self.service.read(_keep, self.service.store, plan)
            return plan
        running.stop.set()
        return plan

    async def resume(self) -> None:
        """Continue the seasons that were running when the server stopped."""
        for document in await self.service.read(self.service.store.documents, KIND):
            plan = plan_of(document)
            if plan.state == "running" and len(self.running) < MAX_AT_ONCE:
                try:
                    await self.start(plan.id)
                except PeerageError as error:
                    why = f"{error.message} {error.hint}".strip()
                    stopped = replace(plan, state="stopped", why=why)
                    await self.service.read(_keep, self.service.store, stopped)

    async def close(self) -> None:
        """End the running seasons; they stay marked as running, and continue at the next start."""
        await end([one.task for one in self.running.values() if one.task is not None])

    def status(self, plan: SeasonPlan, entries: Sequence[SessionEntry]) -> dict[str, Any]:
        """Return the progress of a season: counts, rate, time left, cost, failures by kind."""
        running = self.running.get(plan.id)
        n_done = sum(bool(entry.status) for entry in entries)
        document: dict[str, Any] = {
            "state": plan.state if running or plan.state != "running" else "interrupted",
            "total": max(plan.n_prompts, len(entries)),
            "done": n_done,
            "in_flight": 0,
            "no_quorum": sum(entry.status == "no_quorum" for entry in entries),
            "cost_usd": sum(entry.cost_usd for entry in entries),
            "unpriced_calls": sum(entry.unpriced_calls for entry in entries),
            "per_minute": None,
            "seconds_left": None,
            "failures": {},
            "why": plan.why,
        }
        if running is not None:
            progress = running.progress
            fresh = progress.done - progress.reused
            rate = fresh / max(1e-9, time.monotonic() - running.began)
            document |= {
                "state": "pausing" if running.stop.is_set() else "running",
                "in_flight": progress.in_flight,
                "per_minute": 60 * rate,
                "seconds_left": (progress.total - progress.done) / rate if fresh else None,
                "failures": _by_kind(progress.failures),
            }
        return document


def _by_kind(failures: Mapping[tuple[str, str, str], int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for (_, _, kind), n in failures.items():
        counts[kind] = counts.get(kind, 0) + n
    return counts


def _season(council: Council, plan: SeasonPlan, *, keep: bool) -> Season:
    """Return the season of a plan; once started, it keeps its id and refuses changed seats."""
    if plan.season and next(council.store.openings(plan.season), None) is not None:
        return council.begun_season(plan.season)
    return council.season(f"plan {plan.id}", keep=keep)


def _scale_estimate(
    document: dict[str, Any], n: int, n_sampled: int, budget_usd: float | None
) -> dict[str, Any]:
    """Return the estimate for all prompts, scaled up from the estimate for a sample."""
    factor = n / n_sampled
    numbers = ("calls", "answer", "commit", "review", "conclude", "tokens_in", "tokens_out")
    costs = ("cost_usd", "at_most_usd", "unpriced_calls")

    def scale(part: dict[str, Any]) -> dict[str, Any]:
        whole = {name: round(part[name] * factor) for name in numbers if name in part}
        some = {name: part[name] * factor for name in costs if part.get(name) is not None}
        return {**part, **whole, **some}

    seats = [scale(seat) for seat in document["seats"]]
    whole = scale({**document, "seats": seats})
    return {**whole, "sessions": n, "estimated_from": n_sampled, "budget_usd": budget_usd}


def _refuse_budgets(what: str) -> None:
    """Refuse a token with a budget, because money is reserved for single sessions only."""
    token = asking_token.get()
    if token is not None and token.budget_usd is not None:
        raise NotAllowedError(
            f"a token with a budget cannot {what}.",
            hint="Use a token without one, and give budget_usd.",
        )


async def rejudge_season(service: Service, options: RejudgeOptions) -> Rejudging | SeasonEstimate:
    """Have other judges review the stored answers of a season, or estimate what that would cost.

    Without judges, no model is called, and the report on earlier re-judgings is returned.
    """
    plans = await service.read(list_plans, service.store)
    season = next((plan.season for plan in plans if plan.id == options.season), options.season)
    options = options.model_copy(update={"season": season or options.season})
    if not options.judges:
        return await service.read(report_rejudging, service.store, service.settings, options.season)
    flags = {"council.budget_usd": options.budget_usd}
    council = Council(config.with_flags(service.settings, flags), store=service.store)
    if options.dry_run:
        return await service.read(lambda: asyncio.run(estimate_rejudging(council, options)))
    _refuse_budgets("have a season judged again")
    plan = await service.read(find_plan, service.store, options.season)
    check_own_name(f"season {plan.name}", plan.by)
    async with _keep_open(council):
        return await rejudge(council, options, service.clock)


@asynccontextmanager
async def _keep_open(council: Council) -> AsyncIterator[None]:
    """Keep the connections of a council open, and close them at the end; its store stays open."""
    council.is_held = True
    try:
        yield
    finally:
        await council.caller.close()


def check_deletable(store: Store, host: SeasonHost, id: str) -> SeasonPlan:
    """Return the plan of a season, or raise an error if it is running."""
    plan = find_plan(store, id)
    if plan.id in host.running:
        raise UsageError("this season is running.", hint="Pause it first.")
    return plan


def remove_draft(store: Store, plan: SeasonPlan) -> bool:
    """Delete a season that never ran; return False if it has sessions."""
    if plan.season and store.sessions(plan.season, 1, deleted=None):
        return False
    if not store.remove_document(KIND, plan.id):
        raise NotFoundError(f"there is no season {shown(plan.id)}.")
    store.remove_document(PROMPTS, plan.id)
    return True
