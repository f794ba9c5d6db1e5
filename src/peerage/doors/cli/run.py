"""`peerage run`: a season, with progress while it goes and a summary at its end."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from peerage.doors.cli.common_options import WITH_NO, Common, confirm_unranked, open_terminal
from peerage.doors.cli.gate_commands import Prereg, register
from peerage.doors.cli.screen import INTERRUPTED, PARTIAL, say, write_json, write_line
from peerage.doors.render.layout import TableColumn, TextTable
from peerage.doors.render.phrases import money
from peerage.dry_runs import SeasonEstimate, estimate_season
from peerage.errors import BudgetError, UsageError, few, how_many, meant, shown
from peerage.hosted_seasons import keep_season_name
from peerage.imports.prompt_files import open_prompts
from peerage.panel import Council, NoVotesError
from peerage.reports.gate_files import bar_document
from peerage.reports.query_orders import read_season_order
from peerage.reports.session_options import RunOptions
from peerage.reports.stopping import SeasonWatch, StoppingRule, check_until, count_by_query
from peerage.reviews.rows import unit_of
from peerage.scoring import recorded_rubric
from peerage.season import (
    OrderedPrompts,
    Progress,
    Season,
    SeasonPrompts,
    reused_answers,
    season_cost,
)
from peerage.stats.bets import expected_queries
from peerage.stores import NO_STORE, Store, missing_file

LEAVE = "finishing the running sessions; press Ctrl-C again to leave now."
LEAVE_BATCHES = (
    "waiting for the running sessions; press Ctrl-C again to leave now. Sent batches continue, "
    "and the same command picks them up."
)
REFRESH_S = 0.2
PLAIN_LINE_EVERY_S = 10.0
N_SESSIONS_SHOWN = 3
N_NOTES_SHOWN = 10
USUAL_SD = 0.35  # standard deviation of differences by query, with five models and four judges


def run(
    prompts: Annotated[Path, Parameter(help="JSONL, CSV or Parquet with a query column.")],
    /,
    *,
    options: Annotated[RunOptions, WITH_NO] = RunOptions(),
    prereg: Prereg = None,
    common: Common = Common(),
) -> int:
    """Run a session for every row of a file; the exit code says how the season ended."""
    rows: SeasonPrompts = open_prompts(prompts)
    n_in_file = rows.n
    _check_options(options, prereg)
    settings = common.council_settings(options.flags())
    name = prompts.name if options.resume else f"{prompts.name} of {datetime.now(UTC):%F %T.%f}"
    # An estimate creates no file: if there is no store, an empty one in memory is read.
    is_missing = options.dry_run and missing_file(settings.store) is not None
    council = Council(settings, store=NO_STORE if is_missing else settings.store)
    if options.reuse_answers:
        rows = reused = reused_answers(council.store, options.reuse_answers, rows)
        name = f"{name} with answers of {reused.season}"
        if rows.n < n_in_file:
            have = how_many(n_in_file, "row has", "rows have")
            say(f"{n_in_file - rows.n} of {have} no answers in that season and are left out.")
    council.allows_unranked = options.dry_run or _is_unranked_allowed(council, rows)
    if note := council.vote_note(rows):
        say(note)
    if options.dry_run:
        show_estimate(council, asyncio.run(_estimate(council, name, rows, options)), common)
        return 0
    progress = Progress(rows.n)
    watch = None
    if options.until:
        watch = watch_season(council, rows, options)
        if prereg is not None:
            rule = watch.rule
            register(prereg, bar_document(rule.bar, rule.own_votes, rule.suite), common)
        if not common.quiet and options.until == "decided":
            n = expected_queries(USUAL_SD, options.margin)
            say(f"if the two models are equal, a verdict usually takes about {n:,} queries.")
    season = asyncio.run(_run_season(council, name, rows, progress, options, common.quiet, watch))
    if common.json:
        write_json(summary(progress, season))
    else:
        _show(progress, season)
        if watch is not None and progress.complete and not progress.known:
            say(f"undecided after {how_many(watch.n_queries, 'query', 'queries')}.")
        if line := go_on_line(prompts, progress, season, options, settings.council.budget_usd):
            open_terminal().print(line)
    return _exit_code(progress, has_all_rows=rows.n == n_in_file)


def _check_options(options: RunOptions, prereg: Path | None) -> None:
    """Raise UsageError for options that cannot be combined."""
    if options.until:
        check_until(options.until, options)
    elif options.suite or prereg is not None:
        name = "--suite" if options.suite else "--prereg"
        raise UsageError(f"{name} can only be used with --until.", hint="Add --until decided.")
    if options.season and not options.resume:
        raise UsageError(
            "--season continues a season, and --no-resume starts a new one.",
            hint="Omit one of them.",
        )


def _exit_code(progress: Progress, *, has_all_rows: bool) -> int:
    """Return the exit code of a season: out of budget, stopped, decided, complete or partial."""
    if progress.out_of_budget:
        return BudgetError.exit_code
    if progress.stopped:
        return INTERRUPTED
    if progress.known:
        return 0
    return 0 if progress.complete and not progress.no_quorum and has_all_rows else PARTIAL


def watch_season(council: Council, rows: SeasonPrompts, options: RunOptions) -> SeasonWatch:
    """Return the object that stops the season."""
    listed = [row for row in rows if options.on in (None, row.category)]
    there = {name for row in rows for name in (row.answers or ())}
    there |= {seat.name for seat in council.settings.seats_that("answer")}
    for side in (options.base, *options.candidate) if options.until == "decided" else ():
        if side not in there:
            raise UsageError(f"there is no seat {shown(side)}.", hint=meant(side, there))
    suite = len({row.query_id for row in listed}) if options.suite else None
    rule = StoppingRule(options.until, options, council.settings.council.own_votes, suite)
    if rule.n_top is not None and rule.n_top >= len(there):
        have = how_many(len(there), "model answers", "models answer")
        raise UsageError(
            f"--until {options.until} would never stop: {have}.",
            hint="K must be smaller than the number of models.",
        )
    counts = count_by_query(row.query_id for row in listed)
    return SeasonWatch(rule, counts, partial(recorded_rubric, council.settings))


def draw_order(
    store: Store, season: Season, rows: SeasonPrompts, watch: SeasonWatch
) -> tuple[SeasonPrompts, Season]:
    """Return the prompts in the order that is drawn from the season's seed, and the season.

    Queries that an earlier run drew come first: they may have been looked at.
    """
    order = read_season_order(store, season.id)
    drawn = sorted(
        rows, key=lambda row: order.key(unit_of(row.id, row.query_id or None), season.seed)
    )
    design = watch.rule.design(order.next_batch, watch.n_repeats)
    return OrderedPrompts(tuple(drawn)), replace(season, design=design, watch=watch)


def _is_unranked_allowed(council: Council, rows: SeasonPrompts) -> bool:
    """Return False if votes can count; if not, ask the user whether to continue, or raise."""
    try:
        council.check_prompts(rows)
    except NoVotesError as error:
        confirm_unranked(error)
        return True
    return False


async def _run_season(
    council: Council,
    name: str,
    rows: SeasonPrompts,
    progress: Progress,
    options: RunOptions,
    quiet: bool,
    watch: SeasonWatch | None = None,
) -> Season:
    """Run the season and show its progress; `progress` has the counts even if interrupted."""
    stop = asyncio.Event()
    async with council:
        season = _season(council, name, options)
        keep_season_name(council.store, season.id, name, time.time())
        if watch is not None:
            rows, season = draw_order(council.store, season, rows, watch)
        if season.changed:
            names = ", ".join(season.changed)
            say(f"a new season of this file starts, because these seats have changed: {names}.")
        with (
            _interrupts(stop, options.batch),
            _watch(progress, quiet) as on_change,
            suppress(asyncio.CancelledError),  # the second Ctrl-C: all replies so far are stored
        ):
            await council.run_season(
                season,
                rows,
                concurrency=options.concurrency,
                progress=progress,
                on_change=on_change,
                stop=stop,
                batch=options.batch,
            )
    progress.stopped = progress.stopped or (stop.is_set() and not progress.complete)
    return season


def _season(council: Council, name: str, options: RunOptions) -> Season:
    """Return the season with the id in the options, or else the one with this name."""
    if options.season:
        return council.begun_season(options.season)
    return council.season(name, keep=not options.dry_run)


async def _estimate(
    council: Council, name: str, rows: SeasonPrompts, options: RunOptions
) -> SeasonEstimate:
    """Return the estimated calls of the season; no model is called and nothing is written."""
    async with council:
        council.check_prompts(rows)
        season = _season(council, name, options)
        estimate = await estimate_season(
            season, rows, council.store, council.settings.seats, in_batches=options.batch
        )
        estimate.progress.earlier_cost_usd, _ = season_cost(council.store, season.id)
        return estimate


def show_estimate(council: Council, estimate: SeasonEstimate, common: Common) -> None:
    """Print the calls that are left to make and their cost, or their JSON."""
    budget_usd, progress = council.settings.council.budget_usd, estimate.progress
    if common.json:
        write_json({**estimate.document(), "budget_usd": budget_usd})
        return
    console = open_terminal()
    todo = progress.total - progress.reused
    grows = f", {progress.extended} of them for new seats" if progress.extended else ""
    sessions = how_many(progress.total, "session")
    console.print(f"{todo} of {sessions} to run{grows}: {how_many(estimate.n_calls, 'call')}.")
    console.show_table(estimate_table(estimate))
    rest = " for the calls with a price" if estimate.n_unpriced else ""
    at_most = f", at most ${estimate.at_most_usd:.4f}{rest}" if estimate.at_most_usd else ""
    console.print(f"Estimate: {money(estimate.cost_usd, estimate.n_unpriced)}{at_most}.")
    if progress.earlier_cost_usd:
        console.print(f"Earlier runs of this season have cost ${progress.earlier_cost_usd:.4f}.")
    if budget_usd is not None:
        left = budget_usd - progress.earlier_cost_usd
        console.print(f"The budget is ${budget_usd:.4f}; ${max(0.0, left):.4f} of it is left.")
    console.print("No model was called, and nothing was written.")


def estimate_table(estimate: SeasonEstimate) -> TextTable:
    """Return the calls of each seat, with their approximate cost."""
    commits = any(seat.calls["commit"] for seat in estimate.seats)
    heads = ("answers", *(["own answers"] if commits else []), "reviews", "verdicts")
    names = ("answer", *(["commit"] if commits else []), "review", "conclude")
    counts = (TableColumn(head, use=2) for head in heads)
    tokens = (TableColumn("tokens in", use=3), TableColumn("tokens out", use=4))
    costs = (TableColumn("about"), TableColumn("at most", use=1))
    table = TextTable(TableColumn("seat", "name"), *counts, *tokens, *costs, title="calls to make")
    for seat in estimate.seats:
        row = seat.document()
        stages = [str(seat.calls[stage]) for stage in names]
        prices = [
            "unpriced" if row[key] is None else f"${row[key]:.4f}"
            for key in ("cost_usd", "at_most_usd")
        ]
        sizes = [f"{row[key]:,}" for key in ("tokens_in", "tokens_out")]
        table.add(row["seat"], *stages, *sizes, *prices)
    return table


@contextmanager
def _interrupts(stop: asyncio.Event, batch: bool) -> Iterator[None]:
    """Stop before the next session at the first Ctrl-C, and immediately at the second."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def interrupt() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
            return
        stop.set()
        say(LEAVE_BATCHES if batch else LEAVE)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _watch(progress: Progress, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show progress on stderr: a bar on a terminal, a line now and then elsewhere."""
    if quiet:
        yield lambda: None
        return
    began = time.monotonic()
    console = open_terminal(stderr=True)
    write_batches = _batch_writer(progress)

    def write_state() -> None:
        state, rate = _state(progress, began)
        eta = f", about {(progress.total - progress.done) / rate:.0f} s to go" if rate else ""
        sessions = how_many(progress.total, "session")
        write_line(f"{progress.done} of {sessions}, {state}{eta}", to_stderr=True)

    if not console.is_terminal:
        yield _both(write_batches, _every(PLAIN_LINE_EVERY_S, write_state))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    state_column, counts = "{task.fields[state]}", (BarColumn(), MofNCompleteColumn())
    bar = console.progress("sessions", *counts, state_column, TimeRemainingColumn())
    task = bar.add_task("", total=progress.total, state="")

    def show() -> None:
        state, _ = _state(progress, began)
        bar.update(task, completed=progress.done, state=state)

    with bar:
        try:
            yield _both(write_batches, _every(REFRESH_S, show))
        finally:
            show()


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call_both() -> None:
        first()
        second()

    return call_both


def _batch_writer(progress: Progress) -> Callable[[], None]:
    """Return a function that writes a line for each batch that is sent or changes its status."""
    status_by_name: dict[str, str] = {}

    def write_changes() -> None:
        for name, waiting in progress.batches.items():
            if waiting.batch and status_by_name.get(name) != waiting.status:
                status_by_name[name] = waiting.status
                write_line(str(waiting), to_stderr=True)

    return write_changes


def _every(interval_s: float, show: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls another at most once per interval."""
    last = time.monotonic()

    def show_rarely() -> None:
        nonlocal last
        if time.monotonic() - last >= interval_s:
            last = time.monotonic()
            show()

    return show_rarely


def _state(progress: Progress, began: float) -> tuple[str, float]:
    """Return a line on running sessions and cost, and the number of sessions per second."""
    rate = (progress.done - progress.reused) / max(1e-9, time.monotonic() - began)
    waits = f"{progress.elsewhere} in another process, " if progress.elsewhere else ""
    failed = how_many(progress.failures.total(), "call")
    cost = money(progress.cost_usd, progress.unpriced_calls)
    n_batches = sum(bool(one.batch) for one in progress.batches.values())
    waits += f"{how_many(n_batches, 'batch waits', 'batches wait')}, " if n_batches else ""
    state = f"{waits}{progress.in_flight} running, {failed} failed"
    return f"{state}, {rate:.1f}/s, {cost}", rate


def summary(progress: Progress, season: Season) -> dict[str, Any]:
    """Return the outcome of the season as plain JSON values."""
    return {
        "season": season.id,
        "sessions": progress.total,
        "finished": progress.done,
        "reused": progress.reused,
        "extended": progress.extended,
        "no_quorum": len(progress.no_quorum),
        "sessions_without_quorum": progress.no_quorum,
        "calls": progress.calls,
        "cost_usd": progress.cost_usd,
        "unpriced_calls": progress.unpriced_calls,
        "earlier_cost_usd": progress.earlier_cost_usd,
        "failures": [
            {"seat": seat, "stage": stage, "kind": kind, "n": n}
            for (seat, stage, kind), n in sorted(progress.failures.items())
        ],
        "in_another_process": progress.elsewhere,
        "unreadable": dict(progress.unreadable),
        "out_of_budget": progress.out_of_budget or None,
        "interrupted": progress.stopped,
        "known": progress.known or None,
        "batch_notes": list(progress.batch_notes),
    }


def _show(progress: Progress, season: Season) -> None:
    console = open_terminal()
    again = f" ({progress.reused} by other runs)" if progress.reused else ""
    finished = f"{progress.done} of {how_many(progress.total, 'session')} finished{again}"
    calls, cost = (
        how_many(progress.calls, "call"),
        money(progress.cost_usd, progress.unpriced_calls),
    )
    console.print(f"season {season.id}: {finished}, {calls}, {cost}.")
    if progress.known:
        console.print(
            f"Stopped early, because the result is known: {progress.known}.", style="bold"
        )
    if progress.extended:
        console.print(f"{progress.extended} were extended by new seats.")
    if progress.earlier_cost_usd:
        console.print(f"Earlier runs of this season cost ${progress.earlier_cost_usd:.4f}.")
    if progress.no_quorum:
        console.print(
            f"{len(progress.no_quorum)} without a quorum: too few seats answered. Their answers "
            f"are stored: peerage show {few(progress.no_quorum, N_SESSIONS_SHOWN)}",
            style="red",
        )
    if progress.failures:
        console.show_table(failures_table(progress))
    for note in progress.batch_notes[:N_NOTES_SHOWN]:
        console.print(f"{note[0].upper()}{note[1:]}.")
    if progress.elsewhere:
        sessions = how_many(progress.elsewhere, "session is", "sessions are")
        console.print(f"{sessions} being run by another process.")
    for session_id, reason in progress.unreadable.items():
        console.print(f"Skipped {session_id}: {reason}", style="red")
    if progress.out_of_budget:
        console.print(f"Stopped: {progress.out_of_budget}", style="red")


def go_on_line(
    prompts: Path,
    progress: Progress,
    season: Season,
    options: RunOptions,
    budget_usd: float | None,
) -> str:
    """Return the command that continues an incomplete season, or an empty text."""
    n_left = progress.total - progress.done - len(progress.unreadable)
    if not n_left or progress.known:
        return ""
    same = options.resume and not options.season
    command = "the same command" if same else f"peerage run {prompts} --season {season.id}"
    if not progress.out_of_budget:
        return f"To continue: {command}."
    spent = progress.earlier_cost_usd + progress.cost_usd
    least = math.ceil(max(budget_usd or 0.0, spent + progress.needs_usd) * 10_000) / 10_000
    n_paid = progress.done - progress.reused
    each = progress.cost_usd / n_paid if n_paid else None
    about = f" The {how_many(n_left, 'session')} left may take " if each else ""
    if each:
        total = spent + n_left * each
        about += f"about ${n_left * each:.4f} more, ${total:.4f} in all."
    return f"To continue: {command}, with --budget-usd above ${least:.4f}.{about}"


def failures_table(progress: Progress) -> TextTable:
    """Return the failed calls of a season, the most frequent first."""
    heads = (TableColumn("seat", "name"), TableColumn("stage", "word"), TableColumn("kind", "word"))
    table = TextTable(*heads, TableColumn("n"), title="calls that failed")
    for (seat, stage, kind), n in progress.failures.most_common():
        table.add(seat, stage, kind, str(n))
    return table
